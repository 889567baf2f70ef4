//! A store in this process that runs the scripts as a server does, and the way there, with whatever may befall it. It knows
//! no lock.
//!
//! | file | job |
//! | --- | --- |
//! | `store`, `looks` | what users hold: the store, its keys and its clock; what is seen of it from outside |
//! | `support` | what a test may do to a client's links |
//! | `nodes` | what a test may do to the servers: masters that are replaced or silent, slots that move |
//! | `weather` | what befalls commands by chance |
//! | `trace`, `ran` | what happened, as a list; a command that ran |
//! | `link` | the seam: one client's commands and subscriptions |
//! | `asked` | the store as whoever looks at all servers sees it |
//! | `world` | all that a store is, under one mutex, and what happens at the servers |
//! | `hosts`, `clock` | which servers there are and what each had a while ago; their time |
//! | `member`, `cargo` | one client as the store sees it: its links; what is on its way over them |
//! | `traffic`, `parked` | commands from the first poll to the answer, those that wait for a link first |
//! | `breaks` | links that break, are given up and are replaced |
//! | `subscribers` | subscriptions |
//! | `pump` | what is told outside of the mutex, and what happens later |
//! | `packet` | calls to words, replies to values |
//! | `server` | keyspace, commands, scripts |
//!
//! Without faults a command runs in its first poll and is answered there: no task, no channel and no timer.

#[cfg(feature = "operate")]
mod asked;
mod breaks;
mod cargo;
mod clock;
mod hosts;
mod link;
mod looks;
mod member;
mod nodes;
mod packet;
mod parked;
mod pump;
mod ran;
mod server;
mod store;
mod subscribers;
mod support;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;
mod weather;
mod world;

pub use self::{
    nodes::{Forget, Rival},
    ran::Ran,
    store::EmbeddedStore,
    trace::{Happening, Purpose, Road, Traced},
    weather::Weather,
};
