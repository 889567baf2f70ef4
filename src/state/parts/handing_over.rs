//! A hold on its way to the head of the local queue, by a command that moves it to a new number.

use std::time::Duration;

use super::{
    super::{
        deadline::{Instant, LeaseRequest},
        id::{CommandId, HoldNumber, Id},
    },
    copies::Lost,
    ending::Ending,
    queue::Waiting,
    subscription::OwnMessage,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandingOver<W> {
    pub(crate) from: HoldNumber,
    pub(crate) to: HoldNumber,
    pub(crate) command: CommandId,
    pub(crate) request: LeaseRequest,
    /// `None` once it waits no more: the answer is awaited all the same.
    pub(crate) successor: Option<Waiting<W>>,
    /// Whose end it is, and who wait for the answer.
    pub(crate) ending: Ending<W>,
    /// How long the server may keep either number, and by how much longer if something runs late.
    pub(crate) lease: Duration,
    pub(crate) late: Duration,
    /// Old copies of the hold's acquire that may run.
    pub(crate) old: Lost,
    /// Of its message, which comes only where the new lease ends sooner.
    pub(crate) own: OwnMessage,
    /// A forced release saw the new number.
    pub(crate) forced: bool,
}

impl<W> HandingOver<W> {
    pub(crate) fn is_for(&self, id: Id) -> bool {
        self.successor.as_ref().is_some_and(|who| who.id == id)
    }

    /// When its successor's wait is over.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.successor.as_ref()?.until()
    }
}
