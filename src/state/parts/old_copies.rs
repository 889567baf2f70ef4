//! Which acquires may run that nobody wants?
//!
//! Only an acquire makes something of nothing. One that was sent and will never be answered may run late on a free key, and
//! then leaves a hold that nobody believes in. So its number is released again every third of a lease, for one lease and
//! one step more, from when nobody wants it any more. Two things make that needless: its own answer, which may still come, and
//! an answer to what left behind it on the same link, which keeps its order.

use std::time::Duration;

use super::{
    super::{
        command::{Answer, Fault, FaultKind, Note, Verb},
        cx::Cx,
        deadline::Instant,
        effect::LogEvent,
        id::{CommandId, HoldNumber, Link},
    },
    copies::Lost,
    list::ThinVec,
};

/// So many numbers of one name are watched for. One more, and that is forgotten whose watch ends first.
pub(crate) const WATCHED: usize = 64;

/// The numbers whose acquires may run although nobody wants them any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OldCopies(ThinVec<OldCopy>);

/// One number: released every now and then, the last time at `until`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OldCopy {
    number: HoldNumber,
    /// What is said of it while its own release has no answer. Under what an old copy makes after that nothing is done.
    note: Note,
    lost: Lost,
    awaited: Awaited,
    lease: Duration,
    step: Duration,
    /// `None` once the last release left, and where none is needed for now.
    next: Option<Instant>,
    until: Instant,
    /// The release that is on its way.
    asked: Option<CommandId>,
}

/// An answer that ends the matter, to the last of them, which is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Awaited {
    /// None will come.
    None,
    To(CommandId),
    /// To one that takes another way: its release waits for that.
    HoldsBack(CommandId),
}

impl OldCopy {
    /// Since now it may run at any time.
    fn new(number: HoldNumber, lost: Lost, lease: Duration, watchdog: Duration, now: Instant) -> Self {
        let step = lease.min(watchdog) / 3;
        let (next, until) = (Some(now + step), now + lease + step);
        Self { number, note: Note::Unused, lost, awaited: Awaited::None, lease, step, next, until, asked: None }
    }

    fn is_over(&self) -> bool {
        self.next.is_none() && self.asked.is_none() && self.awaited == Awaited::None
    }

    fn awaits(&self, command: CommandId) -> bool {
        [Awaited::To(command), Awaited::HoldsBack(command)].contains(&self.awaited)
    }

    fn holds_back(&self) -> bool {
        matches!(self.awaited, Awaited::HoldsBack(_))
    }

    /// No release of it is on its way, or waits for an answer first.
    fn may_ask(&self) -> bool {
        self.asked.is_none() && !self.holds_back()
    }
}

/// What an answer to one of them means.
pub(crate) enum OfOldCopy {
    /// It was about none of them.
    None,
    /// It was, and nothing follows.
    Nothing,
    /// The acquire has run, perhaps after its release, or may have: that is needed, or needed once more.
    Ran { number: HoldNumber, lease: Duration },
}

impl OldCopies {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.iter().count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies of its acquire were lost, if any were.
    pub(crate) fn reap(&mut self, number: HoldNumber, lost: Lost, lease: Duration, watchdog: Duration, now: Instant) {
        if lost.is_none() {
            return;
        }
        let before = self.0.take_first(|old| old.number == number).map(|old| old.lost);
        let lost = if before.is_none_or(|before| before == lost) { lost } else { Lost::Anywhere };
        self.watch(OldCopy::new(number, lost, lease, watchdog, now));
    }

    /// The last of them is on its way: what this command is answered ends the matter.
    pub(crate) fn await_answer(&mut self, number: HoldNumber, command: CommandId) {
        self.of(number).for_each(|old| old.awaited = Awaited::To(command));
    }

    /// What is to be said of it from now on, if it is watched for.
    pub(crate) fn say(&mut self, number: HoldNumber, note: Note) {
        self.of(number).for_each(|old| old.note = note);
    }

    /// An acquire that nobody wants any more is on its way, and its release must not overtake it.
    pub(crate) fn hold_back(
        &mut self,
        number: HoldNumber,
        command: CommandId,
        lease: Duration,
        watchdog: Duration,
        now: Instant,
    ) {
        let awaited = Awaited::HoldsBack(command);
        self.0.push(OldCopy { awaited, ..OldCopy::new(number, Lost::Anywhere, lease, watchdog, now) });
    }

    /// Whether a release, and what goes behind that, waits for the answer to one of them.
    pub(crate) fn holds_back(&self) -> bool {
        self.0.iter().any(OldCopy::holds_back)
    }

    #[cfg(any(test, relatch_explore))]
    pub(crate) fn holds_back_release_of(&self, number: HoldNumber) -> bool {
        self.0.iter().any(|old| old.number == number && old.holds_back())
    }

    fn of(&mut self, number: HoldNumber) -> impl Iterator<Item = &mut OldCopy> {
        self.0.iter_mut().filter(move |old| old.number == number)
    }

    fn watch(&mut self, old: OldCopy) {
        self.0.push(old);
        if self.watched().count() > WATCHED
            && let Some((_, first)) = self.watched().min_by_key(|(until, _)| *until)
        {
            self.forget(first);
        }
    }

    /// Those that are watched for, and until when. What a release waits for is not to be forgotten.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (Instant, HoldNumber)> {
        self.0.iter().filter(|old| !old.holds_back()).map(|old| (old.until, old.number))
    }

    /// There is no room for it among those of all names.
    pub(crate) fn forget(&mut self, number: HoldNumber) {
        self.0.retain(|old| old.number != number);
    }

    /// What was sent behind them on this link was answered: those that left on it have run.
    pub(crate) fn have_run(&mut self, number: HoldNumber, link: Link) {
        let its = self.of(number).filter(|old| old.lost == Lost::On(link));
        its.for_each(|old| (old.lost, old.next) = (Lost::None, None));
        self.0.retain(|old| !old.is_over());
    }

    /// Whether this is the release of one of them.
    pub(crate) fn asks(&self, command: CommandId) -> bool {
        self.0.iter().any(|old| old.asked == Some(command))
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.iter().filter(|old| old.may_ask()).filter_map(|old| old.next).min()
    }

    /// Sends the releases that are due, and those that would be within half a step: one round for many. A number that is being
    /// released anyhow needs no help.
    pub(crate) fn send_due<W, S>(&mut self, is_released: impl Fn(HoldNumber) -> bool, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        if self.next().is_none_or(|next| now < next) {
            return;
        }
        self.0.retain(|old| {
            if !old.may_ask() || old.next.is_none_or(|due| now + old.step / 2 < due) {
                return true;
            }
            old.next = (now < old.until).then(|| (now + old.step).min(old.until));
            if !is_released(old.number) {
                old.asked = Some(cx.send(old.number, Verb::Release { holds: 0, note: old.note }));
            }
            !old.is_over()
        });
    }

    pub(crate) fn answered<W, S>(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> OfOldCopy {
        if let Some(old) = self.0.take_first(|old| old.awaits(command)) {
            return self.came(old, answer, cx);
        }
        let its = self.0.as_mut_slice().iter_mut().find(|old| old.asked == Some(command));
        let Some(old) = its else { return OfOldCopy::None };
        old.asked = None;
        // What its own release would have said, which had no answer, is no news.
        if old.note == Note::Unused && matches!(answer, Ok(Answer::Released { .. })) {
            cx.log(LogEvent::ReapedOldCopy(old.number));
        }
        self.0.retain(|old| !old.is_over());
        OfOldCopy::Nothing
    }

    /// The answer to an acquire that nobody wanted any more.
    fn came<W, S>(&mut self, mut old: OldCopy, answer: Result<Answer, Fault>, cx: &Cx<'_, '_, W, S>) -> OfOldCopy {
        let (number, lease, now) = (old.number, old.lease, cx.now());
        match answer {
            Ok(Answer::Granted { .. } | Answer::Split { .. }) | Err(Fault { kind: FaultKind::TooFewReplicas, .. }) => {
                OfOldCopy::Ran { number, lease }
            }
            // What it held back leaves now. It is looked for since it was given up.
            Err(Fault { may_have_run: true, .. }) if old.holds_back() => {
                self.reap(number, Lost::Anywhere, lease, cx.env.settings.watchdog, now);
                let next = old.next.filter(|next| now < *next);
                self.of(number).for_each(|old| old.next = next.or(old.next));
                OfOldCopy::Ran { number, lease }
            }
            Err(Fault { may_have_run: true, .. }) => {
                old.awaited = Awaited::None;
                if !old.is_over() {
                    self.0.push(old);
                }
                OfOldCopy::Nothing
            }
            Ok(_) | Err(_) => OfOldCopy::Nothing,
        }
    }
}
