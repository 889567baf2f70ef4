//! The parts of a vote, each by itself: as tables where they decide and do nothing.

mod ballot;
mod masters;
mod nobody;
mod renewals;
mod rounds;
mod words;
