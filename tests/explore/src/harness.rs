//! Of the tests' harness what one real server takes.
#![allow(dead_code, reason = "it is made for many tests more")]

#[path = "../../it/harness/certificates.rs"]
mod certificates;
#[path = "../../it/harness/looking.rs"]
mod looking;
#[path = "../../it/harness/monitor.rs"]
mod monitor;
#[path = "../../it/harness/poll.rs"]
mod poll;
#[path = "../../it/harness/server.rs"]
mod server;
#[path = "../../it/harness/stepping.rs"]
mod stepping;
#[path = "../../it/harness/unique.rs"]
mod unique;
#[path = "../../it/harness/watcher.rs"]
mod watcher;

pub(crate) use self::{poll::eventually, server::Server, unique::unique_name};
