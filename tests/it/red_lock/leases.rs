//! How long a hold of a majority lasts, what of it is mended, and when it is lost.

use std::time::{Duration, Instant};

use relatch::{Error, LostCause, Released};
use tokio::time::{sleep, timeout};

use super::site::{SOON, Site};
use crate::{
    harness::{
        clock::wall,
        eventually_async,
        lag::Lag,
        proxy::{Action, matching::script},
        unique_name,
    },
    kept::kept,
};

const MS: Duration = Duration::from_millis(1);
const WATCHDOG: Duration = Duration::from_millis(1_500);
/// How much later than its bound something may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn who_waited_for_ten_leases_has_a_whole_one() {
    const LEASE: Duration = Duration::from_millis(400);
    let (site, name) = (Site::of(3), unique_name());
    let (ann, ben) = (site.red().await, site.red().await);
    let held = ann.lock(&name).lock().await.expect("a free lock");
    let lock = ben.lock(&name);
    let waiting = tokio::spawn(async move {
        let guard = lock.lock().lease(LEASE).await.expect("its turn comes");
        let left = guard.expires_in().expect("it is held");
        (wall() + left, left, guard)
    });
    sleep(LEASE * 10).await;
    assert!(!waiting.is_finished());
    let lag = Lag::watch();
    held.unlock().await.expect("it is held");
    let (claimed, left, guard) = waiting.await.expect("no panic");
    // Less a part for the clocks, and what the votes took.
    let most = LEASE - LEASE / 100 - 2 * MS;
    let gone = lag.added_to(LEASE / 2);
    assert!(left <= most && left + gone >= LEASE, "{left:?} of {LEASE:?}, where {gone:?} may have gone by");
    let ends: Vec<_> = site.kept(&name).into_iter().flatten().map(|kept| kept.expires).collect();
    let (covered, late) = (ends.iter().filter(|end| **end >= claimed).count(), claimed + LEASE);
    assert!(covered >= 2 || !guard.is_held(), "{ends:?} are before {claimed:?}");
    assert!(ends.iter().all(|end| *end < late), "{ends:?} are whole leases after {claimed:?}");
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
}

#[tokio::test]
async fn a_hold_is_renewed_by_a_majority_while_one_master_is_down() {
    let (site, name) = (Site::of(3), unique_name());
    // It bears the pauses of a busy machine.
    let watchdog = WATCHDOG * 2;
    let red = site.builder().await.watchdog_timeout(watchdog).build().expect("they can be masters");
    let guard = red.lock(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let first = site.kept(&name);
    site.goes_down(2);
    // Its key at the third one runs out.
    sleep(watchdog + WATCHDOG).await;
    assert!(guard.is_held());
    let now = site.kept(&name);
    for (first, now) in first.iter().zip(&now).take(2) {
        let (first, now) = (first.as_ref().expect("it was there"), now.as_ref().expect("it is there"));
        assert!(first.field == now.field && now.expires > first.expires, "{first:?} {now:?}");
    }
    assert_eq!(now[2], None, "nobody renewed it there");
    // It is back where it was missing once that master is.
    site.comes_back(2);
    eventually_async(SOON, async || {
        assert!(guard.is_held(), "it was lost");
        site.counts(&name) == [1, 1, 1]
    })
    .await;
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_hold_that_a_majority_forgot_is_lost_at_the_next_renewal() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.watchdog_timeout(WATCHDOG).build().expect("they can be masters");
    let guard = red.lock(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let (gone, lag) = (Instant::now(), Lag::watch());
    site.servers()[..2].iter().for_each(|server| server.delete(&name));
    let lost = timeout(SOON, guard.lost()).await.expect("it is told");
    let took = gone.elapsed();
    assert!(matches!(lost, Error::Lost { cause: LostCause::Gone, .. }), "{lost:?}");
    assert!(took < lag.added_to(WATCHDOG / 3 + SLACK), "told after {took:?}");
    assert!(guard.unlock().await.is_err_and(|error| error.is_lost()));
    // The last of it goes, too.
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_master_that_forgot_a_hold_has_it_again_after_the_next_renewal() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.watchdog_timeout(WATCHDOG).build().expect("they can be masters");
    let guard = red.lock(&name).lock().await.expect("a free lock");
    let inner = red.lock(&name).lock().await.expect("it is ours");
    site.come_to(&name, &[2, 2, 2]).await;
    let before = site.kept(&name)[2].clone().expect("it was there");
    site.servers()[2].delete(&name);
    let (gone, lag) = (Instant::now(), Lag::watch());
    eventually_async(SOON, async || kept(&site.servers()[2], &name).is_some()).await;
    let took = gone.elapsed();
    assert!(took < lag.added_to(WATCHDOG / 3 + SLACK), "mended after {took:?}");
    let mended = kept(&site.servers()[2], &name).expect("it was just seen");
    assert_eq!(mended.field, before.field);
    assert!(mended.expires > wall(), "{mended:?}");
    assert_eq!(inner.unlock().await.expect("it is held"), Released::StillHeld(1));
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_mend_that_comes_after_the_end_is_let_go_of_behind_it() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.watchdog_timeout(WATCHDOG).build().expect("they can be masters");
    let guard = red.lock(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let mend = site.proxies[2].rule(script("acquire").mentioning(&name), Action::HoldRequest);
    site.servers()[2].delete(&name);
    mend.nth(1).await;
    assert_eq!(guard.unlock().await.expect("a majority is there"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
    mend.let_go();
    eventually_async(SOON, async || site.proxies[2].has_answered(&name)).await;
    site.come_to(&name, &[0, 0, 0]).await;
    assert!(site.proxies[2].count(&script("release").mentioning(&name)) >= 1, "it went because it was let go of");
}

#[tokio::test]
async fn a_copy_of_a_mend_that_runs_after_the_end_keeps_one_master_for_no_more_than_a_lease() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.watchdog_timeout(WATCHDOG).build().expect("they can be masters");
    let guard = red.lock(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let mend = site.proxies[2].rule(script("acquire").mentioning(&name), Action::DuplicateLater);
    site.servers()[2].delete(&name);
    mend.nth(1).await;
    site.come_to(&name, &[1, 1, 1]).await;
    mend.remove();
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
    mend.let_go();
    site.come_to(&name, &[0, 0, 1]).await;
    let (ghost, lag) = (Instant::now(), Lag::watch());
    // It keeps nobody out.
    let other = site.undisturbed().await;
    let theirs = other.lock(&name).lock().await.expect("the others are a majority");
    assert_eq!(theirs.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
    let took = ghost.elapsed();
    assert!(took < lag.added_to(WATCHDOG + SLACK), "gone after {took:?}");
}
