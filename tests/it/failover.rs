//! Another server answers than before, or the same one has forgotten everything: holders are told at once, and a server that
//! has become a replica is left.

use std::{
    os::unix::fs::symlink,
    path::PathBuf,
    time::{Duration, Instant},
};

use relatch::{Client, Error, LockGuard, LostCause, RefusedKind};
use tokio::time::{sleep, timeout};

use crate::{
    harness::{
        Server, eventually_async,
        lag::Lag,
        proxy::{Action, Door, Proxy, matching::script},
        unique_name,
    },
    kept::{channel, client, connected, held, kept, teach},
    taking::{Taker, was_soon},
};

const MS: Duration = Duration::from_millis(1);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// After the new link every holder is told within this, however long its lease is. A test sees the link only when it is there.
const TOLD: Duration = Duration::from_millis(1500);

/// One address, whose server may change.
struct Address(PathBuf);

impl Address {
    fn of(server: &Server) -> Self {
        let at = server.socket().with_file_name("address");
        symlink(server.socket(), &at).expect("a name of its own");
        Self(at)
    }

    /// Through a proxy.
    fn before(server: &Server, proxy: &Proxy) -> Self {
        let at = server.socket().with_file_name("address");
        let url = proxy.url();
        symlink(url.strip_prefix("redis+unix://").expect("it is on a socket"), &at).expect("a name of its own");
        Self(at)
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.0.display())
    }

    fn leads_to(&self, server: &Server) {
        let next = self.0.with_extension("next");
        symlink(server.socket(), &next).expect("a name of its own");
        std::fs::rename(next, &self.0).expect("the address is there");
    }
}

fn ask(server: &Server, words: &[&str]) {
    let _: redis::Value = redis::cmd(words[0]).arg(&words[1..]).query(&mut server.connection()).expect("it answers");
}

fn becomes_a_replica(server: &Server) {
    // Of nobody: it refuses to write all the same.
    ask(server, &["REPLICAOF", "127.0.0.1", "1"]);
}

/// Holds of each kind: half of them under the watchdog.
async fn holds(client: &Client, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..count {
        let lock = client.mutex(unique_name());
        let acquire = if number % 2 == 0 { lock.lock() } else { lock.lock().lease(SOON * 60) };
        guards.push(acquire.await.expect("a free lock"));
    }
    guards
}

/// Waits for a new link, and then for every guard to be told.
async fn are_told(client: &Client, guards: &[LockGuard]) {
    // Over the new link, as soon as there is one: the first question may be what finds the old one cut.
    let answers = async {
        while let Err(error) = client.lock(unique_name()).is_locked().await {
            assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        }
    };
    timeout(SOON, answers).await.expect("there is a link soon");
    let (lag, linked) = (Lag::watch(), Instant::now());
    for guard in guards {
        let lost = timeout(SOON, guard.lost()).await.expect("it is told long before its renewal");
        assert!(matches!(lost, Error::Lost { cause: LostCause::Gone, .. }), "{lost:?}");
    }
    let took = linked.elapsed();
    assert!(took < lag.added_to(TOLD), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_a_server_that_restarts_empty_are_told_at_once() {
    for count in [1, 2, 1000] {
        let server = Server::own();
        let client = client(server.url()).await;
        let guards = holds(&client, count).await;
        server.restart_empty();
        are_told(&client, &guards).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_told_at_once_when_another_server_answers_at_the_address() {
    let (old, new) = (Server::own(), Server::own());
    let address = Address::of(&old);
    let client = client(address.url()).await;
    let guards = holds(&client, 1000).await;
    address.leads_to(&new);
    ask(&old, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    are_told(&client, &guards).await;
    assert!(new.keys().is_empty());
}

/// The subscription link is left alone, and its server too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_goes_along_when_another_server_answers_at_the_address() {
    let (old, new) = (Server::own(), Server::own());
    let address = Address::of(&old);
    let (waiting, name) = (client(address.url()).await, unique_name());
    let _there = client(old.url()).await.mutex(&name).lock().lease(SOON * 6).await.expect("a free lock");
    let theirs = client(new.url()).await.mutex(&name).lock().lease(SOON * 6).await.expect("a free lock");
    let waiter = tokio::spawn(waiting.mutex(&name).lock());
    eventually_async(SOON, async || old.listeners(&channel(&name)) == 1).await;
    address.leads_to(&new);
    ask(&old, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    eventually_async(SOON, async || new.listeners(&channel(&name)) == 1).await;
    assert_eq!(old.listeners(&channel(&name)), 0);
    theirs.unlock().await.expect("it is held");
    let next = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
    next.unlock().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_told_at_once_when_what_is_behind_a_proxy_was_replaced() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = client(proxy.url()).await;
    let guards = holds(&client, 1000).await;
    proxy.door(Door::Refusing);
    proxy.cut_all();
    let name = unique_name();
    let meanwhile = tokio::spawn(client.lock(&name).try_lock().wait(SOON));
    server.restart_empty();
    proxy.door(Door::Open);
    are_told(&client, &guards).await;
    // What is asked of the new server stays.
    let guard = meanwhile.await.expect("no panic").expect("the server answers").expect("a free lock");
    sleep(TOLD).await;
    assert!(guard.is_held() && held(&server, &name).is_of(&client));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_that_the_server_still_has_stay_when_the_link_is_replaced_and_nothing_grows() {
    let server = Server::own();
    let client = client(server.url()).await;
    let guards = holds(&client, 300).await;
    let name = unique_name();
    let fixed = client.mutex(&name).lock().lease(SOON).await.expect("a free lock");
    let before = held(&server, &name);
    server.reset_counts();
    ask(&server, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    // 301 holds: two calls for each kind, and what a batch lacked.
    eventually_async(SOON, async || server.count("hexists") >= 301).await;
    sleep(MS * 100).await;
    assert_eq!(server.count("hexists"), 301);
    assert!(guards.iter().all(LockGuard::is_held) && fixed.is_held());
    assert_eq!(held(&server, &name), before);
}

/// A planned failover: the old master goes on as a replica, with all its links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_a_replica_is_left_for_the_one_at_its_address() {
    let (old, new) = (Server::own(), Server::own());
    let address = Address::of(&old);
    let client = client(address.url()).await;
    let other = crate::kept::client(new.url()).await;
    let (name, waited) = (unique_name(), unique_name());
    let guard = client.mutex(&name).lock().await.expect("a free lock");
    // Somebody waits, and listens there.
    let kept_there =
        crate::kept::client(old.url()).await.mutex(&waited).lock().lease(SOON * 6).await.expect("it is free");
    let waiter = tokio::spawn(client.mutex(&waited).lock());
    eventually_async(SOON, async || old.listeners(&channel(&waited)) == 1).await;
    let theirs = other.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
    address.leads_to(&new);
    becomes_a_replica(&old);
    let entered = client.mutex(unique_name()).try_lock().wait(SOON).await.expect("it heals").expect("a free lock");
    assert_eq!(new.keys().len(), 2);
    assert!(matches!(timeout(SOON, guard.lost()).await, Ok(Error::Lost { cause: LostCause::Gone, .. })));
    // Who waits hears what is said at the new one.
    eventually_async(SOON, async || new.listeners(&channel(&waited)) == 1).await;
    eventually_async(SOON, async || old.listeners(&channel(&waited)) == 0).await;
    theirs.unlock().await.expect("it is held");
    let (lag, freed) = (Lag::watch(), Instant::now());
    let next = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
    let took = freed.elapsed();
    assert!(took < lag.added_to(Duration::from_secs(2)), "{took:?}");
    drop((entered, next, kept_there));
    assert!(kept(&new, &name).is_none());
}

/// By the servers' own command: the old master stops before the new one begins, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_the_servers_were_asked_for_loses_nothing_and_is_over_soon_after_theirs() {
    let servers = [(); 2].map(|()| Server::builder().tcp().start());
    ask(&servers[1], &["REPLICAOF", "127.0.0.1", &servers[0].port().to_string()]);
    let role = |server: &Server| -> Vec<redis::Value> {
        redis::cmd("ROLE").query(&mut server.connection()).expect("ROLE answers")
    };
    let is = |server: &Server, word: &str| role(server).contains(&redis::Value::BulkString(word.into()));
    let address = Address::of(&servers[0]);
    let client = client(address.url()).await;
    for round in 0..3 {
        let (old, new) = (&servers[round % 2], &servers[1 - round % 2]);
        // It copies all there is first, and the other one waits a while for more replicas before that.
        eventually_async(SOON * 3, async || is(new, "connected")).await;
        let seen = new.count("hexists");
        let mut taker = Taker::start(&client, unique_name);
        taker.takes_several().await;
        let (struck, lag) = (Instant::now(), Lag::watch());
        ask(old, &["FAILOVER", "TO", "127.0.0.1", &new.port().to_string()]);
        eventually_async(SOON, async || is(new, "master")).await;
        address.leads_to(new);
        let switched = Instant::now();
        taker.takes_after(switched).await;
        let taken = taker.stop().await;
        was_soon(&taken, struck, switched, lag);
        let before = taken.iter().filter(|(at, _)| *at < struck).count();
        // The new one is asked for each of those that the old one granted.
        eventually_async(SOON, async || new.count("hexists") >= seen + before as u64).await;
        assert!(before > 0 && taken.iter().all(|(_, guard)| guard.is_held() && kept(new, guard.name()).is_some()));
    }
}

/// The same where renewals are all that is sent there, in batches: by their hashes, and whole where it has forgotten them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_a_replica_is_left_when_it_refuses_renewals() {
    for forgets in [false, true] {
        let (old, new) = (Server::own(), Server::own());
        teach(&old);
        let proxy = Proxy::to(&old);
        if forgets {
            proxy.rule(script("renew"), Action::FlushScriptsFirst);
        }
        let address = Address::before(&old, &proxy);
        let lease = Duration::from_secs(6);
        let client = connected(Client::builder().url(address.url()).watchdog_timeout(lease)).await;
        let mut guards = Vec::new();
        for _ in 0..2 {
            guards.push(client.mutex(unique_name()).lock().await.expect("a free lock"));
        }
        address.leads_to(&new);
        becomes_a_replica(&old);
        // The next renewal is due after a third of the lease, and it is asked for at the new one at once.
        let (lag, changed) = (Lag::watch(), Instant::now());
        for guard in &guards {
            let lost = timeout(SOON, guard.lost()).await.expect("it is told");
            assert!(matches!(lost, Error::Lost { cause: LostCause::Gone, .. }), "{lost:?}");
        }
        let took = changed.elapsed();
        assert!(took < lag.added_to(lease / 3 + TOLD), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_a_replica_refuses_and_is_not_stormed_with_links() {
    const TIMEOUT: Duration = Duration::from_millis(700);
    let server = Server::own();
    let client = connected(Client::builder().url(server.url()).command_timeout(TIMEOUT)).await;
    let held = client.mutex(unique_name()).lock().await.expect("a free lock");
    becomes_a_replica(&server);
    let links = || {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut server.connection()).expect("INFO answers");
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.expect("the server counts").trim().parse::<u64>().expect("a number")
    };
    let (before, until) = (links(), Instant::now() + Duration::from_secs(3));
    let mut refused = 0;
    while Instant::now() < until {
        let asked = Instant::now();
        let tries = (0..20).map(|_| client.mutex(unique_name()).try_lock());
        for tried in futures_util::future::join_all(tries.map(IntoFuture::into_future)).await {
            match tried {
                // Its own refusal, or that of another, behind which it was under way on the link that this ended.
                Err(Error::Refused { kind: RefusedKind::ReadOnly, .. }) => refused += 1,
                // One that found no link. Nobody said that it is busy.
                Err(Error::Unreachable { may_have_run: false, .. }) => {}
                // One that found a link when its time was as good as over.
                Err(Error::Unreachable { .. }) if asked.elapsed() >= TIMEOUT => {}
                other => panic!("{other:?}"),
            }
        }
    }
    // The pauses' bounds, none, 10 ms and doubling up to a second, add up to this time with nine; half of each is drawn on
    // average, so twelve links fit. That a pause is drawn as short as thirty do is as good as impossible.
    let links = links() - before;
    assert!((5..30).contains(&links), "{links} links");
    // Whatever ends a link is told somebody.
    assert!(links <= refused, "{links} links, {refused} refusals");
    ask(&server, &["REPLICAOF", "NO", "ONE"]);
    let entered = client.mutex(unique_name()).try_lock().wait(SOON).await.expect("it heals").expect("a free lock");
    assert!(held.is_held() && entered.is_held());
}
