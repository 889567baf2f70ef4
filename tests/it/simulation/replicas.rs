//! Days on which replicas are to know of a grant before it counts: they are there, or none is for a moment.

use std::time::Duration;

use relatch::ClientBuilder;

use super::{
    crew::{Crew, Mix},
    referee::{Book, Referee},
    shadow::Field,
};
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
        if self.random.once_in_a_while(300) {
            self.count("no replica");
            self.store.set_replicas(0);
            self.referee.replica_goes();
        } else {
            self.follow();
        }
    }

    /// One is there.
    pub(super) fn follow(&self) {
        self.referee.book().no_replica = None;
        self.store.set_replicas(1);
    }
}

impl Referee {
    fn replica_goes(&self) {
        let now = self.now();
        self.book().no_replica.get_or_insert(now);
    }
}

impl Book {
    /// Somebody has what was granted since the last replica went.
    pub(super) fn is_unknown(&self, hold: Option<&Field>) -> Option<(&'static str, String)> {
        let (hold, gone) = (hold?, self.no_replica?);
        let born = self.shadow.birth(hold).filter(|born| gone < born.at && self.shadow.tried.contains(hold))?;
        let what = || format!("{hold} began at {:?}, the replica went at {gone:?}", born.at);
        Some(("a grant counts of which no replica knows", what()))
    }
}
