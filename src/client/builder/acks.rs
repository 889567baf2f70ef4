//! How many replicas are to know of a grant before it counts, and for how long they are waited for.

use std::time::Duration;

use super::ClientBuilder;
use crate::{
    backend::Replicas,
    error::{Error, Result},
    lease,
};

/// No server has more replicas that are worth waiting for.
const MOST: u32 = 100;

impl ClientBuilder {
    /// Who gets a lock has it once `count` replicas of the server have acknowledged that, within this time: from 1 to 100 replicas,
    /// and from 1 ms to half of [`watchdog_timeout`](Self::watchdog_timeout). None by default.
    ///
    /// Where fewer do, the lock is given back, and tried for again as long as the caller waits: `try_lock()` answers
    /// [`Error::TooFewReplicas`](crate::Error::TooFewReplicas) at once, with a wait at its end, and `lock()` after
    /// [`unreachable_after`](Self::unreachable_after). Acquisitions that come while others wait for replicas wait for those first, and
    /// then share one question; one that has been granted waits whatever its own wait is. So all may take twice this time longer.
    /// A server tells up to 100 ms late that the time is over, and one that falls silent meanwhile is given up another
    /// [`command_timeout`](Self::command_timeout) later. A lease should be longer than all that.
    ///
    /// It makes it rarer that a failover forgets a lock that somebody has, and does not rule it out: see
    /// [`deployments`](crate::guide::deployments#acknowledged-by-replicas). It is about grants alone. Renewals, releases,
    /// [`extend`](crate::LockGuard::extend), nested acquisitions, and what passes from task to task of this client while it keeps the
    /// lock, wait for no replica.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// use std::time::Duration;
    ///
    /// let url = "redis-sentinel://10.0.0.1,10.0.0.2,10.0.0.3#main";
    /// let client = relatch::Client::builder().url(url).replica_acks(2, Duration::from_millis(100)).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn replica_acks(mut self, count: u32, within: Duration) -> Self {
        self.replica_acks = Some((count, within));
        self
    }
}

/// What was given, if it can be kept.
pub(super) fn checked(given: Option<(u32, Duration)>, watchdog: Duration) -> Result<Option<Replicas>> {
    let Some((wanted, within)) = given else { return Ok(None) };
    if !(1..=MOST).contains(&wanted) {
        return Err(Error::invalid("replica_acks", format!("must be of 1 to {MOST} replicas, is of {wanted}")));
    }
    let within = lease::acknowledged(within, watchdog)?;
    Ok(Some(Replicas { wanted, within }))
}
