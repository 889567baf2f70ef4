//! A process that wants a lock all the time, and one that wants it now and then: the second is not kept out.

use std::{future::pending, time::Duration};

use relatch::Client;
use tokio::{
    runtime::Builder,
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    harness::{
        Server,
        process::{Parent, Process},
        proxy::{
            Action, Event, Proxy,
            matching::{any, push, verb},
        },
        unique_name,
    },
    kept::connected,
};

/// So many slices a waiter elsewhere may have to wait.
const SLICES: u32 = 5;
/// The slice under which that is measured. A busy machine takes a thread away for longer than the default of 10 ms, and
/// whoever is late by a slice loses a turn; no such pause reaches this one.
const LONG: Duration = Duration::from_millis(100);
/// What a slice is by default. Under it a waiter must not be kept out.
const DEFAULT: Duration = Duration::from_millis(10);
const KEPT_OUT: Duration = Duration::from_secs(5);
/// So often the waiter enters: a process that comes back too early does so at some of them.
const ENTRIES: u32 = 20;
/// Who wants the lock all the time: how many tasks, and how many milliseconds each of them is in it. A single task that
/// did nothing there would leave the lock free half of the time; this one has it back long before a try can arrive.
const FULL_QUEUE: [&str; 2] = ["16", "0"];
const SINGLE_TASK: [&str; 2] = ["1", "20"];
/// How far the waiter is from the server.
const NEAR: Duration = Duration::ZERO;
const FARTHER: Duration = Duration::from_millis(2);

/// So many tasks take a lock and free it, over and over, until the process is killed; says so once all have been in.
pub(crate) fn go_round(parent: &mut Parent, args: &[String]) {
    let tasks: usize = args[2].parse().expect("a number");
    let slice = Duration::from_millis(args[3].parse().expect("a number"));
    let section = Duration::from_millis(args[4].parse().expect("a number"));
    // One thread: two would take the processor from those who are measured.
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = connected(Client::builder().url(&args[0]).handover_slice(slice)).await;
        let (sender, mut been_in) = mpsc::channel(tasks);
        for _ in 0..tasks {
            let (lock, mut sender) = (client.lock(&args[1]), Some(sender.clone()));
            tokio::spawn(async move {
                loop {
                    let guard = lock.lock().await.expect("the server answers");
                    if let Some(sender) = sender.take() {
                        sender.send(()).await.expect("somebody counts");
                    }
                    if !section.is_zero() {
                        sleep(section).await;
                    }
                    guard.unlock().await.expect("it is held");
                }
            });
        }
        for _ in 0..tasks {
            been_in.recv().await;
        }
        parent.say("going");
        pending::<()>().await;
    });
}

/// A client so far from the server, each way, that enters beside a process with so many tasks: how long each entry took,
/// from its first try to the answer that let it in.
async fn entries(slice: Duration, way: Duration, [tasks, section]: [&str; 2]) -> Vec<Duration> {
    let (server, name) = (Server::own(), unique_name());
    let proxy = Proxy::to(&server);
    if !way.is_zero() {
        proxy.rule(any(), Action::DelayRequest(way));
        proxy.rule(push("message"), Action::DelayReply(way));
    }
    let waiting = connected(Client::builder().url(proxy.url()).handover_slice(slice)).await;
    let slice_ms = slice.as_millis().to_string();
    let greedy = Process::spawn("go_round", &[&server.url(), &name, tasks, &slice_ms, section]);
    greedy.hear();
    let mut took = Vec::new();
    for entry in 0..ENTRIES {
        // At other points of the others' slices every time.
        sleep(slice * (3 + 7 * entry % 20) / 10).await;
        proxy.clear_log();
        let entering = timeout(KEPT_OUT, waiting.lock(&name).lock()).await;
        let guard = entering.expect("it is not kept out altogether").expect("the server answers");
        let log = proxy.log();
        let is_answer =
            |event: &Event| matches!(event, Event::Reply { to, .. } if verb(to).as_deref() == Some("acquire"));
        let asked = log.iter().find(|it| it.script().as_deref() == Some("acquire")).expect("it tried").at;
        let entered = log.iter().rfind(|it| is_answer(&it.event)).expect("it was answered").at;
        took.push(entered - asked);
        guard.unlock().await.expect("it is held");
    }
    took
}

async fn enters_in_time(way: Duration, beside: [&str; 2]) {
    entries(DEFAULT, way, beside).await;
    let took = entries(LONG, way, beside).await;
    assert!(took.iter().all(|took| *took <= SLICES * LONG), "{took:?}");
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_process_with_a_full_queue() {
    enters_in_time(NEAR, FULL_QUEUE).await;
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_single_task_that_takes_the_lock_again_at_once() {
    enters_in_time(NEAR, SINGLE_TASK).await;
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_process_with_a_full_queue() {
    enters_in_time(FARTHER, FULL_QUEUE).await;
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_single_task_that_takes_the_lock_again_at_once() {
    enters_in_time(FARTHER, SINGLE_TASK).await;
}
