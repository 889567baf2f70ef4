//! The processes of a storm, each behind proxies of its own: started, replaced, brought to rest and asked for their
//! state. What is done to them meanwhile is `chaos.rs`.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    NAMES,
    chaos::Done,
    checker::{Bounds, Chronicle, Life},
    counter,
    servers::{Kind, Servers},
    worker::{Footprint, log_path},
};
use crate::harness::{clock::monotonic, process::Process, proxy::Proxy};

/// How long a process may take to do what it is told, when nobody harasses it.
const TOLD: Duration = Duration::from_secs(40);
/// How long after rest something may be left: what was let go, or nobody ever believed in, for a lease, and its reaping
/// for a third more. A busy machine may take some time besides.
const TIDY: Duration = Duration::from_secs(3);
/// How long after it was last needed a client of a cluster may have a node that has no slots: it looks every ten seconds.
const GUESTS: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(20);
/// A process at rest is what it is once it has been so for this long: longer than any pause before something is tried again.
const SETTLED: Duration = Duration::from_millis(1_500);
/// How much larger than at its first rest a process may be at its last.
const GROWTH_KIB: usize = 4 * 1024;

/// All of them, and their servers.
pub(super) struct Fleet {
    pub(super) servers: Servers,
    kind: Kind,
    pub(super) ships: Vec<Ship>,
    folder: Arc<PathBuf>,
}

/// One process and its links.
pub(super) struct Ship {
    pub(super) number: u64,
    pub(super) process: Process,
    /// One for each of its ways.
    pub(super) proxies: Vec<Proxy>,
    urls: String,
    setting: Setting,
    /// When those that were here before were killed.
    killed: Vec<Duration>,
}

#[derive(Clone)]
struct Setting {
    seed: u64,
    manners: &'static str,
    kind: Kind,
    folder: Arc<PathBuf>,
}

impl Fleet {
    /// Starts servers and the processes, with these manners.
    pub(super) fn launch(seed: u64, manners: &'static str, kind: Kind) -> Self {
        let servers = Servers::start(kind);
        let folder = Arc::new(servers.folder());
        fs::create_dir(&*folder).expect("a folder is made");
        let setting = Setting { seed, manners, kind, folder: Arc::clone(&folder) };
        let ships = (0..kind.processes()).map(|number| Ship::launch(number, &servers, setting.clone())).collect();
        let fleet = Self { servers, kind, ships, folder };
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
        let tidy = patient(self.kind, || self.servers.are_tidy());
        wrong.extend(tidy.err().map(|left| format!("at rest this is left on the servers: {left}")));
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
        let kind = self.kind;
        patient(kind, || {
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
            bounds: Bounds { lease: self.kind.longest_lease(), ..Bounds::default() },
            sheltered: (0..self.kind.processes()).filter(|process| self.kind.shelters(*process)).collect(),
            lives: self.ships.iter().flat_map(Ship::lives).collect(),
            counters: (0..NAMES).map(|name| counter::history(&self.folder, name)).collect(),
            ..Chronicle::default()
        };
        for done in done {
            chronicle.losses.extend(done.losses);
            chronicle.freezes.extend(done.freezes);
            wrong.extend(done.wrong);
        }
        (chronicle, wrong)
    }
}

impl Ship {
    fn launch(number: u64, servers: &Servers, setting: Setting) -> Self {
        let (proxies, urls): (Vec<_>, Vec<_>) = servers.ways(number).into_iter().unzip();
        let urls = urls.join(" ");
        let process = Self::spawn(number, 0, &urls, &setting);
        Self { number, process, proxies, urls, setting, killed: Vec::new() }
    }

    fn spawn(number: u64, life: usize, urls: &str, setting: &Setting) -> Process {
        let folder = setting.folder.display().to_string();
        let (seed, number, life) = (setting.seed.to_string(), number.to_string(), life.to_string());
        let (manners, kind) = (setting.manners, setting.kind.word());
        Process::spawn("weather_a_storm", &[urls, &folder, &seed, &number, &life, manners, kind])
    }

    /// Kills the process; another one takes its place at once.
    pub(super) fn replace(&mut self) {
        self.process.kill();
        self.killed.push(monotonic());
        self.process = Self::spawn(self.number, self.killed.len(), &self.urls, &self.setting);
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
fn patient<T>(kind: Kind, mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let guests = if kind == Kind::Cluster { GUESTS } else { Duration::ZERO };
    let until = Instant::now() + TIDY + kind.longest_lease() * 2 + guests;
    loop {
        match look() {
            Err(_) if Instant::now() < until => thread::sleep(LOOK),
            seen => return seen,
        }
    }
}
