//! Since when commands have left that are waited for no longer, while the server has answered nobody: the way to it may have
//! become longer than it was. It measures nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::compact_instant::CompactInstant;

/// The oldest such command; zero while there is none.
#[derive(Debug, Default)]
pub(super) struct Unheard(AtomicU64);

impl Unheard {
    /// One that left at `since`. `heard`: when the server answered anybody last.
    pub(super) fn note(&self, since: Instant, heard: Instant) {
        if heard <= since && self.since(|| heard).is_none_or(|known| since < known) {
            self.0.store(CompactInstant::from(since).since_first().max(1), Ordering::Relaxed);
        }
    }

    /// Since when. `heard` is only asked for where it may matter.
    pub(super) fn since(&self, heard: impl FnOnce() -> Instant) -> Option<Instant> {
        let since = self.0.load(Ordering::Relaxed);
        if since == 0 {
            return None;
        }
        let at = Instant::from(CompactInstant::after_first(since));
        if at < heard() {
            // Unless another one was noted meanwhile.
            let _ = self.0.compare_exchange(since, 0, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_counts_until_the_server_answers_somebody() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let unheard = Unheard::default();
        assert_eq!(unheard.since(|| panic!("nothing was noted")), None);
        unheard.note(at(5), at(6));
        assert_eq!(unheard.since(|| at(6)), None, "it answered somebody since");
        for since in [20, 10, 30] {
            unheard.note(at(since), at(6));
        }
        assert_eq!(unheard.since(|| at(10)), Some(at(10)));
        assert_eq!(unheard.since(|| at(11)), None);
        assert_eq!(unheard.since(|| panic!("it is forgotten")), None);
    }
}
