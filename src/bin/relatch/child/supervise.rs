//! Beside a command while it runs: signals are passed on, stops are followed, and it is over before its lock is.

use std::{future::pending, io, pin::pin, time::Duration};

use relatch::{Error, JobContext, LockGuard};
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::{
    Change, Group, Plan, interrupt,
    plan::Step,
    signals::{Heard, Signals},
    terminal,
};
use crate::{
    duration, say,
    status::{self, Ended, ON_REQUEST},
};

/// What a command runs under.
#[derive(Debug)]
pub(crate) enum Held<'a> {
    Lock(&'a LockGuard),
    Attempt(&'a JobContext),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) ended: Ended,
    /// It was ended since its lock was lost, or about to be.
    pub(crate) for_loss: bool,
}

impl Ending {
    pub(crate) fn is_success(&self) -> bool {
        !self.for_loss && self.ended == Ended::Exited(0)
    }

    /// A command that was ended has no status of its own.
    pub(crate) fn status(&self) -> u8 {
        if self.for_loss { status::LOST } else { self.ended.status() }
    }
}

impl Held<'_> {
    /// How long it is good for unless it is renewed.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        match self {
            Self::Lock(guard) => guard.expires_in(),
            Self::Attempt(context) => context.expires_in(),
        }
    }

    async fn lost(&self) -> Error {
        match self {
            Self::Lock(guard) => guard.lost().await,
            Self::Attempt(context) => context.lost().await,
        }
    }
}

/// What was decided about a command.
#[derive(Clone, Copy, Debug)]
enum Course {
    Runs,
    /// It was told to stop, and has until then.
    Stops(Instant),
    Killed,
}

/// What was left of a group when its command had ended is looked for so often.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// For so long nothing is said of it.
const SILENCE: Duration = Duration::from_secs(1);

/// Signals that were passed on, as far as it matters.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    /// One that ends a command.
    to_end: bool,
    interrupt: bool,
}

/// Waits for the command's end. What is said of it names `what`, as in `lock "a"`.
///
/// One that was told to end may leave others of its group that still tidy up: its end is theirs. So it is with `flock`.
pub(crate) async fn supervise(
    group: &mut Group,
    held: &Held<'_>,
    plan: &Plan,
    signals: &mut Signals,
    what: &str,
) -> io::Result<Ending> {
    let mut lost = pin!(held.lost());
    let (mut course, mut loss, mut passed, mut over) = (Course::Runs, None, Passed::default(), None);
    loop {
        match over {
            Some(Over { ended, .. }) if !waits_for_others(group, course, ended, passed, signals) => {
                let for_loss = !matches!(course, Course::Runs);
                if for_loss {
                    group.signal_all(Signal::KILL);
                }
                return Ok(Ending { ended, for_loss });
            }
            Some(Over { since, is_told: false, ended }) if since.elapsed() >= SILENCE => {
                say::line(&format!("{what} is held until the end of what the command has left at work"));
                over = Some(Over { since, is_told: true, ended });
            }
            Some(_) => {}
            None => match group.change()? {
                Change::None => {}
                Change::Ended(ended) => {
                    let was_in_front = group.let_go();
                    if ended == Ended::Killed(Signal::INT.as_raw()) {
                        interrupt::note(!was_in_front || passed.interrupt);
                    }
                    over = Some(Over { since: Instant::now(), is_told: false, ended });
                    continue;
                }
                Change::WantsTerminal if group.go_on_as_it_wants() => continue,
                Change::Stopped | Change::WantsTerminal => {
                    group.stop_too();
                    course = go_on(group, held, plan, course, what, GoesOn::InFront);
                    continue;
                }
            },
        }
        let wake_at;
        (course, wake_at) = decide(group, held, plan, course, loss.as_ref(), what);
        let look_at = over.map(|_| Instant::now() + BETWEEN_LOOKS);
        tokio::select! {
            biased;
            heard = signals.next() => match heard {
                Heard::Passed(signal) if over.is_some() => {
                    // One that means something else to the command is for those alone who are left of it.
                    if ON_REQUEST.contains(&signal) {
                        signals.count_one();
                    }
                    group.signal_all(signal);
                }
                // The command would not hear it any more.
                Heard::Passed(_) if group.has_ended()? => signals.count_one(),
                Heard::Passed(signal) => {
                    passed.to_end |= ON_REQUEST.contains(&signal);
                    passed.interrupt |= signal == Signal::INT;
                    group.signal(signal);
                }
                Heard::GoOn if over.is_some() => group.signal_all(Signal::CONT),
                Heard::GoOn => course = go_on(group, held, plan, course, what, GoesOn::Anywhere),
                Heard::Stop if over.is_some() => terminal::stop(),
                Heard::Stop => group.signal(Signal::TSTP),
                Heard::Child => group.collect_orphans(),
            },
            error = &mut lost, if loss.is_none() => {
                if plan.step(None) == Step::Nothing {
                    say::line(&format!("{}: the command goes on", say::chain_of(what, &error)));
                }
                loss = Some(error);
            }
            () = at(wake_at) => {}
            () = at(look_at) => {}
        }
    }
}

/// What is done about a command by now, and when that is to be thought over.
fn decide(
    group: &Group,
    held: &Held<'_>,
    plan: &Plan,
    course: Course,
    loss: Option<&Error>,
    what: &str,
) -> (Course, Option<Instant>) {
    match course {
        Course::Runs => match plan.step(held.expires_in()) {
            Step::Nothing => (course, None),
            Step::LookIn(pause) => (course, Some(Instant::now() + pause)),
            Step::Term { kill_in } => {
                let why = why(loss, held, what);
                let until = tell_to_stop(group, kill_in);
                say::line(&format!("{why}: the command is told to stop"));
                (Course::Stops(until), Some(until))
            }
            Step::Kill => {
                let why = why(loss, held, what);
                let course = kill(group);
                say::line(&format!("{why}: the command is killed"));
                (course, None)
            }
        },
        Course::Stops(until) if until <= Instant::now() => (kill(group), None),
        Course::Stops(until) => (course, Some(until)),
        Course::Killed => (course, None),
    }
}

/// A command that has ended, and was let go.
#[derive(Clone, Copy, Debug)]
struct Over {
    ended: Ended,
    since: Instant,
    /// That others are waited for.
    is_told: bool,
}

/// Whether others of a group are waited for whose command has ended: they were told to end as well, by us or by the terminal.
fn waits_for_others(group: &Group, course: Course, ended: Ended, passed: Passed, signals: &Signals) -> bool {
    let by_signal = match ended {
        Ended::Killed(number) => ON_REQUEST.into_iter().any(|signal| signal.as_raw() == number),
        Ended::Exited(_) => false,
    };
    let waits = match course {
        Course::Runs => (by_signal || passed.to_end) && !signals.is_asked_twice(),
        Course::Stops(until) => Instant::now() < until,
        Course::Killed => false,
    };
    waits && group.leaves_others()
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}

fn why(loss: Option<&Error>, held: &Held<'_>, what: &str) -> String {
    match (loss, held.expires_in()) {
        (Some(error), _) => say::chain_of(what, error),
        (None, Some(left)) => format!("{what} ends in {}", duration::shown(left)),
        (None, None) => format!("{what} was lost"),
    }
}

fn tell_to_stop(group: &Group, kill_in: Duration) -> Instant {
    group.signal_all(Signal::TERM);
    // One that stands still would hear it only when it is too late.
    group.signal_all(Signal::CONT);
    Instant::now() + kill_in
}

fn kill(group: &Group) -> Course {
    group.signal_all(Signal::KILL);
    Course::Killed
}

/// Where a command that stood still may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoesOn {
    /// At the terminal alone: in the background it might stop again for want of that at once.
    InFront,
    Anywhere,
}

/// Lets a command that stood still go on, unless its lock was lost meanwhile: then somebody else may be at work.
fn go_on(group: &mut Group, held: &Held<'_>, plan: &Plan, course: Course, what: &str, goes: GoesOn) -> Course {
    let left = held.expires_in();
    if left.is_none() && matches!(course, Course::Runs) && plan.step(left) != Step::Nothing {
        let course = kill(group);
        say::line(&format!("{what} was lost while the command stood still: it is killed"));
        return course;
    }
    match goes {
        GoesOn::Anywhere => group.go_on(),
        GoesOn::InFront => drop(group.go_on_in_front()),
    }
    course
}
