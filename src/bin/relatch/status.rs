//! Exit statuses: which number says what.

use relatch::Error;
use rustix::process::Signal;

/// The call is wrong: an option, a duration, an address.
pub(crate) const MISUSE: u8 = 64;
/// No server that gives locks: none is there, or it refuses.
pub(crate) const UNREACHABLE: u8 = 69;
/// The system did not give what is needed: a process, a terminal.
pub(crate) const SYSTEM: u8 = 71;
/// Somebody else has the lock.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// The command is there, and cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;

/// Whoever sends these wants an end of all of it, not of one attempt.
pub(crate) const ON_REQUEST: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The status of a command that ended by itself, or by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
}

impl Ended {
    /// As a shell says it.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Killed(signal) => of_signal(signal),
        }
    }

    /// Whether it is how a command ends that a terminal or a service tells to; some exit with a shell's word for it.
    pub(crate) fn is_on_request(self) -> bool {
        ON_REQUEST.into_iter().any(|signal| self.status() == of_signal(signal.as_raw()))
    }
}

/// The status of whoever is ended by a signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + (signal & 0x7f)).unwrap_or(u8::MAX)
}

/// The status of a call that the library did not serve.
pub(crate) fn of_error(error: &Error) -> u8 {
    match error {
        Error::Invalid { .. } | Error::NotHeld { .. } => MISUSE,
        Error::Lost { .. } => LOST,
        _ => UNREACHABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_exits_gives_its_own_status() {
        let statuses = [0, 1, 75, 255].map(|code| Ended::Exited(code).status());
        assert_eq!(statuses, [0, 1, 75, 255]);
    }

    #[test]
    fn a_command_that_is_killed_gives_128_and_the_signal() {
        assert_eq!([2, 9, 15].map(|signal| Ended::Killed(signal).status()), [130, 137, 143]);
    }

    #[test]
    fn a_command_that_was_told_to_end_is_known_by_its_status() {
        for ended in [Ended::Killed(2), Ended::Killed(15), Ended::Exited(129), Ended::Exited(131), Ended::Exited(143)] {
            assert!(ended.is_on_request(), "{ended:?}");
        }
        for ended in [Ended::Killed(9), Ended::Killed(11), Ended::Exited(1), Ended::Exited(2), Ended::Exited(15)] {
            assert!(!ended.is_on_request(), "{ended:?}");
        }
    }

    #[test]
    fn a_closed_client_counts_as_an_unreachable_server() {
        assert_eq!(of_error(&Error::Closed), UNREACHABLE);
    }
}
