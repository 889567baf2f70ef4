//! A command link that is slow, and ten thousand who want to use it: who holds comes first.

use std::time::Duration;

use relatch::{Client, Released};
use tokio::task::JoinSet;

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        proxy::{
            Event, Proxy,
            matching::{script, verb},
        },
    },
    kept::{connected, held, teach},
};

const WAITERS: usize = 10_000;
/// So many tries of one client are under way at most.
const TRIES: usize = 128;
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(60);
const WATCHDOG: Duration = Duration::from_secs(6);
const COMMAND: Duration = Duration::from_secs(3);
/// A try is 200 bytes: all that may be under way take less than half a second, and all that wait forty.
const BYTES_A_SECOND: u64 = 60_000;

/// Somebody else holds these, for longer than the test takes.
fn hold_all(server: &Server) {
    let mut all = redis::pipe();
    for number in 0..WAITERS {
        let name = format!("busy {number}");
        all.hset(&name, "somebody:1", 1).ignore().pexpire(&name, 600_000).ignore();
    }
    all.exec(&mut server.connection()).expect("the server takes them");
}

/// Fault G106.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_ten_thousand_waiters_on_a_slow_link_a_hold_is_renewed_and_released_in_time() {
    let server = Server::own();
    teach(&server);
    hold_all(&server);
    let proxy = Proxy::to(&server);
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG).command_timeout(COMMAND);
    let client = connected(builder.unreachable_after(SOON)).await;
    let guard = client.lock("mine").lock().await.expect("it is free");
    let first = held(&server, "mine").expires;
    proxy.throttle_connection(0, BYTES_A_SECOND);
    let mut waiters: JoinSet<_> =
        (0..WAITERS).map(|number| client.lock(format!("busy {number}")).lock().into_future()).collect();
    // Two renewals, and all the time as many tries as there may be.
    let renewed = || {
        let renewal = |event: &Event| matches!(event, Event::Reply { to, .. } if verb(to).as_deref() == Some("renew"));
        proxy.log().iter().filter(|entry| renewal(&entry.event)).count()
    };
    eventually_async(SOON, async || renewed() >= 2).await;
    let tried = proxy.count(&script("acquire"));
    assert!(tried > TRIES && tried < WAITERS, "{tried} tries were sent: the link was not what they waited for");
    assert!(guard.is_held() && held(&server, "mine").expires > first);
    let asked = monotonic();
    assert_eq!(guard.unlock().await.expect("it is answered within its deadline"), Released::Freed);
    let took = monotonic() - asked;
    assert!(took <= COMMAND, "{took:?}");
    assert_eq!(proxy.count(&script("renew")), renewed(), "a renewal was not answered");
    assert!(proxy.count(&script("acquire")) < WAITERS, "nobody was left to come before it");
    proxy.throttle(0);
    waiters.abort_all();
    while waiters.join_next().await.is_some() {}
}
