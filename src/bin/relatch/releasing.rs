//! The end of a call, when the command is over: bounded, and cut short by whoever asks twice.

use std::time::Duration;

use tokio::time::timeout;

use crate::child::Signals;

/// So long a server has to answer, at the most.
const PATIENCE: Duration = Duration::from_secs(10);

/// What came of it.
pub(crate) enum Released<T> {
    Done(T),
    /// It took too long, or somebody asked twice not to wait for it.
    GivenUp,
}

/// Waits for it. The first signal may have been meant for the command, which is over; the second one is for us.
pub(crate) async fn until_done<T>(signals: &mut Signals, done: impl Future<Output = T>) -> Released<T> {
    tokio::select! {
        biased;
        done = timeout(PATIENCE, done) => done.map_or(Released::GivenUp, Released::Done),
        () = signals.asked_twice() => Released::GivenUp,
    }
}
