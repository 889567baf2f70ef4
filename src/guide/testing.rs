//! Testing a service without a server: the same scripts on a store inside the test.
//!
//! With the feature `embedded` there is no server, no port and nothing to clean up. The store lives on tokio's clock, so on
//! a paused one an hour is over in no time. Lua is built from source: a C compiler is the only extra need. A program that
//! links another version of Lua (by another feature of `mlua`, say) cannot have this feature at the same time, so keep it
//! in `dev-dependencies`:
//!
//! ```toml
//! [dev-dependencies]
//! relatch = { version = "0.1", features = ["embedded"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! Your code takes a [`Client`](crate::Client); a test hands it one that lives on a store. For one client alone
//! `Client::embedded()` is enough. Two clients of one `EmbeddedStore` are two replicas:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore};
//!
//! let store = EmbeddedStore::new();
//! let one = Client::builder().embedded(&store).connect().await?;
//! let other = Client::builder().embedded(&store).connect().await?;
//!
//! let guard = one.lock("report").lock().await?;
//! assert!(other.lock("report").try_lock().await?.is_none());
//!
//! store.partition(&one); // its network is gone …
//! tokio::time::sleep(Duration::from_secs(31)).await;
//! assert!(!guard.is_held()); // … so it no longer believes …
//! assert!(other.lock("report").try_lock().await?.is_some()); // … in what is somebody else's by now
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # What can happen to a client
//!
//! | method of the store | what it does |
//! | --- | --- |
//! | `partition`, `heal` | the network is gone, and back |
//! | `freeze`, `thaw` | nothing arrives any more, and what was on its way arrives later |
//! | `cut` | the connections end |
//! | `drop_next_request`, `drop_next_reply`, `duplicate_next` | one command is lost, its answer is lost, it runs twice |
//! | `restart` | the server is empty |
//! | `set_clock_forward`, `set_clock_back` | the server's clock is stepped |
//! | `limit_memory` | writes are refused |
//! | `expire`, `steal` | a lease ends early, a lock is somebody else's |
//! | `set_weather`, `set_weather_of` | delays, losses and cuts: for all clients, or for one that is farther away |
//! | `with_nodes`, `fail_over`, `migrate`, `freeze_node` | of several nodes one has another master, which may lack something; a slot goes elsewhere; a node stands still |
//! | `keys`, `hash`, `listeners`, `calls`, `is_empty` | what is there, and how many commands a client sent |
//!
//! # Runs that a seed repeats
//!
//! `EmbeddedStore::seeded(seed)` draws everything random from a seed, and a `Weather` brings delays, losses and cuts. On a
//! paused current-thread runtime the same seed gives the same run, and `take_trace` shows it line by line. Their types are
//! in `relatch::embedded`.
//!
//! # With a real server
//!
//! In a checkout of the project, `tests/with-redis.sh CMD…` runs a command with a server of its own, found at `REDIS_URL`.
