//! `force_unlock`: of a hold here, of another process's, of nothing.

use super::*;

#[derive(Clone, Copy, Debug)]
enum Holder {
    Here,
    Elsewhere,
    Nobody,
}

#[derive(Clone, Debug)]
struct Case {
    holder: Holder,
    inspect: Fate,
    force: Fate,
    release: Fate,
    behind: usize,
}

impl Case {
    async fn run(&self, at: Drop) -> bool {
        let bench = bench();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let guard = match self.holder {
            Holder::Here => Some(lock.lock().await.unwrap()),
            Holder::Elsewhere => {
                world.other_takes("a", 10 * A_WHILE);
                None
            }
            Holder::Nobody => None,
        };
        // Where somebody holds; where nobody does, there would be nothing to wait for.
        let waiters = waiters(&lock, self.behind).await;
        world.next(Verb::Inspect, [self.inspect.clone()]);
        world.next(Verb::ForceRelease, [self.force.clone()]);
        world.next(Verb::Release, [self.release.clone()]);
        let answer = at.before(Box::pin(lock.0.force_unlock())).await;
        match &answer {
            None | Some(Ok(_) | Err(Error::Unreachable { .. } | Error::Refused { .. })) => {}
            Some(Err(error)) => panic!("{error}"),
        }
        if let (Some(Ok(true)), Some(guard), Fate::Prompt) = (&answer, &guard, &self.inspect) {
            assert!(!guard.is_held(), "it was seen, and told");
        }
        drop(guard);
        let soon = match self.release {
            // They were told of our own field's lease, and nobody says that it is gone.
            Fate::Taken(_) | Fate::Gone => SOON + WATCHDOG,
            _ => soon(&self.release),
        };
        everybody_gets_in(&bench, &lock, waiters, soon).await;
        answer.is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_that_is_dropped_at_any_await_leaves_nothing() {
    for inspect in fates() {
        for force in fates() {
            for (holder, behind) in [
                (Holder::Here, 0),
                (Holder::Here, 2),
                (Holder::Elsewhere, 0),
                (Holder::Elsewhere, 2),
                (Holder::Nobody, 0),
            ] {
                let (inspect, force) = (inspect.clone(), force.clone());
                let case = Case { holder, inspect, force, release: Fate::Prompt, behind };
                at_every_await(&case, async |at| case.run(at).await).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_the_release_of_a_hold_that_was_forced_away_nothing_is_left() {
    for release in fates() {
        for force in fates() {
            for behind in [0, 2] {
                let (inspect, force, release) = (Fate::Prompt, force.clone(), release.clone());
                let case = Case { holder: Holder::Here, inspect, force, release, behind };
                at_every_await(&case, async |at| case.run(at).await).await;
            }
        }
    }
}
