//! The seam to a server: run a script, listen on a channel. It knows no lock, no wait and no lease.
//!
//! What a command asks is in `call.rs`, what is heard in `listening.rs`, what went wrong in `fault.rs`; whether a command
//! may still leave in `dispatch.rs`, how its answer is read in `reply.rs`; who else is to have what it wrote in `replicas.rs`; since
//! when a server has everything in `memory.rs`.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use crate::{
    script::{Script, commands},
    spare::{Boxes, Reused, Spare},
};

mod backoff;
mod call;
mod dispatch;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
mod fault;
mod listening;
mod memory;
#[cfg(feature = "operate")]
pub(crate) mod questions;
pub(crate) mod redis;
mod replicas;
mod reply;
mod rights;
mod round_trip;
#[cfg(feature = "operate")]
mod servers;
mod slot;
mod to_error;

pub(crate) use call::{Arg, Call, Polled, Value};
pub(crate) use dispatch::{Dispatch, Way};
pub(crate) use fault::{Befell, Fault, FaultKind};
pub(crate) use listening::{Heard, Listener, Subscription};
pub(crate) use memory::Memory;
pub(crate) use replicas::{Acknowledged, Replicas, TooFewReplicas};
pub(crate) use reply::{Reply, decode};
pub(crate) use rights::Rights;
pub(crate) use round_trip::{RoundTrip, RoundTrips};
#[cfg(feature = "operate")]
pub(crate) use servers::{Answers, Deployment, Question, Server};

/// An answer that is still on its way.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// An answer to one script.
pub(crate) type Answer = Reused<Result<Value, Fault>>;

thread_local! {
    static ANSWERS: Boxes<Result<Value, Fault>> = const { Spare::new() };
}

/// In a box that an earlier one had.
#[inline(always)]
fn answer(future: impl Future<Output = Result<Value, Fault>> + Send + 'static) -> Answer {
    Reused::new(&ANSWERS, future)
}

/// What an engine needs of the servers behind its locks: to listen, and to know what its commands meet. It runs no script.
///
/// Everything is asked for a key, since different keys may be on different servers; where there is one server, the answer is
/// the same for all of them.
pub(crate) trait Line: Send + Sync + 'static {
    /// Listens until the subscription is dropped on a channel where something is said of this key. Comes back at once; what
    /// happens is heard.
    fn subscribe(&self, key: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription;

    /// Which link the next command for this key takes; another number after every replacement.
    fn link(&self, key: &str) -> u64;

    /// When a script was last answered where this key is, by a refusal too; when the first link was opened, if none ever was.
    /// A server that lets one in and answers no script is silent.
    fn last_answer(&self, key: &str) -> Instant;

    /// How long scripts for this key take to be answered at present; `None` before any was.
    fn round_trip(&self, key: &str) -> Option<RoundTrip>;

    /// Which server a key is on, as far as is known: commands for keys of one place may go together.
    fn place(&self, key: &str) -> u32;

    /// Another number once another server answers for this key, or one that may have forgotten what it had: there is a new
    /// link. Numbers are drawn for all keys together and grow, so whoever knows of all changes up to one need only look at
    /// keys with a greater one.
    fn era(&self, key: &str) -> u64;

    /// The greatest [`Line::era`] of all keys, which changes with it: commands find the new server by then.
    fn eras(&self) -> watch::Receiver<u64>;

    /// Something is held or waited for: said about every second for as long as that is so, though nothing may be sent for a
    /// long time. Whoever has to look by itself for changes of the servers goes on looking.
    fn in_use(&self) {}

    /// Ends all links. Commands under way and later ones answer with [`FaultKind::Closed`].
    fn close(&self);
}

/// What a server must offer to those whose scripts it runs.
///
/// Commands that are polled first go first: two futures of [`Backend::run`] for one key that were polled in turn while
/// [`Line::link`] stayed the same reach the server in that order. Every answer comes within the command timeout, counted
/// from the first poll, as an answer or as a [`Fault`]. Dropping a future withdraws the command if it was not written yet,
/// and ends all repetitions by lower layers. A command that waits for a link is asked for once more when it gets one: see
/// [`Dispatch`].
pub(crate) trait Backend: Line {
    /// Runs one script.
    fn run(&self, call: &Call<'_>) -> Answer;

    /// Runs many scripts of one place in one pipeline, within `within`; one answer for each, in order.
    fn run_many(&self, calls: &[Call<'_>], within: Duration) -> Pending<Vec<Result<Value, Fault>>>;

    /// Runs one script that writes, and says with its answer how many replicas have what it wrote. It may reach the server before
    /// or after anything else, [`Line::link`] or not, and wait for those that were asked before it for as long as they may take;
    /// dropped, it is withdrawn if it was not written yet. An answer is believed only of a script that wrote something: one that
    /// did not may be told of what others wrote.
    fn run_acknowledged(&self, call: &Call<'_>, replicas: Replicas) -> Pending<Result<(Value, Acknowledged), Fault>>;

    /// Where it is, for people; `None` where it is nowhere.
    fn address(&self) -> Option<String>;

    /// How a message reaches those who listen where this backend does.
    fn publish_kind(&self) -> Publish;

    /// Whether the number that a publish on this key's server answers with counts all who listen.
    fn counts(&self, key: &str) -> bool;

    /// Whether this channel is where the key is, wherever that may come to be.
    fn same_slot(&self, key: &str, channel: &str) -> bool;

    /// What the way to the servers does that not every way does.
    fn abilities(&self) -> Abilities;

    /// Whether its servers run scripts, as was found out when it connected.
    fn scripting(&self) -> Scripting {
        Scripting::Runs
    }

    /// What a user of the servers must be allowed, beside keys, channels and what scripts call.
    fn rights(&self) -> Rights;

    /// All servers that have keys, as far as is known now, each over a connection of its own.
    #[cfg(feature = "operate")]
    fn servers(&self) -> Vec<Arc<dyn Server>> {
        Vec::new()
    }

    /// The one that has this key.
    #[cfg(feature = "operate")]
    fn server_of(&self, _: &str) -> Option<Arc<dyn Server>> {
        self.servers().into_iter().next()
    }

    #[cfg(feature = "operate")]
    fn deployment(&self) -> Deployment {
        Deployment::Standalone
    }

    /// Since when the server that answers for this key now surely has everything that it was told; `None` before there was a link
    /// to it. Said after an answer came, it holds for the process that gave that answer, or is later. It is cheap: asked for every
    /// answer. The first time asks the server, which is not waited for: see [`Backend::ask_memory`].
    fn remembers_since(&self, key: &str) -> Option<Memory>;

    /// Asks all servers since when they remember, and who they are, unless they were asked before. Comes back once all have told,
    /// or refused to; within the command timeout. Dropped, it leaves the question asked.
    fn ask_memory(&self) -> Pending<()>;

    /// The processes of all servers that have keys, as far as they told: two ways that have one in common lead to one server.
    /// After [`Backend::ask_memory`].
    fn identities(&self) -> Vec<Arc<str>>;
}

/// How a release is told to those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    /// To all servers of a deployment. What every standalone server has, and what Redisson uses there.
    Classic,
    /// To the node of a cluster that has the key, and its replicas. What Redisson uses where all nodes know it.
    Sharded,
}

impl Publish {
    /// The server's command for it.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Classic => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }
}

/// What the way to a server does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Something below the seam may send a command again that was not answered.
    pub(crate) resends: bool,
    /// One script may be given the keys of several names, as far as is known.
    pub(crate) joins_names: bool,
}

/// Whether a server runs scripts, and what it can do without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scripting {
    /// As far as is known.
    #[default]
    Runs,
    /// It lets nobody like us run any, and we know of nothing else.
    Denied,
    /// It runs none, and has commands for a key that has a value.
    Compares(Deletes),
    /// It runs none, and has no such commands.
    Neither,
    /// It runs none, and did not say whether it has such commands.
    NotTold,
}

/// By which command a server deletes a key while it has a value. Those that have one can also set a key then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletes {
    IfEq,
    Ex,
}

impl Deletes {
    pub(crate) fn command(self) -> &'static Script {
        match self {
            Self::IfEq => &commands::DELIFEQ,
            Self::Ex => &commands::DELEX,
        }
    }
}

/// How many heard what a script told, by its number or the last one of its array, where that says nothing.
pub(crate) const UNCOUNTED: i64 = -2;
