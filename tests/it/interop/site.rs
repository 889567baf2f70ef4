//! Where both sides meet: a deployment of Redis, and how each side is told of it. It knows nothing of what they do there.

use std::{
    io::{Write, stderr},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use relatch::{Client, ClientBuilder};

use super::{
    MS, SOON,
    peer::{Peer, maven_is_there},
};
use crate::{
    harness::{Server, clock::monotonic, proxy::Proxy},
    kept::connected,
};

/// What was asked for before a test ended is done by then.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Who runs beside a test, of the others that need Java.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Company {
    /// Anybody.
    Any,
    /// Nobody: it measures.
    None,
}

/// One deployment for one test.
#[derive(Debug)]
pub(crate) struct Site {
    server: Server,
    /// By which both sides find the server, where there is one.
    sentinel: Option<Server>,
    /// They live until what they leave has been looked at.
    peers: Mutex<Vec<Arc<Peer>>>,
    _turn: Turn,
}

/// A test's time to run, with the company that it may have.
#[derive(Debug)]
pub(crate) enum Turn {
    Any { _guard: RwLockReadGuard<'static, ()> },
    None { _guard: RwLockWriteGuard<'static, ()> },
}

impl Site {
    /// A single server. `None` where there is no Java; then it says so, past the test runner, which would keep it to itself.
    pub(crate) fn standalone(company: Company, test: &str) -> Option<Self> {
        Self::of(company, test, |_| None)
    }

    /// The same, found by a sentinel.
    pub(crate) fn sentinel(company: Company, test: &str) -> Option<Self> {
        Self::of(company, test, |server| Some(Server::builder().watching(server).start()))
    }

    fn of(company: Company, test: &str, sentinel: fn(&Server) -> Option<Server>) -> Option<Self> {
        if !maven_is_there() {
            let _ = writeln!(stderr(), "skipped, there is no Maven: {test}");
            return None;
        }
        let turn = Turn::take(company);
        let server = Server::builder().tcp().start();
        let sentinel = sentinel(&server);
        Some(Self { server, sentinel, peers: Mutex::default(), _turn: turn })
    }

    /// The server, to look behind the scenes.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// A client of ours, with the default options.
    pub(crate) async fn rust(&self) -> Client {
        connected(self.builder()).await
    }

    /// A client of ours that is still to get its options.
    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(self.url())
    }

    /// Where clients of ours connect.
    pub(crate) fn url(&self) -> String {
        match &self.sentinel {
            Some(sentinel) => format!("redis-sentinel://127.0.0.1:{}#m", sentinel.port()),
            None => self.server.url(),
        }
    }

    /// A Redisson client with its default options.
    pub(crate) async fn java(&self) -> Arc<Peer> {
        self.java_with(&[]).await
    }

    /// A Redisson client with options of the program.
    pub(crate) async fn java_with(&self, options: &[(&str, &str)]) -> Arc<Peer> {
        let (to, mode) = self.sentinel.as_ref().map_or((&self.server, "single"), |sentinel| (sentinel, "sentinel"));
        self.start(&format!("127.0.0.1:{}", to.port()), mode, &[&[("master", "m")], options].concat()).await
    }

    /// A Redisson client behind a proxy, in another mode if that is wanted: a server alone is a master without replicas.
    pub(crate) async fn java_behind(&self, proxy: &Proxy, mode: &str, options: &[(&str, &str)]) -> Arc<Peer> {
        let url = proxy.url();
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        self.start(address, mode, options).await
    }

    async fn start(&self, address: &str, mode: &str, options: &[(&str, &str)]) -> Arc<Peer> {
        let place = [("mode", mode), ("redis", address), ("name", "java")];
        let peer = Peer::start(&[&place, options].concat()).await;
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&peer));
        peer
    }

    /// Every key but those that Redisson keeps beside a lock for a moment after each unlock.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.server.keys().into_iter().filter(|key| !key.starts_with("redisson_unlock_latch:")).collect()
    }

    /// Whatever a test did: nobody leaves a key, and none that only runs out some time later.
    pub(crate) async fn is_left_empty(&self) {
        let started = monotonic();
        loop {
            let (all, ours) = (self.server.keys(), self.keys());
            if all.is_empty() {
                return;
            }
            let bound = if ours.is_empty() { SOON } else { UNDER_WAY };
            assert!(monotonic() - started < bound, "left: {all:?}");
            tokio::time::sleep(MS).await;
        }
    }
}

impl Turn {
    pub(crate) fn take(company: Company) -> Self {
        static TURNS: RwLock<()> = RwLock::new(());
        match company {
            Company::Any => Self::Any { _guard: TURNS.read().unwrap_or_else(PoisonError::into_inner) },
            Company::None => Self::None { _guard: TURNS.write().unwrap_or_else(PoisonError::into_inner) },
        }
    }
}
