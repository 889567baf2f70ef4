//! Somebody else's code in the midst of what others wait for: whatever hears of a log line, a waker, a backend. Where it panics the
//! rest is done all the same: the panic is told by its hook, and to nobody who had no part in it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::{Fault, FaultKind};

/// What comes of it, unless it panics.
pub(super) fn unless_it_panics<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// All of them, whichever panic.
pub(super) fn each<T>(all: impl IntoIterator<Item = T>, what: impl Fn(T)) {
    let mut rest = all.into_iter();
    while unless_it_panics(|| rest.by_ref().for_each(&what)).is_none() {}
}

/// What became of a command whose backend panicked: nobody knows.
pub(super) fn panicked() -> Fault {
    Fault::of(FaultKind::Dropped, true, "what was to send it panicked")
}
