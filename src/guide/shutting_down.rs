//! SIGTERM: stop the work, release the locks, close the client, in this order.
//!
//! A lock that is held when its process ends stays on the server until its lease is over: 30 s with the default watchdog.
//! The replica that takes over waits for that long. So release before you exit.
//!
//! # Stop, join, close
//!
//! ```no_run
//! use relatch::{CancellationToken, Client, Result};
//! use tokio::{signal::unix::{SignalKind, signal}, task::JoinSet};
//!
//! #[tokio::main]
//! async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::connect("redis://127.0.0.1/").await?;
//!     let (stop, mut workers) = (CancellationToken::new(), JoinSet::new());
//!     for queue in ["mail", "print"] {
//!         workers.spawn(work(client.clone(), queue, stop.clone()));
//!     }
//!
//!     signal(SignalKind::terminate())?.recv().await;
//!     stop.cancel(); // 1. nobody begins anything new
//!     workers.join_all().await; // 2. what runs ends, and releases its lock
//!     client.close().await; // 3. releases that are on their way are sent
//!     Ok(())
//! }
//!
//! async fn work(client: Client, queue: &str, stop: CancellationToken) -> Result<()> {
//!     while let Some(guard) = stop.run_until_cancelled(client.mutex(queue).lock()).await {
//!         let guard = guard?;
//!         // … one piece of work …
//!         guard.unlock().await?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # What `close` does
//!
//! [`Client::close`](crate::Client::close) refuses new calls, answers those who wait with
//! [`Error::Closed`](crate::Error::Closed), tells every holder that its lock is lost, and sends the releases that are
//! already decided, within one command timeout. It does *not* release a lock that is still held: its work may still run, and
//! then nobody else may enter. Such a lock is free when its lease is over.
//!
//! Dropping the last clone of a client does less: it lets the connections go. A `main` that ends right after dropping a
//! guard takes the runtime away before the release is sent.
//!
//! # When there is no time
//!
//! Kubernetes sends SIGTERM and, 30 s later by default, SIGKILL. Give work that may take longer the guard's
//! [`cancellation`](crate::LockGuard::cancellation) *and* your own stop token, so that it ends within that time. After a
//! SIGKILL, a crash or a power cut the lease ends the lock, and nothing else is needed.
