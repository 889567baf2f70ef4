//! Names that no other test uses.

use std::{
    process::id,
    sync::atomic::{AtomicU64, Ordering},
};

/// A name that no other test uses, on the shared server neither.
pub(crate) fn unique_name() -> String {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    format!("test-{}-{}", id(), DRAWN.fetch_add(1, Ordering::Relaxed))
}
