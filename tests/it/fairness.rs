//! A process that wants a lock all the time, and one that wants it now and then: the second is not kept out.

use std::time::Duration;

use relatch::Client;
use tokio::{runtime::Runtime, sync::mpsc, time::sleep};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        process::{Parent, Process},
        proxy::{
            Action, Proxy,
            matching::{any, push},
        },
        unique_name,
    },
    kept::client,
};

/// What a client's slice is by default, and how many of them a waiter elsewhere may have to wait.
const SLICE: Duration = Duration::from_millis(10);
const SLICES: u32 = 5;
/// So often the waiter enters: a process that comes back too early does so at some of them.
const ENTRIES: u32 = 20;

/// So many tasks take a lock and free it, over and over, until the process is killed; says so once all have been in.
pub(crate) fn go_round(parent: &mut Parent, args: &[String]) {
    let tasks: usize = args[2].parse().expect("a number");
    Runtime::new().expect("a runtime starts").block_on(async {
        let client = client(&args[0]).await;
        let (sender, mut been_in) = mpsc::channel(tasks);
        for _ in 0..tasks {
            let (lock, mut sender) = (client.lock(&args[1]), Some(sender.clone()));
            tokio::spawn(async move {
                loop {
                    let guard = lock.lock().await.expect("the server answers");
                    if let Some(sender) = sender.take() {
                        sender.send(()).await.expect("somebody counts");
                    }
                    guard.unlock().await.expect("it is held");
                }
            });
        }
        for _ in 0..tasks {
            been_in.recv().await;
        }
        parent.say("going");
        parent.hear();
    });
}

/// How long each entry took beside such a process.
async fn entries(server: &Server, waiting: &Client, tasks: &str) -> Vec<Duration> {
    let name = unique_name();
    let greedy = Process::spawn("go_round", &[&server.url(), &name, tasks]);
    greedy.hear();
    let mut took = Vec::new();
    for entry in 0..ENTRIES {
        // At other points of the others' slices every time.
        sleep(Duration::from_millis(u64::from(3 + 7 * entry % 20))).await;
        let asked = monotonic();
        let guard = waiting.lock(&name).lock().await.expect("the server answers");
        took.push(monotonic() - asked);
        guard.unlock().await.expect("it is held");
    }
    took
}

#[track_caller]
fn assert_fair(took: &[Duration]) {
    let worst = took.iter().max().copied().unwrap_or_default();
    assert!(worst <= SLICES * SLICE, "{worst:?} at worst: {took:?}");
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_process_with_a_full_queue() {
    let server = Server::own();
    assert_fair(&entries(&server, &client(server.url()).await, "16").await);
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_single_task_that_takes_the_lock_again_at_once() {
    let server = Server::own();
    assert_fair(&entries(&server, &client(server.url()).await, "1").await);
}

/// A client that is 2 ms farther from the server, each way.
async fn farther(server: &Server) -> (Proxy, Client) {
    let (proxy, way) = (Proxy::to(server), Duration::from_millis(2));
    proxy.rule(any(), Action::DelayRequest(way));
    proxy.rule(push("message"), Action::DelayReply(way));
    let client = client(proxy.url()).await;
    (proxy, client)
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_process_with_a_full_queue() {
    let server = Server::own();
    let (_proxy, waiting) = farther(&server).await;
    assert_fair(&entries(&server, &waiting, "16").await);
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_single_task_that_takes_the_lock_again_at_once() {
    let server = Server::own();
    let (_proxy, waiting) = farther(&server).await;
    assert_fair(&entries(&server, &waiting, "1").await);
}
