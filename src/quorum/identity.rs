//! Who the masters are: asked for once, at the first vote. One server that was given twice has two votes, and is refused.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{ballot::majority, fleet::Fleet, master::Master};
use crate::backend::{Fault, FaultKind, Memory};

/// Those who have not told when a majority has are given so long at least.
const SHORTEST: Duration = Duration::from_millis(5);

/// What was found out.
#[derive(Default)]
pub(super) struct Identity {
    begun: OnceLock<()>,
    found: OnceLock<Result<(), Fault>>,
    /// It was waited for long enough.
    enough: OnceLock<()>,
    told: Notify,
}

impl Fleet {
    /// Waits until all masters have told who they are, or for as long as a master is waited for that says nothing: only the first
    /// vote does. What is found out later counts from then on.
    ///
    /// # Errors
    ///
    /// Two of them are one server.
    pub(super) async fn identified(self: &Arc<Self>, key: &str, lease: Duration) -> Result<(), Fault> {
        if let Some(found) = self.identity.found.get() {
            return found.clone();
        }
        let is_first = self.identity.begun.set(()).is_ok();
        if is_first {
            let (fleet, key) = (Arc::clone(self), Arc::<str>::from(key));
            self.spawn(async move {
                fleet.hear_who_they_are().await;
                let found = one_each(&fleet.masters);
                fleet.says_who_tells_nothing(&key);
                let _ = fleet.identity.found.set(found);
                fleet.identity.told.notify_waiters();
            });
        }
        let told = self.identity.told.notified();
        if self.identity.found.get().is_none() && self.identity.enough.get().is_none() {
            let _ = timeout(self.patience(key, lease), told).await;
            if self.identity.found.get().is_none() {
                let _ = self.identity.enough.set(());
                // Whoever did not tell this is not waited for as long again by the vote that follows.
                let silent = self.masters.iter().filter(|master| master.backend.identities().is_empty());
                silent.for_each(|master| master.was_silent());
            }
        }
        self.identity.found.get().cloned().unwrap_or(Ok(()))
    }

    /// All of them; once a majority has told, those who wait for it go on when the others had as long again.
    async fn hear_who_they_are(&self) {
        let began = Instant::now();
        let mut telling: FuturesUnordered<_> = self.masters.iter().map(|master| master.backend.ask_memory()).collect();
        for _ in 0..majority(self.masters.len()) {
            telling.next().await;
        }
        let rest = async { while telling.next().await.is_some() {} };
        let (mut rest, as_long) = (pin!(rest), began.elapsed().max(SHORTEST));
        if timeout(as_long, rest.as_mut()).await.is_err() {
            let _ = self.identity.enough.set(());
            self.identity.told.notify_waiters();
            rest.await;
        }
    }

    /// Each link of such a master counts as a restart.
    fn says_who_tells_nothing(&self, key: &str) {
        if self.terms.quarantine.is_zero() {
            return;
        }
        for master in &self.masters {
            if let Some(Memory::SinceLink(_)) = master.backend.remembers_since(key) {
                tracing::warn!(
                    master = %master.name,
                    "a master refuses INFO: each new connection to it counts as a restart, after which it grants nothing for the \
                     restart_quarantine"
                );
            }
        }
    }
}

fn one_each(masters: &[Arc<Master>]) -> Result<(), Fault> {
    let mut known = HashSet::new();
    for master in masters {
        let servers = master.backend.identities();
        if servers.iter().any(|server| known.contains(server)) {
            let why = format!("{} is a server that is a master already: each has one vote", master.name);
            return Err(Fault::of(FaultKind::Invalid, false, why));
        }
        known.extend(servers);
    }
    Ok(())
}
