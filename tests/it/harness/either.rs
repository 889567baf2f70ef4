//! Both kinds of the lock, asked in the same words, and one word for each answer. It judges nothing.

use std::time::Duration;

use relatch::{
    Acquire, Error, Lease, LockGuard, Mutex, Owner, ReentrantLock, RefusedKind, Released, Result, TryAcquire,
};

/// Both kinds of the lock, which are one on the server.
#[derive(Clone, Debug)]
pub(crate) enum Either {
    Reentrant(ReentrantLock),
    /// It has an owner for each acquisition, whoever asks.
    Mutex(Mutex),
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Lease,
    pub(crate) bound: Option<Duration>,
    /// For ever, or for so long; not at all with zero.
    pub(crate) wait: Option<Duration>,
}

impl Either {
    pub(crate) async fn acquire(&self, terms: Terms, owner: Option<&Owner>) -> Result<Option<LockGuard>> {
        match terms.wait {
            None => self.lock(terms, owner).await.map(Some),
            Some(Duration::ZERO) => self.try_lock(terms, owner).await,
            Some(wait) => self.try_lock(terms, owner).wait(wait).await,
        }
    }

    fn lock(&self, terms: Terms, owner: Option<&Owner>) -> Acquire {
        let acquire = match (self, owner) {
            (Self::Reentrant(lock), Some(owner)) => lock.lock().owner(owner),
            (Self::Reentrant(lock), None) => lock.lock(),
            (Self::Mutex(mutex), _) => mutex.lock(),
        };
        let acquire = acquire.lease(terms.lease);
        match terms.bound {
            Some(bound) => acquire.max_hold(bound),
            None => acquire,
        }
    }

    fn try_lock(&self, terms: Terms, owner: Option<&Owner>) -> TryAcquire {
        let acquire = match (self, owner) {
            (Self::Reentrant(lock), Some(owner)) => lock.try_lock().owner(owner),
            (Self::Reentrant(lock), None) => lock.try_lock(),
            (Self::Mutex(mutex), _) => mutex.try_lock(),
        };
        let acquire = acquire.lease(terms.lease);
        match terms.bound {
            Some(bound) => acquire.max_hold(bound),
            None => acquire,
        }
    }
}

/// A detached hold that is let go when whoever has it is dropped: nobody else would.
pub(crate) struct Detached {
    pub(crate) lock: ReentrantLock,
    pub(crate) owner: Owner,
}

impl Drop for Detached {
    fn drop(&mut self) {
        drop(self.lock.attach(&self.owner));
    }
}

/// One word for the end of a release.
pub(crate) fn released(answer: &Result<Released>) -> String {
    match answer {
        Ok(Released::Freed) => "freed".to_owned(),
        Ok(Released::StillHeld(_)) => "still-held".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => word(error),
    }
}

/// One word for an error.
pub(crate) fn word(error: &Error) -> String {
    match error {
        Error::Lost { cause, .. } => format!("lost-{cause:?}"),
        Error::Refused { kind: kind @ RefusedKind::Other, source, .. } => {
            format!("refused-{kind:?}-{}", source.to_string().split(' ').next().unwrap_or_default())
        }
        Error::Refused { kind, .. } => format!("refused-{kind:?}"),
        Error::Unreachable { .. } => "unreachable".to_owned(),
        Error::NotHeld { .. } => "not-held".to_owned(),
        Error::Closed => "closed".to_owned(),
        other => format!("{other:?}").split_whitespace().collect(),
    }
}
