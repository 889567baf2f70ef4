//! What went wrong, in the seam's words: the driver's errors and the server's refusals as [`Fault`]s. Decides nothing, and
//! leaves what a server's words mean to `words.rs`.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use redis::{ErrorKind, RedisError, ServerError};

use super::words::{self, Meaning};
use crate::backend::{Fault, FaultKind};

/// A server's refusal.
pub(super) fn refused(error: &ServerError) -> Fault {
    let words = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    refused_in(words)
}

/// A reply of which only a part is a refusal: the script ran.
pub(super) fn refused_within(error: &ServerError) -> Fault {
    Fault { kind: FaultKind::Other, may_have_run: true, ..refused(error) }
}

/// An error of the driver's own, where it is not a reply.
pub(super) fn failed(error: &RedisError, may_have_run: bool) -> Fault {
    if let Some(code) = error.code() {
        let words = match error.detail() {
            Some(detail) => format!("{code} {detail}"),
            None => code.to_owned(),
        };
        return refused_in(words);
    }
    let listed = KINDS.iter().find(|(kind, _)| *kind == error.kind());
    let kind = match listed {
        _ if error.is_timeout() => FaultKind::Timeout,
        Some((_, kind)) => *kind,
        None => FaultKind::Other,
    };
    fault(kind, may_have_run, error.to_string())
}

/// The same for a link that could not be opened: whoever reads it must know where it was to lead. Never with credentials.
pub(super) fn unconnected(error: &RedisError, address: &str) -> Fault {
    let failed = failed(error, false);
    if error.code().is_some() {
        return failed;
    }
    fault(failed.kind, false, format!("{address}: {}", failed.source))
}

/// A link that was not open in time.
pub(super) fn too_slow(within: Duration, address: &str) -> Fault {
    fault(FaultKind::Timeout, false, format!("{address}: no answer within {within:?}"))
}

/// No answer in time.
pub(super) fn timeout(within: Duration, may_have_run: bool) -> Fault {
    fault(FaultKind::Timeout, may_have_run, format!("no answer within {within:?}"))
}

/// The link went away under a command.
pub(super) fn dropped() -> Fault {
    fault(FaultKind::Dropped, true, "the link was dropped".to_owned())
}

/// The link was given up because nothing came over it any more.
pub(super) fn silent() -> Fault {
    fault(FaultKind::Timeout, true, "the link went silent".to_owned())
}

/// There was no link to send on.
pub(super) fn no_link() -> Fault {
    fault(FaultKind::Dropped, false, "no link in time".to_owned())
}

/// The backend was closed.
pub(super) fn closed(may_have_run: bool) -> Fault {
    fault(FaultKind::Closed, may_have_run, "the client was closed".to_owned())
}

/// A reply of a type that no script gives.
pub(super) fn unexpected(reply: &redis::Value) -> Fault {
    fault(FaultKind::Unexpected, true, format!("{reply:?}"))
}

/// What the server or the system said, word for word. It outlives the driver's error, whose type stays in here.
#[derive(Debug)]
struct Words(Box<str>);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Words {}

fn fault(kind: FaultKind, may_have_run: bool, words: String) -> Fault {
    Fault { kind, may_have_run, source: Arc::new(Words(words.into())) }
}

fn refused_in(words: String) -> Fault {
    let Meaning { kind, may_have_run } = words::meaning(&words);
    fault(kind, may_have_run, words)
}

/// The driver's kinds of error where no server said anything; any other is not for us to understand.
const KINDS: &[(ErrorKind, FaultKind)] = &[
    (ErrorKind::AuthenticationFailed, FaultKind::Permission),
    // Or a timeout, if the error says so.
    (ErrorKind::Io, FaultKind::Dropped),
    // After bytes that are no reply nothing on that link can be trusted: it is as good as cut.
    (ErrorKind::Parse, FaultKind::Dropped),
];

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn errors_that_are_no_reply_have_their_kind() {
        let made = |kind: io::ErrorKind| RedisError::from(io::Error::from(kind));
        let unreadable = redis::parse_redis_value(b"?\r\n").unwrap_err();
        let rows = [
            (made(io::ErrorKind::TimedOut), ErrorKind::Io, FaultKind::Timeout),
            (made(io::ErrorKind::ConnectionRefused), ErrorKind::Io, FaultKind::Dropped),
            (made(io::ErrorKind::ConnectionReset), ErrorKind::Io, FaultKind::Dropped),
            (made(io::ErrorKind::BrokenPipe), ErrorKind::Io, FaultKind::Dropped),
            (made(io::ErrorKind::UnexpectedEof), ErrorKind::Io, FaultKind::Dropped),
            (made(io::ErrorKind::InvalidData), ErrorKind::Io, FaultKind::Dropped),
            (unreadable, ErrorKind::Parse, FaultKind::Dropped),
            ((ErrorKind::AuthenticationFailed, "no").into(), ErrorKind::AuthenticationFailed, FaultKind::Permission),
            ((ErrorKind::InvalidClientConfig, "no").into(), ErrorKind::InvalidClientConfig, FaultKind::Other),
            ((ErrorKind::UnexpectedReturnType, "no").into(), ErrorKind::UnexpectedReturnType, FaultKind::Other),
        ];
        for (kind, _) in KINDS {
            assert!(rows.iter().any(|(_, tested, _)| tested == kind), "{kind:?} has no row here");
        }
        for (error, kind, expected) in rows {
            assert_eq!(error.kind(), kind, "{error:?}");
            for sent in [true, false] {
                let fault = failed(&error, sent);
                assert_eq!((fault.kind, fault.may_have_run), (expected, sent), "{error:?}");
            }
        }
    }

    #[test]
    fn a_part_that_is_a_refusal_says_that_the_script_ran() {
        let redis::Value::ServerError(error) = redis::parse_redis_value(b"-READONLY no\r\n").unwrap() else { panic!() };
        assert_eq!((refused(&error).kind, refused(&error).may_have_run), (FaultKind::ReadOnly, false));
        let fault = refused_within(&error);
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Other, true));
        assert_eq!(fault.source.to_string(), "READONLY no");
    }

    #[test]
    fn whoever_cannot_connect_hears_where_and_a_server_s_words_stay_as_they_are() {
        let refused = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        let fault = unconnected(&refused, "host:1");
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Dropped, false));
        assert!(fault.source.to_string().starts_with("host:1: "), "{}", fault.source);
        let said = redis::parse_redis_value(b"-NOAUTH no\r\n").unwrap().extract_error().unwrap_err();
        assert_eq!(unconnected(&said, "host:1").source.to_string(), "NOAUTH no");
    }
}
