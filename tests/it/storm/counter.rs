//! A counter in a file that is exact only if nobody raises it while somebody else does. It locks nothing.
//!
//! It keeps its history: each raise reads how many raises there were and appends that number. Where two read the same
//! number, a plain counter would have lost an update; here it also shows whose.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Every record is as long as this, line end included.
const RECORD: usize = 64;

/// A writer's handle.
#[derive(Debug)]
pub(super) struct Counter(File);

/// One raise: what its writer had read, and who that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raise {
    pub(crate) from: u64,
    pub(crate) by: Guard,
}

/// A guard of the whole fleet: which process, the how manieth in its place, and the guard's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Guard {
    pub(crate) process: u64,
    pub(crate) life: u64,
    pub(crate) number: u64,
}

impl Counter {
    pub(super) fn open(folder: &Path, name: usize) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path(folder, name));
        Self(file.expect("the counter opens"))
    }

    pub(super) fn read(&self) -> u64 {
        self.0.metadata().expect("the counter has a length").len() / RECORD as u64
    }

    pub(super) fn write(&self, from: u64, by: Guard) {
        let record = format!("{from} {} {} {}", by.process, by.life, by.number);
        (&self.0).write_all(format!("{record:<63}\n").as_bytes()).expect("the counter takes a record");
    }
}

/// All raises, in the order in which they were written.
pub(super) fn history(folder: &Path, name: usize) -> Vec<Raise> {
    let text = match fs::read_to_string(path(folder, name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        text => text.expect("the counter is read"),
    };
    let raise = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [from, process, life, number] = numbers[..] else { panic!("no record of a counter: {line}") };
        Raise { from, by: Guard { process, life, number } }
    };
    text.lines().map(raise).collect()
}

fn path(folder: &Path, name: usize) -> PathBuf {
    folder.join(format!("counter-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::unique_name;

    #[test]
    fn two_raises_from_one_reading_are_both_in_the_history() {
        let folder = std::env::temp_dir().join(unique_name());
        fs::create_dir(&folder).expect("a folder is made");
        let counter = Counter::open(&folder, 0);
        let by = |number| Guard { process: 1, life: 2, number };
        counter.write(counter.read(), by(10));
        let both = counter.read();
        counter.write(both, by(11));
        counter.write(both, by(12));
        let read = history(&folder, 0);
        fs::remove_dir_all(&folder).expect("the folder is removed");
        let raise = |from, number| Raise { from, by: by(number) };
        assert_eq!(read, [raise(0, 10), raise(1, 11), raise(1, 12)]);
    }
}
