//! Where a process of the storm takes its locks: from one client, or by the votes of several.

use std::time::Duration;

use relatch::{Client, Mutex, RedLock, ReentrantLock};
use tokio::time::sleep;

use super::{COMMAND, servers::Kind, slice};
use crate::kept::connected;

#[derive(Debug)]
pub(super) enum Locks {
    Granted(Client),
    Voted(RedLock, Vec<Client>),
}

impl Locks {
    /// Until it is connected: the faults are there from the start. The URLs have spaces between them.
    pub(super) async fn connect(urls: &str, process: u64, kind: Kind) -> Self {
        let longest = kind.lease_of(process);
        if kind != Kind::Masters {
            let watchdog = if process.is_multiple_of(2) { longest } else { longest * 2 / 3 };
            return Self::Granted(client(urls, process, watchdog).await);
        }
        let mut masters = Vec::new();
        for url in urls.split(' ') {
            masters.push(client(url, process, longest).await);
        }
        let voted = RedLock::builder(masters.clone())
            .watchdog_timeout(longest)
            .unreachable_after(COMMAND * 4)
            .handover_slice(slice(process));
        Self::Voted(voted.build().expect("masters that know nothing of each other"), masters)
    }

    pub(super) fn lock(&self, name: &str) -> ReentrantLock {
        match self {
            Self::Granted(client) => client.lock(name),
            Self::Voted(red, _) => red.lock(name),
        }
    }

    pub(super) fn mutex(&self, name: &str) -> Mutex {
        match self {
            Self::Granted(client) => client.mutex(name),
            Self::Voted(red, _) => red.mutex(name),
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Granted(client) => client.close().await,
            Self::Voted(red, masters) => {
                red.close().await;
                for master in masters {
                    master.close().await;
                }
            }
        }
    }
}

async fn client(url: &str, process: u64, watchdog: Duration) -> Client {
    let builder = Client::builder()
        .url(url)
        .watchdog_timeout(watchdog)
        .command_timeout(COMMAND)
        .unreachable_after(COMMAND * 4)
        .handover_slice(slice(process));
    loop {
        match builder.clone().connect().await {
            Ok(client) => return client,
            Err(error) if error.is_transient() => sleep(Duration::from_millis(50)).await,
            Err(_) => return connected(builder).await,
        }
    }
}
