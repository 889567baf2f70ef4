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
        clock::monotonic,
        lag::Lag,
        monitor::Ran,
        process::{Parent, Process},
        proxy::{
            Action, Proxy,
            matching::{any, push},
        },
        unique_name,
    },
    kept::connected,
};

/// So many slices a waiter elsewhere may have to wait.
const SLICES: u32 = 5;
/// For so many slices the other process may take the free key again: the one that runs when the waiter comes, and one more
/// if that ended before the waiter was heard of.
const UNHEARD: u32 = 2;
/// The slice under which every single wait is held to its bounds. A busy machine takes a thread away for longer than the
/// default, and whoever is late by a slice loses a turn; no such pause reaches this one.
const LONG: Duration = Duration::from_millis(120);
/// What a slice is by default. Under it all waits together are held to their bounds.
const DEFAULT: Duration = Duration::from_millis(10);
const KEPT_OUT: Duration = Duration::from_secs(5);
/// So often the waiter enters: a process that comes back too early does so at some of them.
const ENTRIES: u32 = 12;
/// How far the waiter is from the server.
const NEAR: Duration = Duration::ZERO;
const FARTHER: Duration = Duration::from_millis(2);

/// Who wants the lock all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greed {
    /// Many tasks, so that somebody of this process always waits.
    FullQueue,
    /// One that is in the lock for a sixth of a slice each time.
    Sections,
    /// One that has nothing to do in there, and waits for each release.
    Unlocks,
    /// The same, and does not wait: the next acquire goes out right behind the release.
    Drops,
}

impl Greed {
    const ALL: [Self; 4] = [Self::FullQueue, Self::Sections, Self::Unlocks, Self::Drops];

    fn tasks(self) -> usize {
        if self == Self::FullQueue { 16 } else { 1 }
    }

    fn section(self, slice: Duration) -> Duration {
        if self == Self::Sections { slice / 6 } else { Duration::ZERO }
    }

    /// How often it may take the free key while somebody elsewhere waits. What a loop does within a slice is its own; how
    /// often that is without anything to do in there says only how fast the machine is.
    fn turns(self) -> usize {
        match self {
            Self::FullQueue => 1,
            Self::Sections => 10,
            Self::Unlocks | Self::Drops => usize::MAX,
        }
    }
}

/// Tasks take a lock and free it, over and over, until the process is killed; says so once all have been in.
pub(crate) fn go_round(parent: &mut Parent, args: &[String]) {
    let slice = Duration::from_millis(args[2].parse().expect("a number"));
    let greed = Greed::ALL.into_iter().find(|greed| format!("{greed:?}") == args[3]).expect("a kind of greed");
    // One thread: two would take the processor from those who are measured.
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = connected(Client::builder().url(&args[0]).handover_slice(slice)).await;
        let (sender, mut been_in) = mpsc::channel(greed.tasks());
        for _ in 0..greed.tasks() {
            let (lock, mut sender) = (client.lock(&args[1]), Some(sender.clone()));
            tokio::spawn(async move {
                loop {
                    let guard = lock.lock().await.expect("the server answers");
                    if let Some(sender) = sender.take() {
                        sender.send(()).await.expect("somebody counts");
                    }
                    let section = greed.section(slice);
                    if !section.is_zero() {
                        sleep(section).await;
                    }
                    if greed == Greed::Drops {
                        drop(guard);
                    } else {
                        guard.unlock().await.expect("it is held");
                    }
                }
            });
        }
        for _ in 0..greed.tasks() {
            been_in.recv().await;
        }
        parent.say("going");
        pending::<()>().await;
    });
}

/// One entry of the waiter.
#[derive(Debug)]
struct Wait {
    /// From the call to the guard.
    took: Duration,
    /// When the other process took the free key between the waiter's first busy try and its entry, counted from that
    /// try. The server itself says so: no pause of the machine changes the order.
    overtaken: Vec<Duration>,
    /// How late the machine itself was meanwhile.
    lag: Duration,
}

impl Wait {
    fn read((took, lag): (Duration, Duration), ran: &[Ran], name: &str, waiter: &Client) -> Self {
        let (mut busy, mut overtaken) = (None, Vec::new());
        for ran in ran.iter().filter(|ran| ran.by_script && ran.words.get(1).is_some_and(|key| key == name.as_bytes()))
        {
            let ours = ran.words.get(2).is_some_and(|field| field.starts_with(waiter.id().to_string().as_bytes()));
            // Whoever meets somebody else's hold looks for its own field; whoever meets none writes it.
            match (ran.name().as_str(), ours) {
                ("HGET", true) => busy = busy.or(Some(ran.at)),
                ("HINCRBY", true) => break,
                ("HINCRBY", false) => overtaken.extend(busy.map(|busy| ran.at.saturating_sub(busy))),
                _ => {}
            }
        }
        Self { took, overtaken, lag }
    }
}

/// A client so far from the server, each way, enters beside a greedy process.
async fn waits(slice: Duration, way: Duration, greed: Greed) -> Vec<Wait> {
    let (server, name) = (Server::own(), unique_name());
    let proxy = Proxy::to(&server);
    proxy.rule(any(), Action::DelayRequest(way));
    proxy.rule(push("message"), Action::DelayReply(way));
    let url = if way.is_zero() { server.url() } else { proxy.url() };
    let waiting = connected(Client::builder().url(url).handover_slice(slice)).await;
    let slice_ms = slice.as_millis().to_string();
    let greedy = Process::spawn("go_round", &[&server.url(), &name, &slice_ms, &format!("{greed:?}")]);
    greedy.hear();
    let monitor = server.monitor();
    let mut waits = Vec::new();
    for entry in 0..ENTRIES {
        // At other points of the others' slices every time.
        sleep(slice * (3 + 7 * entry % 20) / 10).await;
        monitor.take();
        let (lag, asked) = (Lag::watch(), monotonic());
        let entering = timeout(KEPT_OUT, waiting.lock(&name).lock()).await;
        let took = (monotonic() - asked, lag.added_to(Duration::ZERO));
        let guard = entering.expect("it is not kept out altogether").expect("the server answers");
        guard.unlock().await.expect("it is held");
        waits.push(Wait::read(took, &monitor.take(), &name, &waiting));
    }
    waits
}

async fn enters_in_time(way: Duration, greed: Greed) {
    for wait in waits(LONG, way, greed).await {
        let last = wait.overtaken.last().copied().unwrap_or_default();
        let (took, taken) = (SLICES * LONG + wait.lag, UNHEARD * LONG + wait.lag);
        assert!(wait.took <= took && last <= taken, "{greed:?}: {wait:?}");
        assert!(wait.overtaken.len() <= greed.turns(), "{greed:?}: {wait:?}");
    }
    let waits = waits(DEFAULT, way, greed).await;
    let (took, lag): (Vec<_>, Vec<_>) = waits.iter().map(|wait| (wait.took, wait.lag)).unzip();
    let (took, lag): (Duration, Duration) = (took.iter().sum(), lag.iter().sum());
    let turns: usize = waits.iter().map(|wait| wait.overtaken.len()).sum();
    assert!(took <= ENTRIES * SLICES * DEFAULT + lag, "{greed:?}: {waits:?}");
    // Every other turn may be one that a pause of the machine took away.
    assert!(turns <= waits.len().saturating_mul(greed.turns()).saturating_mul(2), "{greed:?}: {waits:?}");
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_process_with_a_full_queue() {
    enters_in_time(NEAR, Greed::FullQueue).await;
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_process_with_a_full_queue() {
    enters_in_time(FARTHER, Greed::FullQueue).await;
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_single_task_that_takes_the_lock_again_at_once() {
    enters_in_time(NEAR, Greed::Sections).await;
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_single_task_that_takes_the_lock_again_at_once() {
    enters_in_time(FARTHER, Greed::Sections).await;
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_a_single_task_with_empty_sections() {
    enters_in_time(NEAR, Greed::Unlocks).await;
    enters_in_time(NEAR, Greed::Drops).await;
}

#[tokio::test]
async fn a_farther_waiter_enters_within_five_slices_beside_a_single_task_with_empty_sections() {
    enters_in_time(FARTHER, Greed::Unlocks).await;
    enters_in_time(FARTHER, Greed::Drops).await;
}
