//! Behaviour through the public API, on servers that the tests start themselves.

mod acks;
mod acl;
mod away;
mod bodies;
mod bounds;
mod callbacks;
mod children;
mod closing;
mod cluster;
mod conformance;
mod connecting;
mod contention;
mod credentials;
mod detaching;
#[cfg(feature = "embedded")]
mod distances;
mod dropping;
mod durations;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "embedded")]
mod embedded_faults;
#[cfg(feature = "embedded")]
mod embedded_job;
#[cfg(feature = "embedded")]
mod embedded_job_edges;
#[cfg(feature = "embedded")]
mod embedded_nodes;
#[cfg(feature = "embedded")]
mod embedded_readme;
#[cfg(feature = "embedded")]
mod embedded_seeds;
mod errors;
mod events;
mod examples;
mod failover;
mod fairness;
mod fenced;
mod flushing;
mod forcing;
mod full;
mod guards;
mod harness;
#[cfg(target_os = "linux")]
mod hosts;
mod interop;
mod job;
mod kept;
mod labels;
mod late;
mod leaks;
mod listening;
mod loaded;
mod lost_replies;
mod matrix;
mod multi;
mod mutex;
mod names;
mod nesting;
mod orders;
mod outage;
mod overruns;
mod own_thread;
mod owners;
mod parked;
#[cfg(feature = "embedded")]
mod parked_turns;
#[cfg(target_os = "linux")]
mod partition;
mod proxy;
mod pushes;
mod red_lock;
#[cfg(feature = "embedded")]
mod red_review;
#[cfg(feature = "embedded")]
mod red_votes;
mod renewing;
mod replays;
mod rolling;
mod runtimes;
mod scale;
mod scripts;
mod sent;
mod sentinel;
mod server_clock;
mod shutting_down;
#[cfg(feature = "embedded")]
mod simulation;
mod starving;
mod storm;
mod taking;
mod throttled;
mod tidy;
mod token;
mod token_bare;
mod token_claims;
mod told;
mod ttl;
mod waiting;
mod warned;
mod with_redis;

use harness::process::{Role, roles};

/// What a copy of this binary can do as another process.
const ROLES: &[Role] = &[
    ("echo", roles::echo),
    ("tell_time", roles::tell_time),
    ("keep", roles::keep),
    ("mutter", roles::mutter),
    ("count_up", contention::count_up),
    ("believe", overruns::believe),
    ("start_programs", children::start_programs),
    ("live_on_one_thread", children::live_on_one_thread),
    ("live_on_a_thread_of_its_own", own_thread::live_on_a_thread_of_its_own),
    ("take_two", multi::take_two),
    ("hold_many", loaded::hold_many),
    ("try_in_vain", leaks::try_in_vain),
    ("wait_long", leaks::wait_long),
    ("go_round", fairness::go_round),
    ("watch_a_hold", outage::watch_a_hold),
    ("hold", waiting::hold),
    ("weather_a_storm", storm::work),
    ("work_in_a_crowd", interop::work_in_a_crowd),
    #[cfg(target_os = "linux")]
    ("follow_a_name", hosts::follow_a_name),
];
