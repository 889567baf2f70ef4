//! Waiting for a state that can be looked at, instead of sleeping and hoping.

use std::{
    future::Future,
    panic::Location,
    thread,
    time::{Duration, Instant},
};

/// How long to stand back between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks until the condition is true. Panics where it was called if that takes longer than `within`.
#[track_caller]
pub(crate) fn eventually(within: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < within, "not true within {within:?}");
        thread::sleep(PAUSE);
    }
}

/// [`eventually`] for tests that must not block their runtime. The condition may itself wait.
#[track_caller]
pub(crate) fn eventually_async<C>(within: Duration, mut condition: C) -> impl Future<Output = ()>
where
    C: AsyncFnMut() -> bool,
{
    let asked_at = Location::caller();
    async move {
        let started = Instant::now();
        while !condition().await {
            assert!(started.elapsed() < within, "not true within {within:?}, asked at {asked_at}");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_looked_at_until_it_is_true() {
        let mut looks = 0;
        eventually(Duration::from_secs(5), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    #[should_panic(expected = "not true within 5ms")]
    fn a_condition_that_stays_false_is_named_with_its_bound() {
        eventually(Duration::from_millis(5), || false);
    }

    #[tokio::test]
    async fn an_async_condition_is_looked_at_until_it_is_true() {
        let mut looks = 0;
        eventually_async(Duration::from_secs(5), async || {
            looks += 1;
            tokio::task::yield_now().await;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
    }
}
