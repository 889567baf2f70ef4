//! A client away from the runtime that connected it: on another one, on none, and after its own has ended or stands still.
//! Every call works or answers there, none hangs, none panics, and guards can be dropped.

use std::{
    future::{Future, IntoFuture, pending},
    pin::pin,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use relatch::{Client, Error, LockGuard, LostCause, Op, Owner, ReentrantLock, Released, Result};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::harness::{Server, eventually, eventually_async, unique_name};

/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);
/// How much later than its bound an answer may be seen on a busy machine.
const SLACK: Duration = Duration::from_secs(1);
/// What a runtime that stands still is put up with here.
const PATIENCE: Duration = Duration::from_millis(400);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts")
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("starts")
}

/// A client that lives on a runtime, with a lock that is held and one whose hold is detached.
struct Resident {
    client: Client,
    held: ReentrantLock,
    guard: LockGuard,
    detached: ReentrantLock,
    owner: Owner,
}

impl Resident {
    fn of(home: &Runtime, watchdog: Duration) -> Self {
        Self::with(home, watchdog, PATIENCE)
    }

    fn with(home: &Runtime, watchdog: Duration, command_timeout: Duration) -> Self {
        home.block_on(async {
            let builder = Client::builder().url(Server::shared().url()).watchdog_timeout(watchdog);
            let client = builder.command_timeout(command_timeout).unreachable_after(PATIENCE).connect().await;
            let client = client.expect("connects");
            let [held, detached] = [client.lock(unique_name()), client.lock(unique_name())];
            let guard = held.lock().owner(&Owner::new()).await.expect("acquires");
            let owner = detached.lock().owner(&Owner::new()).await.expect("acquires").detach();
            Self { client, held, guard, detached, owner }
        })
    }

    fn names(&self) -> [String; 2] {
        [&self.held, &self.detached].map(|lock| lock.name().to_owned())
    }

    /// Calls everything that is async, and wants it to do what it says.
    async fn works(&self) {
        let free = self.client.lock(unique_name());
        let (mutex, guard) = (self.client.mutex(unique_name()), &self.guard);
        let server = Server::shared();
        // The owner is the caller's, so it nests.
        let outer = free.lock().await.expect("a free lock");
        let inner = free.lock().lease(HANGS).await.expect("it nests");
        assert_eq!((outer.owner(), free.hold_count()), (&Owner::current(), 2));
        assert_eq!(server.hash(free.name()).values().next().map(String::as_str), Some("2"));
        assert_eq!(inner.unlock().await.expect("releases"), Released::StillHeld(1));
        assert_eq!(outer.unlock().await.expect("releases"), Released::Freed);
        assert_eq!(outer.unlock().await.expect("says it again"), Released::Freed);
        assert!(server.hash(free.name()).is_empty());
        let nested = self.held.lock().owner(guard.owner()).await.expect("it nests in a hold of home");
        assert_eq!(guard.hold_count(), 2);
        drop(nested);
        assert!(self.held.try_lock().await.expect("answers").is_none());
        assert!(self.held.try_lock().wait(PATIENCE / 10).await.expect("answers").is_none());
        let taken = free.try_lock().wait(HANGS).await.expect("answers").expect("a free lock");
        taken.unlock().await.expect("releases");
        let taken = mutex.lock().await.expect("a free lock");
        assert!(mutex.try_lock().await.expect("answers").is_none());
        assert!(mutex.is_locked().await.expect("answers") && mutex.inspect().await.expect("answers").is_some());
        assert!(mutex.remaining_lease().await.expect("answers").is_some());
        drop(taken);
        assert!(free.unlock().await.is_err_and(|error| matches!(error, Error::NotHeld { .. })));
        assert_eq!(guard.protect(async { 17 }).await.expect("held"), 17);
        guard.extend(HANGS * 4).await.expect("held");
        assert!(guard.expires_in().is_some_and(|left| left > HANGS * 3));
        assert_eq!(self.detached.unlock().owner(&self.owner).await.expect("releases"), Released::Freed);
        // Who waits elsewhere is told of a loss at home, and of one of its own making.
        let (mut lost, mut protected) = (pin!(guard.lost()), pin!(guard.protect(pending::<()>())));
        assert!(polled_once(lost.as_mut()).await.is_none() && polled_once(protected.as_mut()).await.is_none());
        let token = guard.cancellation();
        assert!(self.held.force_unlock().await.expect("answers"));
        assert!(matches!(lost.await, Error::Lost { cause: LostCause::Forced, .. }));
        assert!(matches!(protected.await, Err(Error::Lost { cause: LostCause::Forced, .. })));
        assert!(token.is_cancelled() && guard.unlock().await.is_err_and(|error| error.is_lost()));
        // Where there is no runtime at all, nothing can connect.
        if Handle::try_current().is_err() {
            let refused = Client::connect(server.url()).await;
            assert!(matches!(refused, Err(Error::Invalid { what: "runtime", .. })));
        }
    }

    /// Calls everything that needs its home at the same time, and wants the same answer each time, in time.
    async fn answers(&self, is_it: fn(&Error) -> bool, within: Duration) {
        let [free, tried] = [self.client.lock(unique_name()), self.client.lock(unique_name())];
        let (mutex, guard) = (self.client.mutex(unique_name()), &self.guard);
        let asked = Asked { is_it, within };
        let calls: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 13] = [
            Box::pin(asked.of("lock", free.lock())),
            Box::pin(asked.of("lock with a lease", free.lock().lease(HANGS).owner(&Owner::new()))),
            Box::pin(asked.of("try_lock", tried.try_lock().owner(&Owner::new()))),
            Box::pin(asked.of("try_lock with a wait", free.try_lock().wait(HANGS).owner(&Owner::new()))),
            Box::pin(asked.of("mutex.lock", mutex.lock())),
            Box::pin(asked.of("mutex.inspect", mutex.inspect())),
            Box::pin(asked.of("unlock", self.detached.unlock().owner(&self.owner))),
            Box::pin(asked.of("force_unlock", self.held.force_unlock())),
            Box::pin(asked.of("inspect", self.held.inspect())),
            Box::pin(asked.of("is_locked", self.held.is_locked())),
            Box::pin(asked.of("remaining_lease", self.held.remaining_lease())),
            Box::pin(asked.of("guard.extend", guard.extend(HANGS))),
            Box::pin(asked.of("guard.unlock", guard.unlock())),
        ];
        join_all(calls).await;
        asked.of("unlock again", self.detached.unlock().owner(&self.owner)).await;
        asked.of("guard.unlock again", guard.unlock()).await;
    }
}

#[derive(Clone, Copy)]
struct Asked {
    is_it: fn(&Error) -> bool,
    within: Duration,
}

impl Asked {
    async fn of<T>(self, what: &'static str, call: impl IntoFuture<Output = Result<T>>) {
        let asked = Instant::now();
        match call.await {
            Err(error) if (self.is_it)(&error) => {}
            Err(other) => panic!("{what} answers with another error: {other:?}"),
            Ok(_) => panic!("{what} did something"),
        }
        assert!(asked.elapsed() < self.within, "{what} took {:?}", asked.elapsed());
    }
}

async fn polled_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs a future on a thread without a runtime.
pub(crate) fn without_a_runtime<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs a test's part on a thread of its own: what hangs or panics there is seen here.
#[track_caller]
pub(crate) fn elsewhere<R: Send + 'static>(part: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, seen) = mpsc::channel();
    let thread = thread::spawn(move || done.send(part()));
    match seen.recv_timeout(HANGS) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("it panicked: {:?}", thread.join().err()),
    }
}

/// The places that are not a client's own runtime.
const PLACES: [fn(Job); 4] = [
    // Another runtime of either kind, one that has neither timers nor sockets, and none.
    |job| runtime().block_on(job()),
    |job| current_thread().block_on(job()),
    |job| Builder::new_current_thread().build().expect("starts").block_on(job()),
    |job| without_a_runtime(job()),
];

type Job = Box<dyn FnOnce() -> std::pin::Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Runs a part in one of the places, and brings back what it was about.
#[track_caller]
fn there<S, F>(place: fn(Job), subject: S, part: impl FnOnce(S) -> F + Send + 'static)
where
    S: Send + 'static,
    F: Future<Output = ()> + 'static,
{
    elsewhere(move || place(Box::new(move || Box::pin(part(subject)))));
}

#[test]
fn every_call_away_from_home_does_what_it_does_at_home() {
    let home = runtime();
    for place in PLACES {
        let resident = Resident::of(&home, HANGS * 3);
        let names = resident.names();
        there(place, resident, async |resident| resident.works().await);
        eventually(HANGS, || names.iter().all(|name| Server::shared().hash(name).is_empty()));
    }
}

#[test]
fn a_guard_that_is_dropped_away_from_home_is_released_at_home() {
    let home = runtime();
    for place in PLACES {
        let Resident { client, held, guard, detached, owner } = Resident::of(&home, HANGS * 3);
        let attached = detached.attach(&owner).expect("no runtime is needed to take it back");
        let started = Instant::now();
        there(place, (guard, attached), async |guards| drop(guards));
        assert!(started.elapsed() < HANGS / 2, "dropping does not block");
        eventually(HANGS, || [&held, &detached].iter().all(|lock| Server::shared().hash(lock.name()).is_empty()));
        drop(client);
    }
}

#[test]
fn a_waiting_future_that_is_dropped_away_from_home_leaves_nothing() {
    let home = runtime();
    for place in PLACES {
        // Begun at home, and begun there.
        for begun_at_home in [true, false] {
            let resident = Resident::of(&home, HANGS * 3);
            let mut waiting = resident.held.lock().owner(&Owner::new());
            if begun_at_home {
                let begun = home.block_on(async { pin!(&mut waiting).poll(&mut Context::from_waker(Waker::noop())) });
                assert!(begun.is_pending());
            }
            there(place, waiting, async move |mut waiting| {
                assert!(begun_at_home || polled_once(pin!(&mut waiting)).await.is_none());
                drop(waiting);
            });
            home.block_on(async {
                resident.guard.unlock().await.expect("releases");
                let free = resident.held.try_lock().wait(HANGS).await.expect("answers").expect("nobody waits");
                free.unlock().await.expect("releases");
            });
        }
    }
}

#[test]
fn a_waiting_future_that_is_carried_elsewhere_goes_on_there_and_back_at_home() {
    let home = runtime();
    for place in PLACES {
        let resident = Resident::of(&home, HANGS * 3);
        let (held, guard) = (resident.held.clone(), resident.guard);
        let mut waiting = held.lock().owner(&Owner::new());
        let begun = home.block_on(async { pin!(&mut waiting).poll(&mut Context::from_waker(Waker::noop())) });
        assert!(begun.is_pending());
        let (back, come_back) = mpsc::channel();
        there(place, waiting, async move |mut waiting| {
            assert!(polled_once(pin!(&mut waiting)).await.is_none());
            drop(guard);
            let guard = waiting.await.expect("its turn comes");
            assert!(guard.is_held());
            let mut waiting = held.lock().owner(&Owner::new());
            assert!(polled_once(pin!(&mut waiting)).await.is_none());
            back.send((guard, waiting)).expect("the test waits");
        });
        let (guard, waiting) = come_back.recv().expect("it comes back");
        home.block_on(async {
            guard.unlock().await.expect("releases");
            waiting.await.expect("its turn comes").unlock().await.expect("releases");
        });
    }
}

#[test]
fn an_unlock_that_is_dropped_elsewhere_after_its_first_poll_is_done_all_the_same() {
    for place in PLACES {
        // Nobody drives it meanwhile, so both are dropped before home has seen any of them.
        let home = current_thread();
        let resident = Resident::of(&home, HANGS * 3);
        let [held, detached] = resident.names();
        let inner = home.block_on(resident.held.lock().owner(resident.guard.owner())).expect("it nests");
        let count = |name: &str| Server::shared().hash(name).into_values().next();
        assert_eq!(count(&held).as_deref(), Some("2"));
        let unlock = resident.detached.unlock().owner(&resident.owner);
        there(place, (inner, unlock), async |(inner, mut unlock)| {
            assert!(polled_once(pin!(&mut unlock)).await.is_none());
            assert!(polled_once(pin!(inner.unlock())).await.is_none());
        });
        let is_done = async || count(&held).as_deref() == Some("1") && count(&detached).is_none();
        home.block_on(eventually_async(HANGS, is_done));
        assert!(resident.guard.is_held() && resident.guard.hold_count() == 1);
    }
}

/// As a web server does it: a worker is a thread with a runtime of its own, and all share what the main one connected.
#[test]
fn workers_with_a_runtime_each_share_one_client_and_exclude_each_other() {
    const WORKERS: u32 = 4;
    const SECTIONS: u32 = 25;
    let home = runtime();
    let client = home.block_on(Client::connect(Server::shared().url())).expect("connects");
    let (name, inside, entered) = (unique_name(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let start = Arc::new(Barrier::new(WORKERS as usize));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (lock, inside, entered) = (client.lock(&name), Arc::clone(&inside), Arc::clone(&entered));
            let start = Arc::clone(&start);
            thread::spawn(move || {
                let handlers = (0..4).map(|_| {
                    let (lock, inside, entered) = (lock.clone(), Arc::clone(&inside), Arc::clone(&entered));
                    async move {
                        for _ in 0..SECTIONS {
                            let guard = lock.lock().await.expect("its turn comes");
                            assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                            tokio::task::yield_now().await;
                            entered.fetch_add(1, Ordering::SeqCst);
                            inside.store(false, Ordering::SeqCst);
                            assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);
                        }
                    }
                });
                start.wait();
                current_thread().block_on(async {
                    let handlers: Vec<_> = handlers.map(tokio::spawn).collect();
                    for handler in handlers {
                        handler.await.expect("no panic");
                    }
                });
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    assert_eq!(entered.load(Ordering::SeqCst), WORKERS * 4 * SECTIONS);
    home.block_on(client.close());
}

#[test]
fn the_end_of_its_runtime_closes_a_client_and_guards_can_be_dropped() {
    for place in PLACES {
        let home = runtime();
        let resident = Resident::of(&home, Duration::from_millis(300));
        let names = resident.names();
        let token = resident.guard.cancellation();
        // Somebody waits elsewhere meanwhile, for the lock and for its loss.
        let (held, owner) = (resident.held.clone(), Owner::new());
        let (waits, waiting) = mpsc::channel();
        let waiter = thread::spawn(move || {
            let mut lock = held.lock().owner(&owner);
            without_a_runtime(async {
                assert!(polled_once(pin!(&mut lock)).await.is_none());
                waits.send(()).expect("the test waits");
                lock.await.map(drop)
            })
        });
        waiting.recv().expect("it waits");
        drop(home);
        let ends = names.each_ref().map(|name| Server::shared().ends_at(name));
        assert!(token.is_cancelled() && resident.client.is_closed() && !resident.guard.is_held());
        assert!(matches!(waiter.join().expect("no panic"), Err(Error::Closed)));
        there(place, resident, async |resident| {
            assert!(matches!(resident.guard.lost().await, Error::Lost { cause: LostCause::Closed, .. }));
            let protected = resident.guard.protect(pending::<()>()).await;
            assert!(matches!(protected, Err(Error::Lost { cause: LostCause::Closed, .. })));
            resident.answers(|error| matches!(error, Error::Closed) || error.is_lost(), SLACK).await;
            let Resident { client, guard, detached, owner, .. } = resident;
            drop((guard, detached.attach(&owner)));
            client.close().await;
            assert!(client.is_closed());
        });
        // Nobody is left to renew or to release them, so they end when they would have ended.
        for (name, end) in names.iter().zip(ends) {
            let now = Server::shared().ends_at(name);
            assert!(now.is_none() || now == end, "{end:?} {now:?}");
        }
        eventually(HANGS, || names.iter().all(|name| Server::shared().hash(name).is_empty()));
    }
}

#[test]
fn a_client_can_be_closed_from_anywhere() {
    let home = runtime();
    for place in PLACES {
        let resident = Resident::of(&home, HANGS * 3);
        there(place, resident.client.clone(), async |client| client.close().await);
        assert!(resident.client.is_closed());
        let answer = home.block_on(async { resident.held.lock().await.map(drop) });
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
        assert!(!resident.guard.is_held());
    }
}

fn names_the_remedy(error: &Error) -> bool {
    let may_have_run = matches!(error, Error::Unreachable { may_have_run: true, .. });
    may_have_run && error.is_transient() && error.to_string().contains("own_thread()")
}

#[test]
fn a_home_that_stands_still_is_an_error_that_says_what_helps_and_never_a_hang() {
    for place in PLACES {
        // Nobody drives it after the first block.
        let home = current_thread();
        let resident = Resident::of(&home, HANGS * 3);
        let client = resident.client.clone();
        there(place, resident, async |resident| {
            resident.answers(names_the_remedy, PATIENCE * 2 + SLACK).await;
        });
        there(place, client.clone(), async |client| {
            let closing = Instant::now();
            client.close().await;
            assert!(closing.elapsed() < PATIENCE * 2 + SLACK, "it took {:?}", closing.elapsed());
        });
        assert!(client.is_closed());
        // Whatever was left to do does no harm once it runs.
        home.block_on(async { tokio::task::yield_now().await });
        drop(home);
    }
}

/// What blocks a thread that has entered a runtime on a future, which that runtime does not poll.
const BLOCKING: [fn(&Runtime, Job); 4] = [
    |home, job| {
        let _entered = home.enter();
        without_a_runtime(job());
    },
    |home, job| home.handle().block_on(job()),
    |home, job| in_a_blocking_task(home, move || without_a_runtime(job())),
    |home, job| in_a_blocking_task(home, move || Handle::current().block_on(job())),
];

fn in_a_blocking_task(home: &Runtime, part: impl FnOnce() + Send + 'static) {
    let (done, seen) = mpsc::channel();
    let _ends_by_itself = home.spawn_blocking(move || {
        part();
        done.send(())
    });
    seen.recv().expect("no panic");
}

/// Keeps the only worker of a runtime busy until this is dropped.
fn kept_busy(home: &Runtime) -> mpsc::Sender<()> {
    let ((go_on, busy), (begins, began)) = (mpsc::channel(), mpsc::channel());
    let _ends_by_itself = home.spawn(async move {
        let _ = begins.send(());
        busy.recv()
    });
    began.recv().expect("it begins");
    go_on
}

/// A home that nobody drives, and one whose worker is kept busy.
#[track_caller]
fn where_home_stands_still<S, F>(make: impl Fn(&Runtime) -> S, part: impl Fn(S) -> F + Copy + Send + 'static)
where
    S: Send + 'static,
    F: Future<Output = ()> + 'static,
{
    for blocks in BLOCKING {
        for (home, has_workers) in [(current_thread(), false), (runtime(), true)] {
            let subject = make(&home);
            let busy = has_workers.then(|| kept_busy(&home));
            elsewhere(move || {
                let (home, _until_then) = (home, busy);
                blocks(&home, Box::new(move || Box::pin(part(subject))));
            });
        }
    }
}

#[test]
fn whoever_blocks_on_a_home_that_stands_still_is_told_so_and_never_hangs() {
    where_home_stands_still(
        // A command is not given up before home is.
        |home| Resident::with(home, HANGS * 3, PATIENCE * 2),
        |resident| async move {
            resident.answers(names_the_remedy, PATIENCE * 2 + SLACK).await;
            let closing = Instant::now();
            resident.client.close().await;
            assert!(closing.elapsed() < PATIENCE * 2 + SLACK, "it took {:?}", closing.elapsed());
        },
    );
}

#[test]
fn whoever_blocks_on_a_home_that_stands_still_is_told_of_a_loss_at_the_deadline() {
    const LEASE: Duration = Duration::from_millis(500);
    where_home_stands_still(
        |home| (Instant::now(), Resident::of(home, LEASE)),
        |(started, Resident { client: _client, guard, .. })| async move {
            assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
            let told = started.elapsed();
            assert!(LEASE / 2 < told && told < LEASE + SLACK, "told after {told:?}");
        },
    );
}

#[test]
fn whoever_connects_where_it_blocks_on_a_runtime_that_stands_still_is_told_so() {
    where_home_stands_still(
        |_| Client::builder().url(Server::shared().url()).unreachable_after(PATIENCE),
        |builder| async move {
            let began = Instant::now();
            let error = builder.connect().await.expect_err("nobody drives it");
            assert!(matches!(error, Error::Unreachable { op: Op::Connect, may_have_run: false, .. }), "{error:?}");
            assert!(error.is_transient() && error.to_string().contains("own_thread()"), "{error}");
            assert!(began.elapsed() < PATIENCE * 2 + SLACK, "it took {:?}", began.elapsed());
        },
    );
}

#[test]
fn whoever_blocks_on_a_home_that_others_drive_is_served() {
    for blocks in BLOCKING {
        for home in [runtime(), current_thread()] {
            let resident = Resident::of(&home, HANGS * 3);
            let (home, over) = (Arc::new(home), Arc::new(tokio::sync::Notify::new()));
            let (driven, until) = (Arc::clone(&home), Arc::clone(&over));
            let drives = thread::spawn(move || driven.block_on(until.notified()));
            elsewhere(move || blocks(&home, Box::new(move || Box::pin(async move { resident.works().await }))));
            over.notify_one();
            drives.join().expect("no panic");
        }
    }
}

#[test]
fn who_connects_where_it_has_only_entered_a_runtime_is_told_if_nobody_drives_that_and_served_if_somebody_does() {
    let builder = Client::builder().url(Server::shared().url()).unreachable_after(PATIENCE);
    let (home, alone) = (current_thread(), builder.clone());
    elsewhere(move || {
        let (_entered, began) = (home.enter(), Instant::now());
        let error = without_a_runtime(alone.connect()).expect_err("nobody drives it");
        assert!(matches!(error, Error::Unreachable { op: Op::Connect, may_have_run: false, .. }), "{error:?}");
        assert!(error.is_transient() && error.to_string().contains("own_thread()"), "{error}");
        assert!(began.elapsed() < PATIENCE * 2 + SLACK, "it took {:?}", began.elapsed());
    });
    for home in [runtime(), current_thread()] {
        let (home, over) = (Arc::new(home), Arc::new(tokio::sync::Notify::new()));
        let (driven, until, builder) = (Arc::clone(&home), Arc::clone(&over), builder.clone());
        let drives = thread::spawn(move || driven.block_on(until.notified()));
        elsewhere(move || {
            let _entered = home.enter();
            let client = without_a_runtime(builder.connect()).expect("connects");
            drop(without_a_runtime(client.mutex(unique_name()).lock().into_future()).expect("a free lock"));
        });
        over.notify_one();
        drives.join().expect("no panic");
    }
}

#[test]
fn a_shutdown_from_elsewhere_is_over_in_time_though_home_stands_still() {
    for place in PLACES {
        let home = current_thread();
        let resident = Resident::of(&home, HANGS * 3);
        there(place, resident, async |resident| {
            let began = Instant::now();
            let shutdown = resident.client.shutdown(HANGS * 3).await;
            assert!(began.elapsed() < PATIENCE * 2 + SLACK, "it took {:?}", began.elapsed());
            assert_eq!(shutdown.still_held.iter().map(|name| &**name).collect::<Vec<_>>(), resident.names());
            assert!(resident.client.is_closed() && !resident.guard.is_held());
        });
    }
}

#[test]
fn a_loss_is_told_at_the_deadline_though_home_stands_still() {
    const LEASE: Duration = Duration::from_millis(500);
    for place in PLACES {
        let home = current_thread();
        let started = Instant::now();
        let resident = Resident::of(&home, LEASE);
        there(place, resident.guard, async move |guard| {
            let (mut lost, mut protected) = (pin!(guard.lost()), pin!(guard.protect(pending::<()>())));
            assert!(polled_once(lost.as_mut()).await.is_none() && polled_once(protected.as_mut()).await.is_none());
            assert!(matches!(protected.await, Err(Error::Lost { cause: LostCause::Expired, .. })));
            assert!(matches!(lost.await, Error::Lost { cause: LostCause::Expired, .. }));
            let told = started.elapsed();
            assert!(LEASE / 2 < told && told < LEASE + SLACK, "told after {told:?}");
        });
    }
}

#[test]
fn a_nested_bound_is_told_in_time_though_home_stands_still_whether_it_was_there_before_or_not() {
    const BOUND: Duration = Duration::from_millis(500);
    for before in [true, false] {
        let home = current_thread();
        let Resident { client: _client, held, guard, .. } = Resident::of(&home, HANGS * 3);
        let nests = held.lock().owner(guard.owner()).max_hold(BOUND);
        let told = elsewhere(move || {
            let nested = || {
                let nested = thread::spawn(move || (home.block_on(nests), home));
                let (nested, home) = nested.join().expect("no panic");
                (nested.expect("it nests"), Instant::now(), home)
            };
            let (first, then) = if before { (Some(nested()), None) } else { (None, Some(nested)) };
            let nests = async { then.map(|nested| nested()) };
            let both = async { tokio::join!(guard.lost(), guard.protect(pending::<()>()), nests) };
            let (lost, protected, second) = without_a_runtime(both);
            assert!(matches!(lost, Error::Lost { cause: LostCause::MaxHold, .. }), "{lost:?}");
            assert!(matches!(protected, Err(Error::Lost { cause: LostCause::MaxHold, .. })), "{protected:?}");
            let (_nested, since, _home) = first.or(second).expect("one of them");
            since.elapsed()
        });
        assert!(told < BOUND + SLACK, "told after {told:?}");
    }
}

#[test]
fn a_runtime_without_timers_or_sockets_is_refused_by_name() {
    for (timers, sockets) in [(false, true), (true, false), (false, false)] {
        let refused = elsewhere(move || {
            let mut builder = Builder::new_current_thread();
            if timers {
                builder.enable_time();
            }
            if sockets {
                builder.enable_io();
            }
            let runtime = builder.build().expect("starts");
            runtime.block_on(Client::connect(Server::shared().url())).map(drop)
        });
        match refused {
            Err(Error::Invalid { what: "runtime", why, .. }) => assert!(why.contains("enable_all()"), "{why}"),
            other => panic!("timers {timers}, sockets {sockets}: {other:?}"),
        }
    }
}

#[test]
fn what_is_given_to_a_future_elsewhere_that_nobody_polls_is_taken_back_and_given_again_when_it_is_polled() {
    const WATCHDOG: Duration = Duration::from_millis(1_200);
    let home = runtime();
    for waits in [true, false] {
        let resident = Resident::of(&home, WATCHDOG);
        let lock = if waits { resident.held.clone() } else { resident.client.lock(unique_name()) };
        let mut parked = lock.lock().owner(&Owner::new());
        // Its only worker is kept busy, so that the answer comes after the poll.
        let (go_on, busy) = mpsc::channel::<()>();
        let kept = home.spawn(async move { busy.recv() });
        let begun = without_a_runtime(polled_once(pin!(&mut parked)));
        assert!(begun.is_none());
        drop(go_on);
        assert!(home.block_on(kept).expect("no panic").is_err());
        let entered = home.block_on(async {
            if waits {
                resident.guard.unlock().await.expect("releases");
            }
            let asked = Instant::now();
            let guard = lock.try_lock().wait(HANGS).owner(&Owner::new()).await.expect("answers").expect("it is free");
            guard.unlock().await.expect("releases");
            asked.elapsed()
        });
        assert!(entered < WATCHDOG + SLACK, "entered after {entered:?}");
        let guard = elsewhere(move || without_a_runtime(parked)).expect("its turn comes again");
        assert!(guard.is_held());
        // And from now on it is taken: the watchdog renews it.
        thread::sleep(WATCHDOG * 2);
        assert!(guard.is_held());
    }
}
