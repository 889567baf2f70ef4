//! The server: what the scripts do to the one key, as a table. Time is in ticks. `tests/explore` holds it to the scripts.

use std::time::Duration;

use crate::state::{Answer, Published, Verb};

pub(crate) const TICK: Duration = Duration::from_secs(10);

/// What is at the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) number: u64,
    pub(crate) count: u32,
    pub(crate) ttl: u8,
    /// So many ticks no process has answered for it.
    pub(crate) ghost: u8,
}

/// Whom a command tells what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    Nobody,
    /// All that listen: the key is free, or will be sooner than they were told.
    Waiters,
}

/// What is answered once those were told whom the command tells; `publish` tells them, and says how many heard it.
pub(crate) fn told((mut answer, tells): (Answer, Tells), publish: impl FnOnce() -> u32) -> Answer {
    if tells == Tells::Waiters {
        let heard = Published::To(publish());
        if let Answer::Released { published, .. } | Answer::Moved { published, .. } | Answer::Done { published } =
            &mut answer
        {
            *published = heard;
        }
    }
    answer
}

/// A tick passes. Whether the key ends with it.
pub(crate) fn tick(key: &mut Option<Key>) -> bool {
    if let Some(key) = key {
        key.ttl = key.ttl.saturating_sub(1);
    }
    key.take_if(|key| key.ttl == 0).is_some()
}

/// Next to nothing is left of a tick. Whether the key ends now: what ends with the tick has ended already.
pub(crate) fn almost_tick(key: &mut Option<Key>) -> bool {
    key.take_if(|key| key.ttl == 1).is_some()
}

/// Whole ticks of a lease. What begins just before a tick ends just before one.
fn ticks(lease: Duration, late: bool) -> u8 {
    let ticks = (lease.as_nanos() + TICK.as_nanos() / 2) / TICK.as_nanos();
    u8::try_from(ticks).unwrap_or(u8::MAX).saturating_add(u8::from(late))
}

/// Runs a command of the hold with this number. The answer has no count of listeners yet.
pub(crate) fn run(key: &mut Option<Key>, number: u64, verb: Verb, late: bool) -> (Answer, Tells) {
    let fresh = |number, lease| Key { number, count: 1, ttl: ticks(lease, late), ghost: 0 };
    let raise = |key: &mut Key, lease| key.ttl = key.ttl.max(ticks(lease, late));
    let quiet = |answer| (answer, Tells::Nobody);
    let (moved, done) =
        (Answer::Moved { published: Published::No, fence: None }, Answer::Done { published: Published::No });
    let Some(at) = key else {
        // Only a first acquire makes something of nothing.
        return quiet(match verb {
            Verb::Acquire { lease, holds: 1 } => {
                *key = Some(fresh(number, lease));
                Answer::Granted { holds: 1, fence: None }
            }
            _ => Answer::Gone,
        });
    };
    let its = at.number == number;
    match verb {
        Verb::Acquire { lease, holds } if its => {
            at.count = at.count.max(holds);
            raise(at, lease);
            quiet(Answer::Granted { holds: at.count, fence: None })
        }
        Verb::Acquire { .. } => {
            // The tick that is almost over is no time to wait.
            let left = u32::from(at.ttl) - u32::from(late);
            quiet(Answer::Busy { retry_in: Some(left * TICK) })
        }
        Verb::Release { holds: 0, .. } if its => {
            *key = None;
            (Answer::Released { holds: 0, published: Published::No }, Tells::Waiters)
        }
        Verb::Release { holds, .. } if its => {
            at.count = at.count.min(holds);
            quiet(Answer::Released { holds, published: Published::No })
        }
        Verb::HandOver { to, lease } if its => {
            let before = at.ttl;
            *at = fresh(to.0, lease);
            (moved, if at.ttl < before { Tells::Waiters } else { Tells::Nobody })
        }
        // A copy of one that has run.
        Verb::HandOver { to, lease } if at.number == to.0 => {
            raise(at, lease);
            quiet(moved)
        }
        Verb::Renew { lease } if its => {
            raise(at, lease);
            quiet(done)
        }
        Verb::Force if its => {
            *key = None;
            (done, Tells::Waiters)
        }
        _ => quiet(Answer::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{HoldNumber, Note};

    fn acquire(holds: u32, ticks: u32) -> Verb {
        Verb::Acquire { lease: ticks * TICK, holds }
    }

    const END: Verb = Verb::Release { holds: 0, note: Note::Unused };

    #[test]
    fn only_a_first_acquire_takes_the_free_key() {
        let mut key = None;
        for verb in [acquire(2, 3), END, Verb::Renew { lease: TICK }, Verb::Force] {
            assert_eq!(run(&mut key, 1, verb, false), (Answer::Gone, Tells::Nobody));
        }
        assert_eq!(run(&mut key, 1, acquire(1, 3), false).0, Answer::Granted { holds: 1, fence: None });
        assert_eq!(run(&mut key, 2, acquire(1, 3), false).0, Answer::Busy { retry_in: Some(3 * TICK) });
    }

    #[test]
    fn counts_are_set_and_times_only_grow() {
        let mut key = None;
        run(&mut key, 1, acquire(1, 3), false);
        assert_eq!(run(&mut key, 1, acquire(3, 1), false).0, Answer::Granted { holds: 3, fence: None });
        let less = Verb::Release { holds: 2, note: Note::Unused };
        run(&mut key, 1, less, false);
        run(&mut key, 1, less, false);
        run(&mut key, 1, Verb::Renew { lease: TICK }, false);
        assert_eq!(key.map(|key| (key.count, key.ttl)), Some((2, 3)));
        assert_eq!(run(&mut key, 1, END, false).1, Tells::Waiters);
    }

    #[test]
    fn a_hand_over_tells_only_of_less_time_and_only_once() {
        let mut key = None;
        run(&mut key, 1, acquire(1, 2), false);
        let to = |number, ticks: u32| Verb::HandOver { to: HoldNumber(number), lease: ticks * TICK };
        assert_eq!(run(&mut key, 1, to(2, 3), false).1, Tells::Nobody);
        assert_eq!(run(&mut key, 2, to(3, 1), false).1, Tells::Waiters);
        assert_eq!(run(&mut key, 2, to(3, 1), false).1, Tells::Nobody);
        assert_eq!(run(&mut key, 2, to(4, 1), false).0, Answer::Gone);
    }
}
