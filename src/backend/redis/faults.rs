//! What went wrong, in the seam's words: the driver's errors and the server's refusals as [`Fault`]s, without anything that
//! was shown to be let in. Decides nothing, and leaves what a server's words mean to `words.rs`.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use redis::{ConnectionAddr, ErrorKind, RedisError, ServerError};

use super::{
    options::Clients,
    secrets::Secrets,
    words::{self, Meaning},
};
use crate::{
    backend::{Befell, Fault, FaultKind},
    name::Shown,
    script::Script,
};

/// A server's refusal.
pub(super) fn refused(error: &ServerError, secrets: &Secrets) -> Fault {
    refused_in(words_of(error), secrets)
}

/// What a reply that only a replica gives means to those who come after it, in the replica's own words: their commands are
/// behind it on the same link, or find none.
pub(super) fn of_a_replica(reply: &redis::Value, secrets: &Secrets) -> Option<Fault> {
    let redis::Value::ServerError(error) = reply else { return None };
    let words = Some(words_of(error)).filter(|words| words::are_of_a_replica(words))?;
    let words = format!("{words}; the link was given up");
    Some(fault(FaultKind::ReadOnly, false, secrets.hide(words)))
}

pub(super) fn words_of(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// A reply of which only a part is a refusal: the script ran.
pub(super) fn refused_within(error: &ServerError, secrets: &Secrets) -> Fault {
    Fault { kind: FaultKind::Other, may_have_run: true, ..refused(error, secrets) }
}

/// An error of the driver's own, where it is not a reply.
pub(super) fn failed(error: &RedisError, may_have_run: bool, secrets: &Secrets) -> Fault {
    if let Some(code) = error.code() {
        let words = match error.detail() {
            Some(detail) => format!("{code} {detail}"),
            None => code.to_owned(),
        };
        return refused_in(words, secrets);
    }
    let listed = KINDS.iter().find(|(kind, _)| *kind == error.kind());
    let kind = match listed {
        _ if error.is_timeout() => FaultKind::Timeout,
        Some((_, kind)) => *kind,
        None => FaultKind::Other,
    };
    fault(kind, may_have_run, secrets.hide(error.to_string()))
}

/// The driver will not make a client of what it was given.
pub(super) fn unopened(error: &RedisError) -> Fault {
    fault(FaultKind::Invalid, false, unserved(error, error.to_string()))
}

/// The same for a link that could not be opened: whoever reads it must know where it was to lead, and what it looks like
/// where one side speaks TLS and the other does not.
pub(super) fn unconnected(error: &RedisError, clients: &Clients) -> Fault {
    let failed = failed(error, false, &clients.secrets);
    if error.code().is_some() {
        return failed;
    }
    let words = failed.source.to_string();
    let address = clients.address();
    let looks = match address {
        ConnectionAddr::TcpTls { .. } if is_no_tls(&words) => NO_TLS,
        ConnectionAddr::Tcp(..) if is_no_redis(error) => WANTS_TLS,
        _ => "",
    };
    let kind = match error.kind() {
        _ if is_about_certificates(&words) => FaultKind::Certificate,
        ErrorKind::InvalidClientConfig => return fault(FaultKind::Invalid, false, unserved(error, words)),
        // A failed handshake, with the system's TLS.
        ErrorKind::Client => FaultKind::Dropped,
        _ => failed.kind,
    };
    fault(kind, false, format!("{address}: {words}{looks}"))
}

/// The server is none that this backend can serve alone.
pub(super) fn one_of_a_cluster() -> Fault {
    let why = "the server is one node of a cluster and has only a part of the names: the scheme for all of them is \
               redis-cluster://";
    fault(FaultKind::Invalid, false, why.to_owned())
}

pub(super) fn sentinel() -> Fault {
    let why = "the server is a sentinel, which has no locks: the scheme is redis-sentinel://, and behind its # stands what the \
               sentinels call their master";
    fault(FaultKind::Invalid, false, why.to_owned())
}

/// The server has no locks of its own.
pub(super) fn no_master(clients: &Clients) -> Fault {
    fault(FaultKind::ReadOnly, false, format!("{}: the server says that it is no master", clients.address()))
}

/// The sentinel said something else than where a master is.
pub(super) fn of_a_sentinel(kind: FaultKind, words: String) -> Fault {
    fault(kind, false, words)
}

/// Whether the server runs no scripts, for us at least.
pub(super) fn denies_scripts(fault: &Fault) -> bool {
    let denied = || fault.source.to_string().to_lowercase().contains("'evalsha'");
    fault.kind == FaultKind::ScriptDisabled || fault.kind == FaultKind::Permission && denied()
}

/// Whether only a node of a cluster says so.
pub(super) fn is_of_a_cluster(fault: &Fault) -> bool {
    let words = fault.source.to_string();
    ["MOVED ", "ASK ", "CLUSTERDOWN "].iter().any(|code| words.starts_with(code))
}

/// The same fault, in words that tell what stands at the key: the server's own say no more than their code.
pub(super) fn in_place_of_a_lock(fault: &Fault, there: &'static str) -> Fault {
    Fault { source: words(format!("WRONGTYPE, the key holds {there}")), ..fault.clone() }
}

/// The same fault; of a right that is missing, with what it is about where the server does not say that: the command that a script was not to call, or the
/// key that it was not to touch.
pub(super) fn denied(fault: Fault, script: &Script, keys: &[&[u8]]) -> Fault {
    if fault.kind != FaultKind::Permission {
        return fault;
    }
    let said = fault.source.to_string();
    let lower = said.to_lowercase();
    let missing = match keys {
        // In quotes, as newer servers have it.
        _ if said.split('\'').count() > 2 => return fault,
        [_, ..] if [" key", " keys "].iter().any(|word| lower.contains(word)) => {
            let shown: Vec<_> = keys.iter().map(|key| Shown(&String::from_utf8_lossy(key)).to_string()).collect();
            format!("the key is {}", shown.join(" or "))
        }
        _ if lower.contains("script") => {
            let line = lower.split("@user_script:").nth(1).map(|rest| rest.split(|is: char| !is.is_ascii_digit()));
            let line = line.and_then(|mut digits| digits.next()?.parse().ok());
            let called = line
                .and_then(|line| script.called_in(line))
                .map_or_else(|| script.answered().into_iter().collect::<Vec<_>>().join(" or "), str::to_owned);
            format!("the command is {called}, in {}", script.path)
        }
        _ => return fault,
    };
    Fault { source: words(format!("{said}; {missing}")), ..fault }
}

/// A link that was not open in time.
pub(super) fn too_slow(within: Duration, clients: &Clients) -> Fault {
    let address = clients.address();
    let looks = if let ConnectionAddr::TcpTls { .. } = address { NO_TLS } else { "" };
    fault(FaultKind::Timeout, false, format!("{address}: no answer within {within:?}{looks}"))
}

const NO_TLS: &str = "; a port without TLS looks like this, for which the scheme is redis://";
const WANTS_TLS: &str = "; a port that wants TLS looks like this, for which the scheme is rediss://, and so does a proxy \
                         that knows RESP2 alone, which ?protocol=resp2 is for";

/// Whether a TLS link met somebody who answered without.
fn is_no_tls(words: &str) -> bool {
    let words = words.to_lowercase();
    ["corrupt message", "invalidcontenttype", "wrong version number"].iter().any(|sign| words.contains(sign))
}

/// Whether somebody took up the connection and did not speak as a server of ours does.
fn is_no_redis(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse || (error.is_connection_dropped() && !error.is_connection_refusal())
}

/// By whichever TLS library and whoever refused. An issuer that is not known is a certificate's, too; and a server that misses
/// its client's says no more with TLS 1.2 than that the handshake failed.
pub(super) fn is_about_certificates(words: &str) -> bool {
    let words = words.to_lowercase();
    let signs = ["certificate", "unknownca", "unknown ca", "handshakefailure", "handshake failure"];
    signs.iter().any(|sign| words.contains(sign))
}

/// Why the driver will not even try.
fn unserved(error: &RedisError, words: String) -> String {
    if words.contains("insecure") {
        return "TLS without a look at certificates is not served by the feature \"rustls\": \"native-tls\" does, or give a \
                redis_client(..) that knows the server's own issuer"
            .to_owned();
    }
    // The driver appends its kind.
    let kind = format!(" - {:?}", error.kind());
    words.replacen(&kind, "", 1)
}

/// No answer in time.
pub(super) fn timeout(within: Duration, may_have_run: bool) -> Fault {
    fault(FaultKind::Timeout, may_have_run, format!("no answer within {within:?}"))
}

/// The link went away under a command.
pub(super) fn dropped() -> Fault {
    fault(FaultKind::Dropped, true, "the link was dropped".to_owned())
}

/// The link was given up under a command that is behind one which a replica refused: it is refused as well. A server that
/// has become a master again meanwhile runs it, though.
pub(super) fn behind_a_refusal(refusal: &Fault) -> Fault {
    Fault { may_have_run: true, ..refusal.clone() }
}

/// The link was given up under a command, for a server that is the master now.
pub(super) fn elsewhere() -> Fault {
    fault(FaultKind::Dropped, true, "the link was given up: another server is the master now".to_owned())
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

/// Another node has what this one had.
pub(super) fn retired(may_have_run: bool) -> Fault {
    fault(FaultKind::Dropped, may_have_run, "the node has no names any more: others have them".to_owned())
}

/// No node is known to have a name.
pub(super) fn nobody() -> Fault {
    fault(FaultKind::Unready, false, "no node of the cluster has this name at present".to_owned())
}

/// A node that was asked for the nodes of its cluster does not tell them.
pub(super) fn no_slots(error: &ServerError, secrets: &Secrets) -> Fault {
    let refused = refused(error, secrets);
    let words = refused.source.to_string();
    let why = if words.contains("cluster support disabled") {
        "the server is not one of a cluster: the scheme for it is redis://"
    } else if words.contains("unknown command") {
        "the server knows of no cluster, or hides the one that it stands in front of: the scheme for it is redis://"
    } else {
        return refused;
    };
    fault(FaultKind::Invalid, false, why.to_owned())
}

/// It was asked for sharded channels, and not every node has them.
pub(super) fn no_sharded_channels() -> Fault {
    let why = "not all nodes of the cluster have sharded channels, for which sharded_pubsub(On) asks: they come with version 7.0, \
               and are listened to over RESP3";
    fault(FaultKind::Invalid, false, why.to_owned())
}

/// It knows none that has any.
pub(super) fn no_cluster_yet() -> Fault {
    fault(FaultKind::Unready, false, "the node knows of no node that has names: is its cluster set up?".to_owned())
}

/// Two of its nodes are told by one address, which can lead to one of them alone.
pub(super) fn one_address(address: &str) -> Fault {
    let why = format!(
        "two masters of the cluster are told by one address, {address}: each needs one of its own, by cluster-announce-ip, \
         cluster-announce-hostname or cluster-announce-port"
    );
    fault(FaultKind::Invalid, false, why)
}

/// A redirect that was followed no more: it may lead somewhere later.
pub(super) fn astray(error: &ServerError, secrets: &Secrets) -> Fault {
    let words = format!("{}; its time was over, or too many nodes had sent it on", words_of(error));
    fault(FaultKind::Unready, false, secrets.hide(words))
}

/// A reply of a type that no script gives, of which only that is told: it may repeat a credential, in whatever form.
pub(super) fn unexpected(reply: &redis::Value) -> Fault {
    let what = match reply {
        redis::Value::Double(_) => "a double",
        redis::Value::Boolean(_) => "a boolean",
        redis::Value::BigNumber(_) => "a big number",
        redis::Value::VerbatimString { .. } => "a verbatim string",
        redis::Value::Map(_) => "a map",
        redis::Value::Set(_) => "a set",
        redis::Value::Attribute { .. } => "an attribute",
        redis::Value::Push { .. } => "a push",
        _ => "a reply of another type",
    };
    fault(FaultKind::Unexpected, true, what.to_owned())
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
    Fault { kind, may_have_run, befell: Befell::Command, source: self::words(words) }
}

fn words(words: String) -> Arc<dyn StdError + Send + Sync> {
    Arc::new(Words(words.into()))
}

fn refused_in(words: String, secrets: &Secrets) -> Fault {
    let Meaning { kind, may_have_run } = words::meaning(&words);
    let words = if kind == FaultKind::WrongType { words::of_the_key(&words).to_owned() } else { words };
    fault(kind, may_have_run, secrets.hide(words))
}

/// The driver's kinds of error where no server said anything; any other is not for us to understand.
const KINDS: &[(ErrorKind, FaultKind)] = &[
    (ErrorKind::AuthenticationFailed, FaultKind::Credentials),
    // Or a timeout, if the error says so.
    (ErrorKind::Io, FaultKind::Dropped),
    // After bytes that are no reply nothing on that link can be trusted: it is as good as cut.
    (ErrorKind::Parse, FaultKind::Dropped),
];

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::backend::redis::{address::Target, testing::options};

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
            ((ErrorKind::AuthenticationFailed, "no").into(), ErrorKind::AuthenticationFailed, FaultKind::Credentials),
            ((ErrorKind::InvalidClientConfig, "no").into(), ErrorKind::InvalidClientConfig, FaultKind::Other),
            ((ErrorKind::UnexpectedReturnType, "no").into(), ErrorKind::UnexpectedReturnType, FaultKind::Other),
        ];
        for (kind, _) in KINDS {
            assert!(rows.iter().any(|(_, tested, _)| tested == kind), "{kind:?} has no row here");
        }
        for (error, kind, expected) in rows {
            assert_eq!(error.kind(), kind, "{error:?}");
            for sent in [true, false] {
                let fault = failed(&error, sent, &Secrets::default());
                assert_eq!((fault.kind, fault.may_have_run), (expected, sent), "{error:?}");
            }
        }
    }

    #[test]
    fn a_part_that_is_a_refusal_says_that_the_script_ran() {
        let redis::Value::ServerError(error) = redis::parse_redis_value(b"-READONLY no\r\n").unwrap() else { panic!() };
        let fault = refused(&error, &Secrets::default());
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::ReadOnly, false));
        let fault = refused_within(&error, &Secrets::default());
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Other, true));
        assert_eq!(fault.source.to_string(), "READONLY no");
    }

    #[test]
    fn whoever_cannot_connect_hears_where_and_a_server_s_words_stay_as_they_are() {
        let refused = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        let fault = unconnected(&refused, &clients("redis://host:1"));
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Dropped, false));
        assert!(fault.source.to_string().starts_with("host:1: "), "{}", fault.source);
        let said = redis::parse_redis_value(b"-NOAUTH no\r\n").unwrap().extract_error().unwrap_err();
        assert_eq!(unconnected(&said, &clients("redis://host:1")).source.to_string(), "NOAUTH no");
    }

    fn clients(url: &str) -> Clients {
        Target::parse(url).unwrap().clients(options(3000)).unwrap()
    }

    #[test]
    fn nothing_that_was_shown_to_be_let_in_is_shown_again() {
        let clients = clients("redis://ann:s3cret@host:1");
        let secrets = &clients.secrets;
        let said = redis::parse_redis_value(b"-ERR who is s3cret?\r\n").unwrap();
        let redis::Value::ServerError(refusal) = &said else { panic!("{said:?}") };
        let error = RedisError::from(refusal.clone());
        let own = RedisError::from((ErrorKind::Client, "no", "s3cret".to_owned()));
        for fault in [
            refused(refusal, secrets),
            refused_within(refusal, secrets),
            failed(&error, true, secrets),
            failed(&own, true, secrets),
            unconnected(&error, &clients),
            unconnected(&own, &clients),
        ] {
            let shown = format!("{fault:?} {}", fault.source);
            assert!(!shown.contains("s3cret") && shown.contains("<hidden>"), "{shown}");
        }
        let verbatim = redis::Value::VerbatimString { format: redis::VerbatimFormat::Text, text: "s3cret".into() };
        let strange = redis::Value::Set(vec![redis::Value::BulkString(b"s3cret\xff".to_vec())]);
        let told = [&verbatim, &strange].map(|reply| unexpected(reply).source.to_string());
        assert_eq!(told, ["a verbatim string", "a set"]);
    }
}
