//! Commands that are over, whose memory the next ones get. Encodes nothing.

use std::ops::{Deref, DerefMut};

use redis::Cmd;

use crate::spare::Spare;

/// A command for more bytes is freed at its end.
const LARGEST: usize = 1024;

thread_local! {
    static COMMANDS: Spare<Cmd> = const { Spare::new() };
}

/// A command whose memory the next one gets, of whichever thread it ends in.
pub(super) struct Spared {
    cmd: Cmd,
    /// Of the usual size.
    kept: bool,
}

impl Spared {
    /// An empty one: a new one has room for so many arguments and bytes, another what the last one needed.
    pub(super) fn with_room(args: usize, bytes: usize) -> Self {
        let kept = bytes <= LARGEST;
        let spare = if kept { Spare::take(&COMMANDS) } else { None };
        Self { cmd: spare.unwrap_or_else(|| Cmd::with_capacity(args, bytes)), kept }
    }
}

impl Deref for Spared {
    type Target = Cmd;

    fn deref(&self) -> &Cmd {
        &self.cmd
    }
}

impl DerefMut for Spared {
    fn deref_mut(&mut self) -> &mut Cmd {
        &mut self.cmd
    }
}

impl Drop for Spared {
    fn drop(&mut self) {
        if !self.kept {
            return;
        }
        let mut cmd = std::mem::take(&mut self.cmd);
        cmd.clear();
        Spare::keep(&COMMANDS, cmd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spare::tests::alone;

    /// The bytes of a command, and where they are.
    fn memory(cmd: &Cmd) -> (Vec<u8>, usize) {
        let Some(redis::Arg::Simple(first)) = cmd.args_iter().next() else { panic!("it has an argument") };
        (cmd.get_packed_command(), first.as_ptr().addr())
    }

    fn ping(bytes: usize) -> Spared {
        let mut ping = Spared::with_room(1, bytes);
        ping.arg("PING");
        ping
    }

    #[test]
    fn the_next_command_has_the_memory_of_the_last_and_nothing_of_its_words() {
        alone(|| {
            let mut first = Spared::with_room(2, 100);
            first.arg("ECHO").arg("a word");
            let (_, at) = memory(&first);
            drop(first);
            // Memory that was freed would be handed out here.
            let other = Cmd::with_capacity(2, 100);
            assert_eq!(memory(&ping(100)), (b"*1\r\n$4\r\nPING\r\n".to_vec(), at));
            drop(other);
        });
    }

    #[test]
    fn none_that_is_large_is_kept() {
        alone(|| {
            drop(ping(LARGEST + 1));
            assert!(Spare::take(&COMMANDS).is_none());
            drop(ping(LARGEST));
            assert!(Spare::take(&COMMANDS).is_some());
        });
    }
}
