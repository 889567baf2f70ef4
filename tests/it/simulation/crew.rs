//! The clients of one simulation, and their tasks, which go from section to section; and what befalls them. Everything is
//! drawn from the seed. What a section does is in `section.rs`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use relatch::{Client, EmbeddedStore, Owner, Result, embedded::Weather};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    COMMAND, LONGEST_LEASE, NAMES,
    kinds::Kind,
    referee::{Habits, Referee},
    section::{LONGEST_LINGER, Section},
    several::SectionOfSeveral,
};
use crate::harness::{either::Named, random::Random};

/// How long the clients of a simulation may keep a name to themselves, in milliseconds.
const SLICES: [&[u64]; 3] = [&[0, 1, 10, 40], &[1, 10], &[10, 40, 200]];

/// A task that is to rest comes to its end within this, where nobody leaves a lock to nobody.
const LONGEST_STAY: Duration = Duration::from_secs(30);

/// How a simulation is mixed: so many of a thousand, or a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) names: usize,
    pub(super) fixed: usize,
    /// Of fixed leases and extensions, those that last for seconds.
    pub(super) long: usize,
    pub(super) nested: usize,
    pub(super) mutexes: usize,
    pub(super) dropped: usize,
    pub(super) forced: usize,
    pub(super) bounded: usize,
    /// Sections that last longer than a lease.
    pub(super) linger: usize,
    /// The longest usual section, in milliseconds, and the longest pause between two.
    pub(super) stay: u64,
    pause: u64,
    clients: usize,
    tasks: usize,
    slices: &'static [u64],
    /// Whether watchdogs' leases last for seconds.
    unhurried: bool,
    /// The longest way to the store while nothing befalls anybody, in milliseconds.
    way: u64,
    copies: usize,
    abandoned: usize,
    /// Faults that meet just what a section is about to ask.
    aimed: usize,
    /// Those that meet a forced release once it has looked at what there is.
    pub(super) struck: usize,
    /// The last calm lasts for so long once everything is settled, in milliseconds.
    calm: u64,
    /// The store has so many nodes that may fail over; of one that is what it is there are none.
    pub(super) nodes: usize,
    /// Callers that begin to acquire, and look at the answer only after a while.
    pub(super) parked: usize,
    /// A grant counts once a replica knows of it, which is waited for so many milliseconds; none need know of any.
    pub(super) replicas_within: u64,
    /// Sections that take several names at once.
    several: usize,
    /// Of which kind each name is.
    pub(super) kinds: [Kind; NAMES.len()],
}

/// One client, as its tasks know it.
#[derive(Debug)]
pub(super) struct Sailor {
    pub(super) client: Client,
    pub(super) referee: Arc<Referee>,
    pub(super) mix: Mix,
    pub(super) number: u64,
    pub(super) watchdog: Duration,
    store: EmbeddedStore,
    rest: AtomicBool,
    /// Faults that may wait for its next commands.
    armed: AtomicUsize,
}

/// All clients, and those who were.
pub(super) struct Crew {
    pub(super) store: EmbeddedStore,
    pub(super) referee: Arc<Referee>,
    pub(super) mix: Mix,
    pub(super) random: Random,
    pub(super) boats: Vec<Boat>,
    drawn: u64,
    /// How often each kind of fault came.
    pub(super) faults: BTreeMap<&'static str, usize>,
}

pub(super) struct Boat {
    pub(super) sailor: Arc<Sailor>,
    tasks: Vec<JoinHandle<()>>,
}

impl Mix {
    /// Of most seeds as it is drawn; some are days for what comes together seldom.
    pub(super) fn draw(seed: u64, random: &mut Random) -> Self {
        let drawn = Self::any(random);
        let of_day = match seed % 16 {
            3 | 5 | 9 => drawn.of_late_hand_overs(),
            7 => drawn.of_hand_overs(),
            11 => drawn.of_replicas(random),
            15 => drawn.of_forces(),
            2 | 6 | 10 | 14 => drawn.of_several(seed),
            _ => drawn,
        };
        of_day.with_kinds(seed)
    }

    fn any(random: &mut Random) -> Self {
        Self {
            names: random.pick(&[1, 1, 2, 3]),
            fixed: random.pick(&[0, 100, 400, 700]),
            long: random.pick(&[0, 300, 700]),
            nested: random.pick(&[50, 200, 600]),
            mutexes: random.pick(&[0, 200]),
            dropped: random.pick(&[30, 150, 400]),
            forced: random.pick(&[0, 8, 60]),
            bounded: random.pick(&[40, 300]),
            linger: random.pick(&[10, 60, 250]),
            stay: random.pick(&[3, 10, 40]),
            pause: random.pick(&[0, 5, 40, 200, 700]),
            clients: random.pick(&[2, 3, 3, 4, 6]),
            tasks: random.pick(&[1, 2, 3, 4]),
            slices: random.pick(&SLICES),
            unhurried: random.once_in_a_while(250),
            way: random.pick(&[0, 1, 2]),
            copies: random.pick(&[0, 30, 150]),
            abandoned: random.pick(&[10, 100]),
            aimed: random.pick(&[0, 50, 250]),
            struck: 0,
            calm: 1_900,
            nodes: 0,
            parked: 0,
            replicas_within: 0,
            several: 0,
            kinds: [Kind::Plain; NAMES.len()],
        }
    }

    /// Locks go from long leases to short ones within a process, while another waits, and whoever has it then stays beyond that.
    fn of_hand_overs(self) -> Self {
        let watched = Self { names: 1, fixed: 450, long: 300, unhurried: true, slices: &[200], ..self };
        let alone = Self { nested: 50, mutexes: 0, forced: 0, dropped: 30, bounded: 40, ..watched };
        Self { stay: 300, linger: 10, pause: 1_200, clients: 3, tasks: 2, calm: 8_000, ..alone }
    }

    /// Locks go from task to task within a process, by commands of which many come late.
    fn of_late_hand_overs(self) -> Self {
        let crowded = Self { names: 1, clients: 2, tasks: 4, pause: 5, stay: 10, slices: &[200], ..self };
        Self { fixed: 700, long: 300, linger: 10, nested: 50, forced: 0, aimed: 400, copies: 150, ..crowded }
    }

    /// Many take several names at once, in any order. Drawn from a sequence of its own.
    fn of_several(self, seed: u64) -> Self {
        let mut random = Random::new(seed, &[3]);
        Self { names: random.pick(&[2, 3]), several: random.pick(&[150, 400, 700]), ..self }
    }

    /// Holds that would last for long are forced out, by commands that are lost.
    fn of_forces(self) -> Self {
        Self { forced: 60, fixed: 700, long: 700, way: 2, struck: 400, ..self }
    }
}

impl Mix {
    fn watchdogs(&self) -> &'static [u64] {
        if self.unhurried { &[2_000, 6_000] } else { &[300, 450, 750] }
    }

    /// How long clients that crash leave their locks to nobody, beyond what fixed leases do anyway.
    pub(super) fn left_behind(&self) -> Duration {
        if self.unhurried { 3 * self.habits().watchdog } else { Duration::ZERO }
    }

    /// So long are all tasks' sections that linger, one after the other: as long as a lock's queue may be.
    pub(super) fn crowd(&self) -> Duration {
        let (lingers, nests) = (self.linger as f64 / 1_000.0, self.nested as f64 / 1_000.0);
        let each = LONGEST_LINGER.mul_f64(lingers * (1.0 + 2.0 * nests));
        each * (self.clients * self.tasks) as u32
    }

    /// For so many names somebody waits at most until he has all that he asked for, or until who has what he waits for has.
    pub(super) fn waits_for(&self) -> usize {
        if self.several > 0 { self.names } else { 1 }
    }

    /// How long the last calm is.
    pub(super) fn last_calm(&self) -> Duration {
        self.habits().settled() + Duration::from_millis(self.calm)
    }

    pub(super) fn habits(&self) -> Habits {
        let longest = |of: &[u64]| Duration::from_millis(of.iter().copied().max().unwrap_or_default());
        let way = Duration::from_millis(self.way);
        // One of no length is none, however far the server is.
        let far = self.slices.iter().any(|slice| (1..8 * self.way).contains(slice));
        Habits { watchdog: longest(self.watchdogs()), slice: longest(self.slices), way, far, silent: self.silent() }
    }
}

impl Sailor {
    async fn go(self: Arc<Self>, task: u64, mut random: Random) {
        let own = Owner::new();
        while !self.rest.load(Ordering::Relaxed) {
            let several = self.mix.several > 0 && random.once_in_a_while(self.mix.several);
            let section = if several {
                SectionOfSeveral::draw(Arc::clone(&self), task, &own, &mut random).run().boxed()
            } else {
                Section::draw(Arc::clone(&self), task, &own, &mut random).run().boxed()
            };
            let dropped_after = random.once_in_a_while(self.mix.abandoned).then(|| random.millis(0, 60));
            match dropped_after {
                Some(limit) => drop(timeout(limit, section).await),
                None => section.await,
            }
            if self.client.is_closed() {
                return;
            }
            // Never at once: virtual time passes only where everybody waits.
            sleep(random.millis(0, self.mix.pause).max(Duration::from_micros(1))).await;
        }
    }
}

impl Sailor {
    /// A name's lock, as this client takes it.
    pub(super) fn lock(&self, name: usize) -> Named {
        self.mix.lock(&self.client, self.number, name)
    }

    /// It is cut off from the store for so long.
    fn part_for(&self, long: Duration) -> Result<()> {
        let (store, client, referee) = (self.store.clone(), self.client.clone(), Arc::clone(&self.referee));
        store.partition(&client)?;
        tokio::spawn(async move {
            sleep(long).await;
            // A client that crashed is never heard again.
            if !referee.is_dead(client.id()) {
                drop(store.heal(&client));
            }
        });
        Ok(())
    }

    /// What this client sends next is lost.
    pub(super) fn strike(&self) {
        if self.referee.may_aim() && self.store.drop_next_request(&self.client).is_ok() {
            self.armed.fetch_add(1, Ordering::Relaxed);
            self.referee.tell(format!("lost request, aimed at what client {} sends next", self.number));
        }
    }

    /// Something may befall what this client sends next.
    pub(super) fn aim(&self, random: &mut Random) {
        if !self.referee.may_aim() || !random.once_in_a_while(self.mix.aimed) {
            return;
        }
        let (store, client, later) = (&self.store, &self.client, random.millis(0, 1_000));
        // It comes when its caller has given it up.
        let late = random.millis(200, 800);
        let held_up = || store.duplicate_next(client, late).and_then(|()| store.drop_next_request(client));
        let (kind, done, armed) = match random.below(12) {
            0..3 => ("lost request", store.drop_next_request(client), 1),
            3..6 => ("lost reply", store.drop_next_reply(client), 1),
            6 => ("copy", store.duplicate_next(client, later), 1),
            7..10 => ("held up", held_up(), 1),
            10 => ("partition", self.part_for(random.millis(20, 1_100)), 0),
            _ => ("cut", store.cut(client), 0),
        };
        self.armed.fetch_add(armed, Ordering::Relaxed);
        // One that has left is not known any more.
        if done.is_ok() {
            self.referee.tell(format!("{kind}, aimed at client {}", self.number));
        }
    }
}

impl Crew {
    pub(super) async fn gather(store: &EmbeddedStore, referee: &Arc<Referee>, mix: Mix, random: &mut Random) -> Self {
        let random = Random::new(random.next(), &[]);
        let (store, referee) = (store.clone(), Arc::clone(referee));
        let mut crew = Self { store, referee, mix, random, boats: Vec::new(), drawn: 0, faults: BTreeMap::new() };
        for _ in 0..mix.clients {
            crew.launch().await;
        }
        crew
    }

    async fn launch(&mut self) {
        let watchdog = Duration::from_millis(self.random.pick(self.mix.watchdogs()));
        let slice = Duration::from_millis(self.random.pick(self.mix.slices));
        let builder = Client::builder()
            .embedded(&self.store)
            .watchdog_timeout(watchdog)
            .command_timeout(COMMAND)
            .unreachable_after(COMMAND * 4)
            .handover_slice(slice);
        let Ok(client) = self.mix.waits_for_replicas(builder).connect().await else {
            return self.referee.complain("a client does not connect", None, "");
        };
        self.drawn += 1;
        self.referee.comes(self.drawn, client.id(), watchdog, slice);
        self.referee.tell(format!("client {} is {}, with slices of {slice:?}", self.drawn, client.id()));
        let (referee, mix, number) = (Arc::clone(&self.referee), self.mix, self.drawn);
        let rest = AtomicBool::new(false);
        let (store, armed) = (self.store.clone(), AtomicUsize::new(0));
        let sailor = Arc::new(Sailor { client, referee, mix, number, watchdog, store, rest, armed });
        let tasks = (0..self.mix.tasks as u64).map(|task| {
            let random = Random::new(self.random.next(), &[]);
            tokio::spawn(Arc::clone(&sailor).go(task, random))
        });
        let tasks = tasks.collect();
        self.boats.push(Boat { sailor, tasks });
    }

    /// Nothing befalls anybody for so long; commands may take a little while all the same.
    pub(super) async fn calm(&mut self, long: Duration) {
        self.clear_up().await;
        self.referee.calm(true);
        self.referee.tell("calm".to_owned());
        let until = Instant::now() + long;
        while Instant::now() < until {
            self.referee.probe();
            sleep(self.random.millis(8, 25)).await;
        }
    }

    /// No fault goes on, and none waits for anybody.
    pub(super) async fn clear_up(&mut self) {
        self.referee.aims(false);
        self.thaw();
        self.follow();
        let way = Duration::from_millis(self.mix.way);
        for boat in &self.boats {
            let client = &boat.sailor.client;
            let healed = self.store.heal(client).and_then(|()| self.store.thaw(client));
            if healed.is_err() {
                self.referee.complain("a client is not known", None, client.id());
            }
        }
        self.store.set_weather(Weather::fair());
        for boat in &self.boats {
            // What waits for a next command is to have had it.
            for _ in 0..boat.sailor.armed.swap(0, Ordering::Relaxed) {
                drop(boat.sailor.client.lock("spare").is_locked().await);
            }
        }
        self.store.set_weather(Weather::fair().request_delay(Duration::ZERO..=way).reply_delay(Duration::ZERO..=way));
    }

    /// Everything befalls everybody for so long.
    pub(super) async fn storm(&mut self, long: Duration) {
        self.referee.calm(false);
        self.referee.aims(true);
        self.referee.probe();
        self.referee.tell("storm".to_owned());
        let until = Instant::now() + long;
        let busy = self.random.pick(&[60, 150, 400]);
        while Instant::now() < until {
            self.befall().await;
            self.befall_nodes();
            self.befall_replicas();
            sleep(self.random.millis(1, busy)).await;
        }
    }

    pub(super) fn count(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    async fn befall(&mut self) {
        let which = self.random.below(self.boats.len().max(1));
        let Some(boat) = self.boats.get(which) else { return };
        let client = boat.sailor.client.clone();
        let (number, name) = (boat.sailor.number, NAMES[self.random.below(self.mix.names)]);
        let kind = match self.random.below(100) {
            0..14 => self.change_weather(),
            14..26 => self.part(&client, true),
            26..36 => self.part(&client, false),
            36..44 => self.on_client(which, "cut", |store, client, _| store.cut(client)),
            44..56 => self.on_client(which, "lost request", |store, client, _| store.drop_next_request(client)),
            56..68 => self.on_client(which, "lost reply", |store, client, _| store.drop_next_reply(client)),
            68..80 => self.on_client(which, "copy", |store, client, later| store.duplicate_next(client, later)),
            80..90 => self.lose(name),
            90..93 => self.step_clock(),
            93..97 => self.crash(which).await,
            _ => self.replace(which).await,
        };
        self.count(kind);
        self.referee.tell(format!("{kind} (client {number}, name {name:?})"));
    }

    fn change_weather(&mut self) -> &'static str {
        let random = &mut self.random;
        let (there, back) = (random.pick(&[0, 5, 40, 250, 900]), random.pick(&[0, 5, 40, 250]));
        let (zero, ms) = (Duration::ZERO, Duration::from_millis);
        let share = |random: &mut Random| random.pick(&[0, 0, 5, 20, 100]) as f64 / 1000.0;
        let weather = Weather::fair()
            .request_delay(zero..=ms(there))
            .reply_delay(zero..=ms(back))
            .lost_requests(share(random))
            .lost_replies(share(random))
            .copies(self.mix.copies as f64 / 1000.0, zero..=ms(1_500))
            .cuts(share(random));
        // Of one server all messages come, unless their link breaks.
        let lost = if self.mix.nodes > 0 { share(random) } else { 0.0 };
        self.store.set_weather(weather.lost_messages(lost));
        "weather"
    }

    /// A client is cut off from the store for a while, or the store does nothing for it.
    fn part(&mut self, client: &Client, parted: bool) -> &'static str {
        let long = self.random.millis(20, 1_100);
        let (store, client, referee) = (self.store.clone(), client.clone(), Arc::clone(&self.referee));
        drop(if parted { store.partition(&client) } else { store.freeze(&client) });
        tokio::spawn(async move {
            sleep(long).await;
            if !referee.is_dead(client.id()) {
                drop(if parted { store.heal(&client) } else { store.thaw(&client) });
            }
        });
        if parted { "partition" } else { "freeze" }
    }

    fn on_client(
        &mut self,
        which: usize,
        kind: &'static str,
        what: impl FnOnce(&EmbeddedStore, &Client, Duration) -> Result<()>,
    ) -> &'static str {
        let later = self.random.millis(0, 2_000);
        let boat = &self.boats[which];
        boat.sailor.armed.fetch_add(usize::from(kind != "cut"), Ordering::Relaxed);
        drop(what(&self.store, &boat.sailor.client, later));
        kind
    }

    fn lose(&mut self, name: &'static str) -> &'static str {
        let number = NAMES.iter().position(|it| *it == name);
        match self.random.below(10) {
            0 => {
                self.referee.loses(None);
                self.store.restart();
                "restart empty"
            }
            1..6 => {
                self.referee.loses(number);
                self.store.expire(name);
                "expiry"
            }
            _ => {
                self.referee.loses(number);
                let lease = self.random.millis(10, 400);
                match number.map_or(Kind::Plain, |number| self.mix.kinds[number]) {
                    Kind::Token(manner) => {
                        // By somebody who ended between two commands.
                        let for_good = manner.repairs && self.random.once_in_a_while(300);
                        drop(self.store.steal_token(name, Some(lease).filter(|_| !for_good)));
                    }
                    Kind::Plain | Kind::Fenced => self.store.steal(name, lease),
                }
                "theft"
            }
        }
    }

    fn step_clock(&mut self) -> &'static str {
        let by = self.random.millis(50, 1_000);
        if self.random.once_in_a_while(800) {
            self.referee.leaps();
            self.store.set_clock_forward(by);
            "clock forward"
        } else {
            self.referee.falls_back(LONGEST_LEASE + by);
            self.store.set_clock_back(by);
            "clock back"
        }
    }

    /// A process ends where it is, and nothing of it is heard again.
    async fn crash(&mut self, which: usize) -> &'static str {
        let boat = self.boats.swap_remove(which);
        let client = boat.sailor.client.clone();
        self.referee.dies(boat.sailor.number, client.id());
        self.referee.crashes();
        drop(self.store.partition(&client));
        for task in &boat.tasks {
            task.abort();
        }
        self.launch().await;
        "crash"
    }

    /// A client is closed under its tasks, and another takes its place.
    async fn replace(&mut self, which: usize) -> &'static str {
        let boat = self.boats.swap_remove(which);
        // What it held is left to its lease.
        self.referee.dies(boat.sailor.number, boat.sailor.client.id());
        boat.sailor.client.close().await;
        self.join(boat.tasks).await;
        self.launch().await;
        "close"
    }

    async fn join(&self, tasks: Vec<JoinHandle<()>>) {
        for task in tasks {
            let longest = LONGEST_STAY + self.mix.left_behind() + self.mix.crowd();
            match timeout(longest * self.mix.waits_for() as u32, task).await {
                Err(_) => self.referee.complain("a section never ends", None, "a task goes on"),
                Ok(Err(error)) if error.is_panic() => self.referee.complain("a section panicked", None, error),
                Ok(_) => {}
            }
        }
    }

    /// Every section comes to its end. The clients stay, and have nothing to do.
    pub(super) async fn end(&mut self) {
        for boat in &self.boats {
            boat.sailor.rest.store(true, Ordering::Relaxed);
        }
        for at in 0..self.boats.len() {
            let (sailor, tasks) = (Arc::clone(&self.boats[at].sailor), std::mem::take(&mut self.boats[at].tasks));
            self.join(tasks).await;
            for (number, name) in NAMES.iter().enumerate() {
                if sailor.lock(number).hold_count() != 0 {
                    self.referee.complain("a hold is counted that nobody has", None, name);
                }
            }
        }
        // What somebody left for good stays where nobody came to wait for it.
        for (number, name) in NAMES.iter().enumerate().filter(|(number, _)| self.referee.is_strangers(*number)) {
            self.referee.loses(Some(number));
            self.store.expire(name);
        }
    }

    /// Everybody goes home.
    pub(super) fn scatter(&mut self) {
        self.boats.clear();
    }
}
