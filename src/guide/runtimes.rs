//! Where a client lives, and what to do where there are several runtimes, or none.
//!
//! A client lives on the tokio runtime that connected it: its connections, its timers and its renewals are there. That
//! runtime needs time and IO (`enable_all`, which `#[tokio::main]` and `#[tokio::test]` do); without them `connect` says so.
//!
//! It may be *used* from everywhere: from another runtime, from another executor, from a thread without any. A call that is
//! awaited elsewhere runs at home and comes back, which costs two hops between threads; at home it costs nothing. Who holds
//! the lock is decided where you await: the scope there, else tokio's task, and where there is none, the thread. What that
//! means for the tasks of other executors is told [below](#executors-that-are-not-tokios).
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use std::thread;
//!
//! use relatch::Client;
//! use tokio::runtime::Builder;
//!
//! let home = Builder::new_multi_thread().enable_all().build()?;
//! let client = home.block_on(async { Client::embedded() });
//!
//! // A worker thread with a runtime of its own, as each worker of actix-web has one.
//! let worker = thread::spawn(move || {
//!     let own = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
//!     own.block_on(async { client.lock("report").lock().await?.unlock().await })
//! });
//! worker.join().expect("the worker does not panic")?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! Two things can go wrong with a home:
//!
//! - **It makes no progress.** A current-thread runtime runs only while somebody is inside its `block_on`, and blocking code
//!   can stop any. Calls from elsewhere then answer [`Unreachable`](crate::Error::Unreachable) after
//!   [`unreachable_after`](crate::ClientBuilder::unreachable_after), and so do those that a thread blocks on at home, with
//!   `Handle::block_on` or in a blocking task. Locks are not renewed. Home's own tasks stand still with it and are told nothing.
//!   Two callers cannot be told from such a task, and wait for as long as it takes: code in `block_in_place`, or later on its
//!   thread, and a task of another runtime that has entered this one (`Handle::enter`, `TokioContext`).
//! - **It ends.** The client is closed then, its holders are told that their locks are lost, and the locks are free when
//!   their leases are over.
//!
//! A client with [a thread of its own](#a-thread-of-its-own) knows neither.
//!
//! # actix-web
//!
//! Connect in `main`, put the client into `web::Data`, and use it in the handlers. Each worker thread has a runtime of its
//! own; the client lives on the one of `main`, which runs for as long as `main` awaits the server.
//!
//! # `#[tokio::test]`
//!
//! Each test has a runtime of its own, and it ends with the test. A client in a `static` would be closed with the first one,
//! unless it has [a thread of its own](#a-thread-of-its-own). Connect a client inside each test; on the embedded store that takes no time:
//!
//! ```no_run
//! # #[cfg(feature = "embedded")]
//! #[tokio::test]
//! async fn a_report_is_written_once() -> relatch::Result<()> {
//!     let client = relatch::Client::embedded(); // a store of this test's own
//!     client.lock("report").lock().await?.unlock().await?;
//!     Ok(())
//! }
//! ```
//!
//! # A thread of its own
//!
//! In a `static`, in a program that starts and ends runtimes, and in one without tokio, give the client a thread of its own. It
//! needs no runtime to connect, and every executor will do: `futures::executor::block_on(CLIENT.mutex("report").lock())`.
//!
//! ```no_run
//! use std::sync::LazyLock;
//!
//! use relatch::Client;
//!
//! static CLIENT: LazyLock<Client> = LazyLock::new(|| {
//!     let builder = Client::builder().url("redis://127.0.0.1/").own_thread();
//!     builder.connect_blocking().expect("the server answers")
//! });
//! ```
//!
//! The thread ends with the client: with its last clone and its last guard, or after [`close`](crate::Client::close). Every call
//! goes there and back. An `EmbeddedStore` belongs to the runtime of its first client, whose clock it goes by, so two clients with
//! a thread each cannot share one.
//!
//! ## Executors that are not tokio's
//!
//! The library knows tokio's tasks only. In those of another executor (`futures`, `smol`) a `lock` takes the
//! *thread* for its owner: two tasks that one thread polls are one owner, and **both enter**; one task that goes on at another
//! thread is another owner there. Take a [`mutex`](crate::Client::mutex), or put each task into a scope of its own,
//! `Owner::new().scope(task)`: see [`owners`](super::owners).
//!
//! ## With one runtime
//!
//! In a program with one runtime a plain client is faster; connect it at first use:
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
//! A guard can be dropped anywhere, also on a thread without a runtime: the release is sent from home. Blocking code that
//! must stop with its lock looks at a token: see [`losing_a_lock`](super::losing_a_lock).
