//! Many who want one lock: never two at once, in their order, and with no more commands than it takes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::AsyncCommands;
use relatch::{Client, Lease, Owner, Released};
use tokio::{
    runtime::Runtime,
    task::{JoinSet, yield_now},
};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        looking::looking,
        process::{Parent, Process},
        proxy::Proxy,
        unique_name,
    },
    kept::{client, connected, kept, poll_once, teach},
};

const PROCESSES: usize = 4;
const CLIENTS: usize = 2;
const TASKS: usize = 8;
const ROUNDS: usize = 200;
/// What all of that takes at most; a lost wake-up would take a lease of 30 s.
const LONG: Duration = Duration::from_secs(60);

/// Several clients' tasks count up a plain key under a lock, once told to; says when each section began and ended.
pub(crate) fn count_up(parent: &mut Parent, args: &[String]) {
    let (url, name) = (&args[0], &args[1]);
    Runtime::new().expect("a runtime starts").block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(client(url).await);
        }
        let server = redis::Client::open(url.as_str()).expect("the url is good");
        let server = looking(&server).await;
        parent.say("ready");
        parent.hear();
        let mut tasks = JoinSet::new();
        for client in clients.iter().cycle().take(CLIENTS * TASKS) {
            let (lock, server, counter) = (client.lock(name), server.clone(), counter(name));
            tasks.spawn(async move {
                let mut sections = Vec::new();
                for _ in 0..ROUNDS {
                    let guard = lock.lock().await.expect("the server answers");
                    let began = monotonic();
                    count(server.clone(), &counter).await;
                    sections.push(format!("{}-{}", began.as_nanos(), monotonic().as_nanos()));
                    guard.unlock().await.expect("it is held");
                }
                sections
            });
        }
        parent.say(&tasks.join_all().await.concat().join(" "));
    });
}

fn counter(name: &str) -> String {
    format!("{name}-counter")
}

/// Not atomic: two at once would count as one.
async fn count(mut server: impl AsyncCommands, counter: &str) {
    let before: Option<u64> = server.get(counter).await.expect("the server answers");
    let _: () = server.set(counter, before.unwrap_or(0) + 1).await.expect("the server answers");
}

/// A section on the machine's clock, and the process it was in.
struct Section {
    began: u128,
    ended: u128,
    process: usize,
}

#[test]
fn sections_of_64_tasks_in_four_processes_never_overlap_and_lose_no_count() {
    let (server, name) = (Server::own(), unique_name());
    let spawn = |_| Process::spawn("count_up", &[&server.url(), &name]);
    let mut processes: Vec<Process> = (0..PROCESSES).map(spawn).collect();
    for process in &processes {
        process.hear();
    }
    processes.iter_mut().for_each(|process| process.say("go"));
    let mut sections = Vec::new();
    for (process, child) in processes.iter().enumerate() {
        let line = child.hear_within(LONG).expect("everybody comes to the end");
        sections.extend(line.split(' ').map(|section| {
            let (began, ended) = section.split_once('-').expect("two times");
            let time = |text: &str| text.parse().expect("a number");
            Section { began: time(began), ended: time(ended), process }
        }));
    }
    sections.sort_by_key(|section| section.began);
    assert!(sections.is_sorted_by(|earlier, later| earlier.ended <= later.began), "two were in at once");
    let changes = sections.windows(2).filter(|pair| pair[0].process != pair[1].process).count();
    assert!(changes > PROCESSES, "the processes came one after another: {changes} changes");
    let counted: usize = redis::cmd("GET").arg(counter(&name)).query(&mut server.connection()).expect("it was counted");
    assert_eq!((counted, sections.len()), (PROCESSES * CLIENTS * TASKS * ROUNDS, counted));
    assert_eq!(kept(&server, &name), None);
}

/// Ten tasks queue behind a holder and go through; in which order they entered, and what was sent.
async fn queue_up(lease: Lease, slice: Duration) -> (Vec<usize>, Vec<String>) {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url()).handover_slice(slice)).await;
    let lock = client.lock(&name);
    let first = lock.lock().owner(&Owner::new()).lease(lease).await.expect("it is free");
    let (sender, mut entered) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for task in 1..=10 {
        let mut acquire = lock.lock().owner(&Owner::new()).lease(lease);
        assert!(poll_once(&mut acquire).await.is_pending());
        let sender = sender.clone();
        tasks.spawn(async move {
            let guard = acquire.await.expect("the server answers");
            sender.send(task).expect("somebody counts");
            guard.unlock().await.expect("it is held");
        });
    }
    first.unlock().await.expect("it is held");
    tasks.join_all().await;
    drop(sender);
    let mut order = Vec::new();
    while let Some(task) = entered.recv().await {
        order.push(task);
    }
    assert_eq!(kept(server, &name), None);
    (order, proxy.log().iter().filter_map(|entry| entry.script()).collect())
}

/// Longer than the test.
const FOR_EVER: Duration = Duration::from_secs(60);

fn in_order() -> Vec<usize> {
    (1..=10).collect()
}

#[tokio::test]
async fn between_holds_under_the_watchdog_nothing_is_sent_and_who_came_first_is_first() {
    let (order, sent) = queue_up(Lease::Watchdog, FOR_EVER).await;
    assert_eq!(order, in_order());
    assert_eq!(sent, ["acquire", "release"]);
}

#[tokio::test]
async fn between_holds_of_fixed_leases_one_hand_over_is_sent_and_who_came_first_is_first() {
    let (order, sent) = queue_up(Lease::Fixed(Duration::from_secs(20)), FOR_EVER).await;
    assert_eq!(order, in_order());
    let mut wanted = vec!["acquire"];
    wanted.extend(["hand_over"; 10]);
    wanted.push("release");
    assert_eq!(sent, wanted);
}

#[tokio::test]
async fn where_every_release_frees_the_lock_who_came_first_is_first_all_the_same() {
    let (order, sent) = queue_up(Lease::Watchdog, Duration::ZERO).await;
    assert_eq!(order, in_order());
    assert_eq!(sent, ["acquire", "release"].iter().cycle().take(22).copied().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_a_try_lets_in_holds_until_it_unlocks_on_whichever_thread_it_runs() {
    const SECTIONS: usize = 1_000;
    let (server, name) = (Server::shared(), unique_name());
    let client = client(server.url()).await;
    let sections = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..2 * TASKS {
        let (lock, sections) = (client.lock(&name), Arc::clone(&sections));
        tasks.spawn(async move {
            while sections.load(Ordering::Relaxed) < SECTIONS {
                if let Some(guard) = lock.try_lock().await.expect("the server answers") {
                    // Other tasks run meanwhile, and this one goes on wherever there is room.
                    for _ in 0..5 {
                        yield_now().await;
                        assert!(lock.is_held() && guard.is_held() && lock.hold_count() == 1);
                    }
                    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
                    sections.fetch_add(1, Ordering::Relaxed);
                }
                yield_now().await;
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(kept(server, &name), None);
}
