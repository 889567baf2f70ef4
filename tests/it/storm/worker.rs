//! A process of the storm: tasks that lock, nest, extend, leave, drop and give up, as the dice fall, and write down what
//! they believe. What goes wrong around them is `chaos.rs`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use relatch::{Client, Error, Lease, LockGuard, Owner};
use tokio::{
    runtime::{Builder, Handle},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    dice::Dice,
    record::{Counter, Fact, Record, Section},
};
use crate::harness::{clock::monotonic, process::Parent};

/// Short, so that leases do run out under faults.
pub(crate) const WATCHDOG: Duration = Duration::from_millis(900);
/// No fixed lease and no extension is longer.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_millis(1500);
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_millis(300);
const UNREACHABLE_AFTER: Duration = Duration::from_millis(900);
const TASKS: u64 = 4;
/// A client that is at rest is as it was before within this: the longest lease and its last reap, and a little more.
const SETTLING: Duration = Duration::from_secs(8);

/// What every task of a process has.
struct Crew {
    client: Client,
    record: Record,
    names: Vec<String>,
    counters: Vec<Counter>,
    process: u32,
    incarnation: u32,
    drawn: AtomicU32,
    resting: AtomicBool,
    /// Enters without the lock now and then: what the verdict must find.
    cheats: bool,
}

/// Arguments: folder, url, process, incarnation, seed, `cheat` or `honest`, names.
pub(crate) fn work(parent: &mut Parent, args: &[String]) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts");
    let [folder, url, process, incarnation, seed, honesty, names @ ..] = args else { panic!("arguments are missing") };
    let number = |text: &String| text.parse::<u32>().expect("a number");
    let (process, incarnation) = (number(process), number(incarnation));
    let dice = Dice::new(seed.parse().expect("a seed")).apart(u64::from(process) << 32 | u64::from(incarnation));
    let folder = PathBuf::from(folder);
    let client = runtime.block_on(connect(url));
    let crew = Arc::new(Crew {
        client,
        record: Record::create(&Record::path(&folder, process, incarnation)),
        names: names.to_vec(),
        counters: (0..names.len()).map(|name| Counter::of(&folder, name)).collect(),
        process,
        incarnation,
        drawn: AtomicU32::new(0),
        resting: AtomicBool::new(true),
        cheats: honesty == "cheat",
    });
    let ended = Arc::new(Mutex::new(JoinSet::new()));
    loop {
        match parent.hear().as_str() {
            "work" => {
                crew.resting.store(false, Ordering::Release);
                let mut tasks = ended.lock().unwrap_or_else(PoisonError::into_inner);
                for task in 0..TASKS {
                    let dice = dice.apart(1 + task + 1000 * u64::from(crew.drawn.load(Ordering::Relaxed)));
                    tasks.spawn_on(sections(Arc::clone(&crew), dice), runtime.handle());
                }
            }
            "rest" => {
                crew.resting.store(true, Ordering::Release);
                let tasks = std::mem::take(&mut *ended.lock().unwrap_or_else(PoisonError::into_inner));
                runtime.block_on(async { tasks.join_all().await });
                parent.say("rests");
            }
            "weigh" => parent.say(&runtime.block_on(settled(runtime.handle()))),
            _ => break,
        }
    }
    runtime.block_on(crew.client.close());
}

/// As often as it takes: the storm may be at the door already.
async fn connect(url: &str) -> Client {
    loop {
        let client = Client::builder()
            .url(url)
            .watchdog_timeout(WATCHDOG)
            .command_timeout(COMMAND_TIMEOUT)
            .unreachable_after(UNREACHABLE_AFTER);
        match client.connect().await {
            Ok(client) => return client,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Tasks, descriptors and kilobytes, once the tasks are as few as they get.
async fn settled(runtime: &Handle) -> String {
    let started = Instant::now();
    let mut least = usize::MAX;
    // The fewest that stay the fewest for a while.
    let mut since = Instant::now();
    while started.elapsed() < SETTLING && since.elapsed() < SETTLING / 2 {
        let tasks = runtime.metrics().num_alive_tasks();
        if tasks < least {
            (least, since) = (tasks, Instant::now());
        }
        sleep(Duration::from_millis(20)).await;
    }
    let tasks = runtime.metrics().num_alive_tasks();
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kilobytes: u64 = kilobytes.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    format!("{tasks} {descriptors} {kilobytes}")
}

async fn sections(crew: Arc<Crew>, mut dice: Dice) {
    while !crew.resting.load(Ordering::Acquire) {
        let number = crew.drawn.fetch_add(1, Ordering::Relaxed);
        let name = usize::try_from(dice.of(crew.names.len() as u64)).expect("an index");
        if dice.of(400) == 0 {
            let from = monotonic();
            let _ = crew.client.lock(&crew.names[name]).force_unlock().await;
            crew.record.note(number, &Fact::Forced { name, from, until: monotonic() });
        } else if crew.cheats && dice.percent(5) {
            cheat(&crew, number, name).await;
        } else {
            section(&crew, &mut dice, number, name).await;
        }
        if dice.percent(30) {
            sleep(dice.millis(0, 10)).await;
        }
    }
}

/// How an acquisition asks.
async fn ask(
    crew: &Crew,
    dice: &mut Dice,
    name: &str,
    wait: Option<Duration>,
    lease: Lease,
    max_hold: Option<Duration>,
) -> Option<relatch::Result<Option<LockGuard>>> {
    let patience = if dice.percent(15) { dice.millis(0, 40) } else { Duration::MAX };
    let lock = crew.client.lock(name);
    match wait {
        None if dice.percent(20) => {
            let mut acquire = crew.client.mutex(name).lock().lease(lease);
            if let Some(bound) = max_hold {
                acquire = acquire.max_hold(bound);
            }
            timeout(patience, acquire).await.ok().map(|answer| answer.map(Some))
        }
        None => {
            let mut acquire = lock.lock().lease(lease);
            if let Some(bound) = max_hold {
                acquire = acquire.max_hold(bound);
            }
            timeout(patience, acquire).await.ok().map(|answer| answer.map(Some))
        }
        Some(wait) => {
            let mut acquire = lock.try_lock().wait(wait).lease(lease);
            if let Some(bound) = max_hold {
                acquire = acquire.max_hold(bound);
            }
            timeout(patience, acquire).await.ok()
        }
    }
}

async fn section(crew: &Arc<Crew>, dice: &mut Dice, number: u32, name: usize) {
    let wait = match dice.of(3) {
        0 => None,
        1 => Some(Duration::ZERO),
        _ => Some(dice.millis(1, 400)),
    };
    let max_hold = dice.percent(10).then(|| dice.millis(10, 200));
    let asked = Fact::Asked { name, at: monotonic(), wait: wait.map(|wait| wait.max(allowed(wait))) };
    crew.record.note(number, &asked);
    let lease = lease(dice);
    let over = |how: &str| crew.record.note(number, &Fact::Over { at: monotonic(), how: how.to_owned() });
    let guard = match ask(crew, dice, &crew.names[name], wait, lease, max_hold).await {
        None => return over("asked no longer"),
        Some(Ok(None)) => return over("busy"),
        Some(Err(Error::Unreachable { .. })) => return over("unreachable"),
        Some(Err(error)) => return over(&format!("failed: {error}")),
        Some(Ok(Some(guard))) => guard,
    };
    let diary = Diary { crew, number, name };
    if guard.is_held() {
        crew.record.note(number, &Fact::Entered { at: monotonic() });
        diary.inside(dice, &guard).await;
    }
    if !guard.is_held() {
        let cause = guard.lost().await;
        let cause = match cause {
            Error::Lost { cause, .. } => format!("{cause:?}"),
            other => format!("{other}"),
        };
        crew.record.note(number, &Fact::Lost { at: monotonic(), cause });
    }
    over(leave(dice, &diary, guard).await);
}

/// A try without a wait may take a command's time.
fn allowed(wait: Duration) -> Duration {
    if wait.is_zero() { COMMAND_TIMEOUT } else { wait }
}

fn lease(dice: &mut Dice) -> Lease {
    if dice.percent(60) { Lease::Watchdog } else { dice.millis(100, 1000).into() }
}

/// Where a section writes down what it believes.
struct Diary<'a> {
    crew: &'a Arc<Crew>,
    number: u32,
    name: usize,
}

impl Diary<'_> {
    /// Looks whether it still holds, and notes it if so.
    fn look(&self, guard: &LockGuard) -> bool {
        let at = monotonic();
        let held = guard.is_held();
        if held {
            self.crew.record.note(self.number, &Fact::Held { at });
        }
        held
    }

    /// What is done under the lock; it ends early when the lock is lost.
    async fn inside(&self, dice: &mut Dice, guard: &LockGuard) {
        let Crew { client, counters, names, process, incarnation, .. } = &**self.crew;
        let counter = &counters[self.name];
        let saw = counter.value();
        if !self.look(guard) {
            return;
        }
        for _ in 0..dice.of(4) {
            sleep(dice.millis(0, 8)).await;
            if !self.look(guard) {
                return;
            }
            match dice.of(12) {
                0 => drop(guard.extend(dice.millis(100, 1000)).await),
                1..=3 => {
                    // Of the same owner: as a task's own, or as the mutex's.
                    let nested = client.lock(&names[self.name]).lock().owner(guard.owner()).lease(lease(dice));
                    let nested = timeout(dice.millis(5, 2000), nested).await;
                    sleep(dice.millis(0, 3)).await;
                    if !self.look(guard) {
                        return;
                    }
                    if let Ok(Ok(nested)) = nested
                        && dice.percent(50)
                    {
                        drop(nested.unlock().await);
                    }
                }
                4 => drop(guard.protect(sleep(dice.millis(0, 3))).await),
                5 if dice.percent(10) => sleep(WATCHDOG + dice.millis(0, 200)).await,
                _ => {}
            }
        }
        if self.look(guard) {
            let section = Section { process: *process, incarnation: *incarnation, number: self.number };
            let place = counter.add(section);
            self.crew.record.note(self.number, &Fact::Counted { saw, place });
            self.look(guard);
        }
    }
}

/// One of the ways out; how it went.
async fn leave(dice: &mut Dice, diary: &Diary<'_>, guard: LockGuard) -> &'static str {
    diary.crew.record.note(diary.number, &Fact::Leaving { at: monotonic() });
    match dice.of(6) {
        0 | 1 => {
            let released = guard.unlock().await;
            match released {
                Ok(_) => "unlocked",
                Err(Error::Lost { .. }) => "unlocked when lost",
                Err(Error::Unreachable { .. }) => "unlock not answered",
                Err(_) => "unlock failed",
            }
        }
        2 => {
            let mut unlock = Box::pin(guard.unlock());
            let answered = timeout(dice.millis(0, 3), &mut unlock).await;
            if answered.is_ok() { "unlocked" } else { "unlock dropped" }
        }
        3 => {
            let owner: Owner = guard.detach();
            let released = diary.crew.client.lock(&diary.crew.names[diary.name]).unlock().owner(&owner).await;
            if released.is_ok() { "unlocked detached" } else { "detached unlock failed" }
        }
        4 => {
            std::thread::spawn(move || drop(guard)).join().expect("a drop does not panic");
            "dropped on a thread"
        }
        _ => {
            drop(guard);
            "dropped"
        }
    }
}

/// Believes without asking.
async fn cheat(crew: &Crew, number: u32, name: usize) {
    let note = |fact| crew.record.note(number, &fact);
    note(Fact::Asked { name, at: monotonic(), wait: None });
    note(Fact::Entered { at: monotonic() });
    sleep(Duration::from_millis(5)).await;
    note(Fact::Held { at: monotonic() });
    note(Fact::Over { at: monotonic(), how: "cheated".to_owned() });
}

/// Where a process of this incarnation writes.
pub(crate) fn record(folder: &Path, process: u32, incarnation: u32) -> PathBuf {
    Record::path(folder, process, incarnation)
}
