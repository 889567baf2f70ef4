//! Where both sides meet: a deployment of Redis, and how each side is told of it. It knows nothing of what they do there.

use std::{
    env,
    io::{Write, stderr},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use relatch::{Client, ClientBuilder, ShardedPubSub};

use super::{
    MS, SOON, UNDER_WAY,
    peer::{Peer, maven_is_there},
};
use crate::{
    harness::{
        Server,
        clock::monotonic,
        deployment::Deployment,
        eventually,
        proxy::Proxy,
        server::{Builder, free_port},
    },
    kept::connected,
};

/// Who runs beside a test, of the others that need Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Anybody.
    Any,
    /// Nobody: it measures.
    None,
    /// The same, and it lasts.
    NoneForLong,
}

/// One deployment for one test.
#[derive(Debug)]
pub(crate) struct Site {
    server: Server,
    /// By which both sides find the server, where there is one.
    sentinel: Option<Server>,
    /// It is a cluster of one, whose releases are told this way.
    cluster: Option<ShardedPubSub>,
    /// They live until what they leave has been looked at.
    peers: Mutex<Vec<Arc<Peer>>>,
    _turn: Turn,
}

/// Several servers for one test.
#[derive(Debug)]
pub(crate) struct Several {
    deployment: Deployment,
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
    /// A single server. `None` where there is no Java.
    pub(crate) fn standalone(company: Company, test: &str) -> Option<Self> {
        Self::of(company, test, Server::builder(), |_| None)
    }

    /// The same, found by a sentinel.
    pub(crate) fn sentinel(company: Company, test: &str) -> Option<Self> {
        if is_left_out(company, test) {
            return None;
        }
        Self::of(company, test, Server::builder(), |server| Some(Server::builder().watching(server).start()))
    }

    /// A cluster of one, whose releases are told over sharded channels.
    pub(crate) fn sharded(company: Company, test: &str) -> Option<Self> {
        Self::cluster(company, test, ShardedPubSub::Auto)
    }

    /// The same, over channels that all nodes carry.
    pub(crate) fn classic(company: Company, test: &str) -> Option<Self> {
        Self::cluster(company, test, ShardedPubSub::Off)
    }

    fn cluster(company: Company, test: &str, told: ShardedPubSub) -> Option<Self> {
        if is_left_out(company, test) {
            return None;
        }
        // By itself the second port would be too high for some first ones.
        let port = format!("cluster-port {}", free_port());
        let lines = ["cluster-enabled yes", "cluster-announce-ip 127.0.0.1", &port];
        let server = lines.into_iter().fold(Server::builder(), Builder::line);
        let site = Self::of(company, test, server, |_| None)?;
        let connection = &mut site.server.connection();
        redis::cmd("CLUSTER").arg(&["ADDSLOTSRANGE", "0", "16383"]).exec(connection).expect("it has all slots");
        eventually(SOON, || {
            let info = redis::cmd("CLUSTER").arg("INFO").query::<String>(connection);
            info.expect("it answers").contains("cluster_state:ok")
        });
        Some(Self { cluster: Some(told), ..site })
    }

    fn of(company: Company, test: &str, server: Builder, sentinel: fn(&Server) -> Option<Server>) -> Option<Self> {
        let turn = turn(company, test)?;
        let server = server.tcp().start();
        let sentinel = sentinel(&server);
        Some(Self { server, sentinel, cluster: None, peers: Mutex::default(), _turn: turn })
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
        Client::builder().url(self.url()).sharded_pubsub(self.cluster.unwrap_or_default())
    }

    /// Where clients of ours connect.
    pub(crate) fn url(&self) -> String {
        match (&self.sentinel, self.cluster) {
            (Some(sentinel), _) => format!("redis-sentinel://127.0.0.1:{}#m", sentinel.port()),
            (None, Some(_)) => format!("redis-cluster://127.0.0.1:{}", self.server.port()),
            (None, None) => self.server.url(),
        }
    }

    /// A Redisson client with its default options.
    pub(crate) async fn java(&self) -> Arc<Peer> {
        self.java_with(&[]).await
    }

    /// A Redisson client with options of the program.
    pub(crate) async fn java_with(&self, options: &[(&str, &str)]) -> Arc<Peer> {
        let (to, mode) = match (&self.sentinel, self.cluster) {
            (Some(sentinel), _) => (sentinel, "sentinel"),
            (None, Some(_)) => (&self.server, "cluster"),
            (None, None) => (&self.server, "single"),
        };
        let more = [("master", "m"), ("sharded", word(self.cluster.unwrap_or_default()))];
        self.start(&format!("127.0.0.1:{}", to.port()), mode, &[&more, options].concat()).await
    }

    /// A Redisson client behind a proxy, in another mode if that is wanted: a server alone is a master without replicas.
    pub(crate) async fn java_behind(&self, proxy: &Proxy, mode: &str, options: &[(&str, &str)]) -> Arc<Peer> {
        let url = proxy.url();
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        self.start(address, mode, options).await
    }

    async fn start(&self, address: &str, mode: &str, options: &[(&str, &str)]) -> Arc<Peer> {
        start(&self.peers, address, mode, options).await
    }

    /// How many listen to this channel.
    pub(crate) fn listeners(&self, channel: &str) -> u64 {
        match self.cluster {
            Some(ShardedPubSub::Auto) => {
                let asked = redis::cmd("PUBSUB").arg(&["SHARDNUMSUB", channel]).query(&mut self.server.connection());
                asked.map(|(_, listeners): (String, u64)| listeners).expect("PUBSUB answers")
            }
            _ => self.server.listeners(channel),
        }
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

impl Several {
    /// `None` where there is no Java.
    pub(crate) fn start(company: Company, test: &str, deployment: fn() -> Deployment) -> Option<Self> {
        let turn = turn(company, test)?;
        Some(Self { deployment: deployment(), peers: Mutex::default(), _turn: turn })
    }

    pub(crate) fn servers(&self) -> &Deployment {
        &self.deployment
    }

    /// A client of ours that is still to get its options.
    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(self.deployment.url())
    }

    /// A Redisson client with options of the program.
    pub(crate) async fn java(&self, options: &[(&str, &str)]) -> Arc<Peer> {
        let url = self.deployment.url();
        let (scheme, rest) = url.split_once("://").expect("a url has a scheme");
        let hosts = rest.split(['/', '#']).next().unwrap_or_default();
        let mode = scheme.trim_start_matches("redis-");
        start(&self.peers, hosts, mode, &[&[("master", "m")], options].concat()).await
    }
}

/// As our program calls it.
pub(crate) fn word(told: ShardedPubSub) -> &'static str {
    match told {
        ShardedPubSub::Off => "OFF",
        ShardedPubSub::On => "ON",
        _ => "AUTO",
    }
}

/// A Redisson client with options of the program, which lives as long as the others there.
pub(crate) async fn start(
    peers: &Mutex<Vec<Arc<Peer>>>,
    address: &str,
    mode: &str,
    options: &[(&str, &str)],
) -> Arc<Peer> {
    let place = [("mode", mode), ("redis", address), ("name", "java")];
    let peer = Peer::start(&[&place, options].concat()).await;
    peers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&peer));
    peer
}

/// What is skipped is said past the test runner, which would keep it to itself.
pub(crate) fn turn(company: Company, test: &str) -> Option<Turn> {
    if !maven_is_there() {
        skipped("there is no Maven", test);
        return None;
    }
    Some(Turn::take(company))
}

/// `RELATCH_INTEROP=some` leaves out what lasts where it is done on a single server as well.
fn is_left_out(company: Company, test: &str) -> bool {
    let leaves_out = || env::var("RELATCH_INTEROP").is_ok_and(|wanted| wanted == "some");
    let is_left_out = company == Company::NoneForLong && maven_is_there() && leaves_out();
    if is_left_out {
        skipped("only some were asked for", test);
    }
    is_left_out
}

fn skipped(why: &str, test: &str) {
    let _ = writeln!(stderr(), "skipped, {why}: {test}");
}

impl Turn {
    pub(crate) fn take(company: Company) -> Self {
        static TURNS: RwLock<()> = RwLock::new(());
        match company {
            Company::Any => Self::Any { _guard: TURNS.read().unwrap_or_else(PoisonError::into_inner) },
            Company::None | Company::NoneForLong => {
                Self::None { _guard: TURNS.write().unwrap_or_else(PoisonError::into_inner) }
            }
        }
    }
}
