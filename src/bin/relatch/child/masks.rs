//! Signals that are kept from this thread for a while, or for good: by the thread's mask, which the system calls safe.

use std::sync::OnceLock;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// What whoever started us had blocked, before we changed any of it.
static AROUND_US: OnceLock<SigSet> = OnceLock::new();

fn only(signal: Signal) -> SigSet {
    let mut set = SigSet::empty();
    set.add(signal);
    set
}

/// Whoever is not in front at a terminal is stopped where it changes or writes to it, unless that signal is blocked.
pub(crate) fn as_if_in_front<T>(change: impl FnOnce() -> T) -> T {
    while_mask(SigmaskHow::SIG_BLOCK, Signal::SIGTTOU, change)
}

/// From now on these reach us, though whoever started us has blocked them: without CHLD the command's end is not heard.
pub(super) fn unblock(signals: impl IntoIterator<Item = i32>) -> nix::Result<()> {
    let around_us = SigSet::thread_get_mask()?;
    AROUND_US.get_or_init(|| around_us);
    let heard: SigSet = signals.into_iter().filter_map(|number| Signal::try_from(number).ok()).collect();
    heard.thread_unblock()
}

/// Starts a process, for which is blocked what was blocked around us.
pub(super) fn as_around_us<T>(start: impl FnOnce() -> T) -> T {
    let before = AROUND_US.get().copied().unwrap_or_else(SigSet::empty).thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let started = start();
    set_back(before);
    started
}

/// Ctrl-Z is to stop the command first: we could not end it any more while we stand still.
pub(super) fn block_stop() -> nix::Result<SigSet> {
    let set = only(Signal::SIGTSTP);
    set.thread_block().map(|()| set)
}

/// What we blocked is none of the command's business. To be called before it begins.
pub(super) fn unblock_stop() {
    let _ = only(Signal::SIGTSTP).thread_unblock();
}

/// Does what may stop us.
pub(super) fn while_stoppable(stop: impl FnOnce()) {
    while_mask(SigmaskHow::SIG_UNBLOCK, Signal::SIGTSTP, stop);
}

fn while_mask<T>(how: SigmaskHow, signal: Signal, work: impl FnOnce() -> T) -> T {
    let before = only(signal).thread_swap_mask(how);
    let done = work();
    set_back(before);
    done
}

fn set_back(before: nix::Result<SigSet>) {
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}
