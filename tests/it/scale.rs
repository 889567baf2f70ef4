//! Many holds, many waiters, many clients: what one of them costs must not be multiplied by all the others.

use std::time::Duration;

use relatch::{Client, Error, LockGuard};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{Server, eventually_async},
    kept::connected,
};

const HOLDS: usize = 2_000;
const WATCHDOG: Duration = Duration::from_secs(6);
const COMMAND: Duration = Duration::from_millis(500);
/// One renewal interval, after which every hold is due, and three commands that nobody answers.
const FREEZE: Duration = Duration::from_millis(3_500);

/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(20);

async fn hold_all(client: &Client) -> Vec<LockGuard> {
    let mut taking: JoinSet<_> = (0..HOLDS)
        .map(|number| client.mutex(format!("{number}")))
        .map(|mutex| async move { mutex.lock().await.expect("it is free") })
        .collect();
    let mut guards = Vec::new();
    while let Some(guard) = taking.join_next().await {
        guards.push(guard.expect("no panic"));
    }
    guards
}

fn alive(guards: &[LockGuard]) -> usize {
    guards.iter().filter(|guard| guard.is_held()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_holds_outlive_a_frozen_server_and_are_renewed_in_batches() {
    let server = Server::own();
    let options = Client::builder().url(server.url()).watchdog_timeout(WATCHDOG).command_timeout(COMMAND);
    let client = connected(options).await;
    let guards = hold_all(&client).await;
    server.reset_counts();
    server.freeze();
    sleep(FREEZE).await;
    server.thaw();
    assert_eq!(alive(&guards), HOLDS, "the freeze is shorter than the lease");
    sleep(WATCHDOG).await;
    assert_eq!(alive(&guards), HOLDS);
    assert_eq!(server.keys().len(), HOLDS);
    // Nothing else has run a script since the freeze. One by one, a single round would be more than all of these.
    let renewals = server.count("evalsha");
    assert!(renewals > 0 && renewals < HOLDS as u64 / 4, "{renewals} calls");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_short_lived_clients_teach_the_server_its_scripts_once() {
    const CLIENTS: usize = 1_000;
    const AT_ONCE: usize = 20;
    let server = Server::own();
    let once = async |number: usize| {
        let client = connected(Client::builder().url(server.url())).await;
        let guard = client.lock(format!("{number}")).lock().await.expect("a free lock");
        guard.unlock().await.expect("a live hold");
        client.close().await;
    };
    once(0).await;
    let taught = server.command_counts();
    // The two that it needed.
    assert_eq!(taught.get("eval"), Some(&2));
    server.reset_counts();
    let numbers: Vec<_> = (1..=CLIENTS).collect();
    for some in numbers.chunks(AT_ONCE) {
        futures_util::future::join_all(some.iter().map(|number| once(*number))).await;
    }
    let counts = server.command_counts();
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert_eq!((count("eval"), count("script|load")), (0, 0), "{counts:?}");
    // Whether scripts are let run, one to take the lock, one to release it.
    assert_eq!(count("evalsha"), 3 * CLIENTS as u64, "{counts:?}");
}

#[tokio::test]
async fn two_hundred_waiters_take_nothing_from_the_holder_in_their_own_client() {
    const WAITERS: usize = 100;
    let watchdog = Duration::from_secs(2);
    let server = Server::own();
    let (client, other) = (
        connected(Client::builder().url(server.url()).watchdog_timeout(watchdog)).await,
        connected(Client::builder().url(server.url())).await,
    );
    let held = client.mutex("held").lock().await.expect("a free lock");
    let mut theirs = Vec::new();
    for number in 0..WAITERS {
        theirs.push(other.mutex(format!("{number}")).lock().await.expect("a free lock"));
    }
    let mut waiting: JoinSet<_> = (0..WAITERS)
        .flat_map(|number| [client.mutex(format!("{number}")), client.mutex("held")])
        .map(|mutex| async move { drop(mutex.lock().await.expect("its turn")) })
        .collect();
    eventually_async(LOOK, async || channels(&server) == WAITERS).await;
    // Over one connection for commands and one to listen, and the other client has listened to nothing.
    let clients: String =
        redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("CLIENT LIST answers");
    assert_eq!(clients.lines().count(), 2 + 1 + 1, "{clients}");
    assert!(timeout(watchdog * 2, held.lost()).await.is_err(), "it was not renewed");
    held.unlock().await.expect("a live hold");
    drop(theirs);
    let all = async { while waiting.join_next().await.is_some_and(|waiter| waiter.is_ok()) {} };
    timeout(LOOK, all).await.expect("all have their turn");
    eventually_async(LOOK, async || channels(&server) == 0 && server.keys().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_waits_that_end_in_every_way_leave_no_subscription() {
    const WAITS: usize = 3_000;
    const NAMES: usize = 30;
    let server = Server::own();
    let clients =
        [connected(Client::builder().url(server.url())).await, connected(Client::builder().url(server.url())).await];
    let mut waits = JoinSet::new();
    for number in 0..WAITS {
        // Every name is waited for by both clients, in every way.
        let (name, client, way) = (number % NAMES, number / NAMES % 2, number / NAMES / 2 % 3);
        let mutex = clients[client].mutex(format!("{name}"));
        let short = Duration::from_micros(number as u64 % 40 * 250);
        waits.spawn(async move {
            match way {
                // Waits for its turn, times out, is dropped.
                0 => {
                    let guard = mutex.lock().await.expect("the server answers");
                    sleep(Duration::from_millis(2)).await;
                    drop(guard);
                }
                1 => match mutex.try_lock().wait(short).await {
                    // A busy machine's server does not always answer within a millisecond.
                    Ok(_) | Err(Error::Unreachable { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                },
                _ => drop(timeout(short, mutex.lock()).await),
            }
        });
        if number % 100 == 99 {
            tokio::task::yield_now().await;
        }
    }
    let all = async {
        while let Some(wait) = waits.join_next().await {
            wait.expect("no panic")
        }
    };
    timeout(LOOK, all).await.expect("nobody waits for ever");
    eventually_async(LOOK, async || channels(&server) == 0).await;
    eventually_async(LOOK, async || server.keys().is_empty()).await;
    let subscribed = server.count("subscribe");
    assert!(subscribed >= NAMES as u64, "{subscribed}: hardly anybody waited for another client");
}

/// How many channels somebody listens on.
fn channels(server: &Server) -> usize {
    let asked = redis::cmd("PUBSUB").arg("CHANNELS").query::<Vec<String>>(&mut server.connection());
    asked.expect("PUBSUB answers").len()
}
