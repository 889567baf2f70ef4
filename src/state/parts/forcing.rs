//! A forced release on its way: one step for each hold that was seen.

use super::{super::id::CommandId, list::OneOrMany, slice::Turn, subscription::OwnMessage};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Forcing<W> {
    /// The steps that are not answered.
    pub(crate) commands: OneOrMany<CommandId>,
    pub(crate) waiter: W,
    /// The step that is for a hold of this process, if one is.
    pub(crate) ours: Option<ForcedOut>,
    /// Whether one of them freed something, by the answers so far.
    pub(crate) freed: bool,
}

/// A hold of this process that is forced out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ForcedOut {
    pub(crate) command: CommandId,
    pub(crate) turn: Turn,
    pub(crate) own: OwnMessage,
}
