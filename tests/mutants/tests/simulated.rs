//! The simulation without all the other tests, so that it is soon built anew. What judges it is the storm's.
#![allow(dead_code, unexpected_cfgs, unused_imports, reason = "what it stands on is made for many tests more")]

#[path = "../../it"]
mod it {
    pub(crate) mod harness;
    pub(crate) mod kept;
    pub(crate) mod simulation;
    pub(crate) mod storm;
}

use it::{harness, kept, simulation, storm};

/// None of these tests is another process.
const ROLES: &[harness::process::Role] = &[];
