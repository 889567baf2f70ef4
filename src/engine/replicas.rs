//! A try whose grant counts once replicas know of it: whoever does not want it any more waits for no replica.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use super::protocol::Attempt;
use crate::backend::{Acknowledged, Fault, Replicas};

/// How far such a try has come.
#[derive(Default)]
pub(super) struct Acknowledging {
    unwanted: AtomicBool,
    granted: OnceLock<Attempt>,
}

impl Acknowledging {
    /// The server answered: whether replicas are to be waited for.
    pub(super) fn answered(&self, attempt: Attempt) -> bool {
        let granted = matches!(attempt, Attempt::Granted { .. });
        if granted {
            let _ = self.granted.set(attempt);
        }
        granted && !self.unwanted.load(Ordering::SeqCst)
    }

    /// Nobody wants it any more: what was granted, if that is all that it waits for.
    pub(super) fn withdraw(&self) -> Option<Attempt> {
        self.unwanted.store(true, Ordering::SeqCst);
        self.granted.get().copied()
    }
}

/// A grant that enough replicas know of.
pub(super) async fn known(attempt: Attempt, acknowledged: Acknowledged, replicas: Replicas) -> Result<Attempt, Fault> {
    let known = acknowledged.await?;
    if replicas.wanted <= known { Ok(attempt) } else { Err(Fault::too_few_replicas(known, replicas.wanted)) }
}
