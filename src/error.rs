//! What can go wrong, said once for the whole crate. It decides nothing: no retry, no back-off, no logging.

mod words;

use std::{error::Error as StdError, fmt, sync::Arc, time::Instant};

use self::words::{MayHaveRun, NotHeldWords, Task, WhoIsSilent};
pub(crate) use self::words::{Stalled, UnexpectedReply, cut};
use crate::name::Shown;

/// A result whose error is this crate's [`Error`]; its name is enough where an error's type cannot be inferred.
///
/// ```
/// let work = async { relatch::Result::Ok(()) };
/// # drop(work);
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong, told apart by what the caller does about it.
///
/// A lock that somebody else has is *not* an error: `try_lock` answers `Ok(None)`. What remains falls into five groups:
///
/// | error | the caller |
/// | --- | --- |
/// | [`Invalid`](Self::Invalid), [`NotHeld`](Self::NotHeld) | fixes the code |
/// | [`Lost`](Self::Lost) | gives up or undoes the protected work: somebody else may hold the lock by now |
/// | [`Unreachable`](Self::Unreachable), [`TooFewReplicas`](Self::TooFewReplicas), [`Refused`](Self::Refused) | tries again later ([`is_transient`](Self::is_transient)) or calls the operator |
/// | [`Protocol`](Self::Protocol) | reports a bug, or finds out who else writes to the key |
/// | [`Closed`](Self::Closed) | stops |
///
/// The server's or the network's own words are the [`source`](StdError::source), and no message repeats them. To log
/// all of it, print the chain, for example with `{:#}` of an `anyhow::Error`. Errors are cheap to clone, so that one
/// failure can be told to everybody who waited for it.
///
/// ```
/// use relatch::Error;
///
/// fn retry_later(error: &Error) -> bool {
///     match error {
///         Error::Unreachable { may_have_run, .. } => !may_have_run,
///         Error::Closed => false,
///         other => other.is_transient(),
///     }
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Refused before anything was sent: an empty name, an absurd lease, a second acquisition by an owner that already
    /// waits for the name, a runtime without timers. So is a server that this version cannot work with, when it is
    /// connected: a node of a cluster, a sentinel in a server's place, or a master that no sentinel knows. Repeating the call gives the same error.
    #[error("{what}: {why}")]
    #[non_exhaustive]
    Invalid {
        /// The argument, option or call that is wrong.
        what: &'static str,
        /// What is wrong with it, and the remedy.
        why: Arc<str>,
    },

    /// An unlock or an extension by an owner that has no such hold. Nothing was changed.
    ///
    /// A hold that this owner had and lost is [`Lost`](Self::Lost) instead, for one lease after the loss.
    #[error("{}", NotHeldWords { name, guards: *guards })]
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        name: Arc<str>,
        /// How many live guards the owner has on this lock. Only `unlock` of the guard itself, or dropping it, ends
        /// those.
        guards: u32,
    },

    /// The lock was held and is held no longer, and the holder did not end that itself.
    ///
    /// Somebody else may be inside the section by now. Stop, and do not make the work's result visible unless
    /// something else protects it, such as a fencing token.
    #[error("lock {} was lost: {cause}", Shown(name))]
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: Arc<str>,
        /// How it was lost.
        cause: LostCause,
        /// When this process stopped believing that it holds the lock.
        since: Instant,
    },

    /// The server answered, and the answer is no; or one side does not accept the other's certificate. Only
    /// [`RefusedKind::ReadOnly`] heals without anybody's help.
    #[error("the server refused to {}: {kind}", Task { op: *op, name })]
    #[non_exhaustive]
    Refused {
        /// The lock; empty when no lock is involved.
        name: Arc<str>,
        /// What was to be done.
        op: Op,
        /// Why the server will not.
        kind: RefusedKind,
        /// The server's own words.
        source: Arc<dyn StdError + Send + Sync>,
    },

    /// There was no usable answer in time: no link, silence, or a server that stayed unready; or the call was awaited
    /// elsewhere than on the client's own runtime, and that ran nothing for `unreachable_after`.
    ///
    /// Trying again later is right. What an acquisition may have left behind is cleaned up in the background, and ends
    /// with its lease at the latest; a release goes on being repeated.
    #[error("could not {}: {}{}", Task { op: *op, name }, WhoIsSilent(source), MayHaveRun(*may_have_run && *op != Op::Inspect))]
    #[non_exhaustive]
    Unreachable {
        /// The lock; empty when no lock is involved.
        name: Arc<str>,
        /// What was to be done.
        op: Op,
        /// Whether the server may have done it all the same.
        may_have_run: bool,
        /// What the network or the server said last.
        source: Arc<dyn StdError + Send + Sync>,
    },

    /// The lock was free, and fewer replicas than [`replica_acks`](crate::ClientBuilder::replica_acks) asks for had the grant in
    /// time: it was given back. Nobody worked under it.
    ///
    /// Trying again later is right, and somebody who waits has done so until the end. It goes on for as long as a replica is
    /// away: call the operator.
    #[error(
        "lock {} was free and given back: {acknowledged} of {wanted} replicas acknowledged it in time",
        Shown(name)
    )]
    #[non_exhaustive]
    TooFewReplicas {
        /// The lock.
        name: Arc<str>,
        /// So many replicas acknowledged it in time. Others may have it all the same, until its release reaches them.
        acknowledged: u32,
        /// So many were asked for.
        wanted: u32,
    },

    /// An answer that none of the crate's scripts gives: a bug here, or something between that rewrites replies.
    #[error("{script} gave an answer that it cannot give: {reply}")]
    #[non_exhaustive]
    Protocol {
        /// Which script.
        script: &'static str,
        /// What was answered, by its kinds and lengths: what it says may be a credential that somebody repeats.
        reply: Arc<str>,
    },

    /// The client was closed, or the runtime that it lives on has ended. It stays closed; connect another one.
    // Not `non_exhaustive` itself: a unit variant that is cannot be matched as `Error::Closed` by others.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// Whether the lock was held and is not any more: the protected work must stop.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the same call may succeed later, without a change of code, configuration or rights.
    ///
    /// A transient error says nothing about whether the command ran: see `may_have_run` of
    /// [`Unreachable`](Self::Unreachable).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::TooFewReplicas { .. } | Self::Refused { kind: RefusedKind::ReadOnly, .. }
        )
    }

    /// The lock that the error is about, as the caller named it; `None` where it is about none, or about the call.
    #[must_use]
    pub fn lock_name(&self) -> Option<&str> {
        match self {
            Self::NotHeld { name, .. }
            | Self::Lost { name, .. }
            | Self::Refused { name, .. }
            | Self::Unreachable { name, .. }
            | Self::TooFewReplicas { name, .. } => Some(name).filter(|name| !name.is_empty()).map(AsRef::as_ref),
            Self::Invalid { .. } | Self::Protocol { .. } | Self::Closed => None,
        }
    }

    /// A misuse that was seen before anything was sent.
    pub(crate) fn invalid(what: &'static str, why: impl Into<Arc<str>>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    /// The same, said of a lock: of many that are taken with one option, it is this one.
    pub(crate) fn for_lock(self, name: &str) -> Self {
        match self {
            Self::Invalid { what, why } => Self::invalid(what, format!("{why}, for lock {}", Shown(name))),
            other => other,
        }
    }
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostCause {
    /// The lease is over by this process's clock: a fixed one was too short for the work, no renewal was answered in
    /// time, or the machine slept.
    Expired,
    /// The server said that the hold is gone: its key was deleted or evicted, expired, or lost in a failover.
    Gone,
    /// This process freed the lock with `force_unlock`. Elsewhere a forced release shows as [`Gone`](Self::Gone).
    Forced,
    /// The hold reached the `max_hold` that it was taken with.
    MaxHold,
    /// The client was closed while the hold lived.
    Closed,
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease is over",
            Self::Gone => "the server no longer knows the hold",
            Self::Forced => "it was forced open",
            Self::MaxHold => "it was held for as long as max_hold allows",
            Self::Closed => "the client was closed",
        })
    }
}

/// Why a server that can be reached will not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusedKind {
    /// The user may not run the command, or not touch the key.
    Permission,
    /// The password or the user's name is wrong, or there is none.
    Credentials,
    /// A certificate was not accepted: the server's by us (its issuer is not known, it has expired, it is for another
    /// host), or ours by the server, who may miss one. With TLS 1.3 a server may end the connection before what it says of
    /// ours has been read: then it is [`Unreachable`](Error::Unreachable).
    Certificate,
    /// The key holds something that is not a lock.
    WrongType,
    /// The server may not write: a replica, or a master that protects itself. The only kind that heals by itself.
    ReadOnly,
    /// The server is at its memory limit. Locks can be released there, but not acquired.
    OutOfMemory,
    /// The server runs no scripts.
    ScriptDisabled,
    /// Something else; the source has the server's words.
    Other,
}

impl fmt::Display for RefusedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permission => "this user lacks the permission",
            Self::Credentials => "the password is wrong or missing",
            Self::Certificate => "a certificate was not accepted",
            Self::WrongType => "the key holds something that is not a lock",
            Self::ReadOnly => "it is read-only",
            Self::OutOfMemory => "it is out of memory",
            Self::ScriptDisabled => "it does not run scripts",
            Self::Other => "it gave another reason",
        })
    }
}

/// What was to be done when it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Connecting a client; no lock is involved.
    Connect,
    /// Taking a lock, for the first time or again.
    Acquire,
    /// Giving a lock back, wholly or in part.
    Release,
    /// The watchdog's prolonging of a lease.
    Renew,
    /// A prolonging that the holder asked for.
    Extend,
    /// Moving a lock to the next task of this process.
    HandOver,
    /// Freeing a lock that somebody else may hold.
    ForceRelease,
    /// Asking the server about a lock.
    Inspect,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Renew => "renew",
            Self::Extend => "extend",
            Self::HandOver => "hand over",
            Self::ForceRelease => "force the release of",
            Self::Inspect => "inspect",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Befell, Fault, FaultKind};
    use std::io;

    fn source() -> Arc<dyn StdError + Send + Sync> {
        Arc::new(io::Error::other("NOPERM says the server"))
    }

    fn fault(kind: FaultKind) -> Fault {
        Fault { kind, may_have_run: false, befell: Befell::Command, source: source() }
    }

    fn lock() -> Arc<str> {
        "orders".into()
    }

    fn one_of_each() -> Vec<Error> {
        vec![
            Error::invalid("name", "must not be empty"),
            Error::NotHeld { name: lock(), guards: 0 },
            Error::NotHeld { name: lock(), guards: 1 },
            Error::NotHeld { name: lock(), guards: 2 },
            Error::Lost { name: lock(), cause: LostCause::Expired, since: Instant::now() },
            Error::from_fault(fault(FaultKind::Permission), &lock(), Op::Acquire),
            Error::from_fault(Fault { may_have_run: true, ..fault(FaultKind::Timeout) }, &lock(), Op::Release),
            Error::from_fault(Fault { may_have_run: true, ..fault(FaultKind::Timeout) }, &lock(), Op::Inspect),
            Error::from_fault(fault(FaultKind::Dropped), &"".into(), Op::Connect),
            Error::Protocol { script: "reentrant/acquire", reply: "Nil".into() },
            Error::from_fault(Fault::too_few_replicas(1, 2), &lock(), Op::Acquire),
            Error::Closed,
        ]
    }

    #[test]
    fn fits_in_64_bytes_and_crosses_threads() {
        fn crosses<T: Clone + Send + Sync + 'static>() {}
        crosses::<Error>();
        assert!(size_of::<Error>() <= 64, "{}", size_of::<Error>());
    }

    #[test]
    fn messages_read_as_they_should() {
        let messages: Vec<_> = one_of_each().iter().map(ToString::to_string).collect();
        let expected = [
            "name: must not be empty",
            r#"lock "orders" is not held by this owner"#,
            r#"lock "orders" is held by this owner through a guard: release it with `guard.unlock()`"#,
            r#"lock "orders" is held by this owner through 2 guards: release each with `guard.unlock()`"#,
            r#"lock "orders" was lost: its lease is over"#,
            r#"the server refused to acquire lock "orders": this user lacks the permission"#,
            r#"could not release lock "orders": the server is unreachable, yet the command may have run"#,
            r#"could not inspect lock "orders": the server is unreachable"#,
            "could not connect: the server is unreachable",
            "reentrant/acquire gave an answer that it cannot give: Nil",
            r#"lock "orders" was free and given back: 1 of 2 replicas acknowledged it in time"#,
            "the client is closed",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn messages_are_lowercase_and_leave_the_source_to_the_chain() {
        for error in one_of_each() {
            let message = error.to_string();
            assert!(message.starts_with(|first: char| first.is_lowercase()), "{message}");
            assert!(!message.ends_with('.'), "{message}");
            let Some(source) = error.source() else {
                continue;
            };
            assert_eq!(source.to_string(), "NOPERM says the server");
            assert!(source.source().is_none());
            assert!(!message.contains(&source.to_string()), "{message}");
        }
    }

    #[test]
    fn only_what_heals_is_transient_and_only_lost_is_lost() {
        let kinds = [
            (FaultKind::Timeout, true),
            (FaultKind::Dropped, true),
            (FaultKind::Unready, true),
            (FaultKind::ReadOnly, true),
            (FaultKind::TooFewReplicas, true),
            (FaultKind::Permission, false),
            (FaultKind::Credentials, false),
            (FaultKind::Certificate, false),
            (FaultKind::Invalid, false),
            (FaultKind::WrongType, false),
            (FaultKind::OutOfMemory, false),
            (FaultKind::ScriptDisabled, false),
            (FaultKind::Other, false),
            (FaultKind::Unexpected, false),
            (FaultKind::Withdrawn, false),
            (FaultKind::Closed, false),
        ];
        for (kind, transient) in kinds {
            let error = Error::from_fault(fault(kind), &lock(), Op::Renew);
            assert_eq!(error.is_transient(), transient, "{kind:?}");
            assert_eq!(transient, kind.heals(), "{kind:?}");
            assert!(!error.is_lost());
        }
        assert!(Error::Lost { name: lock(), cause: LostCause::Gone, since: Instant::now() }.is_lost());
    }

    #[test]
    fn refusals_keep_their_kind_and_their_source() {
        let kinds = [
            (FaultKind::ReadOnly, RefusedKind::ReadOnly),
            (FaultKind::Permission, RefusedKind::Permission),
            (FaultKind::Credentials, RefusedKind::Credentials),
            (FaultKind::Certificate, RefusedKind::Certificate),
            (FaultKind::WrongType, RefusedKind::WrongType),
            (FaultKind::OutOfMemory, RefusedKind::OutOfMemory),
            (FaultKind::ScriptDisabled, RefusedKind::ScriptDisabled),
            (FaultKind::Other, RefusedKind::Other),
        ];
        for (from, to) in kinds {
            let error = Error::from_fault(fault(from), &lock(), Op::Extend);
            let Error::Refused { kind, op, source, .. } = error else { panic!("{from:?} gave {error:?}") };
            assert_eq!((kind, op), (to, Op::Extend));
            assert!(source.is::<io::Error>());
        }
    }

    #[test]
    fn an_unexpected_reply_names_its_script_and_stays_short() {
        let reply = UnexpectedReply::new("reentrant/release", &"x".repeat(70_000));
        let (kind, source) = (FaultKind::Unexpected, Arc::new(reply));
        let fault = Fault { kind, may_have_run: true, befell: Befell::Command, source };
        let error = Error::from_fault(fault, &lock(), Op::Release);
        let Error::Protocol { script, reply } = &error else { panic!("{error:?}") };
        assert_eq!(*script, "reentrant/release");
        assert_eq!(reply.chars().count(), words::REPLY_SHOWN + 1);
    }

    #[test]
    fn the_lock_is_named_where_there_is_one() {
        let named = one_of_each().iter().filter(|error| error.lock_name() == Some("orders")).count();
        assert_eq!(named, 8);
        assert_eq!(Error::from_fault(fault(FaultKind::Other), &"".into(), Op::Connect).lock_name(), None);
    }

    #[test]
    fn a_hostile_name_neither_breaks_nor_floods_the_message() {
        let name: Arc<str> = format!("a\n\0\u{1b}[31m{}", "é".repeat(30_000)).into();
        let message = Error::NotHeld { name: Arc::clone(&name), guards: 0 }.to_string();
        assert!(message.starts_with(r#"lock "a\n\0\u{1b}[31mé"#), "{message}");
        assert!(!message.contains(char::is_control));
        assert!(message.len() < 400, "{}", message.len());
    }
}
