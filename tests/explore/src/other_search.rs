//! Somebody else's search, through the same worlds: as many are met, by as many steps, and nothing is broken.
//!
//! What makes two worlds one is here their words, so that fingerprints are checked by it, too.

use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

use crate::explore::{Config, End, Limits, Run, Step, World, all, in_words, search};

/// A world, and in words what it is.
#[derive(Clone, Debug)]
struct Met {
    world: World,
    words: String,
}

impl Met {
    fn new(world: World) -> Self {
        Self { words: in_words(&world), world }
    }
}

impl Hash for Met {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.words.hash(h);
    }
}

impl PartialEq for Met {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

struct Worlds {
    config: Config,
}

impl Model for Worlds {
    type State = Met;
    type Action = Step;

    fn init_states(&self) -> Vec<Met> {
        vec![Met::new(World::new(&self.config))]
    }

    fn actions(&self, met: &Met, actions: &mut Vec<Step>) {
        met.world.choices(&self.config, actions);
    }

    fn next_state(&self, met: &Met, step: Step) -> Option<Met> {
        Some(Met::new(met.world.after(step, &mut Run::new(&self.config))))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let kept = |worlds: &Self, met: &Met| met.world.breaks(&worlds.config.settings()).is_none();
        vec![Property::always("every promise is kept", kept)]
    }
}

/// Both searches through a world.
fn is_searched_alike(id: &str) {
    let config = all().into_iter().find(|named| named.id == id).expect("there is such a world").config;
    let ours = search(&config, Limits { states: usize::MAX, time: None, threads: 1 });
    assert_eq!((ours.end, ours.broken), (End::Exhaustive, None));
    let others = Worlds { config }.checker().spawn_bfs().join();
    others.assert_properties();
    // There the first world counts as a step, too.
    let met = (others.unique_state_count(), others.state_count() - 1, others.max_depth() - 1);
    assert_eq!(met, (ours.states, ours.transitions, ours.depth));
}

#[test]
fn three_tasks_without_a_fault_are_searched_alike() {
    is_searched_alike("t1");
}

#[test]
fn a_cut_and_time_that_passes_are_searched_alike() {
    is_searched_alike("m5");
}

#[test]
fn another_server_beside_a_nested_hold_is_searched_alike() {
    is_searched_alike("n8");
}
