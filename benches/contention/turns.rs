//! One of two processes that take turns on one lock: it prints when each of its sections began and ended, on the clock
//! that all processes of a machine share. What passes between them is found in `hand_over`.

use std::time::Duration;

use relatch::Client;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep};

use crate::load::Result;

/// Less than a slice, and more than the other one needs to ask.
pub(crate) const SECTION: Duration = Duration::from_millis(4);
const PAUSE: Duration = Duration::from_millis(1);

/// Takes turns for so long.
pub(crate) async fn take(client: &Client, span: Duration) -> Result<()> {
    let lock = client.lock("turns");
    let ends = Instant::now() + span;
    while Instant::now() < ends {
        let guard = lock.lock().await?;
        let entered = nanos();
        sleep(SECTION).await;
        let left = nanos();
        guard.unlock().await?;
        println!("{entered} {left}");
        // The other one has it now.
        sleep(PAUSE).await;
    }
    Ok(())
}

fn nanos() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
