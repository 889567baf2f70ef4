//! Three servers that know nothing of each other, for a vote: how each side is told of all of them. It knows nothing of what they do
//! there.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use relatch::{RedLock, RedLockBuilder};

use super::{
    SOON, UNDER_WAY,
    peer::Peer,
    site::{Company, Turn, start, turn},
};
use crate::{
    harness::{Server, eventually_async},
    kept::{Kept, client, kept},
};

/// How many there are.
pub(crate) const MASTERS: usize = 3;
/// And how many have to agree.
pub(crate) const MAJORITY: usize = 2;

/// Three servers for one test.
#[derive(Debug)]
pub(crate) struct Masters {
    servers: [Server; MASTERS],
    /// They live until what they leave has been looked at.
    peers: Mutex<Vec<Arc<Peer>>>,
    _turn: Turn,
}

impl Masters {
    /// `None` where there is no Java.
    pub(crate) fn start(company: Company, test: &str) -> Option<Self> {
        Some(Self::of(turn(company, test)?))
    }

    /// Also where there is no Java.
    pub(crate) fn of(turn: Turn) -> Self {
        let server = |_| Server::builder().tcp().start();
        Self { servers: std::array::from_fn(server), peers: Mutex::default(), _turn: turn }
    }

    pub(crate) fn servers(&self) -> &[Server; MASTERS] {
        &self.servers
    }

    /// Votes of ours, with the default options.
    pub(crate) async fn rust(&self) -> RedLock {
        self.builder().await.build().expect("they can be masters together")
    }

    /// Votes of ours that are still to get their options. These servers have just begun, and have forgotten nothing.
    pub(crate) async fn builder(&self) -> RedLockBuilder {
        let mut clients = Vec::new();
        for server in &self.servers {
            clients.push(client(server.url()).await);
        }
        RedLock::builder(clients).restart_quarantine(Duration::ZERO)
    }

    /// A Redisson client for each of them, in one program.
    pub(crate) async fn java(&self, options: &[(&str, &str)]) -> Arc<Peer> {
        start(&self.peers, &self.addresses(), "apart", options).await
    }

    /// All of them, with commas between.
    pub(crate) fn addresses(&self) -> String {
        self.servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port())).join(",")
    }

    /// What each of them keeps of the plain lock of this name.
    pub(crate) fn kept(&self, name: &str) -> [Option<Kept>; MASTERS] {
        self.servers.each_ref().map(|server| kept(server, name))
    }

    /// Waits until each of them has so many clients that listen for a release of this lock.
    pub(crate) async fn listening(&self, channel: &str, clients: u64) {
        for server in &self.servers {
            eventually_async(SOON, async || server.listeners(channel) == clients).await;
        }
    }

    /// Every key but those that Redisson keeps beside a lock for a moment after each unlock.
    pub(crate) fn keys(&self) -> [Vec<String>; MASTERS] {
        let is_ours = |key: &String| !key.starts_with("redisson_unlock_latch:");
        self.servers.each_ref().map(|server| server.keys().into_iter().filter(is_ours).collect())
    }

    /// Whatever a test did: nobody leaves a key.
    pub(crate) async fn are_left_empty(&self) {
        eventually_async(UNDER_WAY, async || self.keys().iter().all(Vec::is_empty)).await;
    }
}
