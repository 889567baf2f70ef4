//! Stories that were told once, and keep their promises since.

use crate::explore::{
    Step::{self, *},
    Story, all, fair,
};

fn story(id: &str, steps: &[Step]) -> Story {
    let named = all().into_iter().find(|named| named.id == id).expect("there is such a world");
    Story::of(&named.config, steps)
}

/// Takes the steps that are possible, and sees that nothing is broken.
#[track_caller]
fn keeps_its_promises(id: &str, steps: &[Step]) {
    let story = story(id, steps);
    assert_eq!(story.broken, None, "\n{story}");
}

/// A hold is passed to somebody who takes it only when the renewal of a taken one would be due.
#[test]
fn a_hold_that_is_taken_late_is_renewed() {
    let steps = [Ask(0, 0), Ask(0, 1), Run(0), Answer(0), EndGuard(0, 0, 0), Tick, Take(0, 1), Tick, Tick];
    keeps_its_promises("m2", &steps);
}

/// However far it is, whatever those do that are nearer.
#[test]
fn who_is_far_gets_the_lock_in_the_end() {
    for course in fair::courses() {
        assert_ne!(fair::worst(course), None, "{course:?}");
    }
}
