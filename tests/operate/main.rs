//! What operators find, end and are told, through the public surface, on real servers. A program of its own, which has the feature.

mod diagnosing;
mod finding;
mod forcing;
#[allow(dead_code, reason = "it is made for many tests more")]
#[path = "../it/harness/apart.rs"]
mod harness;
mod large;
mod many;
mod rights;
mod scenes;
mod searching;
mod slow;
