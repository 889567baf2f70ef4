//! What went wrong, in the seam's words: the driver's errors and the server's refusals as [`Fault`]s. Decides nothing.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use redis::{ErrorKind, RedisError, ServerError};

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
    let kind = match error.kind() {
        ErrorKind::AuthenticationFailed => FaultKind::Permission,
        ErrorKind::Io if error.is_timeout() => FaultKind::Timeout,
        // After bytes that are no reply nothing on that link can be trusted: it is as good as cut.
        ErrorKind::Io | ErrorKind::Parse => FaultKind::Dropped,
        _ => FaultKind::Other,
    };
    fault(kind, may_have_run, error.to_string())
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

/// Nobody wanted it any more when it was to be sent.
pub(super) fn withdrawn() -> Fault {
    fault(FaultKind::Withdrawn, false, "it was withdrawn before it was sent".to_owned())
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
    let kind = kind_of(&words);
    // A command that is refused at its start did nothing. One that a script ran into may come after others that did, but
    // for what the server only refuses while the script has written nothing.
    let nothing_written = matches!(kind, FaultKind::ReadOnly | FaultKind::Unready | FaultKind::OutOfMemory);
    let may_have_run = raised_inside(&words) && !nothing_written;
    fault(kind, may_have_run, words)
}

/// Whether a running script raised it. Redis 6 and 7 both name the script's chunk then.
fn raised_inside(words: &str) -> bool {
    words.contains("user_script")
}

fn kind_of(words: &str) -> FaultKind {
    let code = words.split(' ').next().unwrap_or_default();
    if let Some(kind) = kind_of_code(code) {
        return kind;
    }
    // Before Redis 7 an error that a script ran into stands behind a dash inside an ERR of the script's own.
    if raised_inside(words)
        && let Some(kind) = words.split(' ').filter_map(|word| word.strip_prefix('-')).find_map(kind_of_code)
    {
        return kind;
    }
    WORDS.iter().find(|(part, _)| words.contains(part)).map_or(FaultKind::Other, |(_, kind)| *kind)
}

fn kind_of_code(code: &str) -> Option<FaultKind> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
}

const CODES: &[(&str, FaultKind)] = &[
    ("LOADING", FaultKind::Unready),
    ("TRYAGAIN", FaultKind::Unready),
    ("CLUSTERDOWN", FaultKind::Unready),
    ("MASTERDOWN", FaultKind::Unready),
    ("NOREPLICAS", FaultKind::Unready),
    ("BUSY", FaultKind::Unready),
    ("READONLY", FaultKind::ReadOnly),
    ("MISCONF", FaultKind::ReadOnly),
    ("NOPERM", FaultKind::Permission),
    ("NOAUTH", FaultKind::Permission),
    ("WRONGPASS", FaultKind::Permission),
    ("DENIED", FaultKind::Permission),
    ("WRONGTYPE", FaultKind::WrongType),
    ("OOM", FaultKind::OutOfMemory),
];

/// Refusals that have no code of their own but ERR.
const WORDS: &[(&str, FaultKind)] = &[
    ("unknown command 'EVAL", FaultKind::ScriptDisabled),
    ("unknown command `EVAL", FaultKind::ScriptDisabled),
    ("unknown command 'eval", FaultKind::ScriptDisabled),
    ("unknown command `eval", FaultKind::ScriptDisabled),
    ("max number of clients reached", FaultKind::Unready),
    ("The user executing the script can't", FaultKind::Permission),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::testing::Server;

    fn reply(line: &str) -> Fault {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let redis::Value::ServerError(error) = reply else { panic!("{reply:?}") };
        refused(&error)
    }

    #[test]
    fn every_refusal_has_its_kind_and_keeps_its_words() {
        use FaultKind::*;
        let in_6 = "ERR Error running script (call to f_1b936e3fe509bcbc9cd0664897bbe8fd0cac101b): @user_script:1:";
        let in_7 = "script: 1b936e3fe509bcbc9cd0664897bbe8fd0cac101b, on @user_script:1.";
        for (line, kind, may_have_run) in [
            ("LOADING Redis is loading the dataset in memory", Unready, false),
            ("BUSY Redis is busy running a script.", Unready, false),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Unready, false),
            ("CLUSTERDOWN Hash slot not served", Unready, false),
            ("MASTERDOWN Link with MASTER is down", Unready, false),
            ("NOREPLICAS Not enough good replicas to write.", Unready, false),
            (&format!("NOREPLICAS Not enough good replicas to write. {in_7}"), Unready, false),
            ("ERR max number of clients reached", Unready, false),
            ("READONLY You can't write against a read only replica.", ReadOnly, false),
            (&format!("READONLY You can't write against a read only replica. {in_7}"), ReadOnly, false),
            (&format!("{in_6} -READONLY You can't write against a read only replica."), ReadOnly, false),
            ("MISCONF Redis is configured to save RDB snapshots, but", ReadOnly, false),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Permission, false),
            (
                &format!("ERR The user executing the script can't run this command or subcommand {in_7}"),
                Permission,
                true,
            ),
            ("NOAUTH Authentication required.", Permission, false),
            ("WRONGPASS invalid username-password pair or user is disabled.", Permission, false),
            ("DENIED Redis is running in protected mode", Permission, false),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", WrongType, false),
            (&format!("WRONGTYPE Operation against a key {in_7}"), WrongType, true),
            (&format!("{in_6} -WRONGTYPE Operation against a key"), WrongType, true),
            ("OOM command not allowed when used memory > 'maxmemory'.", OutOfMemory, false),
            ("-OOM command not allowed when used memory > 'maxmemory'.", Other, false),
            (&format!("OOM command not allowed when used memory > 'maxmemory'. {in_7}"), OutOfMemory, false),
            (&format!("{in_6} -OOM command not allowed when used memory > 'maxmemory'."), OutOfMemory, false),
            ("ERR unknown command 'EVALSHA', with args beginning with: 'a'", ScriptDisabled, false),
            ("ERR unknown command `evalsha`, with args beginning with: `a`", ScriptDisabled, false),
            ("ERR unknown command 'HELLO', with args beginning with: '3'", Other, false),
            ("MOVED 3999 127.0.0.1:6381", Other, false),
            ("CROSSSLOT Keys in request don't hash to the same slot", Other, false),
            ("ERR something new", Other, false),
            ("ODD", Other, false),
            (&format!("{in_6} attempt to index a nil value"), Other, true),
        ] {
            let fault = reply(line);
            assert_eq!((fault.kind, fault.may_have_run), (kind, may_have_run), "{line}");
            assert_eq!(fault.source.to_string(), line);
        }
    }

    #[test]
    fn errors_that_are_no_reply_have_their_kind() {
        use std::io;
        for (kind, expected) in [
            (io::ErrorKind::TimedOut, FaultKind::Timeout),
            (io::ErrorKind::ConnectionRefused, FaultKind::Dropped),
            (io::ErrorKind::BrokenPipe, FaultKind::Dropped),
            (io::ErrorKind::Other, FaultKind::Dropped),
        ] {
            let fault = failed(&io::Error::from(kind).into(), true);
            assert_eq!((fault.kind, fault.may_have_run), (expected, true), "{kind:?}");
        }
        let fault = failed(&(ErrorKind::AuthenticationFailed, "no").into(), false);
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Permission, false));
    }

    #[test]
    fn a_real_server_refuses_in_these_words() {
        let server = Server::with(&["--rename-command", "EVAL", ""]);
        assert_eq!(refusal(&server, &["EVAL", "return 1", "0"]).kind, FaultKind::ScriptDisabled);

        let server = Server::start();
        let inside = |script: &str| refusal(&server, &["EVAL", script, "1", "key"]);
        let _: () = server.ask(&["SET", "key", "text"]);
        let fault = inside("return redis.call('HGET', KEYS[1], 'field')");
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::WrongType, true), "{fault:?}");

        let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
        let fault = inside("return redis.call('SET', KEYS[1], '')");
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::OutOfMemory, false), "{fault:?}");
        // Why it did nothing: a script that has written once is not stopped half-way.
        let dirty = "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'more')";
        let _: () = server.ask(&["EVAL", dirty, "1", "key"]);
        let _: () = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);

        let _: () = server.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let fault = inside("return redis.call('SET', KEYS[1], '')");
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Unready, false), "{fault:?}");
        let _: () = server.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);

        let _: () = server.ask(&["ACL", "SETUSER", "default", "-set", "resetkeys", "~other"]);
        let fault = inside("return 1");
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Permission, false), "{fault:?}");
        let fault = refusal(&server, &["EVAL", "return redis.call('SET', 'other', '')", "0"]);
        assert_eq!(fault.kind, FaultKind::Permission, "{fault:?}");
        let fault = refusal(&server, &["EVAL", "return redis.call('GET', 'key')", "0"]);
        assert_eq!(fault.kind, FaultKind::Permission, "{fault:?}");

        let _: () = server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
        let fault = refusal(&server, &["EVAL", "return redis.call('DEL', 'other')", "0"]);
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::ReadOnly, false), "{fault:?}");
    }

    fn refusal(server: &Server, words: &[&str]) -> Fault {
        let mut cmd = redis::Cmd::new();
        cmd.arg(words);
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        failed(&cmd.query::<redis::Value>(&mut connection).unwrap_err(), false)
    }
}
