//! Of the harness what test programs take that stand apart from `tests/it`: each says `#[path]` and this file's name.

mod certificates;
mod clock;
pub(crate) mod cluster;
pub(crate) mod deployment;
mod looking;
mod monitor;
mod poll;
pub(crate) mod proxy;
pub(crate) mod server;
mod stepping;
mod switch;
mod unique;
mod watcher;

pub(crate) use self::{
    deployment::Deployment,
    poll::{eventually, eventually_async},
    server::Server,
    unique::unique_name,
};
