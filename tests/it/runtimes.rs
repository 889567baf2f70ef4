//! A client away from the runtime that connected it: on another one, on none, and after its own has ended. Every call
//! answers there, none hangs, none panics, and guards can be dropped.

use std::{
    future::{Future, IntoFuture, pending},
    pin::pin,
    sync::mpsc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use relatch::{Client, Error, LockGuard, Owner, ReentrantLock, Result};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::harness::{Server, eventually, unique_name};

/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts")
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
        home.block_on(async {
            let url = Server::shared().url();
            let client = Client::builder().url(url).watchdog_timeout(watchdog).connect().await.expect("connects");
            let [held, detached] = [client.lock(unique_name()), client.lock(unique_name())];
            let guard = held.lock().await.expect("acquires");
            let owner = detached.lock().owner(&Owner::new()).await.expect("acquires").detach();
            Self { client, held, guard, detached, owner }
        })
    }

    fn names(&self) -> [String; 2] {
        [&self.held, &self.detached].map(|lock| lock.name().to_owned())
    }

    /// Calls everything that is async and can fail, and wants a refusal each time.
    async fn is_refused(&self) {
        let free = self.client.lock(unique_name());
        let (mutex, guard) = (self.client.mutex(unique_name()), &self.guard);
        refused("lock", free.lock()).await;
        refused("lock with a lease", free.lock().lease(HANGS)).await;
        refused("nested lock", self.held.lock().owner(guard.owner())).await;
        refused("try_lock", free.try_lock()).await;
        refused("try_lock with a wait", free.try_lock().wait(HANGS)).await;
        refused("try_lock of a held one", self.held.try_lock()).await;
        refused("mutex.lock", mutex.lock()).await;
        refused("mutex.try_lock", mutex.try_lock()).await;
        refused("mutex.inspect", mutex.inspect()).await;
        refused("mutex.is_locked", mutex.is_locked()).await;
        refused("mutex.remaining_lease", mutex.remaining_lease()).await;
        refused("unlock", self.detached.unlock().owner(&self.owner)).await;
        refused("unlock of nothing", free.unlock()).await;
        refused("force_unlock", self.held.force_unlock()).await;
        refused("inspect", self.held.inspect()).await;
        refused("is_locked", self.held.is_locked()).await;
        refused("remaining_lease", self.held.remaining_lease()).await;
        refused("guard.unlock", guard.unlock()).await;
        refused("guard.extend", guard.extend(HANGS)).await;
        refused("guard.protect", guard.protect(pending::<()>())).await;
        refused("guard.lost", async { Err::<(), _>(guard.lost().await) }).await;
        // Where there is no runtime at all, nothing can connect.
        if Handle::try_current().is_err() {
            refused("connect", Client::connect(Server::shared().url())).await;
        }
    }
}

async fn refused<T>(what: &str, call: impl IntoFuture<Output = Result<T>>) {
    match call.await {
        Err(Error::Invalid { what: "runtime", .. }) => {}
        Err(other) => panic!("{what} answers with another error: {other:?}"),
        Ok(_) => panic!("{what} did something"),
    }
}

/// Runs a future on a thread without a runtime.
pub(crate) fn without_a_runtime<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
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
    |job| Builder::new_current_thread().enable_all().build().expect("starts").block_on(job()),
    |job| Builder::new_current_thread().build().expect("starts").block_on(job()),
    |job| without_a_runtime(job()),
];

type Job = Box<dyn FnOnce() -> std::pin::Pin<Box<dyn Future<Output = ()>>> + Send>;

#[test]
fn every_call_away_from_home_is_refused_and_changes_nothing() {
    let home = runtime();
    for place in PLACES {
        let resident = Resident::of(&home, HANGS * 3);
        let names = resident.names();
        let before = names.each_ref().map(|name| Server::shared().hash(name));
        let resident = elsewhere(move || {
            let (back, resident_back) = mpsc::channel();
            place(Box::new(move || {
                Box::pin(async move {
                    resident.is_refused().await;
                    back.send(resident).expect("the test waits");
                })
            }));
            resident_back.recv().expect("it comes back")
        });
        assert_eq!(names.each_ref().map(|name| Server::shared().hash(name)), before);
        assert!(resident.guard.is_held());
        // At home everything is as it was.
        home.block_on(async {
            resident.guard.unlock().await.expect("releases");
            resident.detached.unlock().owner(&resident.owner).await.expect("releases");
        });
        assert!(names.iter().all(|name| Server::shared().hash(name).is_empty()));
    }
}

#[test]
fn a_guard_that_is_dropped_away_from_home_is_released_at_home() {
    let home = runtime();
    for place in PLACES {
        let Resident { client, held, guard, detached, owner } = Resident::of(&home, HANGS * 3);
        let attached = detached.attach(&owner).expect("no runtime is needed to take it back");
        let started = Instant::now();
        elsewhere(move || place(Box::new(move || Box::pin(async move { drop((guard, attached)) }))));
        assert!(started.elapsed() < HANGS / 2, "dropping does not block");
        eventually(HANGS, || [&held, &detached].iter().all(|lock| Server::shared().hash(lock.name()).is_empty()));
        drop(client);
    }
}

#[test]
fn a_waiting_future_that_is_moved_or_dropped_away_from_home_leaves_nothing() {
    let home = runtime();
    for place in PLACES {
        let resident = Resident::of(&home, HANGS * 3);
        let mut waiting = resident.held.lock().owner(&Owner::new());
        let begun = home.block_on(async { pin!(&mut waiting).poll(&mut Context::from_waker(Waker::noop())) });
        assert!(begun.is_pending());
        elsewhere(move || place(Box::new(move || Box::pin(async move { drop(waiting) }))));
        home.block_on(async {
            resident.guard.unlock().await.expect("releases");
            resident.held.try_lock().await.expect("answers").expect("nobody waits").unlock().await.expect("releases");
        });
    }
}

/// Fault C56.
#[test]
fn every_call_after_the_end_of_its_runtime_is_refused_and_guards_can_be_dropped() {
    for place in PLACES {
        let home = runtime();
        let resident = Resident::of(&home, Duration::from_millis(300));
        let names = resident.names();
        drop(home);
        let ends = names.each_ref().map(|name| Server::shared().ends_at(name));
        elsewhere(move || {
            place(Box::new(move || {
                Box::pin(async move {
                    resident.is_refused().await;
                    let Resident { client, guard, detached, owner, .. } = resident;
                    drop((guard, detached.attach(&owner)));
                    client.close().await;
                    assert!(client.is_closed());
                })
            }));
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
        let client = resident.client.clone();
        elsewhere(move || place(Box::new(move || Box::pin(async move { client.close().await }))));
        assert!(resident.client.is_closed());
        let answer = home.block_on(async { resident.held.lock().await.map(drop) });
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
        assert!(!resident.guard.is_held());
    }
}
