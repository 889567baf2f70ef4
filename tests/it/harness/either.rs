//! Every kind of the lock, asked in the same words, and one word for each answer. It judges nothing.

use std::time::Duration;

use relatch::{
    Acquire, Error, FencedLock, Lease, LockGuard, Mutex, Owner, ReentrantLock, RefusedKind, Released, Result,
    TokenLock, TryAcquire, Unlock,
};

/// Every kind of the lock; they exclude each other.
#[derive(Clone, Debug)]
pub(crate) enum Either {
    Named(Named),
    /// It has an owner for each acquisition, whoever asks.
    Mutex(Mutex),
}

/// A lock that can be asked who has it, and freed.
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "only a simulation takes every kind"))]
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Plain(ReentrantLock),
    Fenced(FencedLock),
    /// It has an owner for each acquisition; the plain lock of its name is never taken, and tells who has it.
    Token(TokenLock, ReentrantLock),
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
        let (acquire, owner) = match self {
            Self::Named(Named::Plain(lock)) => (lock.lock(), owner),
            Self::Named(Named::Fenced(lock)) => (lock.lock(), owner),
            Self::Named(Named::Token(lock, _)) => (lock.lock(), None),
            Self::Mutex(mutex) => (mutex.lock(), None),
        };
        let acquire = match owner {
            Some(owner) => acquire.owner(owner),
            None => acquire,
        };
        let acquire = acquire.lease(terms.lease);
        match terms.bound {
            Some(bound) => acquire.max_hold(bound),
            None => acquire,
        }
    }

    fn try_lock(&self, terms: Terms, owner: Option<&Owner>) -> TryAcquire {
        let (acquire, owner) = match self {
            Self::Named(Named::Plain(lock)) => (lock.try_lock(), owner),
            Self::Named(Named::Fenced(lock)) => (lock.try_lock(), owner),
            Self::Named(Named::Token(lock, _)) => (lock.try_lock(), None),
            Self::Mutex(mutex) => (mutex.try_lock(), None),
        };
        let acquire = match owner {
            Some(owner) => acquire.owner(owner),
            None => acquire,
        };
        let acquire = acquire.lease(terms.lease);
        match terms.bound {
            Some(bound) => acquire.max_hold(bound),
            None => acquire,
        }
    }
}

#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "only a simulation takes every kind"))]
impl Named {
    /// Whether who has it may take it again.
    pub(crate) fn nests(&self) -> bool {
        !matches!(self, Self::Token(..))
    }

    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        match self {
            Self::Plain(lock) | Self::Token(_, lock) => lock.is_held_by(owner),
            Self::Fenced(lock) => lock.is_held_by(owner),
        }
    }

    pub(crate) fn hold_count(&self) -> u32 {
        match self {
            Self::Plain(lock) | Self::Token(_, lock) => lock.hold_count(),
            Self::Fenced(lock) => lock.hold_count(),
        }
    }

    pub(crate) async fn is_locked(&self) -> Result<bool> {
        match self {
            Self::Plain(lock) => lock.is_locked().await,
            Self::Fenced(lock) => lock.is_locked().await,
            Self::Token(lock, _) => lock.is_locked().await,
        }
    }

    pub(crate) async fn force_unlock(&self) -> Result<bool> {
        match self {
            Self::Plain(lock) => lock.force_unlock().await,
            Self::Fenced(lock) => lock.force_unlock().await,
            Self::Token(lock, _) => lock.force_unlock().await,
        }
    }

    pub(crate) fn attach(&self, owner: &Owner) -> Option<LockGuard> {
        match self {
            Self::Plain(lock) => lock.attach(owner),
            Self::Fenced(lock) => lock.attach(owner),
            Self::Token(lock, _) => lock.attach(owner),
        }
    }

    pub(crate) fn unlock(&self, owner: &Owner) -> Unlock {
        match self {
            Self::Plain(lock) => lock.unlock().owner(owner),
            Self::Fenced(lock) => lock.unlock().owner(owner),
            Self::Token(lock, _) => lock.unlock().owner(owner),
        }
    }
}

/// A detached hold that is let go when whoever has it is dropped: nobody else would.
pub(crate) struct Detached {
    pub(crate) lock: Named,
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
