//! Who holds a lock: tasks, scopes, and where the task is the wrong owner.
//!
//! [`client.lock(name)`](crate::Client::lock) and [`client.mutex(name)`](crate::Client::mutex) are the same lock on the
//! server and exclude each other. They differ in who may enter twice.
//!
//! - `lock` is reentrant: its *owner* is the task that awaits it. A function may lock what its caller already holds, as
//!   long as both run in one task. Outside of tokio's tasks, in `main` or under `block_on`, the owner is the thread.
//! - `mutex` is never re-entered: every acquisition is an owner of its own. A task that acquires it twice waits for
//!   itself.
//!
//! | situation | take |
//! | --- | --- |
//! | functions that lock, and call each other | `lock` |
//! | the guard leaves the function: stored, detached, moved into a job | `mutex` |
//! | branches of `join!` or `select!`, elements of `buffer_unordered` | `mutex`, or a scope around each branch |
//! | messages of one actor, requests of one HTTP/1 connection | `mutex`, or a scope around each |
//! | tasks of an executor that is not tokio's | `mutex`, or a scope around each |
//! | a spawned task that works for its parent | `lock`, spawned in `Owner::current().scope(..)` |
//!
//! # Nesting
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use relatch::{Client, Released, Result};
//!
//! async fn withdraw(client: &Client) -> Result<()> {
//!     let guard = client.lock("account:1").lock().await?;
//!     // … take the money …
//!     guard.unlock().await?;
//!     Ok(())
//! }
//!
//! let client = Client::embedded();
//! let guard = client.lock("account:1").lock().await?;
//! withdraw(&client).await?; // the same task: it nests instead of waiting for ever
//! withdraw(&client).await?; // nobody came in between
//! assert_eq!(guard.unlock().await?, Released::Freed);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # Branches of one task
//!
//! `join!`, `select!` and `buffer_unordered` run all their branches in one task. With `lock` these branches are one
//! owner. Two acquisitions of one name *at the same time* are refused with an error that names the remedies. Two in
//! succession cannot be told from nesting: they succeed, with a [`tracing`](mod@super::tracing) event. Give each branch
//! an owner:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use relatch::{Client, Owner, Result};
//!
//! async fn charge(client: &Client) -> Result<()> {
//!     let guard = client.lock("account:1").lock().await?;
//!     guard.unlock().await?;
//!     Ok(())
//! }
//!
//! let client = Client::embedded();
//!
//! // Nothing nests: a mutex.
//! let turn = async || client.mutex("account:1").lock().await?.unlock().await;
//! tokio::try_join!(turn(), turn())?;
//!
//! // The branch calls functions that lock: a scope around it. All in it is one owner, and another one than its neighbour.
//! let branch = || Owner::new().scope(charge(&client));
//! tokio::try_join!(branch(), branch())?;
//!
//! // One acquisition only: an owner for it.
//! let guard = client.lock("account:1").lock().owner(&Owner::new()).await?;
//! guard.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # Executors that are not tokio's
//!
//! Tasks of another executor (`futures`, `smol`) are no tasks for tokio, so the owner of a `lock` is the thread that
//! polls. Two tasks that one thread polls are one owner: what the first one has locked, the second one enters, and both are
//! inside. Take a `mutex`, or put each task into a scope when it is spawned: `Owner::new().scope(task)`.
//!
//! # HTTP servers
//!
//! hyper, and with it axum and tonic, runs HTTP/1 and HTTP/2 differently:
//!
//! - **HTTP/1**: one task per connection, which runs its requests one after the other. They are one owner. That does no
//!   harm as long as each handler releases what it took. But if a handler leaves a guard behind, in a job that it spawned
//!   or in a response body that is still being sent, the next request *on the same connection* nests into that hold,
//!   while a request on another connection waits.
//! - **HTTP/2**: one task per stream, so each request is an owner of its own.
//!
//! A middleware that puts each request into a scope makes both the same. It is one line around the call of the inner
//! service: `Owner::new().scope(inner.call(request))`. The example `http_conflict` shows it without a framework.
//!
//! When hyper notices that the client is gone (a closed HTTP/1 connection, a reset HTTP/2 stream), it drops the handler's
//! future, whatever it awaits. The guard is dropped with it, and the lock is released. What that means for an open transaction is told in
//! [`dropped_requests`](super::dropped_requests).
//!
//! # Actors
//!
//! An actor handles all its messages in one task, so all of them are one owner. If handling a message awaits a lock and
//! keeps the guard for a later message, the later message nests. Take a `mutex`, or put each message into a scope.
//!
//! # Spawned tasks
//!
//! A task that is started with `tokio::spawn` is another owner than its parent, and waits for its parent's lock. To let
//! it act for its parent, spawn it in its parent's scope:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use relatch::{Client, Owner};
//!
//! let client = Client::embedded();
//! let guard = client.lock("account:1").lock().await?;
//! let lock = client.lock("account:1");
//! let child = Owner::current().scope(async move { lock.lock().await?.unlock().await });
//! tokio::spawn(child).await.expect("the child does not panic")?;
//! guard.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! Two tasks that act as one owner at the same time are not kept apart by the lock.
//!
//! # A guard that travels
//!
//! A guard is owned, `Send` and `'static`. It may be released from any task, so it can be moved into a job. Take a
//! `mutex` for that: with `lock` the task that took it would still be the owner, and could enter a second time.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use relatch::{Client, Result};
//! use tokio::task::JoinHandle;
//!
//! /// Answers 202 and works on, or 409.
//! async fn export(client: &Client) -> Result<Option<JoinHandle<Result<()>>>> {
//!     let Some(guard) = client.mutex("export:acme").try_lock().await? else { return Ok(None) };
//!     Ok(Some(tokio::spawn(async move {
//!         guard.protect(tokio::time::sleep(std::time::Duration::from_secs(60))).await?;
//!         guard.unlock().await?;
//!         Ok(())
//!     })))
//! }
//!
//! let client = Client::embedded();
//! let job = export(&client).await?.expect("nobody exports");
//! assert!(export(&client).await?.is_none()); // with `client.lock` the second call would be inside, too
//! job.await.expect("the job does not panic")?;
//! assert!(export(&client).await?.is_some());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! [`detach`](crate::LockGuard::detach) gives up the guard and keeps the hold, for code that can keep no guard (a session
//! in a table, say). It returns the [`Owner`](crate::Owner); [`attach`](crate::ReentrantLock::attach) makes a guard of it
//! again, and [`unlock().owner(&owner)`](crate::ReentrantLock::unlock) releases. Nothing ends a detached hold by itself
//! while the process lives, so take it with a lease or with `max_hold`.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::{collections::HashMap, time::Duration};
//!
//! use relatch::{Client, Owner, Released};
//!
//! let client = Client::embedded();
//! let mut captures: HashMap<u64, Owner> = HashMap::new();
//!
//! // A request begins a capture; the callback that ends it comes later, to this process.
//! let attempt = client.mutex("capture:1001").try_lock().max_hold(Duration::from_secs(600));
//! captures.insert(1001, attempt.await?.expect("one at a time").detach());
//! assert!(client.mutex("capture:1001").try_lock().await?.is_none());
//!
//! let owner = captures.remove(&1001).expect("it was begun");
//! let lock = client.lock("capture:1001");
//! let ended = tokio::spawn(lock.unlock().owner(&owner).into_future()).await.expect("it does not panic");
//! assert_eq!(ended?, Released::Freed);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
