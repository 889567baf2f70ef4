//! Behaviour through the public API, on servers that the tests start themselves.

mod closing;
mod conformance;
mod durations;
mod errors;
mod events;
mod examples;
mod flushing;
mod guards;
mod harness;
mod names;
mod nesting;
mod proxy;
mod public_api;
mod scripts;
mod tidy;
mod with_redis;

use harness::process::{Role, roles};

/// What a copy of this binary can do as another process.
const ROLES: &[Role] = &[("echo", roles::echo), ("tell_time", roles::tell_time), ("keep", roles::keep)];
