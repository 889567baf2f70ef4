//! A private server for the tests of this folder, on a unix socket of its own; it goes with its handle.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use uuid::Uuid;

use super::{Options, Target};
use crate::script::Script;

/// Adds one to a key and says what it is then.
pub(super) static COUNT: Script =
    Script { path: "test/count", source: "return redis.call('INCR', KEYS[1])", keys: &["key"], args: &[] };

pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    config: Vec<String>,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::with(&[])
    }

    /// With more words for its command line.
    pub(super) fn with(config: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("relatch-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        let config: Vec<String> = config.iter().map(|word| (*word).to_owned()).collect();
        let child = spawn(&folder, &config);
        let server = Self { child, folder, config };
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
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // A killed server leaves its socket's file, which must not be mistaken for the next one's.
        let _ = std::fs::remove_file(self.socket());
    }

    /// Once more, with nothing in it.
    pub(super) fn restart(&mut self) {
        self.child = spawn(&self.folder, &self.config);
        self.wait();
    }

    /// Nobody can connect, and whoever is connected is thrown out.
    pub(super) fn hide(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        std::fs::rename(self.socket(), self.hidden()).unwrap();
        let kill = ["CLIENT", "KILL", "SKIPME", "yes"];
        let _: i64 = redis::Cmd::new().arg(&kill).query(&mut connection).unwrap();
    }

    pub(super) fn show(&self) {
        std::fs::rename(self.hidden(), self.socket()).unwrap();
    }

    fn hidden(&self) -> PathBuf {
        self.folder.join("hidden")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    fn wait(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        within(Duration::from_secs(10), "the server answers", || client.get_connection().is_ok());
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn options(milliseconds: u64) -> Options {
    Options { command_timeout: Duration::from_millis(milliseconds) }
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

fn spawn(folder: &PathBuf, config: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", "0", "--unixsocket", "s", "--save", "", "--appendonly", "no"])
        .args(config)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}
