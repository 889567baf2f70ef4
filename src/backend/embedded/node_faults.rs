//! What a test may do to the nodes of a store: see that masters are replaced or silent, and that slots move. What that does
//! is in `node_changes.rs`, what a test may do to one client's links in `client_faults.rs`.

use std::time::Duration;

use super::{
    instances::Instances,
    network::Network,
    node_changes::{Forget, Rival},
    store::EmbeddedStore,
};
use crate::{
    backend::slot::{SLOTS, slot as slot_of},
    error::{Error, Result},
};

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
        Self::of_nodes(self.chance, Instances::new(nodes.clamp(1, SLOTS), true))
    }

    /// Which node has a key, counted from zero.
    #[must_use]
    pub fn node_of(&self, key: impl AsRef<str>) -> usize {
        self.store.read(|network| network.instances.node_of(key.as_ref()))
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
            Forget::Since(since) if self.store.read(|network| network.instances.keeps_past) => Some(since),
            Forget::Since(_) => {
                let why = "this store does not know what it had: make it with_nodes(..)";
                return Err(Error::invalid("forget", why));
            }
        };
        self.store.with(|network| network.fail_over(node, since, rival));
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
        Ok(self.store.with(|network| network.migrate(slot_of(key.as_ref().as_bytes()), takes)))
    }

    /// Lets the node's servers take what they are sent, and do nothing with it, until they are [thawed](Self::thaw_node). A
    /// master that [takes over](Self::fail_over) meanwhile is not frozen.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] without such a node.
    pub fn freeze_node(&self, node: usize) -> Result<()> {
        self.node(node)?;
        self.store.with(|network| network.freeze_node(node));
        Ok(())
    }

    /// Ends a [`freeze_node`](Self::freeze_node).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] without such a node.
    pub fn thaw_node(&self, node: usize) -> Result<()> {
        self.node(node)?;
        self.store.with(|network| network.thaw_node(node));
        Ok(())
    }

    fn node(&self, node: usize) -> Result<()> {
        let known = node < self.store.read(Network::nodes);
        if known { Ok(()) } else { Err(Error::invalid("node", "this embedded store has no such node")) }
    }
}
