//! What a hold of a majority is inside the process: nested, passed on, detached, bounded, and waited for.

use std::time::{Duration, Instant};

use relatch::{Error, LostCause, Owner, Released};
use tokio::time::sleep;

use super::site::{SOON, Site};
use crate::{
    harness::{eventually_async, lag::Lag, unique_name},
    kept::channel,
};

const WATCHDOG: Duration = Duration::from_secs(1);
/// Who does not listen asks several times within it.
const QUIET: Duration = Duration::from_millis(800);
/// How much later than its bound something may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_task_enters_again_and_all_masters_count_that() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.red().await;
    let lock = red.lock(&name);
    let outer = lock.lock().await.expect("a free lock");
    let inner = lock.lock().await.expect("it is ours");
    assert_eq!((outer.hold_count(), lock.hold_count()), (2, 2));
    site.come_to(&name, &[2, 2, 2]).await;
    let seen = lock.inspect().await.expect("they answer").expect("it is held");
    assert!(format!("{seen:?}").contains(&red.id().to_string()), "{seen:?}");
    assert_eq!(inner.unlock().await.expect("it is held"), Released::StillHeld(1));
    site.come_to(&name, &[1, 1, 1]).await;
    // A mutex of the same name is nobody's twice.
    assert!(red.mutex(&name).try_lock().await.expect("they answer").is_none());
    assert_eq!(outer.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_hold_is_passed_on_inside_the_process_without_a_command() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.handover_slice(Duration::from_secs(60)).build().expect("they can be masters");
    let first = red.mutex(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let second = tokio::spawn(red.mutex(&name).lock());
    // It asks nobody: this process has it.
    tokio::task::yield_now().await;
    let (sent, field) = (site.commands(&name), site.kept(&name)[0].clone().expect("it is held").field);
    assert_eq!(first.unlock().await.expect("it is held"), Released::Freed);
    let second = second.await.expect("no panic").expect("its turn comes");
    assert_eq!(site.commands(&name), sent, "the second owner was asked for");
    assert_eq!(site.kept(&name)[0].clone().expect("it is held").field, field);
    assert_eq!(second.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
    assert!(site.commands(&name) > sent);
}

#[tokio::test]
async fn a_hold_ends_at_its_max_hold() {
    const BOUND: Duration = Duration::from_millis(1_600);
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.watchdog_timeout(WATCHDOG).build().expect("they can be masters");
    let (began, lag) = (Instant::now(), Lag::watch());
    let guard = red.lock(&name).lock().max_hold(BOUND).await.expect("a free lock");
    let stop = guard.cancellation();
    let lost = guard.lost().await;
    let took = began.elapsed();
    assert!(matches!(lost, Error::Lost { cause: LostCause::MaxHold, .. }), "{lost:?}");
    assert!((BOUND - BOUND / 20..lag.added_to(BOUND + SLACK)).contains(&took), "lost after {took:?}");
    assert!(stop.is_cancelled() && !guard.is_held());
    drop(guard);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_detached_hold_is_renewed_taken_back_and_released_by_its_owner() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.watchdog_timeout(WATCHDOG).build().expect("they can be masters");
    let lock = red.lock(&name);
    let owner = Owner::new();
    assert_eq!(lock.lock().owner(&owner).await.expect("a free lock").detach(), owner);
    site.come_to(&name, &[1, 1, 1]).await;
    sleep(WATCHDOG * 2).await;
    assert_eq!(site.counts(&name), [1, 1, 1]);
    assert!(lock.is_held_by(&owner) && lock.try_lock().await.expect("they answer").is_none());
    let guard = lock.attach(&owner).expect("it is there");
    assert!(guard.is_held() && guard.hold_count() == 1);
    assert_eq!(guard.detach(), owner);
    assert_eq!(lock.unlock().owner(&owner).await.expect("it is held"), Released::Freed);
    assert!(matches!(lock.unlock().owner(&owner).await, Err(Error::NotHeld { guards: 0, .. })));
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn who_waits_hears_of_a_release_by_two_of_three_masters() {
    for cut in 0..3 {
        let (site, name) = (Site::of(3), unique_name());
        let (ann, ben) = (site.undisturbed().await, site.red().await);
        ben.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
        site.come_to(&name, &[0, 0, 0]).await;
        site.goes_down(cut);
        // For a whole lease, which is long: nobody who hears nothing is in before.
        let held = ann.mutex(&name).lock().await.expect("a free lock");
        let lock = ben.mutex(&name);
        let waiting = tokio::spawn(async move { (lock.lock().await, Instant::now()) });
        let hears = |server: usize| site.servers()[server].listeners(&channel(&name)) == 1;
        eventually_async(SOON, async || (0..3).filter(|server| *server != cut).all(hears)).await;
        // Its last look before it listens is over.
        sleep(Duration::from_millis(200)).await;
        let sent = site.commands(&name);
        sleep(QUIET).await;
        assert!(!waiting.is_finished());
        assert_eq!(site.commands(&name), sent, "with {cut} cut it asks though it listens");
        let (released, lag) = (Instant::now(), Lag::watch());
        held.unlock().await.expect("it is held");
        let (guard, entered) = waiting.await.expect("no panic");
        let took = entered - released;
        assert!(took < lag.added_to(SLACK), "with {cut} cut it was woken after {took:?}");
        guard.expect("its turn").unlock().await.expect("it is held");
        site.come_to(&name, &[0, 0, 0]).await;
        eventually_async(SOON, async || (0..3).all(|at| site.servers()[at].listeners(&channel(&name)) == 0)).await;
    }
}

#[tokio::test]
async fn it_is_forced_open_at_all_masters_and_surveyed_at_each() {
    let (site, name) = (Site::of(3), unique_name());
    let (ann, ben) = (site.red().await, site.red().await);
    let guard = ann.lock(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let views = ben.survey(&name).await;
    assert_eq!(views.len(), 3);
    for (view, proxy) in views.iter().zip(&site.proxies) {
        assert!(proxy.url().ends_with(view.master.trim_start_matches("unix:")), "{} {}", view.master, proxy.url());
        let seen = view.held.as_ref().expect("it answers").as_ref().expect("it is held");
        assert!(format!("{seen:?}").contains(&ann.id().to_string()), "{seen:?}");
    }
    assert!(ben.lock(&name).force_unlock().await.expect("they answer"));
    site.come_to(&name, &[0, 0, 0]).await;
    assert!(!ben.lock(&name).force_unlock().await.expect("they answer"), "nobody holds it");
    let theirs = ben.lock(&name).lock().await.expect("a free lock");
    drop(guard);
    site.come_to(&name, &[1, 1, 1]).await;
    theirs.unlock().await.expect("it is held");
}
