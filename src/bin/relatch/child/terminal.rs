//! The terminal: whose it is while a command runs. Where there is none, or somebody else's job has it, nothing is done.

use std::{
    fs::File,
    io::{stderr, stdin, stdout},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
};

use super::{
    masks::{as_if_in_front, while_stoppable},
    signals::is_ignored,
};
use rustix::{
    io::Errno,
    process::{Pid, Signal, getpgrp, kill_current_process_group, test_kill_process_group},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// The terminal that controls us.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    /// The one that there is, if any.
    pub(super) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Self)
    }

    /// The one that there is, if it is ours now, which makes it ours to give.
    pub(super) fn ours() -> Option<Self> {
        let terminal = Self::open()?;
        (tcgetpgrp(&terminal.0).ok()? == getpgrp()).then_some(terminal)
    }

    /// The same, if nobody else may want it while our command runs: in a pipeline that may be a pager. In the background of a script
    /// without job control we are in front with the script, which may read meanwhile: there our input is another one, or interrupts
    /// are ignored.
    pub(super) fn ours_alone() -> Option<Self> {
        let is_input = tcgetpgrp(stdin()).is_ok_and(|front| front == getpgrp());
        let is_alone = is_input && !is_pipe(stdout().as_fd()) && !is_ignored(Signal::INT);
        Self::ours().filter(|_| is_alone)
    }

    /// A group has the keyboard from now on, and what is typed there ends or stops it.
    pub(super) fn give_to(&self, group: Pid) {
        // A terminal that went away meanwhile has nothing to give.
        as_if_in_front(|| {
            let _ = tcsetpgrp(self.0.as_fd(), group);
        });
    }

    /// We have it again, if that group had it, or one that is no more. Whether it was that group.
    pub(super) fn take_back_from(&self, group: Pid) -> bool {
        let has = tcgetpgrp(&self.0);
        if has.is_ok_and(|has| has == group || test_kill_process_group(has) == Err(Errno::SRCH)) {
            self.give_to(getpgrp());
        }
        has == Ok(group)
    }
}

/// Whether somebody at a terminal sees us in front.
pub(super) fn is_before_us() -> bool {
    let in_front = |end: BorrowedFd<'_>| tcgetpgrp(end).is_ok_and(|front| front == getpgrp());
    in_front(stdin().as_fd()) || in_front(stdout().as_fd()) || in_front(stderr().as_fd())
}

fn is_pipe(end: BorrowedFd<'_>) -> bool {
    let about = end.try_clone_to_owned().and_then(|end| File::from(end).metadata());
    about.is_ok_and(|about| about.file_type().is_fifo())
}

/// Stops us and whoever is in our job, until the job goes on. Where nobody could let it go on, nothing happens.
pub(crate) fn stop() {
    while_stoppable(|| {
        let _ = kill_current_process_group(Signal::TSTP);
    });
}
