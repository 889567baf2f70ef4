//! The command that runs under a lock: a process group of its own, which ends with us.

pub(crate) mod interrupt;
pub(crate) mod masks;
mod others;
mod plan;
pub(crate) mod shim;
mod signals;
mod supervise;
mod terminal;

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use self::terminal::Terminal;
pub(crate) use self::{
    plan::Plan,
    signals::Signals,
    supervise::{Ending, Held, supervise},
};
use crate::status::Ended;

/// What a command is told by its environment. One that is not told is not there either, though an outer run has it.
const VARIABLES: [&str; 7] = [
    "RELATCH_LOCK",
    "RELATCH_HOLDER",
    "RELATCH_FENCE",
    "RELATCH_JOB",
    "RELATCH_PERIOD",
    "RELATCH_PERIOD_MS",
    "RELATCH_ATTEMPT",
];

/// The command, while it runs. Dropped before it has ended, it is killed, and all of its group.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    id: Pid,
    ended: bool,
}

/// What has become of the command since it was last asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Stopped,
    /// It stopped for want of the terminal.
    WantsTerminal,
    Ended(Ended),
}

impl Group {
    /// Starts it. To be called by the main thread: the command ends with the thread that starts it.
    pub(crate) fn start(command: &[OsString], variables: &[(&'static str, String)]) -> io::Result<Self> {
        let mut shim = Command::new(this_program()?);
        shim.arg0("relatch").args(shim::arguments(Terminal::ours_alone().is_some(), command));
        for name in VARIABLES {
            shim.env_remove(name);
        }
        shim.envs(variables.iter().map(|(name, value)| (name, value))).process_group(0);
        let child = masks::as_around_us(|| shim.spawn())?;
        let id = Pid::from_child(&child);
        Ok(Self { child, id, ended: false })
    }

    /// Passes a signal on to all of the group. That it is gone already is no fault.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.ended {
            let _ = kill_process_group(self.id, signal);
        }
    }

    /// What has become of it. Once it has ended, its number is nobody's until [`Group::let_go`].
    pub(crate) fn change(&self) -> io::Result<Change> {
        // Asked for in one go: of one that ends between two questions the second would know nothing.
        let all = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
        let Some(status) = waitid(WaitId::Pid(self.id), WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | all)? else {
            return Ok(Change::None);
        };
        if let Some(signal) = status.stopping_signal() {
            // So that it is told once. Where it has ended meanwhile, that is told next.
            let _ = waitid(WaitId::Pid(self.id), WaitIdOptions::NOHANG | WaitIdOptions::STOPPED);
            return Ok(match Signal::from_named_raw(signal) {
                Some(Signal::TTIN | Signal::TTOU) => Change::WantsTerminal,
                _ => Change::Stopped,
            });
        }
        Ok(Change::Ended(match status.terminating_signal() {
            Some(signal) => Ended::Killed(signal),
            None => Ended::Exited(status.exit_status().unwrap_or_default()),
        }))
    }

    /// Whether it has ended, and was not let go of yet.
    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | WaitIdOptions::EXITED;
        Ok(waitid(WaitId::Pid(self.id), options)?.is_some())
    }

    /// Lets go of a command that has ended, and takes the terminal back: whether it had that. What of its group is left goes on.
    pub(crate) fn let_go(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let was_in_front = self.take_back();
        self.ended = true;
        drop(self.child.wait());
        was_in_front
    }

    fn take_back(&self) -> bool {
        Terminal::open().is_some_and(|terminal| terminal.take_back_from(self.id))
    }

    /// Whether anybody of the group still works, once the command itself was let go.
    pub(crate) fn leaves_others(&self) -> bool {
        others::collect(self.id);
        others::any_works(self.id)
    }

    /// Collects those whom nobody else will, where we are the first process.
    pub(crate) fn collect_orphans(&self) {
        others::collect(self.id);
    }

    /// Tells all of the group, also those who are left when the command has ended.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
    }

    /// Gives it the terminal that it wants, if that is ours to give. Whether it was.
    pub(crate) fn go_on_as_it_wants(&self) -> bool {
        self.go_on_at(Terminal::ours())
    }

    /// Gives it the terminal, if that is ours to give and nobody else may want it. Whether it was.
    pub(crate) fn go_on_in_front(&self) -> bool {
        self.go_on_at(Terminal::ours_alone())
    }

    fn go_on_at(&self, terminal: Option<Terminal>) -> bool {
        if let Some(terminal) = &terminal {
            terminal.give_to(self.id);
            self.signal(Signal::CONT);
        }
        terminal.is_some()
    }

    /// Stops with a command that was stopped, as a job of a shell does, until somebody lets us go on.
    pub(crate) fn stop_too(&self) {
        // Elsewhere nobody waits for that, and nobody lets us go on.
        if Terminal::open().is_some() {
            self.take_back();
            terminal::stop();
        }
    }

    /// Lets it go on, at the terminal if that is ours to give.
    pub(crate) fn go_on(&self) {
        if !self.go_on_in_front() {
            self.signal(Signal::CONT);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
            let _ = self.let_go();
        }
    }
}

/// Where this program is, also if its file was replaced since it began.
fn this_program() -> io::Result<OsString> {
    let link = Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && link.exists() { Ok(link.into()) } else { Ok(env::current_exe()?.into()) }
}
