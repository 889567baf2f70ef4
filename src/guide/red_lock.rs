//! A lock by majority, over masters that know nothing of each other.
//!
//! [`RedLock`](crate::RedLock) asks several masters at once, and holds a lock where more than half of all that are configured granted
//! it. It goes on while a minority is down, slow or cut off, without a failover and without losing a lock to one. The handles and guards
//! are those of a [`Client`](crate::Client): nesting, waiting, the watchdog, `lost`, `protect`, `max_hold`, `detach`.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use relatch::{Client, EmbeddedStore, RedLock};
//!
//! // Three servers, elsewhere: a Client::connect("redis://…") for each.
//! let stores = [EmbeddedStore::new(), EmbeddedStore::new(), EmbeddedStore::new()];
//! let mut masters = Vec::new();
//! for store in &stores {
//!     masters.push(Client::builder().embedded(store).connect().await?);
//! }
//! # tokio::time::sleep(std::time::Duration::from_secs(31)).await;
//! let red = RedLock::new(masters.clone());
//!
//! stores[1].partition(&masters[1])?; // one of them is cut off
//! let guard = red.lock("account:17").lock().await?;
//! assert!(guard.is_held());
//! guard.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # What it promises
//!
//! - Never two holders, as long as no more than a minority of the masters loses a grant before its lease is over. A restart without data
//!   is such a loss, and is caught by the quarantine below.
//! - The lease counts from before the first master was asked, less what clocks may drift apart
//!   ([`drift`](crate::RedLockBuilder::drift)): however long the vote took, nobody believes longer than a majority of the masters does.
//! - A vote that finds no majority is given back at every master before the next try, which has a number of its own: what is left of an
//!   earlier try never counts in a later one.
//! - A hold that lacks a master gets it back with the next renewal that a majority grants: a hold on all masters outlives the restart
//!   of any minority.
//! - Whoever waits hears of releases from every master, and goes on hearing while any minority is cut off.
//!
//! # What it cannot
//!
//! | what happens | what follows | what helps |
//! | --- | --- | --- |
//! | a master restarts without its data | it might grant the same lock again | [`restart_quarantine`](crate::RedLockBuilder::restart_quarantine), on by default: its grants count for nothing for as long as the longest lease |
//! | a process stands still inside its section | it goes on after its lease, and finds out when it looks at its guard | `protect`, `lost`; a fencing token, which a vote has none of |
//! | a master's clock is stepped ahead while a hold has a bare majority | two may hold it until the first one's lease is over | clocks that are slewed, never stepped |
//! | keys are deleted or evicted by somebody else at a majority | the same | `maxmemory-policy noeviction`, no `FLUSHALL` |
//!
//! `cargo run --example red_lock --features embedded` shows each of them, with its remedy and without.
//!
//! # Restarts
//!
//! A master that started less than a lease ago may have granted, before it fell, what it would grant again now. So it counts for
//! nothing until the longest lease of anybody on these masters is over: of this service and of all others, Java's included. The
//! default is the watchdog timeout, and a longer fixed lease is refused. Whoever wants longer leases sets the quarantine to the longest.
//!
//! Masters that are all started at once, as in a test, grant nothing for that time; the error says so, master by master. With
//! `appendfsync always`, and only then, a master forgets nothing, and the quarantine may be
//! `Duration::ZERO`. A failover behind sentinels or in a cluster counts as a restart of that master,
//! since the replica may know less than the master did, to every process that sees it. A process that connects afterwards sees a server
//! that has been up for long, and cannot know: take servers without replicas for a vote. Where a master refuses `INFO` each new connection to it counts as one.
//! A proxy that keeps connections over a server's restart hides it: do not put one in between.
//!
//! # When it does not go well
//!
//! ```no_run
//! # async fn example(red: &relatch::RedLock) {
//! if let Err(error) = red.lock("account:17").try_lock().await {
//!     for vote in error.votes().unwrap_or_default() {
//!         println!("{vote}"); // 10.0.0.2:6379 silent (50.0ms)
//!     }
//! }
//! for view in red.survey("account:17").await {
//!     println!("{}: {:?}", view.master, view.held); // each master's own word
//! }
//! # }
//! ```
//!
//! A master that says nothing is waited for only while its word decides the vote, for a
//! [`master_timeout`](crate::RedLockBuilder::master_timeout), and from then on no longer than the others took, until it answers again.
//! Without a majority `try_lock` is an error at once, a wait until it is over, and `lock()` after
//! [`unreachable_after`](crate::RedLockBuilder::unreachable_after).
//!
//! Several processes that ask in the same moment may split the masters among themselves. All of them give back what they got and try
//! again after a random pause, which no message cuts short: of eight on five masters one has it within three rounds, 99 times of 100, with at
//! most one master down, and within four with two
//! (`RELATCH_VOTES=10000 cargo test --features embedded --test it red_votes::of_eight -- --nocapture`).
//!
//! # How many, and of what
//!
//! Three or five, of one version, on machines that do not fail together. An even number bears no more failures than one less, and one
//! alone is a plain lock. A master may be a standalone server, sentinels' master or a cluster; replicas of a master add nothing to what is
//! promised here. All clients have one prefix and live on one runtime.
//!
//! # With others
//!
//! `red.lock(name)` is the lock of Redisson's `RedissonRedLock` over the same masters, and [`red.token_lock(name)`](crate::RedLock::token_lock)
//! the classic one of redsync and node-redlock: both exclude each other's holders, since both need a majority of the same keys. What
//! those sides promise is theirs: `RedissonRedLock` has no validity, and ignores errors of members when it unlocks. It has another owner
//! at each master: `is_locked` sees it and `force_unlock` ends it, `inspect` names nobody, and [`survey`](crate::RedLock::survey) names
//! each of them. Tested live and both ways with Redisson 4.7.0, redsync 4.18.1 and node-redlock 4.2.0 and 5.0.0-beta.2 over three servers.
//!
//! To a plain [`Client`](crate::Client) of one of the masters a hold of the vote is somebody else's, and the other way round: a lock that
//! such a client holds takes one vote away.
//!
//! # When something else is better
//!
//! One master with replicas, [`replica_acks`](crate::ClientBuilder::replica_acks) and a [fenced lock](crate::FencedLock) has a token that
//! refuses every late write, costs one server and one round trip, and is easier to run. Take it where what is protected can check a
//! token. Take the vote where nothing can, where a failover that loses a lock once a year is too much, and where the masters are there
//! anyway.
