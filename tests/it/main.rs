//! Behaviour through the public API, on servers that the tests start themselves.

mod acl;
mod bounds;
mod callbacks;
mod closing;
mod conformance;
mod contention;
mod detaching;
mod dropping;
mod durations;
mod errors;
mod events;
mod examples;
mod fairness;
mod flushing;
mod forcing;
mod full;
mod guards;
mod harness;
mod kept;
mod mutex;
mod names;
mod nesting;
mod outage;
mod owners;
mod parked;
mod proxy;
mod public_api;
mod replays;
mod runtimes;
mod scale;
mod scripts;
mod tidy;
mod waiting;
mod with_redis;

use harness::process::{Role, roles};

/// What a copy of this binary can do as another process.
const ROLES: &[Role] = &[
    ("echo", roles::echo),
    ("tell_time", roles::tell_time),
    ("keep", roles::keep),
    ("mutter", roles::mutter),
    ("count_up", contention::count_up),
    ("go_round", fairness::go_round),
    ("watch_a_hold", outage::watch_a_hold),
    ("hold", waiting::hold),
];
