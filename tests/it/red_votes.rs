//! Many processes that vote over the same stores in this process, on a paused clock, and what befalls these: whose seed finds two holders
//! where the remedy is taken away, and none where it is there. `RELATCH_VOTES=10000` is how many rounds of contention there are,
//! `RELATCH_VOTE_SEEDS` how many seeds of faults; few by default.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    env,
    rc::Rc,
    time::Duration,
};

use relatch::{
    Client, EmbeddedStore, LockGuard, RedLock, RedLockBuilder,
    embedded::{Happening, Weather},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);

fn count_of(variable: &str, usual: usize) -> usize {
    env::var(variable).map_or(usual, |count| count.parse().expect("it is a number"))
}

fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

/// Stores, and the processes that know them all.
struct Fleet {
    stores: Vec<EmbeddedStore>,
    /// The clients of each process, one for each store.
    clients: Vec<Vec<Client>>,
    reds: Vec<RedLock>,
}

impl Fleet {
    async fn new(
        seed: u64,
        masters: usize,
        processes: usize,
        options: impl Fn(RedLockBuilder) -> RedLockBuilder,
    ) -> Self {
        let stores: Vec<_> = (0..masters).map(|at| EmbeddedStore::seeded(seed * 64 + at as u64)).collect();
        let (mut clients, mut reds) = (Vec::new(), Vec::new());
        for _ in 0..processes {
            let mut own = Vec::new();
            for store in &stores {
                own.push(
                    Client::builder().embedded(store).command_timeout(SECOND).connect().await.expect("it connects"),
                );
            }
            reds.push(options(RedLock::builder(own.clone())).watchdog_timeout(LEASE).build().expect("it is one"));
            clients.push(own);
        }
        Self { stores, clients, reds }
    }

    fn set_weather(&self, weather: &Weather) {
        self.stores.iter().for_each(|store| store.set_weather(weather.clone()));
    }
}

/// How many rounds it took until somebody had the lock, of contenders that all ask at once.
async fn rounds_until_one_has_it(fleet: &Fleet, name: &str) -> usize {
    fleet.stores[0].start_trace();
    let mut trying = JoinSet::new();
    for (at, red) in fleet.reds.iter().enumerate() {
        let lock = red.mutex(name);
        trying.spawn_local(async move {
            // Within a third of a round trip.
            sleep(MS * u32::try_from(at % 3).expect("few")).await;
            (at, lock.lock().await.expect("a majority answers"))
        });
    }
    let (at, guard) = trying.join_next().await.expect("somebody has it").expect("no panic");
    let (mut held, id) = (vec![guard], fleet.reds[at].id().to_string());
    while let Some(Ok((_, another))) = trying.try_join_next() {
        held.push(another);
    }
    assert_eq!(held.len(), 1, "two have it");
    trying.shutdown().await;
    // Under a number of its own each.
    let mut numbers = BTreeSet::new();
    for traced in fleet.stores[0].take_trace() {
        if let Happening::Ran(ran) = traced.what
            && ran.script() == "lua/reentrant/acquire.lua"
            && ran.args()[0].starts_with(&id)
        {
            numbers.insert(ran.args()[0].clone());
        }
    }
    for guard in held {
        guard.unlock().await.expect("releases");
    }
    // Until all have given back what they got.
    while fleet.stores.iter().any(|store| !store.is_empty()) {
        sleep(MS).await;
    }
    numbers.len()
}

/// Of 100 rounds 99 need no more than this.
fn p99(mut rounds: Vec<usize>) -> usize {
    rounds.sort_unstable();
    rounds[(rounds.len() * 99).div_ceil(100) - 1]
}

fn contended(masters: usize, down: usize, processes: usize) -> Vec<usize> {
    let total = count_of("RELATCH_VOTES", 200);
    LocalSet::new().block_on(&paused(), async {
        let fleet = Fleet::new(1, masters, processes, |red| red.restart_quarantine(Duration::ZERO)).await;
        // What is down is the last ones: whoever counts the first one's commands sees all tries.
        for (store, at) in fleet.stores.iter().zip(0..).skip(masters - down) {
            fleet.clients.iter().for_each(|own| store.partition(&own[at]).expect("it is this store's"));
        }
        fleet.set_weather(&Weather::fair().request_delay(4 * MS..=6 * MS).reply_delay(4 * MS..=6 * MS));
        let mut rounds = Vec::new();
        for round in 0..total {
            rounds.push(rounds_until_one_has_it(&fleet, &format!("{round}")).await);
        }
        rounds
    })
}

#[test]
fn of_eight_that_contend_on_five_masters_one_has_it_within_three_rounds() {
    for (down, most) in [(0, 3), (1, 3), (2, 4)] {
        let rounds = contended(5, down, 8);
        let (asked, p99) = (rounds.len(), p99(rounds));
        println!("{asked} contests of 8 on 5 masters, {down} of them down: {p99} rounds at p99");
        assert!(p99 <= most, "{down} down: {p99}");
    }
}

/// What befalls the masters, beside partitions of single ways to them.
#[derive(Clone, Copy, PartialEq)]
enum Befalls {
    /// One restarts without its data.
    Restarts,
    /// The clock of one jumps ahead by a lease.
    Jumps,
    /// Nobody reaches any of them, for longer than a lease.
    Pauses,
}

/// Whether a process is at times without some of its masters.
#[derive(Clone, Copy, PartialEq)]
enum Partitions {
    Yes,
    No,
}

/// What came of it.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sections: usize,
    /// Two guards said that they are held, at one instant.
    overlaps: usize,
    /// Somebody wrote in its section without looking at its guard, while somebody else had entered after it.
    late_writes: usize,
}

/// A sequence that its seed decides.
struct Dice(Cell<u64>);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % bound
    }

    fn span(&self, longest: Duration) -> Duration {
        MS * u32::try_from(self.below(longest.as_millis().try_into().expect("it is short"))).expect("it is short")
    }
}

struct Days {
    fleet: Fleet,
    dice: Dice,
    guards: RefCell<BTreeMap<usize, Rc<LockGuard>>>,
    entered: Cell<usize>,
    seen: RefCell<Seen>,
}

impl Days {
    /// Whoever says now that it holds the lock.
    fn look(&self) {
        let held = self.guards.borrow().values().filter(|guard| guard.is_held()).count();
        if held > 1 {
            self.seen.borrow_mut().overlaps += 1;
        }
    }

    /// One process: section after section, each of which writes at its end, without looking.
    async fn work(&self, at: usize) {
        let lock = self.fleet.reds[at].mutex("desk");
        loop {
            sleep(self.dice.span(SECOND)).await;
            let Ok(Some(guard)) = lock.try_lock().wait(5 * SECOND).await else { continue };
            let (guard, turn) = (Rc::new(guard), self.entered.get() + 1);
            self.entered.set(turn);
            self.guards.borrow_mut().insert(at, Rc::clone(&guard));
            self.look();
            sleep(self.dice.span(3 * LEASE / 2)).await;
            let mut seen = self.seen.borrow_mut();
            seen.sections += 1;
            seen.late_writes += usize::from(self.entered.get() > turn);
            drop(seen);
            self.guards.borrow_mut().remove(&at);
            drop(guard);
        }
    }

    async fn befall(&self, befalls: Befalls, partitions: Partitions) {
        let stores = &self.fleet.stores;
        loop {
            sleep(self.dice.span(LEASE)).await;
            let (store, at) = {
                let at = self.dice.below(stores.len() as u64) as usize;
                (&stores[at], at)
            };
            if partitions == Partitions::Yes {
                let own = &self.fleet.clients[self.dice.below(self.fleet.clients.len() as u64) as usize];
                store.partition(&own[at]).expect("it is this store's");
                sleep(self.dice.span(LEASE)).await;
                store.heal(&own[at]).expect("it is this store's");
            }
            match befalls {
                Befalls::Restarts => store.restart(),
                Befalls::Jumps => store.set_clock_forward(LEASE),
                Befalls::Pauses => {
                    let own = &self.fleet.clients[self.dice.below(self.fleet.clients.len() as u64) as usize];
                    let each = || stores.iter().zip(own);
                    each().for_each(|(store, way)| store.partition(way).expect("it is this store's"));
                    sleep(LEASE + self.dice.span(LEASE)).await;
                    each().for_each(|(store, way)| store.heal(way).expect("it is this store's"));
                }
            }
            // Of several at a time nothing is promised.
            sleep(LEASE + LEASE / 10).await;
        }
    }

    async fn watch(&self) {
        loop {
            sleep(50 * MS).await;
            self.look();
        }
    }
}

fn days(seed: u64, masters: usize, befalls: Befalls, partitions: Partitions, quarantine: Duration) -> Seen {
    LocalSet::new().block_on(&paused(), async {
        let fleet = Fleet::new(seed, masters, 3, |red| red.restart_quarantine(quarantine)).await;
        sleep(2 * LEASE).await;
        fleet.set_weather(&Weather::fair().request_delay(MS..=20 * MS).reply_delay(MS..=20 * MS));
        let days = Days {
            fleet,
            dice: Dice(Cell::new(seed)),
            guards: RefCell::default(),
            entered: Cell::new(0),
            seen: RefCell::default(),
        };
        let work = futures_util::future::join_all((0..3).map(|at| days.work(at)));
        let all = async { tokio::join!(work, days.befall(befalls, partitions), days.watch()) };
        assert!(timeout(Duration::from_secs(300), all).await.is_err(), "it goes on");
        days.seen.take()
    })
}

/// The first of these seeds that finds two holders.
fn first_overlap(masters: usize, befalls: Befalls, partitions: Partitions, quarantine: Duration) -> Option<u64> {
    let seeds = count_of("RELATCH_VOTE_SEEDS", 4) as u64;
    let found = (1..=seeds).find(|seed| {
        let seen = days(*seed, masters, befalls, partitions, quarantine);
        assert!(seen.sections > 5, "the lock is had: {seen:?}");
        seen.overlaps > 0
    });
    println!("{masters} masters, of {seeds} seeds the first with two holders: {found:?}");
    found
}

#[test]
fn a_master_that_restarts_without_its_data_lets_two_in_and_with_a_quarantine_it_does_not() {
    for masters in [3, 5] {
        let alone = first_overlap(masters, Befalls::Restarts, Partitions::Yes, Duration::ZERO);
        assert!(masters == 5 || alone.is_some(), "without a remedy it happens");
        assert_eq!(first_overlap(masters, Befalls::Restarts, Partitions::Yes, LEASE), None);
    }
}

/// No remedy: it remains.
#[test]
fn a_clock_that_jumps_lets_two_in_under_a_bare_majority() {
    assert!(first_overlap(3, Befalls::Jumps, Partitions::Yes, LEASE).is_some());
}

#[test]
fn where_all_have_granted_one_clock_may_jump_and_two_may_not() {
    LocalSet::new().block_on(&paused(), async {
        let fleet = Fleet::new(1, 3, 2, |red| red).await;
        sleep(2 * LEASE).await;
        let guard = fleet.reds[0].mutex("desk").lock().await.expect("acquires");
        for (jumped, enters) in [(0, false), (1, true)] {
            fleet.stores[jumped].set_clock_forward(LEASE + MS);
            let other = fleet.reds[1].mutex("desk").try_lock().await.expect("answers");
            assert_eq!(other.is_some(), enters, "{jumped}");
        }
        assert!(guard.is_held(), "it knows nothing of that");
    });
}

#[test]
fn whoever_pauses_in_its_section_writes_late_and_its_guard_says_so() {
    let late = (1..=50).find(|seed| {
        let seen = days(*seed, 3, Befalls::Pauses, Partitions::No, LEASE);
        assert_eq!(seen.overlaps, 0, "whoever looks is told: {seen:?}");
        seen.late_writes > 0
    });
    println!("the first seed with a late write of one that did not look: {late:?}");
    assert!(late.is_some());
}
