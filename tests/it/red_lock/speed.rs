//! What a lock costs where one of the masters says nothing.

use std::time::{Duration, Instant};

use relatch::Released;

use super::site::Site;
use crate::{
    harness::{
        lag::Lag,
        proxy::{Action, matching::any},
        unique_name,
    },
    kept::client,
};

#[tokio::test]
async fn with_one_of_three_silent_a_lock_and_unlock_are_two_round_trips_of_the_others() {
    const ROUND_TRIP: Duration = Duration::from_millis(100);
    let site = Site::of(3);
    let (red, name) = (site.red().await, unique_name());
    red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
    for proxy in &site.proxies[..2] {
        proxy.rule(any(), Action::DelayRequest(ROUND_TRIP));
    }
    site.falls_silent(2);
    // While nobody knows yet that it is silent, and then.
    for turn in 0..3 {
        let (began, lag) = (Instant::now(), Lag::watch());
        let guard = red.lock(&name).lock().await.expect("a majority is there");
        assert_eq!(guard.unlock().await.expect("a majority is there"), Released::Freed);
        let took = began.elapsed();
        let bound = lag.added_to(ROUND_TRIP * 3);
        assert!((ROUND_TRIP * 2..bound).contains(&took), "turn {turn} took {took:?}, and not less than {bound:?}");
    }
}

#[tokio::test]
async fn a_new_one_does_not_wait_for_a_silent_master_whose_word_changes_nothing() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let (site, name) = (Site::of(3), unique_name());
    let theirs = site.undisturbed().await.mutex(&name).lock().await.expect("a free lock");
    site.come_to(&name, &[1, 1, 1]).await;
    let red = site.builder().await.master_timeout(TIMEOUT).build().expect("they can be masters");
    site.falls_silent(2);
    // It asks all of them who they are, and then for the lock, which two refuse; and once more when it knows.
    for _ in 0..2 {
        let (began, lag) = (Instant::now(), Lag::watch());
        assert!(red.mutex(&name).try_lock().await.expect("most of them answer").is_none());
        let took = began.elapsed();
        assert!(took < lag.added_to(TIMEOUT / 2), "it took {took:?}");
    }
    theirs.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_silent_master_whose_word_is_needed_costs_its_time_out_once() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let (site, name) = (Site::of(3), unique_name());
    let red = site.builder().await.master_timeout(TIMEOUT).build().expect("they can be masters");
    red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
    site.come_to(&name, &[0, 0, 0]).await;
    let rival = client(site.servers()[0].url()).await;
    let theirs = rival.lock(&name).lock().await.expect("a free lock at this one");
    site.falls_silent(2);
    for turn in 0..4 {
        let (began, lag) = (Instant::now(), Lag::watch());
        // One is busy, one says yes, and the third would decide.
        assert!(red.lock(&name).try_lock().await.expect("most of them answer").is_none());
        let took = began.elapsed();
        if turn == 0 {
            assert!((TIMEOUT..lag.added_to(TIMEOUT * 3 / 2)).contains(&took), "it took {took:?}");
        } else {
            assert!(took < lag.added_to(TIMEOUT / 2), "turn {turn} took {took:?}");
        }
    }
    // And what it said yes to is let go of.
    assert_eq!(theirs.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
    // It is waited for again once it answers.
    site.comes_back(2);
    red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
}
