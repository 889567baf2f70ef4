//! One token for several holds of an owner: cancelled with the first that ends.

use std::sync::{
    Arc, PoisonError,
    atomic::{Ordering, fence},
};

use tokio_util::sync::CancellationToken;

use super::tenure::{Joint, Tenure};

impl Tenure {
    /// Cancelled when the first of these tenures ends, or their owner is to stop: one for all who ask while they last. `stops`:
    /// whether the owner is to stop by now.
    pub(super) fn token_of_all(tenures: &[&Arc<Self>], stops: impl FnOnce() -> bool) -> CancellationToken {
        let of: Arc<[_]> = tenures.iter().map(|tenure| Arc::as_ptr(tenure).addr()).collect();
        let known = |joint: &mut Vec<Joint>| joint.iter().find(|it| it.of == of).map(|it| it.stop.clone());
        let stop = tenures.first().and_then(|first| first.with_joint(known)).unwrap_or_else(|| {
            let stop = CancellationToken::new();
            for tenure in tenures {
                tenure.with_joint(|joint| joint.push(Joint { of: Arc::clone(&of), stop: stop.clone() }));
            }
            stop
        });
        fence(Ordering::SeqCst);
        if tenures.iter().any(|tenure| tenure.end().is_some()) || stops() {
            stop.cancel();
        }
        stop
    }

    /// Those that count, under their mutex.
    fn with_joint<R>(&self, change: impl FnOnce(&mut Vec<Joint>) -> R) -> R {
        let joint = self.more().joint.get_or_init(Box::default);
        let mut joint = joint.lock().unwrap_or_else(PoisonError::into_inner);
        // A tenure of the others may have ended, and its place be another's.
        joint.retain(|joint| !joint.stop.is_cancelled());
        change(&mut joint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::ended::End, owner::Owner};

    #[test]
    fn one_token_stands_for_the_same_tenures_and_none_stays_that_was_cancelled() {
        let tenures = [(); 3].map(|()| Tenure::new(Owner::new(), None));
        let [a, b, c] = &tenures;
        let known = |tenure: &Tenure| tenure.with_joint(|joint| joint.len());
        let both = Tenure::token_of_all(&[a, b], || false);
        for _ in 0..100 {
            Tenure::token_of_all(&[a, b], || false);
        }
        assert_eq!([a, b, c].map(|tenure| known(tenure)), [1, 1, 0]);
        let shared = a.with_joint(|joint| Arc::clone(&joint[0].of));
        assert_eq!(Arc::strong_count(&shared), 3, "one list for both of them, and ours");
        let others = Tenure::token_of_all(&[b, c], || false);
        assert_eq!([a, b, c].map(|tenure| known(tenure)), [1, 2, 1]);
        // An outer tenure that lasts keeps nothing of inner ones that are over.
        for _ in 0..100 {
            let inner = Tenure::new(Owner::new(), None);
            let stop = Tenure::token_of_all(&[c, &inner], || false);
            assert!(!stop.is_cancelled());
            inner.finish(End::Over);
            inner.wake();
            assert!(stop.is_cancelled());
        }
        assert_eq!(known(c), 1);
        a.finish(End::Over);
        a.wake();
        assert!(both.is_cancelled() && !others.is_cancelled());
        assert_eq!([a, b, c].map(|tenure| known(tenure)), [0, 1, 1]);
        c.stop();
        assert!(others.is_cancelled());
        assert!(Tenure::token_of_all(&[a, b], || false).is_cancelled(), "one is over");
        assert!(Tenure::token_of_all(&[b], || true).is_cancelled(), "its owner is to stop");
        assert!(!Tenure::token_of_all(&[b], || false).is_cancelled());
    }
}
