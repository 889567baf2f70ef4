//! A master that sentinels watch over: found by any of them, followed at once when it is another server, and never back. Who
//! held a lock is told the truth.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use relatch::{Client, ClientBuilder, Error, LockGuard, Op, RefusedKind};
use tokio::time::timeout;

use crate::{
    harness::{
        deployment::{Deployment, Wishes},
        eventually_async,
        lag::Lag,
        proxy::{Action, Proxy, matching::command},
        server::free_port,
        traces::Traces,
        unique_name,
    },
    kept::{channel, connected},
    taking::{SOON, Taker, all_is_told, lost_holds, rounds, was_soon},
};

const MS: Duration = Duration::from_millis(1);
/// To one of the servers.
type Done = fn(&Deployment, &str);
const SENTINELS: [&str; 3] = ["sentinel1", "sentinel2", "sentinel3"];

async fn client(deployment: &Deployment) -> Client {
    connected(builder(deployment)).await
}

fn builder(deployment: &Deployment) -> ClientBuilder {
    Client::builder().url(deployment.url())
}

/// A lock's whole life, and a waiter that is woken.
async fn live(client: &Client) {
    let lock = client.mutex(unique_name());
    let guard = lock.lock().await.expect("a free lock");
    let waiting = tokio::spawn(lock.lock());
    guard.extend(SOON).await.expect("it is held");
    guard.unlock().await.expect("it is held");
    waiting.await.expect("no panic").expect("it is free").unlock().await.expect("it is held");
}

/// Which server is the master instead of this one, and since when a sentinel says so.
async fn successor(deployment: &Deployment, old: &str, sentinels: &[&str]) -> (String, Instant) {
    successor_within(SOON, deployment, old, sentinels).await
}

async fn successor_within(
    within: Duration,
    deployment: &Deployment,
    old: &str,
    sentinels: &[&str],
) -> (String, Instant) {
    let mut found = None;
    eventually_async(within, async || {
        let new = sentinels.iter().map(|sentinel| deployment.master_by(sentinel)).find(|new| new != old);
        found = new.map(|new| (new, Instant::now()));
        found.is_some()
    })
    .await;
    found.expect("it is found")
}

/// Somebody waits for this name, and listens at that server.
async fn is_listened_to(deployment: &Deployment, server: &str, name: &str) {
    let listeners = |server: &str| deployment.ask::<(String, u64)>(server, &["PUBSUB", "NUMSUB", &channel(name)]).1;
    let listened = eventually_async(SOON, async || listeners(server) == 1);
    if timeout(SOON - MS * 500, listened).await.is_err() {
        let all = ["master", "replica1", "replica2"].map(|server| (server, listeners(server)));
        panic!("at {server}: {all:?}, by the sentinels {:?}", SENTINELS.map(|name| deployment.master_by(name)));
    }
}

/// No script of anybody's runs there, while it does not know yet that it is no master any more, and later; nobody listens there.
async fn is_left_alone(deployment: &Deployment, server: &str, client: &Client) {
    let before = deployment.scripts_run(server);
    eventually_async(SOON, async || {
        live(client).await;
        !deployment.is_master(server)
    })
    .await;
    live(client).await;
    assert_eq!(deployment.scripts_run(server), before);
    // Neither the sentinels' own, nor who asks.
    let mut clients = [const { String::new() }; 2];
    // Whoever has said nothing yet, a sentinel that was sent away and is back, says who it is in the end.
    eventually_async(SOON, async || {
        clients = ["NORMAL", "PUBSUB"].map(|kind| deployment.ask::<String>(server, &["CLIENT", "LIST", "TYPE", kind]));
        !clients.iter().any(|list| list.contains("cmd=NULL"))
    })
    .await;
    let others: Vec<_> = clients.iter().flat_map(|list| list.lines()).collect();
    let ours = others.iter().filter(|line| !line.contains("name=sentinel-") && !line.contains("cmd=client"));
    assert_eq!(ours.count(), 0, "{others:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_master_is_followed_when_one_dies_or_freezes_and_one_that_comes_back_is_not() {
    let deployment = Deployment::of_sentinels();
    let (ours, theirs) = (client(&deployment).await, client(&deployment).await);
    let blows = [(Deployment::kill as Done, Deployment::start as Done), (Deployment::freeze, Deployment::thaw)];
    for (blow, relief) in blows.into_iter().cycle().take(blows.len() * rounds()) {
        let master = deployment.master().await;
        let waited = unique_name();
        let held = theirs.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
        let waiter = tokio::spawn(ours.mutex(&waited).lock());
        is_listened_to(&deployment, &master, &waited).await;
        let mut taker = Taker::start(&ours, unique_name);
        taker.takes_several().await;
        blow(&deployment, &master);
        let (struck, lag) = (Instant::now(), Lag::watch());
        let (next, switched) = successor(&deployment, &master, &SENTINELS).await;
        taker.takes_after(switched).await;
        let taken = taker.stop().await;
        was_soon(&taken, struck, switched, lag);
        let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
        all_is_told(&deployment, &next, &ours, &guards, unique_name).await;
        // A release there is heard by who began to wait at the old one. Where that hold is lost, nobody needs to wait for it.
        drop(held.unlock().await);
        let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
        entered.unlock().await.expect("it is held");
        // As it is now it takes itself for a master, until the sentinels tell it otherwise.
        relief(&deployment, &master);
        is_left_alone(&deployment, &master, &ours).await;
    }
}

/// The old master is told last, and grants what nobody will know of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_granted_a_lock_by_a_master_that_is_none_any_more_is_told() {
    let deployment = Deployment::of_sentinels();
    let (client, theirs) = (client(&deployment).await, client(&deployment).await);
    let kept = join_all((0..50).map(|_| client.mutex(unique_name()).lock().into_future())).await;
    let kept: Vec<_> = kept.into_iter().map(|guard| guard.expect("a free lock")).collect();
    for _ in 0..rounds() {
        let (waited, master) = (unique_name(), deployment.master().await);
        let held = theirs.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
        let waiter = tokio::spawn(client.mutex(&waited).lock());
        is_listened_to(&deployment, &master, &waited).await;
        let mut taker = Taker::start(&client, unique_name);
        taker.takes_several().await;
        // Until the last failover is over for all of them, another one is refused.
        eventually_async(SOON, async || deployment.try_ask("sentinel1", &["SENTINEL", "FAILOVER", "m"])).await;
        let (struck, lag) = (Instant::now(), Lag::watch());
        let (_, switched) = successor(&deployment, &master, &SENTINELS).await;
        let next = deployment.master().await;
        // At the new one by then.
        let seen = deployment.scripts_run(&next);
        eventually_async(SOON, async || deployment.scripts_run(&next) > seen + 10).await;
        let (taken, guards): (Vec<_>, Vec<_>) = taker.stop().await.into_iter().unzip();
        let lost = all_is_told(&deployment, &next, &client, &guards, unique_name).await;
        // What the old one grants meanwhile nobody has: those that are still held are the new one's.
        let kept: Vec<_> = taken.into_iter().zip(&guards).filter(|(_, guard)| guard.is_held()).collect();
        was_soon(&kept, struck, switched, lag);
        assert!(lost > 0 && lost < guards.len(), "{lost} of {}", guards.len());
        println!("{lost} of {} were lost and told", guards.len());
        // Who waits has gone along, though nothing has cut his link to the old one.
        is_listened_to(&deployment, &next, &waited).await;
        held.unlock().await.expect("it is held there, too");
        let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
        entered.unlock().await.expect("it is held");
        is_left_alone(&deployment, &master, &client).await;
    }
    assert!(kept.iter().all(LockGuard::is_held), "what was there before is replicated");
    live(&client).await;
}

/// The servers are asked, and the sentinels learn of it by themselves: to them the master is down once it has said for two of their
/// looks, and for as long as a silent one may be silent, that it is a replica. Then they choose one, be it that one or another, and
/// until then nobody is the master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_only_the_servers_were_asked_for_is_over_soon_after_the_sentinels_agree() {
    let deployment = Deployment::of_sentinels();
    // Every second, where they can be told: with the usual ten it is half a minute until they agree.
    let looks = std::env::var("RELATCH_SENTINELS_LOOK").unwrap_or_else(|_| "1000".to_owned());
    for sentinel in SENTINELS {
        deployment.try_ask(sentinel, &["SENTINEL", "DEBUG", "INFO-PERIOD", &looks]);
    }
    let (ours, theirs) = (client(&deployment).await, client(&deployment).await);
    for _ in 0..rounds() {
        let (waited, master) = (unique_name(), deployment.master().await);
        let asked = deployment.replica_of_master(&master).await;
        let held = theirs.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
        let waiter = tokio::spawn(ours.mutex(&waited).lock());
        is_listened_to(&deployment, &master, &waited).await;
        let mut taker = Taker::start(&ours, unique_name);
        taker.takes_several().await;
        let port = deployment.port(asked).to_string();
        let () = deployment.ask(&master, &["FAILOVER", "TO", "127.0.0.1", &port]);
        let (struck, lag) = (Instant::now(), Lag::watch());
        eventually_async(SOON, async || deployment.is_master(asked)).await;
        let servers = struck.elapsed();
        let (next, switched) = successor_within(SOON * 2, &deployment, &master, &SENTINELS).await;
        println!("the servers took {servers:?} for {asked}, and the sentinels chose {next}");
        taker.takes_after(switched).await;
        let taken = taker.stop().await;
        was_soon(&taken, struck, switched, lag);
        let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
        all_is_told(&deployment, &next, &ours, &guards, unique_name).await;
        drop(held.unlock().await);
        let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
        entered.unlock().await.expect("it is held");
        is_left_alone(&deployment, &master, &ours).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hold_that_the_new_master_never_heard_of_is_told_and_its_lock_is_free_for_others() {
    let deployment = Deployment::of_sentinels();
    let (ours, theirs) = (client(&deployment).await, client(&deployment).await);
    for replica in ["replica1", "replica2"] {
        deployment.freeze(replica);
    }
    // What is in a replica's socket would reach it after all.
    let _: u64 = deployment.ask("master", &["CLIENT", "KILL", "TYPE", "replica"]);
    let guards = join_all((0..lost_holds()).map(|number| match number % 2 {
        0 => ours.mutex(unique_name()).lock().into_future(),
        _ => ours.mutex(unique_name()).lock().lease(SOON * 6).into_future(),
    }));
    let guards: Vec<_> = guards.await.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let waiter = tokio::spawn(theirs.mutex(guards[1].name()).lock());
    is_listened_to(&deployment, "master", guards[1].name()).await;
    deployment.kill("master");
    for replica in ["replica1", "replica2"] {
        deployment.thaw(replica);
    }
    let (next, _) = successor(&deployment, "master", &SENTINELS).await;
    all_is_told(&deployment, &next, &ours, &guards, unique_name).await;
    assert!(!guards.iter().any(LockGuard::is_held));
    let entered = timeout(SOON, waiter).await.expect("it is free there").expect("no panic").expect("its turn");
    entered.unlock().await.expect("it is held");
}

#[tokio::test]
async fn sentinels_that_nobody_named_are_heard_and_all_of_them_again_when_they_have_been_away() {
    let deployment = Deployment::of_sentinels();
    let traces = Traces::here();
    let told =
        |words: &str| traces.all().into_iter().filter(|said| said.is_ours() && said.what.contains(words)).count();
    let client = connected(Client::builder().url(deployment.url_by(&["sentinel1"]))).await;
    SENTINELS.iter().for_each(|name| deployment.kill(name));
    eventually_async(SOON, async || told("no sentinel answers") == 1).await;
    live(&client).await;
    SENTINELS.iter().for_each(|name| deployment.start(name));
    eventually_async(SOON, async || told("a sentinel answers again") == 1).await;
    // Ours listen there.
    let is_heard = |name: &&str| {
        let list: String = deployment.ask(name, &["CLIENT", "LIST", "TYPE", "PUBSUB"]);
        list.lines().any(|line| !line.contains("name=sentinel-"))
    };
    eventually_async(SOON, async || SENTINELS.iter().all(is_heard)).await;
    deployment.freeze("sentinel1");
    deployment.kill("master");
    successor(&deployment, "master", &SENTINELS[1..]).await;
    live(&client).await;
    assert_eq!((told("no sentinel answers"), told("another server for the master")), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_sentinels_at_addresses_of_version_6_are_found_and_followed() {
    let deployment = Deployment::with(&Wishes { host: Some("::1"), ..Wishes::default() });
    let named = deployment.url_by(&["sentinel1"]);
    assert!(named.contains("//[::1]:"), "{named}");
    let (ours, theirs) = (connected(Client::builder().url(named)).await, client(&deployment).await);
    live(&ours).await;
    let waited = unique_name();
    let held = theirs.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
    let waiter = tokio::spawn(ours.mutex(&waited).lock());
    is_listened_to(&deployment, "master", &waited).await;
    // The others are known by the addresses that the first one told.
    deployment.freeze("sentinel1");
    deployment.kill("master");
    let (next, _) = successor(&deployment, "master", &SENTINELS[1..]).await;
    live(&ours).await;
    assert!(deployment.scripts_run(&next) > 0);
    is_listened_to(&deployment, &next, &waited).await;
    held.unlock().await.expect("it is replicated");
    let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
    entered.unlock().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_the_masters_or_the_sentinels_and_one_sentinel_of_three_is_enough() {
    let deployment = Deployment::with(&Wishes {
        password: Some("s3cret-of-all"),
        sentinel_password: Some("s3cret-of-few"),
        ..Wishes::default()
    });
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (url, idle) = (deployment.url(), tasks());
    let rows = [
        (url.replace("?sentinel_password=s3cret-of-few", ""), "NOAUTH"),
        (url.replace("s3cret-of-few", "s3cret-of-none"), "WRONGPASS"),
        (url.replace("s3cret-of-all", "s3cret-of-none"), "WRONGPASS"),
        (url.replace(":s3cret-of-all@", ""), "NOAUTH"),
    ];
    for (url, code) in rows {
        let answer = Client::connect(&url).await;
        let Err(Error::Refused { kind: RefusedKind::Credentials, op: Op::Connect, source, .. }) = &answer else {
            panic!("{url}: {answer:?}")
        };
        let shown = format!("{source} {answer:?}");
        assert!(shown.contains(code) && !shown.contains("s3cret"), "{shown}");
    }
    let like = redis::Client::open("redis://:s3cret-of-all@any.host").expect("a good url");
    let sentinels = SENTINELS.map(|name| redis::Client::open(deployment.url_of(name)).expect("a good url"));
    live(&connected(Client::builder().sentinels("m", sentinels).nodes_like(like)).await).await;

    // Neither the sentinels' own, nor who asks.
    let clients = || -> usize {
        let lists = SENTINELS.iter().map(|name| deployment.ask::<String>(name, &["CLIENT", "LIST"]));
        lists.map(|list| list.lines().filter(|line| !line.contains("name=sentinel-")).count() - 1).sum()
    };
    eventually_async(SOON, async || (tasks(), clients()) == (idle, 0)).await;
    for closes in [true, false] {
        let client = connected(Client::builder().url(&url)).await;
        live(&client).await;
        assert!(tasks() > idle && clients() > 0);
        if closes {
            client.close().await;
        }
        drop(client);
        eventually_async(SOON, async || (tasks(), clients()) == (idle, 0)).await;
    }

    let client = connected(Client::builder().url(&url)).await;
    for silent in &SENTINELS[..2] {
        deployment.freeze(silent);
    }
    live(&client).await;
    live(&connected(Client::builder().url(&url)).await).await;
}

/// What the guide names, and no more.
#[tokio::test]
async fn few_rights_at_the_sentinels_are_enough_and_fewer_are_said_once_or_refused() {
    const ALL: &str = "+sentinel|master +sentinel|get-master-addr-by-name +sentinel|sentinels +sentinel|myid +subscribe \
                       +client|setname";
    let deployment = Deployment::of_sentinels();
    let rights = |rights: &str| {
        let user = format!("ACL SETUSER ann reset on >s3cret resetchannels &+switch-master &+sentinel -@all {rights}");
        let words: Vec<_> = user.split(' ').collect();
        SENTINELS.iter().for_each(|name| deployment.ask::<()>(name, &words));
    };
    let url = deployment.url().replace("#m", "?sentinel_username=ann&sentinel_password=s3cret#m");
    let refusals = || -> usize { SENTINELS.iter().map(|name| deployment.denied(name).len()).sum() };
    rights(ALL);
    let client = connected(Client::builder().url(&url)).await;
    live(&client).await;
    let listens = async || -> bool {
        let lists = SENTINELS.iter().map(|name| deployment.ask::<String>(name, &["CLIENT", "LIST", "TYPE", "PUBSUB"]));
        lists.into_iter().all(|list| list.contains("user=ann"))
    };
    eventually_async(SOON, listens).await;
    assert_eq!(refusals(), 0);
    client.close().await;

    rights("+sentinel|master +sentinel|get-master-addr-by-name");
    let traces = Traces::here();
    let client = connected(Client::builder().url(&url)).await;
    live(&client).await;
    let told = || traces.all().into_iter().filter(|said| said.is_ours() && said.what.contains("by itself")).count();
    eventually_async(SOON, async || told() == 1).await;
    deployment.kill("master");
    live(&client).await;
    assert_eq!(told(), 1);

    rights("+sentinel|master +subscribe");
    let answer = Client::connect(&url).await;
    let Err(Error::Refused { kind: RefusedKind::Permission, op: Op::Connect, source, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert!(source.to_string().contains("NOPERM"), "{source}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_cannot_be_served_hears_why() {
    let deployment = Deployment::shared();
    let (nobody, here) = (free_port(), deployment.port("sentinel2"));
    // One that is away keeps nobody.
    live(&connected(Client::builder().url(format!("redis-sentinel://127.0.0.1:{nobody},127.0.0.1:{here}#m"))).await)
        .await;
    live(&connected(Client::builder().url(deployment.url().replace("#m", "?protocol=resp2#m"))).await).await;
    let refused = async |url: String| Client::connect(&url).await.err().unwrap_or_else(|| panic!("{url} lets us in"));
    let error = refused(format!("redis-sentinel://127.0.0.1:{nobody}#m")).await;
    assert!(matches!(error, Error::Unreachable { op: Op::Connect, .. }) && error.is_transient(), "{error:?}");
    assert!(format!("{error:?}").contains(&nobody.to_string()), "{error:?}");
    let error = refused(deployment.url().replace("#m", "#other")).await;
    let Error::Invalid { what: "url", why, .. } = &error else { panic!("{error:?}") };
    assert!(why.contains("\"other\""), "{why}");
    let error = refused(format!("redis-sentinel://127.0.0.1:{}#m", deployment.port("master"))).await;
    let Error::Invalid { what: "url", why, .. } = &error else { panic!("{error:?}") };
    assert!(why.contains("no sentinel"), "{why}");
    // In either protocol, and where it does not know the greeting.
    let at = deployment.url_of("sentinel1");
    let old = Proxy::tcp_to_address((Ipv4Addr::LOCALHOST, deployment.port("sentinel1")).into());
    old.rule(command("HELLO"), Action::Answer("-ERR unknown command 'HELLO'\r\n"));
    for url in [at.clone(), format!("{at}?protocol=resp2"), old.url()] {
        let error = refused(url).await;
        let Error::Invalid { what: "url", why, .. } = &error else { panic!("{error:?}") };
        assert!(why.contains("redis-sentinel://"), "{why}");
    }
}
