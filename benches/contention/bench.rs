//! What all cases share: one server, one client of it, the baseline's connection, and the other libraries.

use std::{fs, time::Duration};

use relatch::{
    Client,
    redis::{self, aio::MultiplexedConnection},
};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, sleep};

use crate::{
    load::{Info, Result, connect},
    peers::Peers,
    raw::Raw,
    report::median_of,
    server::{self, Server},
    wishes::Wishes,
};

pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) raw: Raw,
    pub(crate) peers: Peers,
    pub(crate) wishes: Wishes,
    /// For questions to the server.
    connection: MultiplexedConnection,
    version: String,
}

impl Bench {
    pub(crate) async fn start(wishes: Wishes) -> Result<Self> {
        let peers = if wishes.peers() { Peers::build() } else { Peers::none() };
        let server = Server::start()?;
        let client = Client::connect(server.url()).await?;
        let raw = Raw::connect(server.url()).await?;
        let mut connection = connect(server.url()).await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?").to_owned();
        Ok(Self { server, client, raw, peers, wishes, connection, version })
    }

    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    pub(crate) async fn info(&self) -> Result<Info> {
        Info::read(&mut self.connection()).await
    }

    /// How many keys there are.
    pub(crate) async fn keys(&self) -> Result<u64> {
        Ok(redis::cmd("DBSIZE").query_async(&mut self.connection()).await?)
    }

    /// Deletes a key that is no lock.
    pub(crate) async fn forget(&self, key: &str) -> Result<()> {
        Ok(redis::cmd("DEL").arg(key).query_async(&mut self.connection()).await?)
    }

    /// Waits until nothing is held: what was dropped is released in the background.
    pub(crate) async fn until_all_is_free(&self) -> Result<()> {
        let started = Instant::now();
        while self.keys().await? > 0 {
            if started.elapsed() > Duration::from_secs(60) {
                return Err("a lock that was released is still there after a minute".into());
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// The median time of one raw script of the lock's own, each sent so long after the last: one round trip. Whoever has
    /// slept in between must be woken first, and so must the server.
    pub(crate) async fn round_trip(&self, pause: Duration) -> Result<Duration> {
        let mut took = Vec::new();
        for turn in 0..if pause.is_zero() { 4_000 } else { self.wishes.tasks(200, 10) } {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let sent = Instant::now();
            match turn % 2 {
                0 => self.raw.acquire("round-trip", 1).await?,
                _ => self.raw.release("round-trip", 0).await?,
            }
            took.push(sent.elapsed());
        }
        Ok(median_of(&mut took))
    }

    /// Where and when this is, and how much else the machine has to do.
    pub(crate) fn machine(&self) -> String {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        format!(
            "Redis {} on a unix socket, {}, load {}",
            self.version,
            server::cpus(),
            load.split(' ').next().unwrap_or("unknown"),
        )
    }
}

/// Seconds of CPU that this process has spent, the system's on its behalf included.
pub(crate) fn own_cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
