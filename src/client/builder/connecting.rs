//! From checked options to a client that is connected.

use std::sync::Arc;

use super::{Client, ClientBuilder, Target, acks, label};
use crate::{
    backend::{FaultKind, redis as server},
    chance::Chance,
    engine::{Clock, Margin, Settings},
    error::{Error, Op, Result},
    keys, lease,
    runtime::{self, OwnThread},
};

impl ClientBuilder {
    /// On that thread, which ends if this comes to nothing.
    pub(super) async fn connect_on(self, own: OwnThread) -> Result<Client> {
        let client = self.connect_here().await?;
        client.engine.set_own_thread(own);
        Ok(client)
    }

    pub(super) async fn connect_here(self) -> Result<Client> {
        let watchdog_timeout = lease::watchdog(self.watchdog_timeout)?;
        let settings = Settings {
            watchdog_timeout,
            command_timeout: lease::timeout("command_timeout", self.command_timeout)?,
            unreachable_after: lease::timeout("unreachable_after", self.unreachable_after)?,
            handover_slice: lease::slice(self.handover_slice)?,
            margin: Margin::default(),
            replicas: acks::checked(self.replica_acks, watchdog_timeout)?,
            ..Settings::default()
        };
        let label = label::checked(self.label)?;
        let Some(target) = self.target else {
            return Err(Error::invalid(
                "url",
                "no server was named: give a url(..), a redis_client(..), cluster_nodes(..), sentinels(..) or an \
                 embedded(..) store",
            ));
        };
        match target? {
            Target::Server(address) => {
                let address = match &self.nodes_like {
                    Some(like) => address.with_nodes_like(&like.0)?,
                    None => *address,
                };
                runtime::with_sockets()?;
                let (command_timeout, version) = (settings.command_timeout, self.protocol);
                let probe_key = &keys::probe_key(&self.name_prefix);
                let (chance, sharded) = (Chance::default(), self.sharded);
                let id = chance.uuid();
                let name = &label::of_connections(&label, id);
                let options = server::Options { command_timeout, version, probe_key, sharded, name };
                let connected = server::connect(&address, options).await;
                let backend = connected.map_err(|fault| match fault.kind {
                    FaultKind::Invalid => Error::invalid(address.option(), fault.source.to_string()),
                    _ => Error::from_fault(fault, &Arc::from(""), Op::Connect),
                })?;
                Ok(Client::start(id, backend, settings, Clock::new(), chance, self.name_prefix))
            }
            #[cfg(feature = "embedded")]
            Target::Store(store) => {
                runtime::here()?;
                let (id, chance) = (store.chance().uuid(), store.chance().clone());
                let link = Arc::new(store.open(id, settings.command_timeout)?);
                Ok(Client::start(id, link, settings, Clock::of_this_process(), chance, self.name_prefix))
            }
        }
    }
}
