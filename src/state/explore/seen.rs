//! The fingerprints of all worlds that were met: nothing but the numbers, in open addressing, behind a few mutexes.

use std::sync::{Mutex, PoisonError};

/// Several threads seldom want the same part.
const PARTS: usize = 64;
const FIRST_PLACES: usize = 1 << 8;

/// A part is at most so full, in eighths.
const FULL: usize = 6;

pub(crate) struct Seen {
    parts: Vec<Mutex<Part>>,
}

struct Part {
    /// Zero is empty.
    places: Vec<u64>,
    count: usize,
}

impl Seen {
    pub(crate) fn new() -> Self {
        let part = || Mutex::new(Part { places: vec![0; FIRST_PLACES], count: 0 });
        Self { parts: (0..PARTS).map(|_| part()).collect() }
    }

    /// Whether it was not there before.
    pub(crate) fn insert(&self, print: u64) -> bool {
        // The low bits choose the place.
        let part = (print >> 58) as usize % PARTS;
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner).insert(print)
    }
}

impl Part {
    fn insert(&mut self, print: u64) -> bool {
        let Err(empty) = self.find(print) else { return false };
        self.places[empty] = print;
        self.count += 1;
        if self.count * 8 > self.places.len() * FULL {
            let twice = vec![0; self.places.len() * 2];
            for print in std::mem::replace(&mut self.places, twice).into_iter().filter(|print| *print != 0) {
                if let Err(empty) = self.find(print) {
                    self.places[empty] = print;
                }
            }
        }
        true
    }

    /// Where it is, or else where it belongs.
    fn find(&self, print: u64) -> Result<usize, usize> {
        let mask = self.places.len() - 1;
        let mut at = print as usize & mask;
        loop {
            match self.places[at] {
                0 => return Err(at),
                it if it == print => return Ok(at),
                _ => at = (at + 1) & mask,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_however_many_there_are() {
        let seen = Seen::new();
        // Many of one part, and all in the same place of it.
        let prints = || (1..5_000_u64).flat_map(|at| [at << 40, at, u64::MAX - at]);
        assert!(prints().all(|print| seen.insert(print)));
        assert!(prints().all(|print| !seen.insert(print)));
    }
}
