//! Masters that restart and have forgotten what they granted.

use std::time::{Duration, Instant};

use relatch::{Error, RedLock, Released, Said};

use super::site::{SOON, Site};
use crate::harness::{eventually_async, unique_name};

/// Every lease, and so for how long a master that restarted counts for nothing.
const LEASE: Duration = Duration::from_secs(2);

async fn all_old(site: &Site) -> RedLock {
    let builder = RedLock::builder(site.clients().await).watchdog_timeout(LEASE);
    let red = builder.build().expect("they can be masters");
    eventually_async(SOON, async || red.survey("nobody's").await.iter().all(|view| view.young_for.is_none())).await;
    red
}

#[tokio::test]
async fn a_master_that_restarted_empty_counts_for_nothing_for_a_quarantine_and_then_counts() {
    let (site, name) = (Site::own(3), unique_name());
    let red = all_old(&site).await;
    red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
    site.goes_down(2);
    red.lock(&name).lock().await.expect("two are enough").unlock().await.expect("it is held");
    let restarted = Instant::now();
    site.servers()[1].restart_empty();
    let mut young = None;
    let usable = loop {
        match red.lock(&name).try_lock().await {
            Ok(Some(guard)) => {
                let at = restarted.elapsed();
                assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
                break at;
            }
            Ok(None) => panic!("nobody has it"),
            Err(error) => {
                assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
                let votes = error.votes().expect("each has its word");
                // Until it is connected again it is down.
                if let Said::Young { for_another } = votes[1].said {
                    assert!(for_another <= LEASE, "{error:?}");
                    young = Some(format!("{:#}", std::error::Error::source(&error).expect("it has one")));
                }
                // Its grant was given back.
                eventually_async(SOON, async || site.servers()[1].keys().is_empty()).await;
            }
        }
        assert!(restarted.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let words = young.expect("it was asked while it was young");
    assert!(words.contains(" young for another ") && words.contains("restart_quarantine"), "{words}");
    assert!(usable >= LEASE, "it counted {usable:?} after its restart");
    // It tells in whole seconds how long it runs.
    assert!(usable < LEASE * 3, "it counted only {usable:?} after its restart");
}

#[tokio::test]
async fn a_hold_outlives_the_restarts_of_its_masters_one_after_the_other() {
    let (site, name) = (Site::own(3), unique_name());
    let (red, other) = (all_old(&site).await, all_old(&site).await);
    let guard = red.lock(&name).lock().await.expect("a free lock");
    for restarted in 0..3 {
        site.come_to(&name, &[1, 1, 1]).await;
        site.servers()[restarted].restart_empty();
        // Two have it, and the third counts for nothing.
        let tried = other.lock(&name).try_lock().await;
        assert!(matches!(tried, Ok(None) | Err(Error::Unreachable { .. })), "{tried:?}");
        site.come_to(&name, &[1, 1, 1]).await;
    }
    assert!(guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
}
