//! Every fault of a link, on every command in the life of a lock, with every future of it dropped at every point: what is
//! left afterwards is nothing. The larger matrix, over answers instead of links, is the engine's own.

use std::{
    cell::Cell,
    pin::Pin,
    task::{Context, Poll},
    thread,
    time::Duration,
};

use relatch::{Client, LockGuard, Released, Result};
use tokio::runtime::{Builder, Handle};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        proxy::{
            Action, Proxy, Rule,
            matching::{command, script},
        },
        unique_name,
    },
    kept::{self, channel, kept, poll_once, teach},
    sent::assert_ends_are_final,
};

/// After this a command counts as unanswered, and its link as dead.
const COMMAND: Duration = Duration::from_millis(300);
const LEASE: Duration = Duration::from_secs(30);
/// Whatever is left is gone by then. A third of a lease would be too late to tell: then it is reaped.
const GONE: Duration = Duration::from_secs(9);
/// No future here takes more polls.
const POLLS: usize = 80;
/// A delay that is shorter than a command timeout.
const DELAY: Duration = Duration::from_millis(20);

const FAULTS: [Action; 10] = [
    Action::Pass,
    Action::DelayRequest(DELAY),
    Action::DelayReply(DELAY),
    Action::SwallowRequest,
    Action::SwallowReply,
    Action::CutBefore,
    Action::CutMidRequest,
    Action::CutAfter,
    Action::CutMidReply,
    Action::Silence,
];

/// Which command meets the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Acquire,
    Release,
    HandOver,
    Subscribe,
}

/// Which future is dropped, after how many polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    Lock(usize),
    Unlock(usize),
    /// An unlock, and the same guard is then asked again.
    FirstUnlock(usize),
}

impl Dropped {
    /// How often the lock is polled at most.
    fn lock(self) -> usize {
        if let Self::Lock(polls) = self { polls } else { usize::MAX }
    }

    /// How often the first unlock is polled at most.
    fn unlock(self) -> usize {
        if let Self::Unlock(polls) | Self::FirstUnlock(polls) = self { polls } else { usize::MAX }
    }
}

/// A future that is polled so often and no more; `None` if it did not come to its end.
struct Polls<F> {
    future: Pin<Box<F>>,
    left: usize,
}

impl<F> Polls<F> {
    fn of(future: F, left: usize) -> Self {
        Self { future: Box::pin(future), left }
    }
}

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.left -= 1;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// One row of the matrix: a client behind a proxy on a runtime of its own, and another that is in its way.
struct Row {
    hit: Hit,
    fault: Action,
    server: &'static Server,
    proxy: Proxy,
    client: Client,
    other: Client,
    /// How many tasks there are when nobody does anything.
    idle: usize,
    /// How many lives met the fault.
    hits: Cell<usize>,
}

impl Row {
    async fn new(hit: Hit, fault: Action) -> Self {
        let server = Server::shared();
        teach(server);
        let proxy = Proxy::to(server);
        let client = hasty(&proxy).await;
        let other = kept::client(server.url()).await;
        let mut row = Self { hit, fault, server, proxy, client, other, idle: 0, hits: Cell::new(0) };
        // The subscription link comes with the first waiter, and stays.
        let name = unique_name();
        let guard = row.other.lock(&name).lock().await.expect("it is free");
        let waiter = tokio::spawn(row.client.lock(&name).lock());
        eventually_async(LEASE, async || server.listeners(&channel(&name)) == 1).await;
        guard.unlock().await.expect("it is held");
        waiter.await.expect("no panic").expect("it is free").unlock().await.expect("it is held");
        row.idle = row.settled().await;
        row
    }

    /// How many tasks there are once that changes no more.
    async fn settled(&self) -> usize {
        let (mut seen, mut looks) = (tasks(), 0);
        eventually_async(LEASE, async || {
            looks = if tasks() == seen { looks + 1 } else { 0 };
            seen = tasks();
            looks == 20
        })
        .await;
        seen
    }

    fn fault_on(&self, name: &str) -> Rule {
        let matches = match self.hit {
            Hit::Acquire => script("acquire").mentioning(name),
            Hit::Release => script("release").mentioning(name),
            Hit::HandOver => script("hand_over").mentioning(name),
            Hit::Subscribe => command("SUBSCRIBE").mentioning(&channel(name)),
        };
        self.proxy.rule(matches.first(1), self.fault)
    }

    /// One life with one future of it dropped. Says whether that future came to its end instead.
    async fn live(&self, dropped: Dropped) -> bool {
        let name = unique_name();
        let fault = self.fault_on(&name);
        let ended = match self.hit {
            Hit::Acquire | Hit::Release => self.alone(&name, dropped).await,
            Hit::Subscribe => self.behind_another_client(&name, dropped, &fault).await,
            Hit::HandOver => self.behind_another_task(&name, dropped).await,
        };
        self.is_clean(&name, dropped).await;
        self.hits.set(self.hits.get() + usize::from(fault.seen() > 0));
        fault.remove();
        ended
    }

    async fn alone(&self, name: &str, dropped: Dropped) -> bool {
        let entered = Polls::of(self.client.lock(name).lock().into_future(), dropped.lock()).await;
        self.stay_and_leave(entered, dropped).await
    }

    async fn behind_another_client(&self, name: &str, dropped: Dropped, subscribe: &Rule) -> bool {
        let held = self.other.lock(name).lock().await.expect("it is free");
        let mut waiter = Polls::of(self.client.lock(name).lock().into_future(), dropped.lock());
        let entered = tokio::select! {
            entered = &mut waiter => entered,
            () = subscribe.nth(1) => {
                held.unlock().await.expect("it is held");
                waiter.await
            }
        };
        held.unlock().await.expect("it is held");
        self.stay_and_leave(entered, dropped).await
    }

    async fn behind_another_task(&self, name: &str, dropped: Dropped) -> bool {
        let held = self.client.mutex(name).lock().lease(LEASE).await.expect("it is free");
        let mut waiter = Polls::of(self.client.mutex(name).lock().lease(LEASE).into_future(), dropped.lock());
        if poll_once(&mut waiter).await.is_ready() {
            self.leave(held, dropped).await;
            return false;
        }
        let (left, entered) = tokio::join!(self.leave(held, dropped), waiter);
        match dropped {
            Dropped::Lock(_) => entered.is_some_and(|guard| guard.is_ok()),
            Dropped::Unlock(_) | Dropped::FirstUnlock(_) => left,
        }
    }

    /// What came of a lock is unlocked, if anything did.
    async fn stay_and_leave(&self, entered: Option<Result<LockGuard>>, dropped: Dropped) -> bool {
        let Some(entered) = entered else { return false };
        let left = self.leave(entered.expect("the server answers in the end"), dropped).await;
        left || matches!(dropped, Dropped::Lock(_))
    }

    /// Unlocks; where that comes to an error, asks again. False if the first unlock was dropped.
    async fn leave(&self, guard: LockGuard, dropped: Dropped) -> bool {
        let first = Polls::of(guard.unlock(), dropped.unlock()).await;
        let ended = first.is_some();
        let mut outcome = match first {
            Some(outcome) => outcome,
            None if matches!(dropped, Dropped::FirstUnlock(_)) => guard.unlock().await,
            None => return false,
        };
        while let Err(error) = outcome {
            assert!(error.is_transient(), "{:?} on {:?}, {dropped:?}: {error:?}", self.fault, self.hit);
            outcome = guard.unlock().await;
        }
        assert!(matches!(outcome, Ok(Released::Freed)), "{:?} on {:?}, {dropped:?}: {outcome:?}", self.fault, self.hit);
        ended
    }

    /// Nothing is left of it, and the lock is there for whoever comes next.
    async fn is_clean(&self, name: &str, dropped: Dropped) {
        let what = format!("{:?} on {:?}, {dropped:?}", self.fault, self.hit);
        let gone = async || {
            let listeners = self.server.listeners(&channel(name));
            (kept(self.server, name).is_none(), listeners, tasks() <= self.idle)
        };
        let clean = eventually_async(LEASE, async || gone().await == (true, 0, true));
        if tokio::time::timeout(GONE, clean).await.is_err() {
            panic!("{what}: key gone, listeners, tasks gone: {:?}", gone().await);
        }
        let next = self.client.lock(name).lock().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        next.unlock().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert_ends_are_final(&self.proxy);
        self.proxy.clear_log();
    }
}

/// So short a time is not always enough to connect, where many do at once.
async fn hasty(proxy: &Proxy) -> Client {
    let started = monotonic();
    loop {
        let builder = Client::builder().url(proxy.url()).command_timeout(COMMAND).watchdog_timeout(LEASE);
        match builder.handover_slice(Duration::from_secs(60)).connect().await {
            Ok(client) => return client,
            Err(error) => assert!(error.is_transient() && monotonic() < started + LEASE, "{error:?}"),
        }
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Every fault on this command, each on a thread of its own: most of the time they wait.
fn every_fault_on(hit: Hit) {
    let rows = FAULTS.map(|fault| {
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
            runtime.block_on(async {
                let row = Row::new(hit, fault).await;
                for dropped in [Dropped::Lock as fn(usize) -> Dropped, Dropped::Unlock, Dropped::FirstUnlock] {
                    let mut polls = 1;
                    while !row.live(dropped(polls)).await {
                        polls += 1;
                        assert!(polls < POLLS, "{fault:?} on {hit:?}: {:?} never ends", dropped(polls));
                    }
                    assert!(polls > 1, "it waits for the server at least");
                }
                assert!(row.hits.get() > 1, "{fault:?} on {hit:?} was met {} times", row.hits.get());
            });
        })
    });
    for row in rows {
        if let Err(panic) = row.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn nothing_is_left_whatever_happens_to_an_acquire_and_whatever_is_dropped() {
    every_fault_on(Hit::Acquire);
}

#[test]
fn nothing_is_left_whatever_happens_to_a_release_and_whatever_is_dropped() {
    every_fault_on(Hit::Release);
}

#[test]
fn nothing_is_left_whatever_happens_to_a_hand_over_and_whatever_is_dropped() {
    every_fault_on(Hit::HandOver);
}

#[test]
fn nothing_is_left_whatever_happens_to_a_subscription_and_whatever_is_dropped() {
    every_fault_on(Hit::Subscribe);
}
