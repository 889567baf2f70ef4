//! Servers that are brought to say what they are to say, asked by hand.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use crate::backend::redis::testing::{Server, free_port, within};

const SOON: Duration = Duration::from_secs(10);
const LOOP: &str = r#"EVAL "while true do end" 0"#;

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
    pub(super) fn says(&self, words: &str) -> String {
        refusal(&Line::to(self).ask(words))
    }

    /// The answer to the last of these, on one connection; without its sign if it is a refusal.
    pub(super) fn last(&self, words: &[&str]) -> String {
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
pub(super) fn told(first: &str, then: &str) -> String {
    let server = Server::start();
    let done = Line::to(&server).ask(first);
    assert_eq!(done, "+OK");
    server.says(then)
}

pub(super) fn loading() -> String {
    let server = Server::with(&["--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"]);
    let filled = server.last(&["DEBUG POPULATE 1200 k 64", "CONFIG SET key-load-delay 1000"]);
    assert_eq!(filled, "+OK");
    let mut reloading = Line::to(&server);
    reloading.send("DEBUG RELOAD");
    server.comes_to_say("LOADING", "GET a")
}

/// The answer while a script runs for too long.
pub(super) fn busy(words: &str) -> String {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let mut running = Line::to(&server);
    running.send(LOOP);
    server.comes_to_say("BUSY", words)
}

pub(super) fn killed() -> String {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let mut running = Line::to(&server);
    running.send(LOOP);
    server.comes_to_say("BUSY", "GET a");
    assert_eq!(server.last(&["SCRIPT KILL"]), "+OK");
    refusal(&running.read())
}

pub(super) fn unkillable() -> String {
    let server = Server::with(&["--busy-reply-threshold", "1"]);
    let mut running = Line::to(&server);
    running.send(r#"EVAL "redis.call('SET', KEYS[1], 'b') while true do end" 1 a"#);
    server.comes_to_say("BUSY", "GET a");
    server.says("SCRIPT KILL")
}

pub(super) fn master_down() -> String {
    let server = Server::with(&["--replica-serve-stale-data", "no"]);
    assert_eq!(Line::to(&server).ask("REPLICAOF 127.0.0.1 1"), "+OK");
    server.says("GET a")
}

pub(super) fn unblocked() -> String {
    let server = Server::start();
    let mut waiting = Line::to(&server);
    let id = waiting.ask("CLIENT ID");
    waiting.send("BLPOP a 0");
    let unblock = format!("CLIENT UNBLOCK {} ERROR", id.trim_start_matches(':'));
    within(SOON, "it is unblocked", || Line::to(&server).ask(&unblock) == ":1");
    refusal(&waiting.read())
}

/// How a server that has all the clients it may have greets one more.
pub(super) fn full(server: &Server) -> String {
    let mut only = Line::to(server);
    assert_eq!(only.ask("CONFIG SET maxclients 1"), "+OK");
    refusal(&Line::to(server).read())
}

/// How a server refuses whose last snapshot came to nothing: it cannot be called what it is to be called.
pub(super) fn unsaved(words: &str) -> String {
    let server = Server::with(&["--enable-protected-configs", "yes"]);
    let done = server.last(&["SET b c", "CONFIG SET dbfilename .", r#"CONFIG SET save "3600 1""#]);
    assert_eq!(done, "+OK");
    assert!(server.last(&["BGSAVE"]).starts_with('+'));
    server.comes_to_say("MISCONF", words)
}

/// A node of a cluster, told these.
pub(super) fn node(told: &[&str]) -> Server {
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
pub(super) fn migrating(words: &str) -> String {
    let [from, to] = two_nodes();
    let slot: i64 = from.ask(&["CLUSTER", "KEYSLOT", "s"]);
    let moving = format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id());
    assert_eq!(from.last(&["SET {s}here x", &moving]), "+OK");
    from.says(words)
}

pub(super) fn moved(words: &str) -> String {
    let [owner, other] = two_nodes();
    let slot: i64 = owner.ask(&["CLUSTER", "KEYSLOT", "s"]);
    assert_eq!(other.last(&[&format!("CLUSTER SETSLOT {slot} NODE {}", owner.id())]), "+OK");
    other.comes_to_say("MOVED", words)
}
