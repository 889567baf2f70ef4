//! A host's name that leads elsewhere by and by: it is asked for anew whenever a link is opened. Clients live in processes that
//! see other names than the rest of the machine.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use futures_util::future::join_all;
use relatch::{Client, Error, LockGuard, LostCause};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::timeout,
};
use tracing::Level;

use crate::{
    harness::{
        Server,
        cluster::{MASTERS, NODES, name_on},
        deployment::Deployment,
        eventually, eventually_async,
        hosts::Hosts,
        process::{Parent, Process},
        proxy::{Proxy, matching::script},
        server::free_port,
        traces::Traces,
        unique_name,
    },
    kept::{channel, client},
};

const NAME: &str = "locks.relatch.test";
const SOON: Duration = Duration::from_secs(20);
const OLD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const NEW: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Does with a client of its own what it is told.
pub(crate) fn follow_a_name(parent: &mut Parent, args: &[String]) {
    let [url] = args else { panic!("one argument") };
    let traces = Traces::here();
    let dispatch = traces.dispatch();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        // For as long as the thread lives.
        .on_thread_start(move || std::mem::forget(tracing::dispatcher::set_default(&dispatch)))
        .build()
        .expect("a runtime starts");
    let mut life = Life { client: runtime.block_on(client(url)), runtime, held: Vec::new(), waits: None };
    parent.say("connected");
    loop {
        let order = parent.hear();
        let answer = match order.split_once(' ') {
            Some((verb, name)) => life.does(verb, name),
            None if order == "told" => life.told(),
            None if order == "entered" => life.entered(),
            None if order == "said" => said(&traces),
            None => return life.runtime.block_on(life.client.close()),
        };
        parent.say(&answer);
    }
}

/// A client, and what it has to do with locks.
struct Life {
    runtime: Runtime,
    client: Client,
    held: Vec<LockGuard>,
    waits: Option<JoinHandle<LockGuard>>,
}

impl Life {
    fn does(&mut self, verb: &str, name: &str) -> String {
        let lock = self.client.mutex(name);
        match verb {
            "hold" => self.held.push(self.runtime.block_on(lock.lock().into_future()).expect("a free lock")),
            "wait" => self.waits = Some(self.runtime.spawn(async move { lock.lock().await.expect("its turn") })),
            "try" => match self.runtime.block_on(lock.try_lock().into_future()) {
                Err(Error::Unreachable { source, .. }) => return format!("unreachable: {source}"),
                other => panic!("{other:?}"),
            },
            "enter" => self.runtime.block_on(async {
                let guard = lock.try_lock().wait(SOON).await.expect("it heals").expect("a free lock");
                guard.unlock().await.expect("it is held");
            }),
            _ => panic!("{verb}"),
        }
        "done".to_owned()
    }

    /// How many holders are told that they hold nothing, once the first of them is.
    fn told(&mut self) -> String {
        let all =
            self.runtime.block_on(async { join_all(self.held.iter().map(|guard| timeout(SOON, guard.lost()))).await });
        let gone = |told: &Result<Error, _>| matches!(told, Ok(Error::Lost { cause: LostCause::Gone, .. }));
        all.iter().filter(|told| gone(told)).count().to_string()
    }

    fn entered(&mut self) -> String {
        let waits = self.waits.take().expect("it was told to wait");
        let entered = self.runtime.block_on(async { timeout(SOON, waits).await.expect("it is woken") });
        self.runtime.block_on(entered.expect("no panic").unlock()).expect("it is held");
        self.held.retain(LockGuard::is_held);
        self.held.len().to_string()
    }
}

/// What an operator reads.
fn said(traces: &Traces) -> String {
    let loud = traces.all().into_iter().filter(|said| said.is_ours() && !said.is_span && said.level <= Level::INFO);
    loud.map(|said| format!("{} {} {:?}", said.level, said.what, said.fields)).collect::<Vec<_>>().join("; ")
}

/// A child that a test talks with.
struct Child(Process);

impl Child {
    fn connected(hosts: &Hosts, url: &str) -> Self {
        let process = Process::spawn_among(hosts, "follow_a_name", &[url]);
        assert_eq!(process.hear(), "connected");
        Self(process)
    }

    fn ask(&mut self, order: &str) -> String {
        self.0.say(order);
        self.0.hear_within(2 * SOON).unwrap_or_else(|| panic!("no answer to {order}"))
    }

    fn does(&mut self, verb: &str, name: &str) {
        assert_eq!(self.ask(&format!("{verb} {name}")), "done");
    }

    fn ends(mut self) {
        self.0.say("end");
        assert!(self.0.ended_well());
    }
}

fn names(folder: &Path) -> Option<Hosts> {
    Hosts::within(folder, NAME)
}

/// A server at this address, and nowhere else.
fn at(address: Ipv4Addr, port: u16) -> Server {
    Server::builder().line(format!("bind {address}")).line(format!("port {port}")).start()
}

fn has(server: &Server, name: &str) -> bool {
    server.keys().iter().any(|key| key == name)
}

/// What becomes of the one to which the name led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Dies,
    /// A planned failover: it goes on as a replica, with all its links.
    BecomesAReplica,
}

async fn who_is_at_the_name_is_spoken_to(fate: Fate) {
    let port = free_port();
    let (old, new) = (at(OLD, port), at(NEW, port));
    let Some(hosts) = names(old.socket().parent().expect("it is in a folder")) else { return };
    hosts.lead_to(OLD);
    let mut child = Child::connected(&hosts, &format!("redis://{NAME}:{port}/"));
    let (waited, first) = (unique_name(), unique_name());
    (0..3).for_each(|_| child.does("hold", &unique_name()));
    let _there = client(old.url()).await.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
    let theirs = client(new.url()).await.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
    child.does("wait", &waited);
    eventually_async(SOON, async || old.listeners(&channel(&waited)) == 1).await;

    // As long as there are links, nobody asks who is at the name.
    hosts.lead_to(NEW);
    child.does("hold", &first);
    assert!(has(&old, &first) && !has(&new, &first));
    match fate {
        Fate::Dies => {
            hosts.forget();
            old.kill();
            let mut answer = String::new();
            eventually_async(SOON, async || {
                answer = child.ask(&format!("try {}", unique_name()));
                answer.contains("lookup")
            })
            .await;
            assert!(answer.starts_with("unreachable: "), "{answer}");
            hosts.lead_to(NEW);
        }
        Fate::BecomesAReplica => {
            let words = ["127.0.0.1", "1"];
            let () = redis::cmd("REPLICAOF").arg(&words).query(&mut old.connection()).expect("it answers");
        }
    }
    let before = new.count("publish");
    child.does("enter", &unique_name());
    assert!(new.count("publish") > before);
    assert_eq!(child.ask("told"), "4");
    eventually_async(SOON, async || new.listeners(&channel(&waited)) == 1).await;
    theirs.unlock().await.expect("it is held");
    assert_eq!(child.ask("entered"), "0");
    let mut said = String::new();
    eventually_async(SOON, async || {
        said = child.ask("said");
        said.contains("the server is back")
    })
    .await;
    let times = |what: &str| said.matches(what).count();
    assert_eq!((times("the link to the server is lost"), times("the server is back")), (1, 1), "{said}");
    assert_eq!(times("WARN lost"), 4, "{said}");
    assert_eq!((times("WARN"), times("INFO")), (5, 1), "{said}");
    child.ends();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_at_the_name_by_then_is_spoken_to_when_a_server_dies_and_holders_are_told() {
    who_is_at_the_name_is_spoken_to(Fate::Dies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_at_the_name_by_then_is_spoken_to_when_a_server_becomes_a_replica_and_holders_are_told() {
    who_is_at_the_name_is_spoken_to(Fate::BecomesAReplica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinels_name_is_asked_for_anew_and_the_master_is_followed_by_whoever_is_there() {
    let (deployment, port) = (Deployment::of_sentinels(), free_port());
    let Some(hosts) = names(deployment.folder()) else { return };
    let before = |here: Ipv4Addr, sentinel: &str| {
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, deployment.port(sentinel)));
        Proxy::between((here, port).into(), there)
    };
    let (old, new) = (before(OLD, "sentinel1"), before(NEW, "sentinel2"));
    hosts.lead_to(OLD);
    let mut child = Child::connected(&hosts, &format!("redis-sentinel://{NAME}:{port}/#m"));
    let (waited, kept) = (unique_name(), unique_name());
    let theirs = client(deployment.url()).await.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
    child.does("hold", &kept);
    child.does("wait", &waited);
    let listeners = |server: &str| deployment.ask::<(String, u64)>(server, &["PUBSUB", "NUMSUB", &channel(&waited)]).1;
    eventually_async(SOON, async || listeners("master") == 1).await;

    hosts.lead_to(NEW);
    drop(old);
    deployment.kill("sentinel1");
    eventually_async(SOON, async || new.open_connections() > 0).await;
    deployment.kill("master");
    child.does("enter", &unique_name());
    // Another sentinel may have led the change, and have told us first.
    eventually_async(SOON, async || deployment.master_by("sentinel2") != "master").await;
    let master = deployment.master_by("sentinel2");
    assert!(deployment.is_master(&master));
    eventually_async(SOON, async || listeners(&master) == 1).await;
    theirs.unlock().await.expect("it is held there, too");
    assert_eq!(child.ask("entered"), "1", "what was there before is replicated");
    child.ends();
}

/// As where all nodes are started anew somewhere else, with what they had, and only their common name stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_somewhere_else_is_found_by_the_name_that_was_given_and_holders_keep_what_is_there() {
    let cluster = Deployment::shared_cluster();
    let server = Server::own();
    let Some(hosts) = names(server.socket().parent().expect("it is in a folder")) else { return };
    let ports: Vec<_> = NODES.iter().map(|node| cluster.port(node)).collect();
    let old = Proxy::to_all(&ports, OLD);
    hosts.lead_to(OLD);
    let mut child = Child::connected(&hosts, &format!("redis-cluster://{NAME}:{}", ports[0]));
    MASTERS.iter().for_each(|node| child.does("hold", &name_on(node)));
    let waited = name_on("node1");
    let theirs = client(cluster.url()).await.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
    child.does("wait", &waited);
    let sharded = cluster.flavour() != "redis62";
    eventually_async(SOON, async || cluster.listeners_on("node1", &channel(&waited), sharded) == 1).await;

    let new = Proxy::to_all(&ports, NEW);
    hosts.lead_to(NEW);
    drop(old);
    MASTERS.iter().for_each(|node| child.does("enter", &name_on(node)));
    eventually(SOON, || cluster.listeners_on("node1", &channel(&waited), sharded) == 1);
    assert!(new.count(&script("acquire")) >= MASTERS.len());
    theirs.unlock().await.expect("it is held");
    assert_eq!(child.ask("entered"), "3");
    // Once for each node that was left.
    assert!((1..=MASTERS.len()).contains(&child.ask("said").matches("WARN").count()));
    child.ends();
}
