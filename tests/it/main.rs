//! Behaviour through the public API, on servers that the tests start themselves.

mod detaching;
mod forcing;
mod guards;
mod harness;
mod mutex;
mod nesting;
mod owners;
mod proxy;
mod public_api;
mod runtimes;
mod scripts;
mod tidy;
mod with_redis;

use harness::process::{Role, roles};

/// What a copy of this binary can do as another process.
const ROLES: &[Role] = &[("echo", roles::echo), ("tell_time", roles::tell_time), ("keep", roles::keep)];
