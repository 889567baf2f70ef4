//! The tests of distances without all the others.
#![allow(dead_code, unexpected_cfgs, unused_imports, reason = "what they stand on is made for many tests more")]

#[path = "../../it"]
mod it {
    pub(crate) mod distances;
    pub(crate) mod embedded;
    pub(crate) mod harness;
    pub(crate) mod kept;
}

use it::{distances, embedded, harness, kept};

/// None of these tests is another process.
const ROLES: &[harness::process::Role] = &[];
