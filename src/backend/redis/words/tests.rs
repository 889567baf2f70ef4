//! Every row of the table, on what a server really answered; where this one cannot be brought to say it, on the words of
//! its source, with the reason. A row without evidence fails.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use super::*;
use crate::backend::{
    Fault,
    redis::{
        faults,
        testing::{Server, within},
    },
};

const SOON: Duration = Duration::from_secs(10);
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const LOOP: &str = r#"EVAL "while true do end" 0"#;

/// What words come to: kind, may have run, worth another try.
type Expected = (FaultKind, bool, bool);

/// The words of a row, where they come from, and what they come to.
type Evidence = (Says, Source, Expected);

enum Source {
    /// A server's answer.
    Said(fn() -> String),
    /// Its words, and why it is not asked.
    Quoted(&'static str, &'static str),
}

use self::Source::{Quoted, Said};

fn evidence() -> Vec<Evidence> {
    use FaultKind::{Other, OutOfMemory, Permission, ReadOnly, ScriptDisabled, Unready, WrongType};
    use Says::{Code, Words};
    const WAIT: Expected = (Unready, false, true);
    const DENIED: Expected = (Permission, false, false);
    const OTHER: Expected = (Other, false, false);
    vec![
        (Code("LOADING"), Said(loading), WAIT),
        (Code("BUSY"), Said(|| busy("GET a")), WAIT),
        (Code("MASTERDOWN"), Said(master_down), WAIT),
        (Code("NOREPLICAS"), Said(|| told("CONFIG SET min-replicas-to-write 1", "SET a b")), WAIT),
        (Code("CLUSTERDOWN"), Said(|| node(&[]).says("GET a")), WAIT),
        (Code("TRYAGAIN"), Said(|| migrating("MGET {s}here {s}gone")), WAIT),
        (Code("UNBLOCKED"), Said(unblocked), WAIT),
        (Words("script killed by user"), Said(killed), WAIT),
        (Words("max number of clients reached"), Said(|| full(&Server::start())), WAIT),
        (Words("max number of clients + cluster connections reached"), Said(|| full(&node(&[]))), WAIT),
        (Code("READONLY"), Said(|| told("REPLICAOF 127.0.0.1 1", "SET a b")), (ReadOnly, false, true)),
        (Code("MISCONF"), Said(|| unsaved("SET a b")), (ReadOnly, false, true)),
        (Code("MOVED"), Said(|| moved("GET {s}here")), OTHER),
        (Code("ASK"), Said(|| migrating("GET {s}gone")), OTHER),
        (Code("CROSSSLOT"), Said(|| node(&["CLUSTER ADDSLOTSRANGE 0 16383"]).says("MGET a b")), OTHER),
        (Code("NOAUTH"), Said(|| Server::with(&["--requirepass", "pw"]).says("GET a")), DENIED),
        (Code("WRONGPASS"), Said(|| Server::with(&["--requirepass", "pw"]).says("AUTH default no")), DENIED),
        (
            Code("DENIED"),
            Quoted("DENIED Redis is running in protected mode because", "it is for addresses of other machines"),
            DENIED,
        ),
        (Code("NOPERM"), Said(|| told("ACL SETUSER default -evalsha", "EVALSHA a 0")), DENIED),
        (
            Words("the user executing the script can't"),
            Said(|| told("ACL SETUSER default -get", r#"EVAL "return redis.call('GET', 'a')" 0"#)),
            (Permission, true, false),
        ),
        (Words("called without any password configured"), Said(|| Server::start().says("AUTH pw")), DENIED),
        (Code("WRONGTYPE"), Said(|| told("SET a b", "HGET a b")), (WrongType, false, false)),
        (Code("OOM"), Said(|| told("CONFIG SET maxmemory 1", "SET a b")), (OutOfMemory, false, false)),
        (
            Words("unknown command 'eval"),
            Said(|| Server::with(&["--rename-command", "EVALSHA", ""]).says("EVALSHA a 0")),
            (ScriptDisabled, false, false),
        ),
        (
            Words("unknown command `eval"),
            Quoted("ERR unknown command `evalsha`, with args beginning with: `a`, `0`, ", "servers before Redis 7"),
            (ScriptDisabled, false, false),
        ),
        (Code("NOSCRIPT"), Said(|| Server::start().says("EVALSHA a 0")), OTHER),
        (Code("UNKILLABLE"), Said(unkillable), OTHER),
        (Code("NOTBUSY"), Said(|| Server::start().says("SCRIPT KILL")), OTHER),
        (Code("EXECABORT"), Said(|| Server::start().last(&["MULTI", "NOSUCH", "EXEC"])), OTHER),
        (Code("NOPROTO"), Said(|| Server::start().says("HELLO 9")), OTHER),
    ]
}

/// The same words, met by a running script.
fn inside() -> Vec<(fn() -> String, &'static str, Expected)> {
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
            Said(ask) => ask(),
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
    let told = |fault: Fault| {
        assert_eq!(fault.source.to_string(), words);
        (fault.kind, fault.may_have_run, fault.kind.heals())
    };
    assert_eq!(told(faults::refused(&refusal)), expected, "{words}");
    assert_eq!(told(faults::failed(&refusal.into(), true)), expected, "{words}");
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

/// One connection, by hand: the driver's own greetings would be refused before what is asked.
struct Line(BufReader<UnixStream>);

impl Line {
    fn to(server: &Server) -> Self {
        let stream = UnixStream::connect(server.url().trim_start_matches("redis+unix://")).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, words: &str) {
        self.0.get_mut().write_all(format!("{words}\r\n").as_bytes()).unwrap();
    }

    /// The next line, with its sign.
    fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, words: &str) -> String {
        self.send(words);
        self.read()
    }
}

/// The words of a refusal, without its sign.
#[track_caller]
fn refusal(line: &str) -> String {
    line.strip_prefix('-').unwrap_or_else(|| panic!("no refusal: {line:?}")).to_owned()
}

impl Server {
    /// How it refuses this.
    #[track_caller]
    fn says(&self, words: &str) -> String {
        refusal(&Line::to(self).ask(words))
    }

    /// The answer to the last of these, on one connection; without its sign if it is a refusal.
    fn last(&self, words: &[&str]) -> String {
        let mut line = Line::to(self);
        let answer = words.iter().map(|words| line.ask(words)).last().unwrap_or_default();
        answer.strip_prefix('-').map_or(answer.clone(), str::to_owned)
    }

    /// How it refuses this, once it does with that code.
    fn comes_to_say(&self, code: &str, words: &str) -> String {
        let mut answer = String::new();
        within(SOON, code, || {
            answer = Line::to(self).ask(words);
            answer.starts_with(&format!("-{code}"))
        });
        refusal(&answer)
    }
}

/// How a server refuses something that was told something before.
fn told(first: &str, then: &str) -> String {
    let server = Server::start();
    let done = Line::to(&server).ask(first);
    assert_eq!(done, "+OK");
    server.says(then)
}

fn loading() -> String {
    let server = Server::with(&["--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"]);
    let filled = server.last(&["DEBUG POPULATE 1200 k 64", "CONFIG SET key-load-delay 1000"]);
    assert_eq!(filled, "+OK");
    let mut reloading = Line::to(&server);
    reloading.send("DEBUG RELOAD");
    server.comes_to_say("LOADING", "GET a")
}

/// The answer while a script runs for too long.
fn busy(words: &str) -> String {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let mut running = Line::to(&server);
    running.send(LOOP);
    server.comes_to_say("BUSY", words)
}

fn killed() -> String {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let mut running = Line::to(&server);
    running.send(LOOP);
    server.comes_to_say("BUSY", "GET a");
    assert_eq!(server.last(&["SCRIPT KILL"]), "+OK");
    refusal(&running.read())
}

fn unkillable() -> String {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let mut running = Line::to(&server);
    running.send(r#"EVAL "redis.call('SET', KEYS[1], 'b') while true do end" 1 a"#);
    server.comes_to_say("BUSY", "GET a");
    server.says("SCRIPT KILL")
}

fn master_down() -> String {
    let server = Server::with(&["--replica-serve-stale-data", "no"]);
    assert_eq!(Line::to(&server).ask("REPLICAOF 127.0.0.1 1"), "+OK");
    server.says("GET a")
}

fn unblocked() -> String {
    let server = Server::start();
    let mut waiting = Line::to(&server);
    let id = waiting.ask("CLIENT ID");
    waiting.send("BLPOP a 0");
    let unblock = format!("CLIENT UNBLOCK {} ERROR", id.trim_start_matches(':'));
    within(SOON, "it is unblocked", || Line::to(&server).ask(&unblock) == ":1");
    refusal(&waiting.read())
}

/// How a server that has all the clients it may have greets one more.
fn full(server: &Server) -> String {
    let mut only = Line::to(server);
    assert_eq!(only.ask("CONFIG SET maxclients 1"), "+OK");
    refusal(&Line::to(server).read())
}

/// How a server refuses whose last snapshot came to nothing: it cannot be called what it is to be called.
fn unsaved(words: &str) -> String {
    let server = Server::with(&["--enable-protected-configs", "yes"]);
    let done = server.last(&["SET b c", "CONFIG SET dbfilename .", r#"CONFIG SET save "3600 1""#]);
    assert_eq!(done, "+OK");
    assert!(server.last(&["BGSAVE"]).starts_with('+'));
    server.comes_to_say("MISCONF", words)
}

/// A node of a cluster, told these.
fn node(told: &[&str]) -> Server {
    let server = Server::with(&["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()]);
    told.iter().for_each(|words| assert_eq!(server.last(&[words]), "+OK", "{words}"));
    if !told.is_empty() {
        within(SOON, "the cluster is there", || {
            server.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        });
    }
    server
}

/// Two nodes that know each other; all is the first one's.
fn two_nodes() -> [Server; 2] {
    let port = free_port().to_string();
    let others = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-port", &port];
    let nodes = [node(&["CLUSTER ADDSLOTSRANGE 0 16383"]), Server::with(&others)];
    // What it listens to for clients, a socket, has no port to tell: any will do.
    assert_eq!(nodes[0].last(&[&format!("CLUSTER MEET 127.0.0.1 1 {port}")]), "+OK");
    let names = [nodes[1].id(), nodes[0].id()];
    for (node, other) in nodes.iter().zip(names) {
        within(SOON, "they know each other", || node.ask::<String>(&["CLUSTER", "NODES"]).contains(&other));
    }
    nodes
}

impl Server {
    fn id(&self) -> String {
        self.ask(&["CLUSTER", "MYID"])
    }
}

/// How the node answers from which a slot is being moved, when some of its keys are gone.
fn migrating(words: &str) -> String {
    let [from, to] = two_nodes();
    let slot: i64 = from.ask(&["CLUSTER", "KEYSLOT", "s"]);
    let moving = format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id());
    assert_eq!(from.last(&["SET {s}here x", &moving]), "+OK");
    from.says(words)
}

fn moved(words: &str) -> String {
    let [owner, other] = two_nodes();
    let slot: i64 = owner.ask(&["CLUSTER", "KEYSLOT", "s"]);
    assert_eq!(other.last(&[&format!("CLUSTER SETSLOT {slot} NODE {}", owner.id())]), "+OK");
    other.comes_to_say("MOVED", words)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
