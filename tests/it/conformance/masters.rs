//! Worlds of the suite with several masters, of which one may be lame.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

#[cfg(feature = "embedded")]
use relatch::EmbeddedStore;
use relatch::{Client, RedLock, RedLockBuilder};

use super::{LOOK, MASTER_TIMEOUT, ask};
use crate::harness::{
    Server, eventually_async, masters,
    proxy::{Door, Proxy},
};

/// The longest lease where masters are to be older than one.
const SHORT: Duration = Duration::from_secs(1);

pub(super) struct Masters {
    place: Place,
    /// What is wrong with the last one of them, once whoever connects is connected.
    lame: Option<Lame>,
    /// Only those count that are older than a lease, which is short.
    quarantined: bool,
    /// By which the last one was reached that is silent now.
    silent: Mutex<Vec<Proxy>>,
}

enum Place {
    Servers(&'static [Server]),
    #[cfg(feature = "embedded")]
    Stores(Vec<EmbeddedStore>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lame {
    Down,
    Silent,
}

impl Masters {
    fn at(place: Place) -> Self {
        Self { place, lame: None, quarantined: false, silent: Mutex::default() }
    }

    pub(super) fn all_well(count: usize) -> Self {
        Self::at(Place::Servers(masters::shared(count)))
    }

    pub(super) fn one_down() -> Self {
        Self { lame: Some(Lame::Down), ..Self::all_well(3) }
    }

    pub(super) fn one_silent() -> Self {
        Self { lame: Some(Lame::Silent), ..Self::all_well(3) }
    }

    pub(super) fn quarantined() -> Self {
        Self { quarantined: true, ..Self::all_well(3) }
    }

    #[cfg(feature = "embedded")]
    pub(super) fn in_this_process() -> Self {
        Self::at(Place::Stores((0..3).map(|_| EmbeddedStore::new()).collect()))
    }

    pub(super) fn one_is_lame(&self) -> bool {
        self.lame.is_some()
    }

    /// Whether nobody may ask for a lease of its own that is long.
    pub(super) fn are_short(&self) -> bool {
        self.quarantined
    }

    pub(super) async fn red_lock(&self, watchdog: Duration, options: fn(RedLockBuilder) -> RedLockBuilder) -> RedLock {
        let quarantine = if self.quarantined { SHORT } else { Duration::ZERO };
        let watchdog = if self.quarantined { SHORT } else { watchdog };
        let builder = RedLock::builder(self.clients().await).watchdog_timeout(watchdog).restart_quarantine(quarantine);
        // With a short lease a master is waited for no longer than a busy machine pauses.
        let builder = if self.quarantined { builder.master_timeout(MASTER_TIMEOUT) } else { builder };
        let red = options(builder).build().expect("they can be masters");
        if self.quarantined {
            let old = async || red.survey("nobody's").await.iter().all(|view| view.young_for.is_none());
            eventually_async(LOOK, old).await;
        }
        red
    }

    async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        match &self.place {
            Place::Servers(servers) => {
                let (last, others) = servers.split_last().expect("there are masters");
                for server in others {
                    clients.push(Client::connect(server.url()).await.expect("connects"));
                }
                clients.push(self.client_of_last(last).await);
            }
            #[cfg(feature = "embedded")]
            Place::Stores(stores) => {
                for store in stores {
                    clients.push(Client::builder().embedded(store).connect().await.expect("connects"));
                }
            }
        }
        clients
    }

    async fn client_of_last(&self, server: &Server) -> Client {
        let Some(lame) = self.lame else { return Client::connect(server.url()).await.expect("connects") };
        let proxy = Proxy::to(server);
        let client = Client::connect(proxy.url()).await.expect("connects");
        if lame == Lame::Silent {
            proxy.door(Door::Silent);
            proxy.silence_all();
            self.silent.lock().unwrap_or_else(PoisonError::into_inner).push(proxy);
        }
        // The other one goes, with its connections and where it listened.
        client
    }

    /// For how long a majority has the key, in milliseconds; -2 where none has it.
    pub(super) async fn pttl(&self, key: &str) -> i64 {
        let mut left = Vec::new();
        match &self.place {
            Place::Servers(servers) => {
                for server in *servers {
                    left.push(ask(&server.url(), &["PTTL", key]).await);
                }
            }
            #[cfg(feature = "embedded")]
            Place::Stores(stores) => {
                for store in stores {
                    left.push(super::pttl_in(store, key).await);
                }
            }
        }
        left.sort_unstable();
        left[(left.len() - 1) / 2]
    }

    /// Deletes the key at all of them; whether a majority had it.
    pub(super) async fn delete(&self, key: &str) -> bool {
        let mut gone = Vec::new();
        match &self.place {
            Place::Servers(servers) => {
                for server in *servers {
                    gone.push(ask::<i64>(&server.url(), &["DEL", key]).await == 1);
                }
            }
            #[cfg(feature = "embedded")]
            Place::Stores(stores) => gone.extend(stores.iter().map(|store| store.expire(key))),
        }
        gone.iter().filter(|gone| **gone).count() > gone.len() / 2
    }

    /// At the first of them, which is never lame.
    pub(super) async fn listeners_on(&self, channel: &str) -> u64 {
        match &self.place {
            Place::Servers(servers) => ask::<(String, u64)>(&servers[0].url(), &["PUBSUB", "NUMSUB", channel]).await.1,
            #[cfg(feature = "embedded")]
            Place::Stores(stores) => super::listeners_in(&stores[0], channel),
        }
    }
}
