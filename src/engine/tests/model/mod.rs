//! The traces of the protocol's model, walked step by step: each shortest way to a violation, and each misreading of a
//! rule that would lead there. The engine is this process, on the fake server; the other one takes the key when it can,
//! and believes in it.
//!
//! `late.rs`: replays and old copies of the commands of earlier holds. `nested.rs`: counts. `ends.rs`: how a hold ends, and
//! what comes after it.

mod ends;
mod late;
mod nested;

use super::{copies::Copies, *};

/// A tick of the model.
const THIRD: Duration = Duration::from_secs(10);

/// Another process, in want of the same key.
struct Other<'a> {
    world: &'a World,
    believes_until: Option<Instant>,
}

impl<'a> Other<'a> {
    fn of(world: &'a World) -> Self {
        Self { world, believes_until: None }
    }

    /// One try; whether it was granted.
    fn tries(&mut self) -> bool {
        let granted = self.world.server(|server| server.other_tries("a", LEASE));
        if granted {
            self.believes_until = Some(Instant::now() + LEASE);
        }
        granted
    }

    fn believes(&self) -> bool {
        self.believes_until.is_some_and(|until| Instant::now() < until)
    }

    fn frees(&mut self) {
        self.believes_until = None;
        self.world.other_frees("a");
    }

    /// Tries until it is granted, which is when nobody here believes in the hold any more.
    async fn waits_out(&mut self, guard: &LockGuard) {
        while !self.tries() {
            sleep(10 * MS).await;
        }
        assert!(!guard.is_held(), "two believe that they hold");
    }
}

/// What the server has: whose, how often, and for how long.
fn there(world: &World) -> (Option<(Option<u64>, u32)>, Duration) {
    (world.holder("a"), world.ttl("a"))
}
