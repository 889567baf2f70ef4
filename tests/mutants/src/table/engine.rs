//! Rules of the engine and of the backend, which do what the state decides.

use crate::mutant::{By, Mutant, Simulation};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "behind-missing-is-let-go",
        fault: "what comes behind the first lock that is missing is kept for nobody",
        file: "src/engine/sweep.rs",
        old: "                *one = Asked::Missing;",
        new: "                let granted = std::mem::replace(one, Asked::Missing);\n                if let Asked::Granted(share) = granted {\n                    share.detach();\n                }",
        by: By::Simulation(Simulation::One),
    },
    Mutant {
        name: "given-up-is-let-go",
        fault: "an acquisition of several that is given up keeps what it had got",
        file: "src/engine/gather.rs",
        old: "                return match missing {",
        new: "                held.0.drain(..).for_each(|share| drop(share.detach()));\n                return match missing {",
        by: By::Simulation(Simulation::One),
    },
    Mutant {
        name: "loss-of-part-ends-all",
        fault: "several are held as long as the first of them is",
        file: "src/engine/many.rs",
        old: "self.each().all(Share::is_held)",
        new: "self.each().take(1).all(Share::is_held)",
        by: By::Simulation(Simulation::One),
    },
    Mutant {
        name: "loss-of-part-is-told",
        fault: "whoever has several is told when the first is lost",
        file: "src/engine/many.rs",
        old: "future::select_all(self.each().map(",
        new: "future::select_all(self.each().take(1).map(",
        by: By::Simulation(Simulation::One),
    },
    Mutant {
        name: "parts-in-one-order",
        fault: "several are taken in the order in which they were named",
        file: "src/engine/several.rs",
        old: "    handles.sort_by_cached_key(key);",
        new: "    let _ = key;",
        by: By::Simulation(Simulation::One),
    },
    Mutant {
        name: "new-server-is-noticed",
        fault: "another server answers, and the names are not told",
        file: "src/engine/era.rs",
        old: "            if place.sees_new_era() {",
        new: "            if place.sees_new_era() && place.name().is_empty() {",
        by: By::Simulation(Simulation::Nodes),
    },
    Mutant {
        name: "unwanted-is-not-sent",
        fault: "the backend sends what nobody wants any more when it can leave",
        file: "src/backend/dispatch.rs",
        old: "        if !(self.wanted)(era) {\n            return false;\n        }",
        new: "        (self.wanted)(era);",
        by: By::Simulation(Simulation::One),
    },
];
