//! How a server is told what it shall be, started, and waited for.

use std::{
    env, fs,
    io::{Read, Write},
    iter,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use super::{
    super::{
        certificates,
        stepping::{self, Step},
        watcher::Watcher,
    },
    Server, free_port,
};

/// How long a server may take until it answers; a busy machine needs a good part of it.
const START: Duration = Duration::from_secs(20);
/// Ports that are taken between the search and the server's start are replaced this often.
const PORTS: usize = 10;

/// What a server shall be told before it starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    lines: Vec<String>,
    tcp: bool,
    second_port: u16,
    certificate: Option<String>,
    steppable: bool,
    password: Option<String>,
    mode: &'static str,
}

impl Builder {
    /// One more line of configuration, like `maxmemory 4mb` or `user ann on >secret ~* +@all`.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Listen on a free port of 127.0.0.1 as well.
    pub(crate) fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// The same, as a node of a cluster, which has another port so far above it.
    pub(crate) fn tcp_of_a_node(mut self) -> Self {
        self.second_port = 10_000;
        self.tcp()
    }

    /// Listen on a free port of 127.0.0.1 for TLS alone, with one of the certificates that then are in the server's folder.
    /// Unless another line says so, it asks its clients for none.
    pub(crate) fn tls(mut self, certificate: &str) -> Self {
        self.certificate = Some(certificate.to_owned());
        self.lines.insert(0, "tls-auth-clients no".to_owned());
        self.tcp = true;
        self
    }

    /// No server but a sentinel, which watches over this one and calls it `m`. It is long before it gives it up.
    pub(crate) fn watching(mut self, master: &Server) -> Self {
        self.mode = "--sentinel";
        self.tcp()
            .line(format!("sentinel monitor m 127.0.0.1 {} 1", master.port()))
            .line("sentinel down-after-milliseconds m 600000")
    }

    /// Let the test step its wall clock.
    pub(crate) fn steppable_clock(mut self) -> Self {
        self.steppable = true;
        self
    }

    /// Ask for a password, which the server's own urls and connections then carry.
    pub(crate) fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(self) -> Server {
        let stepped_by = self.steppable.then(stepping::library);
        let mut watcher = Watcher::new(&program(), stepped_by.as_deref(), self.mode);
        if self.steppable {
            Step::NONE.take(watcher.folder());
        }
        if self.certificate.is_some() {
            certificates::make(watcher.folder());
        }
        let socket = watcher.folder().join("redis.sock");
        for _ in 0..PORTS {
            let fits = |port: &u16| port.checked_add(self.second_port).is_some();
            let port = self.tcp.then(|| iter::repeat_with(free_port).find(fits).expect("most fit"));
            let text = self.configuration(watcher.folder(), &socket, port);
            fs::write(watcher.folder().join("redis.conf"), text).expect("the configuration is written");
            watcher.start();
            match await_pong(&socket, self.password.as_deref(), watcher.folder()) {
                Ok(()) => {
                    let (watcher, password, steppable) = (Mutex::new(watcher), self.password, self.steppable);
                    return Server { watcher, socket, port, password, shared: false, steppable };
                }
                Err(NoStart::PortTaken) => watcher.end(),
                Err(why) => panic!("the server did not start: {why}"),
            }
        }
        panic!("{PORTS} free ports in a row were taken by somebody else");
    }

    fn configuration(&self, folder: &Path, socket: &Path, port: Option<u16>) -> String {
        let mut lines = vec![
            format!("dir {}", folder.display()),
            format!("unixsocket {}", socket.display()),
            "bind 127.0.0.1".to_owned(),
            format!("port {}", port.filter(|_| self.certificate.is_none()).unwrap_or(0)),
            "save \"\"".to_owned(),
            "appendonly no".to_owned(),
        ];
        if let (Some(certificate), Some(port)) = (&self.certificate, port) {
            lines.extend(certificates::configuration(folder, certificate, port));
        }
        lines.extend(self.password.as_ref().map(|password| format!("requirepass {password}")));
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}

/// Why a server does not answer.
#[derive(Debug)]
pub(super) enum NoStart {
    PortTaken,
    Failed(String),
}

impl std::fmt::Display for NoStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PortTaken => f.write_str("its port is taken"),
            Self::Failed(log) => write!(f, "its log says\n{log}"),
        }
    }
}

pub(super) fn await_pong(socket: &Path, password: Option<&str>, folder: &Path) -> Result<(), NoStart> {
    let started = Instant::now();
    loop {
        if pong(socket, password) {
            return Ok(());
        }
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        if log.contains("Address already in use") {
            // The next try must not read this one's words.
            let _ = fs::remove_file(folder.join("log"));
            return Err(NoStart::PortTaken);
        }
        if log.contains("FATAL CONFIG FILE ERROR") || started.elapsed() > START {
            return Err(NoStart::Failed(log));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Asked by hand: a server that is still starting is no error to the reader of a log.
fn pong(socket: &Path, password: Option<&str>) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let hello = password.map(|password| format!("AUTH {password}\r\n")).unwrap_or_default() + "PING\r\n";
    let wanted = if password.is_some() { "+OK\r\n+PONG\r\n" } else { "+PONG\r\n" };
    let mut answer = vec![0; wanted.len()];
    stream.set_read_timeout(Some(START)).is_ok()
        && stream.write_all(hello.as_bytes()).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer == wanted.as_bytes()
}

/// The server's program: `REDIS_SERVER`, or whichever of the two is installed.
fn program() -> PathBuf {
    if let Some(chosen) = env::var_os("REDIS_SERVER") {
        return chosen.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    ["redis-server", "valkey-server"]
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
        .expect("redis-server or valkey-server is installed: tests/run.sh does it")
}
