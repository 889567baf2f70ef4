//! May a copy of a command still run? And which acquires may that nobody wants.
//!
//! Only an acquire makes something of nothing. One that was sent and will never be answered may run late on a free key, and
//! then leaves a hold that nobody believes in. So its number is released again every third of a lease, for one lease and
//! one step more. Two things make that needless: its own answer, which may still come, and an answer to what left behind it
//! on the same link, which keeps its order.

use std::time::Duration;

use super::{
    super::{
        command::{Answer, Fault, Note, Verb},
        cx::Cx,
        deadline::Instant,
        effect::LogEvent,
        id::{CommandId, HoldNumber, Link},
    },
    list::Seldom,
};

/// So many numbers of one name are watched for. One more, and that is forgotten whose watch ends first.
const WATCHED: usize = 64;

/// Copies that left and will never be answered: they may run whenever they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Lost {
    #[default]
    None,
    /// All of them left on this link.
    On(Link),
    Anywhere,
}

impl Lost {
    pub(crate) fn is_none(self) -> bool {
        self == Self::None
    }

    fn add(&mut self, link: Link) {
        *self = match *self {
            Self::None => Self::On(link),
            Self::On(known) if known == link => Self::On(link),
            Self::On(_) | Self::Anywhere => Self::Anywhere,
        };
    }
}

/// The copies of one command. One may be lost while another is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Copies {
    /// One is on its way on this link: what is sent on it later runs later.
    on: Option<Link>,
    lost: Lost,
}

impl Copies {
    /// One more is to leave. The answer of one before it may come or not, and is not waited for.
    pub(crate) fn sent(&mut self, link: Link) {
        if let Some(before) = self.on.replace(link) {
            self.lost.add(before);
        }
    }

    /// The one that was to leave leaves now, perhaps on another link than it was meant for.
    pub(crate) fn leaves(&mut self, link: Link) {
        self.on = Some(link);
    }

    /// The one on its way was answered: on which link it was.
    pub(crate) fn answered(&mut self) -> Option<Link> {
        self.on.take()
    }

    pub(crate) fn unanswered(&mut self, fault: Fault) {
        if let Some(link) = self.on.take().filter(|_| fault.may_have_run) {
            self.lost.add(link);
        }
    }

    pub(crate) fn is_on(self, link: Link) -> bool {
        self.on == Some(link)
    }

    pub(crate) fn lost(self) -> Lost {
        self.lost
    }
}

/// The numbers whose acquires may run although nobody wants them any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OldCopies(Seldom<OldCopy>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OldCopy {
    number: HoldNumber,
    lease: Duration,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// On its way: the answer to this command ends the matter.
    Awaited(CommandId),
    /// Lost: released every now and then, the last time at `until`.
    Reaped {
        lost: Lost,
        step: Duration,
        /// `None` once the last release left.
        next: Option<Instant>,
        until: Instant,
        /// The release that is on its way.
        asked: Option<CommandId>,
    },
}

/// What an answer to one of them means.
pub(crate) enum OfOldCopy {
    /// It was about none of them.
    None,
    /// It was, and nothing follows.
    Nothing,
    /// The acquire has run, perhaps after its release: that is needed once more.
    Ran { number: HoldNumber, lease: Duration },
}

impl OldCopies {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An acquire that nobody wants any more is on its way.
    pub(crate) fn await_answer(&mut self, number: HoldNumber, command: CommandId, lease: Duration) {
        self.0.push(OldCopy { number, lease, stage: Stage::Awaited(command) });
    }

    /// Copies of its acquire were lost, if any were.
    pub(crate) fn reap(&mut self, number: HoldNumber, lost: Lost, lease: Duration, watchdog: Duration, now: Instant) {
        if lost.is_none() {
            return;
        }
        let before = self.0.take_first(|old| old.number == number).and_then(|old| match old.stage {
            Stage::Reaped { lost, .. } => Some(lost),
            Stage::Awaited(_) => None,
        });
        let lost = if before.is_none_or(|before| before == lost) { lost } else { Lost::Anywhere };
        let step = lease.min(watchdog) / 3;
        let stage = Stage::Reaped { lost, step, next: Some(now + step), until: now + lease + step, asked: None };
        self.0.push(OldCopy { number, lease, stage });
        if self.0.len() > WATCHED {
            let until = |old: &OldCopy| match old.stage {
                Stage::Reaped { until, .. } => Some(until),
                Stage::Awaited(_) => None,
            };
            let first = self.0.iter().filter_map(until).min();
            self.0.take_first(|old| until(old) == first);
        }
    }

    /// What was sent behind them on this link was answered: those that left on it have run.
    pub(crate) fn have_run(&mut self, number: HoldNumber, link: Link) {
        let over = |old: &OldCopy| matches!(old.stage, Stage::Reaped { lost, .. } if lost == Lost::On(link));
        self.0.retain(|old| old.number != number || !over(old));
    }

    /// Whether this is the release of one of them.
    pub(crate) fn asks(&self, command: CommandId) -> bool {
        self.0.iter().any(|old| matches!(old.stage, Stage::Reaped { asked, .. } if asked == Some(command)))
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let next = |old: &OldCopy| match old.stage {
            Stage::Reaped { next, asked: None, .. } => next,
            Stage::Awaited(_) | Stage::Reaped { .. } => None,
        };
        self.0.iter().filter_map(next).min()
    }

    /// Sends the releases that are due. A number that is being released anyhow needs no help.
    pub(crate) fn send_due<W, S>(&mut self, is_released: impl Fn(HoldNumber) -> bool, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        self.0.retain(|old| {
            let Stage::Reaped { step, next, until, asked, .. } = &mut old.stage else { return true };
            let Some(due) = next.filter(|due| asked.is_none() && *due <= now) else { return true };
            let is_last = due >= *until;
            *next = (!is_last).then(|| (now + *step).min(*until));
            if is_released(old.number) {
                return !is_last;
            }
            *asked = Some(cx.send(old.number, Verb::Release { holds: 0, note: Note::Unused }));
            true
        });
    }

    pub(crate) fn answered<W, S>(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> OfOldCopy {
        if let Some(old) = self.0.take_first(|old| old.stage == Stage::Awaited(command)) {
            return self.came(&old, answer, cx);
        }
        let mut is_one = false;
        self.0.retain(|old| {
            let Stage::Reaped { next, asked, .. } = &mut old.stage else { return true };
            if *asked != Some(command) {
                return true;
            }
            (is_one, *asked) = (true, None);
            next.is_some()
        });
        if is_one && matches!(answer, Ok(Answer::Released { .. })) {
            cx.log(LogEvent::ReapedOldCopy);
        }
        if is_one { OfOldCopy::Nothing } else { OfOldCopy::None }
    }

    /// The answer to an acquire that nobody wanted any more.
    fn came<W, S>(&mut self, old: &OldCopy, answer: Result<Answer, Fault>, cx: &Cx<'_, '_, W, S>) -> OfOldCopy {
        let &OldCopy { number, lease, .. } = old;
        match answer {
            Ok(Answer::Granted { .. }) => OfOldCopy::Ran { number, lease },
            Err(Fault { may_have_run: true, .. }) => {
                self.reap(number, Lost::Anywhere, lease, cx.env.settings.watchdog, cx.now());
                OfOldCopy::Nothing
            }
            Ok(_) | Err(_) => OfOldCopy::Nothing,
        }
    }
}
