//! `lock`, `try_lock` and `.wait` of a name that nobody of this process holds.

use super::*;

#[derive(Clone, Copy, Debug)]
enum Call {
    Lock,
    TryLock,
    /// Over before a command times out, and after the subscription's news.
    Wait(Duration),
}

/// How the server is found.
#[derive(Clone, Copy, Debug)]
enum Found {
    Free,
    /// Another process's, for a while.
    Busy(Subscribing),
    /// Free, while others of this client try for other names; `in_line` until some of them are answered.
    Crowded {
        in_line: bool,
    },
}

#[derive(Clone, Debug)]
struct Case {
    call: Call,
    lease: Lease,
    found: Found,
    /// Of the try that may be granted.
    acquire: Fate,
    release: Fate,
    /// How many wait behind it.
    behind: usize,
}

impl Case {
    fn asked(&self, lock: &Lock) -> Pin<Box<dyn Future<Output = Result<Option<LockGuard>>>>> {
        match self.call {
            Call::Lock => {
                let lock = lock.lock().lease(self.lease);
                Box::pin(async { lock.await.map(Some) })
            }
            Call::TryLock => Box::pin(lock.try_lock().lease(self.lease)),
            Call::Wait(wait) => Box::pin(lock.try_lock().lease(self.lease).wait(wait)),
        }
    }

    /// Takes the places of those who try, and gives them back after a while.
    fn crowd(&self, bench: &Bench) -> impl Future<Output = ()> + Send + use<> {
        let (at_hand, in_line) = match self.found {
            Found::Crowded { in_line } => (TRIES, if in_line { TRIES } else { 0 }),
            Found::Free | Found::Busy(_) => (0, 0),
        };
        bench.engine.tries.at(0).free()[0].forget_permits(at_hand);
        bench.engine.tries.at(0).free()[1].forget_permits(in_line);
        let engine = Arc::clone(&bench.engine);
        async move {
            sleep(A_WHILE).await;
            engine.tries.at(0).free()[0].add_permits(at_hand);
            engine.tries.at(0).free()[1].add_permits(in_line);
        }
    }

    /// Whether it was over before it was to be dropped.
    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let crowd = self.crowd(&bench);
        match self.found {
            Found::Free | Found::Crowded { .. } => world.next(Verb::Acquire, [self.acquire.clone()]),
            Found::Busy(subscribing) => {
                subscribing.begin(world);
                world.other_takes("a", A_WHILE);
                world.next(Verb::Acquire, [Fate::Prompt, self.acquire.clone()]);
            }
        }
        world.next(Verb::Release, [self.release.clone()]);
        let mut asked = self.asked(&lock);
        bench.world.server(|server| server.by_itself(crowd));
        let first = polled(&mut asked, 1).await;
        let waiters = waiters(&lock, self.behind).await;
        let answer = match first {
            None if at.polls > 1 => Drop { polls: at.polls - 1, ..at }.before(&mut asked).await,
            None => {
                sleep(at.idle).await;
                None
            }
            first => first,
        };
        drop(asked);
        let over = match &answer {
            None => false,
            Some(Ok(Some(guard))) => {
                assert!(guard.is_held(), "what is given is held");
                true
            }
            Some(Ok(None)) => !matches!(self.call, Call::Lock),
            Some(Err(Error::Refused { .. })) => true,
            Some(Err(Error::Unreachable { .. })) => !matches!(self.call, Call::Lock),
            Some(Err(error)) => panic!("{error}"),
        };
        assert_eq!(over, answer.is_some(), "{answer:?}");
        drop(answer);
        everybody_gets_in(&bench, &lock, waiters, soon(&self.release)).await;
        over
    }
}

/// A watchdog's lease, and for an answer that is long under way one that it outlives.
fn leases(acquire: &Fate) -> &'static [Lease] {
    match acquire {
        Fate::Slow(under_way) if *under_way < 300 * MS => &[Lease::Watchdog, Lease::Fixed(BRIEF)],
        _ => &[Lease::Watchdog],
    }
}

/// All fates of the try, with every subscription.
async fn every_try(call: Call) {
    let busy = SUBSCRIBING.map(Found::Busy);
    for found in [Found::Free].into_iter().chain(busy) {
        for acquire in fates() {
            for lease in leases(&acquire).iter().copied() {
                for (behind, release) in [(0, Fate::Prompt), (0, Fate::Lost), (2, Fate::Prompt)] {
                    let case = Case { call, lease, found, acquire: acquire.clone(), release, behind };
                    at_every_await(&case, async |at| case.run(at).await).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_dropped_at_any_await_leaves_nothing() {
    every_try(Call::Lock).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_dropped_at_any_await_leaves_nothing() {
    every_try(Call::TryLock).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_with_a_wait_that_is_dropped_at_any_await_leaves_nothing() {
    every_try(Call::Wait(200 * MS)).await;
}

/// One that comes when as many as may be are trying stands in line with its try, which runs in the background.
#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_dropped_at_any_await_in_a_crowd_leaves_nothing() {
    for acquire in fates() {
        for in_line in [false, true] {
            for behind in [0, 2] {
                let (call, lease, release) = (Call::Lock, Lease::Watchdog, Fate::Prompt);
                let case =
                    Case { call, lease, found: Found::Crowded { in_line }, acquire: acquire.clone(), release, behind };
                at_every_await(&case, async |at| case.run(at).await).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_the_release_of_a_dropped_acquisition_nothing_is_left() {
    for acquire in [Fate::Prompt, Fate::Slow(150 * MS), Fate::Lost, Fate::Never, Fate::Broken] {
        for release in fates() {
            for lease in leases(&acquire).iter().copied() {
                for behind in [0, 2] {
                    let (call, found, acquire) = (Call::Lock, Found::Free, acquire.clone());
                    let case = Case { call, lease, found, acquire, release: release.clone(), behind };
                    at_every_await(&case, async |at| case.run(at).await).await;
                }
            }
        }
    }
}
