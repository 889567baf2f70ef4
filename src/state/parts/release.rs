//! A release that was decided and is not answered. Nothing takes it back.

use std::time::Duration;

use super::{
    super::{
        command::{Note, Verb},
        cx::Cx,
        deadline::Instant,
        id::{CommandId, HoldNumber},
    },
    copies::{Copies, Lost},
    ending::Ending,
    slice::Turn,
    subscription::OwnMessage,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Release<W> {
    pub(crate) number: HoldNumber,
    /// An abandoned hand-over is undone in order: this one once `number` is answered.
    pub(crate) then: Option<HoldNumber>,
    /// A message of that hand-over is expected, which never comes if there was still something to undo first.
    pub(crate) moved_own: OwnMessage,
    /// Whose end it is, and who wait for its answer.
    pub(crate) ending: Ending<W>,
    pub(crate) command: Option<CommandId>,
    pub(crate) copies: Copies,
    /// The first half of an abandoned hand-over freed it, or a copy of that half did: there need be nothing left.
    pub(crate) needless: bool,
    pub(crate) turn: Turn,
    pub(crate) own: OwnMessage,
    pub(crate) note: Note,
    pub(crate) lease: Duration,
    /// Nothing of the hold is left on the server after this.
    pub(crate) until: Instant,
    pub(crate) faults: u8,
    pub(crate) again: Option<Instant>,
}

/// What is to be released, and what follows from it.
pub(crate) struct Why<W> {
    pub(crate) number: HoldNumber,
    pub(crate) then: Option<HoldNumber>,
    pub(crate) moved_own: OwnMessage,
    /// So long the server may still keep it, and by so much longer if something runs late.
    pub(crate) lease: Duration,
    pub(crate) late: Duration,
    pub(crate) turn: Turn,
    /// Copies of its acquire that may run later: it is released again for a while.
    pub(crate) old: Lost,
    pub(crate) note: Note,
    pub(crate) ending: Ending<W>,
}

impl<W> Why<W> {
    pub(crate) fn over(number: HoldNumber, lease: Duration) -> Self {
        Self {
            number,
            then: None,
            moved_own: OwnMessage::None,
            lease,
            late: Duration::ZERO,
            turn: Turn::Keep,
            old: Lost::None,
            note: Note::Unused,
            ending: Ending::default(),
        }
    }
}

impl<W> Release<W> {
    pub(crate) fn new(why: Why<W>, own: OwnMessage, now: Instant) -> Self {
        let Why { number, then, moved_own, lease, late, turn, note, ending, old: _ } = why;
        Self {
            number,
            then,
            moved_own,
            ending,
            command: None,
            copies: Copies::default(),
            needless: false,
            turn,
            own,
            note,
            lease,
            until: now + lease + late,
            faults: 0,
            again: None,
        }
    }

    pub(crate) fn names(&self, number: HoldNumber) -> bool {
        self.number == number || self.then == Some(number)
    }

    /// Once more, whatever is on its way.
    pub(crate) fn send<S>(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.again = None;
        self.command = Some(cx.send(self.number, Verb::Release { holds: 0, note: self.note }));
        self.copies.sent(cx.env.server.link());
    }
}
