//! Rules of nested acquisitions and counts, and of forced releases.

use crate::mutant::{By, Mutant, Simulation};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "nested-in-lost-goes-on",
        fault: "whoever nests while the hold is lost waits for an answer that never comes",
        file: "src/state/loss.rs",
        old: "            self.outer_gone(counting.take_nested().collect(), cx);\n",
        new: "            counting.take_nested().for_each(drop);\n",
        by: By::Explorer(&["rf4s", "rc3"]),
    },
    Mutant {
        name: "pending-is-ticket",
        fault: "a nested acquisition under way does not keep its hold",
        file: "src/state/parts/hold.rs",
        old: "self.granted() + self.pending()",
        new: "self.granted()",
        by: By::Explorer(&["rf1"]),
    },
    Mutant {
        name: "nested-asks-for-two",
        fault: "a nested acquisition asks for one, and takes a free key",
        file: "src/state/nest.rs",
        old: "holds: count.max(2) };",
        new: "holds: 1 };",
        by: By::Explorer(&["rf4s", "rf1"]),
    },
    Mutant {
        name: "dropped-count-is-told",
        fault: "the server is not told that a guard was dropped",
        file: "src/state/nest.rs",
        old: "} else if before.is_none_or(|told| count < told) {",
        new: "} else if false {",
        by: By::Explorer(&["rf2", "rf1"]),
    },
    Mutant {
        name: "one-count-at-a-time",
        fault: "two counts of a hold are under way, and may come in any order",
        file: "src/state/nest.rs",
        old: "        if counting.command.is_some() {\n            return;",
        new: "        if false {\n            return;",
        by: By::Explorer(&["rf1", "rf2", "rf5"]),
    },
    Mutant {
        name: "forced-number-is-not-granted",
        fault: "a number that was freed by force before its grant came is believed in",
        file: "src/state/attempt.rs",
        old: "            Answer::Granted { .. } if contender.forced => self.ends_number(cx),\n",
        new: "",
        by: By::Explorer(&["re1t", "re1s"]),
    },
    Mutant {
        name: "forced-hand-over-is-undone",
        fault: "a hand-over to a number that was freed by force is believed",
        file: "src/state/hand_over.rs",
        old: "if counts && !going.forced {",
        new: "if counts {",
        by: By::Explorer(&["re1h"]),
    },
    Mutant {
        name: "nested-needs-outer",
        fault: "a nested acquisition that finds no outer hold is granted",
        file: "src/state/nest.rs",
        old: "            // Somebody else's, or nobody's: the outer hold is gone,",
        new: "            (Ok(Answer::Gone | Answer::Busy { .. }), CountChange::Up { id, request }) => self.joins(id, request, 2, cx),\n            // Somebody else's, or nobody's: the outer hold is gone,",
        by: By::Simulation(Simulation::One),
    },
];
