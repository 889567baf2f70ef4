//! Letting go: what was decided is final, is sent at once, is repeated until it is answered or its lease is over, and goes out
//! before any try of this process. Which way a hold ends is decided in `end.rs` and `loss.rs`.

use super::{
    command::{Answer, Fault, Note, Published},
    cx::Cx,
    effect::{Cause, LogEvent, Share, Told},
    env::one_more,
    id::CommandId,
    name::Name,
    parts::{
        copies::Copies,
        ending::{EndedBy, Ending},
        release::{Release, Why},
        releases::Unclaimed,
        slice::{Listeners, Turn},
        subscription::OwnMessage,
    },
};

/// So many releases of one name may be unanswered before its next try waits for an answer.
const UNANSWERED: usize = 64;

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn release(&mut self, why: Why<W>, cx: &mut Cx<'_, '_, W, S>) {
        self.slice.released(cx.now(), why.turn);
        self.let_go(why, cx);
    }

    /// The same of what was no hold: nobody's turn ends with it.
    pub(crate) fn let_go(&mut self, why: Why<W>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        self.old.reap(why.number, why.old, why.lease, cx.env.settings.watchdog, now);
        self.old.say(why.number, why.note);
        self.queue.shrink();
        // Who sleeps already, while a lost hold is let go of, has no timer that stands for the flag.
        if why.turn == Turn::Yield && !self.tenant.contends() {
            self.subscription.clear_flag();
        }
        let own = self.subscription.expect_own();
        let mut release = Release::new(why, own, now);
        release.send(cx);
        self.releases.push(release);
    }

    /// Whether what is sent from now on may come after them all. Of an abandoned hand-over that is true once its second half
    /// is on its way.
    pub(crate) fn releases_may_be_followed(&self) -> bool {
        self.releases.len() < UNANSWERED && self.releases.iter().all(|release| release.then.is_none())
    }

    /// A try is about to leave: whatever is not on its way on the same link goes before it.
    pub(crate) fn send_releases(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let link = cx.env.server.link();
        self.releases.iter_mut().filter(|release| !release.copies.is_on(link)).for_each(|release| release.send(cx));
    }

    /// Those whose pause after a fault is over.
    pub(crate) fn repeat_releases(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let is_due = |release: &&mut Release<W>| release.again.is_some_and(|again| again <= now);
        self.releases.iter_mut().filter(is_due).for_each(|release| release.send(cx));
    }

    /// Whether the answer was for one of them.
    pub(crate) fn release_answered(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> bool {
        let found = self.releases.iter_mut().enumerate().find(|(_, release)| release.command == Some(command));
        let Some((at, release)) = found else { return false };
        release.command = None;
        match answer {
            Ok(answer) => self.released(at, answer, cx),
            Err(fault) => {
                release.copies.unanswered(fault);
                release.ending.take_of_one().for_each(|waiter| cx.fail(waiter, fault.into()));
                let later = &mut release.ending.later;
                if fault.kind.heals() && cx.now() < release.until {
                    release.again = Some(cx.now() + cx.env.pause(cx.env.settings.pauses, release.faults));
                    release.faults = one_more(cx.env.settings.pauses, release.faults);
                } else {
                    later.take().for_each(|waiter| cx.fail(waiter, fault.into()));
                    self.give_up_release(at, fault, cx);
                }
            }
        }
        true
    }

    fn released(&mut self, at: usize, answer: Answer, cx: &mut Cx<'_, '_, W, S>) {
        let Some(release) = self.releases.as_mut_slice().get_mut(at) else { return };
        // A link keeps its order: what left before it on the same one has run.
        if let Some(link) = release.copies.answered().filter(|link| *link == cx.env.server.link()) {
            self.old.have_run(release.number, link);
        }
        let ran_before = !release.copies.lost().is_none();
        let (freed, published) = match answer {
            Answer::Released { published, .. } => (true, published != Published::No),
            _ => (false, ran_before),
        };
        if let Some(then) = release.then.take() {
            if freed {
                // The hand-over that it undoes never ran.
                self.subscription.unexpect(release.moved_own);
            }
            if freed && published {
                // The message that was expected is the first half's: the second may publish one of its own.
                release.own = self.subscription.expect_own();
            }
            release.needless = freed || ran_before;
            (release.number, release.copies, release.moved_own) = (then, Copies::default(), OwnMessage::None);
            // The hand-over ran by now, or never will.
            release.until = release.until.min(cx.now() + release.lease);
            return release.send(cx);
        }
        let Some(mut release) = self.releases.take(at) else { return };
        self.old.say(release.number, Note::Unused);
        if !published {
            self.subscription.unexpect(release.own);
        }
        let may_be_missing = ran_before || release.needless;
        let listeners = match answer {
            _ if may_be_missing => Listeners::Unknown,
            Answer::Released { published, .. } => self.subscription.others(published, release.own),
            _ => Listeners::Untold,
        };
        match release.turn {
            Turn::Yield if self.was_the_last_turn(at) => {
                self.slice.answered(cx.now(), listeners, cx.env.settings);
            }
            Turn::Yield | Turn::Keep => self.slice.counted(listeners),
        }
        let told = match answer {
            _ if release.ending.freed => Told::Freed,
            Answer::Gone if !may_be_missing => Told::Lost(Cause::Gone),
            Answer::Expired if !may_be_missing => Told::AlreadyExpired,
            _ => Told::Freed,
        };
        self.becomes(&mut release.ending, told, cx);
    }

    /// It is known what became of the end of a hold: who waits is told, and where nobody does that is kept for whoever asks again.
    pub(crate) fn becomes(&mut self, ending: &mut Ending<W>, told: Told<S>, cx: &mut Cx<'_, '_, W, S>) {
        if ending.waiters.is_empty()
            && ending.later.is_empty()
            && let Some(id) =
                ending.may_be_asked_for().filter(|id| self.releases.unclaimed().iter().all(|(of, _)| of != id))
        {
            self.releases.is_unclaimed(id, Unclaimed::Known(told.clone()));
        }
        ending.beside.take().for_each(|waiter| cx.tell(waiter, Told::NotHeld));
        for waiter in ending.take() {
            cx.tell(waiter, told.clone());
            // Whoever was told does not ask again.
            ending.ended_by = EndedBy::Drop;
        }
    }

    /// It will not be answered: its lease ends the hold. What is left of it is for whoever asks again.
    fn give_up_release(&mut self, at: usize, fault: Fault, cx: &mut Cx<'_, '_, W, S>) {
        let Some(mut release) = self.releases.take(at) else { return };
        cx.log(LogEvent::GaveUpRelease(fault));
        if release.copies.lost().is_none() {
            self.subscription.unexpect(release.own);
        }
        if release.turn == Turn::Yield && self.was_the_last_turn(at) {
            self.slice.answered(cx.now(), Listeners::Unknown, cx.env.settings);
        }
        if let Some(id) = release.ending.may_be_asked_for() {
            (release.turn, release.own, release.moved_own) = (Turn::Keep, OwnMessage::None, OwnMessage::None);
            self.releases.is_unclaimed(id, Unclaimed::GivenUp(Box::new(release)));
        }
    }

    /// Somebody asks again for one that was given up.
    pub(crate) fn resume_release(&mut self, mut release: Release<W>, waiter: W, cx: &mut Cx<'_, '_, W, S>) {
        release.ending.waiters.push(waiter);
        release.faults = 0;
        release.own = self.subscription.expect_own();
        release.send(cx);
        self.releases.push(release);
    }

    /// Whether no turn of this process has ended since a release was decided that stood at this place: the cool-down of a
    /// later one waits for its own answer.
    fn was_the_last_turn(&self, at: usize) -> bool {
        self.releases.iter().skip(at).all(|later| later.turn == Turn::Keep)
    }
}
