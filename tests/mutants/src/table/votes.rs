//! Rules of a vote by several masters.

use crate::mutant::{By, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "majority-of-all",
        fault: "a majority of the masters that answered makes a hold",
        file: "src/quorum/ballot.rs",
        old: "majority(words.len()));\n    if count.yes >= q {\n        return Some(Fresh::Won);",
        new: "majority(words.len() - Count::of(words).nothing));\n    if count.yes >= q {\n        return Some(Fresh::Won);",
        by: By::Explorer(&["vc3"]),
    },
    Mutant {
        name: "young-counts-not",
        fault: "a master that has lost its data votes at once",
        file: "src/quorum/ballot.rs",
        old: "    if count.yes >= q {\n        return Some(Fresh::Won);",
        new: "    if count.yes + count.young >= q {\n        return Some(Fresh::Won);",
        by: By::Explorer(&["vr1"]),
    },
    Mutant {
        name: "quarantine-is-whole",
        fault: "a master that has lost its data votes before all that it may have forgotten is over",
        file: "src/quorum/ballot.rs",
        old: "quarantine.checked_sub(remembers)",
        new: "(quarantine / 2).checked_sub(remembers)",
        by: By::Explorer(&["vr1"]),
    },
    Mutant {
        name: "mended-counts-later",
        fault: "a master that is about to be mended counts as one that renewed the hold",
        file: "src/quorum/ballot.rs",
        old: "pub(crate) fn changed(words: &[Word]) -> Option<Settled> {\n    let (count, q) = (Count::of(words), majority(words.len()));\n    if count.yes >= q {",
        new: "pub(crate) fn changed(words: &[Word]) -> Option<Settled> {\n    let (count, q) = (Count::of(words), majority(words.len()));\n    if count.yes + count.gone >= q {",
        by: By::Explorer(&["vr3"]),
    },
    Mutant {
        name: "renewal-needs-majority",
        fault: "a renewal counts that one master has found",
        file: "src/quorum/ballot.rs",
        old: "pub(crate) fn changed(words: &[Word]) -> Option<Settled> {\n    let (count, q) = (Count::of(words), majority(words.len()));\n",
        new: "pub(crate) fn changed(words: &[Word]) -> Option<Settled> {\n    let (count, q) = (Count::of(words), 1);\n",
        by: By::Explorer(&["vr3"]),
    },
    Mutant {
        name: "silent-is-released-too",
        fault: "what a lost vote may have got is let go of only where masters said that they gave it",
        file: "src/quorum/ballot.rs",
        old: "Word::Nothing { may_have_run } => may_have_run,",
        new: "Word::Nothing { .. } => false,",
        by: By::Explorer(&["vw1"]),
    },
];
