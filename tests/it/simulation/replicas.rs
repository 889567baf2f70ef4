//! Days on which replicas are to know of a grant before it counts: they are there, or none is for a moment.

use std::time::Duration;

use relatch::ClientBuilder;

use super::crew::{Crew, Mix};
use crate::harness::random::Random;

impl Mix {
    /// Tries go another way than everything else, and what is granted waits for replicas.
    pub(super) fn of_replicas(mut self, random: &mut Random) -> Self {
        (self.replicas_within, self.dropped) = (random.pick(&[5, 20, 40]), random.pick(&[150, 400]));
        self
    }

    pub(super) fn waits_for_replicas(&self, builder: ClientBuilder) -> ClientBuilder {
        match self.replicas_within {
            0 => builder,
            within => builder.replica_acks(1, Duration::from_millis(within)),
        }
    }
}

impl Crew {
    /// Whoever is granted something from now on may wait for a replica in vain.
    pub(super) fn befall_replicas(&mut self) {
        if self.mix.replicas_within == 0 {
            return;
        }
        let there = !self.random.once_in_a_while(300);
        self.store.set_replicas(u32::from(there));
        if !there {
            self.count("no replica");
        }
    }

    /// One is there.
    pub(super) fn follow(&self) {
        self.store.set_replicas(1);
    }
}
