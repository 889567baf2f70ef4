//! A network that is cut in two, with the old master on one side and its successor on the other, and clients on both. For root
//! each side is a network of its own; for everybody else's sake the same by a switch between servers of one network.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use futures_util::future::join_all;
use relatch::{Client, LockGuard};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    harness::{
        cluster::name_on,
        deployment::{Deployment, Wishes},
        eventually,
        lag::Lag,
        proxy::Proxy,
        unique_name,
    },
    kept::{channel, client},
    taking::{Naming, SOON, Taker, all_is_told, rounds, was_soon},
};

/// Threads that are in one of the two networks, and a client there.
struct Side {
    runtime: Runtime,
    deployment: Arc<Deployment>,
    client: Client,
    /// By which the client reaches the servers, where the threads are in no network of their own.
    _proxy: Option<Proxy>,
}

impl Side {
    fn of(deployment: &Arc<Deployment>, server: &'static str) -> Self {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all();
        let (mut url, mut proxy) = (deployment.url(), None);
        if let Some(switch) = deployment.switch() {
            let sides = switch.sides().map(|side| side.to_string());
            let side = usize::from(deployment.address(server) == sides[1]);
            let here = switch.entrance(side).to_string();
            url = sides.iter().fold(url, |url, side| url.replace(side, &here));
            proxy = Some(Proxy::into_network(switch, side, &deployment.ports()));
        } else {
            let there = Arc::clone(deployment);
            builder.on_thread_start(move || there.enter_the_network_of(server));
        }
        let runtime = builder.build().expect("a runtime starts");
        let client = runtime.block_on(runtime.spawn(async move { client(url).await })).expect("no panic");
        Self { runtime, deployment: Arc::clone(deployment), client, _proxy: proxy }
    }

    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(self.runtime.spawn(work)).expect("no panic")
    }

    fn look<T: Send + 'static>(&self, look: impl FnOnce(&Deployment) -> T + Send + 'static) -> T {
        let deployment = Arc::clone(&self.deployment);
        self.runtime.block_on(self.runtime.spawn_blocking(move || look(&deployment))).expect("no panic")
    }

    fn taker(&self, name: Naming) -> Taker {
        let client = self.client.clone();
        self.run(async move { Taker::start(&client, name) })
    }

    /// Takes locks for some time longer.
    fn take_after(&self, mut taker: Taker, instant: Instant) -> Taker {
        self.run(async move {
            taker.takes_after(instant).await;
            taker
        })
    }

    fn stop(&self, taker: Taker) -> Vec<(Instant, LockGuard)> {
        self.run(taker.stop())
    }

    fn hold(&self, name: String) -> LockGuard {
        let lock = self.client.mutex(name);
        self.run(async move { lock.lock().lease(SOON * 6).await.expect("a free lock") })
    }

    /// Somebody who waits there, and listens at this server.
    fn waiter(&self, name: &str, server: &'static str, sharded: bool) -> JoinHandle<LockGuard> {
        let (lock, name) = (self.client.mutex(name), channel(name));
        let waiter = self.runtime.spawn(async move { lock.lock().await.expect("its turn") });
        eventually(SOON, || {
            let name = name.clone();
            self.look(move |deployment| deployment.listeners_on(server, &name, sharded)) == 1
        });
        waiter
    }
}

/// Servers of which these are apart by a switch.
fn switched(start: fn(&Wishes) -> Deployment, apart: &'static [&'static str]) -> Arc<Deployment> {
    Arc::new(start(&Wishes { apart, switched: true, ..Wishes::default() }))
}

/// Servers of which these are apart; none where nobody may do that.
fn apart(start: fn(&Wishes) -> Deployment, apart: &'static [&'static str]) -> Option<Arc<Deployment>> {
    let mut may = Command::new("unshare");
    may.args(["--net", "ip", "link", "add", "between", "type", "bridge"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !may.status().is_ok_and(|status| status.success()) {
        println!("left out: only root on Linux may cut a network in two");
        return None;
    }
    Some(Arc::new(start(&Wishes { apart, ..Wishes::default() })))
}

/// What is to be seen of one kind of servers.
struct Kind {
    /// Who is the master before, and who are sure to know better.
    master: &'static str,
    far: &'static str,
    /// Who is the master, by those on the other side.
    now: fn(&Deployment) -> String,
    /// Makes it the master again, once all are joined.
    give_back: fn(&Deployment),
    name: Naming,
    sharded: bool,
    /// Whether the old master goes on taking writes once all are joined again.
    outlives: bool,
}

/// One cut after the other, each with clients of its own.
fn all_sides_are_served_as_well_as_they_can(deployment: &Arc<Deployment>, kind: &Kind) {
    for round in 0..rounds() {
        if round > 0 {
            Side::of(deployment, kind.far).look(kind.give_back);
        }
        both_sides_are_served_as_well_as_they_can(deployment, kind);
    }
}

/// The old master is cut off, with a client beside it, and the others go on without them, until all are joined again.
fn both_sides_are_served_as_well_as_they_can(deployment: &Arc<Deployment>, kind: &Kind) {
    let (near, far) = (Side::of(deployment, kind.master), Side::of(deployment, kind.far));
    let (master, now) = (kind.master, kind.now);
    let kept: Vec<_> = (0..50).map(|_| near.hold((kind.name)())).collect();
    let waited = (kind.name)();
    let held = far.hold(waited.clone());
    let waiter = near.waiter(&waited, master, kind.sharded);
    let (nears, fars) = (near.taker(kind.name), far.taker(kind.name));
    let (nears, fars) = (near.take_after(nears, Instant::now()), far.take_after(fars, Instant::now()));

    deployment.cut();
    let (cut, lag) = (Instant::now(), Lag::watch());
    eventually(SOON, || far.look(now) != master);
    let switched = Instant::now();
    let fars = far.take_after(fars, switched);
    let taken = far.stop(fars);
    was_soon(&taken, cut, switched, lag);
    let next = far.look(now);
    let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
    let (at, client, name) = (next.clone(), far.client.clone(), kind.name);
    let there = Arc::clone(deployment);
    // They are kept until the end: what is released is asked of the new master, too.
    let _still_held = far.run(async move {
        all_is_told(&there, &at, &client, &guards, name).await;
        guards
    });

    let scripts = |at: &str| {
        let at = at.to_owned();
        far.look(move |deployment| deployment.scripts_run(&at))
    };
    let seen = scripts(&next);
    deployment.mend();
    let mended = Instant::now();
    // Nobody else asks the new master for anything meanwhile.
    eventually(SOON, || scripts(&next) > seen);
    println!("{:?} after the networks are one again it is the new master that is asked", mended.elapsed());
    let (before, was_master) =
        near.look(move |deployment| (deployment.scripts_run(master), deployment.is_master(master)));
    assert!(was_master || !kind.outlives, "the old master could still have been asked");
    let nears = near.take_after(nears, Instant::now());
    let taken = near.stop(nears);
    let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
    let (at, client, there) = (next.clone(), near.client.clone(), Arc::clone(deployment));
    let (lost, all) = near.run(async move {
        let lost = all_is_told(&there, &at, &client, &guards, name).await;
        (lost, guards.len())
    });
    assert!(lost > 0 && lost < all, "{lost} of {all}");
    assert!(kept.iter().all(LockGuard::is_held), "what was there before is replicated");
    // Who began to wait at the old master hears what is said at the new one.
    far.run(async move { held.unlock().await.expect("it is held there, too") });
    let entered = near.run(async move { timeout(SOON, waiter).await.expect("it is woken").expect("no panic") });
    near.run(async move { entered.unlock().await.expect("it is held") });
    // Until it is told, it goes on taking itself for the master.
    eventually(SOON, || !near.look(move |deployment| deployment.is_master(master)));
    assert_eq!(near.look(move |deployment| deployment.scripts_run(master)), before);
    near.run(join_all(kept.into_iter().map(|guard| async move { guard.unlock().await.expect("it is held") })));
    for side in [&near, &far] {
        let client = side.client.clone();
        side.run(async move { client.close().await });
    }
}

/// Who is on the other side.
const FAR_OF_SENTINELS: &[&str] = &["replica1", "replica2", "sentinel2", "sentinel3"];
const FAR_OF_A_CLUSTER: &[&str] = &["node1", "node2", "node3", "node4", "node5"];

fn of_sentinels(deployment: &Arc<Deployment>) {
    let now = |deployment: &Deployment| deployment.master_by("sentinel2");
    let give_back = |deployment: &Deployment| {
        // Of two that could be it the sentinels take this one, once they know.
        let () = deployment.ask("master", &["CONFIG", "SET", "replica-priority", "1"]);
        eventually(SOON * 3, || {
            let is_back = deployment.master_by("sentinel2") == "master" && deployment.is_master("master");
            if !is_back {
                // One at a time: while the last one is not over for all of them it is refused.
                deployment.try_ask("sentinel2", &["SENTINEL", "FAILOVER", "m"]);
            }
            is_back
        });
        // The last of them is told by and by that it is a replica, and only then takes over from it.
        let all_follow = |said: &str| said.matches("state=online").count() == 2;
        eventually(SOON * 3, || all_follow(&deployment.ask::<String>("master", &["INFO", "replication"])));
        eventually(SOON, || ["sentinel1", "sentinel3"].iter().all(|name| deployment.master_by(name) == "master"));
    };
    let kind =
        Kind { master: "master", far: "sentinel2", now, give_back, name: unique_name, sharded: false, outlives: true };
    all_sides_are_served_as_well_as_they_can(deployment, &kind);
}

fn of_a_cluster(cluster: &Arc<Deployment>) {
    // Of the first three the fourth is the first's replica.
    let now = |cluster: &Deployment| if cluster.is_master("node3") { "node3".to_owned() } else { "node0".to_owned() };
    let sharded = cluster.flavour() != "redis62";
    let give_back = |cluster: &Deployment| assert_eq!(cluster.hand_over("node3").0, "node0");
    let kind =
        Kind { master: "node0", far: "node3", now, give_back, name: || name_on("node0"), sharded, outlives: false };
    all_sides_are_served_as_well_as_they_can(cluster, &kind);
}

#[test]
fn whoever_is_cut_off_with_an_old_master_leaves_it_once_a_sentinel_says_so_and_is_told_what_was_lost() {
    let Some(deployment) = apart(Deployment::with, FAR_OF_SENTINELS) else { return };
    of_sentinels(&deployment);
}

#[test]
fn whoever_a_switch_cuts_off_with_an_old_master_leaves_it_once_a_sentinel_says_so_and_is_told_what_was_lost() {
    of_sentinels(&switched(Deployment::with, FAR_OF_SENTINELS));
}

#[test]
fn whoever_is_cut_off_with_a_shards_old_master_leaves_it_once_the_others_are_there_and_is_told_what_was_lost() {
    let Some(cluster) = apart(Deployment::cluster_with, FAR_OF_A_CLUSTER) else { return };
    of_a_cluster(&cluster);
}

#[test]
fn whoever_a_switch_cuts_off_with_a_shards_old_master_leaves_it_once_the_others_are_there_and_is_told_what_was_lost() {
    of_a_cluster(&switched(Deployment::cluster_with, FAR_OF_A_CLUSTER));
}
