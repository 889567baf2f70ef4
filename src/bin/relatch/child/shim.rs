//! What runs between us and the command: the same program once more, which becomes the command. What has to be done in the new
//! process is done here, since in a thread of the old one it could not be done safely.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::{self, Command},
};

use rustix::process::{Pid, getpid, getppid};

use super::{masks, terminal::Terminal};
use crate::{say, status};

/// The first argument, by which the program knows that it is this.
const WORD: &str = "__child";

/// How the shim is called.
pub(super) fn arguments(at_terminal: bool, command: &[OsString]) -> Vec<OsString> {
    let place = if at_terminal { "foreground" } else { "background" };
    let before = [WORD.to_owned(), process::id().to_string(), place.to_owned()];
    before.into_iter().map(Into::into).chain(command.iter().cloned()).collect()
}

/// The arguments of a shim, if this is one.
pub(crate) fn asked_for() -> Option<Vec<OsString>> {
    let mut arguments = env::args_os().skip(1);
    (arguments.next().as_deref() == Some(OsStr::new(WORD))).then(|| arguments.collect())
}

/// Becomes the command, or says why it does not.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    let [parent, place, program, rest @ ..] = arguments else {
        say::line("this is not for people: see `relatch run --help`");
        return status::MISUSE;
    };
    let Some(parent) = parent.to_str().and_then(|it| it.parse().ok()).and_then(Pid::from_raw) else {
        say::line("this is not for people: see `relatch run --help`");
        return status::MISUSE;
    };
    if let Err(error) = ends_with(parent) {
        say::line(&format!("cannot tie the command to this process: {error}"));
        return status::SYSTEM;
    }
    if place == "foreground"
        && let Some(terminal) = Terminal::open()
    {
        terminal.give_to(getpid());
    }
    masks::unblock_stop();
    let error = Command::new(program).args(rest).exec();
    let shown = say::name(&program.to_string_lossy());
    match error.kind() {
        io::ErrorKind::NotFound if is_there(program) => {
            say::line(&format!("command {shown} cannot be run: what its first line names is not there"));
            status::NOT_EXECUTABLE
        }
        io::ErrorKind::NotFound => {
            say::line(&format!("command {shown} not found"));
            status::NOT_FOUND
        }
        _ => {
            say::line(&format!("command {shown} cannot be run: {error}"));
            status::NOT_EXECUTABLE
        }
    }
}

/// Whether there is a file of a command that the system did not find: then it is the interpreter that is missing. A word without a `/`
/// is looked for as the system does, and not in the current folder.
fn is_there(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).is_file();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// From now on this process is killed when that one ends.
#[cfg(target_os = "linux")]
fn ends_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have ended before that.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::other("it has ended")) }
}

/// There is no such thing elsewhere.
#[cfg(not(target_os = "linux"))]
fn ends_with(parent: Pid) -> io::Result<()> {
    if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::other("it has ended")) }
}
