//! Of the harness of `tests/it` what these tests take.

#[path = "../it/harness/certificates.rs"]
mod certificates;
#[path = "../it/harness/clock.rs"]
mod clock;
#[path = "../it/harness/cluster.rs"]
pub(crate) mod cluster;
#[path = "../it/harness/deployment.rs"]
mod deployment;
#[path = "../it/harness/looking.rs"]
mod looking;
#[path = "../it/harness/monitor.rs"]
mod monitor;
#[path = "../it/harness/poll.rs"]
mod poll;
#[path = "../it/harness/proxy/mod.rs"]
pub(crate) mod proxy;
#[path = "../it/harness/server.rs"]
mod server;
#[path = "../it/harness/stepping.rs"]
mod stepping;
#[path = "../it/harness/switch.rs"]
mod switch;
#[path = "../it/harness/unique.rs"]
mod unique;
#[path = "../it/harness/watcher.rs"]
mod watcher;

pub(crate) use self::{
    deployment::Deployment,
    poll::{eventually, eventually_async},
    server::Server,
    unique::unique_name,
};
