//! Many holds of one client: what one of them costs must not be multiplied by all the others.

use std::{
    collections::HashMap,
    hint::spin_loop,
    time::{Duration, Instant},
};

use relatch::{Client, LockGuard};
use tokio::{
    runtime::Builder,
    task::{JoinSet, yield_now},
    time::sleep,
};

use crate::{
    harness::{
        Server,
        process::{Parent, Process},
        proxy::{Proxy, matching::verb},
    },
    kept::{connected, teach},
};

const HOLDS: usize = 2_000;
const WATCHDOG: Duration = Duration::from_secs(6);
const COMMAND: Duration = Duration::from_millis(500);
/// One renewal interval, after which every hold is due, and three commands that nobody answers.
const FREEZE: Duration = Duration::from_millis(3_500);

/// So many under load, and for so long; each is renewed several times meanwhile.
const MANY: usize = 10_000;
const LOADED: Duration = Duration::from_secs(9);
/// How long the runtime works at a time without giving way.
const SPIN: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

async fn hold_all(client: &Client, holds: usize) -> Vec<LockGuard> {
    let mut taking: JoinSet<_> = (0..holds)
        .map(|number| client.mutex(format!("{number}")))
        .map(|mutex| async move { mutex.lock().await.expect("it is free") })
        .collect();
    let mut guards = Vec::new();
    while let Some(guard) = taking.join_next().await {
        guards.push(guard.expect("no panic"));
    }
    guards
}

fn alive(guards: &[LockGuard]) -> usize {
    guards.iter().filter(|guard| guard.is_held()).count()
}

/// Fault M15.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_holds_outlive_a_frozen_server_and_are_renewed_in_batches() {
    let server = Server::own();
    let options = Client::builder().url(server.url()).watchdog_timeout(WATCHDOG).command_timeout(COMMAND);
    let client = connected(options).await;
    let guards = hold_all(&client, HOLDS).await;
    server.reset_counts();
    server.freeze();
    sleep(FREEZE).await;
    server.thaw();
    assert_eq!(alive(&guards), HOLDS, "the freeze is shorter than the lease");
    sleep(WATCHDOG).await;
    assert_eq!(alive(&guards), HOLDS);
    assert_eq!(server.keys().len(), HOLDS);
    // Nothing else has run a script since the freeze. One by one, a single round would be more than all of these.
    let renewals = server.count("evalsha");
    assert!(renewals > 0 && renewals < HOLDS as u64 / 4, "{renewals} calls");
    client.close().await;
}

/// Holds many locks on one thread that other work keeps busy all the time, and says how many are left of them.
pub(crate) fn hold_many(parent: &mut Parent, args: &[String]) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = connected(Client::builder().url(&args[0]).watchdog_timeout(WATCHDOG)).await;
        let guards = hold_all(&client, MANY).await;
        parent.say("held");
        let started = Instant::now();
        while started.elapsed() < LOADED {
            let spinning = Instant::now();
            while spinning.elapsed() < SPIN {
                spin_loop();
            }
            yield_now().await;
        }
        parent.say(&alive(&guards).to_string());
        parent.hear();
        client.close().await;
    });
}

/// Fault B22, M15, M18.
#[test]
fn ten_thousand_holds_are_renewed_in_time_on_a_thread_that_is_busy_all_the_time() {
    let server = Server::own();
    teach(&server);
    let proxy = Proxy::to(&server);
    let mut process = Process::spawn("hold_many", &[&proxy.url()]);
    assert_eq!(process.hear_within(LONG).as_deref(), Some("held"));
    let left = process.hear_within(LONG).expect("it comes to its end");
    assert_eq!((left, server.keys().len()), (MANY.to_string(), MANY));
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
    eprintln!("{} intervals: median {:?}, 99.9 % {:?}, all {:?}", intervals.len(), of(0.5), of(0.999), of(1.0));
    assert!(intervals.len() >= 2 * MANY, "{}", intervals.len());
    assert!(of(0.999) < WATCHDOG * 2 / 3, "{:?}", of(0.999));
    process.say("end");
    assert!(process.ended_well());
}
