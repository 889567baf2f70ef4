//! The door: every event of a name comes through [`Name::on`], and what follows from any of them stands there alone.

use super::{
    command::{Answer, Fault},
    cx::Cx,
    deadline::{Instant, soonest},
    effect::{Effect, Share},
    env::Env,
    event::{Event, Heard},
    id::{CommandId, Id},
    name::Name,
    parts::{
        hold::Hold,
        old_copies::OfOldCopy,
        queue::Waiting,
        release::Why,
        subscription::Voice,
        tenant::Tenant,
        ticket::{Guard, Ticket},
        untaken::Untaken,
    },
};

impl<W, S: Share<W>> Name<W, S> {
    /// What happens, and what is to be done about it: pushed to `effects`, in order.
    pub(crate) fn on(&mut self, event: Event<W>, env: &mut Env<'_>, effects: &mut Vec<Effect<W, S>>) {
        let cx = &mut Cx::new(env, effects);
        if let Event::Tick | Event::RenewAlong { .. } = event {
            self.armed = None;
        }
        // Whatever is over by now is over, whoever comes first.
        self.expire(cx);
        match event {
            Event::Ask { id, owner, wish, waiter } => {
                self.ask(Waiting { id, owner, wish, waiter, contended: false }, cx);
            }
            Event::Here { id } => self.here(id, cx),
            Event::Dropped { id } => self.end(id, None, cx),
            Event::Unlock { id, waiter } => self.end(id, Some(waiter), cx),
            Event::Noted { id, note } => self.holds_of(id).for_each(|hold| hold.noted(note)),
            Event::Shown { id } => self.holds_of(id).for_each(|hold| hold.shown = true),
            Event::Detached { id } => self.detach(id),
            Event::Recount { owner, waiter } => self.recount(owner, waiter, cx),
            Event::Extend { id, lease, beyond, waiter } => self.extend(id, lease, beyond, waiter, cx),
            Event::Settle { id, lease, max_hold, since } => self.settle(id, lease, max_hold, since),
            Event::Answered { command, answer } => self.answered(command, answer, cx),
            Event::Granting { command } => self.granting(command),
            Event::Heard(heard) => self.heard(heard, cx),
            Event::Force { seen, waiter } => self.force(&seen, waiter, cx),
            Event::RenewAlong { by } => self.renew_along(by, cx),
            Event::NewEra => self.ask_anew(),
            Event::Tick => self.look(cx),
            Event::Ending => self.wind_down(cx),
            Event::Closed => self.close(cx),
        }
        self.follow(cx);
        debug_assert_eq!(self.check(cx.env), Ok(()));
    }

    /// One that was told it is granted comes for it. False if it ran out meanwhile: then it is told nothing more, and drops its id.
    pub(crate) fn take(&mut self, id: Id, env: &mut Env<'_>, effects: &mut Vec<Effect<W, S>>) -> bool {
        let cx = &mut Cx::new(env, effects);
        self.expire(cx);
        let now = cx.now();
        // Of the server that answers now it is to be asked anew.
        let there = |ticket: &&mut Ticket| ticket.guard != Guard::Outdated;
        let taken = self.tenant.hold_mut().is_some_and(|hold| {
            if hold.ticket(id).filter(there).is_none() {
                return false;
            }
            hold.taken_at(now);
            hold.ticket(id).into_iter().for_each(|ticket| ticket.guard = Guard::Kept);
            true
        });
        if taken {
            self.untaken = Untaken::First;
            // From now on it is renewed.
            self.keep(cx);
        } else {
            // Those who wait have their turn, where it ran out just now.
            self.follow(cx);
        }
        debug_assert_eq!(self.check(cx.env), Ok(()));
        taken
    }

    /// It is one of several, of which some are missing: nobody works under it yet.
    pub(crate) fn gather(&mut self, id: Id) {
        let ticket = self.tenant.hold_mut().and_then(|hold| hold.ticket(id));
        ticket.filter(|ticket| ticket.guard == Guard::Kept).into_iter().for_each(|it| it.guard = Guard::Gathered);
    }

    /// It is given, and nobody comes for it yet: from now on it is not renewed for this one.
    pub(crate) fn offer_again(&mut self, id: Id) {
        let ticket = self.tenant.hold_mut().and_then(|hold| hold.ticket(id));
        let kept = ticket.filter(|ticket| matches!(ticket.guard, Guard::Kept | Guard::Gathered));
        kept.into_iter().for_each(|ticket| ticket.guard = Guard::Offered);
    }

    /// What follows from any event, in this order: the queue's head contends if nobody holds or tries, who sleeps wakes if
    /// the flag is set, a gate opens, the newest count leaves, a renewal leaves, nobody listens for nobody, and the runtime
    /// wakes us in time.
    pub(super) fn follow(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.promote(cx);
        self.wake(cx);
        self.send_count(cx);
        // A count that cannot be asked for any more is the end of its hold.
        self.promote(cx);
        if !self.is_wanted() {
            self.trouble = None;
            if self.subscription.close() {
                cx.unlisten();
            }
        }
        self.keep(cx);
    }

    /// A renewal that is due leaves, and the runtime wakes us in time.
    fn keep(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let mut due = self.renewal_due(cx.env.settings.watchdog);
        if due.is_some_and(|due| due <= cx.now()) {
            self.renew(cx);
            due = self.renewal_due(cx.env.settings.watchdog);
        }
        if let Some(next) = self.next_beside(due, cx.env)
            && self.armed.is_none_or(|armed| next < armed)
        {
            self.armed = Some(next);
            cx.wake_at(next);
        }
    }

    /// Each file that sends knows its own commands.
    fn answered(&mut self, command: CommandId, answer: Result<Answer, Fault>, cx: &mut Cx<'_, '_, W, S>) {
        let theirs = self.tried(command, answer, cx)
            || self.release_answered(command, answer, cx)
            || self.renewed(command, answer, cx)
            || self.counted(command, answer, cx)
            || self.handed_over(command, answer, cx)
            || self.extended(command, answer, cx)
            || self.forced(command, answer, cx);
        if theirs {
            return;
        }
        if let OfOldCopy::Ran { number, lease } = self.old.answered(command, answer, cx)
            && !self.is_released(number)
        {
            self.release(Why::over(number, lease), cx);
        }
    }

    fn heard(&mut self, heard: Heard, cx: &Cx<'_, '_, W, S>) {
        if heard == Heard::Interrupted {
            self.polls_soon(cx);
        }
        if self.subscription.heard(heard) != Some(Voice::Other) {
            return;
        }
        self.slice.heard_other(cx.now(), cx.env.settings);
        // Somebody freed a key that we believe to hold: a forced release is noticed now, not at the next renewal.
        if let Some(hold) = self.tenant.hold_mut() {
            hold.probe = true;
        }
    }

    /// Whoever answers from now on may know nothing of the hold.
    fn ask_anew(&mut self) {
        if let Some(hold) = self.tenant.hold_mut() {
            hold.probe = true;
            if hold.is_offered() {
                hold.tickets.as_mut_slice().iter_mut().for_each(|ticket| ticket.guard = Guard::Outdated);
            }
            if hold.renewal.retry().is_some() {
                hold.renewal.rests();
            }
        }
    }

    /// What was to be done by now.
    fn look(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.look_at_turn(cx);
        self.repeat_releases(cx);
        self.look_at_contender(cx);
        self.look_at_nested(cx);
        self.look_at_hand_over(cx);
        self.look_at_queue(cx);
        let releases = &self.releases;
        self.old.send_due(|number| releases.iter().any(|release| release.names(number)), cx);
        self.forget_lost(cx);
    }

    fn detach(&mut self, id: Id) {
        self.holds_of(id).filter_map(|hold| hold.ticket(id)).for_each(|ticket| ticket.guard = Guard::Detached);
    }

    /// The hold that has this ticket, live or lost.
    fn holds_of(&mut self, id: Id) -> impl Iterator<Item = &mut Hold<W, S>> {
        self.tenant.hold_mut().into_iter().chain(self.lost.iter_mut()).filter(move |hold| hold.has(id))
    }

    /// When something is to be done next, if nothing happens before.
    pub(crate) fn next(&self, env: &Env<'_>) -> Option<Instant> {
        self.next_beside(self.renewal_due(env.settings.watchdog), env)
    }

    /// The same where it is known when the next renewal is due.
    fn next_beside(&self, renewal: Option<Instant>, env: &Env<'_>) -> Option<Instant> {
        let tenant = match &self.tenant {
            Tenant::Nobody => None,
            Tenant::Contender(_) => self.contender_due(env),
            Tenant::HandingOver(going) => going.due(),
            Tenant::Hold(hold) => {
                let counting = hold.counted().and_then(|counting| counting.due(env));
                let untaken = hold.kept_untaken_until(env.settings, self.untaken);
                let after = hold.due_after(env.settings.watchdog, env.now);
                soonest([Some(hold.deadline), hold.bound(), renewal.or(after), counting, untaken])
            }
        };
        let forgotten = self.lost.iter().filter_map(Hold::remembered_until).min();
        let released = self.releases.iter().filter_map(|release| release.again).min();
        soonest([tenant, self.queue.soonest(), released, self.old.next(), forgotten])
    }
}
