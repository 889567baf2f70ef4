//! What the server says of its own work.

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};

use super::Result;

/// Counted since the server started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    /// Commands, those inside of scripts too.
    pub(crate) commands: u64,
    /// Scripts that were run, by whatever command.
    pub(crate) scripts: u64,
    /// How often a script looked whether a hold is on its key. Of all scripts a renewal does so, once a key.
    pub(crate) looks: u64,
    /// Seconds of CPU.
    pub(crate) cpu: f64,
}

/// A connection for questions. It waits for as long as the server has something else to do, and half a second is the
/// driver's patience.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

impl Info {
    pub(crate) async fn read(connection: &mut MultiplexedConnection) -> Result<Self> {
        let text: String = redis::cmd("INFO").arg("commandstats").arg("cpu").query_async(connection).await?;
        let mut info = Self { commands: 0, scripts: 0, looks: 0, cpu: 0.0 };
        for line in text.lines() {
            if let Some((command, rest)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(":calls=")) {
                let calls: u64 = rest.split(',').next().unwrap_or_default().parse()?;
                info.commands += calls;
                if command.starts_with("eval") || command.starts_with("fcall") {
                    info.scripts += calls;
                } else if command == "hexists" {
                    info.looks = calls;
                }
            } else if let Some((_, secs)) = line.split_once(':').filter(|(key, _)| is_cpu(key)) {
                info.cpu += secs.parse::<f64>()?;
            }
        }
        Ok(info)
    }

    /// What came after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            scripts: self.scripts - before.scripts,
            looks: self.looks - before.looks,
            cpu: self.cpu - before.cpu,
        }
    }
}

fn is_cpu(key: &str) -> bool {
    key == "used_cpu_sys" || key == "used_cpu_user"
}
