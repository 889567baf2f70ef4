//! Forced releases: they end the hold that they saw, tell its holder, and never touch a later one.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use relatch::{Client, Error, LostCause, Owner};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::harness::{
    Server, eventually_async,
    proxy::{Action, Event, Proxy, Rule, matching},
    unique_name,
};

const MS: Duration = Duration::from_millis(1);
/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);

async fn connect(url: &str) -> Client {
    Client::connect(url).await.expect("connects")
}

fn is_forced(error: &Error) -> bool {
    matches!(error, Error::Lost { cause: LostCause::Forced, .. })
}

/// How often a forced release was answered by the server behind a proxy.
fn answered(proxy: &Proxy) -> usize {
    let is_it = |event: &Event| match event {
        Event::Reply { to, .. } => matching::verb(to).as_deref() == Some("force_release"),
        _ => false,
    };
    proxy.log().iter().filter(|entry| is_it(&entry.event)).count()
}

#[tokio::test]
async fn a_lock_is_freed_whoever_holds_it_and_a_free_one_is_nothing_to_free() {
    let server = Server::shared();
    let (client, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let lock = client.lock(unique_name());
    assert!(!lock.force_unlock().await.expect("answers"));
    for holder in [&client, &other] {
        let theirs = holder.lock(lock.name());
        let guards = [theirs.lock().await.expect("acquires"), theirs.lock().await.expect("nests")];
        assert!(lock.force_unlock().await.expect("answers"));
        assert!(server.hash(lock.name()).is_empty(), "however often it was held");
        lock.try_lock().owner(&Owner::new()).await.expect("answers").expect("free").unlock().await.expect("releases");
        drop(guards);
    }
    // A hold of a client that is no more, or of another library.
    let _: () = redis::Commands::hset(&mut server.connection(), lock.name(), "f00:17", 1).expect("the server takes it");
    assert!(lock.force_unlock().await.expect("answers"));
    assert!(server.hash(lock.name()).is_empty());
}

#[tokio::test]
async fn a_forced_release_that_runs_again_late_leaves_the_successor_alone() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let (forcing, holding) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let lock = holding.lock(unique_name());
    // The server knows the script, so that the one request that is copied is one that runs.
    let first = lock.lock().await.expect("acquires");
    assert!(forcing.lock(lock.name()).force_unlock().await.expect("answers"));
    first.unlock().await.expect_err("it was forced away");
    let before = answered(&proxy);

    let copied = proxy.rule(matching::script("force_release"), Action::DuplicateLater);
    let owner = Owner::new();
    let seen = lock.lock().owner(&owner).await.expect("acquires");
    assert!(forcing.lock(lock.name()).force_unlock().await.expect("answers"));
    assert!(server.hash(lock.name()).is_empty());
    // The same owner in the same client: only the number is another one.
    let successor = lock.lock().owner(&owner).await.expect("acquires");
    let held = server.hash(lock.name());
    copied.let_go();
    eventually_async(HANGS, async || answered(&proxy) == before + 2).await;
    assert_eq!(server.hash(lock.name()), held);
    assert!(successor.is_held() && !seen.is_held());
    successor.unlock().await.expect("it was there to be released");
}

#[tokio::test]
async fn a_forced_release_that_is_held_back_leaves_the_successor_alone_and_says_that_it_saw_one() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let (forcing, holding) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let lock = holding.lock(unique_name());
    let seen = lock.lock().await.expect("acquires");
    let held_back: Rule = proxy.rule(matching::script("force_release"), Action::HoldRequest);
    let forced = tokio::spawn({
        let lock = forcing.lock(lock.name());
        async move { lock.force_unlock().await }
    });
    held_back.nth(1).await;
    seen.unlock().await.expect("leaves by itself");
    let successor = lock.lock().await.expect("acquires");
    let held = server.hash(lock.name());
    held_back.let_go();
    assert!(forced.await.expect("no panic").expect("answers"), "it saw a hold");
    assert_eq!(server.hash(lock.name()), held);
    assert!(successor.is_held());
    successor.unlock().await.expect("it was there to be released");
}

/// Looks, in the middle of being woken, how many forced releases have left; and gives one that has time to be seen.
struct Looks {
    rule: Rule,
    seen: AtomicUsize,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        thread::sleep(50 * MS);
        self.seen.store(self.rule.seen(), Ordering::SeqCst);
    }
}

// Several threads, so that nothing but the order of the library's own steps keeps the command back meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_this_client_is_told_before_the_forced_release_is_sent() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(&proxy.url()).await;
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    let token = guard.cancellation();
    let rule = proxy.rule(matching::script("force_release"), Action::HoldRequest);
    let looks = Arc::new(Looks { rule: rule.clone(), seen: AtomicUsize::new(usize::MAX) });
    let waker = Waker::from(Arc::clone(&looks));
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    let forced = tokio::spawn(async move { lock.force_unlock().await });
    rule.nth(1).await;
    assert_eq!(looks.seen.load(Ordering::SeqCst), 0, "nothing had left when the holder was told");
    assert!(token.is_cancelled() && !guard.is_held());
    assert!(is_forced(&timeout(HANGS, lost).await.expect("it was told")));
    assert!(!server.hash(guard.name()).is_empty(), "the command has not run yet");
    rule.let_go();
    assert!(forced.await.expect("no panic").expect("answers"));
    assert!(guard.unlock().await.is_err_and(|error| is_forced(&error)));
    assert!(server.hash(guard.name()).is_empty());
}

#[tokio::test]
async fn a_holder_of_another_client_is_told_by_its_next_renewal() {
    let server = Server::shared();
    let watchdog = 4500 * MS;
    let holding = Client::builder().url(server.url()).watchdog_timeout(watchdog).connect().await.expect("connects");
    let forcing = connect(&server.url()).await;
    let guard = holding.lock(unique_name()).lock().await.expect("acquires");
    assert!(forcing.lock(guard.name()).force_unlock().await.expect("answers"));
    let forced = Instant::now();
    assert!(guard.is_held(), "nobody could tell it yet");
    let reason = timeout(HANGS, guard.lost()).await.expect("it is told");
    let told = forced.elapsed();
    assert!(matches!(reason, Error::Lost { cause: LostCause::Gone, .. }), "{reason:?}");
    // Its deadline would be two thirds of a lease away at least.
    assert!(told < watchdog / 2, "{told:?}");
}

/// The hold is passed on without a word to the server, so nobody in there can see it; but it cannot go on for long.
#[tokio::test]
async fn a_forced_release_elsewhere_is_noticed_within_a_slice_and_a_section_while_the_hold_is_passed_around() {
    const SLICE: Duration = Duration::from_millis(600);
    const SECTION: Duration = Duration::from_millis(20);
    /// A machine that is busy with other tests. The next renewal is ten seconds away.
    const LATE: Duration = Duration::from_millis(300);
    let (server, name) = (Server::shared(), unique_name());
    let holder = Client::builder().url(server.url()).handover_slice(SLICE).connect().await.expect("connects");
    let sections = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (lock, sections) = (holder.lock(&name), Arc::clone(&sections));
        tasks.spawn(async move {
            loop {
                let guard = lock.lock().await.expect("acquires");
                sections.fetch_add(1, Ordering::Relaxed);
                sleep(SECTION).await;
                if let Err(error) = guard.unlock().await {
                    return (error, Instant::now());
                }
            }
        });
    }
    eventually_async(HANGS, async || sections.load(Ordering::Relaxed) > 8).await;
    let other = connect(&server.url()).await;
    let forced = Instant::now();
    assert!(other.lock(&name).force_unlock().await.expect("answers"));
    let noticed = timeout(HANGS, tasks.join_next()).await.expect("it is noticed");
    let (error, noticed) = noticed.expect("there are tasks").expect("it does not panic");
    assert!(matches!(error, Error::Lost { cause: LostCause::Gone, .. }), "{error:?}");
    assert!(noticed - forced <= SLICE + SECTION + LATE, "only after {:?}", noticed - forced);
    tasks.shutdown().await;
    holder.close().await;
}
