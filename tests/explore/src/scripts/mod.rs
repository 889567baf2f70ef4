//! The table that the explorer takes for a server, beside the scripts on a real one: the same steps, the same answers, the same key.
//!
//! `RELATCH_TABLE_SEQUENCES` says how many sequences are tried, and `RELATCH_TABLE_SEED` repeats those of a seed. What fails is
//! shrunk, and shown as steps.

mod drawn;
mod real;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    env,
    hash::{BuildHasher, RandomState},
};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use self::{
    drawn::{CLIENTS, Step},
    real::{Contents, Real},
};
use crate::{
    explore::server::{self, Key},
    state::{Answer, HoldNumber, Published, Verb},
};

/// Where nothing else is asked for.
const SEQUENCES: u32 = 400;

/// What must have been met: a verb, what it was answered, and whether anybody was told.
const ROWS: &[(&str, &str, bool)] = &[
    ("acquire", "busy", false),
    ("acquire", "gone", false),
    ("acquire", "granted anew", false),
    ("acquire", "granted again", false),
    ("release", "freed", true),
    ("release", "left", false),
    ("release", "gone", false),
    ("hand over", "moved", false),
    ("hand over", "moved", true),
    ("hand over", "moved before", false),
    ("hand over", "gone", false),
    ("renew", "done", false),
    ("renew", "gone", false),
    ("force", "done", true),
    ("force", "gone", false),
    ("time", "over in time", false),
    ("time", "over before a tick", false),
];

#[test]
fn the_table_does_what_the_scripts_do_on_a_real_server() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("it is a number"));
    let sequences = number("RELATCH_TABLE_SEQUENCES").map_or(SEQUENCES, |count| count as u32);
    let seed = number("RELATCH_TABLE_SEED").unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("RELATCH_TABLE_SEED={seed}");
    let config = Config { failure_persistence: None, max_shrink_iters: 20_000, ..Config::with_cases(sequences) };
    let bytes = [seed.to_le_bytes(); 4].concat();
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (real, met) = (RefCell::new(Real::start()), RefCell::new(BTreeSet::new()));
    let difference = |steps: &[Step]| Pair::new(&mut real.borrow_mut(), &mut met.borrow_mut()).difference(steps);
    let outcome =
        runner.run(&drawn::steps(), |steps| difference(&steps).map_or(Ok(()), |what| Err(TestCaseError::fail(what))));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(_, steps)) => {
            let steps = without_needless(steps, |steps| difference(steps).is_some());
            let what = difference(&steps).unwrap_or_else(|| "not seen again".to_owned());
            panic!("{what}\n{steps:#?}\nRELATCH_TABLE_SEED={seed}");
        }
        Err(other) => panic!("{other}"),
    }
    if sequences >= SEQUENCES {
        let met = met.into_inner();
        let missing: Vec<_> = ROWS.iter().filter(|row| !met.contains(*row)).collect();
        assert!(missing.is_empty(), "never met: {missing:?}\nRELATCH_TABLE_SEED={seed}");
    }
}

/// Of what fails, no more than has to be there. Steps that a shrunk one needed for what it was before are still among it.
fn without_needless(mut steps: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut at = steps.len();
    while at > 0 {
        at -= 1;
        let step = steps.remove(at);
        if !fails(&steps) {
            steps.insert(at, step);
        }
    }
    steps
}

/// What was met so far.
type Met = BTreeSet<(&'static str, &'static str, bool)>;

/// One key on both servers.
struct Pair<'a> {
    real: &'a mut Real,
    met: &'a mut Met,
    key: Option<Key>,
    /// Next to nothing is left of a tick.
    late: bool,
    /// Commands that ran.
    ran: Vec<(HoldNumber, Verb)>,
}

impl<'a> Pair<'a> {
    fn new(real: &'a mut Real, met: &'a mut Met) -> Self {
        Self { real, met, key: None, late: false, ran: Vec::new() }
    }

    /// What is not the same after these steps.
    fn difference(mut self, steps: &[Step]) -> Option<String> {
        self.real.clear();
        let mut difference = steps.iter().enumerate().find_map(|(at, step)| {
            let what = self.take(step)?;
            Some(format!("step {at}: {what}"))
        });
        for client in 0..CLIENTS {
            let more = self.real.unlisten(client);
            difference = difference.or(more);
        }
        difference
    }

    fn take(&mut self, step: &Step) -> Option<String> {
        match step {
            Step::Ask(who, verb) => {
                let number = who.number(self.key.map(|key| key.number));
                self.run(number, drawn::of_one_client(number, *verb))
            }
            Step::Again(which) if !self.ran.is_empty() => {
                let (number, verb) = *which.get(&self.ran);
                self.run(number, verb)
            }
            Step::Again(_) => None,
            Step::Listen(client) if self.real.listens[*client] => self.real.unlisten(*client),
            Step::Listen(client) => {
                self.real.listen(*client);
                None
            }
            Step::AlmostTick if self.late => None,
            Step::AlmostTick => {
                self.late = true;
                self.real.tick();
                self.note_end("over before a tick", server::almost_tick)
            }
            Step::Tick => {
                if !std::mem::take(&mut self.late) {
                    self.real.tick();
                }
                self.note_end("over in time", server::tick)
            }
        }
    }

    fn note_end(&mut self, how: &'static str, pass: fn(&mut Option<Key>) -> bool) -> Option<String> {
        if pass(&mut self.key) {
            self.met.insert(("time", how, false));
        }
        self.contents_differ()
    }

    /// Runs a command on both.
    fn run(&mut self, number: HoldNumber, verb: Verb) -> Option<String> {
        self.ran.push((number, verb));
        let before = self.key;
        let listeners: Vec<usize> = (0..CLIENTS).filter(|client| self.real.listens[*client]).collect();
        let (mut published, late) = (false, self.late);
        let table = server::told(server::run(&mut self.key, number.0, verb, late), || {
            published = true;
            listeners.len() as u32
        });
        self.met.insert(row(before, number, verb, table));
        let real = self.real.run(number, verb);
        if real != Ok(table) {
            return Some(format!("{verb:?} of {number:?} on {before:?}:\n  real {real:?}\n  table {table:?}"));
        }
        let heard = if published { listeners } else { Vec::new() };
        let misheard = heard.into_iter().find_map(|client| self.real.mishears(client));
        let differs = misheard.or_else(|| self.contents_differ());
        differs.map(|what| format!("{verb:?} of {number:?} on {before:?}: {what}"))
    }

    fn contents_differ(&mut self) -> Option<String> {
        let table = self.key.map(|Key { number, count, ttl, .. }| Contents {
            holds: vec![(HoldNumber(number), count)],
            // The tick that is almost over has passed there.
            ticks: i64::from(ttl) - i64::from(self.late),
        });
        let real = self.real.contents();
        (real != table).then(|| format!("the key:\n  real {real:?}\n  table {table:?}"))
    }
}

fn row(before: Option<Key>, number: HoldNumber, verb: Verb, answer: Answer) -> (&'static str, &'static str, bool) {
    let was_its = before.is_some_and(|key| key.number == number.0);
    let name = match verb {
        Verb::Acquire { .. } => "acquire",
        Verb::Release { .. } => "release",
        Verb::HandOver { .. } => "hand over",
        Verb::Renew { .. } => "renew",
        Verb::Force => "force",
    };
    let (how, published) = match answer {
        Answer::Granted { .. } => (if was_its { "granted again" } else { "granted anew" }, Published::No),
        Answer::Busy { .. } => ("busy", Published::No),
        Answer::Released { holds, published } => (if holds == 0 { "freed" } else { "left" }, published),
        Answer::Moved { published, .. } => (if was_its { "moved" } else { "moved before" }, published),
        Answer::Done { published } => ("done", published),
        Answer::Gone => ("gone", Published::No),
        Answer::Split { .. } | Answer::Settled | Answer::Expired => ("of other primitives", Published::No),
    };
    (name, how, published != Published::No)
}
