//! Code of the user that the library calls, or that moves a future while it runs: a subscriber of its events, a waker,
//! another thread. It may ask the library whatever it likes.

use std::{
    future::poll_fn,
    hint,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use relatch::{Client, Error, LockGuard, Owner, ReentrantLock, Released, Result, TryAcquire};
use tokio::{
    runtime::{Builder, Runtime},
    time::sleep,
};

use crate::{
    harness::{Server, eventually_async, traces::Traces, unique_name},
    kept::{client, connected},
    runtimes::{elsewhere, without_a_runtime},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(5);
/// A lease that a test waits out.
const SHORT: Duration = Duration::from_millis(300);
/// A wait that is over soon.
const WAIT: Duration = Duration::from_millis(5);
const ROUNDS: usize = 2_000;

fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

/// Runs a part with a lock, on a thread where everything that the library says, and every question whether somebody hears it,
/// makes a subscriber ask the lock, and the guard if there is one in the cell, whether they hold.
fn asked_at_every_event(
    part: impl AsyncFnOnce(&ReentrantLock, &Mutex<Option<Arc<LockGuard>>>, &Traces) + Send + 'static,
) {
    elsewhere(move || {
        alone().block_on(async {
            let options = Client::builder().url(Server::shared().url()).watchdog_timeout(SHORT);
            let lock = connected(options).await.lock(unique_name());
            let cell = Arc::new(Mutex::new(None::<Arc<LockGuard>>));
            let (asked, held) = (lock.clone(), Arc::clone(&cell));
            let asks = Arc::new(move || {
                let _ = asked.is_held();
                let guard = held.lock().expect("no panic").clone();
                let _ = guard.is_some_and(|guard| guard.is_held());
            });
            let at_question = Arc::clone(&asks);
            let traces = Traces::asking(
                move |metadata| {
                    if metadata.target().starts_with("relatch") {
                        at_question();
                    }
                },
                move |said| {
                    if said.is_ours() {
                        asks();
                    }
                },
            );
            part(&lock, &cell, &traces).await;
            cell.lock().expect("no panic").take();
        });
    });
}

#[test]
fn a_subscriber_may_ask_whether_it_holds_while_a_hold_is_taken_nested_renewed_and_released() {
    asked_at_every_event(async |lock, cell, traces| {
        let guard = Arc::new(lock.lock().await.expect("it is free"));
        *cell.lock().expect("no panic") = Some(Arc::clone(&guard));
        let inner = lock.lock().await.expect("it nests");
        eventually_async(SOON, async || !traces.events("renewed").is_empty()).await;
        // The outer one first, which is told as well.
        guard.unlock().await.expect("it is held");
        drop(inner);
        eventually_async(SOON, async || !traces.events("released").is_empty()).await;
        for what in ["acquired", "nested"] {
            assert!(!traces.events(what).is_empty(), "{what}");
        }
    });
}

#[test]
fn a_subscriber_may_ask_whether_it_holds_while_the_holder_finds_its_hold_expired() {
    asked_at_every_event(async |lock, cell, traces| {
        let guard = Arc::new(lock.lock().lease(SHORT).await.expect("it is free"));
        *cell.lock().expect("no panic") = Some(Arc::clone(&guard));
        // The only thread of the runtime is taken away: nobody else can find it first.
        thread::sleep(SHORT);
        assert!(!guard.is_held() && !lock.is_held());
        assert_eq!(traces.events("lost").len(), 1);
    });
}

#[test]
fn a_subscriber_may_ask_whether_it_holds_while_the_holder_is_told_of_an_expiry() {
    asked_at_every_event(async |lock, cell, traces| {
        let guard = Arc::new(lock.lock().lease(SHORT).await.expect("it is free"));
        *cell.lock().expect("no panic") = Some(Arc::clone(&guard));
        assert!(guard.lost().await.is_lost());
        assert_eq!(traces.events("lost").len(), 1);
    });
}

#[test]
fn a_detached_hold_that_a_subscriber_unlocks_again_while_it_is_let_go_of_says_how_that_goes() {
    elsewhere(|| {
        alone().block_on(async {
            let lock = connected(Client::builder().url(Server::shared().url())).await.lock(unique_name());
            let owner = lock.lock().owner(&Owner::new()).await.expect("it is free").detach();
            let (again, asked) = mpsc::channel();
            let (second, of) = (lock.clone(), owner.clone());
            let _traces = Traces::heard_by(move |said| {
                if said.is_ours() && said.what == "released" {
                    let mut unlock = second.unlock().owner(&of);
                    let answer = Pin::new(&mut unlock).poll(&mut Context::from_waker(Waker::noop()));
                    drop(again.send((unlock, answer)));
                }
            });
            assert_eq!(lock.unlock().owner(&owner).await.expect("it is held"), Released::Freed);
            let (unlock, answer) = asked.try_recv().expect("it was said");
            assert!(answer.is_pending(), "{answer:?}");
            assert_eq!(unlock.await.expect("the first one's answer"), Released::Freed);
        });
    });
}

/// Its wait is over, and nobody has looked. What it is passed is its own by then, and it is about to be told so.
#[test]
fn whoever_has_the_lock_is_told_so_though_its_wait_is_over_in_that_moment() {
    elsewhere(|| {
        alone().block_on(async {
            let options = Client::builder().url(Server::shared().url()).handover_slice(Duration::from_secs(1));
            let lock = connected(options).await.lock(unique_name());
            let guard = lock.lock().owner(&Owner::new()).await.expect("it is free");
            let owner = Owner::new();
            let waiter = Arc::new(Mutex::new(lock.try_lock().owner(&owner).wait(WAIT)));
            let poll = |waiter: &Mutex<TryAcquire>| {
                let mut waiter = waiter.lock().expect("no panic");
                Pin::new(&mut *waiter).poll(&mut Context::from_waker(Waker::noop()))
            };
            assert!(poll(&waiter).is_pending());
            sleep(WAIT * 4).await;
            let (told, asked) = mpsc::channel();
            let (passed, of, waits) = (lock.clone(), owner.clone(), Arc::clone(&waiter));
            let traces = Traces::heard_by(move |said| {
                if said.is_ours() && said.what == "released" {
                    drop(told.send((passed.is_held_by(&of), poll(&waits))));
                }
            });
            drop(guard);
            drop(traces);
            let (is_held, answer) = asked.try_recv().expect("it was said");
            assert!(is_held, "it was passed on");
            // Whoever hears "none" here has the lock all the same.
            let guard = match answer {
                Poll::Pending => poll_fn(|cx| Pin::new(&mut *waiter.lock().expect("no panic")).poll(cx)).await,
                Poll::Ready(answer) => answer,
            };
            guard.expect("the server answers").expect("it has the lock").unlock().await.expect("it is held");
        });
    });
}

/// Begins to unlock when it is woken.
#[derive(Default)]
struct Unlocks {
    guard: OnceLock<Arc<LockGuard>>,
    woken: AtomicUsize,
}

impl Wake for Unlocks {
    fn wake(self: Arc<Self>) {
        if let Some(guard) = self.guard.get() {
            let _ = pin!(guard.unlock()).poll(&mut Context::from_waker(Waker::noop()));
        }
        self.woken.fetch_add(1, Ordering::Release);
    }
}

/// Takes a lock, ends the hold in this way, and begins to unlock it in the waker of whoever waits for that end.
fn unlocked_by_a_waker(end: impl AsyncFnOnce(&LockGuard) + Send + 'static) {
    elsewhere(move || {
        alone().block_on(async {
            let lock = client(Server::shared().url()).await.lock(unique_name());
            let guard = Arc::new(lock.lock().lease(SHORT).await.expect("it is free"));
            let unlocks = Arc::new(Unlocks { guard: OnceLock::from(Arc::clone(&guard)), ..Unlocks::default() });
            let token = guard.cancellation();
            let mut cancelled = pin!(token.cancelled());
            let waker = Waker::from(Arc::clone(&unlocks));
            assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            end(&guard).await;
            eventually_async(SOON, async || unlocks.woken.load(Ordering::Acquire) == 1).await;
            assert!(!guard.is_held());
            eventually_async(SOON, async || Server::shared().hash(lock.name()).is_empty()).await;
        });
    });
}

#[test]
fn the_waker_of_a_cancellation_may_unlock_while_the_guard_is_unlocked() {
    unlocked_by_a_waker(async |guard| {
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    });
}

#[test]
fn the_waker_of_a_cancellation_may_unlock_while_the_hold_is_lost() {
    unlocked_by_a_waker(async |guard| assert!(guard.lost().await.is_lost()));
}

/// Begins an acquisition of a held lock at home, and goes on with it where no runtime is until it has the lock.
fn goes_on_on_a_bare_thread<F, T>(begin: impl FnOnce(&ReentrantLock) -> F)
where
    F: Future<Output = Result<T>> + Send + Unpin + 'static,
    T: Send + 'static,
{
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    let name = unique_name();
    let (guard, lock) = home.block_on(async {
        let [holder, waiter] = [client(Server::shared().url()).await, client(Server::shared().url()).await];
        (holder.lock(&name).lock().await.expect("it is free"), waiter.lock(&name))
    });
    let mut waiting = begin(&lock);
    home.block_on(async {
        assert!(pin!(&mut waiting).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    let answer = elsewhere(move || {
        without_a_runtime(async {
            assert!(pin!(&mut waiting).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            guard.unlock().await.expect("it is held");
            waiting.await.map(drop)
        })
    });
    answer.expect("its turn comes");
    // It is out of the queue, and nothing of it is at the server.
    home.block_on(async {
        eventually_async(SOON, async || Server::shared().hash(&name).is_empty()).await;
        lock.lock().await.expect("it is free").unlock().await.expect("it is held");
    });
}

#[test]
fn a_lock_that_was_begun_at_home_goes_on_on_a_thread_without_a_runtime() {
    goes_on_on_a_bare_thread(|lock| lock.lock().owner(&Owner::new()));
}

#[test]
fn a_try_with_a_wait_that_was_begun_at_home_goes_on_on_a_thread_without_a_runtime() {
    goes_on_on_a_bare_thread(|lock| lock.try_lock().wait(SOON).owner(&Owner::new()));
}

/// A meeting of two threads, as exact as can be: whoever is first does not sleep.
fn meet(arrivals: &AtomicUsize, round: usize) {
    arrivals.fetch_add(1, Ordering::AcqRel);
    while arrivals.load(Ordering::Acquire) < 2 * (round + 1) {
        thread::yield_now();
    }
}

#[test]
fn a_detached_hold_that_one_thread_unlocks_and_another_attaches_goes_to_one_of_them() {
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    let lock = home.block_on(client(Server::shared().url())).lock(unique_name());
    let arrivals = Arc::new(AtomicUsize::new(0));
    let (to_attach, owners) = mpsc::channel::<Owner>();
    let (to_test, attached) = mpsc::channel();
    let attaching = thread::spawn({
        let (lock, arrivals) = (lock.clone(), Arc::clone(&arrivals));
        move || {
            for (round, owner) in owners.iter().enumerate() {
                meet(&arrivals, round);
                // A little later every time, over all that the other thread does.
                (0..round % 64 * 16).for_each(|_| hint::spin_loop());
                to_test.send(lock.attach(&owner)).expect("the test listens");
            }
        }
    });
    for round in 0..ROUNDS {
        let owner = home.block_on(lock.lock().owner(&Owner::new())).expect("it is free").detach();
        to_attach.send(owner.clone()).expect("the other thread listens");
        let mut unlock = lock.unlock().owner(&owner);
        let begun = home.block_on(async {
            meet(&arrivals, round);
            pin!(&mut unlock).poll(&mut Context::from_waker(Waker::noop()))
        });
        let guard = attached.recv().expect("the other thread answers");
        let unlocked = match begun {
            Poll::Ready(answer) => answer,
            Poll::Pending => home.block_on(unlock),
        };
        match (guard, unlocked) {
            (Some(guard), Err(Error::NotHeld { .. })) => {
                assert!(guard.is_held());
                home.block_on(async { guard.unlock().await }).expect("it is held");
            }
            (None, Ok(Released::Freed)) => {}
            (guard, unlocked) => panic!("round {round}: attach gave {guard:?}, unlock {unlocked:?}"),
        }
    }
    drop(to_attach);
    attaching.join().expect("no panic");
}
