//! This crate as a library that a load is put on.

use relatch::{Client, Lease, LockGuard, ReentrantLock};

use crate::load::{Library, Result};

/// Locks of one client, each with a lease of one kind.
pub(crate) struct Ours {
    pub(crate) client: Client,
    pub(crate) lease: Lease,
}

impl Library for Ours {
    type Lock = (ReentrantLock, Lease);
    type Guard = LockGuard;

    fn lock(&self, name: &str) -> Self::Lock {
        (self.client.lock(name), self.lease)
    }

    async fn acquire((lock, lease): &Self::Lock) -> Result<LockGuard> {
        Ok(lock.lock().lease(*lease).await?)
    }

    async fn release(_: &Self::Lock, guard: LockGuard) -> Result<()> {
        guard.unlock().await?;
        Ok(())
    }

    fn is_held(guard: &LockGuard) -> bool {
        guard.is_held()
    }
}
