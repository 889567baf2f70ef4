//! Whether a lock excludes: a cell that only a lock can keep right, in this process and in a file that others share. It
//! counts what is wrong, and stops nobody.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Loads and stores, never both in one step: whoever is inside together is seen by at least one of them.
pub(super) struct Check {
    /// Who is inside, counted from one; zero is nobody.
    inside: AtomicU64,
    /// How many have been inside, counted in two steps.
    kept: AtomicU64,
    /// The same, counted in one.
    sections: AtomicU64,
    violations: AtomicU64,
    /// When the last one left, in nanoseconds of `begun`; zero is never.
    left_at: AtomicU64,
    begun: Instant,
    /// Eight bytes: zero, or who of all processes is inside.
    shared: Option<File>,
}

impl Check {
    pub(super) fn new(shared: Option<File>) -> Self {
        Self {
            inside: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            sections: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            left_at: AtomicU64::new(0),
            begun: Instant::now(),
            shared,
        }
    }

    /// A task is inside from now on; gives how long nobody was.
    pub(super) fn enter(&self, task: usize, now: Instant) -> Option<Duration> {
        let gap = match self.left_at.load(Relaxed) {
            0 => None,
            left => Some(Duration::from_nanos(self.nanos(now).saturating_sub(left))),
        };
        if self.inside.load(Relaxed) != 0 {
            self.violated();
        }
        self.inside.store(of_task(task), Relaxed);
        if let Some(file) = &self.shared {
            if read(file) != 0 {
                self.violated();
            }
            write(file, of_process(task));
        }
        gap
    }

    /// The task is inside no more.
    pub(super) fn leave(&self, task: usize, now: Instant) {
        let kept = self.kept.load(Relaxed);
        if self.inside.load(Relaxed) != of_task(task) {
            self.violated();
        }
        if let Some(file) = &self.shared {
            if read(file) != of_process(task) {
                self.violated();
            }
            write(file, 0);
        }
        self.sections.fetch_add(1, Relaxed);
        self.left_at.store(self.nanos(now), Relaxed);
        self.kept.store(kept + 1, Relaxed);
        self.inside.store(0, Relaxed);
    }

    /// How often two were seen inside, and how many sections two steps of counting have lost.
    pub(super) fn violations(&self) -> u64 {
        self.violations.load(Relaxed) + self.sections.load(Relaxed).saturating_sub(self.kept.load(Relaxed))
    }

    fn violated(&self) {
        self.violations.fetch_add(1, Relaxed);
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.duration_since(self.begun).as_nanos() as u64
    }
}

fn of_task(task: usize) -> u64 {
    task as u64 + 1
}

fn of_process(task: usize) -> u64 {
    of_task(task) | u64::from(process::id()) << 20
}

/// What cannot be read is nobody, which whoever is inside will not find right.
fn read(file: &File) -> u64 {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

fn write(file: &File, who: u64) {
    // What is not written will not be read, and that is counted.
    let _ = file.write_all_at(&who.to_le_bytes(), 0);
}
