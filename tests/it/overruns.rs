//! Holders and askers that are late: past their lease, cut off, or stopped while their request was on its way. Whoever
//! came after them is left alone, and nobody holds together with somebody else.

use std::{collections::BTreeSet, time::Duration};

use redis::Commands;
use relatch::{Client, Error, LostCause, Owner, Released};
use tokio::{
    runtime::Runtime,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        process::{Parent, Process},
        proxy::{Action, Door, Proxy, matching::script},
        unique_name,
    },
    kept::{client, connected, held, kept, poll_once, teach},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// A lease that runs out, and one that does not.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(30);
const COMMAND: Duration = Duration::from_millis(200);

#[track_caller]
fn assert_expired<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Lost { cause: LostCause::Expired, .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_holder_that_overran_its_lease_neither_ends_nor_lengthens_its_successors() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let (late, next, third) = (client(proxy.url()).await, client(server.url()).await, client(server.url()).await);
    let overrun = late.lock(&name).lock().lease(SHORT).await.expect("it is free");
    let entered = timeout(SOON, next.lock(&name).lock().lease(LONG)).await.expect("the lease runs out");
    let entered = entered.expect("the server answers");
    let theirs = held(server, &name);
    assert_expired(overrun.extend(2 * LONG).await);
    assert_expired(overrun.unlock().await);
    // Its field is released once all the same, in case that it is still there.
    let release = proxy.rule(script("release"), Action::Pass);
    drop(overrun);
    release.nth(1).await;
    late.close().await;
    assert_eq!(held(server, &name), theirs, "hold, count and end are what they were");
    assert!(entered.is_held());
    assert!(third.lock(&name).try_lock().await.expect("the server answers").is_none());
    assert_eq!(entered.unlock().await.expect("it is held"), Released::Freed);
}

#[tokio::test]
async fn a_holder_that_was_cut_off_past_its_lease_stays_lost_and_renews_nothing_when_it_is_back() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(SHORT).command_timeout(COMMAND);
    let (cut, next) = (connected(builder).await, client(server.url()).await);
    let guard = cut.lock(&name).lock().await.expect("it is free");
    proxy.door(Door::Refusing);
    proxy.cut_all();
    let lost = timeout(SOON, guard.lost()).await.expect("it is told without a server");
    assert_expired(Err::<(), _>(lost));
    let entered = timeout(SOON, next.lock(&name).lock()).await.expect("the lease runs out").expect("it answers");
    let theirs = held(server, &name);
    proxy.clear_log();
    proxy.door(Door::Open);
    // The link is back.
    let other = timeout(SOON, cut.lock(unique_name()).lock()).await.expect("it is back").expect("the server answers");
    other.unlock().await.expect("it is held");
    sleep(2 * SHORT).await;
    assert_eq!((proxy.count(&script("renew").mentioning(&name)), guard.is_held()), (0, false));
    // Nor when it is free again.
    entered.unlock().await.expect("it is held");
    sleep(SHORT).await;
    assert_eq!((kept(server, &name), guard.is_held()), (None, false));
    assert_expired(guard.unlock().await);
    assert_ne!(theirs.field.split_once(':').map(|(id, _)| id.to_owned()), Some(cut.id().to_string()));
}

/// A hold's name is the client's UUID, of version 4 with 122 random bits, and a number that the client never draws
/// again. Nothing of it comes from the lock's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_acquisitions_of_sixty_four_tasks_have_one_name_on_the_server() {
    const TASKS: usize = 64;
    const ROUNDS: usize = 50;
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let clients = [client(proxy.url()).await, client(proxy.url()).await];
    for client in &clients {
        assert_eq!(client.id().get_version_num(), 4);
    }
    assert_ne!(clients[0].id(), clients[1].id());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let lock = clients[task % 2].lock(unique_name());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                lock.lock().await.expect("it is free").unlock().await.expect("it is held");
            }
        });
    }
    tasks.join_all().await;
    let log = proxy.log();
    // EVALSHA, hash, 1, key, field; a script that was unknown is sent once more.
    let acquires = log.iter().filter(|entry| entry.script().as_deref() == Some("acquire"));
    let fields: BTreeSet<&[u8]> = acquires.filter_map(|entry| Some(&*entry.words()?[4])).collect();
    assert_eq!(fields.len(), TASKS * ROUNDS);
    let ids: BTreeSet<String> = clients.iter().map(|client| client.id().to_string()).collect();
    let of_ours = |field: &&[u8]| {
        let (id, number) = str::from_utf8(field).ok()?.split_once(':')?;
        (ids.contains(id) && number.parse::<u64>().is_ok()).then_some(())
    };
    assert!(fields.iter().all(|field| of_ours(field).is_some()));
}

#[tokio::test]
async fn a_release_under_a_name_that_only_resembles_the_holds_name_frees_nothing() {
    let (server, name) = (Server::shared(), unique_name());
    let client = client(server.url()).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    let theirs = held(server, &name);
    let field = theirs.field.as_str();
    let (id, number) = field.split_once(':').expect("an id and a number");
    let shorter = &field[..field.len() - 1];
    let resembling = [
        String::new(),
        id.to_owned(),
        format!("{id}:"),
        shorter.to_owned(),
        format!("{field}0"),
        format!("{field}\0"),
        format!(" {field}"),
        format!("{id}:0{number}"),
        format!("{id}:{number}.0"),
        field.to_uppercase(),
        format!("*{}", &field[1..]),
        "x".repeat(1 << 20),
    ];
    let release = redis::Script::new(include_str!("../../lua/reentrant/release.lua"));
    let renew = redis::Script::new(include_str!("../../lua/reentrant/renew.lua"));
    let mut connection = server.connection();
    for other in resembling.iter().filter(|other| **other != field) {
        let released = release.key(&name).arg(other).arg("PUBLISH").arg("c").invoke(&mut connection);
        assert_eq!(released, Ok((-1, 0, -1)), "{other:.50}");
        let renewed = renew.key(&name).arg(900_000).arg(other).invoke(&mut connection);
        assert_eq!(renewed, Ok(vec![-1]), "{other:.50}");
        assert_eq!(held(server, &name), theirs, "{other:.50}");
    }
    assert!(guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

/// Takes a lock for a short lease when it is told to, and says from when until when it believed that it holds it.
pub(crate) fn believe(parent: &mut Parent, args: &[String]) {
    Runtime::new().expect("a runtime starts").block_on(async {
        let client = client(&args[0]).await;
        parent.say("ready");
        parent.hear();
        let guard = client.lock(&args[1]).lock().lease(SHORT).await.expect("it is free at last");
        let began = monotonic();
        let mut ended = began;
        // Read before the look: what was true then was true at that time or later.
        loop {
            let now = monotonic();
            if !guard.is_held() {
                break;
            }
            ended = now;
            sleep(Duration::from_millis(1)).await;
        }
        parent.say(&format!("{} {}", began.as_nanos(), ended.as_nanos()));
    });
}

/// A process that is stopped while its request, or the answer to it, is on its way: two leases later somebody
/// else holds the lock, and the one that goes on does not believe that it does.
#[tokio::test]
async fn a_process_that_was_stopped_for_two_leases_around_its_request_holds_with_nobody_else() {
    let server = Server::shared();
    teach(server);
    for (on_its_way, holds_already) in [(Action::HoldRequest, false), (Action::HoldReply, true)] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let mut stopped = Process::spawn("believe", &[&proxy.url(), &name]);
        assert_eq!(stopped.hear(), "ready");
        let acquire = proxy.rule(script("acquire").first(1), on_its_way);
        stopped.say("go");
        acquire.nth(1).await;
        eventually_async(SOON, async || kept(server, &name).is_some() == holds_already).await;
        stopped.freeze();
        let other = client(server.url()).await;
        let guard = timeout(SOON, other.lock(&name).lock().lease(LONG)).await.expect("its lease runs out");
        let guard = guard.expect("the server answers");
        let theirs = held(server, &name);
        sleep(2 * SHORT).await;
        acquire.let_go();
        stopped.thaw();
        // It looks again, and is told that the lock is busy.
        let looks = if holds_already { 2 } else { 1 };
        eventually_async(SOON, async || proxy.count(&script("acquire")) > looks).await;
        assert_eq!(held(server, &name), theirs);
        assert!(guard.is_held());
        let released = monotonic();
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        let line = stopped.hear();
        let (began, ended) = line.split_once(' ').expect("two times");
        let time = |text: &str| Duration::from_nanos(text.parse().expect("a number"));
        assert!(time(began) >= released, "it believed {:?} too soon", released - time(began));
        assert!(time(ended) >= time(began));
        assert!(stopped.ended_well());
    }
}

/// Nothing that is sent has a time of day in it: leases alone, as they were asked for.
#[tokio::test]
async fn no_command_carries_a_clients_clock() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(SHORT).handover_slice(SOON);
    let (client, owner) = (connected(builder).await, Owner::new());
    let lock = client.lock(&name);
    let guard = lock.lock().owner(&owner).await.expect("it is free");
    let nested = lock.lock().owner(&owner).lease(LONG).await.expect("it nests");
    eventually_async(SOON, async || proxy.count(&script("renew")) > 0).await;
    guard.extend(LONG).await.expect("it is held");
    let mut waiting = lock.lock().owner(&Owner::new()).lease(LONG);
    assert!(poll_once(&mut waiting).await.is_pending());
    drop((nested, guard));
    let next = waiting.await.expect("it is handed over");
    lock.inspect().await.expect("the server answers");
    assert!(lock.force_unlock().await.expect("the server answers"));
    drop(next);
    drop(lock.lock().await.expect("it is free"));
    client.close().await;
    let log = proxy.log();
    let verbs: BTreeSet<String> = log.iter().filter_map(|entry| entry.script()).collect();
    let all = ["acquire", "force_release", "hand_over", "inspect", "release", "renew"];
    assert!(all.iter().all(|verb| verbs.contains(*verb)), "{verbs:?}");
    // A time of day is more than ten digits of seconds, and a lease here five of milliseconds.
    let number = |word: &Vec<u8>| str::from_utf8(word).ok()?.parse::<f64>().ok();
    let largest = log.iter().filter_map(|entry| entry.words()).flatten().filter_map(number).fold(0.0, f64::max);
    assert!(largest <= 60_000.0, "{largest}");
    let _: () = server.connection().del(&name).expect("the server answers");
}
