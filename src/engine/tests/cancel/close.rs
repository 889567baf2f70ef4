//! `close`, in the middle of everything.

use super::*;

/// What is under way at that moment.
#[derive(Clone, Copy, Debug)]
enum Busy {
    Trying,
    /// Another process holds, and somebody here waits for it.
    Waiting,
    Nesting,
    Releasing,
    HandingOver,
    Renewing,
    Extending,
    Forcing,
}

const BUSY: [Busy; 8] = [
    Busy::Trying,
    Busy::Waiting,
    Busy::Nesting,
    Busy::Releasing,
    Busy::HandingOver,
    Busy::Renewing,
    Busy::Extending,
    Busy::Forcing,
];

#[derive(Clone, Debug)]
struct Case {
    busy: Busy,
    fate: Fate,
    release: Fate,
    behind: usize,
}

impl Case {
    /// Somebody is busy with the lock; what is held, if anything.
    async fn begin(&self, bench: &Bench, lock: &Lock) -> (Option<LockGuard>, Vec<JoinHandle<()>>) {
        let (world, owner, lock) = (&bench.world, Owner::new(), lock.clone());
        let fate = [self.fate.clone()];
        if let Busy::Trying | Busy::Waiting = self.busy {
            if let Busy::Waiting = self.busy {
                world.other_takes("a", SECOND);
                world.next(Verb::Acquire, [Fate::Prompt]);
            }
            world.next(Verb::Acquire, fate);
            let engine = Arc::clone(&bench.engine);
            let trying = async move {
                let answer = lock.lock().await;
                assert!(answer.is_err() || !engine.is_closed(), "given after the end");
            };
            return (None, vec![start(trying).await]);
        }
        let guard = lock.lock_as(&owner).await.unwrap();
        let work = match self.busy {
            Busy::Trying | Busy::Waiting => unreachable!("returned before"),
            Busy::Nesting => {
                world.next(Verb::Acquire, fate);
                start(async move { drop(lock.lock_as(&owner).await) }).await
            }
            Busy::Releasing => {
                drop(guard);
                return (None, Vec::new());
            }
            Busy::HandingOver => {
                world.next(Verb::HandOver, fate);
                let waiter = start(async move { drop(lock.lock().await) }).await;
                drop(guard);
                return (None, vec![waiter]);
            }
            Busy::Renewing => {
                world.next(Verb::Renew, fate);
                sleep(WATCHDOG / 3 + MS).await;
                start(async {}).await
            }
            Busy::Extending => {
                world.next(Verb::Renew, fate);
                let guard = Arc::new(guard);
                let extending = Arc::clone(&guard);
                let work = start(async move { drop(extending.extend(FIXED).await) }).await;
                let work = start(async move {
                    work.await.unwrap();
                    drop(guard);
                });
                return (None, vec![work.await]);
            }
            Busy::Forcing => {
                world.next(Verb::ForceRelease, fate);
                start(async move { drop(lock.0.force_unlock().await) }).await
            }
        };
        (Some(guard), vec![work])
    }

    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let world = &bench.world;
        let lock = if let Busy::HandingOver = self.busy { bench.unpassable("a") } else { bench.lock("a") };
        world.next(Verb::Release, [self.release.clone()]);
        let (guard, work) = self.begin(&bench, &lock).await;
        let mut waiters = waiters(&lock, self.behind).await;
        if self.behind > 0 {
            let waiting = lock.try_lock().wait(FIXED);
            waiters.push(start(async { waiting.await.map(drop) }).await);
        }
        turn().await;
        let closing = Instant::now();
        let over = at.before(Box::pin(bench.engine.close())).await.is_some();
        // It goes on without whoever asked for it.
        while !world.is_closed() {
            assert!(closing.elapsed() <= 300 * MS + at.idle, "it takes longer than a command may");
            sleep(10 * MS).await;
        }
        for waiter in waiters {
            let answer = timeout(MS, waiter).await.expect("a waiter hangs").unwrap();
            // Or it had its turn, or an answer of its own, before.
            assert!(matches!(answer, Ok(()) | Err(Error::Closed | Error::Refused { .. })), "{answer:?}");
        }
        for work in work {
            timeout(SOON, work).await.expect("somebody hangs").unwrap();
        }
        if let Some(guard) = guard {
            assert!(!guard.is_held(), "claimed after the end");
        }
        let sent = world.record().len();
        // What nobody let go of before ends with its lease.
        sleep(FIXED + SECOND).await;
        assert_eq!(world.record().len(), sent, "sent after the end");
        assert_eq!(bench.left("a"), [""; 0]);
        over
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_at_any_await_closes_and_leaves_nothing() {
    for busy in BUSY {
        for fate in fates() {
            for release in few_fates() {
                for behind in [0, 2] {
                    let case = Case { busy, fate: fate.clone(), release: release.clone(), behind };
                    at_every_await(&case, async |at| case.run(at).await).await;
                }
            }
        }
    }
}
