//! Runs a program that may go on for ever: without its rule the library may do so in one step.

use std::{
    fs, io,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How a program ended that was given so much time.
pub(crate) struct Ran {
    pub(crate) ended: Ended,
    /// All that it said.
    pub(crate) said: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    Badly,
    /// It did not end by itself, and was killed.
    Killed,
}

/// Runs it, with what it says in a file in this folder meanwhile.
pub(crate) fn run(mut command: Command, time: Duration, folder: &Path) -> io::Result<Ran> {
    let path = folder.join("said");
    let out = fs::File::create(&path)?;
    let err = out.try_clone()?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
    let ended = ends_within(&mut child, time)?;
    let said = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    Ok(Ran { ended, said })
}

fn ends_within(child: &mut Child, time: Duration) -> io::Result<Ended> {
    let began = Instant::now();
    while began.elapsed() < time {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ended::Well } else { Ended::Badly });
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(Ended::Killed)
}
