//! How a shutdown goes: what was held when it began, and what is told of that once it is over.

use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering, fence},
    },
};

use tokio::sync::Notify;

use super::{
    ended::{End, Loss},
    tenure::Tenure,
};
use crate::error::LostCause;

/// What became of the holds of a client that was [shut down](crate::Client::shutdown).
///
/// A hold that was lost meanwhile is in neither.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: relatch::Client) {
/// let shutdown = client.shutdown(std::time::Duration::from_secs(20)).await;
/// for name in &shutdown.still_held {
///     eprintln!("{name} was still held: it is free when its lease is over");
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shutdown {
    /// So many holds were released within the grace, as their guards went. A release that the server has not answered a
    /// command timeout later is left to the lease.
    pub released: usize,
    /// The locks that were still held at its end, the oldest first: nobody renews them any more, and each is free when its
    /// lease is over.
    pub still_held: Vec<Arc<str>>,
}

impl Shutdown {
    /// Whether nothing was still held.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.still_held.is_empty()
    }
}

/// A shutdown, for all who wait for it.
#[derive(Default)]
pub(super) struct WindingDown {
    pub(super) begun: AtomicBool,
    /// What was held when it began.
    pub(super) held: OnceLock<Vec<(Arc<str>, Arc<Tenure>)>>,
    report: OnceLock<Shutdown>,
    reported: Notify,
}

impl WindingDown {
    /// The client has ended: says what became of its holds, once it is known which there were.
    pub(super) fn report(&self) {
        fence(Ordering::SeqCst);
        let Some(held) = self.held.get() else { return };
        let ended = |is: fn(End) -> bool| held.iter().filter(move |(_, tenure)| tenure.end().is_some_and(is));
        let released = ended(|end| end == End::Over).count();
        let still = ended(|end| matches!(end, End::Lost(Loss { cause: LostCause::Closed, .. })));
        let still_held = still.map(|(name, _)| Arc::clone(name)).collect();
        let _ = self.report.set(Shutdown { released, still_held });
        self.reported.notify_waiters();
    }

    pub(super) async fn reported(&self) -> Shutdown {
        loop {
            let mut told = pin!(self.reported.notified());
            told.as_mut().enable();
            if let Some(report) = self.report.get() {
                return report.clone();
            }
            told.await;
        }
    }
}
