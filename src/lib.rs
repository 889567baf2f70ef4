//! Reentrant distributed locks on Redis for tokio.
//!
//! Start at [`Client`]: it makes a [`ReentrantLock`], a [`Mutex`], a [`FencedLock`], a [`TokenLock`], a [`MultiLock`] or a
//! [`PeriodicJob`]; several clients, each of a server of its own, make a [`RedLock`]. The locks give a [`LockGuard`], whose holder is an [`Owner`]. What can go wrong is an [`Error`]. The [`guide`] has
//! a page for each question.
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)] // examples and benches may

mod client;
mod locks;
mod red_lock;
mod schedule;

// Votes of masters that know nothing of each other.
mod quorum;

// Does what is decided about names, for every primitive.
mod engine;

// Decides what happens to a name.
mod state;

// Talks to a server.
mod backend;

mod error;
mod lease;
mod name;
mod owner;
mod token;

#[cfg(feature = "embedded")]
#[cfg_attr(docsrs, doc(cfg(feature = "embedded")))]
pub mod embedded;

pub mod fence;

#[cfg(feature = "operate")]
#[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
pub mod operate;

pub mod guide;

mod acl;
mod chance;
mod glob;
mod keys;
mod runtime;
mod script;
mod spare;

#[cfg(relatch_engine_bench)]
#[path = "../benches/engine/at_once.rs"]
pub mod at_once;

pub use redis;
pub use tokio_util::sync::CancellationToken;
pub use uuid::Uuid;

#[cfg(feature = "embedded")]
#[cfg_attr(docsrs, doc(cfg(feature = "embedded")))]
pub use crate::embedded::EmbeddedStore;
pub use crate::{
    acl::Acl,
    client::{Client, ClientBuilder, RespVersion, ShardedPubSub},
    engine::{Acquire, LockGuard, Released, Shutdown, TryAcquire, Unlock},
    error::{Error, LostCause, Op, RefusedKind, Result},
    lease::Lease,
    locks::{
        FencedLock, HeldToken, Inspection, JobAttempt, JobContext, JobRecord, JobSuccess, MultiLock, Mutex, Outcome,
        Part, PeriodicJob, ReentrantLock, TokenInspection, TokenLock,
    },
    owner::Owner,
    quorum::{Said, Vote},
    red_lock::{MasterView, RedLock, RedLockBuilder},
    token::Token,
};
