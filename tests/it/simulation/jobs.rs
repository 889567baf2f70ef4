//! Fleets whose nodes do a periodic job, on a store in this process, while everything that can befall them does. What one node does is in
//! `node.rs`, what the server must know by its answers in `record.rs`, what is judged in `ledger.rs`.

mod ledger;
mod node;
mod reach;
mod record;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use relatch::{Client, EmbeddedStore, Error, embedded::Weather};
use tokio::{
    runtime::{Builder, Handle},
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout},
};

use self::{
    ledger::{Ledger, SETTLED},
    node::{Habit, Node, longest_work},
    record::{Millis, millis},
};
use super::{COMMAND, Outcome, Servers, nothing_is_seen_that_must_not_be, panics};
use crate::harness::random::Random;

const NAME: &str = "report";

/// In a storm it is seen so often, at least, what has happened.
const LOOKS: Duration = Duration::from_millis(100);

/// There and back: some commands take longer than is waited for them, or nearly so.
const SLOW: Duration = Duration::from_millis(250);

/// How the job is done, by all of the fleet alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    every: Duration,
    offset: Duration,
    within: Duration,
    max_attempts: u64,
    /// No lease is longer.
    lease: Duration,
}

/// How a simulation is mixed: so many of a thousand, or a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    terms: Terms,
    /// A lease that nobody renews.
    fixed: Option<Duration>,
    nodes: usize,
    scheduled: usize,
    fails: usize,
    /// Work that goes on beyond its period.
    beyond: usize,
    dropped: usize,
    parked: usize,
    reset: usize,
    aimed: usize,
    /// Work beneath which the server's clock leaps.
    leaps: usize,
    /// What happens to a server: it forgets everything, or its clock is set.
    lapses: usize,
    /// The longest way to the server while nothing befalls anybody, in milliseconds.
    way: u64,
    /// Whether so little befalls a fleet that a node reaches the server for some periods amid its storm.
    quiet: bool,
}

struct Fleet {
    store: EmbeddedStore,
    ledger: Arc<Ledger>,
    mix: Mix,
    random: Random,
    nodes: Vec<Node>,
    drawn: u64,
    storm: Arc<AtomicBool>,
    faults: BTreeMap<&'static str, usize>,
}

impl Terms {
    fn every_ms(&self) -> Millis {
        millis(self.every)
    }

    fn within_ms(&self) -> Millis {
        millis(self.within)
    }

    fn keep_ms(&self) -> Millis {
        2 * self.every_ms()
    }

    /// When the period began that is now.
    fn present(&self, now_ms: Millis) -> Millis {
        let offset_ms = millis(self.offset);
        (now_ms - offset_ms) / self.every_ms() * self.every_ms() + offset_ms
    }
}

impl Mix {
    fn draw(random: &mut Random) -> Self {
        let secs = Duration::from_secs;
        let every = secs(random.pick(&[1, 2, 2, 4, 10]));
        let offset = secs(random.next() % every.as_secs());
        let within = if random.once_in_a_while(200) { every.mul_f64(0.7) } else { every };
        let lease = Duration::from_millis(random.pick(&[300, 600, 600, 1_500]));
        let max_attempts = random.pick(&[1, 2, 3, 3, 20]);
        Self {
            terms: Terms { every, offset, within, max_attempts, lease },
            fixed: random.once_in_a_while(200).then_some(lease),
            nodes: random.pick(&[2, 3, 3, 5]),
            scheduled: random.pick(&[200, 500, 900]),
            fails: random.pick(&[0, 200, 600, 900]),
            beyond: random.pick(&[0, 20, 150]),
            dropped: random.pick(&[0, 50, 300]),
            parked: random.pick(&[0, 0, 200]),
            reset: random.pick(&[0, 0, 100]),
            aimed: random.pick(&[0, 100, 400]),
            leaps: random.pick(&[0, 0, 150, 400]),
            lapses: random.pick(&[0, 30, 100]),
            way: random.pick(&[0, 1, 5]),
            quiet: false,
        }
    }
}

/// One whole simulation, unless it is tripped.
pub(super) fn simulate(seed: u64, told: bool, tripped: &Notify) -> Outcome {
    let before = panics();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime starts");
    runtime.block_on(async {
        let mut random = Random::new(seed, &[3]);
        // The last of each eight, so that the others draw what they always did.
        let mix = Mix { quiet: seed % 8 == 7, ..Mix::draw(&mut random) };
        let store = EmbeddedStore::seeded(seed);
        let ledger = Ledger::new(&store, mix.terms);
        ledger.tell(format!("{mix:?}"));
        let mut fleet = Fleet::new(&store, &ledger, mix, random);
        tokio::select! {
            biased;
            () = ledger.complained.notified() => {}
            () = tripped.notified() => ledger.complain("the clock stands still", "something never rests"),
            () = fleet.sails() => {}
        }
        if panics() > before {
            ledger.complain("something panicked", "in some work or in the background");
        }
        let [bodies, grants, successes] = ledger.counts();
        let mut book = ledger.up_to_date();
        let complaint = book.complaint.take();
        let story = if told || complaint.is_some() { book.story() } else { Vec::new() };
        let mut faults = std::mem::take(&mut fleet.faults);
        faults.insert("successes", successes);
        Outcome { complaint, sections: bodies, holds: grants, faults, story }
    })
}

impl Fleet {
    fn new(store: &EmbeddedStore, ledger: &Arc<Ledger>, mix: Mix, random: Random) -> Self {
        let (store, ledger, storm) = (store.clone(), Arc::clone(ledger), Arc::default());
        Self { store, ledger, mix, random, nodes: Vec::new(), drawn: 0, storm, faults: BTreeMap::new() }
    }

    /// From the first period to the last, and until nothing is left.
    async fn sails(&mut self) {
        for _ in 0..self.mix.nodes {
            self.launches().await;
        }
        self.storms(self.mix.terms.every * 4 + Duration::from_secs(8)).await;
        self.calms(SETTLED + longest_work(&self.mix) + self.mix.terms.every * 3).await;
        self.stops().await;
        // What a node that crashed had is over by its lease; nobody answers it, and it repeats its ends.
        sleep(self.mix.terms.lease * 4 + Duration::from_secs(2)).await;
        self.ledger.check_end();
        let listeners = self.store.listeners();
        if !listeners.is_empty() {
            self.ledger.complain("somebody listens for nobody", format!("{listeners:?}"));
        }
        self.nodes.clear();
        sleep(self.mix.terms.keep_ms_as_time() + Duration::from_secs(1)).await;
        if self.ledger.is_over() && !self.store.is_empty() {
            self.ledger.complain("something is left on the store", format!("{:?}", self.store.keys()));
        }
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks != 0 {
            self.ledger.complain("a task is left", tasks);
        }
    }

    async fn launches(&mut self) {
        let builder = Client::builder().embedded(&self.store).watchdog_timeout(self.mix.terms.lease);
        let builder = builder.command_timeout(COMMAND).unreachable_after(COMMAND * 4);
        let Ok(client) = builder.connect().await else {
            return self.ledger.complain("a client does not connect", "");
        };
        self.drawn += 1;
        let habit = match self.random.below(1_000) {
            draw if draw < self.mix.scheduled => Habit::Scheduled,
            draw if draw % 2 == 0 => Habit::Timed,
            _ => Habit::Restless,
        };
        self.ledger.tell(format!("node {} is {}, {habit:?}", self.drawn, client.id()));
        let mut node = Node::new(client, habit, self.drawn);
        node.goes(&self.ledger, &self.store, self.mix, &self.storm, &mut self.random);
        self.nodes.push(node);
        self.counts_scheduled();
    }

    fn counts_scheduled(&self) {
        let scheduled = self.nodes.iter().filter(|node| node.habit == Habit::Scheduled).count();
        self.ledger.up_to_date().scheduled = scheduled;
    }

    async fn storms(&mut self, long: Duration) {
        self.ledger.tell("storm".to_owned());
        self.storm.store(true, Ordering::Relaxed);
        let until = Instant::now() + long;
        let busy = self.random.pick(&[60, 150, 400]) * if self.mix.quiet { 20 } else { 1 };
        while Instant::now() < until {
            self.befalls().await;
            let next = Instant::now() + self.random.millis(1, busy);
            while Instant::now() < next {
                drop(self.ledger.up_to_date());
                sleep_until(next.min(Instant::now() + LOOKS)).await;
            }
        }
    }

    /// Nothing befalls anybody for so long; commands may take a little while all the same.
    async fn calms(&mut self, long: Duration) {
        self.storm.store(false, Ordering::Relaxed);
        for node in &self.nodes {
            drop(self.store.heal(&node.client).and_then(|()| self.store.thaw(&node.client)));
        }
        self.store.set_weather(Weather::fair());
        self.ledger.up_to_date().reach.is_slow(false, self.ledger.now());
        // What waits for a next command is to have had it.
        for node in &self.nodes {
            for _ in 0..8 {
                drop(node.client.lock("spare").is_locked().await);
            }
        }
        let way = Duration::from_millis(self.mix.way);
        self.store.set_weather(Weather::fair().request_delay(Duration::ZERO..=way).reply_delay(Duration::ZERO..=way));
        self.ledger.tell("calm".to_owned());
        self.ledger.calm(true);
        let until = Instant::now() + long;
        while Instant::now() < until {
            self.ledger.probe();
            sleep(self.random.millis(20, 60)).await;
        }
    }

    /// Everybody comes to an end, and says so.
    async fn stops(&mut self) {
        self.ledger.tell("the end".to_owned());
        self.ledger.calm(false);
        self.ledger.up_to_date().reach.all_leave();
        for node in &self.nodes {
            node.stop.cancel();
        }
        for at in 0..self.nodes.len() {
            self.joins(at).await;
        }
    }

    async fn joins(&mut self, at: usize) {
        let Some(task) = self.nodes[at].task.take() else { return };
        match timeout(longest_work(&self.mix) + COMMAND * 10, task).await {
            Err(_) => self.ledger.complain("a node does not stop", self.nodes[at].number),
            Ok(Err(error)) if error.is_panic() => self.ledger.complain("a node panicked", error),
            Ok(Ok(Err(error))) if !matches!(error, Error::Closed) => self.ledger.complain("a schedule gives up", error),
            Ok(_) => {}
        }
    }

    async fn befalls(&mut self) {
        let which = self.random.below(self.nodes.len());
        let (client, number) = (self.nodes[which].client.clone(), self.nodes[which].number);
        let later = self.random.millis(0, 2 * self.mix.terms.every_ms());
        let kind = match self.random.below(100) {
            0..14 => self.changes_weather(),
            14..36 => self.parts(&client),
            36..44 => self.store.cut(&client).map_or("none", |()| "cut"),
            44..52 => self.store.drop_next_request(&client).map_or("none", |()| "lost request"),
            52..60 => self.store.drop_next_reply(&client).map_or("none", |()| "lost reply"),
            60..72 => self.store.duplicate_next(&client, later).map_or("none", |()| "copy"),
            72..80 if self.random.once_in_a_while(self.mix.lapses) => self.lapses(),
            80..86 => self.crashes(which).await,
            86..91 => self.closes(which).await,
            91..97 => self.drops(which).await,
            _ => "none",
        };
        *self.faults.entry(kind).or_default() += 1;
        self.ledger.tell(format!("{kind} (node {number})"));
    }

    fn changes_weather(&mut self) -> &'static str {
        let random = &mut self.random;
        let (there, back) = (random.pick(&[0, 5, 40, 250]), random.pick(&[0, 5, 40, 250]));
        let (zero, ms) = (Duration::ZERO, Duration::from_millis);
        self.ledger.up_to_date().reach.is_slow(SLOW <= ms(there + back), self.ledger.now());
        let share = |random: &mut Random| random.pick(&[0, 0, 5, 20, 100]) as f64 / 1000.0;
        let weather = Weather::fair()
            .request_delay(zero..=ms(there))
            .reply_delay(zero..=ms(back))
            .lost_requests(share(random))
            .lost_replies(share(random))
            .lost_messages(share(random))
            .copies(share(random), zero..=self.mix.terms.every * 2)
            .cuts(share(random));
        self.store.set_weather(weather);
        "weather"
    }

    /// A node is cut off from the server for a while, or the server does nothing for it.
    fn parts(&mut self, client: &Client) -> &'static str {
        let (long, parted) = (self.random.millis(20, 1_800), self.random.once_in_a_while(600));
        let (store, client) = (self.store.clone(), client.clone());
        let storm = Arc::clone(&self.storm);
        let until = self.ledger.now() + long;
        self.ledger.up_to_date().reach.is_hurt(client.id(), until);
        drop(if parted { store.partition(&client) } else { store.freeze(&client) });
        tokio::spawn(async move {
            sleep(long).await;
            // Of a node that crashed nothing is heard again, and in a calm all are healed.
            if storm.load(Ordering::Relaxed) && !client.is_closed() {
                drop(if parted { store.heal(&client) } else { store.thaw(&client) });
            }
        });
        if parted { "partition" } else { "freeze" }
    }

    fn lapses(&mut self) -> &'static str {
        let every_ms = self.mix.terms.every_ms();
        let by = self.random.millis(1, every_ms);
        match self.random.below(6) {
            0 => {
                self.ledger.is_wiped();
                self.store.restart();
                "restart empty"
            }
            1 | 2 => {
                self.ledger.steps(false, by);
                self.store.set_clock_back(by);
                "clock back"
            }
            3 => {
                let year = Duration::from_secs(365 * 24 * 3600);
                let ahead = self.ledger.is_a_year_ahead();
                self.ledger.steps(!ahead, year);
                if ahead {
                    self.store.set_clock_back(year)
                } else {
                    self.store.set_clock_forward(year)
                }
                "clock by a year"
            }
            _ => {
                self.ledger.steps(true, by);
                self.store.set_clock_forward(by);
                "clock forward"
            }
        }
    }

    /// A process ends where it is, and nothing of it is heard again.
    async fn crashes(&mut self, which: usize) -> &'static str {
        let node = self.nodes.swap_remove(which);
        self.ledger.up_to_date().reach.leaves(node.client.id());
        drop(self.store.partition(&node.client));
        node.dropped.store(true, Ordering::Relaxed);
        if let Some(task) = node.task {
            task.abort();
        }
        self.launches().await;
        "crash"
    }

    /// A client is closed or shut down under its node, and another takes its place.
    async fn closes(&mut self, which: usize) -> &'static str {
        let shuts_down = self.random.once_in_a_while(500);
        let client = self.nodes[which].client.clone();
        self.ledger.up_to_date().reach.leaves(client.id());
        if shuts_down {
            drop(client.shutdown(self.random.millis(0, 1_000)).await);
        } else {
            client.close().await;
        }
        self.joins(which).await;
        drop(self.nodes.swap_remove(which));
        self.launches().await;
        if shuts_down { "shutdown" } else { "close" }
    }

    /// Whatever a node is at is dropped, and it sets out again.
    async fn drops(&mut self, which: usize) -> &'static str {
        let node = &mut self.nodes[which];
        self.ledger.up_to_date().reach.leaves(node.client.id());
        node.dropped.store(true, Ordering::Relaxed);
        if let Some(task) = node.task.take() {
            task.abort();
            drop(task.await);
        }
        node.goes(&self.ledger, &self.store, self.mix, &self.storm, &mut self.random);
        "dropped"
    }
}

impl Terms {
    fn keep_ms_as_time(&self) -> Duration {
        Duration::from_millis(self.keep_ms())
    }
}

#[test]
fn whatever_befalls_a_fleet_that_does_a_job_nothing_is_seen_that_must_not_be() {
    nothing_is_seen_that_must_not_be(Servers::Fleet);
}
