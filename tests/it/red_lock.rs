//! One lock over masters that know nothing of each other. What it shares with other locks is in `conformance.rs`.

mod building;
mod closing;
#[cfg(feature = "embedded")]
mod in_this_process;
mod inside;
mod leases;
mod lost_replies;
mod restarts;
mod site;
mod speed;
mod too_few;
