//! A proxy between a client and a server that does to the traffic what a test tells it. It follows rules and draws
//! no random numbers: the same traffic meets the same faults.

mod endpoint;
mod link;
mod log;
pub(crate) mod matching;
mod resp;
mod rule;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{io::AsyncReadExt, runtime, sync::watch};

use self::{
    endpoint::{Address, Listener, Reader, Writer},
    link::Link,
    log::Log,
    matching::{Match, Seen},
    rule::Rules,
};
pub(crate) use self::{
    log::{Entry, Event},
    rule::{Action, Rule},
};
use super::{Server, switch::Switch, unique_name};

/// A running proxy. Dropping it closes its listener and every connection.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// A runtime of its own: traffic passes also while the test's runtime is blocked.
    runtime: Option<runtime::Runtime>,
    address: Address,
    password: Option<String>,
    shared: Arc<Shared>,
}

/// What all connections of a proxy share.
#[derive(Debug)]
struct Shared {
    rules: Rules,
    log: Log,
    door: watch::Sender<Door>,
    links: Mutex<Vec<Weak<Link>>>,
    connections: AtomicU64,
    throttle: Mutex<Throttle>,
    /// What servers call each other, and what they are called on this side.
    renamed: Option<[String; 2]>,
}

/// How slow connections are, in bytes a second and direction; zero is no throttle.
#[derive(Clone, Copy, Debug, Default)]
struct Throttle {
    bytes_a_second: u64,
    /// The one connection that it is about; `None` for all.
    only: Option<u64>,
}

/// What happens to a client that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// It is connected to the server.
    Open,
    /// Its connection is closed at once.
    Refusing,
    /// Its connection stays open, and nothing ever comes.
    Silent,
}

impl Proxy {
    /// A proxy on a unix socket before this server.
    pub(crate) fn to(server: &Server) -> Self {
        // In the server's folder, so that the socket goes where the server goes.
        let socket = server.socket().with_file_name(format!("{}.sock", unique_name()));
        Self::start([(Address::Unix(socket), Address::Unix(server.socket().to_owned()))], server.password(), None)
    }

    /// A proxy on a TCP port of 127.0.0.1 before this server.
    pub(crate) fn tcp_to(server: &Server) -> Self {
        Self::start([(any_port(), Address::Unix(server.socket().to_owned()))], server.password(), None)
    }

    /// A proxy on a TCP port of 127.0.0.1 before whatever listens there.
    pub(crate) fn tcp_to_address(server: SocketAddr) -> Self {
        Self::start([(any_port(), Address::Tcp(server))], None, None)
    }

    /// A proxy here before whatever listens there.
    pub(crate) fn between(here: SocketAddr, there: SocketAddr) -> Self {
        Self::start([(Address::Tcp(here), Address::Tcp(there))], None, None)
    }

    /// One proxy before several servers on these ports of 127.0.0.1, which know each other: each has the same port of that
    /// address here, and whoever hears where another one is hears that address.
    pub(crate) fn to_all(ports: &[u16], here: Ipv4Addr) -> Self {
        let there = Ipv4Addr::LOCALHOST;
        let at = |host: Ipv4Addr, port: u16| Address::Tcp((host, port).into());
        let pairs = ports.iter().map(|port| (at(here, *port), at(there, *port)));
        Self::start(pairs, None, Some([there.to_string(), here.to_string()]))
    }

    /// The same for one of the two networks of a switch, behind which the servers with these ports are.
    pub(crate) fn into_network(switch: &Switch, side: usize, ports: &[u16]) -> Self {
        let (here, from, there) = (switch.entrance(side), switch.sides()[side], switch.address());
        let ways = |port: &u16| (Address::Tcp((here, *port).into()), Address::TcpFrom(from, (there, *port).into()));
        Self::start(ports.iter().map(ways), None, Some([there.to_string(), here.to_string()]))
    }

    /// Listens at the first of each pair for who wants to the second.
    fn start(
        pairs: impl IntoIterator<Item = (Address, Address)>,
        password: Option<&str>,
        renamed: Option<[String; 2]>,
    ) -> Self {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("a runtime starts");
        let shared = Arc::new(Shared {
            rules: Rules::default(),
            log: Log::default(),
            door: watch::Sender::new(Door::Open),
            links: Mutex::default(),
            connections: AtomicU64::new(0),
            throttle: Mutex::default(),
            renamed,
        });
        let at_hand = runtime.enter();
        let addresses = pairs.into_iter().map(|(asked, server)| {
            let listener = Listener::bind(&asked).expect("the proxy listens");
            let address = listener.address(asked).expect("a listener has an address");
            runtime.spawn(listen(listener, server, Arc::clone(&shared)));
            address
        });
        let addresses: Vec<_> = addresses.collect();
        let address = addresses.into_iter().next().expect("there is a server");
        drop(at_hand);
        let password = password.map(str::to_owned);
        Self { runtime: Some(runtime), address, password, shared }
    }

    /// Where it listens, or where it does for the first server, with the server's password if there is one.
    pub(crate) fn url(&self) -> String {
        let password = self.password.as_deref();
        match &self.address {
            Address::Unix(path) => {
                let pass = password.map(|password| format!("?pass={password}")).unwrap_or_default();
                format!("redis+unix://{}{pass}", path.display())
            }
            Address::Tcp(address) | Address::TcpFrom(_, address) => {
                let pass = password.map(|password| format!(":{password}@")).unwrap_or_default();
                format!("redis://{pass}{address}/")
            }
        }
    }

    /// A rule for what comes from now on. Of several whose turn it is, the first given decides.
    pub(crate) fn rule(&self, matches: Match, action: Action) -> Rule {
        let rule = Rule::new(matches, action);
        self.shared.rules.add(rule.clone());
        rule
    }

    /// What happens to clients that connect from now on.
    pub(crate) fn door(&self, door: Door) {
        self.shared.door.send_replace(door);
    }

    /// Cuts every connection that is open.
    pub(crate) fn cut_all(&self) {
        self.shared.links().iter().for_each(|link| link.cut());
    }

    /// Nothing passes on any connection that is open; they stay open.
    pub(crate) fn silence_all(&self) {
        self.shared.links().iter().for_each(|link| link.go_silent());
    }

    /// No more than so many bytes a second pass in each direction of a connection; zero lifts it.
    pub(crate) fn throttle(&self, bytes_a_second: u64) {
        self.shared.slow_down(Throttle { bytes_a_second, only: None });
    }

    /// The same for one connection, and no other.
    pub(crate) fn throttle_connection(&self, number: u64, bytes_a_second: u64) {
        self.shared.slow_down(Throttle { bytes_a_second, only: Some(number) });
    }

    /// How many connections are open.
    pub(crate) fn open_connections(&self) -> usize {
        self.shared.links().len()
    }

    /// Everything that came by, in order.
    pub(crate) fn log(&self) -> Vec<Entry> {
        self.shared.log.entries()
    }

    /// The requests of clients in which this is one of the words, in order. Copies that the proxy made are not among them.
    pub(crate) fn commands_of(&self, word: &str) -> Vec<Entry> {
        let asks = |entry: &Entry| match &entry.event {
            Event::Request { words, .. } => words.iter().any(|it| it == word.as_bytes()),
            _ => false,
        };
        self.log().into_iter().filter(asks).collect()
    }

    /// Whether there is an answer to every request of clients in which this is one of the words.
    pub(crate) fn has_answered(&self, word: &str) -> bool {
        let answers = |entry: &Entry| match &entry.event {
            Event::Reply { to, .. } => to.iter().any(|it| it == word.as_bytes()),
            _ => false,
        };
        self.log().into_iter().filter(answers).count() == self.commands_of(word).len()
    }

    /// The log starts anew.
    pub(crate) fn clear_log(&self) {
        self.shared.log.clear();
    }

    /// How many of the requests and pushes in the log a match is about. Occurrences play no part, and a connection
    /// counts as subscribing once its SUBSCRIBE is in the log.
    pub(crate) fn count(&self, matches: &Match) -> usize {
        let mut subscribing = std::collections::HashSet::new();
        let is_about = |entry: &Entry| {
            let Some(words) = entry.words() else {
                return false;
            };
            let connection = entry.connection;
            if entry.command().is_some_and(|name| matches!(&*name, "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE")) {
                subscribing.insert(connection);
            }
            let push = matches!(entry.event, Event::Push { .. });
            let subscribing = subscribing.contains(&connection);
            matches.is_about(&Seen { connection, subscribing, push, words })
        };
        self.log().iter().map(is_about).filter(|is| *is).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // In the background, since a test may drop it inside a runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn links(&self) -> Vec<Arc<Link>> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    fn slow_down(&self, throttle: Throttle) {
        *self.throttle.lock().unwrap_or_else(PoisonError::into_inner) = throttle;
    }

    fn throttle_of(&self, connection: u64) -> u64 {
        let Throttle { bytes_a_second, only } = *self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        if only.is_none_or(|only| only == connection) { bytes_a_second } else { 0 }
    }

    fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}

async fn listen(listener: Listener, server: Address, shared: Arc<Shared>) {
    while let Ok(client) = listener.accept().await {
        let number = shared.next_connection();
        let door = *shared.door.borrow();
        match door {
            Door::Open => {
                shared.log.note(number, Event::Opened);
                let link = Link::new(number, server.clone(), Arc::clone(&shared));
                shared.links.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&link));
                tokio::spawn(connect(link, client));
            }
            Door::Refusing => shared.log.note(number, Event::Refused),
            Door::Silent => {
                shared.log.note(number, Event::Opened);
                tokio::spawn(ignore(client));
            }
        }
    }
}

async fn connect(link: Arc<Link>, client: (Reader, Writer)) {
    match link.server.connect().await {
        Ok(server) => link.run(client, server).await,
        Err(_) => link.note(Event::ServerClosed),
    }
}

async fn ignore((mut client, _writer): (Reader, Writer)) {
    let mut bytes = Vec::new();
    while matches!(client.read_buf(&mut bytes).await, Ok(1..)) {
        bytes.clear();
    }
}

fn any_port() -> Address {
    Address::Tcp((Ipv4Addr::LOCALHOST, 0).into())
}
