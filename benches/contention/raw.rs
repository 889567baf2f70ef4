//! The baseline: the lock's own scripts by EVALSHA over one multiplexed connection, and nothing around them.

use relatch::{
    Uuid,
    redis::{self, AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Value, aio::MultiplexedConnection},
};

use crate::Result;

const ACQUIRE: &str = include_str!("../../lua/reentrant/acquire.lua");
const RELEASE: &str = include_str!("../../lua/reentrant/release.lua");

/// The lease of a lock that is taken without any option.
const LEASE_MS: u64 = 30_000;

/// A connection on which both scripts are loaded. Clones share it.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) connection: MultiplexedConnection,
    acquire: String,
    release: String,
    field: String,
    /// How it tells of releases.
    pub(crate) publish: &'static str,
}

impl Raw {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        // No deadline of the driver's: the leanest that it can be.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let info = url.into_connection_info()?;
        // As on our links: what is sent over TCP does not wait until what was sent before has arrived.
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let acquire = load(&mut connection, ACQUIRE).await?;
        let release = load(&mut connection, RELEASE).await?;
        Ok(Self { connection, acquire, release, field: format!("{}:1", Uuid::new_v4()), publish: "PUBLISH" })
    }

    /// Raises the count to `holds`.
    pub(crate) async fn acquire(&self, name: &str, holds: u32) -> Result<()> {
        let answer = self.acquisition(name, holds).query_async(&mut self.connection.clone()).await?;
        done(matches!(answer, Value::Int(_)))
    }

    /// Lowers the count to `holds`.
    pub(crate) async fn release(&self, name: &str, holds: u32) -> Result<()> {
        let answer = self.releasing(name, holds).query_async(&mut self.connection.clone()).await?;
        done(match answer {
            Value::Int(_) => holds == 0,
            Value::Array(parts) => parts.first() == Some(&Value::Int(1)),
            _ => false,
        })
    }

    pub(crate) fn acquisition(&self, name: &str, holds: u32) -> Cmd {
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire).arg(1).arg(name).arg(&self.field).arg(LEASE_MS);
        if holds != 1 {
            acquire.arg(holds);
        }
        acquire
    }

    pub(crate) fn releasing(&self, name: &str, holds: u32) -> Cmd {
        let mut release = redis::cmd("EVALSHA");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        release.arg(&self.release).arg(1).arg(name).arg(&self.field).arg(self.publish).arg(channel);
        if holds != 0 {
            release.arg(holds);
        }
        release
    }
}

fn done(is: bool) -> Result<()> {
    if is { Ok(()) } else { Err("somebody else uses the raw lock".into()) }
}

pub(crate) async fn load(connection: &mut MultiplexedConnection, script: &str) -> Result<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?)
}
