//! Ten thousand holds of a client whose thread is busy with other work all the time: how far apart their renewals are.

use std::{
    collections::HashMap,
    hint::spin_loop,
    time::{Duration, Instant},
};

use relatch::{Client, LockGuard};
use tokio::{
    runtime::Builder,
    task::{JoinSet, yield_now},
};

use crate::{
    harness::{
        Server,
        process::{Parent, Process},
        proxy::{Proxy, matching::verb},
    },
    kept::{connected, teach},
};

const HOLDS: usize = 10_000;
const WATCHDOG: Duration = Duration::from_secs(10);
/// Each hold is renewed several times meanwhile.
const LOADED: Duration = Duration::from_secs(11);
/// How long the runtime works at a time without giving way.
const SPIN: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(60);

async fn hold_all(client: &Client) -> Vec<LockGuard> {
    let locks = (0..HOLDS).map(|number| client.mutex(format!("{number}")));
    let taking: JoinSet<_> = locks.map(|mutex| async move { mutex.lock().await.expect("it is free") }).collect();
    taking.join_all().await
}

/// Holds many locks on one thread that other work keeps busy all the time, and says how many are left of them.
pub(crate) fn hold_many(parent: &mut Parent, args: &[String]) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = connected(Client::builder().url(&args[0]).watchdog_timeout(WATCHDOG)).await;
        let guards = hold_all(&client).await;
        parent.say("held");
        let started = Instant::now();
        while started.elapsed() < LOADED {
            let spinning = Instant::now();
            while spinning.elapsed() < SPIN {
                spin_loop();
            }
            yield_now().await;
        }
        parent.say(&guards.iter().filter(|guard| guard.is_held()).count().to_string());
        parent.hear();
        client.close().await;
    });
}

#[test]
fn ten_thousand_holds_are_renewed_in_time_on_a_thread_that_is_busy_all_the_time() {
    let server = Server::own();
    teach(&server);
    let proxy = Proxy::to(&server);
    let mut process = Process::spawn("hold_many", &[&proxy.url()]);
    assert_eq!(process.hear_within(LONG).as_deref(), Some("held"));
    let left = process.hear_within(LONG).expect("it comes to its end");
    let kept = server.keys().len();
    // From the acquire to the first renewal, and from each renewal to the next, as they came to the server.
    let mut last: HashMap<Vec<u8>, Duration> = HashMap::new();
    let mut intervals = Vec::new();
    for entry in proxy.log() {
        let Some(words) = entry.words().filter(|words| verb(words).is_some()) else { continue };
        let keys: usize = str::from_utf8(&words[2]).ok().and_then(|keys| keys.parse().ok()).expect("a number of keys");
        for key in &words[3..3 + keys] {
            intervals.extend(last.insert(key.clone(), entry.at).map(|before| entry.at - before));
        }
    }
    intervals.sort();
    let of = |share: f64| intervals[((intervals.len() - 1) as f64 * share) as usize];
    eprintln!(
        "{left} of {HOLDS} left, {} intervals: median {:?}, 99.9 % {:?}, all {:?}",
        intervals.len(),
        of(0.5),
        of(0.999),
        of(1.0)
    );
    assert_eq!((left, kept), (HOLDS.to_string(), HOLDS));
    assert!(intervals.len() >= 2 * HOLDS, "{}", intervals.len());
    assert!(of(0.999) < WATCHDOG * 2 / 3, "{:?}", of(0.999));
    process.say("end");
    assert!(process.ended_well());
}
