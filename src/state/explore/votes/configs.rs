//! The worlds of votes that are explored, and those without a rule, in which something is to be found.
//!
//! The first letter is `v`; then what about: `n` nothing fails; `r` masters start again; `c` links are cut; `w` somebody waits no
//! longer.

use super::{super::configs::Named, config::Config};

/// Enough of a world whose end is out of reach, of which a machine has room for some more.
const WIDE: usize = 3_000_000;

pub(crate) fn all() -> Vec<Named<Config>> {
    let base = Config::default;
    // With a lease of two ticks more of them pass in a world of the same size.
    let short = || Config { lease: 2, quarantine: 2, ..base() };
    let named = |id, what, config| Named { id, what, config };
    vec![
        named("vn0", "A and B, no time", base()),
        named(
            "vn1",
            "A and B twice; 1 renewal, 2 ticks",
            Config { asks: vec![2, 2], renewals: 1, ticks: 2, cap: WIDE, ..base() },
        ),
        named("vr1", "A and B; a master starts again, 4 ticks", Config { restarts: 1, ticks: 4, ..base() }),
        named("vr2", "A and B; two masters start again, 4 ticks", Config { restarts: 2, ticks: 4, ..base() }),
        named(
            "vr3",
            "A and B for 2 ticks; a master starts again, 1 renewal, 3 ticks",
            Config { restarts: 1, renewals: 1, ticks: 3, ..short() },
        ),
        named(
            "vr4",
            "A, B and C for 2 ticks; a master starts again, 1 tick",
            Config { asks: vec![1; 3], restarts: 1, ticks: 1, cap: WIDE, ..short() },
        ),
        named(
            "vr5",
            "A and B for 2 ticks; two masters start again, 1 renewal, 2 ticks",
            Config { restarts: 2, renewals: 1, ticks: 2, ..short() },
        ),
        named(
            "vr6",
            "A and B; a master starts again, answers take their time, 3 ticks",
            Config { restarts: 1, ticks: 3, at_once: false, cap: WIDE, ..base() },
        ),
        named(
            "vc1",
            "A and B for 2 ticks; 1 cut, 1 renewal, 2 ticks",
            Config { cuts: 1, renewals: 1, ticks: 2, ..short() },
        ),
        named("vc2", "A twice, B; 1 cut, no time", Config { asks: vec![2, 1], cuts: 1, ..base() }),
        named("vc3", "A and B; 2 cuts, old copies are reaped, no time", Config { cuts: 2, reaps: true, ..base() }),
        named(
            "vc4",
            "A and B for 2 ticks; 1 cut, 1 renewal, old copies are reaped, 2 ticks",
            Config { cuts: 1, renewals: 1, ticks: 2, reaps: true, cap: WIDE, ..short() },
        ),
        named(
            "vw1",
            "A twice, B; each waits no longer once, 1 tick",
            Config { asks: vec![2, 1], impatience: 2, ticks: 1, ..base() },
        ),
        named(
            "vw2",
            "A and B for 2 ticks; somebody waits no longer, a master starts again, 1 renewal, 2 ticks",
            Config { impatience: 1, restarts: 1, renewals: 1, ticks: 2, cap: WIDE, ..short() },
        ),
    ]
}
