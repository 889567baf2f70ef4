//! The processes of a storm, each behind a proxy of its own: started, replaced, brought to rest and asked for their
//! state. What is done to them meanwhile is `chaos.rs`.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use redis::Commands;

use super::{
    LONGEST_LEASE, NAMES, PROCESSES,
    chaos::Done,
    checker::{Chronicle, Life},
    counter,
    worker::{Footprint, log_path},
};
use crate::harness::{Server, clock::monotonic, process::Process, proxy::Proxy};

/// How long a process may take to do what it is told, when nobody harasses it.
const TOLD: Duration = Duration::from_secs(40);
/// How long after rest something may be left: what was let go, or nobody ever believed in, for a lease, and its reaping
/// for a third more. A busy machine may take some time besides.
const TIDY: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);
/// A process at rest is what it is once it has been so for this long: longer than any pause before something is tried again.
const SETTLED: Duration = Duration::from_millis(1_500);
/// How much larger than at its first rest a process may be at its last.
const GROWTH_KIB: usize = 4 * 1024;

/// All of them, and their server.
pub(super) struct Fleet {
    pub(super) server: Server,
    pub(super) ships: Vec<Ship>,
    folder: Arc<PathBuf>,
}

/// One process and its link.
pub(super) struct Ship {
    pub(super) number: u64,
    pub(super) process: Process,
    pub(super) proxy: Proxy,
    setting: Setting,
    /// When those that were here before were killed.
    killed: Vec<Duration>,
}

#[derive(Clone)]
struct Setting {
    seed: u64,
    manners: &'static str,
    folder: Arc<PathBuf>,
}

impl Fleet {
    /// Starts a server and the processes, with these manners.
    pub(super) fn launch(seed: u64, manners: &'static str) -> Self {
        let server = Server::builder().line("enable-debug-command yes").start();
        let folder = Arc::new(server.socket().with_file_name("storm"));
        fs::create_dir(&*folder).expect("a folder is made");
        let setting = Setting { seed, manners, folder: Arc::clone(&folder) };
        let ships = (0..PROCESSES).map(|number| Ship::launch(number, &server, setting.clone())).collect();
        let fleet = Self { server, ships, folder };
        for ship in &fleet.ships {
            assert_eq!(ship.process.hear_within(TOLD).as_deref(), Some("connected"));
        }
        fleet
    }

    pub(super) fn say(&mut self, word: &str) {
        self.ships.iter_mut().for_each(|ship| ship.process.say(word));
    }

    /// Nobody asks for anything any more; complains about those who cannot stop.
    pub(super) fn rest(&mut self) -> Vec<String> {
        self.say("rest");
        let mut wrong = Vec::new();
        for ship in &self.ships {
            if !ship.hears("resting") {
                wrong.push(format!("process {} does not come to rest", ship.number));
            }
        }
        let tidy = patient(|| {
            let mut connection = self.server.connection();
            let keys: Vec<String> = connection.keys("*").expect("KEYS answers");
            let channels: Vec<String> =
                redis::cmd("PUBSUB").arg("CHANNELS").query(&mut connection).expect("PUBSUB answers");
            if keys.is_empty() && channels.is_empty() { Ok(()) } else { Err(format!("{keys:?} {channels:?}")) }
        });
        wrong.extend(tidy.err().map(|left| format!("at rest this is left on the server: {left}")));
        wrong
    }

    /// What each process is made of now.
    pub(super) fn footprints(&mut self) -> Vec<Footprint> {
        self.say("state");
        let state = |ship: &Ship| ship.process.hear_within(TOLD).expect("a resting process answers");
        self.ships.iter().map(|ship| Footprint::parse(&state(ship))).collect()
    }

    /// The same, once nothing of it changes any more: what is still coming up, or on its way out, is not what they are.
    pub(super) fn settled(&mut self) -> Vec<Footprint> {
        let parts = |footprints: &[Footprint]| -> Vec<_> {
            footprints.iter().map(|footprint| (footprint.tasks, footprint.descriptors)).collect()
        };
        let (until, mut since, mut last) = (Instant::now() + TOLD, Instant::now(), self.footprints());
        while since.elapsed() < SETTLED {
            assert!(Instant::now() < until, "at rest they do not settle: {last:?}");
            thread::sleep(LOOK);
            let now = self.footprints();
            if parts(&now) != parts(&last) {
                since = Instant::now();
            }
            last = now;
        }
        last
    }

    /// Whether the processes are no more than they were at their first rest; otherwise what they are instead. One that took
    /// another's place may be less: it has not met everything yet. They are all made alike.
    pub(super) fn has_not_grown(&mut self, first: &[Footprint]) -> Result<Vec<Footprint>, String> {
        let most = |part: fn(&Footprint) -> usize| first.iter().map(part).max().unwrap_or_default();
        let (tasks, descriptors) = (most(|it| it.tasks), most(|it| it.descriptors));
        let largest = most(|it| it.resident_kib) + GROWTH_KIB;
        patient(|| {
            let now = self.footprints();
            let no_more =
                |now: &Footprint| now.tasks <= tasks && now.descriptors <= descriptors && now.resident_kib <= largest;
            if now.iter().all(no_more) { Ok(now) } else { Err(format!("before: {first:?}\nafter: {now:?}")) }
        })
    }

    /// Ends the processes, and says how they did not end well; then everything that was written down.
    pub(super) fn close(mut self, done: Vec<Done>) -> (Chronicle, Vec<String>) {
        let mut wrong = Vec::new();
        self.say("close");
        for ship in &mut self.ships {
            if !ship.hears("closed") {
                wrong.push(format!("process {} does not close", ship.number));
                ship.process.kill();
                continue;
            }
            ship.process.say("end");
            if !ship.process.ended_well() {
                wrong.push(format!("process {} fails", ship.number));
            }
            let printed = ship.process.printed();
            if !printed.is_empty() {
                wrong.push(format!("process {} prints {printed:?}", ship.number));
            }
        }
        let mut chronicle = Chronicle {
            lives: self.ships.iter().flat_map(Ship::lives).collect(),
            counters: (0..NAMES).map(|name| counter::history(&self.folder, name)).collect(),
            ..Chronicle::default()
        };
        for done in done {
            chronicle.losses.extend(done.losses);
            chronicle.freezes.extend(done.freezes);
        }
        (chronicle, wrong)
    }
}

impl Ship {
    fn launch(number: u64, server: &Server, setting: Setting) -> Self {
        let proxy = Proxy::to(server);
        let process = Self::spawn(number, 0, &proxy, &setting);
        Self { number, process, proxy, setting, killed: Vec::new() }
    }

    fn spawn(number: u64, life: usize, proxy: &Proxy, setting: &Setting) -> Process {
        let folder = setting.folder.display().to_string();
        let (seed, number, life) = (setting.seed.to_string(), number.to_string(), life.to_string());
        Process::spawn("weather_a_storm", &[&proxy.url(), &folder, &seed, &number, &life, setting.manners])
    }

    /// Kills the process; another one takes its place at once.
    pub(super) fn replace(&mut self) {
        self.process.kill();
        self.killed.push(monotonic());
        self.process = Self::spawn(self.number, self.killed.len(), &self.proxy, &self.setting);
        self.process.say("go");
    }

    fn hears(&self, word: &str) -> bool {
        let until = Instant::now() + TOLD;
        loop {
            match self.process.hear_within(until.saturating_duration_since(Instant::now())) {
                Some(said) if said == word => return true,
                // A replacement says that it is connected when nobody asks.
                Some(_) => {}
                None => return false,
            }
        }
    }

    fn lives(&self) -> Vec<Life> {
        let read = |life: usize| {
            let path = log_path(&self.setting.folder, self.number, life as u64);
            // One that was killed early has none.
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines = text.lines().map(|line| line.parse().expect("every line is whole")).collect();
            Life { process: self.number, life: life as u64, killed: self.killed.get(life).copied(), lines }
        };
        (0..=self.killed.len()).map(read).collect()
    }
}

/// Looks until it is well, for as long as tidying may take; otherwise the last look's complaint.
fn patient<T>(mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let until = Instant::now() + TIDY + LONGEST_LEASE * 2;
    loop {
        match look() {
            Err(_) if Instant::now() < until => thread::sleep(LOOK),
            seen => return seen,
        }
    }
}
