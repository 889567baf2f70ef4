//! A store in this process that runs the scripts as a server does, and the way there, with whatever may befall it. It knows
//! no lock.
//!
//! The files stand in layers: each uses what stands below it in this list, or behind it in its row, and nothing above it.
//!
//! | file | job |
//! | --- | --- |
//! | `client_faults`, `node_faults` | what a test may do to one client, and to the nodes |
//! | `contents` | what a store has, seen from outside |
//! | `store` | what users hold |
//! | `backend`, `as_server` | the seam: one client's commands and subscriptions; the store as one server that is looked at |
//! | `delivery` | the mutex, what is told outside of it, and the one task for what happens later |
//! | `node_changes` | masters that are replaced or silent, slots that move |
//! | `outages`, `replacing`, `leaving` | ways on which nothing passes; links that come in another's place; clients that leave |
//! | `sending`, `subscriptions` | commands as their client sends them; channels as it asks for them |
//! | `to_server` | the way to a server |
//! | `execution` | commands at a server, and what they publish |
//! | `link_faults` | links that break or are given up |
//! | `to_client` | the way back, until whoever waits has the answer |
//! | `link_queue`, `routing` | commands that wait for a link; which link a command takes |
//! | `network` | all that a store is, under one mutex |
//! | `events`, `notices` | what happens later; what is told outside of the mutex |
//! | `client` | one client: its links, its commands, its channels |
//! | `connection` | one link, and the way on which it lies |
//! | `transit` | what is on its way, in order |
//! | `instances` | which servers there are, whose the slots are, and what each had a while ago |
//! | `trace`, `executed` | what happened, as a list; a command that ran |
//! | `frame` | calls to words, replies to values |
//! | `conditions`, `clock`, `failures` | what befalls commands by chance; the time; why a command fails |
//! | `server` | keyspace, commands, scripts: a room of its own |
//!
//! From `routing` on they are parts of the network, in the order of a command's journey. Where nothing delays it, a command runs
//! in its first poll and is answered there: no task, no channel and no timer.

#[cfg(feature = "operate")]
mod as_server;
mod backend;
mod client;
mod client_faults;
mod clock;
mod conditions;
mod connection;
mod contents;
mod delivery;
mod events;
mod executed;
mod execution;
mod failures;
mod frame;
mod instances;
mod leaving;
mod link_faults;
mod link_queue;
mod network;
mod node_changes;
mod node_faults;
mod notices;
mod outages;
mod replacing;
mod routing;
mod sending;
mod server;
mod store;
mod subscriptions;
#[cfg(test)]
mod tests;
mod to_client;
mod to_server;
mod trace;
mod transit;

pub use self::{
    conditions::Weather,
    executed::{Ran, Road},
    node_changes::{Forget, Rival},
    store::EmbeddedStore,
    trace::{Happening, Purpose, Traced},
};
