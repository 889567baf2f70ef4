//! The baseline: the lock's own scripts by EVALSHA over one multiplexed connection, and nothing around them.

use std::time::Duration;

use relatch::{
    Uuid,
    redis::{self, AsyncConnectionConfig, Client, FromRedisValue, aio::MultiplexedConnection},
};

use crate::Result;

const ACQUIRE: &str = include_str!("../../lua/reentrant/acquire.lua");
const RELEASE: &str = include_str!("../../lua/reentrant/release.lua");

/// The lease of a lock that is taken without any option.
const LEASE_MS: u64 = 30_000;

/// A connection on which both scripts are loaded. Clones share it.
#[derive(Clone)]
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    field: String,
}

impl Raw {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        // No deadline of the driver's: the leanest that it can be.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
        let acquire = load(&mut connection, ACQUIRE).await?;
        let release = load(&mut connection, RELEASE).await?;
        Ok(Self { connection, acquire, release, field: format!("{}:1", Uuid::new_v4()) })
    }

    /// Acquires and releases once: what an uncontended section must send.
    pub(crate) async fn pair(&mut self, name: &str) -> Result<()> {
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire).arg(1).arg(name).arg(&self.field).arg(LEASE_MS).arg(1);
        let (status, _, _, _): (i64, i64, i64, i64) = acquire.query_async(&mut self.connection).await?;
        let mut release = redis::cmd("EVALSHA");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        release.arg(&self.release).arg(1).arg(name).arg(&self.field).arg(0).arg("PUBLISH").arg(channel);
        let (freed, _, _): (i64, i64, i64) = release.query_async(&mut self.connection).await?;
        if (status, freed) == (1, 1) { Ok(()) } else { Err("somebody else uses the raw lock".into()) }
    }

    /// How often the server ran EVALSHA since it was last told to forget.
    pub(crate) async fn evalsha_calls(&mut self) -> Result<u64> {
        let info: String = self.ask(redis::cmd("INFO").arg("commandstats")).await?;
        let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
        Ok(calls.unwrap_or("0").parse()?)
    }

    /// Counts start from zero again.
    pub(crate) async fn forget_calls(&mut self) -> Result<()> {
        self.ask(redis::cmd("CONFIG").arg("RESETSTAT")).await
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T> {
        Ok(command.query_async(&mut self.connection).await?)
    }

    /// How many keys there are.
    pub(crate) async fn keys(&mut self) -> Result<u64> {
        self.ask(&redis::cmd("DBSIZE")).await
    }
}

async fn load(connection: &mut MultiplexedConnection, script: &str) -> Result<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?)
}

/// How long a round of one side takes, when a case takes `span` and both sides get `rounds` turns.
pub(crate) fn round(span: Duration, rounds: u32) -> Duration {
    span / (2 * rounds)
}
