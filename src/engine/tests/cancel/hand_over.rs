//! A turn in the local queue: the hold is passed or handed over, and its next owner takes it, or is dropped at any moment
//! before it could.

use super::*;

#[derive(Clone, Debug)]
struct Case {
    passes: bool,
    hand_over: Fate,
    release: Fate,
    /// How long the one whose turn it is does not look.
    looks_after: Duration,
    /// How long it waits at all.
    wait: Option<Duration>,
    behind: usize,
}

impl Case {
    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let lock = if self.passes { bench.lock("a") } else { bench.unpassable("a") };
        let guard = lock.lock().await.unwrap();
        let mut waiter: Pin<Box<dyn Future<Output = Result<Option<LockGuard>>>>> = match self.wait {
            None => {
                let lock = lock.lock();
                Box::pin(async { lock.await.map(Some) })
            }
            Some(wait) => Box::pin(lock.try_lock().wait(wait)),
        };
        assert!(polled(&mut waiter, 1).await.is_none());
        let behind = waiters(&lock, self.behind).await;
        bench.world.next(Verb::HandOver, [self.hand_over.clone()]);
        bench.world.next(Verb::Release, [self.release.clone()]);
        drop(guard);
        turn().await;
        sleep(self.looks_after).await;
        // The first of the drops comes before any look.
        let answer = Drop { polls: at.polls - 1, ..at }.before(&mut waiter).await;
        drop(waiter);
        let over = match &answer {
            None => false,
            Some(Ok(Some(guard))) => {
                assert!(guard.is_held(), "what is given is held");
                true
            }
            Some(Ok(None) | Err(Error::Unreachable { .. })) => self.wait.is_some(),
            Some(Err(error)) => panic!("{error}"),
        };
        assert_eq!(over, answer.is_some(), "{answer:?}");
        drop(answer);
        everybody_gets_in(&bench, &lock, behind, soon(&self.release)).await;
        over
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_taken_or_goes_on_wherever_its_waiter_is_dropped() {
    for release in fates() {
        for wait in [None, Some(100 * MS)] {
            for behind in [0, 2] {
                for looks_after in [Duration::ZERO, 20 * MS, 200 * MS] {
                    let (release, hand_over) = (release.clone(), Fate::Prompt);
                    let case = Case { passes: true, hand_over, release, looks_after, wait, behind };
                    at_every_await(&case, async |at| case.run(at).await).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_is_taken_or_goes_on_wherever_its_waiter_is_dropped() {
    for hand_over in fates() {
        for release in few_fates() {
            for (wait, behind) in [(None, 0), (None, 2), (Some(100 * MS), 0)] {
                for looks_after in [Duration::ZERO, 20 * MS, 200 * MS] {
                    let (release, hand_over) = (release.clone(), hand_over.clone());
                    let case = Case { passes: false, hand_over, release, looks_after, wait, behind };
                    at_every_await(&case, async |at| case.run(at).await).await;
                }
            }
        }
    }
}
