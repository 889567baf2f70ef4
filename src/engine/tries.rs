//! How many tries of one client are under way at a time. Waiters that are all woken at once never stand before renewals and
//! releases, and on a long way no fewer are answered in the same time than on a short one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// So many of each half are in flight where the server is near.
pub(super) const TRIES: usize = 64;

/// So many of those whose grants replicas are to know of: they share questions over a link of their own, on which nobody else
/// stands behind them.
pub(super) const ACKNOWLEDGED_TRIES: usize = 4096;

/// One half is for callers that poll their own try, who may stop polling and keep their place; the other for those that come
/// when the first is taken, whose tries run in the background and always end.
#[derive(Debug)]
pub(super) struct Tries {
    at_hand: Places,
    queued: Places,
    acknowledged: Semaphore,
}

/// Places for one half.
#[derive(Debug)]
struct Places {
    free: Arc<Semaphore>,
    /// Those that are free, and those that are taken.
    made: AtomicUsize,
}

impl Tries {
    /// A place for a caller that polls, if there is one. `wanted`: how many there are to be, which is only asked where it may
    /// matter.
    pub(super) fn at_hand(&self, wanted: impl Fn() -> usize) -> Option<SemaphorePermit<'_>> {
        let places = &self.at_hand;
        if TRIES < places.made.load(Ordering::Relaxed) {
            places.fit(wanted());
        }
        places.free.try_acquire().ok().or_else(|| {
            places.fit(wanted());
            places.free.try_acquire().ok()
        })
    }

    /// A place for a try in the background, once there is one.
    pub(super) async fn queued(&self, wanted: usize) -> Option<OwnedSemaphorePermit> {
        self.queued.fit(wanted);
        Arc::clone(&self.queued.free).acquire_owned().await.ok()
    }

    /// A place for one whose grant replicas are to know of, once there is one.
    pub(super) async fn acknowledged(&self) -> Option<SemaphorePermit<'_>> {
        self.acknowledged.acquire().await.ok()
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> [&Semaphore; 3] {
        [&self.at_hand.free, &self.queued.free, &self.acknowledged]
    }
}

impl Default for Tries {
    fn default() -> Self {
        let (at_hand, queued) = Default::default();
        Self { at_hand, queued, acknowledged: Semaphore::new(ACKNOWLEDGED_TRIES) }
    }
}

impl Default for Places {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(TRIES)), made: AtomicUsize::new(TRIES) }
    }
}

impl Places {
    /// There are to be so many. Of those that are too many the taken ones stay until somebody asks again.
    fn fit(&self, wanted: usize) {
        let made = self.made.load(Ordering::Relaxed);
        // Whoever comes second leaves it to the first.
        if made == wanted || self.made.compare_exchange(made, wanted, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        match wanted.checked_sub(made) {
            Some(more) => self.free.add_permits(more),
            None => {
                let gone = self.free.forget_permits(made - wanted);
                self.made.fetch_add(made - wanted - gone, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::by_place::ByPlace, *};

    #[test]
    fn where_all_places_of_one_server_are_taken_those_of_the_others_are_free() {
        let tries = ByPlace::<Tries>::default();
        for place in [0, 7] {
            let here = tries.at(place);
            let taken: Vec<_> = std::iter::from_fn(|| here.at_hand(|| TRIES)).collect();
            assert_eq!((taken.len(), tries.at(place).free()[0].available_permits()), (TRIES, 0));
            assert!([1, 8].into_iter().all(|other| tries.at(other).at_hand(|| TRIES).is_some()));
        }
    }

    #[test]
    fn there_are_as_many_places_as_are_wanted_and_those_that_are_taken_are_not_taken_away() {
        let tries = Tries::default();
        let taken: Vec<_> = std::iter::from_fn(|| tries.at_hand(|| 200)).collect();
        assert_eq!(taken.len(), 200);
        assert!(tries.at_hand(|| TRIES).is_none());
        drop(taken);
        let taken: Vec<_> = std::iter::from_fn(|| tries.at_hand(|| TRIES)).collect();
        assert_eq!(taken.len(), TRIES, "the way is short again");
    }
}
