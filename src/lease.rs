//! How long things may last: leases, waits and time-outs, checked and rounded. It keeps no clock and starts no timer.

use std::time::Duration;

use crate::error::{Error, Result};

const SECOND: Duration = Duration::from_secs(1);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Below it a lease is over before its holder has heard of it.
const SHORTEST_LEASE: Duration = Duration::from_millis(10);

/// Below it a third of the lease, when a renewal is due, drowns in the jitter of a network.
const SHORTEST_WATCHDOG: Duration = Duration::from_millis(100);

/// Below it whoever sets a TTL by a second command may just have been about to.
const SHORTEST_ORPHAN: Duration = Duration::from_secs(1);

const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);

/// Beyond it a duration is a mistake in its unit; nor does the server take every integer as a TTL.
pub(crate) const LONGEST: Duration = DAY.saturating_mul(365);

const LONGEST_SLICE: Duration = Duration::from_secs(60);

/// Longer than any process runs, and still safe to add to an instant.
const FOR_EVER: Duration = DAY.saturating_mul(36_525);

/// How long a hold lasts on the server unless it is renewed.
///
/// ```
/// use std::time::Duration;
/// use relatch::Lease;
///
/// assert_eq!(Lease::from(Duration::from_secs(5)), Lease::Fixed(Duration::from_secs(5)));
/// assert_eq!(Lease::default(), Lease::Watchdog);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lease {
    /// The client's watchdog timeout, renewed for as long as the guard lives.
    ///
    /// Right when nobody can say how long the work takes. If the process dies, the lock is free within one timeout.
    #[default]
    Watchdog,
    /// This long and not renewed, from 10 ms to 365 days; a part of a millisecond counts as a whole one.
    ///
    /// Right when the work has a known bound and the lock must end with it, even if the work hangs. Inside a hold of
    /// the same owner it is a floor for the hold's end; it never shortens the hold.
    Fixed(Duration),
}

impl From<Duration> for Lease {
    fn from(lease: Duration) -> Self {
        Self::Fixed(lease)
    }
}

/// How long an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// One try.
    None,
    /// Until this much time has gone by.
    For(Duration),
    /// Without an end that anybody lives to see.
    Forever,
}

/// A lease that is not renewed; `what` is the option it was given as.
pub(crate) fn fixed_lease(what: &'static str, lease: Duration) -> Result<Duration> {
    within(what, lease, SHORTEST_LEASE, LONGEST)
}

/// The lease that the watchdog renews.
pub(crate) fn watchdog(lease: Duration) -> Result<Duration> {
    within("watchdog_timeout", lease, SHORTEST_WATCHDOG, LONGEST)
}

/// How long to wait for a server; `what` is the option it was given as.
pub(crate) fn timeout(what: &'static str, timeout: Duration) -> Result<Duration> {
    within(what, timeout, SHORTEST_TIMEOUT, LONGEST)
}

/// The longest that a hold may last, renewals and all.
pub(crate) fn max_hold(bound: Duration) -> Result<Duration> {
    fixed_lease("max_hold", bound)
}

/// The TTL that somebody else's key is given which has none.
pub(crate) fn orphan(ttl: Duration) -> Result<Duration> {
    within("repair_orphans", ttl, SHORTEST_ORPHAN, LONGEST)
}

/// How long a process keeps a name to itself; zero is never.
pub(crate) fn slice(slice: Duration) -> Result<Duration> {
    within("handover_slice", slice, Duration::ZERO, LONGEST_SLICE)
}

/// How long replicas are waited for: nobody has a hold before they know of it, nor is it renewed.
pub(crate) fn acknowledged(within: Duration, watchdog: Duration) -> Result<Duration> {
    let longest = Duration::from_millis(whole_ms(watchdog).unsigned_abs() / 2);
    self::within("replica_acks", within, SHORTEST_TIMEOUT, longest)
}

/// For how long a master that may have forgotten what it granted counts for nothing; zero is never. It is the longest lease.
pub(crate) fn quarantine(quarantine: Duration, watchdog: Duration) -> Result<Duration> {
    if quarantine.is_zero() { Ok(quarantine) } else { within("restart_quarantine", quarantine, watchdog, LONGEST) }
}

/// How often a periodic job is done. Its start and an attempt are one number, which has room for whole seconds only.
pub(crate) fn period(every: Duration) -> Result<Duration> {
    whole_seconds("period", every)?;
    within("period", every, SECOND, LONGEST)
}

/// How much later its periods begin.
pub(crate) fn offset(offset: Duration, every: Duration) -> Result<Duration> {
    whole_seconds("offset", offset)?;
    within("offset", offset, Duration::ZERO, every - SECOND)
}

/// How late in its period its work may begin.
pub(crate) fn start_within(within: Duration, every: Duration) -> Result<Duration> {
    self::within("start_within", within, SHORTEST_TIMEOUT, every)
}

/// How long is known what was done: until the period is over, or it would be done again.
pub(crate) fn keep_record(keep: Duration, every: Duration) -> Result<Duration> {
    within("keep_record", keep, every, LONGEST * 2)
}

/// How often the work of one period is begun.
pub(crate) fn attempts(attempts: u32) -> Result<u16> {
    let fitting = u16::try_from(attempts).ok().filter(|attempts| *attempts > 0);
    fitting.ok_or_else(|| Error::invalid("max_attempts", format!("must be from 1 to 65535, is {attempts}")))
}

fn whole_seconds(what: &'static str, time: Duration) -> Result<()> {
    let why = || format!("must be whole seconds, is {time:?}");
    if time.subsec_nanos() == 0 { Ok(()) } else { Err(Error::invalid(what, why())) }
}

/// Every wait has a meaning, so none is refused.
pub(crate) fn wait(wait: Duration) -> Wait {
    if wait.is_zero() {
        Wait::None
    } else if wait > FOR_EVER {
        Wait::Forever
    } else {
        Wait::For(round_up(wait))
    }
}

/// A duration as scripts take it. A part of a millisecond counts as a whole one: the server must not forget a hold
/// sooner than its holder does.
pub(crate) fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// `value` in whole milliseconds if that lies within the bounds, which are whole themselves.
fn within(what: &'static str, value: Duration, shortest: Duration, longest: Duration) -> Result<Duration> {
    let rounded = round_up(value);
    if (shortest..=longest).contains(&rounded) {
        return Ok(rounded);
    }
    let longest = match longest {
        LONGEST => String::from("365 days"),
        other => format!("{other:?}"),
    };
    let why = format!("must be from {shortest:?} to {longest}, is {value:?}");
    Err(Error::invalid(what, why))
}

fn round_up(duration: Duration) -> Duration {
    Duration::from_millis(whole_ms(duration).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Duration = Duration::from_nanos(1);
    const MS: Duration = Duration::from_millis(1);

    /// What every check is asked.
    const ASKED: [Duration; 6] = [
        Duration::ZERO,
        NS,
        Duration::from_micros(999),
        Duration::from_micros(1500),
        DAY.saturating_mul(30),
        Duration::MAX,
    ];

    fn table(check: impl Fn(Duration) -> Result<Duration>) -> [Option<Duration>; 6] {
        ASKED.map(|asked| check(asked).ok())
    }

    #[test]
    fn every_check_answers_its_table() {
        let month = Some(DAY * 30);
        assert_eq!(table(|d| fixed_lease("lease", d)), [None, None, None, None, month, None]);
        assert_eq!(table(watchdog), [None, None, None, None, month, None]);
        assert_eq!(table(max_hold), [None, None, None, None, month, None]);
        let timeouts = table(|d| timeout("command_timeout", d));
        assert_eq!(timeouts, [None, Some(MS), Some(MS), Some(MS * 2), month, None]);
        let zero = Some(Duration::ZERO);
        assert_eq!(table(slice), [zero, Some(MS), Some(MS), Some(MS * 2), None, None]);
    }

    #[test]
    fn bounds_are_met_after_rounding() {
        type Check = fn(Duration) -> Result<Duration>;
        let checks: [(Check, Duration, Duration); 5] = [
            (|d| fixed_lease("lease", d), MS * 10, DAY * 365),
            (watchdog, MS * 100, DAY * 365),
            (|d| timeout("unreachable_after", d), MS, DAY * 365),
            (max_hold, MS * 10, DAY * 365),
            (slice, Duration::ZERO, Duration::from_secs(60)),
        ];
        for (check, shortest, longest) in checks {
            assert_eq!(check(shortest).unwrap(), shortest);
            assert_eq!(check(shortest + NS).unwrap(), shortest + MS);
            if !shortest.is_zero() {
                // One nanosecond less still rounds up to the bound, a whole millisecond less does not.
                assert_eq!(check(shortest - NS).unwrap(), shortest);
                assert!(check(shortest - MS).is_err());
            }
            assert_eq!(check(longest).unwrap(), longest);
            assert!(check(longest + NS).is_err());
        }
    }

    #[test]
    fn refusals_name_the_option_the_bounds_and_the_value() {
        let said = |result: Result<Duration>| result.unwrap_err().to_string();
        assert_eq!(said(fixed_lease("lease", NS)), "lease: must be from 10ms to 365 days, is 1ns");
        assert_eq!(said(fixed_lease("extend", Duration::ZERO)), "extend: must be from 10ms to 365 days, is 0ns");
        assert_eq!(said(watchdog(MS)), "watchdog_timeout: must be from 100ms to 365 days, is 1ms");
        assert_eq!(said(max_hold(MS)), "max_hold: must be from 10ms to 365 days, is 1ms");
        assert_eq!(said(slice(DAY)), "handover_slice: must be from 0ns to 60s, is 86400s");
        let endless = said(timeout("command_timeout", Duration::MAX));
        assert!(endless.starts_with("command_timeout: must be from 1ms to 365 days, is 1844674"), "{endless}");
    }

    #[test]
    fn a_wait_is_nothing_something_or_for_ever() {
        let month = Wait::For(DAY * 30);
        let expected = [Wait::None, Wait::For(MS), Wait::For(MS), Wait::For(MS * 2), month, Wait::Forever];
        assert_eq!(ASKED.map(wait), expected);
        assert_eq!(wait(FOR_EVER), Wait::For(FOR_EVER));
        assert_eq!(wait(FOR_EVER + NS), Wait::Forever);
    }

    #[test]
    fn milliseconds_round_up_and_never_wrap() {
        assert_eq!(ASKED.map(whole_ms), [0, 1, 1, 2, 2_592_000_000, i64::MAX]);
    }
}
