//! What befalls the nodes of a store: masters that are replaced, or are silent, and slots that move. The store's own keys and
//! clock are in `store.rs`, one client's links in `support.rs`.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    clock::after,
    hosts::{Hosts, LONGEST_PAST},
    member::{Parked, Route},
    packet::Packet,
    store::EmbeddedStore,
    trace::Purpose,
    world::{Event, News, World},
};
use crate::{
    backend::slot::{SLOTS, slot as slot_of},
    error::{Error, Result},
};

/// What a new master lacks of what the old one had, for [`EmbeddedStore::fail_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forget {
    /// It has everything.
    Nothing,
    /// It has what the old one had so long ago, as a replica that lagged behind. No further back than ten seconds, and some
    /// ten thousand changes.
    Since(Duration),
}

/// What becomes of a master that was replaced, for [`EmbeddedStore::fail_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rival {
    /// It is gone, and its links are.
    Dead,
    /// It goes on for so long, and does what is asked over the links that it has. New ones lead to the new master: where a
    /// client is to hear of that sooner, its links are [cut](EmbeddedStore::cut).
    Lives(Duration),
}

/// What befalls the servers of a store. A node that there is not is [`Error::Invalid`].
impl EmbeddedStore {
    /// An empty store of so many nodes, one at least, with the same seed. As in a cluster each of them has a share of the
    /// slots, and which slot a key has is decided by its hash tag. Each node knows what it had a while ago, as a replica
    /// does that lags behind, so that it can be [failed over](Self::fail_over) to that.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new().with_nodes(3);
    /// assert_ne!(store.node_of("foo"), store.node_of("bar"));
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let foo = client.lock("foo").lock().await?;
    /// store.freeze_node(store.node_of("foo"))?;
    /// // What is elsewhere goes on.
    /// client.lock("bar").lock().await?.unlock().await?;
    /// store.thaw_node(store.node_of("foo"))?;
    /// foo.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_nodes(self, nodes: usize) -> Self {
        Self::of_nodes(self.chance, Hosts::new(nodes.clamp(1, SLOTS), true))
    }

    /// Which node has a key, counted from zero.
    #[must_use]
    pub fn node_of(&self, key: impl AsRef<str>) -> usize {
        self.store.look(|world| world.hosts.node_of(key.as_ref()))
    }

    /// Another server is the node's master from now on. Links that end are replaced by links to it, after a pause.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] without such a node, and for a store that was not made [with nodes](Self::with_nodes) if something
    /// is to be forgotten: it does not know what it had.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use relatch::{Client, EmbeddedStore, Error, LostCause, embedded::{Forget, Rival}};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new().with_nodes(1);
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let early = client.lock("early").lock().await?;
    /// tokio::time::sleep(Duration::from_secs(5)).await;
    /// let late = client.lock("late").lock().await?;
    /// store.fail_over(0, Forget::Since(Duration::from_secs(1)), Rival::Dead)?;
    /// // What the new master does not know is told at once, however long its lease is.
    /// assert!(matches!(late.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
    /// assert!(early.is_held());
    /// early.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_over(&self, node: usize, forget: Forget, rival: Rival) -> Result<()> {
        self.node(node)?;
        let since = match forget {
            Forget::Nothing => None,
            Forget::Since(since) if self.store.look(|world| world.hosts.keeps_past) => Some(since),
            Forget::Since(_) => {
                let why = "this store does not know what it had: make it with_nodes(..)";
                return Err(Error::invalid("forget", why));
            }
        };
        self.store.with(|world| world.fail_over(node, since, rival));
        Ok(())
    }

    /// The slot of a key goes to the next node, with all that is in it. For so long its messages reach nobody, and how many a
    /// release reached is not known: who waits asks again and again meanwhile. To which node it goes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a store of one node.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new().with_nodes(2);
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let guard = client.lock("report").lock().await?;
    /// let next = store.migrate("report", Duration::from_secs(60))?;
    /// assert_eq!(store.node_of("report"), next);
    /// assert!(guard.is_held());
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn migrate(&self, key: impl AsRef<str>, takes: Duration) -> Result<usize> {
        self.node(1)?;
        Ok(self.store.with(|world| world.migrate(slot_of(key.as_ref().as_bytes()), takes)))
    }

    /// Lets the node's servers take what they are sent, and do nothing with it, until they are [thawed](Self::thaw_node). A
    /// master that [takes over](Self::fail_over) meanwhile is not frozen.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] without such a node.
    pub fn freeze_node(&self, node: usize) -> Result<()> {
        self.node(node)?;
        self.store.with(|world| world.freeze_node(node));
        Ok(())
    }

    /// Ends a [`freeze_node`](Self::freeze_node).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] without such a node.
    pub fn thaw_node(&self, node: usize) -> Result<()> {
        self.node(node)?;
        self.store.with(|world| world.thaw_node(node));
        Ok(())
    }

    fn node(&self, node: usize) -> Result<()> {
        let known = node < self.store.look(World::nodes);
        if known { Ok(()) } else { Err(Error::invalid("node", "this embedded store has no such node")) }
    }
}

impl World {
    pub(super) fn nodes(&self) -> usize {
        self.hosts.nodes()
    }

    /// The number of the way that this client's next command for a key takes: of the link to its node, or of the last move of
    /// its slot, whichever is newer. It begins an era.
    pub(super) fn link(&self, client: Uuid, key: &str) -> u64 {
        let Some(member) = self.members.get(&client) else { return 0 };
        let number = member.links[self.hosts.node_of(key)].commands.number;
        if member.ways.is_empty() {
            return number;
        }
        member.ways.get(&slot_of(key.as_bytes())).map_or(number, |moved| number.max(*moved))
    }

    /// The same for a command, which is for its first key.
    pub(super) fn number(&self, client: Uuid, packet: &Packet) -> u64 {
        self.link(client, packet.calls().first().and_then(|words| words.keys.first()).map_or("", String::as_str))
    }

    pub(super) fn last_answer(&self, client: Uuid, key: &str) -> Option<Instant> {
        self.links(Route { client, node: self.hosts.node_of(key) }).map(|links| links.last_answer)
    }

    /// Whether this client's next command for a key goes to a master that was replaced.
    pub(super) fn leads_to_rival(&self, client: Uuid, key: &str) -> bool {
        let member = self.members.get(&client);
        member.is_some_and(|member| self.hosts.is_rival(member.links[self.hosts.node_of(key)].commands.host))
    }

    pub(super) fn counts(&self, key: &str) -> bool {
        !self.hosts.is_moving(slot_of(key.as_bytes()))
    }

    /// Every channel that somebody listens on, with how many do.
    pub(super) fn listeners(&self) -> Vec<(String, usize)> {
        let mut listeners = BTreeMap::<&str, usize>::new();
        for (channel, audience) in self.hosts.masters().flat_map(|host| &host.audience) {
            *listeners.entry(channel).or_default() += audience.len();
        }
        listeners.into_iter().map(|(channel, count)| (channel.to_owned(), count)).collect()
    }

    fn fail_over(&mut self, node: usize, since: Option<Duration>, rival: Rival) {
        let now = self.now();
        let then = since.and_then(|since| now.checked_sub(since.min(LONGEST_PAST)));
        let old = self.hosts.replace_master(node, then);
        match rival {
            Rival::Dead => self.end_host(old),
            Rival::Lives(long) => drop(self.plan(after(now, long), Event::Gone { host: old })),
        }
        // What waited for the old one to answer need not any more.
        for route in self.routes_to(node) {
            for purpose in Purpose::BOTH {
                self.plan_replacement(route, purpose);
            }
        }
    }

    /// A process is gone, and all links to it.
    pub(super) fn end_host(&mut self, host: u64) {
        let Some(node) = self.hosts.get(host).map(|host| host.node) else { return };
        self.hosts.remove(host);
        for route in self.routes_to(node) {
            self.sever(route, Some(host));
        }
    }

    fn routes_to(&self, node: usize) -> Vec<Route> {
        self.members.keys().map(|client| Route { client: *client, node }).collect()
    }

    pub(super) fn migrate(&mut self, slot: u16, takes: Duration) -> usize {
        let (now, time) = (self.now(), self.clock.server_time());
        let from = self.hosts.node_of_slot(slot);
        let to = (from + 1) % self.nodes();
        self.hosts.begin_move(slot, to, now, time);
        let clients: Vec<_> = self.members.keys().copied().collect();
        for client in clients {
            self.reroute(Route { client, node: from }, slot, to);
            self.deafen(client, slot);
            // Whoever knows where the slot went knows who the master is there.
            self.leave_rivals(Route { client, node: to });
        }
        self.plan(now, Event::Look);
        self.plan(after(now, takes), Event::Settled { slot });
        to
    }

    /// A client's commands for a slot take another way from now on, those too that wait for a link.
    fn reroute(&mut self, from: Route, slot: u16, to: usize) {
        let Some(member) = self.members.get_mut(&from.client) else { return };
        let number = member.draw();
        member.ways.insert(slot, number);
        // One that is asked whether it may leave is sent on when that is known.
        let is_there = |parked: &Parked| self.hosts.node_for(&parked.packet) == to && parked.answer.is_some();
        let waiting = mem::take(&mut member.links[from.node].parked);
        let (mut moved, kept): (VecDeque<_>, _) = waiting.into_iter().partition(is_there);
        member.links[from.node].parked = kept;
        member.links[to].parked.append(&mut moved);
        self.news.push_back(News::Linked(member.signals.eras.clone(), number));
    }

    /// A slot is where it was to go.
    pub(super) fn settle_slot(&mut self, slot: u16) {
        if !self.hosts.end_move(slot) {
            return;
        }
        let node = self.hosts.node_of_slot(slot);
        let clients: Vec<_> = self.members.keys().copied().collect();
        clients.into_iter().for_each(|client| self.listen_there(client, slot, node));
    }

    fn freeze_node(&mut self, node: usize) {
        let routes = self.routes_to(node);
        // As for a client to whom nothing passes: its beat finds out.
        routes.into_iter().for_each(|route| self.block(route, |_| {}));
        self.hosts.all_mut().filter(|host| host.node == node).for_each(|host| host.frozen = true);
    }

    fn thaw_node(&mut self, node: usize) {
        self.hosts.all_mut().filter(|host| host.node == node).for_each(|host| host.frozen = false);
        let routes = self.routes_to(node);
        routes.into_iter().for_each(|route| self.unblock(route, |_| {}));
    }
}
