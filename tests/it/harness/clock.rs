//! Clocks that several processes on one machine share: one for their logs, one for what a server says of time.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock: readings of different processes can be compared, which `Instant` does not offer.
pub(crate) fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).expect("the monotonic clock is past zero")
}

/// The machine's wall clock since its epoch, by which a server on it tells when a key expires.
pub(crate) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the epoch is over")
}

#[test]
fn the_shared_clock_never_runs_backwards() {
    let earlier = monotonic();
    assert!(monotonic() >= earlier);
}
