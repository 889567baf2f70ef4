//! Links that are slow, and thousands who want to use them: who holds comes first, and a link that answers is not silent.

use std::time::Duration;

use relatch::{Client, Released};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        proxy::{
            Action, Entry, Event, Proxy,
            matching::{any, command, script, verb},
        },
        unique_name,
    },
    kept::{connected, held, poll_once, teach},
    sent::sent,
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_subscription_link_is_not_given_up_as_long_as_its_answers_come() {
    const CHANNELS: usize = 1_500;
    let server = Server::own();
    teach(&server);
    hold_all(&server);
    let proxy = Proxy::to(&server);
    let command_timeout = Duration::from_secs(1);
    let client = connected(Client::builder().url(proxy.url()).command_timeout(command_timeout)).await;
    let mut waiters = JoinSet::new();
    let wait = |number| client.lock(format!("busy {number}")).lock().into_future();
    waiters.spawn(wait(0));
    let listened = || -> usize {
        let all: Vec<String> =
            redis::cmd("PUBSUB").arg("CHANNELS").query(&mut server.connection()).expect("PUBSUB answers");
        all.len()
    };
    eventually_async(SOON, async || listened() == 1).await;
    let subscribed = |entry: &&Entry| entry.command().as_deref() == Some("SUBSCRIBE");
    let link = proxy.log().iter().find(subscribed).expect("somebody listens").connection;
    // A request and its answer are some 70 bytes each: all of them take four command timeouts, and more.
    proxy.throttle_connection(link, BYTES_A_SECOND * 2 / 5);
    let asked = monotonic();
    (1..CHANNELS).for_each(|number| drop(waiters.spawn(wait(number))));
    eventually_async(SOON, async || listened() == CHANNELS).await;
    assert_eq!(proxy.count(&command("SUBSCRIBE")), CHANNELS, "a channel was asked for twice: its link was given up");
    assert!(monotonic() - asked > 3 * command_timeout, "the link was not slow");
    proxy.throttle_connection(link, 0);
    waiters.abort_all();
    while waiters.join_next().await.is_some() {}
}

/// Answers take longer than half of a command's time, and nobody waits for them: pings show that the link lives.
#[tokio::test]
async fn a_link_with_slow_answers_is_not_given_up_for_commands_that_were_dropped() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let command_timeout = Duration::from_secs(3);
    let client = connected(Client::builder().url(proxy.url()).command_timeout(command_timeout)).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    proxy.rule(any().on_commanding(), Action::DelayReply(command_timeout * 6 / 10));
    // A suspicion each, the second while the first is looked into. Nothing has to be undone after an extension.
    for pause in [20, 0] {
        let mut extending = Box::pin(guard.extend(SOON));
        assert!(poll_once(&mut extending).await.is_pending());
        drop(extending);
        sleep(Duration::from_millis(pause)).await;
    }
    sleep(3 * command_timeout).await;
    assert!(proxy.count(&command("PING")) >= 1, "nobody was suspicious");
    guard.unlock().await.expect("it is held");
    assert!(sent(&proxy).iter().all(|sent| sent.connection == 0), "the link was replaced");
}
