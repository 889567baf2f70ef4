//! Every error, and what to do about it.
//!
//! | error | what to do |
//! | --- | --- |
//! | `Ok(None)` of `try_lock` | it is busy, which is no error: come back later, or answer 409 |
//! | [`Invalid`](crate::Error::Invalid) | fix the call; the message names the lock or the option, and the remedy |
//! | [`NotHeld`](crate::Error::NotHeld) | fix the code: it releases what it does not hold. Where guards exist, release through them |
//! | [`Lost`](crate::Error::Lost) | stop, and treat the work as interrupted: somebody else may be in the section |
//! | [`Unreachable`](crate::Error::Unreachable) | try again later. `may_have_run` says whether the server may have done it all the same; an acquisition of that kind is cleaned up in the background, and a release is repeated. Where it names the way to the server, the lease is shorter than four round trips: take a longer one |
//! | [`TooFewReplicas`](crate::Error::TooFewReplicas) | try again later, and look after the replicas: only with [`replica_acks`](crate::ClientBuilder::replica_acks). Nobody had the lock |
//! | [`Refused`](crate::Error::Refused) | call the operator: the [kind](crate::RefusedKind) says whether the password, a certificate or a right is wrong, the key is no lock, or memory is full. `ReadOnly` heals by itself |
//! | [`Protocol`](crate::Error::Protocol) | report a bug, or find what rewrites the server's replies |
//! | [`Closed`](crate::Error::Closed) | stop: the client was closed |
//!
//! [`is_lost`](crate::Error::is_lost) and [`is_transient`](crate::Error::is_transient) answer the two usual questions,
//! [`lock_name`](crate::Error::lock_name) says which lock. To log an error, print its chain of sources as well: the
//! server's words are there. Passwords are in no error.
//!
//! ```no_run
//! async fn status(client: relatch::Client) -> relatch::Result<u16> {
//!     match client.lock("cart:7").try_lock().await {
//!         Ok(Some(guard)) => guard.unlock().await.map(|_| 200),
//!         Ok(None) => Ok(409),
//!         Err(error) if error.is_transient() => Ok(503),
//!         Err(error) => Err(error),
//!     }
//! }
//! ```
//!
//! # An error of your own
//!
//! `?` makes one of yours of it, where yours has a `From`. A match has an arm for what later versions add:
//!
//! ```
//! use relatch::{Error, RefusedKind};
//!
//! enum Then {
//!     Retry,
//!     LookWhatWasDone,
//!     StartOver,
//!     FixTheCode,
//!     Stop,
//!     CallSomebody(String),
//! }
//!
//! impl From<Error> for Then {
//!     fn from(error: Error) -> Self {
//!         match error {
//!             Error::Unreachable { may_have_run: true, .. } => Self::LookWhatWasDone,
//!             Error::Unreachable { .. } | Error::TooFewReplicas { .. } => Self::Retry,
//!             Error::Refused { kind: RefusedKind::ReadOnly, .. } => Self::Retry,
//!             Error::Lost { .. } => Self::StartOver,
//!             Error::NotHeld { .. } | Error::Invalid { .. } => Self::FixTheCode,
//!             Error::Closed => Self::Stop,
//!             other => Self::CallSomebody(other.to_string()),
//!         }
//!     }
//! }
//!
//! async fn job(client: relatch::Client) -> Result<bool, Then> {
//!     let Some(guard) = client.mutex("job").try_lock().await? else { return Ok(false) };
//!     guard.unlock().await?;
//!     Ok(true)
//! }
//! ```
//!
//! # The type
//!
//! [`relatch::Result<T>`](crate::Result) has one parameter, as `std::io::Result` has. Where an `async` block or a closure
//! ends with `Ok(())`, its error type cannot be inferred. End it with the alias:
//!
//! ```no_run
//! # async fn example(client: relatch::Client) -> relatch::Result<()> {
//! let work = async {
//!     client.lock("cart:7").lock().await?.unlock().await?;
//!     relatch::Result::Ok(())
//! };
//! work.await
//! # }
//! ```
//!
//! Errors are [`Clone`], `Send` and `Sync`, and go into `Box<dyn Error>`, `anyhow` and `eyre` as they are.
