//! Many clients on a store in this process, on a paused clock, while everything that can befall them does: what each of them
//! sees is judged at the instant at which it sees it. Everything comes from a seed: `RELATCH_SIM_SEED` repeats one,
//! `RELATCH_SIM_SEEDS` says how many, `RELATCH_SIM_SECS` for how long; `RELATCH_SIM_BEFORE` how much is shown before a
//! complaint, in milliseconds, and then of all names. `RELATCH_SIM_FIRST` is where a range of seeds begins; with
//! `RELATCH_SIM_GO_ON=1` it goes on after a complaint, and all of them are shown in the end. There are two: of one server,
//! and of several nodes, whose masters are replaced and whose slots move as well.
//!
//! | what | file |
//! | --- | --- |
//! | clients, tasks, and what befalls them | `crew.rs` |
//! | what a section does | `section.rs` |
//! | sections that take several names at once, and how far those have come | `several.rs`, `gatherings.rs` |
//! | what befalls the nodes of a store, and what that excuses | `nodes.rs` |
//! | of which kind each name's lock is | `kinds.rs` |
//! | names whose holders have tokens that grow, and names that are held by tokens | `fences.rs`, `tokens.rs` |
//! | fleets that do a periodic job, a simulation of their own | `jobs.rs` |
//! | days on which replicas are to know of grants | `replicas.rs` |
//! | what is known of everybody | `referee.rs`, `shadow.rs` |
//! | what must be true at an answer and at a look | `rules.rs` |
//! | what must be true in between | `probe.rs` |

mod crew;
mod fences;
mod gatherings;
mod jobs;
mod kinds;
mod nodes;
mod probe;
mod referee;
mod replicas;
mod rules;
mod section;
mod several;
mod shadow;
mod tokens;

use std::{
    cell::Cell,
    collections::BTreeMap,
    env, fmt, panic,
    sync::{
        Arc, Once,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use relatch::EmbeddedStore;
use tokio::{
    runtime::{Builder, Handle},
    sync::Notify,
    time::sleep,
};

use self::{
    crew::{Crew, Mix},
    referee::{Complaint, Referee},
};
use crate::harness::random::Random;

const NAMES: [&str; 3] = ["north", "east", "south"];
/// No lease is longer.
const LONGEST_LEASE: Duration = Duration::from_secs(8);
/// What is let go of is over by then, whoever hears of it: the hold may last for a lease, what runs late makes it last for another
/// one, and a hand-over that runs when that is over for a third.
const LONGEST_RELEASE: Duration = LONGEST_LEASE.saturating_mul(3);
/// How long one command may take.
const COMMAND: Duration = Duration::from_millis(300);
/// How many seeds there are unless the environment says otherwise.
const SEEDS: u64 = 8;
/// How much is shown before a complaint, unless the environment says otherwise, in milliseconds.
const BEFORE: u64 = 500;
const MOST_LINES: usize = 150;

/// What the clients of a simulation work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    /// A server that nobody ever replaces.
    One,
    /// The nodes of a cluster.
    Nodes,
    /// A server that a fleet does a job by.
    Fleet,
}

/// What came of one simulation.
#[derive(Debug, Default)]
struct Outcome {
    complaint: Option<Complaint>,
    sections: usize,
    holds: usize,
    faults: BTreeMap<&'static str, usize>,
    /// What happened, as text; only where it was asked for or there is a complaint.
    story: Vec<(Duration, String)>,
}

/// One whole simulation, unless it is tripped.
fn simulate(servers: Servers, seed: u64, told: bool, tripped: &Notify) -> Outcome {
    let before = panics();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime starts");
    runtime.block_on(async {
        let mut random = Random::new(seed, &[]);
        let mix = Mix::draw(seed, &mut random);
        let (store, mix) = match servers {
            Servers::One | Servers::Fleet => (EmbeddedStore::seeded(seed), mix),
            Servers::Nodes => nodes::draw(seed, mix),
        };
        let referee = Arc::new(Referee::new(store.clone(), &mix));
        let mut crew = Crew::gather(&store, &referee, mix, &mut random).await;
        tokio::select! {
            biased;
            () = referee.complained.notified() => {}
            () = tripped.notified() => referee.complain("the clock stands still", None, "something never rests"),
            () = whole(&mut crew, &store, &referee, mix.last_calm()) => {}
        }
        if panics() > before {
            referee.complain("something panicked", None, "in a section or in the background");
        }
        drop(referee.up_to_date());
        let mut book = referee.book();
        let complaint = book.complaint.take();
        let story = if told || complaint.is_some() { book.story() } else { Vec::new() };
        let mut faults = std::mem::take(&mut crew.faults);
        faults.extend(["given away", "extended elsewhere", "ran out without harm"].into_iter().zip(book.tokens.counts));
        Outcome { complaint, sections: book.sections, holds: book.holds, faults, story }
    })
}

/// From the first section to the last, and until nothing is left.
async fn whole(crew: &mut Crew, store: &EmbeddedStore, referee: &Referee, last_calm: Duration) {
    crew.calm(Duration::from_millis(200)).await;
    crew.storm(Duration::from_millis(1_800)).await;
    crew.fail_over(Duration::from_millis(2_500)).await;
    crew.calm(last_calm).await;
    crew.end().await;
    referee.check(LONGEST_LEASE);
    // Whatever a client that crashed had runs out, and what may still come of an old copy is looked for no more.
    sleep(LONGEST_LEASE * 4 / 3 + Duration::from_secs(1)).await;
    let left = |referee: &Referee, unheard: usize| {
        let (mut keys, listeners) = (store.keys(), store.listeners());
        keys.retain(|key| !crew.mix.stays(key));
        if !keys.is_empty() || listeners.iter().any(|(_, listeners)| *listeners > unheard) {
            referee.complain("something is left on the store", None, format!("{keys:?} {listeners:?}"));
        }
    };
    left(referee, referee.crashed());
    // Nobody answers a client that crashed, and it repeats its releases.
    sleep(referee.crashed_until().saturating_sub(referee.now())).await;
    left(referee, 0);
    crew.scatter();
    sleep(Duration::from_secs(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks != 0 {
        referee.complain("a task is left", None, tasks);
    }
}

impl Outcome {
    /// The complaint, with what happened around it.
    fn report(&self, seed: u64) -> Option<String> {
        let Complaint { rule, what, at, name } = self.complaint.as_ref()?;
        let before = asked("RELATCH_SIM_BEFORE");
        let all = before.is_some();
        let about = |line: &str| {
            let of_others = || NAMES.iter().any(|other| line.contains(other));
            all || name.is_none_or(|name| line.contains(NAMES[name]) || !of_others())
        };
        let (most, shown) =
            (before.map_or(MOST_LINES, |_| usize::MAX), Duration::from_millis(before.unwrap_or(BEFORE)));
        let near = self.story.iter().filter(|(when, line)| *when + shown >= *at && *when <= *at && about(line));
        let lines: Vec<_> = near.map(|(when, line)| format!("{:.6} {line}", when.as_secs_f64())).collect();
        let shown = lines[lines.len().saturating_sub(most)..].join("\n");
        Some(format!("{rule}: {what}, at {at:?}\n{shown}\nAgain with RELATCH_SIM_SEED={seed}"))
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// A simulation takes a small part of that.
const STANDSTILL: Duration = Duration::from_secs(60);

/// A simulation that is ended where its clock stands still: something is done again and again at one instant.
fn watched(servers: Servers, seed: u64, told: bool) -> Outcome {
    let (tripped, over) = (Notify::new(), mpsc::channel::<()>());
    thread::scope(|scope| {
        let (trip, ended) = (&tripped, over.1);
        scope.spawn(move || {
            if ended.recv_timeout(STANDSTILL) == Err(RecvTimeoutError::Timeout) {
                trip.notify_one();
            }
        });
        let outcome = match servers {
            Servers::Fleet => jobs::simulate(seed, told, &tripped),
            Servers::One | Servers::Nodes => simulate(servers, seed, told, &tripped),
        };
        drop(over.0);
        outcome
    })
}

thread_local! {
    /// How often something panicked on this thread: what panics in the background is told to nobody.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

fn panics() -> usize {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            PANICS.set(PANICS.get() + 1);
            usual(what);
        }));
    });
    PANICS.get()
}

/// What came of many.
#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    sections: usize,
    holds: usize,
    faults: BTreeMap<&'static str, usize>,
    reports: Vec<String>,
}

/// What is done about a complaint while there are more seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Complained {
    Stop,
    GoOn,
}

/// Runs seeds on two threads, each on a runtime of its own, until there were enough of them or for so long.
fn many(servers: Servers, first: u64, seeds: u64, long: Option<Duration>, complained: Complained) -> Sum {
    let (next, started) = (AtomicU64::new(first), Instant::now());
    let lane = || {
        let mut sum = Sum::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let enough = seed - first >= seeds || long.is_some_and(|long| started.elapsed() >= long);
            if enough || complained == Complained::Stop && !sum.reports.is_empty() {
                return sum;
            }
            let outcome = watched(servers, seed, false);
            sum.reports.extend(outcome.report(seed));
            sum.add(Sum {
                seeds: 1,
                sections: outcome.sections,
                holds: outcome.holds,
                faults: outcome.faults,
                reports: Vec::new(),
            });
        }
    };
    thread::scope(|scope| {
        let lanes = [scope.spawn(lane), scope.spawn(lane)];
        let mut sum = Sum::default();
        for lane in lanes {
            sum.add(lane.join().expect("no lane panics"));
        }
        sum
    })
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.sections += other.sections;
        self.holds += other.holds;
        for (kind, times) in other.faults {
            *self.faults.entry(kind).or_default() += times;
        }
        self.reports.extend(other.reports);
    }
}

fn asked(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}

#[test]
fn whatever_befalls_the_clients_of_a_store_nothing_is_seen_that_must_not_be() {
    nothing_is_seen_that_must_not_be(Servers::One);
}

#[test]
fn whatever_befalls_the_nodes_of_a_store_too_nothing_is_seen_that_must_not_be() {
    nothing_is_seen_that_must_not_be(Servers::Nodes);
}

fn nothing_is_seen_that_must_not_be(servers: Servers) {
    let started = Instant::now();
    let long = asked("RELATCH_SIM_SECS").map(Duration::from_secs);
    let (first, seeds) = match asked("RELATCH_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (
            asked("RELATCH_SIM_FIRST").unwrap_or(1),
            asked("RELATCH_SIM_SEEDS").unwrap_or(if long.is_some() { u64::MAX } else { SEEDS }),
        ),
    };
    let complained =
        if asked("RELATCH_SIM_GO_ON").is_some_and(|on| on > 0) { Complained::GoOn } else { Complained::Stop };
    let sum = many(servers, first, seeds, long, complained);
    let took = started.elapsed();
    println!(
        "{} seeds in {took:.1?}: {} sections, {:.0} a second, {} holds\n  faults {:?}",
        sum.seeds,
        sum.sections,
        sum.sections as f64 / took.as_secs_f64(),
        sum.holds,
        sum.faults,
    );
    assert!(sum.reports.is_empty(), "{}", sum.reports.join("\n\n"));
    assert!(sum.holds > 10 || seeds == 1, "nothing happened");
}

#[test]
fn the_same_seed_is_the_same_story_to_the_letter() {
    for (servers, seed) in
        [(Servers::One, 3), (Servers::One, 4), (Servers::One, 5), (Servers::Nodes, 3), (Servers::Fleet, 3)]
    {
        let story = || watched(servers, seed, true).story;
        let (once, again) = (story(), story());
        for (line, (once, again)) in once.iter().zip(&again).enumerate() {
            assert_eq!(once, again, "line {line} of seed {seed}");
        }
        assert_eq!(once.len(), again.len());
        assert!(once.len() > 100, "nothing happened");
    }
    assert_ne!(watched(Servers::One, 3, true).story, watched(Servers::One, 4, true).story);
}
