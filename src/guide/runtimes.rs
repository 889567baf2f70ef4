//! One client, one tokio runtime: where a client lives, and what to do where there are several.
//!
//! A client lives on the runtime that connected it: its connections, its renewals and its timers run there. It needs a
//! tokio runtime with time and IO (`enable_all`, which `#[tokio::main]` and `#[tokio::test]` do).
//!
//! # `#[tokio::test]`
//!
//! Each test has a runtime of its own, and it ends with the test. Connect a client inside each test; do not share one in a
//! `static`.
//!
//! ```no_run
//! # #[cfg(feature = "embedded")]
//! #[tokio::test]
//! async fn locks_are_free_afterwards() -> relatch::Result<()> {
//!     let client = relatch::Client::embedded(); // a store of this test's own
//!     client.lock("report").lock().await?.unlock().await?;
//!     Ok(())
//! }
//! ```
//!
//! # A static
//!
//! In a program with one runtime, connect at first use:
//!
//! ```no_run
//! use relatch::{Client, Result};
//! use tokio::sync::OnceCell;
//!
//! static CLIENT: OnceCell<Client> = OnceCell::const_new();
//!
//! async fn client() -> Result<&'static Client> {
//!     CLIENT.get_or_try_init(|| Client::connect("redis://127.0.0.1/")).await
//! }
//! ```
//!
//! # Guards and blocking code
//!
//! A guard can be dropped anywhere, also on a thread without a runtime: the release is sent by the client's own runtime.
//! Blocking code that must stop with its lock looks at a token: see [`losing_a_lock`](super::losing_a_lock).
