//! Of a vote what decides and does nothing.

// Some questions are asked of a ballot by its tests alone.
#[allow(dead_code)]
#[path = "../../../src/quorum/ballot.rs"]
pub(crate) mod ballot;

#[cfg(test)]
#[path = "../../../src/quorum/tests/ballot.rs"]
mod ballot_tests;
