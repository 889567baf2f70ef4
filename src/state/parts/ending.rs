//! The ticket that a hold ended with, and who wait for what comes of that.

use super::{
    super::id::{Id, Owner},
    list::Few,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ending<W> {
    pub(crate) id: Option<Id>,
    /// Whose it was, where its guard was given up before: the owner may ask again, who has no id.
    pub(crate) detached_of: Option<Owner>,
    pub(crate) waiters: Few<W>,
}

impl<W> Default for Ending<W> {
    fn default() -> Self {
        Self { id: None, detached_of: None, waiters: Few::None }
    }
}
