//! Runs on a seeded store: the same seed gives the same run, and no seed breaks exclusion.

use std::{sync::Arc, time::Duration};

use relatch::{
    Client, EmbeddedStore, LockGuard,
    embedded::{Happening, Weather},
};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

use crate::embedded::client;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 2] = ["a", "b"];

fn storm() -> Weather {
    let fast = Duration::ZERO;
    Weather::fair()
        .request_delay(fast..=MS * 30)
        .reply_delay(fast..=MS * 30)
        .lost_requests(0.01)
        .lost_replies(0.01)
        .copies(0.05, fast..=SECOND * 5)
        .cuts(0.01)
}

/// Who believes to hold each name.
type Inside = Arc<std::sync::Mutex<[Vec<Arc<LockGuard>>; 2]>>;

async fn works(client: Client, number: u32, until: Instant, inside: Inside, watched: Option<EmbeddedStore>) {
    let mut round = number;
    while Instant::now() < until {
        round += 1;
        let name = round as usize % NAMES.len();
        if let Some(store) = &watched {
            assert!(store.hash(NAMES[name]).len() < 2, "two hold {}", NAMES[name]);
        }
        let Ok(Some(guard)) = client.mutex(NAMES[name]).try_lock().wait(SECOND * 5).await else { continue };
        let guard = Arc::new(guard);
        {
            let mut inside = inside.lock().expect("no panic");
            inside[name].retain(|other| other.is_held());
            assert!(inside[name].is_empty() || !guard.is_held(), "two believe to hold {}", NAMES[name]);
            inside[name].push(Arc::clone(&guard));
        }
        sleep(MS * (1 + u64::from(round % 7)) as u32 * 20).await;
        // The outcome of a release in this weather is anybody's guess.
        drop(guard.unlock().await);
    }
}

/// Half a minute of contention in a storm; the trace of all that happened.
fn run(seed: u64) -> Vec<String> {
    run_watched(seed, false)
}

/// The same while everybody looks at what the store has.
fn run_watched(seed: u64, watched: bool) -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime starts");
    runtime.block_on(async {
        let store = EmbeddedStore::seeded(seed);
        store.start_trace();
        let inside = Inside::default();
        let mut tasks = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..3 {
            let builder = Client::builder().embedded(&store).watchdog_timeout(SECOND * 3).command_timeout(SECOND);
            clients.push(builder.connect().await.expect("a store refuses nobody"));
        }
        store.set_weather(storm());
        let until = Instant::now() + SECOND * 30;
        for number in 0..6 {
            let client = clients[number as usize % clients.len()].clone();
            let watched = watched.then(|| store.clone());
            tasks.push(tokio::spawn(works(client, number, until, Arc::clone(&inside), watched)));
        }
        for task in tasks {
            task.await.expect("nobody met anybody inside");
        }
        store.set_weather(Weather::fair());
        inside.lock().expect("no panic").iter_mut().for_each(Vec::clear);
        sleep(SECOND * 30).await;
        assert!(store.is_empty() && store.listeners().is_empty(), "{:?} {:?}", store.keys(), store.listeners());
        store.take_trace().iter().map(ToString::to_string).collect()
    })
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let (once, again, other) = (run(1), run(1), run(2));
    for (line, (once, again)) in once.iter().zip(&again).enumerate() {
        assert_eq!(once, again, "line {line}");
    }
    assert_eq!(once.len(), again.len());
    assert!(once != other && once.len() > 100);
    // The weather was there.
    let words = ["was lost", "an answer was lost", "as a copy", "over an old link", "commands broke", "messages broke"];
    for word in words {
        assert!(
            [&once, &other].iter().any(|trace| trace.iter().any(|line| line.contains(word))),
            "no line says {word:?}"
        );
    }
}

#[test]
fn whoever_looks_at_a_hash_changes_nothing_of_a_run() {
    assert_eq!(run_watched(3, true), run(3));
}

#[test]
fn no_seed_lets_two_believe_that_they_hold_one_name() {
    for seed in 10..15 {
        assert!(!run(seed).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_trace_is_kept_from_when_it_is_asked_for_and_given_once() {
    let store = EmbeddedStore::seeded(1);
    let ann = client(&store).await;
    assert!(!ann.lock("a").is_locked().await.expect("the store answers"));
    assert!(store.take_trace().is_empty());
    store.start_trace();
    sleep(SECOND).await;
    assert!(!ann.lock("a").is_locked().await.expect("the store answers"));
    let trace = store.take_trace();
    assert_eq!((trace.len(), trace[0].at, trace[0].client), (1, SECOND, ann.id()));
    assert!(matches!(&trace[0].what, Happening::Ran(ran) if ran.keys() == ["a"] && ran.args().is_empty()));
    assert!(store.take_trace().is_empty());
}
