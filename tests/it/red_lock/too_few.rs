//! No majority answers: what is said of it, when, and what is left behind.

use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use relatch::{Error, RedLock, Said};

use super::site::{SOON, Site};
use crate::harness::{lag::Lag, unique_name};

const MS: Duration = Duration::from_millis(1);
const MASTER_TIMEOUT: Duration = Duration::from_millis(200);
const UNREACHABLE_AFTER: Duration = Duration::from_millis(900);
/// How much later than its bound something may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(300);

/// The first of three is there, the second is down and the third is silent.
async fn lonely() -> (Site, RedLock) {
    let site = Site::of(3);
    let builder = site.builder().await.master_timeout(MASTER_TIMEOUT).unreachable_after(UNREACHABLE_AFTER);
    let (red, name) = (builder.build().expect("they can be masters"), unique_name());
    red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
    site.come_to(&name, &[0, 0, 0]).await;
    site.goes_down(1);
    site.falls_silent(2);
    (site, red)
}

fn each_has_its_word(error: &Error, site: &Site) {
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_transient(), "{error:?}");
    let votes = error.votes().expect("it tells of the masters");
    assert_eq!(votes.len(), 3);
    for (vote, proxy) in votes.iter().zip(&site.proxies) {
        let path = proxy.url();
        let path = path.trim_start_matches("redis+unix://");
        assert!(vote.master.contains(path), "{} is not {path}", vote.master);
    }
    assert_eq!(votes[0].said, Said::Granted);
    assert!(Duration::ZERO < votes[0].took && votes[0].took <= votes[2].took, "{votes:?}");
    assert!(matches!(votes[1].said, Said::Unreachable(_)), "{:?}", votes[1].said);
    assert_eq!(votes[2].said, Said::Silent);
    let words = error.source().expect("it has one").to_string();
    assert!(words.starts_with("2 of 3 masters needed: "), "{words}");
    for (vote, said) in votes.iter().zip([" granted (", " unreachable: ", " silent ("]) {
        assert!(words.contains(&format!("{}{said}", vote.master)), "{words}");
    }
    assert!(!error.to_string().contains("granted"), "no message repeats its source: {error}");
}

#[tokio::test]
async fn a_try_with_two_of_three_gone_fails_at_once_and_tells_what_each_master_said() {
    let ((site, red), name) = (lonely().await, unique_name());
    for turn in 0..2 {
        let (began, lag) = (Instant::now(), Lag::watch());
        let error = red.lock(&name).try_lock().await.expect_err("there is no majority");
        let took = began.elapsed();
        assert!(took < lag.added_to(MASTER_TIMEOUT + SLACK), "turn {turn} took {took:?}");
        each_has_its_word(&error, &site);
        // The one that said yes is told that it came to nothing.
        site.come_to(&name, &[0, 0, 0]).await;
    }
}

#[tokio::test]
async fn a_wait_with_two_of_three_gone_fails_when_it_is_over() {
    let ((site, red), name) = (lonely().await, unique_name());
    let wait = 600 * MS;
    let (began, lag) = (Instant::now(), Lag::watch());
    let error = red.lock(&name).try_lock().wait(wait).await.expect_err("there is no majority");
    let took = began.elapsed();
    assert!((wait..lag.added_to(wait + SLACK)).contains(&took), "it took {took:?}");
    each_has_its_word(&error, &site);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_lock_with_two_of_three_gone_puts_up_with_that_for_as_long_as_it_was_told() {
    let ((site, red), name) = (lonely().await, unique_name());
    let (began, lag) = (Instant::now(), Lag::watch());
    let error = red.lock(&name).lock().await.expect_err("there is no majority");
    let took = began.elapsed();
    let latest = lag.added_to(UNREACHABLE_AFTER + MASTER_TIMEOUT + SLACK);
    assert!((UNREACHABLE_AFTER - 100 * MS..latest).contains(&took), "it took {took:?}");
    each_has_its_word(&error, &site);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_lock_that_finds_no_majority_has_it_once_there_is_one() {
    let ((site, red), name) = (lonely().await, unique_name());
    let waiting = tokio::spawn(red.mutex(&name).lock());
    tokio::time::sleep(MASTER_TIMEOUT).await;
    site.comes_back(1);
    let guard = tokio::time::timeout(SOON, waiting).await.expect("it is told").expect("no panic").expect("its turn");
    assert_eq!(site.counts(&name), [1, 1, 0]);
    guard.unlock().await.expect("a majority is there");
    site.come_to(&name, &[0, 0, 0]).await;
}
