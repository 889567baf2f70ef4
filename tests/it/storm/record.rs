//! What a process of the storm writes down, line by line and before anything else can happen to it. It draws no
//! conclusion: that is `verdict.rs`.

use std::{
    fs::{File, OpenOptions},
    io::{Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// One acquisition, from the question to its end: the process, its incarnation, a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Section {
    pub(crate) process: u32,
    pub(crate) incarnation: u32,
    pub(crate) number: u32,
}

/// What happened. Times are of the clock that all processes of the machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Before the first poll; `wait` is `None` where it waits for as long as it takes.
    Asked { name: usize, at: Duration, wait: Option<Duration> },
    /// `is_held()` was true, and then the clock showed this.
    Entered { at: Duration },
    /// The clock showed this, and then `is_held()` was true.
    Held { at: Duration },
    /// The counter was `saw` at the start of the section, and this section's entry became the one after `place` others.
    Counted { saw: u64, place: u64 },
    /// `is_held()` was false though nothing was released.
    Lost { at: Duration, cause: String },
    /// About to release.
    Leaving { at: Duration },
    /// The acquisition is over: without a guard, or with its hold released or given up.
    Over { at: Duration, how: String },
    /// A forced release of this name, from before the call until after its answer.
    Forced { name: usize, from: Duration, until: Duration },
}

/// A process's record: every line is one write to the end of a file, so nothing is lost with the process.
#[derive(Debug)]
pub(crate) struct Record(File);

impl Record {
    pub(crate) fn path(folder: &Path, process: u32, incarnation: u32) -> PathBuf {
        folder.join(format!("{process}.{incarnation}.log"))
    }

    pub(crate) fn create(path: &Path) -> Self {
        Self(appending(path))
    }

    pub(crate) fn note(&self, number: u32, fact: &Fact) {
        (&self.0).write_all(line(number, fact).as_bytes()).expect("the record takes a line");
    }
}

fn line(number: u32, fact: &Fact) -> String {
    let ns = Duration::as_nanos;
    match fact {
        Fact::Asked { name, at, wait } => {
            let wait = wait.map_or("-".to_owned(), |wait| wait.as_nanos().to_string());
            format!("{number} asked {name} {} {wait}\n", ns(at))
        }
        Fact::Entered { at } => format!("{number} entered {}\n", ns(at)),
        Fact::Held { at } => format!("{number} held {}\n", ns(at)),
        Fact::Counted { saw, place } => format!("{number} counted {saw} {place}\n"),
        Fact::Lost { at, cause } => format!("{number} lost {} {cause}\n", ns(at)),
        Fact::Leaving { at } => format!("{number} leaving {}\n", ns(at)),
        Fact::Over { at, how } => format!("{number} over {} {how}\n", ns(at)),
        Fact::Forced { name, from, until } => format!("{number} forced {name} {} {}\n", ns(from), ns(until)),
    }
}

/// A line of a record; `None` for the last one of a process that was killed while it wrote.
pub(crate) fn read_line(line: &str) -> Option<(u32, Fact)> {
    let words: Vec<&str> = line.split(' ').collect();
    let time = |at: usize| Some(Duration::from_nanos(words.get(at)?.parse().ok()?));
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let name = |at: usize| words.get(at)?.parse::<usize>().ok();
    let rest = |at: usize| words.get(at..).map(|words| words.join(" "));
    let fact = match *words.get(1)? {
        "asked" => {
            let wait = if *words.get(4)? == "-" { None } else { Some(time(4)?) };
            Fact::Asked { name: name(2)?, at: time(3)?, wait }
        }
        "entered" => Fact::Entered { at: time(2)? },
        "held" => Fact::Held { at: time(2)? },
        "counted" => Fact::Counted { saw: number(2)?, place: number(3)? },
        "lost" => Fact::Lost { at: time(2)?, cause: rest(3)? },
        "leaving" => Fact::Leaving { at: time(2)? },
        "over" => Fact::Over { at: time(2)?, how: rest(3)? },
        "forced" => Fact::Forced { name: name(2)?, from: time(3)?, until: time(4)? },
        _ => return None,
    };
    Some((words.first()?.parse().ok()?, fact))
}

/// A counter that a lock guards: a file of entries of one size, each added at the end. It survives whoever dies, and
/// shows in which order the entries came.
#[derive(Debug)]
pub(crate) struct Counter(PathBuf);

const ENTRY: u64 = 32;

impl Counter {
    pub(crate) fn of(folder: &Path, name: usize) -> Self {
        Self(folder.join(format!("{name}.count")))
    }

    /// How many entries there are.
    pub(crate) fn value(&self) -> u64 {
        std::fs::metadata(&self.0).map_or(0, |file| file.len() / ENTRY)
    }

    /// Adds an entry; how many were before it.
    pub(crate) fn add(&self, section: Section) -> u64 {
        let mut file = appending(&self.0);
        let entry = format!("{:>9} {:>9} {:>11}\n", section.process, section.incarnation, section.number);
        file.write_all(entry.as_bytes()).expect("the counter takes an entry");
        // Where an appending file stands is the end of its own last write.
        file.stream_position().expect("a file has a position") / ENTRY - 1
    }

    /// Who added the entries, in order.
    pub(crate) fn entries(&self) -> Vec<Section> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let entry = |line: &str| {
            let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
            let mut next = || numbers.next().expect("three numbers");
            Section { process: next(), incarnation: next(), number: next() }
        };
        text.lines().map(entry).collect()
    }
}

fn appending(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).expect("the folder takes a file")
}

#[test]
fn what_is_written_is_read_again() {
    let at = Duration::from_nanos(5);
    let facts = [
        Fact::Asked { name: 1, at, wait: None },
        Fact::Asked { name: 1, at, wait: Some(at) },
        Fact::Entered { at },
        Fact::Held { at },
        Fact::Counted { saw: 3, place: 4 },
        Fact::Lost { at, cause: "two words".to_owned() },
        Fact::Leaving { at },
        Fact::Over { at, how: "dropped".to_owned() },
        Fact::Forced { name: 2, from: at, until: at },
    ];
    for fact in facts {
        assert_eq!(read_line(line(17, &fact).trim_end()), Some((17, fact)));
    }
    assert_eq!(read_line("17 ent"), None);
}
