//! Who listens for releases, and what holders call themselves, where a server tells. Where it does not, nothing is known, and nothing
//! fails for that.

use std::{collections::HashMap, sync::Arc};

use uuid::Uuid;

use super::{Found, Looker, look::Draft};
use crate::backend::{Publish, Server, questions};

/// A server lists all of its connections in one go, which takes it some microseconds for each: not where there are more.
const MOST_CONNECTIONS: u64 = 1000;

/// What connections of this crate are called begins so.
const OURS: &str = "relatch:";

/// What the clients at one server call themselves. It is asked once, when the first holder is found.
#[derive(Default)]
pub(super) struct Labels(Option<HashMap<Uuid, String>>);

impl Looker {
    /// Completes what was found at a server; `all` are those where somebody may listen.
    pub(super) async fn complete(
        &self,
        drafts: Vec<Draft>,
        server: &Arc<dyn Server>,
        all: &[Arc<dyn Server>],
        labels: &mut Labels,
    ) -> Vec<Found> {
        let channels: Vec<String> = drafts.iter().map(|draft| draft.channel.clone()).collect();
        let counts = self.listeners(&channels, server, all).await;
        let mut found = Vec::with_capacity(drafts.len());
        for (at, Draft { found: mut it, .. }) in drafts.into_iter().enumerate() {
            it.listeners = counts.as_ref().and_then(|counts| counts.get(at).copied());
            for holder in &mut it.holders {
                if let Some(client) = holder.id.client_id() {
                    holder.label = labels.of(client, self, server).await;
                }
            }
            found.push(it);
        }
        found
    }

    /// How many listen to each of these channels. Where all servers tell of a release, each of them knows of some.
    async fn listeners(
        &self,
        channels: &[String],
        server: &Arc<dyn Server>,
        all: &[Arc<dyn Server>],
    ) -> Option<Vec<u64>> {
        if channels.is_empty() {
            return Some(Vec::new());
        }
        let kind = self.scope.backend().publish_kind();
        let servers = if kind == Publish::Sharded { std::slice::from_ref(server) } else { all };
        let mut sum = vec![0; channels.len()];
        for server in servers {
            let asked = questions::listeners(kind, channels.iter().map(String::as_str));
            let answer = self.ask(server, vec![asked]).await.ok()?.pop()?.ok()?;
            let counts = questions::listening(&answer).filter(|counts| counts.len() == sum.len())?;
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Some(sum)
    }
}

impl Labels {
    async fn of(&mut self, client: Uuid, looker: &Looker, server: &Arc<dyn Server>) -> Option<String> {
        if self.0.is_none() {
            self.0 = Some(known(looker, server).await.unwrap_or_default());
        }
        self.0.as_ref()?.get(&client).cloned()
    }
}

/// What all clients at a server call themselves.
async fn known(looker: &Looker, server: &Arc<dyn Server>) -> Option<HashMap<Uuid, String>> {
    let said = looker.ask(server, vec![questions::info("clients")]).await.ok()?.pop()?.ok()?;
    let connections: u64 = questions::field(&said, "connected_clients")?.parse().ok()?;
    if MOST_CONNECTIONS < connections {
        return None;
    }
    let list = looker.ask(server, vec![questions::clients()]).await.ok()?.pop()?.ok()?;
    let label = |name: &str| {
        let (label, client) = name.strip_prefix(OURS)?.rsplit_once(':')?;
        // Anybody may call itself anything.
        let is_shown = label.bytes().all(|byte| byte.is_ascii_graphic());
        is_shown.then_some((Uuid::try_parse(client).ok()?, label.to_owned()))
    };
    Some(questions::client_names(&list).filter_map(label).collect())
}
