//! A vote that may have been given, and that nobody heard of.

use std::collections::BTreeSet;

use super::site::{SOON, Site};
use crate::harness::{
    eventually_async,
    proxy::{
        Action, Proxy,
        matching::{Match, script},
    },
    unique_name,
};

/// The verbs of what this master was asked for under the name, with the hold of each.
fn asked(proxy: &Proxy, name: &str, holder: &str) -> Vec<(String, String)> {
    let mut asked = Vec::new();
    for entry in proxy.commands_of(name) {
        let Some(verb) = entry.script() else { continue };
        let words = entry.words().unwrap_or_default().iter().map(|word| String::from_utf8_lossy(word).into_owned());
        asked.extend(words.filter(|word| word.starts_with(holder)).map(|hold| (verb.clone(), hold)));
    }
    asked
}

fn acquires(name: &str) -> Match {
    script("acquire").mentioning(name)
}

#[tokio::test]
async fn a_vote_that_was_given_and_not_heard_is_released_before_the_next_try() {
    let (site, name) = (Site::of(3), unique_name());
    let builder = site.builder().await.master_timeout(std::time::Duration::from_millis(150));
    let red = builder.build().expect("they can be masters");
    red.lock(unique_name()).lock().await.expect("a free lock").unlock().await.expect("it is held");
    // The first gives its vote and cannot tell, the third is down: the second alone is no majority.
    let lost = site.proxies[0].rule(acquires(&name).first(2), Action::CutAfter);
    site.goes_down(2);
    let guard = red.lock(&name).lock().await.expect("a majority is there at the third try");
    assert!(lost.seen() >= 3, "it was tried {} times", lost.seen());
    let holder = format!("{}:", red.id());
    for proxy in &site.proxies[..2] {
        let asked = asked(proxy, &name, &holder);
        let (mut open, mut seen) = (None::<&str>, BTreeSet::new());
        for (verb, hold) in &asked {
            match &**verb {
                "acquire" => {
                    assert_eq!(open, None, "it is asked again before that was released: {asked:?}");
                    assert!(seen.insert(hold), "each try has a number of its own: {asked:?}");
                    open = Some(hold);
                }
                // Of an earlier one it may be repeated at any time.
                "release" => open = open.filter(|open| open != hold),
                _ => {}
            }
        }
        assert!(seen.len() >= 3, "{asked:?}");
    }
    assert_eq!(site.counts(&name), [1, 1, 0]);
    guard.unlock().await.expect("a majority is there");
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_vote_that_is_given_after_its_round_was_won_is_released_with_the_rest() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.red().await;
    red.lock(unique_name()).lock().await.expect("a free lock").unlock().await.expect("it is held");
    let late = site.proxies[2].rule(acquires(&name), Action::HoldRequest);
    let guard = red.lock(&name).lock().await.expect("a majority is there");
    late.nth(1).await;
    assert_eq!(site.counts(&name), [1, 1, 0]);
    guard.unlock().await.expect("a majority is there");
    late.let_go();
    eventually_async(SOON, async || site.proxies[2].has_answered(&name) && site.counts(&name) == [0, 0, 0]).await;
    assert!(site.proxies[2].count(&script("release").mentioning(&name)) >= 1);
}
