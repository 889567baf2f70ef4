//! Beside a command while it runs: signals are passed on, stops are followed, and it is over before its lock is.

use std::{future::pending, io, pin::pin, time::Duration};

use relatch::{Error, JobContext, LockGuard};
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Change, Group, Plan,
    plan::Step,
    signals::{Heard, Signals},
};
use crate::{
    duration, say,
    status::{self, Ended},
};

/// How often is looked whether anybody of a group is left, of which nothing is heard.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

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

/// Waits for the command's end. What is said of it names `what`, as in `lock "a"`.
pub(crate) async fn supervise(
    group: &mut Group,
    held: &Held<'_>,
    plan: &Plan,
    signals: &mut Signals,
    what: &str,
) -> io::Result<Ending> {
    let mut lost = pin!(held.lost());
    let (mut course, mut loss) = (Course::Runs, None);
    loop {
        match group.change()? {
            Change::None => {}
            Change::Ended(ended) => return Ok(Ending { ended, for_loss: end_group(group, course).await }),
            Change::WantsTerminal if group.go_on_as_it_wants() => continue,
            Change::Stopped | Change::WantsTerminal => {
                group.stop_too();
                course = go_on(group, held, plan, course, what, GoesOn::InFront);
                continue;
            }
        }
        let wake_at = match course {
            Course::Runs => match plan.step(held.expires_in()) {
                Step::Nothing => None,
                Step::LookIn(pause) => Some(Instant::now() + pause),
                Step::Term { kill_in } => {
                    let why = why(loss.as_ref(), held, what);
                    course = tell_to_stop(group, kill_in);
                    say::line(&format!("{why}: the command is told to stop"));
                    continue;
                }
                Step::Kill => {
                    let why = why(loss.as_ref(), held, what);
                    course = kill(group);
                    say::line(&format!("{why}: the command is killed"));
                    continue;
                }
            },
            Course::Stops(until) if until <= Instant::now() => {
                course = kill(group);
                continue;
            }
            Course::Stops(until) => Some(until),
            Course::Killed => None,
        };
        tokio::select! {
            biased;
            heard = signals.next() => match heard {
                // The command would not hear it any more.
                Heard::Passed(_) if group.has_ended()? => signals.count_one(),
                Heard::Passed(signal) => group.signal(signal),
                Heard::GoOn => course = go_on(group, held, plan, course, what, GoesOn::Anywhere),
                Heard::Stop => group.signal(Signal::TSTP),
                Heard::Child => {}
            },
            error = &mut lost, if loss.is_none() => {
                if plan.step(None) == Step::Nothing {
                    say::line(&format!("{}: the command goes on", say::chain_of(what, &error)));
                }
                loss = Some(error);
            }
            () = at(wake_at) => {}
        }
    }
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

fn tell_to_stop(group: &Group, kill_in: Duration) -> Course {
    group.signal(Signal::TERM);
    // One that stands still would hear it only when it is too late.
    group.signal(Signal::CONT);
    Course::Stops(Instant::now() + kill_in)
}

fn kill(group: &Group) -> Course {
    group.signal(Signal::KILL);
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

/// Lets go of a command that has ended; of one that was to stop the others of its group as well, by the same time. Whether it was.
async fn end_group(group: &mut Group, course: Course) -> bool {
    group.let_go();
    if let Course::Stops(until) = course {
        while group.leaves_others() && Instant::now() < until {
            sleep(BETWEEN_LOOKS).await;
        }
    }
    if matches!(course, Course::Runs) {
        return false;
    }
    group.kill_others();
    true
}
