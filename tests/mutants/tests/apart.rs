//! The tests of distances without all the others.
#![allow(dead_code, unused_imports, reason = "what they stand on is made for many tests more")]

#[path = "../../it/distances.rs"]
mod distances;
#[path = "../../it/embedded.rs"]
mod embedded;
#[path = "../../it/harness/mod.rs"]
mod harness;
#[path = "../../it/kept.rs"]
mod kept;
