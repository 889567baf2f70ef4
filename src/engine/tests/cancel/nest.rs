//! `lock` and `try_lock` by an owner that holds already, and the end of its hold around them.

use super::*;

/// What becomes of the guard outside while the nested acquisition is under way.
#[derive(Clone, Copy, Debug)]
enum Outer {
    /// It is released after the inner one was dropped.
    Stays,
    /// It is dropped after the first poll: only the nested acquisition keeps the hold.
    Goes,
}

#[derive(Clone, Debug)]
struct Case {
    waits: bool,
    lease: Lease,
    acquire: Fate,
    release: Fate,
    outer: Outer,
    behind: usize,
}

impl Case {
    fn asked(&self, lock: &Lock, owner: &Owner) -> Pin<Box<dyn Future<Output = Result<Option<LockGuard>>>>> {
        let lease = self.lease;
        if self.waits {
            let lock = lock.lock_as(owner).lease(lease);
            Box::pin(async { lock.await.map(Some) })
        } else {
            Box::pin(lock.try_lock_as(owner).lease(lease))
        }
    }

    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let outer = lock.lock_as(&owner).await.unwrap();
        let waiters = waiters(&lock, self.behind).await;
        world.next(Verb::Acquire, [self.acquire.clone()]);
        world.next(Verb::Release, [self.release.clone()]);
        let mut asked = self.asked(&lock, &owner);
        let mut outer = Some(outer);
        let first = polled(&mut asked, 1).await;
        assert!(first.is_none(), "an answer of the server takes a poll");
        if let Outer::Goes = self.outer {
            outer = None;
        }
        let answer = match at.polls {
            1 => {
                sleep(at.idle).await;
                None
            }
            polls => Drop { polls: polls - 1, ..at }.before(&mut asked).await,
        };
        drop(asked);
        let over = match &answer {
            None => false,
            Some(Ok(Some(guard))) => {
                assert!(guard.is_held(), "what is given is held");
                true
            }
            // The hold was gone, and others were there first.
            Some(Ok(None)) => !self.waits,
            Some(Err(Error::Refused { .. } | Error::Unreachable { .. })) => true,
            Some(Err(error)) => panic!("{error}"),
        };
        assert_eq!(over, answer.is_some(), "{answer:?}");
        drop(answer);
        if let Some(outer) = outer {
            match outer.unlock().await {
                Ok(Released::Freed) | Err(Error::Lost { .. } | Error::Unreachable { .. } | Error::Refused { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        everybody_gets_in(&bench, &lock, waiters, soon(&self.release)).await;
        over
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_that_is_dropped_at_any_await_leaves_nothing() {
    for acquire in fates() {
        // What is still told of the count, or lets go of the hold.
        for release in fates() {
            let few = few_fates().iter().any(|few| format!("{few:?}") == format!("{release:?}"));
            for outer in [Outer::Stays, Outer::Goes] {
                for (waits, behind) in [(true, 0), (true, 2), (false, 0)] {
                    if behind + usize::from(!waits) > 0 && !few {
                        continue;
                    }
                    let (lease, acquire, release) = (Lease::Watchdog, acquire.clone(), release.clone());
                    let case = Case { waits, lease, acquire, release, outer, behind };
                    at_every_await(&case, async |at| case.run(at).await).await;
                }
            }
        }
    }
}
