//! What the tests stand on: servers, a fault proxy, other processes. It knows nothing of locks.

mod certificates;
pub(crate) mod clock;
pub(crate) mod either;
pub(crate) mod monitor;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod server;
pub(crate) mod stepping;
pub(crate) mod traces;
pub(crate) mod usage;
mod watcher;

use std::{
    process::id,
    sync::atomic::{AtomicU64, Ordering},
};

pub(crate) use self::{
    poll::{eventually, eventually_async},
    server::Server,
};

/// A name that no other test uses, on the shared server neither.
pub(crate) fn unique_name() -> String {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    format!("test-{}-{}", id(), DRAWN.fetch_add(1, Ordering::Relaxed))
}
