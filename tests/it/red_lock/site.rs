//! Real masters, each behind a proxy of the test's own.

use std::time::Duration;

use relatch::{Client, RedLock, RedLockBuilder};

use crate::{
    harness::{
        Server, eventually_async, masters,
        proxy::{Door, Proxy},
    },
    kept::{Kept, client, kept, teach},
};

/// Far more than anything here takes.
pub(super) const SOON: Duration = Duration::from_secs(10);

pub(super) struct Site {
    own: Vec<Server>,
    shared: &'static [Server],
    pub(super) proxies: Vec<Proxy>,
}

impl Site {
    /// Before servers that other tests use, too: no harm may be done to them.
    pub(super) fn of(count: usize) -> Self {
        Self::before(Vec::new(), masters::shared(count))
    }

    /// Before servers of the test's own.
    pub(super) fn own(count: usize) -> Self {
        Self::before(masters::own(count), &[])
    }

    fn before(own: Vec<Server>, shared: &'static [Server]) -> Self {
        let mut site = Self { own, shared, proxies: Vec::new() };
        site.servers().iter().for_each(teach);
        site.proxies = site.servers().iter().map(Proxy::to).collect();
        site
    }

    pub(super) fn servers(&self) -> &[Server] {
        if self.own.is_empty() { self.shared } else { &self.own }
    }

    pub(super) async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for proxy in &self.proxies {
            clients.push(client(proxy.url()).await);
        }
        clients
    }

    /// One whose masters count however young they are.
    pub(super) async fn builder(&self) -> RedLockBuilder {
        RedLock::builder(self.clients().await).restart_quarantine(Duration::ZERO)
    }

    pub(super) async fn red(&self) -> RedLock {
        self.builder().await.build().expect("they can be masters")
    }

    /// One that reaches them by no proxy.
    pub(super) async fn undisturbed(&self) -> RedLock {
        let mut clients = Vec::new();
        for server in self.servers() {
            clients.push(client(server.url()).await);
        }
        RedLock::builder(clients).restart_quarantine(Duration::ZERO).build().expect("they can be masters")
    }

    /// There is no way to it any more.
    pub(super) fn goes_down(&self, master: usize) {
        self.proxies[master].door(Door::Refusing);
        self.proxies[master].cut_all();
    }

    /// It takes everything and answers nothing any more.
    pub(super) fn falls_silent(&self, master: usize) {
        self.proxies[master].door(Door::Silent);
        self.proxies[master].silence_all();
    }

    /// It is reached again, over new connections.
    pub(super) fn comes_back(&self, master: usize) {
        self.proxies[master].door(Door::Open);
        self.proxies[master].cut_all();
    }

    /// What each master has.
    pub(super) fn kept(&self, name: &str) -> Vec<Option<Kept>> {
        self.servers().iter().map(|server| kept(server, name)).collect()
    }

    /// How often each master counts the one hold.
    pub(super) fn counts(&self, name: &str) -> Vec<u32> {
        self.kept(name).iter().map(|kept| kept.as_ref().map_or(0, |kept| kept.count)).collect()
    }

    /// All of them have heard of what a majority did.
    pub(super) async fn come_to(&self, name: &str, counts: &[u32]) {
        eventually_async(SOON, async || self.counts(name) == counts).await;
    }

    /// How many commands that name this key came to all of them.
    pub(super) fn commands(&self, name: &str) -> usize {
        self.proxies.iter().map(|proxy| proxy.commands_of(name).len()).sum()
    }
}
