//! What a world of votes is, as a number too, and what must be true in it.

use std::hash::{Hash, Hasher};

use crate::ballot::majority;

use super::{
    super::{fingerprint::fingerprint, search::Worlds},
    client::{Client, Stage},
    config::Config,
    master::{Link, Master},
    step::Step,
};

pub(crate) const MASTERS: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) masters: [Master; MASTERS],
    pub(crate) clients: Vec<Client>,
    pub(crate) left: Left,
}

/// What may still befall a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) ticks: u8,
    pub(crate) restarts: u8,
    pub(crate) cuts: u8,
    pub(crate) renewals: u8,
    pub(crate) impatience: u8,
}

/// What was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    OneBeliever,
    NoMajorityIsLeftToNobody,
    NothingPanics(&'static str),
}

impl Promise {
    /// How it is broken.
    pub(crate) fn broken(self) -> &'static str {
        match self {
            Self::OneBeliever => "two clients believe that they hold",
            Self::NoMajorityIsLeftToNobody => "nothing is under way, and a majority keeps a key that is nobody's",
            Self::NothingPanics(text) => text,
        }
    }
}

/// Masters are alike: which of them is which makes no other world.
impl Hash for World {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let mut masters = self.masters.each_ref().map(fingerprint);
        masters.sort_unstable();
        (masters, &self.clients, self.left).hash(h);
    }
}

impl World {
    fn new(config: &Config) -> Self {
        let links = || vec![Link::default(); config.asks.len()];
        let master = |_| Master { key: None, remembers: config.quarantine, links: links() };
        let client = |&left: &u8| Client { left, drawn: 0, number: None, questions: 0, stage: Stage::Idle };
        Self {
            masters: std::array::from_fn(master),
            clients: config.asks.iter().map(client).collect(),
            left: Left {
                ticks: config.ticks,
                restarts: config.restarts,
                cuts: config.cuts,
                renewals: config.renewals,
                impatience: config.impatience,
            },
        }
    }

    /// Nobody has anything or asks for it, and nothing may still run.
    fn is_at_rest(&self) -> bool {
        let rests = |link: &Link| {
            let old = link.strays.is_empty() && link.owed.is_empty() && link.watched.is_empty();
            old && link.requests.is_empty()
        };
        self.clients.iter().all(|client| client.stage == Stage::Idle)
            && self.masters.iter().all(|master| master.links.iter().all(rests))
    }
}

impl Worlds for Config {
    type World = World;
    type Step = Step;
    type Promise = Promise;
    type Run<'a> = ();

    fn first(&self) -> World {
        World::new(self)
    }

    fn run(&self) {}

    fn choices(&self, world: &World, out: &mut Vec<Step>) {
        world.choices(self, out);
    }

    fn after(&self, world: &World, step: Step, (): &mut ()) -> World {
        let mut next = world.clone();
        next.make(step, self);
        next
    }

    fn breaks(&self, world: &World, (): &()) -> Option<Promise> {
        let keys = world.masters.iter().filter(|master| master.key.is_some()).count();
        if world.clients.iter().filter(|client| client.believes()).count() > 1 {
            return Some(Promise::OneBeliever);
        }
        (keys >= majority(MASTERS) && world.is_at_rest()).then_some(Promise::NoMajorityIsLeftToNobody)
    }

    fn panicked(text: &'static str) -> Promise {
        Promise::NothingPanics(text)
    }
}
