//! Many holds of one client: what one of them costs must not be multiplied by all the others.

use std::time::Duration;

use relatch::{Client, LockGuard};
use tokio::{task::JoinSet, time::sleep};

use crate::{harness::Server, kept::connected};

const HOLDS: usize = 2_000;
const WATCHDOG: Duration = Duration::from_secs(6);
const COMMAND: Duration = Duration::from_millis(500);
/// One renewal interval, after which every hold is due, and three commands that nobody answers.
const FREEZE: Duration = Duration::from_millis(3_500);

async fn hold_all(client: &Client) -> Vec<LockGuard> {
    let mut taking: JoinSet<_> = (0..HOLDS)
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_holds_outlive_a_frozen_server_and_are_renewed_in_batches() {
    let server = Server::own();
    let options = Client::builder().url(server.url()).watchdog_timeout(WATCHDOG).command_timeout(COMMAND);
    let client = connected(options).await;
    let guards = hold_all(&client).await;
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
