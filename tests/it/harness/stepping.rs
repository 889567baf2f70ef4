//! A server's wall clock that a test can step, by the library that Debian calls libfaketime. The server reads from a
//! file how far its clock is from the machine's; it looks at it whenever it asks for the time.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// How far a wall clock is from the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Forward(Duration),
    Back(Duration),
}

impl Step {
    /// No step.
    pub(super) const NONE: Self = Self::Forward(Duration::ZERO);

    /// From now on a server in this folder has stepped so far.
    pub(super) fn take(self, folder: &Path) {
        let (sign, by) = match self {
            Self::Forward(by) => ('+', by),
            Self::Back(by) => ('-', by),
        };
        // Put there in one piece: the server may be reading.
        let next = folder.join("clock.next");
        fs::write(&next, format!("{sign}{}\n", by.as_secs())).expect("the step is written");
        fs::rename(next, folder.join("clock")).expect("the step is put in its place");
    }
}

/// The library that does it.
pub(super) fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    folders
        .map(|folder| folder.join("faketime/libfaketime.so.1"))
        .find(|library| library.is_file())
        .expect("libfaketime is installed: tests/run.sh does it")
}
