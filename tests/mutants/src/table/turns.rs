//! Rules of what others are given where processes are at different distances.

use crate::mutant::{By, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "others-are-given-more",
        fault: "those who listen and do not come are given no more for it",
        file: "src/state/parts/turns.rs",
        old: "self.longer = (self.longer + more).min(LONGEST);",
        new: "let _ = more;",
        by: By::Distances,
    },
    Mutant {
        name: "growth-falls-slowly",
        fault: "what was added is gone as soon as all came once",
        file: "src/state/parts/turns.rs",
        old: "self.longer - self.longer / FALLS",
        new: "self.longer - self.longer",
        by: By::Distances,
    },
    Mutant {
        name: "turns-after-rest-count",
        fault: "whoever is far counts no turn of those that are near",
        file: "src/state/parts/turns.rs",
        old: ".filter(|_| listens.is_some_and(|at| at <= now))",
        new: ".filter(|_| timing.far.is_none() && listens.is_some_and(|at| at <= now))",
        by: By::Distances,
    },
];
