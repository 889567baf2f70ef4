//! The server in this process beside a real one: the same steps, the same replies, messages and state, to the word.
//!
//! `RELATCH_DIFF_SEQUENCES` says how many sequences are tried. What fails is shrunk, and shown as steps.

mod pipeline;
mod scripts;
mod steps;

use std::{cell::RefCell, env, time::Duration};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestCaseError, TestRunner},
};

use self::{
    pipeline::Answered,
    steps::{CHANNELS, KEYS, Step},
};
use super::{
    super::{Reply, Server},
    real::Real,
};
use crate::script::CATALOGUE;

/// Tells type, TTL and content of every key.
const STATE: &str = "
local read = {
  none = function() return false end,
  string = function(key) return redis.call('GET', key) end,
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}
local state = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  state[i] = {kind, redis.call('PTTL', key), read[kind](key)}
end
return state";

#[test]
fn commands_do_what_they_do_on_a_real_server() {
    compare(steps::commands());
}

#[test]
fn scripts_do_what_they_do_on_a_real_server() {
    compare(scripts::scripts());
}

fn compare(steps: impl Strategy<Value = Vec<Step>>) {
    let sequences = env::var("RELATCH_DIFF_SEQUENCES").map_or(SEQUENCES, |count| count.parse().unwrap());
    let config = Config { failure_persistence: None, max_shrink_iters: 10_000, ..Config::with_cases(sequences) };
    let mut runner = TestRunner::new(config);
    let pair = RefCell::new(Pair::start());
    let outcome = runner.run(&steps, |steps| {
        let difference = pair.borrow_mut().difference(&steps);
        difference.map_or(Ok(()), |difference| Err(TestCaseError::fail(difference)))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Where nothing else is asked for.
const SEQUENCES: u32 = 300;

struct Pair {
    real: Real,
    ours: Server,
}

impl Pair {
    fn start() -> Self {
        let mut real = Real::start(CHANNELS[1], &[]);
        let mut ours = Server::default();
        for (channel, listeners) in CHANNELS.iter().zip([1, 2]) {
            ours.listen(channel.as_bytes(), listeners);
        }
        for script in CATALOGUE {
            real.ask(&["SCRIPT", "LOAD", script.source]);
        }
        Self { real, ours }
    }

    /// What is not the same after these steps on two empty servers.
    fn difference(&mut self, steps: &[Step]) -> Option<String> {
        let Reply::Array(time) = self.real.ask(&["TIME"]) else { panic!("no time") };
        let Reply::Bulk(seconds) = &time[0] else { panic!("no seconds") };
        let start = String::from_utf8_lossy(seconds).parse::<i64>().unwrap() * 1000;
        let commands: Vec<_> = self.commands(steps, start);
        // Of steps that differed before.
        self.real.all_published();
        let (answered, end) = self.real.run(&commands);
        let slack = Slack::of(&answered, end);

        let mut ours = Ours { server: &mut self.ours, start };
        ours.server.execute(Duration::ZERO, &[b"FLUSHALL"]);
        ours.server.take_published();
        let mut answered = answered.iter().skip(1);
        for (number, step) in steps.iter().enumerate() {
            let real = answered.next().unwrap();
            let reply = ours.run(step, real.at);
            if matches!(step, Step::Expire(_)) {
                answered.next().unwrap();
            }
            let (real, reply) = (ordered(step, &real.reply), ordered(step, &reply));
            let within = if step.tells_times(&real) { slack } else { Slack(0) };
            if !within.alike(&real, &reply) {
                return Some(format!("step {number}, {step:?}:\n  real {real:?}\n  ours {reply:?}"));
            }
        }
        let real = answered.next().unwrap();
        let state = ours.command(&state(), real.at);
        if !slack.alike(&real.reply, &state) {
            return Some(format!("the state:\n  real {:?}\n  ours {state:?}", real.reply));
        }
        let removed: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(KEYS.iter().map(|key| key.as_bytes())).collect();
        ours.server.execute(end, &removed);
        if ours.server.used() != 0 {
            return Some(format!("{} bytes of nothing are in use", ours.server.used()));
        }
        let (real, ours) = (self.real.all_published(), self.ours.take_published());
        // Nobody listens by shard there, so nobody tells of it.
        let ours: Vec<_> = ours.into_iter().filter(|message| !message.sharded).collect();
        (real != ours).then(|| format!("the messages:\n  real {real:?}\n  ours {ours:?}"))
    }

    fn commands(&self, steps: &[Step], start: i64) -> Vec<Vec<Vec<u8>>> {
        let mut commands = vec![vec![b"FLUSHALL".to_vec()]];
        for step in steps {
            match step {
                Step::Command(words) => commands.push(words.iter().map(|word| word.bytes(start)).collect()),
                Step::Script { script, keys, args } => {
                    let mut words = vec![b"EVAL".to_vec(), script.source.into(), keys.len().to_string().into_bytes()];
                    words.extend(keys.iter().chain(args).map(|word| word.bytes(start)));
                    commands.push(words);
                }
                Step::Expire(key) => {
                    commands.push(vec![b"PEXPIRE".to_vec(), key.clone(), b"1".to_vec()]);
                    // Longer than that, and nobody runs anything meanwhile.
                    commands.push(["DEBUG", "SLEEP", "0.003"].map(Into::into).to_vec());
                }
            }
        }
        commands.push(state());
        commands
    }
}

fn state() -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = vec![b"EVAL".to_vec(), STATE.into(), KEYS.len().to_string().into_bytes()];
    words.extend(KEYS.iter().map(|key| key.as_bytes().to_vec()));
    words
}

struct Ours<'a> {
    server: &'a mut Server,
    start: i64,
}

impl Ours<'_> {
    fn run(&mut self, step: &Step, now: Duration) -> Reply {
        let words = |words: &[steps::Word]| words.iter().map(|word| word.bytes(self.start)).collect::<Vec<_>>();
        match step {
            Step::Command(command) => self.command(&words(command), now),
            Step::Script { script, keys, args } => {
                let (keys, args) = (words(keys), words(args));
                self.server.run(now, script, &borrowed(&keys), &borrowed(&args))
            }
            Step::Expire(key) => self.command(&[b"PEXPIRE".to_vec(), key.clone(), b"1".to_vec()], now),
        }
    }

    fn command(&mut self, words: &[Vec<u8>], now: Duration) -> Reply {
        self.server.execute(now, &borrowed(words))
    }
}

fn borrowed(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// The keys come in no order that means anything.
fn ordered(step: &Step, reply: &Reply) -> Reply {
    let is_keys = matches!(step, Step::Command(words) if words[0].bytes(0) == b"KEYS");
    match reply {
        Reply::Array(parts) if is_keys => {
            let mut parts = parts.clone();
            parts.sort_by_key(|part| format!("{part:?}"));
            Reply::Array(parts)
        }
        other => other.clone(),
    }
}

/// How far two times may be from each other: a command ran at some time between two looks at the clock.
#[derive(Clone, Copy)]
struct Slack(u64);

impl Slack {
    /// Less is a count and no time.
    const LEAST_TIME: i64 = 500;

    fn of(answered: &[Answered], end: Duration) -> Self {
        let looks: Vec<_> = answered.iter().map(|answered| answered.at).chain([end]).collect();
        let longest = looks.windows(2).map(|two| two[1].saturating_sub(two[0])).max().unwrap_or_default();
        Self(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX) + 1)
    }

    fn alike(&self, real: &Reply, ours: &Reply) -> bool {
        match (real, ours) {
            (Reply::Array(real), Reply::Array(ours)) => {
                real.len() == ours.len() && real.iter().zip(ours).all(|(real, ours)| self.alike(real, ours))
            }
            (Reply::Int(real), Reply::Int(ours)) if self.0 > 0 && real.min(ours) >= &Self::LEAST_TIME => {
                self.near(*real, *ours)
            }
            (real, ours) => real == ours,
        }
    }

    fn near(&self, real: i64, ours: i64) -> bool {
        // A script's numbers are floats: the largest ones have gaps.
        let gap = real.unsigned_abs() >> 52;
        real.abs_diff(ours) <= self.0 + gap
    }
}
