//! The servers of a storm: one alone, a master with replicas that sentinels watch over, a cluster, or masters that know nothing
//! of each other. Where a process finds them, which of them has a name, and what is left on them. It harms none of them.

use std::{env, net::Ipv4Addr, path::PathBuf, time::Duration};

use redis::{Client, Connection, FromRedisValue, Value};

use super::{LONGEST_LEASE, NAMES, PROCESSES, VOTED_LEASE, name};
use crate::harness::{
    Server,
    cluster::{NODES, slot},
    deployment::Deployment,
    proxy::Proxy,
};

/// Of those that sentinels watch over.
const WATCHED: [&str; 3] = ["master", "replica1", "replica2"];
pub(super) const SENTINELS: [&str; 3] = ["sentinel1", "sentinel2", "sentinel3"];

/// So many processes of a storm on several servers keep their links and are not killed: they hold on through a failover.
const SHELTERED: u64 = 2;
/// No sheltered process asks for a hold for longer at a time. A failover is over long before.
const LONGEST_SHELTERED_LEASE: Duration = Duration::from_secs(10);

/// Whose majority grants, and how many processes ask them.
const MASTERS: usize = 3;
const VOTERS: u64 = 3;

/// What sentinels say of those who are not there.
const MISSED: [&str; 2] = ["s_down", "disconnected"];

/// How long whoever looks waits for one server.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the servers are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Sentinel,
    Cluster,
    /// They know nothing of each other, and a majority of them grants.
    Masters,
}

/// The servers themselves.
pub(super) enum Servers {
    One(Server),
    Several(Nodes),
    Masters(Vec<Server>),
}

/// Several that belong together.
pub(super) struct Nodes {
    pub(super) kind: Kind,
    pub(super) deployment: Deployment,
}

/// Which server has each name.
pub(super) type Masters = [&'static str; NAMES];

impl Kind {
    /// What `RELATCH_STORM_ON` asks for.
    pub(super) fn asked() -> Self {
        env::var("RELATCH_STORM_ON").map_or(Self::One, |word| Self::of(&word))
    }

    pub(super) fn of(word: &str) -> Self {
        let all = [Self::One, Self::Sentinel, Self::Cluster, Self::Masters];
        all.into_iter().find(|kind| kind.word() == word).unwrap_or_else(|| panic!("no storm is on {word}"))
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Masters => "masters",
        }
    }

    pub(super) fn shelters(self, process: u64) -> bool {
        matches!(self, Self::Sentinel | Self::Cluster) && process < SHELTERED
    }

    pub(super) fn processes(self) -> u64 {
        if self == Self::Masters { VOTERS } else { PROCESSES }
    }

    /// Whether somebody frees what others hold. Where a majority grants nothing may excuse two who believe.
    pub(super) fn forces(self) -> bool {
        self != Self::Masters
    }

    /// No hold of this process is asked for longer at a time.
    pub(super) fn lease_of(self, process: u64) -> Duration {
        match self {
            Self::Masters => VOTED_LEASE,
            _ if self.shelters(process) => LONGEST_SHELTERED_LEASE,
            _ => LONGEST_LEASE,
        }
    }

    pub(super) fn longest_lease(self) -> Duration {
        self.lease_of(0)
    }
}

impl Servers {
    pub(super) fn start(kind: Kind) -> Self {
        let nodes = |deployment| Self::Several(Nodes { kind, deployment });
        match kind {
            Kind::One => Self::One(alone()),
            Kind::Masters => Self::Masters((0..MASTERS).map(|_| alone()).collect()),
            Kind::Sentinel => nodes(Deployment::of_sentinels()),
            Kind::Cluster => nodes(Deployment::of_cluster()),
        }
    }

    /// Where files may be that go with the servers.
    pub(super) fn folder(&self) -> PathBuf {
        match self {
            Self::One(server) => server.socket().with_file_name("storm"),
            Self::Masters(servers) => servers[0].socket().with_file_name("storm"),
            Self::Several(nodes) => nodes.deployment.folder().join("storm"),
        }
    }

    /// A process's own ways to all of them, and the URL by which it takes each. Those that belong together have one.
    pub(super) fn ways(&self, process: u64) -> Vec<(Proxy, String)> {
        let to = |server| {
            let proxy = Proxy::to(server);
            let url = proxy.url();
            (proxy, url)
        };
        let nodes = match self {
            Self::One(server) => return vec![to(server)],
            Self::Masters(servers) => return servers.iter().map(to).collect(),
            Self::Several(nodes) => nodes,
        };
        let ports: Vec<_> = nodes.all().into_iter().map(|name| nodes.deployment.port(name)).collect();
        // As long as that of the servers.
        let here = Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(process).expect("there are a few"));
        let url = nodes.deployment.url().replace("127.0.0.1", &here.to_string());
        vec![(Proxy::to_all(&ports, here), url)]
    }

    /// Those that have locks, or may have some.
    pub(super) fn to_look_at(&self) -> Vec<Client> {
        match self {
            Self::One(server) => vec![server.client()],
            Self::Masters(servers) => servers.iter().map(Server::client).collect(),
            Self::Several(nodes) => nodes.data().iter().map(|node| nodes.deployment.client_of(node)).collect(),
        }
    }

    /// Whether nothing is left on any of them; otherwise what is.
    pub(super) fn are_tidy(&self) -> Result<(), String> {
        let left: Vec<_> = self.to_look_at().iter().filter_map(|server| left_on(server).err()).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    }
}

fn alone() -> Server {
    Server::builder().line("enable-debug-command yes").start()
}

fn left_on(server: &Client) -> Result<(), String> {
    let mut connection = impatient(server).ok_or("a server that takes no connection")?;
    let mut ask = |words: &[&str]| redis::Cmd::new().arg(words).query::<Vec<String>>(&mut connection);
    let keys = ask(&["KEYS", "*"]).map_err(|error| error.to_string())?;
    let mut channels = ask(&["PUBSUB", "CHANNELS"]).map_err(|error| error.to_string())?;
    // Servers of old do not know these.
    channels.extend(ask(&["PUBSUB", "SHARDCHANNELS"]).unwrap_or_default());
    // The sentinels' own.
    channels.retain(|channel| channel != "__sentinel__:hello");
    if keys.is_empty() && channels.is_empty() { Ok(()) } else { Err(format!("{keys:?} {channels:?}")) }
}

/// A connection that nobody waits long for.
pub(super) fn impatient(server: &Client) -> Option<Connection> {
    let connection = server.get_connection_with_timeout(PATIENCE).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(connection)
}

impl Nodes {
    /// Those that have data.
    pub(super) fn data(&self) -> &'static [&'static str] {
        if self.kind == Kind::Cluster { &NODES } else { &WATCHED }
    }

    fn all(&self) -> Vec<&'static str> {
        let sentinels: &[&str] = if self.kind == Kind::Cluster { &[] } else { &SENTINELS };
        [self.data(), sentinels].concat()
    }

    /// Which server has each name, once all but those that are away say the same, and it is not away itself.
    pub(super) fn masters(&self, away: Option<&str>) -> Option<Masters> {
        let there = |name: &&&'static str| Some(**name) != away;
        let said: Vec<Masters> = match self.kind {
            Kind::Cluster => NODES.iter().filter(there).map(|node| self.slots_by(node)).collect::<Option<_>>()?,
            _ => SENTINELS.iter().filter(there).map(|sentinel| self.master_by(sentinel)).collect::<Option<_>>()?,
        };
        let masters = *said.first()?;
        let is_one =
            |master: &&'static str| Some(*master) != away && self.role(master).is_some_and(|role| role.is_master);
        (said.iter().all(|other| *other == masters) && masters.iter().all(is_one)).then_some(masters)
    }

    fn master_by(&self, sentinel: &str) -> Option<Masters> {
        let (_, port): (String, u16) = self.query(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"])?;
        Some([self.at(port)?; NAMES])
    }

    fn slots_by(&self, node: &str) -> Option<Masters> {
        let rows: Vec<Vec<Value>> = self.query(node, &["CLUSTER", "SLOTS"])?;
        let owner = |wanted: u16| {
            rows.iter().find_map(|row| match &row[..] {
                [Value::Int(first), Value::Int(last), Value::Array(master), ..]
                    if (*first..=*last).contains(&wanted.into()) =>
                {
                    match master.get(1) {
                        Some(Value::Int(port)) => self.at(u16::try_from(*port).ok()?),
                        _ => None,
                    }
                }
                _ => None,
            })
        };
        let mut masters = [""; NAMES];
        for (number, master) in masters.iter_mut().enumerate() {
            *master = owner(slot(name(number)))?;
        }
        Some(masters)
    }

    /// The same, once nothing is on its way any more: every other server is the replica of a master, and has all that it has.
    pub(super) fn whole(&self) -> Option<Masters> {
        let masters = self.masters(None)?;
        let roles: Vec<Role> = self.data().iter().map(|node| self.role(node)).collect::<Option<_>>()?;
        let (all, wanted) =
            (roles.iter().filter(|role| role.is_master).count(), if self.kind == Kind::Cluster { 3 } else { 1 });
        let follow = roles.iter().filter(|role| !role.is_master).all(|role| {
            let master = role.follows.and_then(|port| self.at(port));
            master.and_then(|master| self.role(master)).is_some_and(|role| role.is_master)
        });
        let known =
            roles.iter().filter(|role| role.is_master).all(|role| role.replicas * wanted == self.data().len() - wanted);
        (all == wanted && follow && known && self.nobody_is_missed()).then_some(masters)
    }

    /// Whether everybody takes everybody for somebody who is there.
    fn nobody_is_missed(&self) -> bool {
        match self.kind {
            Kind::Cluster => NODES.iter().all(|node| {
                let nodes: Option<String> = self.query(node, &["CLUSTER", "NODES"]);
                nodes.is_some_and(|nodes| !nodes.contains("fail") && nodes.matches(" connected").count() == NODES.len())
            }),
            _ => SENTINELS.iter().all(|sentinel| {
                let lists =
                    ["REPLICAS", "SENTINELS"].map(|what| self.query::<Vec<Value>>(sentinel, &["SENTINEL", what, "m"]));
                lists.iter().all(|list| {
                    list.as_ref().is_some_and(|list| {
                        list.len() == 2 && !MISSED.iter().any(|missed| format!("{list:?}").contains(missed))
                    })
                })
            }),
        }
    }

    pub(super) fn replicas_of(&self, master: &str) -> Vec<&'static str> {
        let port = self.deployment.port(master);
        let follows = |node: &&&'static str| self.role(node).is_some_and(|role| role.follows == Some(port));
        self.data().iter().filter(follows).copied().collect()
    }

    pub(super) fn is_master(&self, node: &str) -> bool {
        self.role(node).is_some_and(|role| role.is_master)
    }

    fn role(&self, node: &str) -> Option<Role> {
        match &self.query::<Vec<Value>>(node, &["ROLE"])?[..] {
            [Value::BulkString(role), _, Value::Array(replicas)] if role == b"master" => {
                Some(Role { is_master: true, replicas: replicas.len(), follows: None })
            }
            [Value::BulkString(role), _, Value::Int(port), Value::BulkString(state), _]
                if role == b"slave" && state == b"connected" =>
            {
                Some(Role { is_master: false, replicas: 0, follows: u16::try_from(*port).ok() })
            }
            _ => None,
        }
    }

    fn at(&self, port: u16) -> Option<&'static str> {
        self.data().iter().find(|name| self.deployment.port(name) == port).copied()
    }

    /// The answer, if one comes soon.
    fn query<T: FromRedisValue>(&self, server: &str, words: &[&str]) -> Option<T> {
        let mut connection = impatient(&self.deployment.client_of(server))?;
        redis::Cmd::new().arg(words).query(&mut connection).ok()
    }
}

/// What a server takes itself for, if it is in order.
struct Role {
    is_master: bool,
    replicas: usize,
    follows: Option<u16>,
}
