//! Grants that count once replicas know of them: what a replica that stands still makes of them, and what it does to others.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use relatch::{Client, ClientBuilder, Error, LockGuard, Op, RefusedKind, Released, Result};
use tokio::{sync::Barrier, time::timeout};
use tracing::Level;

use crate::{
    harness::{
        Server,
        cluster::{MASTERS, name_in, name_on, slot},
        deployment::{Deployment, Wishes},
        detour::Detour,
        eventually_async,
        lag::Lag,
        proxy::{
            Action, Door, Event, Proxy,
            matching::{command, script},
        },
        server::free_port,
        traces::Traces,
        unique_name,
    },
    kept::connected,
};

const MS: Duration = Duration::from_millis(1);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(20);
/// Replicas that run acknowledge within this, on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(10);
/// Others are waited for no longer than this.
const WITHIN: Duration = Duration::from_millis(400);

/// Long enough for more than one try that waits for others in vain.
const LONG: Duration = Duration::from_millis(2000);

fn builder(servers: &Deployment, count: u32, within: Duration) -> ClientBuilder {
    Client::builder().url(servers.url()).replica_acks(count, within)
}

async fn client(servers: &Deployment, count: u32, within: Duration) -> Client {
    connected(builder(servers, count, within)).await
}

/// Those that follow the master since a moment ago acknowledge something after a while.
async fn all_follow(servers: &Deployment) {
    let ours = client(servers, 2, PATIENCE).await;
    ours.lock(unique_name()).lock().await.expect("a free lock").unlock().await.expect("it is held");
}

fn exists(servers: &Deployment, server: &str, name: &str) -> bool {
    servers.ask(server, &["EXISTS", name])
}

async fn is_gone(servers: &Deployment, server: &str, name: &str) {
    eventually_async(SOON, async || !exists(servers, server, name)).await;
}

#[track_caller]
fn assert_too_few(answer: &Result<Option<LockGuard>>, name: &str, told: (u32, u32)) {
    let Err(error @ Error::TooFewReplicas { name: of, acknowledged, wanted, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((&**of, *acknowledged, *wanted), (name, told.0, told.1));
    assert!(error.is_transient() && error.lock_name() == Some(name));
}

#[tokio::test]
async fn whoever_has_a_lock_has_it_on_as_many_replicas_as_are_asked_for() {
    let servers = Deployment::shared_replicas();
    for count in [1, 2] {
        let ours = client(servers, count, PATIENCE).await;
        for _ in 0..20 {
            let lock = ours.lock(unique_name());
            let guard = lock.lock().await.expect("a free lock");
            let replicas = ["replica1", "replica2"].iter().filter(|replica| exists(servers, replica, lock.name()));
            assert!(replicas.count() >= count as usize);
            let inner = lock.try_lock().await.expect("it is answered").expect("ours");
            assert!(matches!(inner.unlock().await, Ok(Released::StillHeld(1))));
            assert!(matches!(guard.unlock().await, Ok(Released::Freed)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_replica_stands_still_the_lock_is_given_back_and_whoever_waits_gets_it_when_it_goes_on() {
    let servers = Deployment::of_replicas();
    all_follow(&servers).await;
    let (both, one) = (client(&servers, 2, WITHIN).await, client(&servers, 1, PATIENCE).await);
    let hasty = connected(builder(&servers, 2, WITHIN).unreachable_after(LONG)).await;
    servers.freeze("replica1");
    let name = unique_name();
    let asked = Instant::now();
    assert_too_few(&both.lock(&name).try_lock().await, &name, (1, 2));
    assert!((WITHIN..SOON).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    is_gone(&servers, "master", &name).await;
    // Whoever waits hears of it at the end, and whoever would wait for ever when it has gone on for too long.
    for (client, wait) in [(&both, Some(LONG)), (&hasty, None)] {
        let (asked, before) = (Instant::now(), servers.scripts_run("master"));
        let answer = match wait {
            Some(wait) => client.lock(&name).try_lock().wait(wait).await,
            None => client.lock(&name).lock().await.map(Some),
        };
        assert_too_few(&answer, &name, (1, 2));
        assert!(asked.elapsed() >= LONG, "{:?}", asked.elapsed());
        assert!(servers.scripts_run("master") >= before + 3, "it tried once");
        is_gone(&servers, "master", &name).await;
    }
    // One is enough for others.
    one.lock(&name).lock().await.expect("one of them goes on").unlock().await.expect("it is held");

    let before = servers.scripts_run("master");
    let waiting = tokio::spawn(both.lock(&name).try_lock().wait(SOON * 3).into_future());
    eventually_async(SOON, async || servers.scripts_run("master") >= before + 3).await;
    assert!(!waiting.is_finished());
    servers.thaw("replica1");
    let guard = timeout(SOON, waiting).await.expect("it tries again").expect("no panic").expect("it is answered");
    guard.expect("it is free").unlock().await.expect("it is held");
}

/// Over a link on which a server waits for replicas it answers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_but_who_acquires_waits_for_a_replica_that_stands_still_and_many_wait_together() {
    let servers = Deployment::of_replicas();
    all_follow(&servers).await;
    let within = MS * 1000;
    let ours = Arc::new(client(&servers, 2, within).await);
    let held = ours.lock(unique_name()).lock().await.expect("a free lock");
    servers.freeze("replica2");
    let (barrier, lag, asked) = (Arc::new(Barrier::new(65)), Lag::watch(), Instant::now());
    let names: Vec<_> = (0..64).map(|_| unique_name()).collect();
    let tries = names.iter().map(|name| {
        let (lock, barrier) = (ours.mutex(name), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            lock.try_lock().await
        })
    });
    let tries: Vec<_> = tries.collect();
    barrier.wait().await;
    // Not one of these commands comes behind what waits for the replicas.
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let asked = Instant::now();
        assert!(held.is_held() && ours.lock(held.name()).is_locked().await.expect("the server answers"));
        longest = longest.max(asked.elapsed());
    }
    held.extend(SOON).await.expect("it is held");
    assert!(matches!(held.unlock().await, Ok(Released::Freed)));
    let took = asked.elapsed();
    for (name, answer) in names.iter().zip(join_all(tries).await) {
        assert_too_few(&answer.expect("no panic"), name, (1, 2));
    }
    let all = asked.elapsed();
    let late = lag.added_to(Duration::ZERO);
    assert!(longest < MS * 300 + late && took < within + late, "{longest:?}, {took:?}, {late:?}");
    // Whoever came too late for the first question shares the second one.
    assert!(all < (within + MS * 100) * 3 + late, "{all:?}, {late:?}");
}

/// One of two replicas is so far from the master, each way.
async fn with_a_far_replica(each_way: Duration) -> (Deployment, Detour) {
    let servers = Deployment::of_replicas();
    let detour = Detour::to(servers.port("master"), each_way);
    let () = servers.ask("replica1", &["REPLICAOF", "127.0.0.1", &detour.port().to_string()]);
    all_follow(&servers).await;
    (servers, detour)
}

/// More than share one question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_free_locks_that_are_asked_for_at_once_are_all_granted_however_far_a_replica_is() {
    const NAMES: u32 = 5_000;
    for each_way in [MS * 5, MS * 50] {
        let (servers, _detour) = with_a_far_replica(each_way).await;
        let ours = client(&servers, 2, PATIENCE).await;
        let asked = Instant::now();
        // Whatever each is ready to wait: they wait for nobody who has it.
        let tries = (0..NAMES).map(|n| {
            let once = ours.mutex(unique_name()).try_lock();
            tokio::spawn(if n % 2 == 0 { once } else { once.wait(MS) }.into_future())
        });
        let tries: Vec<_> = tries.collect();
        let mut guards = Vec::new();
        for answer in join_all(tries).await {
            guards.push(answer.expect("no panic").expect("the servers answer").expect("it is free"));
        }
        let took = asked.elapsed();
        let one_by_one = each_way * 2 * (NAMES / 64);
        println!("{NAMES} with a replica {:?} away: {took:?}", each_way * 2);
        assert!(each_way < MS * 50 || took < one_by_one, "{took:?}");
        assert_eq!(servers.ask::<u32>("replica1", &["DBSIZE"]), NAMES);
        for unlocked in join_all(guards.iter().map(LockGuard::unlock)).await {
            assert!(matches!(unlocked, Ok(Released::Freed)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_go_while_their_try_is_on_its_way_cost_a_release_each_and_nothing_later() {
    let servers = Deployment::of_replicas();
    let proxy = Proxy::tcp_to_address(SocketAddr::from((Ipv4Addr::LOCALHOST, servers.port("master"))));
    let builder = Client::builder().url(proxy.url()).replica_acks(1, PATIENCE).watchdog_timeout(MS * 24_000);
    let ours = connected(builder).await;
    ours.lock(unique_name()).lock().await.expect("a free lock").unlock().await.expect("it is held");
    let before = servers.scripts_run("master");
    proxy.rule(script("acquire"), Action::DelayRequest(MS * 20));
    let names: Vec<_> = (0..20).map(|_| unique_name()).collect();
    let lease = SOON * 180;
    let tries = names.iter().map(|name| tokio::spawn(ours.mutex(name).lock().lease(lease).into_future()));
    let tries: Vec<_> = tries.collect();
    eventually_async(SOON, async || proxy.count(&script("acquire")) > names.len()).await;
    tries.iter().for_each(tokio::task::JoinHandle::abort);
    drop(tries);
    for name in &names {
        is_gone(&servers, "master", name).await;
    }
    // A third of a watchdog's lease is when what may run late would be looked for first.
    tokio::time::sleep(MS * 8_500).await;
    assert_eq!(servers.scripts_run("master") - before, 2 * names.len() as u64);
}

/// As where something in the way lets no more than so many connections through.
#[tokio::test]
async fn where_the_link_to_ask_on_cannot_be_opened_it_is_said_once_and_whoever_would_wait_for_ever_is_told() {
    let (servers, traces) = (Deployment::shared_replicas(), Traces::here());
    let proxy = Proxy::tcp_to_address(SocketAddr::from((Ipv4Addr::LOCALHOST, servers.port("master"))));
    let builder = Client::builder().url(proxy.url()).replica_acks(1, WITHIN);
    let ours = connected(builder.command_timeout(MS * 500).unreachable_after(LONG)).await;
    proxy.door(Door::Refusing);
    let (name, asked) = (unique_name(), Instant::now());
    let looking = tokio::spawn({
        let lock = ours.lock(unique_name());
        async move {
            loop {
                assert!(!lock.is_locked().await.expect("the other link is there"));
                tokio::time::sleep(MS * 20).await;
            }
        }
    });
    let answer = timeout(SOON, ours.lock(&name).lock()).await.expect("not for ever");
    assert!(matches!(answer, Err(Error::Unreachable { may_have_run: false, .. })), "{answer:?}");
    assert!(asked.elapsed() >= LONG, "{:?}", asked.elapsed());
    proxy.door(Door::Open);
    ours.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
    assert!(!looking.is_finished());
    looking.abort();
    let said = |level, start: &str| {
        traces.all().iter().filter(|said| said.level == level && said.what.starts_with(start)).count()
    };
    assert_eq!((said(Level::WARN, "no second link"), said(Level::INFO, "the second link")), (1, 1));
}

/// Whoever drops a command early leaves nobody who waits for its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_has_fallen_silent_is_found_though_replicas_are_asked_over_another_all_the_while() {
    let servers = Deployment::shared_replicas();
    let proxy = Proxy::tcp_to_address(SocketAddr::from((Ipv4Addr::LOCALHOST, servers.port("master"))));
    let ours = connected(Client::builder().url(proxy.url()).replica_acks(1, PATIENCE).command_timeout(MS * 1000)).await;
    let (held, name) = (unique_name(), unique_name());
    let guard = ours.lock(&held).lock().await.expect("a free lock");
    // Its own releases are lost with the link, and not looked at: it asks for what another one has.
    let silent = proxy.rule(script("inspect").first(1), Action::Silence);
    let asking = tokio::spawn({
        let lock = connected(Client::builder().url(servers.url())).await.lock(&name);
        let other = lock.lock().await.expect("a free lock");
        let mutex = ours.mutex(&name);
        async move {
            loop {
                assert!(mutex.try_lock().await.is_ok_and(|guard| guard.is_none()), "{other:?} has it");
                tokio::time::sleep(MS * 20).await;
            }
        }
    });
    assert!(timeout(MS * 50, ours.lock(&held).is_locked()).await.is_err(), "nothing comes");
    eventually_async(SOON, async || silent.seen() == 1).await;
    // Nothing else is asked over that link: it is not for want of an answer to that.
    let opened = || proxy.log().iter().filter(|entry| matches!(entry.event, Event::Opened)).count();
    let before = opened();
    eventually_async(SOON / 4, async || opened() > before).await;
    assert!(!asking.is_finished());
    asking.abort();
    guard.unlock().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_while_replicas_are_waited_for_leaves_nothing() {
    let servers = Deployment::of_replicas();
    let ours = client(&servers, 2, SOON / 2).await;
    servers.freeze("replica1");
    let name = unique_name();
    let waiting = tokio::spawn(ours.lock(&name).lock().into_future());
    eventually_async(SOON, async || exists(&servers, "master", &name)).await;
    let (gone, lag) = (Instant::now(), Lag::watch());
    waiting.abort();
    is_gone(&servers, "master", &name).await;
    // Long before the server is through with waiting.
    let late = lag.added_to(SOON / 4);
    assert!(gone.elapsed() < late, "{:?}", gone.elapsed());
}

/// An acquire and its release take two ways: the second one must not come before the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_right_after_it_asked_leaves_nothing() {
    let servers = Deployment::shared_replicas();
    let proxy = Proxy::tcp_to_address(SocketAddr::from((Ipv4Addr::LOCALHOST, servers.port("master"))));
    let ours = connected(Client::builder().url(proxy.url()).replica_acks(1, PATIENCE)).await;
    // The link for it is there.
    ours.lock(unique_name()).lock().await.expect("a free lock").unlock().await.expect("it is held");
    proxy.rule(script("acquire"), Action::DelayRequest(MS * 50));
    for _ in 0..5 {
        let name = unique_name();
        let asking = tokio::spawn(ours.mutex(&name).lock().into_future());
        eventually_async(SOON, async || !proxy.commands_of(&name).is_empty()).await;
        asking.abort();
        // What came before it had found nothing, and what was left would be there for a third of half a minute. Once all has been
        // answered nothing is on its way that could make it anew.
        let released = || proxy.commands_of(&name).iter().any(|entry| entry.script().as_deref() == Some("release"));
        let over = || released() && proxy.has_answered(&name);
        eventually_async(SOON / 4, async || over() && !exists(servers, "master", &name)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_answer_is_lost_is_released_and_asked_for_under_another_number() {
    let servers = Deployment::shared_replicas();
    for lost in [script("acquire"), command("WAIT")] {
        for loss in [Action::SwallowReply, Action::CutAfter] {
            let proxy = Proxy::tcp_to_address(SocketAddr::from((Ipv4Addr::LOCALHOST, servers.port("master"))));
            let builder = Client::builder().url(proxy.url()).replica_acks(1, WITHIN).command_timeout(MS * 500);
            let ours = connected(builder).await;
            let (name, other) = (unique_name(), unique_name());
            ours.lock(&other).lock().await.expect("a free lock").unlock().await.expect("it is held");
            proxy.rule(lost.clone().first(1), loss);
            let answer = ours.lock(&name).try_lock().await;
            let Err(Error::Unreachable { op: Op::Acquire, may_have_run: true, .. }) = answer else {
                panic!("{loss:?}: {answer:?}");
            };
            is_gone(servers, "master", &name).await;
            proxy.rule(lost.clone().first(1), loss);
            let guard = ours.lock(&name).lock().await.expect("it tries again");
            assert_eq!(servers.ask::<i64>("master", &["HLEN", &name]), 1);
            guard.unlock().await.expect("it is held");
            is_gone(servers, "master", &name).await;
            // Each number was asked for once: of a repetition a server may count replicas that know nothing of it.
            let number = |words: &[Vec<u8>]| String::from_utf8_lossy(&words[4]).into_owned();
            let asked = proxy.commands_of(&name).into_iter();
            let asked = asked.filter(|entry| entry.script().as_deref() == Some("acquire"));
            let mut numbers: Vec<_> = asked.filter_map(|entry| entry.words().map(number)).collect();
            assert!(numbers.len() >= 3, "{numbers:?}");
            numbers.dedup();
            let different = numbers.len();
            numbers.sort();
            numbers.dedup();
            assert_eq!(numbers.len(), different, "{numbers:?}");
        }
    }
}

#[tokio::test]
async fn whoever_knows_no_script_that_is_sent_whole_is_not_asked_again_and_again() {
    let servers = Deployment::shared_replicas();
    let proxy = Proxy::tcp_to_address(SocketAddr::from((Ipv4Addr::LOCALHOST, servers.port("master"))));
    let ours = connected(Client::builder().url(proxy.url()).replica_acks(1, WITHIN)).await;
    let unknown = proxy.rule(script("acquire"), Action::Answer("-NOSCRIPT No matching script. Please use EVAL.\r\n"));
    let refused = timeout(SOON, ours.lock(unique_name()).try_lock()).await.expect("it is given up");
    assert!(matches!(refused, Err(Error::Refused { op: Op::Acquire, .. })), "{refused:?}");
    assert_eq!(unknown.seen(), 2);
}

#[tokio::test]
async fn replicas_are_asked_only_where_that_is_wanted_and_over_one_more_connection() {
    let server = Server::own();
    let plain = connected(Client::builder().url(server.url())).await;
    plain.lock("a").lock().await.expect("a free lock").unlock().await.expect("it is held");
    assert_eq!(server.count("wait"), 0);
    let ours = connected(Client::builder().url(server.url()).replica_acks(1, MS * 20).label("acks")).await;
    let connections = || {
        let mut list = redis::cmd("CLIENT");
        let list: String = list.arg("LIST").query(&mut server.connection()).expect("the server answers");
        list.matches("name=relatch:acks:").count()
    };
    eventually_async(SOON, async || connections() == 1).await;
    // A server without replicas has none that know of anything.
    assert_too_few(&ours.lock("a").try_lock().await, "a", (0, 1));
    assert!(server.count("wait") >= 1);
    eventually_async(SOON, async || server.keys().is_empty()).await;
    assert_eq!(connections(), 2);
    drop(ours);
    eventually_async(SOON, async || connections() == 0).await;
}

#[tokio::test]
async fn whoever_may_not_ask_for_replicas_is_told_that_and_has_no_lock() {
    let servers = Deployment::replicas_with(&Wishes { password: Some("s3cret"), ..Wishes::default() });
    let ours = client(&servers, 1, PATIENCE).await;
    ours.lock("a").lock().await.expect("a free lock").unlock().await.expect("it is held");
    let () = servers.ask("master", &["ACL", "SETUSER", "ann", "on", ">pass", "~*", "&*", "+@all", "-wait"]);
    let url = format!("redis://ann:pass@127.0.0.1:{}", servers.port("master"));
    let ann = connected(Client::builder().url(url).replica_acks(1, PATIENCE)).await;
    let refused = ann.lock("b").lock().await;
    let Err(Error::Refused { kind: RefusedKind::Permission, op: Op::Acquire, source, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(source.to_string().contains("wait"), "{source}");
    is_gone(&servers, "master", "b").await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_before_anything_is_sent() {
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let of = |count, within| Client::builder().url(&nobody).watchdog_timeout(MS * 1000).replica_acks(count, within);
    for (count, within) in
        [(0, WITHIN), (101, WITHIN), (u32::MAX, WITHIN), (1, Duration::ZERO), (1, MS * 501), (1, Duration::MAX)]
    {
        let refused = of(count, within).connect().await;
        assert!(
            matches!(refused, Err(Error::Invalid { what: "replica_acks", .. })),
            "{count}, {within:?}: {refused:?}"
        );
    }
    for (count, within) in [(1, Duration::from_nanos(1)), (100, MS * 500)] {
        let away = of(count, within).connect().await;
        assert!(matches!(away, Err(Error::Unreachable { op: Op::Connect, .. })), "{count}, {within:?}: {away:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_sentinels_name_has_its_replicas_and_the_next_one_those_that_follow_it() {
    let servers = Deployment::of_sentinels();
    let ours = client(&servers, 1, MS * 500).await;
    let lock = ours.lock(unique_name());
    let guard = lock.lock().await.expect("a free lock");
    assert!(["replica1", "replica2"].iter().any(|replica| exists(&servers, replica, lock.name())));
    guard.unlock().await.expect("it is held");
    servers.kill("master");
    let guard = lock.try_lock().wait(SOON * 2).await.expect("it is answered").expect("another server is the master");
    let master = servers.master().await;
    assert!(master != "master" && exists(&servers, &master, lock.name()));
    guard.unlock().await.expect("it is held");
}

/// Takes one new lock after the other while the sentinels make another server the master: how many there were, and how many the
/// new one does not know of, each of them told.
async fn lost_in_a_failover(count: u32) -> (usize, usize) {
    let servers = Deployment::of_sentinels();
    let ours = client(&servers, count, WITHIN).await;
    all_follow(&servers).await;
    let first = ours.mutex(unique_name()).lock().lease(SOON * 6).await.expect("a free lock");
    eventually_async(SOON, async || servers.try_ask("sentinel1", &["SENTINEL", "FAILOVER", "m"])).await;
    let ordered = Instant::now();
    let mut taken = vec![first];
    // The old master is told of it after a second.
    while ordered.elapsed() < MS * 1500 {
        match ours.mutex(unique_name()).try_lock().lease(SOON * 6).await {
            Ok(guard) => taken.push(guard.expect("nobody else has it")),
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
    let master = servers.master().await;
    assert_ne!(master, "master");
    let linked = ours.mutex(unique_name()).try_lock().wait(SOON * 2).await.expect("replicas follow it in the end");
    linked.expect("nobody else has it").unlock().await.expect("it is held");
    let mut holders = redis::pipe();
    for guard in &taken {
        holders.exists(guard.name());
    }
    let there: Vec<bool> = holders.query(&mut servers.connection(&master)).expect("the server answers");
    let lost: Vec<_> = taken.iter().zip(there).filter(|(_, there)| !there).map(|(guard, _)| guard).collect();
    for guard in &lost {
        timeout(SOON, guard.lost()).await.expect("it is told");
    }
    assert_eq!(taken.iter().filter(|guard| !guard.is_held()).count(), lost.len());
    (taken.len(), lost.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_forgets_no_grant_that_all_replicas_know_of_and_may_forget_those_of_some() {
    let (taken, lost) = lost_in_a_failover(2).await;
    assert!(lost == 0 && taken > 0, "{lost} of {taken}");
    println!("of both replicas: {lost} of {taken} were lost");
    let (taken, lost) = lost_in_a_failover(1).await;
    println!("of one of two: {lost} of {taken} were lost, and told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_of_a_cluster_has_its_own_replicas_and_a_slot_those_where_it_goes() {
    let cluster = Deployment::of_cluster();
    let ours = client(&cluster, 1, MS * 500).await;
    for node in MASTERS {
        // A script that is not known any more is sent with its source.
        let () = cluster.ask(node, &["SCRIPT", "FLUSH"]);
        let guard = ours.lock(name_on(node)).lock().await.expect("a free lock");
        guard.unlock().await.expect("it is held");
    }
    let slot = slot(&name_on("node0"));
    let [half, moved] = [name_in(slot), name_in(slot)];
    cluster.begin_migration(slot, "node0", "node1");
    let guard = ours.lock(&half).lock().await.expect("the next owner has it");
    guard.unlock().await.expect("it is held");
    cluster.move_keys(slot, "node0", "node1");
    cluster.end_migration(slot, "node0", "node1");
    let guard = ours.lock(&moved).lock().await.expect("where it is now");
    let replica = cluster.replica_of("node1");
    eventually_async(SOON, async || cluster.ask::<i64>(replica, &["DBSIZE"]) == 1).await;
    guard.unlock().await.expect("it is held");

    cluster.freeze(replica);
    let other = name_in(slot);
    assert_too_few(&ours.lock(&other).try_lock().await, &other, (0, 1));
    for node in ["node0", "node2"] {
        let guard = ours.lock(name_on(node)).lock().await.expect("its replica goes on");
        guard.unlock().await.expect("it is held");
    }
    cluster.thaw(replica);
    ours.lock(&other).lock().await.expect("its replica goes on").unlock().await.expect("it is held");
}

/// A server with a replica.
fn pair() -> (Server, Server) {
    let master = Server::builder().tcp().start();
    let replica = Server::builder().line(format!("replicaof 127.0.0.1 {}", master.port())).start();
    (master, replica)
}

/// What the name stands for, for whoever asks from now on.
fn lead_to(name: &Path, server: &Server) {
    let next = name.with_extension("next");
    std::os::unix::fs::symlink(server.socket(), &next).expect("nobody else has it");
    std::fs::rename(next, name).expect("it is there");
}

/// Those who have links to the old server keep them, and it goes on answering.
#[tokio::test]
async fn a_name_that_leads_to_another_server_parts_no_grant_from_its_release() {
    let [(old, _old), (new, _new)] = [pair(), pair()];
    let name = old.socket().with_file_name("name");
    lead_to(&name, &old);
    let builder = || Client::builder().url(format!("redis+unix://{}", name.display())).replica_acks(1, PATIENCE);
    let ours = connected(builder()).await;
    lead_to(&name, &new);
    let before = old.count("evalsha");
    for _ in 0..3 {
        let lock = ours.lock(unique_name());
        let guard = timeout(SOON, lock.lock()).await.expect("its turn").expect("a free lock");
        assert_eq!(new.keys(), [lock.name()]);
        assert_eq!(guard.unlock().await.expect("it is held there"), Released::Freed);
        assert!(new.keys().is_empty());
    }
    assert_eq!(old.count("evalsha"), before);
}
