//! What the server was told of a hold's count, and who waits for that. Made for the first nested acquisition of a hold.

use std::collections::VecDeque;

use super::{
    super::{
        deadline::{Instant, LeaseRequest, soonest},
        env::{Env, one_more},
        id::{CommandId, Id},
        wish::Patience,
    },
    queue::Waiting,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counting<W> {
    /// The count on the server as far as answers told. `None` while one is missing.
    pub(crate) told: Option<u32>,
    /// The command in flight: one at a time.
    pub(crate) command: Option<CountCommand<W>>,
    /// Acquisitions under way: one after the other is asked for, but for those that rest.
    pub(crate) nested: VecDeque<Nested<W>>,
    /// A ticket that had no guard was unlocked, and the server may not know of it.
    pub(crate) unlocked: bool,
    /// Tickets ended with so many remaining, and these wait for the server to know.
    pub(crate) telling: Vec<(W, u32)>,
    /// Counts that were told in vain, one after the other.
    pub(crate) faults: u8,
    /// The pause after such a fault is over then.
    pub(crate) again: Option<Instant>,
}

/// An owner that holds, and asks for one more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nested<W> {
    pub(crate) who: Waiting<W>,
    pub(crate) since: Instant,
    /// It was asked for, where the server was heard last before that.
    heard: Option<Instant>,
    faults: u8,
    /// The pause after a fault is over then.
    again: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountCommand<W> {
    pub(crate) id: CommandId,
    /// What was known before it.
    pub(crate) before: Option<u32>,
    pub(crate) what: CountChange<W>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CountChange<W> {
    /// The acquire of this acquisition, which may be over by now.
    Up { id: Id, request: LeaseRequest },
    /// A release to what remains, for those who wait.
    Down { waiters: Vec<(W, u32)> },
}

impl<W> Default for Counting<W> {
    fn default() -> Self {
        Self {
            told: Some(1),
            command: None,
            nested: VecDeque::new(),
            unlocked: false,
            telling: Vec::new(),
            faults: 0,
            again: None,
        }
    }
}

impl<W> Counting<W> {
    pub(crate) fn pending(&self) -> u32 {
        u32::try_from(self.nested.len()).unwrap_or(u32::MAX)
    }

    /// No command is under way or to come.
    #[cfg(any(test, relatch_explore))]
    pub(crate) fn is_quiet(&self) -> bool {
        self.command.is_none() && self.again.is_none() && self.nested.is_empty() && self.telling.is_empty()
    }

    pub(crate) fn nests(&self, id: Id) -> bool {
        self.nested.iter().any(|nested| nested.who.id == id)
    }

    /// Everybody who still waits for the server to know a count, with what remained for them.
    pub(crate) fn take_waiters(&mut self) -> Vec<(W, u32)> {
        let mut waiters = std::mem::take(&mut self.telling);
        if let Some(CountCommand { what: CountChange::Down { waiters: told }, .. }) = self.command.take() {
            waiters.extend(told);
        }
        waiters
    }

    /// The nested acquisitions, the newest first.
    pub(crate) fn take_nested(&mut self) -> impl Iterator<Item = Waiting<W>> {
        std::mem::take(&mut self.nested).into_iter().rev().map(|nested| nested.who)
    }

    /// The next of the nested acquisitions that does not rest.
    pub(crate) fn next_nested(&mut self, now: Instant) -> Option<&mut Nested<W>> {
        self.nested.iter_mut().find(|nested| nested.again.is_none_or(|again| again <= now))
    }

    pub(crate) fn nested(&mut self, id: Id) -> Option<&mut Nested<W>> {
        self.nested.iter_mut().find(|nested| nested.who.id == id)
    }

    pub(crate) fn take(&mut self, id: Id) -> Option<Nested<W>> {
        let at = self.nested.iter().position(|nested| nested.who.id == id)?;
        self.nested.remove(at)
    }

    /// One whose wait is over.
    pub(crate) fn take_over(&mut self, env: &Env<'_>) -> Option<Nested<W>> {
        let is_over = |nested: &Nested<W>| nested.ends(self.sent(nested), env).is_some_and(|ends| ends <= env.now);
        let at = self.nested.iter().position(is_over)?;
        self.nested.remove(at)
    }

    /// When what is asked for on behalf of this one was sent.
    fn sent(&self, nested: &Nested<W>) -> Option<Instant> {
        let what = self.command.as_ref().map(|command| &command.what);
        if let Some(CountChange::Up { id, request }) = what {
            (nested.who.id == *id).then_some(request.sent)
        } else {
            None
        }
    }

    /// When something is to be done about it.
    pub(crate) fn due(&self, env: &Env<'_>) -> Option<Instant> {
        let rests = self.nested.iter().filter_map(|nested| nested.again);
        let again = rests.chain(self.again).min().filter(|_| self.command.is_none());
        let ends = self.nested.iter().filter_map(|nested| nested.ends(self.sent(nested), env)).min();
        soonest([again, ends])
    }
}

impl<W> Nested<W> {
    pub(crate) fn new(who: Waiting<W>, now: Instant) -> Self {
        Self { who, since: now, heard: None, faults: 0, again: None }
    }

    /// It is asked for. The time that it stood in line does not count where it waits for ever.
    pub(crate) fn is_asked_for(&mut self, last_answer: Instant) {
        self.again = None;
        self.heard.get_or_insert(last_answer.max(self.since));
    }

    /// It had no answer that counts, and rests before it is asked for again: false where its wait is over by then.
    pub(crate) fn rests(&mut self, env: &Env<'_>) -> bool {
        let pauses = env.settings.pauses;
        let again = env.now + env.pause(pauses, self.faults);
        self.faults = one_more(pauses, self.faults);
        self.again = Some(again);
        self.asks_until(env).is_some_and(|end| again < end)
    }

    /// From then on it is not asked for any more: `None` where one answer is enough.
    fn asks_until(&self, env: &Env<'_>) -> Option<Instant> {
        match self.who.wish.patience {
            Patience::Once => None,
            Patience::Until(until) | Patience::OnceBy(until) => Some(until),
            Patience::ForEver => Some(self.heard.unwrap_or(self.since) + env.settings.unreachable_after),
        }
    }

    /// When it gives up, if what is asked for on its behalf left at `sent`. Whoever stands in line goes on for as long as the
    /// server answers anybody: it has the lock already, and what is missing is an answer.
    fn ends(&self, sent: Option<Instant>, env: &Env<'_>) -> Option<Instant> {
        let heard = self.since.max(env.server.last_answer());
        match (sent, self.who.wish.patience) {
            // Its command has an end of its own.
            (_, Patience::Once) => None,
            (Some(sent), _) => self.asks_until(env).map(|until| env.cut_off_nested(until, sent)),
            // The end of its wait lies behind that of the pause.
            (None, _) if self.again.is_some_and(|again| env.now < again) => None,
            (None, Patience::Until(until) | Patience::OnceBy(until)) => Some(env.cut_off(until, heard)),
            (None, Patience::ForEver) => Some(heard + env.settings.unreachable_after),
        }
    }
}
