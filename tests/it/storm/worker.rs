//! One process of the storm: a few tasks that go from section to section until they are told to rest.
//! What a section does is in `section.rs`.

use std::{
    fs,
    future::pending,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use relatch::Owner;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    NAMES,
    counter::{Counter, Guard},
    kept_by,
    locks::Locks,
    log::Log,
    plan::Random,
    section::Section,
    servers::Kind,
};
use crate::harness::process::Parent;

const TASKS: u64 = 4;
/// So many sections of a thousand are dropped wherever they are.
const ABANDONED: usize = 30;

/// What the tasks of a process share.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) locks: Locks,
    pub(super) log: Log,
    pub(super) counters: Vec<Counter>,
    pub(super) manners: Manners,
    /// No hold of this process is asked for longer at a time.
    pub(super) longest_lease: Duration,
    /// It is to hold on through what befalls the servers.
    pub(super) sheltered: bool,
    pub(super) kind: Kind,
    /// Which process, and the how manieth in its place.
    me: (u64, u64),
    seed: u64,
    numbers: AtomicU64,
    rest: AtomicBool,
}

/// How a process behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// As a user should.
    Good,
    /// Now and then it enters without the lock, and once it leaves a task behind.
    Barging,
}

/// What a process at rest is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) tasks: usize,
    pub(super) descriptors: usize,
    pub(super) resident_kib: usize,
}

/// Connects, goes, rests, tells its state and closes as it is told to. Its arguments: where to connect, where to write,
/// the seed, which process it is, the how manieth in its place, its manners, and what the servers are.
pub(crate) fn work(parent: &mut Parent, args: &[String]) {
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    let (folder, seed, process, life) = (PathBuf::from(&args[1]), number(2), number(3), number(4));
    let manners = if args[5] == "barging" { Manners::Barging } else { Manners::Good };
    let kind = Kind::of(&args[6]);
    let threads = 1 + process as usize % 2;
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build().expect("a runtime starts");
    let worker = Arc::new(Worker {
        locks: runtime.block_on(Locks::connect(&args[0], process, kind)),
        log: Log::open(&log_path(&folder, process, life)),
        counters: (0..NAMES).map(|name| Counter::open(&folder, name)).collect(),
        manners,
        longest_lease: kind.lease_of(process),
        sheltered: kind.shelters(process),
        kind,
        me: (process, life),
        seed,
        numbers: AtomicU64::new(0),
        rest: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    let mut rounds = 0;
    parent.say("connected");
    loop {
        match parent.hear().as_str() {
            "go" => {
                worker.rest.store(false, Ordering::Release);
                for task in 0..TASKS {
                    let task = rounds * TASKS + task;
                    tasks.spawn_on(Arc::clone(&worker).go(task), runtime.handle());
                }
                if rounds > 0 && manners == Manners::Barging {
                    runtime.spawn(pending::<()>());
                }
                rounds += 1;
            }
            "rest" => {
                worker.rest.store(true, Ordering::Release);
                runtime.block_on(async { while tasks.join_next().await.transpose().expect("no panic").is_some() {} });
                parent.say("resting");
            }
            "state" => parent.say(&Footprint::now(&runtime).to_string()),
            "close" => {
                runtime.block_on(worker.locks.close());
                parent.say("closed");
            }
            "end" => return,
            other => panic!("told to {other}"),
        }
    }
}

pub(super) fn log_path(folder: &Path, process: u64, life: u64) -> PathBuf {
    folder.join(format!("log-{process}-{life}"))
}

impl Worker {
    /// A number for something that is asked.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether nothing more is to be asked for.
    pub(super) fn rests(&self) -> bool {
        self.rest.load(Ordering::Acquire)
    }

    pub(super) fn guard(&self, number: u64) -> Guard {
        Guard { process: self.me.0, life: self.me.1, number }
    }

    async fn go(self: Arc<Self>, task: u64) {
        let mut random = Random::new(self.seed, &[3, self.me.0, self.me.1, task]);
        let mut number = 0;
        if self.sheltered && task.is_multiple_of(TASKS) {
            while !self.rests() {
                Section::kept(Arc::clone(&self), kept_by(self.me.0), (task, number), &mut random).keep().await;
                number += 1;
                sleep(random.millis(0, 30)).await;
            }
            return;
        }
        while !self.rests() {
            let section = Section::draw(Arc::clone(&self), (task, number), &mut random);
            let dropped_after = random.once_in_a_while(ABANDONED).then(|| random.millis(0, 60));
            let limit = dropped_after.unwrap_or(Duration::MAX);
            // One of its own, or the task's again and again.
            let ran = if random.once_in_a_while(300) {
                timeout(limit, Owner::new().scope(section.run())).await
            } else {
                timeout(limit, section.run()).await
            };
            drop(ran);
            number += 1;
            sleep(random.millis(0, 30)).await;
        }
    }
}

impl Footprint {
    fn now(runtime: &Runtime) -> Self {
        let status = fs::read_to_string("/proc/self/status").expect("a process has a state");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Self {
            tasks: runtime.metrics().num_alive_tasks(),
            descriptors: fs::read_dir("/proc/self/fd").expect("a process has descriptors").count(),
            resident_kib: resident.and_then(|kib| kib.parse().ok()).expect("a process has a size"),
        }
    }

    /// Whether it is made of as much.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.tasks, self.descriptors) == (other.tasks, other.descriptors)
    }

    pub(super) fn parse(line: &str) -> Self {
        let numbers: Vec<usize> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [tasks, descriptors, resident_kib] = numbers[..] else { panic!("no footprint: {line}") };
        Self { tasks, descriptors, resident_kib }
    }
}

impl std::fmt::Display for Footprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.tasks, self.descriptors, self.resident_kib)
    }
}
