//! Every row of the table, on what a server really answered; where this one cannot be brought to say it, on the words of
//! its source, with the reason. A row without evidence fails.

mod asked;
mod recorded;

use std::thread;

use self::asked::{full, killed, loading, master_down, migrating, moved, node, told, unblocked, unkillable, unsaved};
use super::*;
use crate::backend::{
    Fault,
    redis::{faults, secrets::Secrets, testing::Server},
};

const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// What words come to: kind, may have run, worth another try.
type Expected = (FaultKind, bool, bool);

/// Brings a server to say something.
type Ask = fn() -> String;

/// The words of a row, where they come from, and what they come to.
type Evidence = (Says, Source, Expected);

enum Source {
    /// A server's answer.
    Live(Ask),
    /// Its words, and why it is not asked.
    Quoted(&'static str, &'static str),
}

use self::Source::{Live, Quoted};

fn evidence() -> Vec<Evidence> {
    use FaultKind::{Credentials, Other, OutOfMemory, Permission, ReadOnly, ScriptDisabled, Unready, WrongType};
    use Says::{Code, Words};
    const WAIT: Expected = (Unready, false, true);
    const DENIED: Expected = (Permission, false, false);
    const UNKNOWN: Expected = (Credentials, false, false);
    const OTHER: Expected = (Other, false, false);
    vec![
        (Code("LOADING"), Live(loading), WAIT),
        (Code("BUSY"), Live(|| asked::busy("GET a")), WAIT),
        (Code("MASTERDOWN"), Live(master_down), WAIT),
        (Code("NOREPLICAS"), Live(|| told("CONFIG SET min-replicas-to-write 1", "SET a b")), WAIT),
        (Code("CLUSTERDOWN"), Live(|| node(&[]).says("GET a")), WAIT),
        (Code("TRYAGAIN"), Live(|| migrating("MGET {s}here {s}gone")), WAIT),
        (Code("UNBLOCKED"), Live(unblocked), WAIT),
        (
            Words("attempted to access a non local key"),
            Live(|| migrating(r#"EVAL "redis.call('DEL', KEYS[1]); return redis.call('GET', KEYS[1])" 1 {s}here"#)),
            (Unready, true, true),
        ),
        (Words("script killed by user"), Live(killed), WAIT),
        (Words("max number of clients reached"), Live(|| full(&Server::start())), WAIT),
        (Words("max number of clients + cluster connections reached"), Live(|| full(&node(&[]))), WAIT),
        (Code("READONLY"), Live(|| told("REPLICAOF 127.0.0.1 1", "SET a b")), (ReadOnly, false, true)),
        (Code("MISCONF"), Live(|| unsaved("SET a b")), (ReadOnly, false, true)),
        (Code("MOVED"), Live(|| moved("GET {s}here")), OTHER),
        (Code("ASK"), Live(|| migrating("GET {s}gone")), OTHER),
        (Code("CROSSSLOT"), Live(|| node(&["CLUSTER ADDSLOTSRANGE 0 16383"]).says("MGET a b")), OTHER),
        (Code("NOAUTH"), Live(|| Server::with(&["--requirepass", "pw"]).says("GET a")), UNKNOWN),
        (Code("WRONGPASS"), Live(|| Server::with(&["--requirepass", "pw"]).says("AUTH default no")), UNKNOWN),
        (Words("invalid password"), Quoted("ERR invalid password", "servers before Redis 6"), UNKNOWN),
        (
            Code("DENIED"),
            Quoted("DENIED Redis is running in protected mode because", "it is for addresses of other machines"),
            DENIED,
        ),
        (Code("NOPERM"), Live(|| told("ACL SETUSER default -evalsha", "EVALSHA a 0")), DENIED),
        (
            Words("the user executing the script can't"),
            Live(|| told("ACL SETUSER default -get", r#"EVAL "return redis.call('GET', 'a')" 0"#)),
            (Permission, true, false),
        ),
        (Words("called without any password configured"), Live(|| Server::start().says("AUTH pw")), UNKNOWN),
        (
            Words("acl failure in script"),
            Quoted(
                "ERR ACL failure in script: User ann has no permissions to run the 'del' command script: 7192, on @user_script:1.",
                "servers from 7.2 on",
            ),
            (Permission, true, false),
        ),
        (Code("WRONGTYPE"), Live(|| told("SET a b", "HGET a b")), (WrongType, false, false)),
        (Code("OOM"), Live(|| told("CONFIG SET maxmemory 1", "SET a b")), (OutOfMemory, false, false)),
        (
            Words("unknown command 'eval"),
            Live(|| Server::with(&["--rename-command", "EVALSHA", ""]).says("EVALSHA a 0")),
            (ScriptDisabled, false, false),
        ),
        (
            Words("unknown command `eval"),
            Quoted("ERR unknown command `evalsha`, with args beginning with: `a`, `0`, ", "servers before Redis 7"),
            (ScriptDisabled, false, false),
        ),
        (Code("NOSCRIPT"), Live(|| Server::start().says("EVALSHA a 0")), OTHER),
        (Code("UNKILLABLE"), Live(unkillable), OTHER),
        (Code("NOTBUSY"), Live(|| Server::start().says("SCRIPT KILL")), OTHER),
        (Code("EXECABORT"), Live(|| Server::start().last(&["MULTI", "NOSUCH", "EXEC"])), OTHER),
        (Code("NOPROTO"), Live(|| Server::start().says("HELLO 9")), OTHER),
    ]
}

/// The same words, met by a running script.
fn inside() -> Vec<(Ask, &'static str, Expected)> {
    use FaultKind::{Other, OutOfMemory, Permission, ReadOnly, Unready, WrongType};
    const SET: &str = r#"EVAL "return redis.call('SET', KEYS[1], 'b')" 1 a"#;
    const HGET: &str = r#"EVAL "return redis.call('HGET', KEYS[1], 'b')" 1 a"#;
    const GET: &str = r#"EVAL "return redis.call('GET', 'b')" 0"#;
    const PUBLISH: &str = r#"EVAL "return redis.call('PUBLISH', 'b', 0)" 0"#;
    const BROKEN: &str = r#"EVAL "return nothing.at_all" 0"#;
    vec![
        (|| told("REPLICAOF 127.0.0.1 1", SET), "READONLY", (ReadOnly, false, true)),
        (|| unsaved(SET), "MISCONF", (ReadOnly, false, true)),
        (|| told("CONFIG SET min-replicas-to-write 1", SET), "NOREPLICAS", (Unready, false, true)),
        (|| told("CONFIG SET maxmemory 1", SET), "OOM", (OutOfMemory, false, false)),
        (|| told("SET a b", HGET), "WRONGTYPE", (WrongType, true, false)),
        (|| told("ACL SETUSER default resetkeys ~a", GET), "can't access", (Permission, true, false)),
        (|| told("ACL SETUSER default resetchannels", PUBLISH), "can't publish", (Permission, true, false)),
        (|| Server::start().says(BROKEN), "user_script", (Other, true, false)),
    ]
}

/// What a server of version 6.2 says, which has the script's words around the refusal: not the version that is installed.
const IN_6: &[(&str, Expected)] = &[
    (
        "@user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
        (FaultKind::ReadOnly, false, true),
    ),
    (
        "@user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
        (FaultKind::OutOfMemory, false, false),
    ),
    (
        "@user_script:1: @user_script: 1: -NOREPLICAS Not enough good replicas to write.",
        (FaultKind::Unready, false, true),
    ),
    (
        "@user_script:1: @user_script: 1: -MISCONF Redis is configured to save RDB snapshots, but",
        (FaultKind::ReadOnly, false, true),
    ),
    (
        "@user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value",
        (FaultKind::WrongType, true, false),
    ),
    (
        "@user_script:1: @user_script: 1: The user executing the script can't access at least one of the keys mentioned",
        (FaultKind::Permission, true, false),
    ),
    ("@user_script:1: Script killed by user with SCRIPT KILL...", (FaultKind::Unready, false, true)),
    (
        "@user_script:1: user_script:1: Script attempted to access nonexistent global variable 'nothing'",
        (FaultKind::Other, true, false),
    ),
];

impl Source {
    fn words(&self) -> String {
        match self {
            Live(ask) => ask(),
            Quoted(words, why) => {
                assert!(!why.is_empty());
                (*words).to_owned()
            }
        }
    }
}

/// What the seam is told, whichever way the driver hands it on: as a reply or as an error.
#[track_caller]
fn comes_to(words: &str, expected: Expected) {
    let reply = redis::parse_redis_value(format!("-{words}\r\n").as_bytes()).unwrap();
    let redis::Value::ServerError(refusal) = reply else { panic!("{reply:?}") };
    let secrets = Secrets::default();
    let told = |fault: Fault| {
        let words = if fault.kind == FaultKind::WrongType { of_the_key(words) } else { words };
        assert_eq!(fault.source.to_string(), secrets.hide(words.to_owned()));
        (fault.kind, fault.may_have_run, fault.kind.heals())
    };
    assert_eq!(told(faults::refused(&refusal, &secrets)), expected, "{words}");
    assert_eq!(told(faults::failed(&refusal.into(), true, &secrets)), expected, "{words}");
}

#[test]
fn every_row_is_what_a_server_says() {
    let evidence = evidence();
    for row in ROWS {
        let shown: Vec<_> = evidence.iter().filter(|(says, ..)| *says == row.says).collect();
        assert_eq!(shown.len(), 1, "{row:?} has no evidence, or too much");
    }
    assert_eq!(evidence.len(), ROWS.len());
    // Most of the time goes by in waiting for servers.
    thread::scope(|scope| {
        for part in evidence.chunks(evidence.len().div_ceil(3)) {
            scope.spawn(move || {
                for (says, source, expected) in part {
                    let words = source.words();
                    assert_eq!(row(&words).map(|row| row.says), Some(*says), "{words}");
                    comes_to(&words, *expected);
                }
            });
        }
    });
}

#[test]
fn what_a_running_script_met_is_known_too() {
    for (ask, part, expected) in inside() {
        let words = ask();
        assert!(words.contains(part), "{words}");
        comes_to(&words, expected);
    }
    for (words, expected) in IN_6 {
        comes_to(&format!("ERR Error running script (call to f_e076): {words}"), *expected);
    }
    let later = "NOPERM User default has no permissions to access the 'b' key script: 1b9, on @user_script:1.";
    comes_to(later, (FaultKind::Permission, true, false));
}

/// Why a script that met these has written nothing: one that has is not stopped by them.
#[test]
fn a_script_that_has_written_is_not_stopped_half_way() {
    const DIRTY: &str = r#"EVAL "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'more')" 1 a"#;
    let server = Server::start();
    assert_eq!(server.last(&["SET a b", "CONFIG SET maxmemory 1", DIRTY]), "+OK");
}

#[test]
fn what_nobody_knows_is_refused_and_only_a_script_s_words_say_that_it_ran() {
    const OTHER: FaultKind = FaultKind::Other;
    for (words, may_have_run) in [
        ("ERR something new", false),
        ("ODD", false),
        ("-OOM command not allowed when used memory > 'maxmemory'.", false),
        ("ERR unknown command 'HELLO', with args beginning with: '3' 'evalsha' ", false),
        ("ERR something new script: 1b9, on @user_script:1.", true),
    ] {
        comes_to(words, (OTHER, may_have_run, false));
    }
    comes_to(READ_ONLY, (FaultKind::ReadOnly, false, true));
}

#[test]
fn of_a_key_of_another_kind_it_is_told_without_the_script() {
    let refusal = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for words in [
        refusal.to_owned(),
        format!("{refusal} script: 18cba4488128aba82fa56e01503e9bea8a471422, on @user_script:1."),
        format!(
            "ERR Error running script (call to f_18cba4488128aba82fa56e01503e9bea8a471422): @user_script:1: {refusal}"
        ),
    ] {
        assert_eq!(of_the_key(&words), refusal);
    }
}
