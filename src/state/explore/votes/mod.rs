//! Explores a vote: what `src/quorum/ballot.rs` decides, in a small world of three masters that may do its worst.
//!
//! Each master has one key, and a link to each client, in order and with any delay. A cut loses answers, and what did not run may run
//! late, once; a master may start again without its data; time passes in ticks, for all alike. What decides a vote is the code that
//! ships. What the library does about a verdict is written here once more, as `src/quorum/` and `src/state/` do it: there is neither
//! a queue nor a watchdog, and whoever asks or renews does so at any time.
//!
//! | file | job |
//! | --- | --- |
//! | `config`, `configs` | what a world may do; the worlds that are explored |
//! | `world` | what a world is, as a number too, and what must be true in it |
//! | `master` | a master, and what is under way between it and a client |
//! | `client` | who asks, holds and renews |
//! | `step` | what can happen next, and how; the way to a world in words |
//!
//! Not in any world: a command that never leaves, an answer to a release, and somebody who dies.

mod client;
mod config;
mod configs;
mod master;
mod step;
mod world;

#[cfg(test)]
mod tests;

pub(crate) use self::{configs::all, step::story};
