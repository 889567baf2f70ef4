//! A server whose wall clock is stepped: what is lost by that, how soon the holder knows, and what holds all the same.
//! The server tells by its wall clock when a key expires, so this is a limit of the lock and not a fault in it.

use std::time::Duration;

use relatch::{Client, Error, LostCause, Owner, Released};
use tokio::time::{sleep, timeout};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        lag::Lag,
        proxy::{Proxy, matching::script},
        stepping::Step,
        unique_name,
    },
    kept::{channel, connected, held, kept, teach},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
const WATCHDOG: Duration = Duration::from_millis(900);
const RENEWAL: Duration = Duration::from_millis(300);
/// How late a busy machine may see the answer to a renewal.
const AWAKE: Duration = Duration::from_millis(150);

async fn watched(url: String) -> Client {
    connected(Client::builder().url(url).watchdog_timeout(WATCHDOG)).await
}

#[tokio::test]
async fn a_holder_is_told_by_its_next_renewal_that_a_step_of_the_servers_clock_ended_its_lease() {
    let (server, name) = (Server::builder().steppable_clock().start(), unique_name());
    teach(&server);
    let proxy = Proxy::to(&server);
    let (holder, other) = (watched(proxy.url()).await, watched(server.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    assert!(other.lock(&name).try_lock().await.expect("the server answers").is_none());
    // Right behind a renewal, so that the next one tells and no other.
    let first = held(&server, &name).expires;
    eventually_async(SOON, async || held(&server, &name).expires > first).await;
    server.step_clock(Step::Forward(HOUR));
    let (lag, stepped) = (Lag::watch(), monotonic());
    // From here on two may be inside: the lease is over by the only clock that counts.
    let entered = other.lock(&name).try_lock().await.expect("the server answers").expect("the lease is over");
    let theirs = held(&server, &name);
    let lost = timeout(SOON, guard.lost()).await.expect("it is told");
    let told = monotonic() - stepped;
    assert!(matches!(lost, Error::Lost { cause: LostCause::Gone, .. }), "{lost:?}");
    let bound = lag.added_to(RENEWAL + AWAKE);
    assert!(told <= bound, "told {told:?} later, and not {bound:?}");
    assert_eq!(proxy.count(&script("renew")), 2, "the next renewal tells, and it is the last");
    assert!(!guard.is_held() && guard.cancellation().is_cancelled());
    assert!(guard.unlock().await.is_err_and(|error| error.is_lost()));
    drop(guard);
    // The one that is late does the other no harm.
    assert_eq!(held(&server, &name).field, theirs.field);
    assert!(entered.is_held());
    assert_eq!(entered.unlock().await.expect("it is held"), Released::Freed);
}

#[tokio::test]
async fn a_waiter_enters_when_a_step_of_the_servers_clock_ended_a_dead_holders_lease() {
    let (server, name) = (Server::builder().steppable_clock().start(), unique_name());
    let client = watched(server.url()).await;
    let mut dead = redis::pipe();
    dead.hset(&name, "somebody:1", 1).pexpire(&name, 1_000);
    dead.exec(&mut server.connection()).expect("the server answers");
    let waiting = tokio::spawn(client.lock(&name).lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    server.step_clock(Step::Forward(HOUR));
    // At the latest when the time is over that the server named before it stepped.
    let guard = timeout(SOON, waiting).await.expect("it enters").expect("no panic").expect("the server answers");
    assert!(held(&server, &name).is_of(&client));
    guard.unlock().await.expect("it is held");
}

/// The key outlives its lease by the step, and its release ends that.
#[tokio::test]
async fn after_a_step_back_a_lock_stays_exclusive_and_is_freed_by_its_release() {
    let (server, name) = (Server::builder().steppable_clock().start(), unique_name());
    let (holder, other) = (watched(server.url()).await, watched(server.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    let fixed = holder.lock(unique_name()).lock().lease(WATCHDOG).await.expect("it is free");
    let first = held(&server, &name);
    server.step_clock(Step::Back(HOUR));
    // Renewals go on, and shorten nothing.
    sleep(2 * WATCHDOG).await;
    assert!(guard.is_held());
    assert_eq!(held(&server, &name), first);
    assert!(other.lock(&name).try_lock().await.expect("the server answers").is_none());

    let waiting = tokio::spawn(other.lock(&name).lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let next = timeout(SOON, waiting).await.expect("it is woken").expect("no panic").expect("the server answers");
    // By the server's own clock the new lease is as long as it was asked for.
    let mut connection = server.connection();
    let left: u64 = redis::cmd("PTTL").arg(&name).query(&mut connection).expect("PTTL answers");
    assert!(u128::from(left) <= WATCHDOG.as_millis(), "{left} ms");
    assert_eq!(next.unlock().await.expect("it is held"), Released::Freed);

    // By its holder's clock a fixed lease is as long as it was asked for, whatever became of the key.
    let lost = timeout(SOON, fixed.lost()).await.expect("its time is over");
    assert!(matches!(lost, Error::Lost { cause: LostCause::Expired, .. }), "{lost:?}");
    assert!(kept(&server, fixed.name()).is_some());
    assert!(other.lock(fixed.name()).try_lock().owner(&Owner::new()).await.expect("the server answers").is_none());
    let name = fixed.name().to_owned();
    drop(fixed);
    eventually_async(SOON, async || kept(&server, &name).is_none()).await;
}
