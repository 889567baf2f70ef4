//! Real servers, started on a unix socket in a temporary folder and gone with the tests. It injects no faults into
//! the traffic: that is the proxy's job.

#[path = "server/starting.rs"]
mod starting;

use std::{
    collections::BTreeMap,
    io::Read,
    net::TcpListener,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use redis::{Client, Commands, Connection, Value, aio::MultiplexedConnection};
use rustix::process::Signal;

pub(crate) use self::starting::Builder;
use self::starting::await_pong;
use super::{
    looking::{LOOK, looking},
    monitor::Monitor,
    stepping::Step,
    watcher::Watcher,
};

/// A running server. It is killed and its folder removed when this is dropped or the test process ends.
#[derive(Debug)]
pub(crate) struct Server {
    watcher: Mutex<Watcher>,
    socket: PathBuf,
    port: Option<u16>,
    password: Option<String>,
    shared: bool,
    steppable: bool,
}

impl Server {
    /// The one server of this test process: for tests that only use names of their own and do it no harm.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::own().for_all())
    }

    /// One that several tests use, and none may harm.
    pub(super) fn for_all(mut self) -> Self {
        self.shared = true;
        self
    }

    /// A server for one test.
    pub(crate) fn own() -> Self {
        Self::builder().start()
    }

    /// A server for one test, with wishes.
    pub(crate) fn builder() -> Builder {
        Builder::default()
    }

    /// Where it listens, with the password if there is one.
    pub(crate) fn url(&self) -> String {
        let pass = self.password.as_ref().map(|password| format!("?pass={password}")).unwrap_or_default();
        format!("redis+unix://{}{pass}", self.socket.display())
    }

    /// The same over TCP, for a server that was built with it.
    pub(crate) fn tcp_url(&self) -> String {
        let pass = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{pass}127.0.0.1:{}/", self.port())
    }

    /// The port on 127.0.0.1, for a server that was built with one.
    pub(crate) fn port(&self) -> u16 {
        self.port.expect("this server was built with tcp()")
    }

    /// The unix socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A fresh connection of the driver, to read keys back or to spoil them.
    pub(crate) fn connection(&self) -> Connection {
        let connection = self.client().get_connection_with_timeout(LOOK).expect("the server takes a connection");
        connection.set_read_timeout(Some(LOOK)).expect("a socket takes a timeout");
        connection
    }

    /// The same for async tests.
    pub(crate) async fn async_connection(&self) -> MultiplexedConnection {
        looking(&self.client()).await
    }

    /// How often each command ran, scripts' own commands among them, by lowercase name.
    pub(crate) fn command_counts(&self) -> BTreeMap<String, u64> {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection()).expect("INFO answers");
        info.lines().filter_map(command_count).collect()
    }

    /// How often one command ran.
    pub(crate) fn count(&self, command: &str) -> u64 {
        self.command_counts().get(&command.to_lowercase()).copied().unwrap_or(0)
    }

    /// Counts start from zero again.
    pub(crate) fn reset_counts(&self) {
        self.run(redis::cmd("CONFIG").arg("RESETSTAT"));
    }

    /// From now on every command is recorded with its arguments.
    pub(crate) fn monitor(&self) -> Monitor<'_> {
        Monitor::new(self)
    }

    /// How many connections listen on a channel.
    pub(crate) fn listeners(&self, channel: &str) -> u64 {
        let (_, listeners): (String, u64) =
            redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).query(&mut self.connection()).expect("NUMSUB answers");
        listeners
    }

    /// Every key of the server.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.connection().keys("*").expect("KEYS answers")
    }

    /// What is in a hash; nothing where there is none.
    pub(crate) fn hash(&self, key: &str) -> BTreeMap<String, String> {
        self.connection().hgetall(key).expect("HGETALL answers")
    }

    /// When a key ends, by the server's own wall clock; `None` where it has no end, or is not there.
    pub(crate) fn ends_at(&self, key: &str) -> Option<Duration> {
        self.hash_and_end(key).1
    }

    /// A hash and its end, at one moment.
    pub(crate) fn hash_and_end(&self, key: &str) -> (Vec<(String, u32)>, Option<Duration>) {
        let mut connection = self.connection();
        let mut asked = redis::pipe();
        asked.atomic().hgetall(key);
        if knows(&mut connection, "PEXPIRETIME") {
            let answer = asked.cmd("PEXPIRETIME").arg(key).query(&mut connection);
            let (fields, ms): (_, i64) = answer.expect("it is a hash, or nothing");
            return (fields, u64::try_from(ms).ok().map(Duration::from_millis));
        }
        // By how much longer it lasts, in a millisecond that is the same before and after.
        asked.cmd("TIME").cmd("PTTL").arg(key).cmd("TIME");
        loop {
            let answer = asked.query(&mut connection);
            let (fields, before, ttl, after): (_, (u64, u64), i64, (u64, u64)) =
                answer.expect("it is a hash, or nothing");
            let [before, after] = [before, after].map(|(secs, micros)| secs * 1000 + micros / 1000);
            if before == after {
                return (fields, u64::try_from(ttl).ok().map(|ttl| Duration::from_millis(before + ttl)));
            }
        }
    }

    /// Takes a key away, as somebody might who cleans up.
    pub(crate) fn delete(&self, key: &str) {
        let _: () = self.connection().del(key).expect("DEL answers");
    }

    /// The server forgets its cached scripts.
    pub(crate) fn flush_scripts(&self) {
        self.run(redis::cmd("SCRIPT").arg("FLUSH"));
    }

    /// Stops the server's process where it stands: sockets stay open, nothing is answered, its clock goes on.
    pub(crate) fn freeze(&self) {
        self.harmed().freeze();
    }

    /// Lets a frozen server go on.
    pub(crate) fn thaw(&self) {
        self.harmed().signal(Signal::CONT);
    }

    /// Steps the server's wall clock away from what it would be, for a server that was built for that.
    pub(crate) fn step_clock(&self, step: Step) {
        assert!(self.steppable, "this server was not built with steppable_clock()");
        step.take(self.harmed().folder());
    }

    /// Ends the server's process at once.
    pub(crate) fn kill(&self) {
        self.harmed().end();
    }

    /// Lets the server end by itself, and waits for that.
    pub(crate) fn stop(&self) {
        let mut watcher = self.harmed();
        watcher.signal(Signal::TERM);
        // Its socket goes only when it has ended its connections.
        let started = Instant::now();
        while UnixStream::connect(&self.socket).is_ok() {
            assert!(started.elapsed() < LOOK, "the server did not stop within {LOOK:?}");
            thread::sleep(Duration::from_millis(2));
        }
        watcher.end();
    }

    /// Starts it again, or ends it and starts it again, at the same addresses and with no data.
    pub(crate) fn restart_empty(&self) {
        let mut watcher = self.harmed();
        watcher.end();
        watcher.start();
        if let Err(why) = await_pong(&self.socket, self.password.as_deref(), watcher.folder()) {
            panic!("the server did not come back: {why}");
        }
    }

    /// A client of the driver with all rights.
    pub(crate) fn client(&self) -> Client {
        Client::open(self.url()).expect("our own url is good")
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    fn run(&self, command: &redis::Cmd) {
        command.exec(&mut self.connection()).expect("the server takes the command");
    }

    fn harmed(&self) -> MutexGuard<'_, Watcher> {
        assert!(!self.shared, "other tests use the shared server: take Server::own()");
        self.watcher.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether servers of this kind know a command. They are all of one kind.
fn knows(connection: &mut Connection, command: &str) -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let known: Vec<Value> = redis::cmd("COMMAND").arg(&["INFO", command]).query(connection).expect("it answers");
        !matches!(known[..], [Value::Nil])
    })
}

/// A port of 127.0.0.1 that nobody has right now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

/// `cmdstat_hset:calls=2,usec=…` as a name and a number.
fn command_count(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    Some((name.to_owned(), calls.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{eventually, unique_name};

    fn set(server: &Server, key: &str) {
        let _: () = server.connection().set(key, 1).expect("the server takes a write");
    }

    #[test]
    fn the_shared_server_is_one_server() {
        let name = unique_name();
        set(Server::shared(), &name);
        assert!(Server::shared().keys().contains(&name));
    }

    #[test]
    #[should_panic(expected = "take Server::own()")]
    fn the_shared_server_cannot_be_harmed() {
        Server::shared().freeze();
    }

    #[test]
    fn a_server_answers_on_its_socket_and_on_its_port() {
        let server = Server::builder().tcp().password("secret").line("maxmemory 64mb").start();
        set(&server, "a");
        let mut connection =
            Client::open(server.tcp_url()).and_then(|client| client.get_connection()).expect("connects");
        let there: bool = connection.exists("a").expect("the port serves the same keys");
        assert!(there);
        let limit: Vec<String> =
            redis::cmd("CONFIG").arg("GET").arg("maxmemory").query(&mut connection).expect("answers");
        assert_eq!(limit, ["maxmemory", "67108864"]);
    }

    #[test]
    fn commands_are_counted_by_name() {
        let server = Server::own();
        set(&server, "a");
        set(&server, "b");
        assert_eq!((server.count("SET"), server.count("GET")), (2, 0));
        server.reset_counts();
        assert_eq!(server.count("set"), 0);
    }

    #[test]
    fn a_key_is_read_back_with_its_end_and_deleted() {
        let (server, name) = (Server::shared(), unique_name());
        let mut connection = server.connection();
        let _: () = connection.hset(&name, "field", 3).expect("the server takes a write");
        assert_eq!(server.hash(&name), BTreeMap::from([("field".to_owned(), "3".to_owned())]));
        assert_eq!(server.ends_at(&name), None);
        let _: () = connection.pexpire(&name, 60_000).expect("the server takes a TTL");
        let first = server.ends_at(&name).expect("it has an end");
        let again = server.ends_at(&name).expect("it has an end");
        assert_eq!(again, first);
        server.delete(&name);
        assert_eq!(server.hash(&name), BTreeMap::new());
    }

    #[test]
    fn cached_scripts_can_be_forgotten() {
        let server = Server::own();
        let script = redis::Script::new("return 1");
        let loaded: String = script.prepare_invoke().load(&mut server.connection()).expect("the script loads");
        let known = || -> Vec<bool> {
            let mut ask = redis::cmd("SCRIPT");
            ask.arg("EXISTS").arg(&loaded).query(&mut server.connection()).expect("SCRIPT EXISTS answers")
        };
        assert_eq!(known(), [true]);
        server.flush_scripts();
        assert_eq!(known(), [false]);
    }

    #[tokio::test]
    async fn listeners_of_a_channel_are_counted() {
        let server = Server::own();
        let mut listener = server.client().get_async_pubsub().await.expect("connects");
        assert_eq!(server.listeners("news"), 0);
        listener.subscribe("news").await.expect("subscribes");
        assert_eq!(server.listeners("news"), 1);
        let mut connection = server.async_connection().await;
        let reached: u64 = redis::AsyncCommands::publish(&mut connection, "news", 1).await.expect("publishes");
        assert_eq!(reached, 1);
    }

    #[test]
    fn a_frozen_server_answers_only_when_it_is_thawed() {
        let server = Server::own();
        let mut connection = server.connection();
        server.freeze();
        connection.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket takes a timeout");
        assert!(redis::cmd("PING").exec(&mut connection).expect_err("nobody answers").is_timeout());
        server.thaw();
        set(&server, "a");
    }

    #[test]
    fn a_wall_clock_that_is_stepped_takes_the_ends_of_keys_with_it() {
        let server = Server::builder().steppable_clock().start();
        let mut connection = server.connection();
        let hour = Duration::from_secs(3600);
        let mut left_after = |step: Step| -> i64 {
            let _: () = connection.pset_ex("a", 1, 60_000).expect("the server takes a write");
            server.step_clock(step);
            let left = connection.pttl("a").expect("PTTL answers");
            server.step_clock(Step::NONE);
            left
        };
        assert_eq!(left_after(Step::Forward(hour)), -2, "an hour on it is gone");
        assert!(
            (3_630_000..=3_660_000).contains(&left_after(Step::Back(hour))),
            "an hour back it has that much longer to live"
        );
    }

    #[test]
    fn a_server_that_was_killed_or_stopped_comes_back_empty_at_the_same_addresses() {
        let server = Server::builder().tcp().start();
        let (url, tcp_url) = (server.url(), server.tcp_url());
        for end in [Server::kill, Server::stop, Server::freeze] {
            set(&server, "a");
            end(&server);
            server.restart_empty();
            assert_eq!(server.keys(), Vec::<String>::new());
            assert_eq!((server.url(), server.tcp_url()), (url.clone(), tcp_url.clone()));
        }
    }

    #[test]
    #[should_panic(expected = "FATAL CONFIG FILE ERROR")]
    fn a_line_that_the_server_refuses_is_shown() {
        Server::builder().line("no-such-line 1").start();
    }

    #[test]
    fn nothing_is_left_of_a_dropped_server() {
        let server = Server::own();
        server.freeze();
        let folder = server.socket().parent().expect("the socket is in a folder").to_owned();
        let mut stream = UnixStream::connect(server.socket()).expect("a frozen server's socket is open");
        drop(server);
        assert!(!folder.exists());
        // The end of the stream, or a reset: the process is gone.
        eventually(LOOK, || !matches!(stream.read(&mut [0]), Ok(1..)));
    }
}
