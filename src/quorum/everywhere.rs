//! One name at all masters: what each question needs, and what is left of it.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    fleet::{Fleet, Member},
    round::Round,
    stragglers::{Place, unheard},
};
use crate::{
    backend::Fault,
    engine::{HoldNumber, Protocol},
};

/// One name at all masters, in their order. Its questions go on when whoever asked is gone.
pub(crate) struct Everywhere {
    pub(super) fleet: Arc<Fleet>,
    pub(super) members: Box<[Arc<dyn Protocol>]>,
    pub(super) member: Member,
}

impl Everywhere {
    pub(crate) fn key(&self) -> &Arc<str> {
        self.members[0].key()
    }

    pub(super) fn place(&self, master: usize, number: HoldNumber, lease: Duration) -> Place {
        let until = Instant::now() + lease;
        Place {
            fleet: Arc::clone(&self.fleet),
            master,
            member: Arc::clone(&self.members[master]),
            number,
            lease,
            until,
        }
    }

    /// A round that each master has as long for as one that is silent is waited for.
    pub(super) fn round<R: Future<Output = Result<T, Fault>> + Unpin, T>(&self, lease: Duration) -> Round<R, T> {
        Round::new(self.fleet.patience(self.key(), lease), self.members.len())
    }

    /// What comes later says that a master is there, and nothing else.
    pub(super) fn heard_later<R, T>(&self, round: &mut Round<R, T>)
    where
        R: Future<Output = Result<T, Fault>> + Unpin + Send + 'static,
        T: Send + 'static,
    {
        unheard(&mut round.asked).for_each(|(at, reply)| self.fleet.hears_later(at, reply, drop));
    }
}
