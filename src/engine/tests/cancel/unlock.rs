//! `unlock` of a guard and of a detached hold: the last of its hold or an inner one, with nobody behind it, with somebody
//! to pass to, with somebody to hand over to.

use super::*;

/// Whose ticket is released.
#[derive(Clone, Copy, Debug)]
enum Ticket {
    Guard,
    Detached,
}

/// What comes after it.
#[derive(Clone, Copy, Debug)]
enum Next {
    Nobody,
    /// Two waiters: the first may have the hold as it is.
    Passed,
    /// Two waiters, and the server must know.
    HandedOver,
    /// The same owner's outer guard.
    Outer,
    /// The same, with two waiters behind it.
    OuterThenPassed,
}

#[derive(Clone, Debug)]
struct Case {
    ticket: Ticket,
    next: Next,
    release: Fate,
    hand_over: Fate,
}

impl Case {
    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let lock = if let Next::HandedOver = self.next { bench.unpassable("a") } else { bench.lock("a") };
        let owner = Owner::new();
        let nested = matches!(self.next, Next::Outer | Next::OuterThenPassed);
        let outer = if nested { Some(lock.lock_as(&owner).await.unwrap()) } else { None };
        let guard = lock.lock_as(&owner).await.unwrap();
        let waiters = waiters(&lock, if matches!(self.next, Next::Nobody | Next::Outer) { 0 } else { 2 }).await;
        bench.world.next(Verb::Release, [self.release.clone()]);
        bench.world.next(Verb::HandOver, [self.hand_over.clone()]);
        let answer = match self.ticket {
            Ticket::Guard => {
                let answer = at.before(Box::pin(guard.unlock())).await;
                assert!(!guard.is_held() && guard.expires_in().is_none(), "claimed after the release");
                drop(guard);
                answer
            }
            Ticket::Detached => {
                assert_eq!(guard.detach(), owner);
                at.before(lock.unlock_as(&owner)).await
            }
        };
        match &answer {
            None | Some(Ok(_)) => {}
            Some(Err(Error::Lost { .. } | Error::Unreachable { .. } | Error::Refused { .. })) => {}
            Some(Err(error)) => panic!("{error}"),
        }
        drop(outer);
        everybody_gets_in(&bench, &lock, waiters, soon(&self.release)).await;
        answer.is_some()
    }
}

const TICKETS: [Ticket; 2] = [Ticket::Guard, Ticket::Detached];

#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_dropped_at_any_await_still_unlocks() {
    for ticket in TICKETS {
        for next in [Next::Nobody, Next::Passed, Next::Outer, Next::OuterThenPassed] {
            for release in fates() {
                let case = Case { ticket, next, release, hand_over: Fate::Prompt };
                at_every_await(&case, async |at| case.run(at).await).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_dropped_at_any_await_of_its_hand_over_still_unlocks() {
    for ticket in TICKETS {
        for hand_over in fates() {
            for release in fates() {
                let case = Case { ticket, next: Next::HandedOver, release, hand_over: hand_over.clone() };
                at_every_await(&case, async |at| case.run(at).await).await;
            }
        }
    }
}
