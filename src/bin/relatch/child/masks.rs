//! Signals that are kept from this thread for a while, or for good: by the thread's mask, which the system calls safe.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

fn only(signal: Signal) -> SigSet {
    let mut set = SigSet::empty();
    set.add(signal);
    set
}

/// Whoever is not in front at a terminal is stopped where it changes or writes to it, unless that signal is blocked.
pub(crate) fn as_if_in_front<T>(change: impl FnOnce() -> T) -> T {
    while_mask(SigmaskHow::SIG_BLOCK, Signal::SIGTTOU, change)
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
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    done
}
