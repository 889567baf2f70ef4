//! Deployments of several servers, started by `tests/servers.sh` and gone with the tests.

#[path = "deployment/script.rs"]
mod script;

use std::{
    collections::HashMap,
    env,
    io::BufReader,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use redis::{Client, Connection, FromRedisValue, RedisResult, Value};
use rustix::process::{Pid, Signal, kill_process};

use self::script::Script;
use super::{eventually_async, switch::Switch, watcher};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers.sh");

/// How long a look at a server may take.
const LOOK: Duration = Duration::from_secs(10);

/// Servers with names, as the script gives them.
#[derive(Debug)]
pub(crate) struct Deployment {
    script: Mutex<Script>,
    said: HashMap<String, String>,
    password: Option<String>,
    sentinel_password: Option<String>,
    tls: bool,
    shared: bool,
    switch: Option<Switch>,
}

/// What servers shall be told before they start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) password: Option<&'static str>,
    pub(crate) sentinel_password: Option<&'static str>,
    /// All of them speak TLS alone.
    pub(crate) tls: bool,
    /// Where they are, instead of 127.0.0.1.
    pub(crate) host: Option<&'static str>,
    /// The nodes of a cluster are known by a name, and their certificates are good for that alone.
    pub(crate) named: bool,
    /// These are in a network that can be cut off from that of the others.
    pub(crate) apart: &'static [&'static str],
    /// They are so by a switch of the tests, which needs no right.
    pub(crate) switched: bool,
}

impl Deployment {
    /// A master with two replicas, and three sentinels that watch over it, of which two suffice.
    pub(crate) fn of_sentinels() -> Self {
        Self::with(&Wishes::default())
    }

    /// The one of this test process: for tests that do it no harm.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Deployment> = OnceLock::new();
        SHARED.get_or_init(|| Self { shared: true, ..Self::of_sentinels() })
    }

    /// A master with two replicas.
    pub(crate) fn of_replicas() -> Self {
        Self::replicas_with(&Wishes::default())
    }

    /// The one of this test process: for tests that do it no harm.
    pub(crate) fn shared_replicas() -> &'static Self {
        static SHARED: OnceLock<Deployment> = OnceLock::new();
        SHARED.get_or_init(|| Self { shared: true, ..Self::of_replicas() })
    }

    pub(crate) fn replicas_with(wishes: &Wishes) -> Self {
        Self::start_all("replicas", wishes)
    }

    /// Three masters, of which each has a third of the slots, and a replica of each.
    pub(crate) fn of_cluster() -> Self {
        Self::cluster_with(&Wishes::default())
    }

    /// The one of this test process: for tests that do it no harm.
    pub(crate) fn shared_cluster() -> &'static Self {
        static SHARED: OnceLock<Deployment> = OnceLock::new();
        // `RELATCH_TLS` wants it spoken, where a library for it is built in.
        let tls = env::var_os("RELATCH_TLS").is_some();
        SHARED.get_or_init(|| Self { shared: true, ..Self::cluster_with(&Wishes { tls, ..Wishes::default() }) })
    }

    pub(crate) fn cluster_with(wishes: &Wishes) -> Self {
        Self::start_all("cluster", wishes)
    }

    pub(crate) fn with(wishes: &Wishes) -> Self {
        Self::start_all("sentinel", wishes)
    }

    fn start_all(kind: &str, wishes: &Wishes) -> Self {
        let mut command = Command::new(SCRIPT);
        // Where others have the processors for a while, no server is to be taken for a dead one.
        command.args([kind, &flavour()]).env("DOWN_AFTER", "1500").env("NODE_TIMEOUT", "1000");
        command.env("TLS", if wishes.tls { "1" } else { "0" }).env("APART", wishes.apart.join(" "));
        command.env("ADDRESS", wishes.host.unwrap_or("127.0.0.1")).env("NAMED", if wishes.named { "1" } else { "0" });
        let switch = wishes.switched.then(Switch::new);
        command.envs(switch.iter().flat_map(|switch| {
            let [here, there] = switch.sides();
            [("SWITCH", switch.address()), ("HERE", here), ("THERE", there)].map(|(what, at)| (what, at.to_string()))
        }));
        command.envs(wishes.password.map(|password| ("PASSWORD", password)));
        command.envs(wishes.sentinel_password.map(|password| ("SENTINEL_PASSWORD", password)));
        // Away from a Ctrl-C: the end of its pipe tells the script.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().expect("the script starts");
        let orders = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("the script's answers are piped"));
        let mut script = Script { process, orders, answers, pids: HashMap::new() };
        let mut said = HashMap::new();
        loop {
            let line = script.answer();
            if line == "ready" {
                break;
            }
            let (what, value) = line.split_once('=').unwrap_or_else(|| panic!("the script says {line:?}"));
            if let Some(switch) = switch.as_ref().filter(|_| what == "UP") {
                switch.take(value.parse().expect("an address"), kind == "cluster");
                script.order("go on");
                continue;
            }
            match what.strip_prefix("PID_") {
                Some(name) => drop(script.pids.insert(name.to_owned(), pid(value))),
                None => drop(said.insert(what.to_owned(), value.to_owned())),
            }
        }
        let password = wishes.password.map(str::to_owned);
        let sentinel_password = wishes.sentinel_password.map(str::to_owned);
        Self { script: Mutex::new(script), said, password, sentinel_password, tls: wishes.tls, shared: false, switch }
    }

    /// What is between its networks, where no rights were needed for that.
    pub(crate) fn switch(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// The ports of all its servers.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let ports = self.said.iter().filter(|(what, _)| what.starts_with("PORT_"));
        ports.map(|(_, port)| port.parse().expect("a port is a number")).collect()
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.said["KIND"] == "cluster"
    }

    /// Where all its sentinels are, or its nodes, or its master, with the passwords if there are any.
    pub(crate) fn url(&self) -> String {
        if self.is_cluster() {
            let scheme = if self.tls { "rediss" } else { "redis" };
            return format!("{scheme}-cluster://{}{}", self.pass(), self.said["NODES"].replace(' ', ","));
        }
        if self.said["KIND"] == "replicas" {
            return self.url_of("master");
        }
        self.url_by(&["sentinel1", "sentinel2", "sentinel3"])
    }

    /// Where some of its sentinels are, with the passwords if there are any.
    pub(crate) fn url_by(&self, sentinels: &[&str]) -> String {
        let hosts: Vec<_> = sentinels.iter().map(|name| format!("{}:{}", self.host(name), self.port(name))).collect();
        let (hosts, pass) = (hosts.join(","), self.pass());
        let theirs = self.sentinel_password.as_ref().map(|password| format!("?sentinel_password={password}"));
        format!("redis-sentinel://{pass}{hosts}/{}#m", theirs.unwrap_or_default())
    }

    /// One of its servers, as if it were alone.
    pub(crate) fn url_of(&self, name: &str) -> String {
        let pass = match name.starts_with("sentinel") {
            true => self.sentinel_password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default(),
            false => self.pass(),
        };
        let scheme = if self.tls { "rediss" } else { "redis" };
        format!("{scheme}://{pass}{}:{}/", self.host(name), self.port(name))
    }

    /// The driver's client for one of its servers, with what it takes to trust it.
    pub(crate) fn client_of(&self, name: &str) -> Client {
        let url = self.url_of(name);
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        if self.tls {
            let issuer = std::fs::read(&self.said["CA"]).expect("it was made with the servers");
            let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(issuer) };
            return Client::build_with_tls(url, certificates).expect("our own url is good");
        }
        Client::open(url).expect("our own url is good")
    }

    /// Where their files are, which go with them.
    pub(crate) fn folder(&self) -> &Path {
        Path::new(&self.said["DIR"])
    }

    /// The host, bare.
    pub(crate) fn address(&self, name: &str) -> &str {
        self.host(name).trim_matches(['[', ']'])
    }

    /// As it stands in a URL.
    fn host(&self, name: &str) -> &str {
        &self.said[&format!("HOST_{name}")]
    }

    pub(crate) fn port(&self, name: &str) -> u16 {
        self.said[&format!("PORT_{name}")].parse().expect("a port is a number")
    }

    /// Which of the servers has this port.
    pub(crate) fn name_of(&self, port: u16) -> String {
        let mut names = ["master", "replica1", "replica2"].into_iter();
        names.find(|name| self.port(name) == port).expect("one of the servers has this port").to_owned()
    }

    /// Which server this sentinel has for the master.
    pub(crate) fn master_by(&self, sentinel: &str) -> String {
        let (_, port): (String, u16) = self.ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"]);
        self.name_of(port)
    }

    /// Which server all sentinels have for the master, once they agree.
    pub(crate) async fn master(&self) -> String {
        let mut named = Vec::new();
        eventually_async(LOOK, async || {
            named = ["sentinel1", "sentinel2", "sentinel3"].map(|sentinel| self.master_by(sentinel)).into();
            named.iter().all(|name| *name == named[0])
        })
        .await;
        named.remove(0)
    }

    /// One that follows this master, once it is in order.
    pub(crate) async fn replica_of_master(&self, master: &str) -> &'static str {
        let (port, mut found) = (i64::from(self.port(master)), None);
        eventually_async(LOOK, async || {
            found = ["master", "replica1", "replica2"].into_iter().filter(|name| *name != master).find(|name| {
                let role = self.ask::<Vec<Value>>(name, &["ROLE"]);
                matches!(&role[..], [_, _, Value::Int(of), Value::BulkString(state), ..]
                    if state == b"connected" && *of == port)
            });
            found.is_some()
        })
        .await;
        found.expect("it has a replica")
    }

    /// Runs one command on a connection of its own.
    pub(crate) fn ask<T: FromRedisValue>(&self, name: &str, words: &[&str]) -> T {
        redis::Cmd::new().arg(words).query(&mut self.connection(name)).expect("the server answers")
    }

    /// The same for a command that may be refused; whether it was not.
    pub(crate) fn try_ask(&self, name: &str, words: &[&str]) -> bool {
        redis::Cmd::new().arg(words).exec(&mut self.connection(name)).is_ok()
    }

    /// A fresh connection of the driver to one of the servers.
    pub(crate) fn connection(&self, name: &str) -> Connection {
        self.try_connection(name).expect("the server takes a connection")
    }

    /// The same to one that may end it.
    pub(crate) fn try_connection(&self, name: &str) -> RedisResult<Connection> {
        let connection = self.client_of(name).get_connection_with_timeout(LOOK)?;
        connection.set_read_timeout(Some(LOOK))?;
        Ok(connection)
    }

    /// How often one of the servers ran scripts that it was asked for from outside.
    pub(crate) fn scripts_run(&self, name: &str) -> u64 {
        self.calls(name, &["cmdstat_eval:calls=", "cmdstat_evalsha:calls="])
    }

    /// How often one of the nodes was asked who has which slots. An older one counts all that it is asked of its cluster.
    pub(crate) fn slots_asked_for(&self, name: &str) -> u64 {
        self.calls(name, &["cmdstat_cluster|slots:calls=", "cmdstat_cluster:calls="])
    }

    fn calls(&self, name: &str, of: &[&str]) -> u64 {
        let info: String = self.ask(name, &["INFO", "commandstats"]);
        let calls = |line: &str| -> Option<u64> {
            let rest = of.iter().find_map(|is| line.strip_prefix(is))?;
            rest.split(',').next()?.parse().ok()
        };
        info.lines().filter_map(calls).sum()
    }

    /// What one of the servers let nobody do: each word or key that it refused for want of a right.
    pub(crate) fn denied(&self, name: &str) -> Vec<String> {
        let log: Vec<HashMap<String, Value>> = self.ask(name, &["ACL", "LOG"]);
        let object = |mut entry: HashMap<String, Value>| {
            redis::from_redis_value(entry.remove("object").expect("it names what was refused")).expect("it is a text")
        };
        // The driver's own word, which is not essential: of one that knows no rights for parts of a command, the whole.
        let is_the_drivers = |object: &String| matches!(&**object, "client|setinfo" | "client");
        log.into_iter().map(object).filter(|object| !is_the_drivers(object)).collect()
    }

    /// Stops a server's process where it stands: sockets stay open, nothing is answered.
    pub(crate) fn freeze(&self, name: &str) {
        watcher::freeze(self.harmed().pids[name]);
    }

    /// Lets a frozen server go on.
    pub(crate) fn thaw(&self, name: &str) {
        kill_process(self.harmed().pids[name], Signal::CONT).expect("the server takes the signal");
    }

    /// Ends a server's process at once.
    pub(crate) fn kill(&self, name: &str) {
        self.harmed().done(&format!("kill {name}"));
    }

    /// Starts one again that was killed: with its configuration, and no data.
    pub(crate) fn start(&self, name: &str) {
        let mut script = self.harmed();
        script.order(&format!("start {name}"));
        let answer = script.answer();
        let new = pid(answer.strip_prefix("done ").unwrap_or_else(|| panic!("the script says {answer:?}")));
        script.pids.insert(name.to_owned(), new);
    }

    /// Nothing passes any more between the servers that are apart and the others, and nobody is told.
    pub(crate) fn cut(&self) {
        match &self.switch {
            Some(switch) => switch.cut(),
            None => self.harmed().done("cut"),
        }
    }

    pub(crate) fn mend(&self) {
        match &self.switch {
            Some(switch) => switch.mend(),
            None => self.harmed().done("mend"),
        }
    }

    /// The calling thread is in the network of this server from now on, with all that it opens there. Where they are apart nobody
    /// reaches one in another way.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter_the_network_of(&self, name: &str) {
        use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
        let pid = self.harmed().pids[name].as_raw_nonzero();
        let network = std::fs::File::open(format!("/proc/{pid}/ns/net")).expect("it runs");
        let network = std::os::fd::AsFd::as_fd(&network);
        move_into_link_name_space(network, Some(LinkNameSpaceType::Network)).expect("it lets us in");
    }

    /// What the servers call themselves: which they are, and since when.
    pub(crate) fn flavour(&self) -> &str {
        &self.said["FLAVOUR"]
    }

    fn pass(&self) -> String {
        self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    fn harmed(&self) -> MutexGuard<'_, Script> {
        assert!(!self.shared, "other tests use the shared deployment: take one of your own");
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which servers: `RELATCH_FLAVOUR` takes others than those that the system has.
fn flavour() -> String {
    env::var("RELATCH_FLAVOUR").unwrap_or_else(|_| "redis70".to_owned())
}

fn pid(text: &str) -> Pid {
    text.parse().ok().and_then(Pid::from_raw).expect("the script names a pid")
}
