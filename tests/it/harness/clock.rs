//! One monotonic clock for the logs of several processes on one machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock: readings of different processes can be compared, which `Instant` does not offer.
pub(crate) fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).expect("the monotonic clock is past zero")
}

#[test]
fn the_shared_clock_never_runs_backwards() {
    let earlier = monotonic();
    assert!(monotonic() >= earlier);
}
