//! Where a node's server is: at one address for good, or wherever it is said to be. Opens nothing.

use std::sync::Arc;

use tokio::sync::watch;

use super::options::Clients;

/// Where the links of a node lead.
pub(super) struct Aim {
    at: watch::Sender<Arc<Clients>>,
    /// How it is called that is there, whichever server it is.
    name: String,
    missed: RefreshTrigger,
}

/// Tells whoever knows where servers are that a link was lost, or did not come.
#[derive(Clone)]
pub(super) struct RefreshTrigger(watch::Sender<()>);

impl Aim {
    /// At the one address, for good.
    pub(super) fn at(clients: Clients) -> Self {
        let name = clients.address().to_string();
        Self::first_at(clients, name, RefreshTrigger::new())
    }

    /// There to begin with.
    pub(super) fn first_at(clients: Clients, name: String, missed: RefreshTrigger) -> Self {
        Self { at: watch::Sender::new(Arc::new(clients)), name, missed }
    }

    pub(super) fn now(&self) -> Arc<Clients> {
        self.at.borrow().clone()
    }

    /// The same as it changes.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Clients>> {
        self.at.subscribe()
    }

    /// From now on there.
    pub(super) fn turn(&self, clients: Clients) {
        self.at.send_replace(Arc::new(clients));
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A link there was lost, or did not come.
    pub(super) fn missed(&self) {
        self.missed.happened();
    }
}

impl RefreshTrigger {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(()))
    }

    pub(super) fn happened(&self) {
        self.0.send_replace(());
    }

    /// Changes whenever it happens.
    pub(super) fn times(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}
