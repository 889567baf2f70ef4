//! How many tries of one client are under way at a time where one server is. Waiters that are all woken at once never stand
//! before renewals and releases, and on a long way no fewer are answered in the same time than on a short one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::entry::Entry;
use crate::state::Command;

/// So many of those whose grants replicas are to know of: they share questions over a link of their own, on which nobody else
/// stands behind them.
pub(super) const ACKNOWLEDGED_TRIES: usize = 4096;

#[derive(Default)]
pub(super) struct Tries(Mutex<Turns>);

#[derive(Default)]
pub(super) struct Turns {
    pub(super) under_way: usize,
    pub(super) waiting: VecDeque<(Arc<Entry>, Command)>,
    /// Somebody sends those that wait: what is over at once meanwhile makes room for that one to fill.
    pub(super) sending: bool,
}

impl Tries {
    pub(super) fn lock(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
