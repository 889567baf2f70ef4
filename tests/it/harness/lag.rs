//! How late the machine runs what is due, while something is timed on it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often it is looked.
const STEP: Duration = Duration::from_millis(1);

/// A timer, a server and whoever is answered run one after the other, and each may be late.
const HOPS: u32 = 3;

/// Watches from its making on. Dropped, it is over.
pub(crate) struct Lag {
    over: Arc<AtomicBool>,
    watch: Option<JoinHandle<Duration>>,
}

impl Lag {
    pub(crate) fn watch() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let watch = thread::spawn(move || {
            let (mut longest, mut before) = (Duration::ZERO, Instant::now());
            while !ends.load(Ordering::Relaxed) {
                thread::sleep(STEP);
                let now = Instant::now();
                longest = longest.max((now - before).saturating_sub(STEP));
                before = now;
            }
            longest
        });
        Self { over, watch: Some(watch) }
    }

    /// What is to be done within this time, where the machine has nothing else to do, may have taken so long on this one.
    pub(crate) fn added_to(mut self, bound: Duration) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        let longest = self.watch.take().map_or(Duration::ZERO, |watch| watch.join().expect("it watches"));
        bound + longest * HOPS
    }
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}
