//! `extend`, alone and while the watchdog renews.

use super::*;

#[derive(Clone, Debug)]
struct Case {
    lease: Lease,
    /// Of the extension, and of the next renewal whosever it is.
    renew: [Fate; 2],
    release: Fate,
    /// How long it is held before.
    held: Duration,
}

impl Case {
    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let guard = lock.lock().lease(self.lease).await.unwrap();
        world.next(Verb::Renew, self.renew.clone());
        world.next(Verb::Release, [self.release.clone()]);
        sleep(self.held).await;
        let extended = Instant::now() + FIXED - FIXED / 256 - MS;
        let answer = at.before(Box::pin(guard.extend(FIXED))).await;
        let left = guard.expires_in();
        match &answer {
            Some(Ok(())) => assert!(Instant::now() + left.unwrap() >= extended),
            None | Some(Err(Error::Lost { .. } | Error::Unreachable { .. } | Error::Refused { .. })) => {}
            Some(Err(error)) => panic!("{error}"),
        }
        if let (true, Some((holder, _))) = (guard.is_held(), world.holder("a")) {
            assert!(holder.is_none() || left.unwrap() <= world.ttl("a"), "a promise that the server does not know");
        }
        match guard.unlock().await {
            Ok(Released::Freed) | Err(Error::Lost { .. } | Error::Unreachable { .. } | Error::Refused { .. }) => {}
            other => panic!("{other:?}"),
        }
        drop(guard);
        everybody_gets_in(&bench, &lock, Vec::new(), soon(&self.release)).await;
        answer.is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_dropped_at_any_await_leaves_a_hold_that_can_be_released() {
    for renew in fates() {
        for then in few_fates() {
            for release in few_fates() {
                // Long before the next renewal, and right before it.
                for held in [Duration::ZERO, WATCHDOG / 3 - 10 * MS] {
                    for lease in [Lease::Watchdog, Lease::Fixed(FIXED)] {
                        let renew = [renew.clone(), then.clone()];
                        let case = Case { lease, renew, release: release.clone(), held };
                        at_every_await(&case, async |at| case.run(at).await).await;
                    }
                }
            }
        }
    }
}
