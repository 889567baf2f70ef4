//! A storm: six processes lock, nest, extend and leave while everything around them goes wrong, and afterwards their
//! records are judged. Ten seconds of it by default; `RELATCH_STORM_SECS` for more, `RELATCH_STORM_SEED` to repeat one.

mod chaos;
mod dice;
mod fleet;
mod record;
mod verdict;
pub(crate) mod worker;

use std::{
    env,
    hash::{BuildHasher, RandomState},
    str::FromStr,
    time::Duration,
};

use self::{
    chaos::{Chaos, fair_weather},
    dice::Dice,
    fleet::{Fleet, Weight},
};
use crate::harness::{Server, eventually};

const PROCESSES: usize = 6;
const NAMES: usize = 3;
/// What a key needs to end by itself, and a little more.
const LEASE_AND_A_BIT: Duration = Duration::from_secs(5);
/// A process that has seen most faults once does not grow any more by so much.
const GROWTH_KB: u64 = 8 * 1024;

fn setting<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => default,
    }
}

fn server() -> Server {
    // Without `DEBUG` there is no sleeping in the server.
    Server::builder().line("enable-debug-command yes").start()
}

/// Nothing of the locks is left on the server, and nobody listens.
fn nothing_is_left(server: &Server) {
    eventually(LEASE_AND_A_BIT, || server.keys().is_empty());
    let channels = || -> Vec<String> {
        redis::cmd("PUBSUB").arg("CHANNELS").query(&mut server.connection()).expect("the server answers")
    };
    eventually(LEASE_AND_A_BIT, || channels().is_empty());
}

#[test]
fn no_two_believed_holds_overlap_whatever_happens() {
    let seconds: u64 = setting("RELATCH_STORM_SECS", 10);
    let seed = setting("RELATCH_STORM_SEED", RandomState::new().hash_one(0) >> 32);
    eprintln!("storm: RELATCH_STORM_SEED={seed} RELATCH_STORM_SECS={seconds}");
    let server = server();
    let mut fleet = Fleet::new(&server, PROCESSES, NAMES, seed, "honest");
    let mut chaos = Chaos::new(&server, &mut fleet, Dice::new(seed));
    let long = Duration::from_secs(seconds);
    chaos.rage(long / 3);
    chaos.fleet().rest();
    nothing_is_left(&server);
    let before = chaos.fleet().weigh();
    chaos.fleet().work();
    chaos.rage(long - long / 3);
    chaos.fleet().rest();
    nothing_is_left(&server);
    let after = chaos.fleet().weigh();
    chaos.fleet().end();
    let (circumstances, tally) = (chaos.circumstances, chaos.tally);
    let (run, counters) = fleet.records();
    let faults = run.faults(&counters, &circumstances);
    let sections = &run.tally;
    eprintln!("storm: {tally:?}\nstorm: {sections:?}\nstorm: {before:?}\nstorm: {after:?}");
    assert!(faults.is_empty(), "seed {seed}: {} faults, the first of them:\n{}", faults.len(), faults[0]);
    assert!(sections["counted"] >= seconds, "too little was done under the locks: {sections:?}");
    // By the first rest everybody has had what a client keeps open: its two links and the tasks that serve them.
    let most = |of: fn(&Weight) -> u64| before.iter().map(of).max().unwrap_or(0);
    for (process, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(after.tasks <= most(|weight| weight.tasks), "process {process} has tasks left: {before:?}, {after:?}");
        assert!(after.descriptors <= most(|weight| weight.descriptors), "process {process}: {before:?}, {after:?}");
        if before.incarnation == after.incarnation {
            assert!(after.kilobytes <= before.kilobytes + GROWTH_KB, "process {process} grows: {before:?}, {after:?}");
        }
    }
}

/// The same fleet in fair weather, but now and then somebody enters without the lock.
#[test]
fn somebody_who_enters_without_the_lock_is_found() {
    let server = server();
    let mut fleet = Fleet::new(&server, PROCESSES, NAMES, 1, "cheat");
    std::thread::sleep(Duration::from_secs(2));
    fleet.rest();
    fleet.end();
    let (run, counters) = fleet.records();
    let faults = run.faults(&counters, &fair_weather());
    assert!(faults.iter().any(|fault| fault.starts_with("both believed")), "{} faults: {faults:?}", faults.len());
}
