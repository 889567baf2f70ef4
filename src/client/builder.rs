//! The options of a client, and how it is connected: here, or on a thread of its own.

mod acks;
mod connecting;
mod label;

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{Client, RespVersion, ShardedPubSub};
#[cfg(feature = "embedded")]
use crate::backend::embedded::EmbeddedStore;
use crate::{
    backend::redis as server,
    engine::while_driven,
    error::{Error, Result},
    runtime::{self, OwnThread},
};

/// Options of a [`Client`]. Every one is checked by [`ClientBuilder::connect`], before any I/O.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> relatch::Result<()> {
/// use std::time::Duration;
///
/// let client = relatch::Client::builder()
///     .url("redis://127.0.0.1/")
///     .watchdog_timeout(Duration::from_secs(10))
///     .name_prefix("billing:")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    target: Option<Result<Target>>,
    nodes_like: Option<Box<server::Unshown>>,
    pub(super) watchdog_timeout: Duration,
    pub(super) command_timeout: Duration,
    pub(super) unreachable_after: Duration,
    pub(super) handover_slice: Duration,
    pub(super) name_prefix: Arc<str>,
    label: Option<Box<str>>,
    protocol: RespVersion,
    sharded: ShardedPubSub,
    replica_acks: Option<(u32, Duration)>,
    own_thread: bool,
}

/// Where the locks are.
#[derive(Clone, Debug)]
enum Target {
    Server(Box<server::Address>),
    #[cfg(feature = "embedded")]
    Store(EmbeddedStore),
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            target: None,
            nodes_like: None,
            watchdog_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(3),
            unreachable_after: Duration::from_secs(9),
            handover_slice: Duration::from_millis(10),
            name_prefix: Arc::from(""),
            label: None,
            protocol: RespVersion::Auto,
            sharded: ShardedPubSub::Auto,
            replica_acks: None,
            own_thread: false,
        }
    }
}

impl ClientBuilder {
    /// Where the server is, with the credentials: `redis://user:password@host:port/database`,
    /// `redis+unix:///path?pass=password`, and with a TLS feature `rediss://`. What is special in a URL is percent-encoded in a
    /// user's name and a password: `/`, `?`, `#`, `@` and `%`. Of several targets the last one counts.
    ///
    /// Where sentinels are: `redis-sentinel://user:password@host:port,host/database#master`. Credentials, database and TLS are
    /// the master's; the sentinels' own are `?sentinel_username=…&sentinel_password=…&sentinel_tls=true`. With
    /// `rediss-sentinel://` both speak TLS. Where some nodes of a cluster are: `redis-cluster://user:password@host:port,host`, and
    /// with a TLS feature `rediss-cluster://`. See [`deployments`](crate::guide::deployments).
    pub fn url(mut self, url: impl AsRef<str>) -> Self {
        self.target = Some(server::Address::parse(url.as_ref()).map(|address| Target::Server(Box::new(address))));
        self
    }

    /// Where the server is, as the driver's own client object: its TLS and credentials are used as they are. The time
    /// limits are this builder's.
    ///
    /// Each link, and each that replaces one, shows the credentials of this object, so these stay those of the client for as long as
    /// it lives. The driver's `StreamingCredentialsProvider` is no part of a client object, and is not asked: where passwords change, let
    /// the server take the old and the new one together until all clients have the new one. What ends them on the server does not end
    /// links that are there; without them a client comes back when it is let in again.
    pub fn redis_client(mut self, client: server::DriverClient) -> Self {
        self.target = Some(server::Address::of_client(&client).map(|address| Target::Server(Box::new(address))));
        self
    }

    /// Where some nodes of a cluster are, as the driver's own client objects: their TLS and credentials are used as they are, and
    /// those of the first also for the nodes that are found, unless [`nodes_like`](Self::nodes_like) says otherwise.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use relatch::{Client, ShardedPubSub, redis};
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2"].map(redis::Client::open);
    /// let builder = Client::builder().cluster_nodes(nodes.into_iter().collect::<Result<Vec<_>, _>>()?);
    /// let client = builder.sharded_pubsub(ShardedPubSub::Off).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cluster_nodes(mut self, nodes: impl IntoIterator<Item = server::DriverClient>) -> Self {
        let nodes: Vec<_> = nodes.into_iter().collect();
        self.target = Some(server::Address::of_nodes(&nodes).map(|address| Target::Server(Box::new(address))));
        self
    }

    /// Where some of the sentinels are that watch over this master, as the driver's own client objects: their TLS and
    /// credentials are used as they are, and those of the first also for the sentinels that are found and for the master, unless
    /// [`nodes_like`](Self::nodes_like) says otherwise.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use relatch::{Client, redis};
    ///
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"].map(redis::Client::open);
    /// let master = redis::Client::open("redis://:secret@any.host/2")?; // its host and port do not matter
    /// let client = Client::builder()
    ///     .sentinels("main", sentinels.into_iter().collect::<Result<Vec<_>, _>>()?)
    ///     .nodes_like(master)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinels(
        mut self,
        master: impl AsRef<str>,
        sentinels: impl IntoIterator<Item = server::DriverClient>,
    ) -> Self {
        let sentinels: Vec<_> = sentinels.into_iter().collect();
        let address = server::Address::of_sentinels(master.as_ref(), &sentinels);
        self.target = Some(address.map(|address| Target::Server(Box::new(address))));
        self
    }

    /// How the servers that are found are spoken to: a sentinel's master, or the nodes of a cluster. TLS, credentials and
    /// database are this client's, the host and the port are theirs.
    ///
    /// # Examples
    ///
    /// See [`sentinels`](Self::sentinels).
    pub fn nodes_like(mut self, client: server::DriverClient) -> Self {
        self.nodes_like = Some(Box::new(server::Unshown(client)));
        self
    }

    /// A store in this process instead of a server. Of several targets the last one counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> relatch::Result<()> {
    /// use relatch::{Client, EmbeddedStore};
    ///
    /// let store = EmbeddedStore::new();
    /// let (ann, ben) =
    ///     (Client::builder().embedded(&store).connect().await?, Client::builder().embedded(&store).connect().await?);
    /// let guard = ann.mutex("desk").lock().await?;
    /// assert!(ben.mutex("desk").try_lock().await?.is_none());
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    #[cfg_attr(docsrs, doc(cfg(feature = "embedded")))]
    pub fn embedded(mut self, store: &EmbeddedStore) -> Self {
        self.target = Some(Ok(Target::Store(store.clone())));
        self
    }

    /// The lease of a hold under the watchdog, renewed every third of it; 30 s by default, from 100 ms to
    /// 365 days.
    ///
    /// If the process dies, its locks are free within this time.
    pub fn watchdog_timeout(mut self, timeout: Duration) -> Self {
        self.watchdog_timeout = timeout;
        self
    }

    /// How long one command may take, connecting included; 3 s by default, from 1 ms to 365 days.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a `lock()` without a wait puts up with a server that does not answer; 9 s by default, from 1 ms to 365
    /// days.
    pub fn unreachable_after(mut self, after: Duration) -> Self {
        self.unreachable_after = after;
        self
    }

    /// How long this client may keep a lock among its own tasks while others wait; 10 ms by default, 60 s at most.
    ///
    /// The longer, the fewer round trips under contention, and the longer other processes wait. It is two round trips at
    /// least, and grows from turn to turn, up to 500 ms, while not all of those that listen come. Zero: every
    /// release frees the lock.
    pub fn handover_slice(mut self, slice: Duration) -> Self {
        self.handover_slice = slice;
        self
    }

    /// Put before every name; nothing by default. Keys and channels derive from prefix and name together, as with
    /// Redisson's name mapper.
    pub fn name_prefix(mut self, prefix: impl AsRef<str>) -> Self {
        self.name_prefix = Arc::from(prefix.as_ref());
        self
    }

    /// The name by which an operator recognises this process: its connections are called `relatch:LABEL:CLIENT` in the server's `CLIENT LIST`, and the client's id stands in the locks that it holds. The host's name and the process's id, `host:pid`, by default; 1 to
    /// 64 characters from `!` to `~`.
    ///
    /// Where only RESP2 is spoken, connections that subscribe have no name. None has one where the user has no right to
    /// `CLIENT SETNAME`, or a client object of the driver was made with `set_skip_set_lib_name()`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// let client = relatch::Client::builder().url("redis://127.0.0.1/").label("orders-7f9c").connect().await?;
    /// println!("relatch:orders-7f9c:{}", client.id()); // as in the server's list
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(label.as_ref().into());
        self
    }

    /// Which version of the server's protocol is spoken; the newest that the server knows by default. What is asked for here
    /// goes before what the URL says.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: relatch::redis::Client) -> relatch::Result<()> {
    /// use relatch::RespVersion;
    ///
    /// // Behind a proxy that ends the connection where it does not know a command.
    /// let client = relatch::Client::builder().redis_client(client).protocol(RespVersion::Resp2).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn protocol(mut self, version: RespVersion) -> Self {
        self.protocol = version;
        self
    }

    /// Whether a cluster's releases are told over sharded channels; by default if all its masters know them. All clients of a
    /// cluster must have it the same.
    ///
    /// # Examples
    ///
    /// See [`cluster_nodes`](Self::cluster_nodes).
    pub fn sharded_pubsub(mut self, sharded: ShardedPubSub) -> Self {
        self.sharded = sharded;
        self
    }

    /// Gives the client a thread and a tokio runtime of its own, on which it lives: for a `static`, for tests that share a
    /// client, for programs with many runtimes or with none. It may be connected outside of tokio, too:
    /// [`ClientBuilder::connect_blocking`].
    ///
    /// Every call goes there and back, which costs some tens of microseconds; on the runtime that connected it a client
    /// without this is faster. The thread ends with the client: with its last clone and its last guard, or after
    /// [`Client::close`].
    ///
    /// Tasks of an executor that is not tokio's are not told apart: there a lock takes the thread for its owner, and two tasks
    /// that one thread polls both enter. Take a [`Client::mutex`], or [`Owner::new().scope(..)`](crate::Owner::scope) around
    /// each.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::sync::LazyLock;
    ///
    /// use relatch::Client;
    ///
    /// static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    ///     let builder = Client::builder().url("redis://127.0.0.1/").own_thread();
    ///     builder.connect_blocking().expect("the server answers")
    /// });
    ///
    /// #[tokio::main]
    /// async fn main() -> relatch::Result<()> {
    ///     CLIENT.lock("report").lock().await?.unlock().await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }

    /// Checks the options and connects.
    ///
    /// # Errors
    ///
    /// As for [`Client::connect`]; [`Error::Invalid`] names the option that is out of bounds, and says so where the system gives
    /// no thread.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// // Two clients with the same options are two processes.
    /// let builder = relatch::Client::builder().url("redis://127.0.0.1/");
    /// let (first, second) = (builder.clone().connect().await?, builder.connect().await?);
    /// assert_ne!(first.id(), second.id());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<Client> {
        if !self.own_thread {
            return while_driven(self.unreachable_after, self.connect_here()).await;
        }
        let own = OwnThread::start()?;
        let runtime = own.runtime().clone();
        runtime::attended(runtime.spawn(self.connect_on(own))).await.unwrap_or(Err(Error::Closed))
    }

    /// The same without tokio, for a client with a thread of its own: see [`ClientBuilder::own_thread`].
    ///
    /// Blocks for as long as connecting takes, one command timeout at most; in async code, [`ClientBuilder::connect`] does not.
    ///
    /// # Errors
    ///
    /// As for [`ClientBuilder::connect`]; [`Error::Invalid`] without [`ClientBuilder::own_thread`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example() -> relatch::Result<()> {
    /// let client = relatch::Client::builder().url("redis://127.0.0.1/").own_thread().connect_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(self) -> Result<Client> {
        if !self.own_thread {
            let why =
                "without a thread of its own the client would have no runtime to live on: call own_thread() first";
            return Err(Error::invalid("connect_blocking", why));
        }
        let own = OwnThread::start()?;
        let (tell, told) = mpsc::sync_channel(1);
        let runtime = own.runtime().clone();
        runtime.spawn(async move { drop(tell.send(self.connect_on(own).await)) });
        told.recv().unwrap_or(Err(Error::Closed))
    }
}
