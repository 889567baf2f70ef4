//! A fleet of processes on a few names while links, processes and servers fail at random: what they wrote down must
//! hold together. The faults come from a seed; `RELATCH_STORM_SECS` makes it longer, `RELATCH_STORM_SEED` repeats one,
//! `RELATCH_STORM_SLICE_MS` gives all processes the same slice, `RELATCH_STORM_ON` (`one`, `sentinel`, `cluster` or `masters`)
//! says what the servers are. Where they belong together, masters change: two processes keep their links and hold on meanwhile,
//! each a name of its own as well, and are told what was lost. Where they know nothing of each other, a majority of them grants:
//! what one of them loses excuses nothing.
//!
//! | what | file |
//! | --- | --- |
//! | which faults come when | `plan.rs` |
//! | what does them | `chaos.rs`; to several servers `failovers.rs`, to masters of a vote `masters.rs` |
//! | the servers, and the way to them | `servers.rs` |
//! | what a process and a section do | `worker.rs`, `section.rs` |
//! | where a section takes its lock | `locks.rs` |
//! | what they write down | `log.rs`, `counter.rs` |
//! | the processes as a whole | `fleet.rs` |
//! | what must be true of it | `checker.rs` |

mod chaos;
pub(crate) mod checker;
pub(crate) mod counter;
mod failovers;
mod fleet;
mod locks;
pub(crate) mod log;
mod masters;
mod plan;
pub(crate) mod section;
mod servers;
mod worker;

use std::{
    env, thread,
    time::{Duration, Instant, SystemTime},
};

use self::{
    chaos::Done,
    checker::Findings,
    fleet::Fleet,
    plan::{for_masters, for_nodes, for_process, for_server},
    servers::{Kind, Servers},
    worker::Footprint,
};

pub(crate) use self::worker::work;

const PROCESSES: u64 = 6;
const NAMES: usize = 3;
/// No hold is asked for longer at a time, unless its process is sheltered.
const LONGEST_LEASE: Duration = Duration::from_millis(750);
/// The same where a majority of masters grants. One that forgot counts for nothing for as long.
const VOTED_LEASE: Duration = Duration::from_millis(1_500);
/// How long one command may take.
const COMMAND: Duration = Duration::from_millis(300);
/// How late a command may run that somebody sent and has no answer to.
const LONGEST_HOLDUP: Duration = Duration::from_secs(5);
/// How long nobody is harassed before and after.
const CALM: Duration = Duration::from_millis(800);
/// So often they begin anew before it, until they are alike.
const MOST_ROUNDS: u32 = 6;
/// How long the storm lasts unless the environment says otherwise.
const STORM: Duration = Duration::from_secs(10);
/// How many complaints are shown.
const SHOWN: usize = 5;

/// On a cluster each of the first begins at another master. Behind them is one for each of them that goes where that goes.
fn name(number: usize) -> &'static str {
    ["storm:shore", "storm:east", "storm:south", "{storm:shore}:kept", "{storm:east}:kept", "{storm:south}:kept"]
        [number]
}

/// What a sheltered process has to itself.
fn kept_by(process: u64) -> usize {
    NAMES + usize::try_from(process).expect("a few") % NAMES
}

/// How long each process keeps a name to itself, in milliseconds.
const SLICES_MS: [u64; PROCESSES as usize] = [10, 0, 10, 40, 10, 1];

fn slice(process: u64) -> Duration {
    Duration::from_millis(asked("RELATCH_STORM_SLICE_MS").unwrap_or(SLICES_MS[(process % PROCESSES) as usize]))
}

fn longest_slice() -> Duration {
    (0..PROCESSES).map(slice).max().unwrap_or_default()
}

/// What the environment asks for.
fn asked(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect("a whole number"))
}

/// Whether there are faults.
#[derive(Clone, Copy)]
enum Weather {
    Rough,
    Calm,
}

/// What came of a run: what was wrong besides the chronicle, and what the checker found in it.
struct Outcome {
    wrong: Vec<String>,
    findings: Findings,
    summary: String,
}

/// One whole run of a fleet, harassed or not.
fn run(seed: u64, storm: Duration, weather: Weather, manners: &'static str, kind: Kind) -> Outcome {
    let mut fleet = Fleet::launch(seed, manners, kind);
    let (mut wrong, first) = before_the_storm(&mut fleet);
    fleet.say("go");
    let (done, seen) = match weather {
        Weather::Rough => rage(&mut fleet, seed, storm, kind),
        Weather::Calm => {
            thread::sleep(storm);
            (Vec::new(), Vec::new())
        }
    };
    wrong.extend(seen);
    thread::sleep(CALM);
    wrong.extend(fleet.rest());
    let last = fleet.has_not_grown(&first);
    let growth = match &last {
        Ok(last) => growth(&first, last),
        Err(_) => "unknown".to_owned(),
    };
    wrong.extend(last.err().map(|states| format!("at rest the processes are more than they were\n{states}")));
    let faults = faults(&done);
    let (chronicle, ends) = fleet.close(done);
    wrong.extend(ends);
    let findings = checker::check(chronicle);
    let Findings { claims, raises, excused, lost, ends, latest, .. } = &findings;
    let summary = format!(
        "seed {seed}, {storm:?} on {}: {claims} holds, {raises} counted, {excused} overlaps after losses of the server, \
         {lost} told of one, growth {growth}\n  faults {faults}\n  ends {ends:?}\n  latest {latest:?}",
        kind.word()
    );
    Outcome { wrong, findings, summary }
}

/// What the processes are at rest, once they have met everything: they are made alike. That may take some of them a while.
fn before_the_storm(fleet: &mut Fleet) -> (Vec<String>, Vec<Footprint>) {
    let (mut wrong, mut rounds) = (Vec::new(), 0);
    loop {
        fleet.say("go");
        thread::sleep(CALM);
        wrong.extend(fleet.rest());
        let first = fleet.settled();
        rounds += 1;
        if rounds == MOST_ROUNDS || first.iter().all(|other| other.is_like(&first[0])) {
            return (wrong, first);
        }
    }
}

/// Everything at once: each process, the servers, and a look at their keys.
fn rage(fleet: &mut Fleet, seed: u64, storm: Duration, kind: Kind) -> (Vec<Done>, Vec<String>) {
    let until = Instant::now() + storm;
    let (servers, ships) = (&fleet.servers, &mut fleet.ships);
    let (watched, longest) = (servers.to_look_at(), kind.longest_lease());
    thread::scope(|scope| {
        let looks = watched.iter().map(|server| scope.spawn(move || chaos::watch_keys(server, longest, until)));
        let looks: Vec<_> = looks.collect();
        let mut done = vec![scope.spawn(|| match servers {
            Servers::One(server) => chaos::harass_server(server, for_server(seed, NAMES), until),
            Servers::Several(nodes) => failovers::harass_nodes(nodes, for_nodes(seed, NAMES), until),
            Servers::Masters(servers) => masters::harass(servers, for_masters(seed, servers.len()), until),
        })];
        for ship in ships {
            let plan = for_process(seed, ship.number, kind.shelters(ship.number), ship.proxies.len());
            done.push(scope.spawn(move || chaos::harass(ship, plan, until)));
        }
        let done = done.into_iter().map(|lane| lane.join().expect("no lane panics")).collect();
        let seen = looks.into_iter().flat_map(|look| look.join().expect("the look at the keys does not panic"));
        (done, seen.collect())
    })
}

fn faults(done: &[Done]) -> String {
    let mut faults = std::collections::BTreeMap::new();
    for (kind, number) in done.iter().flat_map(|done| &done.faults) {
        *faults.entry(kind).or_insert(0) += number;
    }
    format!("{faults:?}")
}

fn growth(first: &[Footprint], last: &[Footprint]) -> String {
    let kib: Vec<isize> =
        first.iter().zip(last).map(|(first, last)| last.resident_kib as isize - first.resident_kib as isize).collect();
    format!("{kib:?} KiB, {} tasks and {} descriptors each", last[0].tasks, last[0].descriptors)
}

#[test]
fn no_two_believed_holds_overlap_whatever_happens_for_a_while() {
    let drawn = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("the epoch is over").as_nanos();
    let seed = asked("RELATCH_STORM_SEED").unwrap_or_else(|| drawn() as u64 % 1_000_000);
    let storm = asked("RELATCH_STORM_SECS").map_or(STORM, Duration::from_secs);
    let kind = Kind::asked();
    let Outcome { wrong, findings, summary } = run(seed, storm, Weather::Rough, "good", kind);
    println!("{summary}");
    let complaints: Vec<String> =
        wrong.into_iter().chain(findings.complaints.iter().map(ToString::to_string)).collect();
    let shown = complaints.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(
        complaints.is_empty(),
        "{} complaints, of which the first are\n\n{shown}\n\nAgain with RELATCH_STORM_ON={} \
         RELATCH_STORM_SEED={seed} RELATCH_STORM_SECS={}",
        complaints.len(),
        kind.word(),
        storm.as_secs(),
    );
    assert!(findings.claims > 100 && findings.raises > 30, "nothing happened");
}

#[test]
fn a_fleet_that_enters_without_the_lock_and_leaves_tasks_behind_is_found_out() {
    let Outcome { wrong, findings, .. } = run(1, Duration::from_secs(4), Weather::Calm, "barging", Kind::One);
    let complains = |about: &str| findings.complaints.iter().any(|complaint| complaint.what.contains(about));
    assert!(complains("two believe to hold name"), "{:?}", findings.complaints);
    assert!(complains("an update of the counter"), "{:?}", findings.complaints);
    assert!(wrong.iter().any(|wrong| wrong.starts_with("at rest the processes are more")), "{wrong:?}");
}
