//! Which servers there may be, what each deployment can lose, and the settings that help.
//!
//! # What is served
//!
//! | deployment | URL | what it can lose |
//! | --- | --- | --- |
//! | one server | `redis://host/0` | all locks, where it restarts without persistence |
//! | a master with replicas, behind one name | `redis://name/0` | what the replica that takes over had not heard of yet |
//! | a master with replicas, watched by sentinels | `redis-sentinel://host1,host2,host3/0#master` | the same; see [below](#what-a-failover-loses) |
//! | a cluster | `redis-cluster://host1,host2,host3` | the same, of one shard at a time |
//!
//! With TLS, by one of the features `rustls` and `native-tls`: `rediss://`, `rediss-sentinel://` and `rediss-cluster://`. The Cargo
//! features `sentinel` and `cluster` are empty names: both are always served.
//!
//! # Sentinel
//!
//! ```no_run
//! # async fn example() -> relatch::Result<()> {
//! let url = "redis-sentinel://locks:secret@10.0.0.1,10.0.0.2,10.0.0.3/0?sentinel_password=other#main";
//! let client = relatch::Client::connect(url).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | part | what it is |
//! | --- | --- |
//! | `10.0.0.1,…` | some of the sentinels, with ports other than 26379 behind a colon. One that answers is enough, and the others are learnt from it |
//! | `#main` | what the sentinels call their master |
//! | `locks:secret@`, `/0`, `?protocol=` | of the master: credentials, database, protocol |
//! | `?sentinel_username=`, `?sentinel_password=` | the sentinels' own credentials, if they ask for any |
//! | `?sentinel_tls=true` | the sentinels speak TLS. With `rediss-sentinel://` they and the master do; `sentinel_tls=false` leaves them out |
//!
//! Sentinels name servers by addresses that they know: those must lead there from the client, too, and under TLS the certificates
//! must be good for them (`resolve-hostnames` and `announce-hostnames` of the sentinels make them names). Whoever has client
//! objects of the driver, with certificates of their own, gives them to
//! [`sentinels`](crate::ClientBuilder::sentinels) and [`nodes_like`](crate::ClientBuilder::nodes_like).
//!
//! All sentinels are asked at once, each second and whenever one of them says `+switch-master` or a link to the master is lost. The
//! one that knows of the latest failover counts; then the server has to say by itself that it is a master. Nobody goes back to an
//! older configuration, so an isolated sentinel, or an old master that comes back and takes itself for one, is not followed. (Only
//! sentinels that were all set up anew, and count from zero, are believed again: when most of those that are known agree for
//! 10 s, and none that answers knows better.) On a failover the link to the old master is cut at once. What was under way there
//! answers [`Unreachable`](crate::Error::Unreachable) and may have run; waiters go on at the new one; every holder is asked for
//! there, and told within 1.5 s of the new link where its lock is not.
//!
//! Connecting takes one command timeout at most and waits for a failover that is under way. It answers
//! [`Invalid`](crate::Error::Invalid) where no sentinel knows the name, or a server is no sentinel;
//! [`Refused`](crate::Error::Refused) where a password is wrong; [`Unreachable`](crate::Error::Unreachable) where nobody answers.
//! Each says of every sentinel what it said.
//!
//! A client has two connections to each sentinel. A user there needs these rights, which
//! [`required_acl`](crate::Client::required_acl) has as `sentinel`:
//!
//! ```text
//! user locks on >a-long-random-secret resetkeys resetchannels &+switch-master &+sentinel -@all +sentinel|master +sentinel|get-master-addr-by-name +sentinel|sentinels +sentinel|myid +subscribe +client|setname
//! ```
//!
//! Without `+subscribe` a failover is noticed up to a second later, and one event says so; without `sentinels` nobody but those
//! in the URL is asked; without `myid` a sentinel that is reached by two addresses counts twice;
//! without `client|setname` neither has a name. At the master the rights are
//! those of [`operating`](super::operating#rights): that it is one is said by `HELLO`, which needs no right, or by `+role`.
//!
//! # Cluster
//!
//! ```no_run
//! # async fn example() -> relatch::Result<()> {
//! let client = relatch::Client::connect("redis-cluster://locks:secret@10.0.0.1,10.0.0.2:6380").await?;
//! # Ok(())
//! # }
//! ```
//!
//! Under TLS a node is spoken to by its host name where it tells one (`cluster-announce-hostname`), whatever
//! `cluster-preferred-endpoint-type` says, and else by the address that it tells: its certificate must be good for that. An address
//! that several nodes tell counts for none of them that has another; two masters that have no other are refused when connecting.
//!
//! One of the nodes that answers is enough: it names the others. The credentials and TLS are those of all nodes; whoever has client
//! objects of the driver gives them to [`cluster_nodes`](crate::ClientBuilder::cluster_nodes). A client has a connection to each
//! master, and one more from the first time that somebody waits for a lock there. A name has its lock where its slot is, and goes where the slot goes: while it
//! is moved, after a failover, and while a migration is half done. A master that is dead or frozen holds up the names of its own slots
//! and no others.
//!
//! - A name with braces must have its channel in the same slot as its key: without braces all do, and with one pair around a part
//!   that is not empty. Others, such as `{}` or `a}b{c}`, are [`Invalid`](crate::Error::Invalid) before anything is sent. So is
//!   a database other than 0.
//! - Releases are told over sharded channels where all masters know them, as they do from Redis 7.0 on, and else over channels that
//!   all nodes carry. All clients of a cluster must do the same:
//!   [`sharded_pubsub`](crate::ClientBuilder::sharded_pubsub) decides it, when a client connects. So set it to
//!   [`Off`](crate::ShardedPubSub::Off) before you upgrade nodes from 6.2 one by one, or restart all clients afterwards. With
//!   [`RespVersion::Resp2`](crate::RespVersion::Resp2) they are never sharded.
//! - Who has which slot is asked of two or three nodes at a time, when a node sends a command on, a link is lost or stands still,
//!   and each 10 s while anything is done, held or waited for. What a master says of its own slots counts less than what others say.
//!   A node that is asked by another name than the others have for it says by `CLUSTER MYID` which one it is.
//! - Names of several locks need not be in one slot: each has commands of its own.
//!
//! A user needs these rights at each node, beside those of [`operating`](super::operating#rights); where channels are sharded, in
//! place of `+publish +subscribe +unsubscribe`. [`required_acl`](crate::Client::required_acl) has all of them:
//!
//! ```text
//! +cluster|slots +cluster|myid +asking +pubsub|shardnumsub +ssubscribe +sunsubscribe +spublish +ping
//! ```
//!
//! # What a failover loses
//!
//! Redis replicates asynchronously, so the replica that takes over lacks what it had not heard of yet. What is lost is told to its
//! holder, but until then two may be inside. With three sentinels, `down-after-milliseconds` 1500, and one new lock each 5 ms,
//! by `cargo test --features embedded --test it sentinel:: -- --nocapture`:
//!
//! | what happens | nobody gets a lock for | grants that are lost |
//! | --- | --- | --- |
//! | the master is killed | 2.6 to 2.9 s, of which all but 0.2 s is the servers' | few: what was in no replica's socket yet |
//! | the master freezes, and goes on later | 2.9 to 3.3 s, likewise | the same |
//! | `SENTINEL FAILOVER` | no time: the old master goes on granting | those of up to a second: 40 to 154 of 92 to 215 |
//! | `FAILOVER TO` one of the servers | 30.3 s, of which all but 0.1 s until the sentinels agree: nobody asked them, and they may choose another server | none here, of 33 to 47 in each of 8 runs |
//! | the replicas lag, and the master is killed | as for a kill | all that they lack: 200 of 200, each told |
//!
//! On a cluster of three masters with a replica each, at a node timeout of 1 s, by the same command with `cluster::failing` for
//! `sentinel::`, and `RELATCH_FAILOVERS=16 RELATCH_LOST_HOLDS=10000` before it:
//!
//! | what happens to a master | nobody gets a lock of its slots for | grants that are lost |
//! | --- | --- | --- |
//! | it is killed | 2.3 to 2.8 s, of which all but 0.4 s is the servers' | none here, of 44 to 74 in each of 16 runs; what was in no replica's socket yet |
//! | it freezes, and goes on later | 2.3 to 2.9 s, likewise | the same |
//! | `CLUSTER FAILOVER` | 0.03 to 0.08 s | the same; the old master stops writing first |
//! | the replica lags, and the master is killed | as for a kill | all that it lacks: 10 000 of 10 000, told within 0.8 s |
//!
//! A master that is cut off from the others refuses to write when the node timeout is over; what it grants until then is lost.
//!
//! The old master of a `SENTINEL FAILOVER` is told last, and takes writes from whoever has not heard of it. A master that is cut
//! off from its sentinels, together with some of its clients, grants to those until it is back and 10 s longer. Nobody but
//! the server can prevent either:
//!
//! | setting | where | what it does |
//! | --- | --- | --- |
//! | `min-replicas-to-write 1` with `min-replicas-max-lag 1` | every server | a master that is cut off refuses to write within two seconds |
//! | `down-after-milliseconds` | sentinels | how soon a dead master is given up; shorter is sooner, and mistakes a busy one for a dead one |
//! | `cluster-node-timeout` | nodes of a cluster | how soon a dead master is given up, and for how long one that is cut off goes on granting; a shorter one mistakes a busy node for a dead one |
//! | `SENTINEL FAILOVER name COORDINATED` | Valkey 9.1 | the old master stops writing first |
//! | clocks that agree | every server | from Redis 7.0 on, a lease that is replicated ends by the new master's clock |
//!
//! Where two holders would do harm all the same, let the resource decide: [`losing_a_lock`](super::losing_a_lock).
//!
//! # Acknowledged by replicas
//!
//! With [`replica_acks(count, within)`](crate::ClientBuilder::replica_acks) nobody gets a lock before `count` replicas have
//! acknowledged the grant. Where fewer do within that time, the lock is given back and tried for again as long as the caller waits;
//! the error is [`TooFewReplicas`](crate::Error::TooFewReplicas), with the number that did. It works on every deployment, and on a
//! cluster it asks the replicas of the shard that has the name.
//!
//! ```no_run
//! # async fn example() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! // Two replicas: every one of them is to know.
//! let url = "redis-sentinel://10.0.0.1,10.0.0.2,10.0.0.3#main";
//! let client = relatch::Client::builder().url(url).replica_acks(2, Duration::from_millis(100)).connect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | it | because |
//! | --- | --- |
//! | makes sure that a replica that takes over knows of the lock, if it is one of those that acknowledged it | |
//! | with fewer than all replicas does not outlive every failover: in a `SENTINEL FAILOVER` with one of two, 881 of 1012 were lost, and with both none of 650 (one run of `cargo test --features embedded --test it acks::a_planned -- --nocapture`) | the old master goes on granting, and the replica that still follows it goes on acknowledging |
//! | with all replicas grants nothing while one of them is away; on a cluster with a replica for each shard that is so with 1 | there is nobody else to acknowledge it |
//! | with fewer than all of them does not outlive a split | an old master on the wrong side of it may have a replica there |
//! | says nothing of renewals, `extend`, nested acquisitions and what passes from task to task of a process that keeps the lock | those wait for no replica: what they make longer, a failover may make as short as it was |
//! | does not take back what was too late | it may be on a replica all the same, until its release follows |
//!
//! It is no consensus: where two holders would do harm, it makes that rarer. An acquisition takes a round trip from the master to
//! its replicas longer. Over one more connection to each server the acquisitions of a client wait for replicas together; nothing
//! else waits behind them. As there is no order between that connection and the other one, an acquisition waits until the
//! releases of its name are answered. The user needs the right `+wait`, beside those of
//! [`operating`](super::operating#rights).
