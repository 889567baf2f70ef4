//! The simulation without all the other tests, so that it is soon built anew.
#![allow(dead_code, reason = "what it stands on is made for many tests more")]

mod harness {
    #[path = "../../../it/harness/either.rs"]
    pub(crate) mod either;
    #[path = "../../../it/harness/random.rs"]
    pub(crate) mod random;
}
mod storm {
    #[path = "../../../it/storm/checker.rs"]
    pub(crate) mod checker;
    #[path = "../../../it/storm/counter.rs"]
    pub(crate) mod counter;
    #[path = "../../../it/storm/log.rs"]
    pub(crate) mod log;
}
#[path = "../../it/simulation.rs"]
mod simulation;
