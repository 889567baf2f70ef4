//! One suite for everything that can act as a mutex, stamped over each primitive by one line. What only one primitive
//! does is tested elsewhere.

mod makers;
mod masters;

use std::{
    fs,
    future::Future,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "embedded")]
use relatch::EmbeddedStore;
use relatch::{
    Acquire, Client, ClientBuilder, Error, FencedLock, LockGuard, LostCause, MultiLock, Mutex, RedLockBuilder,
    ReentrantLock, Released, Result, ShardedPubSub, TokenLock, TryAcquire,
};
use tokio::{task::JoinHandle, time::Instant};

use self::{makers::Maker, masters::Masters};
use crate::{
    flushing,
    harness::{
        Server, cluster::home, deployment::Deployment, eventually_async, lag::Lag, looking::looking, proxy::Proxy,
        unique_name,
    },
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
/// How much later than its bound something may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
/// For so long a master that says nothing is waited for.
const MASTER_TIMEOUT: Duration = Duration::from_millis(500);
/// Of clients whose holds are to be lost in a test, or to run out: their renewals bear a busy machine's pauses.
const WATCHDOG: Duration = Duration::from_secs(2);
/// Of all others: whatever pauses, what they hold stays theirs.
const LASTS: Duration = Duration::from_secs(30);

/// What the suite asks of a primitive.
trait Exclusive: Clone + Send + Sync + 'static {
    fn acquire(&self) -> Acquire;
    fn try_acquire(&self) -> TryAcquire;
    fn taken(&self) -> impl Future<Output = Result<bool>> + Send;

    /// Whether its owner may take it again while holding it.
    fn reenters(&self) -> bool {
        false
    }

    /// Frees it whoever holds it; `None` where that is not offered.
    fn force(&self) -> Option<Pin<Box<dyn Future<Output = Result<bool>> + Send>>> {
        None
    }
}

/// What a primitive can beyond the suite; the words of the list in `conformance!`.
macro_rules! capability {
    (reenters) => {
        fn reenters(&self) -> bool {
            true
        }
    };
    (forces) => {
        fn force(&self) -> Option<Pin<Box<dyn Future<Output = Result<bool>> + Send>>> {
            let lock = self.clone();
            Some(Box::pin(async move { lock.force_unlock().await }))
        }
    };
}

/// Stamps the suite over each primitive: its type, how a client makes one, and what it can beyond the suite.
macro_rules! conformance {
    ($($name:ident: $lock:ident => $make:expr, [$($can:ident),*];)*) => {
        /// The types that the suite is stamped over.
        const STAMPED: &[&str] = &[$(stringify!($lock)),*];

        $(
            impl Exclusive for $lock {
                fn acquire(&self) -> Acquire {
                    self.lock()
                }

                fn try_acquire(&self) -> TryAcquire {
                    self.try_lock()
                }

                async fn taken(&self) -> Result<bool> {
                    self.is_locked().await
                }

                $(capability!($can);)*
            }

            mod $name {
                mod plain {
                    use super::super::*;
                    suite!([tokio::test], World::plain(), $make);
                }

                mod with_forgotten_scripts {
                    use super::super::*;
                    suite!([tokio::test], World::of_forgotten_scripts(), $make);
                }

                mod by_sentinels {
                    use super::super::*;
                    suite!([tokio::test], World::by_sentinels(), $make);
                }

                mod on_a_cluster {
                    use super::super::*;
                    suite!([tokio::test], World::on_a_cluster(ShardedPubSub::Auto), $make);
                }

                mod on_a_cluster_that_tells_all_nodes {
                    use super::super::*;
                    suite!([tokio::test], World::on_a_cluster(ShardedPubSub::Off), $make);
                }

                mod on_replicas_with_acks {
                    use super::super::*;
                    suite!([tokio::test], World::on_replicas().with_acks(1), $make);
                }

                mod on_a_cluster_with_acks {
                    use super::super::*;
                    suite!([tokio::test], World::on_a_cluster(ShardedPubSub::Auto).with_acks(1), $make);
                }

                #[cfg(feature = "embedded")]
                mod in_this_process {
                    use super::super::*;
                    suite!([tokio::test], World::in_this_process(), $make);
                }

                #[cfg(feature = "embedded")]
                mod in_this_process_on_a_paused_clock {
                    use super::super::*;
                    suite!([tokio::test(start_paused = true)], World::in_this_process(), $make);
                }

                #[cfg(feature = "embedded")]
                mod in_this_process_with_acks {
                    use super::super::*;
                    suite!([tokio::test(start_paused = true)], World::in_this_process().with_acks(1), $make);
                }
            }
        )*
    };
}

/// Stamps the suite over primitives of a RedLock: how one makes them, and which worlds.
macro_rules! over_masters {
    ($($name:ident: $make:expr, $($world:ident)*;)*) => {
        $(
            mod $name {
                $(over_masters!(# $world, $make);)*
            }
        )*
    };
    (# in_this_process, $make:expr) => {
        #[cfg(feature = "embedded")]
        mod in_this_process_on_a_paused_clock {
            use super::super::*;
            suite!([tokio::test(start_paused = true)], World::OfMasters(Masters::in_this_process()), $make);
        }
    };
    (# $world:ident, $make:expr) => {
        mod $world {
            use super::super::*;
            suite!([tokio::test], World::$world(), $make);
        }
    };
}

/// Every test of the suite, in one world.
macro_rules! suite {
    ([$($attribute:tt)*], $world:expr, $make:expr) => {
        suite!(@ [$($attribute)*], $world, $make,
            excludes_others
            releases
            wakes_a_waiter
            a_deadline_gives_none
            expiry_frees
            a_loss_is_signalled
            a_release_may_be_asked_for_twice
            a_cancelled_waiter_leaves_nothing
            a_dropped_guard_frees
            enters_again_only_if_it_can
            can_be_forced_open_where_that_is_offered
            closes
        );
    };
    (@ $attributes:tt, $world:expr, $make:expr, $($test:ident)*) => {
        $(suite!(# $attributes, $world, $make, $test);)*
    };
    (# [$($attribute:tt)*], $world:expr, $make:expr, $test:ident) => {
            #[$($attribute)*]
            async fn $test() {
                super::super::$test(&$world, $make).await;
            }
    };
}

conformance! {
    reentrant_lock: ReentrantLock => |client, name| client.lock(name), [reenters, forces];
    mutex: Mutex => |client, name| client.mutex(name), [];
    fenced_lock: FencedLock => |client, name| client.fenced_lock(name), [reenters, forces];
    token_lock: TokenLock => |client, name| client.token_lock(name), [forces];
    multi_lock: MultiLock => |client, name| client.multi_lock([&format!("{name}-too"), name]), [reenters];
}

over_masters! {
    red_lock: |red, name| red.lock(name), of_three of_five with_one_down with_one_silent quarantined in_this_process;
    red_lock_mutex: |red, name| red.mutex(name), of_three with_one_down in_this_process;
    red_lock_token_lock: |red, name| red.token_lock(name), of_three of_five with_one_silent quarantined in_this_process;
}

/// Where the suite runs.
enum World {
    OnAServer {
        url: String,
        /// A way to the server that nothing disturbs.
        direct: String,
        _proxy: Option<Box<Proxy>>,
        _own: Option<Box<Server>>,
    },
    OnACluster(ShardedPubSub),
    OfMasters(Masters),
    #[cfg(feature = "embedded")]
    InThisProcess(EmbeddedStore),
    /// There, where so many replicas are to know of a grant.
    WithAcks(u32, Box<World>),
}

impl World {
    fn plain() -> Self {
        let url = Server::shared().url();
        Self::OnAServer { direct: url.clone(), url, _proxy: None, _own: None }
    }

    fn of_forgotten_scripts() -> Self {
        let server = Server::own();
        let proxy = flushing::before(&server);
        Self::OnAServer {
            url: proxy.url(),
            direct: server.url(),
            _proxy: Some(Box::new(proxy)),
            _own: Some(Box::new(server)),
        }
    }

    fn by_sentinels() -> Self {
        let deployment = Deployment::shared();
        let (url, direct) = (deployment.url(), deployment.url_of("master"));
        Self::OnAServer { url, direct, _proxy: None, _own: None }
    }

    fn on_replicas() -> Self {
        let url = Deployment::shared_replicas().url();
        Self::OnAServer { direct: url.clone(), url, _proxy: None, _own: None }
    }

    fn on_a_cluster(sharded: ShardedPubSub) -> Self {
        Self::OnACluster(sharded)
    }

    fn of_three() -> Self {
        Self::OfMasters(Masters::all_well(3))
    }

    fn of_five() -> Self {
        Self::OfMasters(Masters::all_well(5))
    }

    fn with_one_down() -> Self {
        Self::OfMasters(Masters::one_down())
    }

    fn with_one_silent() -> Self {
        Self::OfMasters(Masters::one_silent())
    }

    fn quarantined() -> Self {
        Self::OfMasters(Masters::quarantined())
    }

    #[cfg(feature = "embedded")]
    fn in_this_process() -> Self {
        Self::InThisProcess(EmbeddedStore::new())
    }

    fn with_acks(self, count: u32) -> Self {
        #[cfg(feature = "embedded")]
        if let Self::InThisProcess(store) = &self {
            store.set_replicas(count);
        }
        Self::WithAcks(count, Box::new(self))
    }

    /// Where it is, whatever else is asked for.
    fn place(&self) -> &Self {
        if let Self::WithAcks(_, place) = self { place } else { self }
    }

    async fn client(&self) -> Maker {
        self.maker(LASTS, |builder| builder, |builder| builder).await
    }

    /// One whose holds are soon lost.
    async fn client_of_short_leases(&self) -> Maker {
        self.maker(WATCHDOG, |builder| builder, |builder| builder).await
    }

    /// One that keeps a lock among its own tasks for as long as a busy machine takes.
    async fn client_of_long_turns(&self) -> Maker {
        self.maker(LASTS, |builder| builder.handover_slice(LASTS), |builder| builder.handover_slice(LASTS)).await
    }

    async fn maker(
        &self,
        watchdog: Duration,
        client: fn(ClientBuilder) -> ClientBuilder,
        red_lock: fn(RedLockBuilder) -> RedLockBuilder,
    ) -> Maker {
        match self {
            Self::OfMasters(masters) => Maker::RedLock(masters.red_lock(watchdog, red_lock).await),
            _ => Maker::Client(client(self.builder(watchdog)).connect().await.expect("connects")),
        }
    }

    /// How much later than its bound an answer may come: on a busy machine, and where one master says nothing. It is waited for
    /// once, where a RedLock finds out who its masters are.
    fn late(&self) -> Duration {
        match self {
            Self::OfMasters(masters) if masters.one_is_lame() => SLACK + MASTER_TIMEOUT,
            _ => SLACK,
        }
    }

    /// It lasts for long, whatever pauses.
    fn lasts(&self, acquire: Acquire) -> Acquire {
        match self {
            Self::OfMasters(masters) if masters.are_short() => acquire,
            _ => acquire.lease(LOOK * 6),
        }
    }

    fn builder(&self, watchdog: Duration) -> ClientBuilder {
        let builder = match self {
            Self::OnAServer { url, .. } => Client::builder().url(url),
            // With what it takes to trust them, where they speak TLS.
            Self::OnACluster(sharded) => {
                let node = Deployment::shared_cluster().client_of("node0");
                Client::builder().cluster_nodes([node]).sharded_pubsub(*sharded)
            }
            #[cfg(feature = "embedded")]
            Self::InThisProcess(store) => Client::builder().embedded(store),
            Self::WithAcks(count, place) => place.builder(watchdog).replica_acks(*count, watchdog / 2),
            Self::OfMasters(_) => unreachable!("each has a client of its own"),
        };
        builder.watchdog_timeout(watchdog)
    }

    /// The key's time to live in milliseconds, -2 where there is no key.
    async fn pttl(&self, key: &str) -> i64 {
        match self.place() {
            Self::OnAServer { direct, .. } => ask(direct, &["PTTL", key]).await,
            Self::OnACluster(_) => Deployment::shared_cluster().ask(home(key), &["PTTL", key]),
            #[cfg(feature = "embedded")]
            Self::InThisProcess(store) => pttl_in(store, key).await,
            Self::OfMasters(masters) => masters.pttl(key).await,
            Self::WithAcks(..) => unreachable!("that is no place"),
        }
    }

    /// Deletes the key, as an operator might.
    async fn delete(&self, key: &str) {
        let gone = match self.place() {
            Self::OnAServer { direct, .. } => ask::<i64>(direct, &["DEL", key]).await == 1,
            Self::OnACluster(_) => Deployment::shared_cluster().ask::<i64>(home(key), &["DEL", key]) == 1,
            #[cfg(feature = "embedded")]
            Self::InThisProcess(store) => store.expire(key),
            Self::OfMasters(masters) => masters.delete(key).await,
            Self::WithAcks(..) => unreachable!("that is no place"),
        };
        assert!(gone, "there was no {key}");
    }

    async fn listeners(&self, key: &str) -> u64 {
        let of_locks = self.listeners_on(key, &format!("redisson_lock__channel:{{{key}}}")).await;
        of_locks + self.listeners_on(key, &format!("relatch_token__channel:{{{key}}}")).await
    }

    async fn listeners_on(&self, key: &str, channel: &str) -> u64 {
        match self.place() {
            Self::OnAServer { direct, .. } => ask::<(String, u64)>(direct, &["PUBSUB", "NUMSUB", channel]).await.1,
            Self::OnACluster(sharded) => {
                let cluster = Deployment::shared_cluster();
                let sharded = *sharded != ShardedPubSub::Off && cluster.flavour() != "redis62";
                cluster.listeners_on(home(key), channel, sharded)
            }
            #[cfg(feature = "embedded")]
            Self::InThisProcess(store) => listeners_in(store, channel),
            Self::OfMasters(masters) => masters.listeners_on(channel).await,
            Self::WithAcks(..) => unreachable!("that is no place"),
        }
    }
}

async fn ask<T: redis::FromRedisValue>(url: &str, words: &[&str]) -> T {
    let client = redis::Client::open(url).expect("our own url is good");
    let mut connection = looking(&client).await;
    let mut command = redis::Cmd::new();
    command.arg(words).query_async(&mut connection).await.expect("the server answers")
}

#[cfg(feature = "embedded")]
async fn pttl_in(store: &EmbeddedStore, key: &str) -> i64 {
    let client = Client::builder().embedded(store).connect().await.expect("connects");
    let left = match client.lock(key).remaining_lease().await {
        Ok(left) => left,
        // It is no hash.
        Err(_) => client.token_lock(key).remaining_lease().await.expect("the store answers"),
    };
    left.map_or(-2, |left| i64::try_from(left.as_millis()).expect("a lease is short"))
}

#[cfg(feature = "embedded")]
fn listeners_in(store: &EmbeddedStore, channel: &str) -> u64 {
    let heard = store.listeners();
    heard.iter().find(|(known, _)| known == channel).map_or(0, |(_, count)| *count as u64)
}

/// How a client, or a RedLock, makes the primitive.
type Make<L> = fn(&Maker, &str) -> L;

/// Acquires in a task of its own, and so as another owner than anybody else.
fn elsewhere<L: Exclusive>(lock: &L) -> JoinHandle<LockGuard> {
    let acquiring = lock.acquire();
    tokio::spawn(async { acquiring.await.expect("the lock is taken in the end") })
}

/// Tries once, in a task of its own.
async fn tried<L: Exclusive>(lock: &L) -> Option<LockGuard> {
    tokio::spawn(lock.try_acquire()).await.expect("no panic").expect("the server answers")
}

async fn taken<L: Exclusive>(lock: &L) -> LockGuard {
    elsewhere(lock).await.expect("no panic")
}

async fn freed(guard: LockGuard) {
    assert_eq!(guard.unlock().await.expect("a hold of ours is released"), Released::Freed);
}

async fn excludes_others<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client().await, world.client().await, unique_name());
    let (lock, other) = (make(&ours, &name), make(&theirs, &name));
    let guard = taken(&lock).await;
    assert!(guard.is_held() && lock.taken().await.expect("the server answers"));
    assert!(tried(&lock).await.is_none() && tried(&other).await.is_none());
    // Another name is another lock.
    assert!(tried(&make(&ours, &unique_name())).await.is_some());
    freed(guard).await;

    let (inside, entered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = Vec::new();
    for lock in [&lock, &other].into_iter().cycle().take(8) {
        let lock = lock.clone();
        let (inside, entered) = (Arc::clone(&inside), Arc::clone(&entered));
        tasks.push(tokio::spawn(async move {
            for _ in 0..5 {
                let guard = lock.acquire().await.expect("its turn");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                tokio::task::yield_now().await;
                entered.fetch_add(1, Ordering::SeqCst);
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.unlock().await.expect("a hold of ours is released");
            }
        }));
    }
    for task in tasks {
        task.await.expect("nobody met anybody inside");
    }
    assert_eq!(entered.load(Ordering::SeqCst), 40);
    assert_eq!(world.pttl(&name).await, -2);
}

async fn releases<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client().await, world.client().await, unique_name());
    let guard = taken(&make(&ours, &name)).await;
    assert!((1..=30_000).contains(&world.pttl(&name).await));
    freed(guard).await;
    assert_eq!(world.pttl(&name).await, -2);
    assert!(!make(&ours, &name).taken().await.expect("the server answers"));
    for client in [&theirs, &ours] {
        freed(tried(&make(client, &name)).await.expect("a free lock")).await;
    }
}

async fn wakes_a_waiter<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client().await, world.client().await, unique_name());
    for (holder, waiter, local) in [(&ours, &theirs, false), (&ours, &ours, true)] {
        let acquiring = world.lasts(make(holder, &name).acquire());
        let guard = tokio::spawn(acquiring).await.expect("no panic").expect("a free lock");
        let entry = |guard: LockGuard| (guard, Instant::now());
        let waiting = elsewhere(&make(waiter, &name));
        let waiting = tokio::spawn(async move { entry(waiting.await.expect("no panic")) });
        let heard = async || local || world.listeners(&name).await == 1;
        eventually_async(LOOK, heard).await;
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let (released, lag) = (Instant::now(), Lag::watch());
        freed(guard).await;
        let (guard, entered) = waiting.await.expect("no panic");
        let took = entered - released;
        assert!(took < lag.added_to(SLACK), "local {local}: woken after {took:?}");
        freed(guard).await;
    }
}

async fn a_deadline_gives_none<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client().await, world.client().await, unique_name());
    let guard = taken(&make(&ours, &name)).await;
    for client in [&ours, &theirs] {
        for wait in [Duration::ZERO, MS * 60] {
            let (asked, lag) = (Instant::now(), Lag::watch());
            let trying = tokio::spawn(make(client, &name).try_acquire().wait(wait));
            assert!(trying.await.expect("no panic").expect("the server answers").is_none());
            let took = asked.elapsed();
            assert!((wait..lag.added_to(wait + world.late())).contains(&took), "{wait:?} took {took:?}");
        }
    }
    assert!(guard.is_held());
    freed(guard).await;
    assert_eq!(world.pttl(&name).await, -2);
}

async fn expiry_frees<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client().await, world.client().await, unique_name());
    let lease = MS * 150;
    let (asked, lag) = (Instant::now(), Lag::watch());
    let acquiring = make(&ours, &name).acquire().lease(lease);
    let expired = tokio::spawn(acquiring).await.expect("no panic").expect("a free lock");
    let guard = taken(&make(&theirs, &name)).await;
    let took = asked.elapsed();
    assert!((lease..lag.added_to(lease + SLACK)).contains(&took), "{lease:?} was over after {took:?}");
    assert!(!expired.is_held());
    assert!(matches!(expired.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
    // The late one does no harm to the new one.
    assert!(expired.unlock().await.is_err_and(|error| error.is_lost()));
    drop(expired);
    assert!(guard.is_held() && world.pttl(&name).await > 0);
    freed(guard).await;
}

async fn a_loss_is_signalled<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, name) = (world.client_of_short_leases().await, unique_name());
    let guard = taken(&make(&ours, &name)).await;
    let token = guard.cancellation();
    world.delete(&name).await;
    let (gone, lag) = (Instant::now(), Lag::watch());
    let never = guard.protect(std::future::pending::<()>()).await;
    assert!(never.is_err_and(|error| matches!(error, Error::Lost { cause: LostCause::Gone, .. })));
    let took = gone.elapsed();
    assert!(took < lag.added_to(WATCHDOG / 3 + SLACK), "told after {took:?}");
    assert!(guard.lost().await.is_lost() && token.is_cancelled() && !guard.is_held());
    assert!(guard.unlock().await.is_err_and(|error| error.is_lost()));
    // Taken by somebody else meanwhile, it is theirs.
    let theirs = taken(&make(&world.client().await, &name)).await;
    drop(guard);
    freed(theirs).await;
}

async fn a_release_may_be_asked_for_twice<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, name) = (world.client().await, unique_name());
    let lock = make(&ours, &name);
    let first = taken(&lock).await;
    assert_eq!(first.unlock().await.expect("a hold of ours is released"), Released::Freed);
    let second = taken(&lock).await;
    assert_eq!(first.unlock().await.expect("it was released"), Released::Freed);
    assert!(!first.is_held() && matches!(first.extend(SLACK).await, Err(Error::NotHeld { .. })));
    drop(first);
    assert!(second.is_held() && lock.taken().await.expect("the server answers"));
    freed(second).await;
    assert_eq!(world.pttl(&name).await, -2);
}

async fn a_cancelled_waiter_leaves_nothing<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client().await, world.client().await, unique_name());
    let guard = taken(&make(&ours, &name)).await;
    // Dropped unpolled, after so many looks, and while it is listening: on both sides.
    drop(make(&theirs, &name).acquire());
    for client in [&ours, &theirs] {
        for wait in [Duration::ZERO, MS, MS * 5, MS * 50] {
            let waiting = elsewhere(&make(client, &name));
            tokio::time::sleep(wait).await;
            waiting.abort();
            assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        }
    }
    freed(guard).await;
    // On a free lock: at whatever step it is dropped, what it may have taken goes too.
    for wait in [Duration::ZERO, Duration::from_micros(50), Duration::from_micros(500), MS * 2] {
        let acquiring = tokio::time::timeout(wait, make(&theirs, &name).acquire());
        drop(tokio::spawn(acquiring).await.expect("no panic"));
    }
    eventually_async(LOOK, async || world.listeners(&name).await == 0 && world.pttl(&name).await == -2).await;
    freed(taken(&make(&theirs, &name)).await).await;
    assert_eq!(world.pttl(&name).await, -2);
}

async fn a_dropped_guard_frees<L: Exclusive>(world: &World, make: Make<L>) {
    // A turn of ours lasts for as long as a busy machine takes: when it is over, whoever listened goes first, and a try is told so.
    let (ours, theirs, name) = (world.client_of_long_turns().await, world.client().await, unique_name());
    let acquiring = world.lasts(make(&ours, &name).acquire());
    let guard = tokio::spawn(acquiring).await.expect("no panic").expect("a free lock");
    let waiting = elsewhere(&make(&theirs, &name));
    eventually_async(LOOK, async || world.listeners(&name).await == 1).await;
    let (dropped, lag) = (Instant::now(), Lag::watch());
    drop(guard);
    let guard = waiting.await.expect("no panic");
    let took = dropped.elapsed();
    assert!(took < lag.added_to(SLACK), "free after {took:?}");
    freed(guard).await;
    // The same client finds it free at once.
    let lock = make(&ours, &name);
    drop(taken(&lock).await);
    freed(tried(&lock).await.expect("the release goes before the try")).await;
}

async fn enters_again_only_if_it_can<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, name) = (world.client().await, unique_name());
    let lock = make(&ours, &name);
    let outer = lock.acquire().await.expect("a free lock");
    let inner = lock.try_acquire().await.expect("the server answers");
    assert_eq!(inner.is_some(), lock.reenters());
    if let Some(inner) = inner {
        let deeper = lock.acquire().await.expect("ours already");
        assert_eq!((outer.hold_count(), deeper.hold_count()), (3, 3));
        assert_eq!(inner.unlock().await.expect("a nested hold"), Released::StillHeld(2));
        assert_eq!(deeper.unlock().await.expect("a nested hold"), Released::StillHeld(1));
        assert!(outer.is_held() && tried(&lock).await.is_none());
    } else {
        let asked = Instant::now();
        assert!(lock.try_acquire().wait(MS * 30).await.expect("the server answers").is_none());
        assert!(asked.elapsed() >= MS * 30);
    }
    freed(outer).await;
    assert_eq!(world.pttl(&name).await, -2);
}

async fn can_be_forced_open_where_that_is_offered<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client_of_short_leases().await, world.client().await, unique_name());
    let (lock, other) = (make(&ours, &name), make(&theirs, &name));
    let Some(on_free) = lock.force() else { return };
    assert!(!on_free.await.expect("the server answers"), "nobody held it");
    // By the holder's own client, which is told at once; by another, which finds out with its next renewal.
    for (forcing, cause) in [(&lock, LostCause::Forced), (&other, LostCause::Gone)] {
        let guard = taken(&lock).await;
        let forced = forcing.force().expect("it is offered").await;
        assert!(forced.expect("the server answers"));
        let (told, lag) = (Instant::now(), Lag::watch());
        assert!(matches!(guard.lost().await, Error::Lost { cause: is, .. } if is == cause));
        let took = told.elapsed();
        assert!(took < lag.added_to(WATCHDOG / 3 + SLACK), "told after {took:?}");
        let next = taken(&other).await;
        drop(guard);
        assert!(next.is_held() && world.pttl(&name).await > 0);
        freed(next).await;
    }
}

async fn closes<L: Exclusive>(world: &World, make: Make<L>) {
    let (ours, theirs, name) = (world.client_of_short_leases().await, world.client().await, unique_name());
    let (lock, other, dropped) = (make(&ours, &name), make(&theirs, &name), unique_name());
    let guard = taken(&lock).await;
    let waiting = tokio::spawn(lock.acquire());
    tokio::task::yield_now().await;
    drop(taken(&make(&ours, &dropped)).await);
    ours.close().await;
    assert_eq!(world.pttl(&dropped).await, -2);
    assert!(matches!(waiting.await.expect("no panic"), Err(Error::Closed)));
    assert!(
        matches!(lock.acquire().await, Err(Error::Closed)) && matches!(lock.try_acquire().await, Err(Error::Closed))
    );
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Closed, .. }));
    drop(guard);
    // Its work may still run, so the lock is only free when its lease is over.
    assert!(world.pttl(&name).await > 0 && tried(&other).await.is_none());
    let (asked, lag) = (Instant::now(), Lag::watch());
    freed(taken(&other).await).await;
    let took = asked.elapsed();
    assert!(took < lag.added_to(WATCHDOG + SLACK), "free after {took:?}");
}

/// The sources of the primitives, by file.
fn primitives() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/locks");
    let files =
        fs::read_dir(folder).expect("the primitives have a folder").map(|file| file.expect("it is listed").path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| (path.display().to_string(), fs::read_to_string(path).expect("it is text"))).collect()
}

/// The types whose public methods hand out an `Acquire`.
fn acquirable(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut of = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("impl ") {
            of = rest.split(|end: char| !end.is_alphanumeric()).next();
        }
        if line.trim_start().starts_with("pub fn ") && line.contains("-> Acquire") {
            found.extend(of);
        }
    }
    found
}

#[test]
fn the_suite_is_stamped_over_every_primitive_that_can_be_acquired() {
    let sources = primitives();
    let mut found: Vec<_> = sources.iter().flat_map(|(_, source)| acquirable(source)).collect();
    found.sort_unstable();
    let mut stamped = STAMPED.to_vec();
    stamped.sort_unstable();
    assert_eq!(found, stamped, "a primitive has no line in conformance!, or a line no primitive");
    // And that is all of them: each public type there is one, or only tells about one.
    let public =
        sources.iter().flat_map(|(_, source)| source.lines()).filter_map(|line| line.strip_prefix("pub struct "));
    let names = public.filter_map(|rest| rest.split(|end: char| !end.is_alphanumeric()).next());
    let mut others: Vec<_> = names.filter(|name| !stamped.contains(name)).collect();
    others.sort_unstable();
    let job = ["JobAttempt", "JobContext", "JobRecord", "JobSuccess", "PeriodicJob"];
    let known = [&["HeldToken", "Inspection", "Part", "TokenInspection"][..], &job].concat();
    assert!(others.iter().all(|name| known.contains(name)) && others.len() == known.len(), "{others:?}");
}

#[test]
fn who_looks_for_a_method_of_redisson_finds_ours() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    let read = |file: &str| fs::read_to_string(root.join(file)).expect("it is text");
    let requests = read("request.rs") + &read("guard_lasts.rs");
    let (_, reentrant) =
        primitives().into_iter().find(|(path, _)| path.ends_with("reentrant.rs")).expect("it is there");
    let on_the_lock = [
        "lock",
        "tryLock",
        "unlock",
        "forceUnlock",
        "isLocked",
        "isHeldByCurrentThread",
        "getHoldCount",
        "remainTimeToLive",
        "lockInterruptibly",
        "acquire",
    ];
    let sources = on_the_lock.map(|word| (word, &reentrant)).into_iter();
    for (word, source) in sources.chain([("renew", &requests), ("timeout", &requests)]) {
        // A method of that very name needs no alias, and may have none.
        let is_there =
            source.contains(&format!("#[doc(alias = \"{word}\")]")) || source.contains(&format!("pub fn {word}(&self"));
        assert!(is_there, "nothing is found by {word:?}");
    }
}
