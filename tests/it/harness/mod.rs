//! What the tests stand on: servers, a fault proxy, other processes. It knows nothing of locks.

pub(crate) mod asleep;
mod certificates;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod deployment;
pub(crate) mod detour;
pub(crate) mod either;
#[cfg(target_os = "linux")]
pub(crate) mod hosts;
pub(crate) mod lag;
pub(crate) mod looking;
pub(crate) mod masters;
pub(crate) mod monitor;
pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod server;
pub(crate) mod stepping;
pub(crate) mod switch;
pub(crate) mod traces;
mod unique;
pub(crate) mod usage;
mod watcher;

pub(crate) use self::{
    poll::{eventually, eventually_async},
    server::Server,
    unique::unique_name,
};
