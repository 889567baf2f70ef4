//! Ctrl-C at a terminal: whoever called us sees it as without us, so that a script or a loop ends with it.

use std::{
    os::unix::process::CommandExt,
    process::Command,
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};

use super::terminal;

/// The first argument, by which the program knows that it is to end so.
const WORD: &str = "__interrupted";
/// The terminal has interrupted our group as well.
const WE: &str = "we";
/// It has interrupted the command's group alone, which was in front instead of ours.
const ALL_OF_US: &str = "all";

const NONE: u8 = 0;
const HEARD: u8 = 1;
const UNHEARD: u8 = 2;

/// What was interrupted first.
static INTERRUPTED: AtomicU8 = AtomicU8::new(NONE);

/// We were interrupted while there was no command, or while it ran; or the command alone was.
pub(super) fn note(is_heard: bool) {
    if terminal::is_before_us() {
        let what = if is_heard { HEARD } else { UNHEARD };
        let _ = INTERRUPTED.compare_exchange(NONE, what, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Ends us by an interrupt from the terminal, if one has come. Where that is ignored we go on.
pub(crate) fn end_so() {
    let who = match INTERRUPTED.load(Ordering::Relaxed) {
        NONE => return,
        HEARD => WE,
        _ => ALL_OF_US,
    };
    // What we listen to cannot be given back its usual meaning otherwise than by beginning anew.
    if let Ok(program) = super::this_program() {
        let _ = Command::new(program).arg0("relatch").args([WORD, who]).exec();
    }
}

/// Ends this process so, if that is what it was begun for. Whether it was: the first process of a container, and one that ignores
/// interrupts, are there still.
pub(crate) fn end_if_asked_for() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let is_asked_for = arguments.next().is_some_and(|word| word == WORD);
    if is_asked_for {
        let _ = match arguments.next().is_some_and(|who| who == ALL_OF_US) {
            true => kill_current_process_group(Signal::INT),
            false => kill_process(getpid(), Signal::INT),
        };
    }
    is_asked_for
}
