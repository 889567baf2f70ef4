//! A private server for tests, on a unix socket of its own. It ends with its handle, and with the
//! test process however that ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{Options, RespVersion, ShardedPubSub, address::Target};
use crate::script::Script;

/// Adds one to a key and says what it is then.
pub(super) static COUNT: Script = Script {
    path: "test/count",
    source: "return redis.call('INCR', KEYS[1])",
    words: &[],
    keys: &["key"],
    args: &[],
    answer: "1",
};

/// Runs the server until its own standard input ends, then leaves nothing of it.
const KEEPER: &str = r#"
    redis-server "$@" </dev/null >/dev/null 2>&1 &
    echo $!
    cat >/dev/null
    kill -9 $!
    rm -rf "$PWD"
    wait
"#;

pub(in crate::backend) struct Server {
    keeper: Child,
    id: String,
    folder: PathBuf,
    config: Vec<String>,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::with(&[])
    }

    /// With more words for its command line.
    pub(in crate::backend) fn with(config: &[&str]) -> Self {
        // A socket's path has at most 107 bytes, which not every temporary folder leaves room for.
        let temporary = Some(std::env::temp_dir()).filter(|folder| folder.as_os_str().len() <= 50);
        let folder = temporary.unwrap_or_else(|| "/tmp".into()).join(format!("relatch-{}", Uuid::new_v4().simple()));
        let config: Vec<String> = config.iter().map(|word| (*word).to_owned()).collect();
        let (keeper, id) = spawn(&folder, &config);
        let server = Self { keeper, id, folder, config };
        server.wait();
        server
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub(super) fn target(&self) -> Target {
        Target::parse(&self.url()).unwrap()
    }

    /// Runs one command on a connection of its own.
    pub(super) fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut cmd = redis::Cmd::new();
        cmd.arg(words);
        let client = redis::Client::open(self.url()).unwrap();
        cmd.query(&mut client.get_connection().unwrap()).unwrap()
    }

    pub(super) fn freeze(&self) {
        self.signal("STOP");
    }

    pub(super) fn thaw(&self) {
        self.signal("CONT");
    }

    pub(super) fn kill(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().unwrap();
    }

    /// Once more, with nothing in it.
    pub(super) fn restart(&mut self) {
        (self.keeper, self.id) = spawn(&self.folder, &self.config);
        self.wait();
    }

    /// Nobody can connect, and whoever is connected is thrown out.
    pub(super) fn hide(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        fs::rename(self.socket(), self.hidden()).unwrap();
        let kill = ["CLIENT", "KILL", "SKIPME", "yes"];
        let _: i64 = redis::Cmd::new().arg(&kill).query(&mut connection).unwrap();
    }

    pub(super) fn show(&self) {
        fs::rename(self.hidden(), self.socket()).unwrap();
    }

    fn hidden(&self) -> PathBuf {
        self.folder.join("hidden")
    }

    pub(in crate::backend) fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    fn wait(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        within(Duration::from_secs(10), "the server answers", || client.get_connection().is_ok());
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.id]).status();
        assert!(kill.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

pub(super) fn options(milliseconds: u64) -> Options<'static> {
    let (command_timeout, version) = (Duration::from_millis(milliseconds), RespVersion::Auto);
    Options { command_timeout, version, probe_key: "probe", sharded: ShardedPubSub::Auto, name: "" }
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(super) fn name(text: &str) -> Arc<str> {
    text.into()
}

/// Looks again and again until it holds.
pub(super) fn within(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + time;
    while !holds() {
        assert!(Instant::now() < end, "not in {time:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The same without holding up the tasks around it.
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let time = Duration::from_secs(10);
    let end = Instant::now() + time;
    while !holds() {
        assert!(Instant::now() < end, "not in {time:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn spawn(folder: &Path, config: &[String]) -> (Child, String) {
    fs::create_dir(folder).unwrap();
    let mut keeper = Command::new("sh")
        .args(["-c", KEEPER, "keeper", "--port", "0", "--unixsocket", "s"])
        .args(["--save", "", "--appendonly", "no"])
        .args(config)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut id = String::new();
    let mut said = BufReader::new(keeper.stdout.take().unwrap());
    said.read_line(&mut id).unwrap();
    (keeper, id.trim().to_owned())
}
