//! What goes wrong in a storm: processes and the server are killed and frozen, links lie, scripts are forgotten. Seeded;
//! it keeps the circumstances that the verdict must know, and can end everything that it began.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use super::{dice::Dice, fleet::Fleet, verdict::Circumstances, worker};
use crate::harness::{
    Server,
    clock::monotonic,
    proxy::{
        Action, Door, Rule,
        matching::{Match, any, command, push, script},
    },
};

/// How much later than its bound a wait may end: two cores have a dozen processes to serve.
const SLACK: Duration = Duration::from_millis(1500);

/// The default slice, and as much as a woken task may be late on two cores.
const PASSING: Duration = Duration::from_millis(60);

/// Everything that goes wrong, in the order of the dice.
pub(crate) struct Chaos<'a> {
    server: &'a Server,
    fleet: &'a mut Fleet,
    dice: Dice,
    pub(crate) circumstances: Circumstances,
    rules: Vec<(Instant, Rule)>,
    /// What ends again, and when.
    ends: Vec<(Instant, End)>,
    frozen: Vec<Option<Duration>>,
    /// The server cannot be asked until then.
    absent: Option<Instant>,
    /// How often each thing went wrong.
    pub(crate) tally: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    ThawProcess(usize),
    ThawServer,
    OpenDoor(usize),
    LiftThrottle(usize),
}

/// Nothing went wrong.
pub(crate) fn fair_weather() -> Circumstances {
    Circumstances { longest_lease: worker::LONGEST_LEASE, slack: SLACK, passing: PASSING, ..Circumstances::default() }
}

impl<'a> Chaos<'a> {
    pub(crate) fn new(server: &'a Server, fleet: &'a mut Fleet, dice: Dice) -> Self {
        let frozen = vec![None; fleet.len()];
        Self {
            server,
            fleet,
            dice,
            circumstances: fair_weather(),
            rules: Vec::new(),
            ends: Vec::new(),
            frozen,
            absent: None,
            tally: BTreeMap::new(),
        }
    }

    /// Lets things go wrong for so long, then lets them be as they were.
    pub(crate) fn rage(&mut self, long: Duration) {
        let until = Instant::now() + long;
        while Instant::now() < until {
            // In gusts: between two of them links come back, queues form, and what is late arrives.
            for _ in 0..1 + self.dice.of(12) {
                let pause = self.dice.millis(1, 80);
                self.pass(pause);
                self.once();
            }
            let calm = self.dice.millis(50, 900);
            self.pass(calm);
        }
        self.calm();
    }

    /// Waits, and ends meanwhile what is to end.
    fn pass(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let now = Instant::now();
            while let Some(due) = self.ends.iter().position(|(at, _)| *at <= now) {
                let (_, end) = self.ends.swap_remove(due);
                self.end(end);
            }
            self.rules.retain(|(at, rule)| {
                if *at <= now {
                    rule.let_go();
                    rule.remove();
                }
                *at > now
            });
            self.absent = self.absent.filter(|until| *until > now);
            if now >= until {
                return;
            }
            let next = self.ends.iter().map(|(at, _)| *at).chain([until]).min().unwrap_or(until);
            thread::sleep(next.saturating_duration_since(now).min(Duration::from_millis(20)));
        }
    }

    fn once(&mut self) {
        let process = usize::try_from(self.dice.of(self.fleet.len() as u64)).expect("an index");
        let what = match self.dice.of(100) {
            0..=8 => self.freeze_process(process),
            9..=11 => self.kill_process(process),
            12..=64 => self.lie(process),
            65..=69 => {
                self.fleet.proxy(process).cut_all();
                "links cut"
            }
            70..=72 => {
                self.fleet.proxy(process).silence_all();
                "links silent"
            }
            73..=77 => {
                let door = if self.dice.percent(50) { Door::Refusing } else { Door::Silent };
                self.fleet.proxy(process).door(door);
                self.fleet.proxy(process).cut_all();
                self.later(20, 1500, End::OpenDoor(process));
                "doors closed"
            }
            78..=80 => {
                let bytes = 500 + self.dice.of(20_000);
                self.fleet.proxy(process).throttle(bytes);
                self.later(50, 800, End::LiftThrottle(process));
                "throttled"
            }
            _ if self.absent.is_some() => return,
            81..=85 => {
                self.server.flush_scripts();
                "scripts flushed"
            }
            86..=89 => {
                let kind = if self.dice.percent(50) { "normal" } else { "pubsub" };
                let _: Result<i64, _> = redis::cmd("CLIENT")
                    .arg(["KILL", "TYPE", kind, "SKIPME", "yes"].as_slice())
                    .query(&mut self.server.connection());
                "clients killed"
            }
            90..=93 => self.sleep_in_server(),
            94..=96 => {
                self.server.freeze();
                self.absent = Some(self.later(20, 1600, End::ThawServer));
                "server frozen"
            }
            97..=98 => {
                let from = monotonic();
                self.server.restart_empty();
                self.circumstances.restarts.push((from, monotonic()));
                "server restarted empty"
            }
            _ => {
                self.no_key_without_an_end();
                return;
            }
        };
        *self.tally.entry(what).or_default() += 1;
    }

    fn later(&mut self, least: u64, most: u64, end: End) -> Instant {
        let at = Instant::now() + self.dice.millis(least, most);
        self.ends.push((at, end));
        at
    }

    fn end(&mut self, end: End) {
        match end {
            End::ThawProcess(process) => {
                if let Some(from) = self.frozen[process].take() {
                    self.fleet.process(process).thaw();
                    let number = u32::try_from(process).expect("few processes");
                    self.circumstances.frozen.push((number, from, monotonic()));
                }
            }
            End::ThawServer => {
                self.server.thaw();
                self.absent = None;
            }
            End::OpenDoor(process) => self.fleet.proxy(process).door(Door::Open),
            End::LiftThrottle(process) => self.fleet.proxy(process).throttle(0),
        }
    }

    fn freeze_process(&mut self, process: usize) -> &'static str {
        if self.frozen[process].is_none() {
            self.frozen[process] = Some(monotonic());
            self.fleet.process(process).freeze();
            // From a hiccup to beyond a lease.
            let most = if self.dice.percent(30) { 2000 } else { 200 };
            self.later(1, most, End::ThawProcess(process));
        }
        "processes frozen"
    }

    fn kill_process(&mut self, process: usize) -> &'static str {
        self.frozen[process] = None;
        let killed = self.fleet.replace(process);
        self.circumstances.killed.insert(killed);
        "processes killed"
    }

    /// A rule for the next of some command, in force for a while.
    fn lie(&mut self, process: usize) -> &'static str {
        let verbs = ["acquire", "release", "renew", "hand_over", "force_release", "inspect"];
        let nth = 1 + usize::try_from(self.dice.of(3)).expect("small");
        let pushed = self.dice.percent(12);
        let about: Match = match self.dice.of(20) {
            _ if pushed => push("message"),
            0 => command("SUBSCRIBE"),
            1 => command("UNSUBSCRIBE"),
            2 => any().on_subscribing(),
            3 => any().on_commanding(),
            _ => script(self.dice.one::<&str>(&verbs)),
        };
        let delay = self.dice.millis(1, 400);
        let actions = [
            ("requests delayed", Action::DelayRequest(delay)),
            ("replies delayed", Action::DelayReply(delay)),
            ("requests held", Action::HoldRequest),
            ("replies held", Action::HoldReply),
            ("requests swallowed", Action::SwallowRequest),
            ("replies swallowed", Action::SwallowReply),
            ("requests duplicated", Action::Duplicate),
            ("requests duplicated late", Action::DuplicateLater),
            ("requests after a flush", Action::FlushScriptsFirst),
            ("cut before", Action::CutBefore),
            ("cut after", Action::CutAfter),
            ("cut in a request", Action::CutMidRequest),
            ("cut in a reply", Action::CutMidReply),
            ("silence", Action::Silence),
        ];
        // Of what the server says by itself there is only the reply.
        let of_pushes =
            ["replies delayed", "replies held", "replies swallowed", "cut after", "cut in a reply", "silence"];
        let mut what = *self.dice.one(&actions);
        while pushed && !of_pushes.contains(&what.0) {
            what = *self.dice.one(&actions);
        }
        let rule = self.fleet.proxy(process).rule(about.nth(nth), what.1);
        let until = Instant::now() + self.dice.millis(20, 2500);
        self.rules.push((until, rule));
        what.0
    }

    /// `DEBUG SLEEP` blocks whoever asks for it as well.
    fn sleep_in_server(&mut self) -> &'static str {
        let long = self.dice.millis(20, 1300);
        let mut connection = self.server.connection();
        let sleeper = thread::spawn(move || {
            let _: Result<String, _> = redis::cmd("DEBUG").arg("SLEEP").arg(long.as_secs_f64()).query(&mut connection);
        });
        drop(sleeper);
        self.absent = Some(Instant::now() + long + Duration::from_millis(50));
        "server asleep"
    }

    /// Every key of the storm is a lock, and has a lease that is no longer than the longest.
    fn no_key_without_an_end(&mut self) {
        let mut connection = self.server.connection();
        for key in self.server.keys() {
            let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("the server answers");
            let longest = i64::try_from(worker::LONGEST_LEASE.as_millis()).expect("short");
            assert!(ttl == -2 || (0..=longest).contains(&ttl), "{key} has a TTL of {ttl} ms");
        }
        *self.tally.entry("looks at every key").or_default() += 1;
    }

    /// Ends everything that was begun.
    pub(crate) fn calm(&mut self) {
        for (_, end) in std::mem::take(&mut self.ends) {
            self.end(end);
        }
        for (_, rule) in self.rules.drain(..) {
            rule.let_go();
            rule.remove();
        }
        for process in 0..self.fleet.len() {
            self.fleet.proxy(process).clear_log();
        }
        if let Some(until) = self.absent.take() {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
    }

    pub(crate) fn fleet(&mut self) -> &mut Fleet {
        self.fleet
    }
}
