//! What is kept of a hold that was lost.

use super::super::{deadline::Instant, effect::Cause};

/// What remains of a lost hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Loss {
    pub(crate) cause: Cause,
    pub(crate) remains: Remains,
    /// How long its detached tickets are remembered.
    pub(crate) until: Instant,
}

/// What may still be on the server of a lost hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Remains {
    /// Nothing, or its release was decided.
    Nothing,
    /// Its field: released once, with the last ticket.
    Field,
}
