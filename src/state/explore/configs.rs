//! The worlds that are explored. A and B are tasks of the first process, X and Y of the second.
//!
//! The first letter says what about: `t` nothing fails; `x` one thing fails, with all four tasks; `a` releases; `b` half-built
//! holds; `c` lost holds; `d` the end of a slice; `e` forced releases; `f` nesting; `g` messages; `h` bounds; `p` patience; `q` replicas;
//! `n` what else may be done with a hold, and ends of clients and servers; `m` small ones in which a rule that is missing shows at once; `k` faults that were known.

use super::{
    config::{Config, ForcedBy, Waits},
    small,
};

/// Enough of a world whose levels are so wide that its end is out of reach: with so many states it takes 3 to 4 GB. All others end,
/// the largest after 15 million.
pub(super) const WIDE: usize = 4_000_000;

/// A world, and what it is about in words.
pub(crate) struct Named<C = Config> {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) config: C,
}

pub(crate) fn all() -> Vec<Named> {
    let mut all = plain();
    all.extend(releases());
    all.extend(half_built());
    all.extend(lost());
    all.extend(slices());
    all.extend(forced());
    all.extend(nested());
    all.extend(others());
    all.extend(small::kept());
    all.extend(small::small());
    all
}

pub(super) fn named(id: &'static str, what: &'static str, config: Config) -> Named {
    Named { id, what, config }
}

pub(super) fn base() -> Config {
    Config::default()
}

/// So often the tasks of the two processes ask.
pub(super) fn tasks(first: &[u8], second: &[u8]) -> Config {
    Config { tasks: vec![first.to_vec(), second.to_vec()], ..base() }
}

pub(super) fn leases(first: &[u8], second: &[u8]) -> Vec<Vec<u8>> {
    vec![first.to_vec(), second.to_vec()]
}

fn plain() -> Vec<Named> {
    let four = || tasks(&[1, 1], &[1, 1]);
    vec![
        named("t0", "A and X, nothing fails, no time", Config { ticks: 0, ..tasks(&[1], &[1]) }),
        named("t1", "A, B and X, nothing fails, no time", Config { ticks: 0, ..base() }),
        named("t2", "A, B and X, Y, nothing fails, no time", Config { ticks: 0, ..four() }),
        named("t3", "A, B and X, 3 ticks, clocks differ", Config { ticks: 3, drift: true, cap: WIDE, ..base() }),
        named("x1", "A, B and X, Y; 1 cut, no time", Config { cuts: 1, ticks: 0, ..four() }),
        named("x2", "A, B and X, Y; 1 drop, no time", Config { drops: 1, ticks: 0, ..four() }),
        named(
            "x3",
            "A, B and X, Y; the server loses its key, a process dies, no time",
            Config { server_losses: 1, deaths: 1, ticks: 0, ..four() },
        ),
    ]
}

fn releases() -> Vec<Named> {
    let twice = || tasks(&[2], &[1]);
    vec![
        named("ra1", "A twice, X; 1 cut, 2 ticks", Config { cuts: 1, ticks: 2, ..twice() }),
        named("ra1s", "A twice, X; 1 cut, no time", Config { cuts: 1, ticks: 0, ..twice() }),
        named("ra2", "A twice, B, X; 1 cut, 1 tick", Config { cuts: 1, ..tasks(&[2, 1], &[1]) }),
        named("ra2s", "A, B, X; 1 cut, no time", Config { cuts: 1, ticks: 0, ..base() }),
        named(
            "ra3s",
            "A, B, X, slice over at every end; 1 cut, 1 interruption, no time",
            Config { cuts: 1, interruptions: 1, slice: 0, ticks: 0, ..base() },
        ),
        named(
            "ra5",
            "A twice, X, leases of 2 ticks; 1 cut, 2 ticks",
            Config { cuts: 1, ticks: 2, leases: leases(&[2], &[2]), ..twice() },
        ),
        named("ra6", "A twice, X; one command runs again, 1 tick", Config { repeats: 1, ..twice() }),
        named("ra7", "A twice, X, unlocks are awaited; 1 cut, 1 tick", Config { cuts: 1, unlock: true, ..twice() }),
        named(
            "ra8",
            "A twice, X; two commands go to the end of the line, no time",
            Config { requeues: 2, ticks: 0, ..twice() },
        ),
        named(
            "ra8o",
            "A alone, twice, tries once; a command goes to the end of the line",
            Config { requeues: 1, ticks: 0, waits: Waits::Once, ..tasks(&[2], &[]) },
        ),
        named(
            "ra9",
            "A, B, X, leases of 3 ticks, unlocks are awaited; 1 cut, no time",
            Config { cuts: 1, ticks: 0, unlock: true, leases: leases(&[3, 3], &[3]), ..base() },
        ),
    ]
}

fn half_built() -> Vec<Named> {
    let one_each = || tasks(&[1], &[1]);
    let mixed = || Config { drops: 1, leases: leases(&[2, 0], &[0]), ..base() };
    let fixed = || Config { cuts: 1, drops: 1, leases: leases(&[3, 3], &[3]), ..base() };
    let alone = || Config { tasks: vec![vec![1, 1], vec![]], ..fixed() };
    vec![
        named("rb1s", "A for 2 ticks, B, X; 1 drop, 1 cut, no time", Config { cuts: 1, ticks: 0, ..mixed() }),
        named("rb1x", "A for 2 ticks, B, X; 1 drop, 3 ticks", Config { ticks: 3, ..mixed() }),
        named("rb2s", "A, X; 1 drop, 1 cut, 2 ticks", Config { cuts: 1, drops: 1, ticks: 2, ..one_each() }),
        named(
            "rb3p",
            "A, B, X; 2 drops, 1 interruption, no time",
            Config { drops: 2, interruptions: 1, ticks: 0, ..base() },
        ),
        named(
            "rb4t",
            "A, X, answers later than their own lease of 1 tick; 2 ticks",
            Config { ticks: 2, leases: leases(&[1], &[1]), ..one_each() },
        ),
        named("rb4", "the same with 1 cut", Config { cuts: 1, ticks: 2, leases: leases(&[1], &[1]), ..one_each() }),
        named("rb5", "hand-overs: A, B, X for 3 ticks; 1 drop, 1 cut, no time", Config { ticks: 0, ..fixed() }),
        named("rb5n", "the same without X, 1 tick", alone()),
        named(
            "rb5q",
            "hand-overs: A, B, X for 3 ticks; the server loses its key, no time",
            Config { cuts: 0, drops: 0, server_losses: 1, ticks: 0, ..fixed() },
        ),
        named(
            "rb4h",
            "hand-overs that are answered later than their lease: A, B for 1 tick, X; 2 ticks",
            Config { ticks: 2, leases: leases(&[1, 1], &[1]), ..base() },
        ),
        named(
            "rb5r",
            "the same without X, 4 ticks while nothing is under way, a ghost lives for 1",
            Config { ticks: 4, idle_ticks: true, ghost_ticks: 1, ..alone() },
        ),
        named(
            "rb6r",
            "A, X; 1 drop, 1 cut, 4 ticks while nothing is under way, a ghost lives for 1",
            Config { cuts: 1, drops: 1, ticks: 4, idle_ticks: true, ghost_ticks: 1, ..one_each() },
        ),
        named(
            "rb8",
            "A, X, commands wait before they leave; 1 drop, 1 tick",
            Config { drops: 1, lag: true, ..one_each() },
        ),
        named(
            "rb9",
            "A, B, X; a command goes to the end of the line, 1 drop, no time",
            Config { requeues: 1, drops: 1, ticks: 0, ..base() },
        ),
    ]
}

fn lost() -> Vec<Named> {
    let one_each = || tasks(&[1], &[1]);
    vec![
        named("rc1t", "A, X; 1 cut, 3 ticks", Config { cuts: 1, ticks: 3, ..one_each() }),
        named("rc1d", "the same, clocks differ", Config { cuts: 1, ticks: 3, drift: true, cap: WIDE, ..one_each() }),
        named("rc1q", "A, X; the server loses its key, 4 ticks", Config { server_losses: 1, ticks: 4, ..one_each() }),
        named(
            "rc1r",
            "A, X; 1 cut, 5 ticks while nothing is under way, a ghost lives for 1",
            Config { cuts: 1, ticks: 5, idle_ticks: true, ghost_ticks: 1, ..one_each() },
        ),
        named("rc3", "A alone nests; 1 cut, 4 ticks", Config { cuts: 1, ticks: 4, nest: true, ..tasks(&[2], &[]) }),
        named("rc4", "A, X; a process dies, 4 ticks", Config { deaths: 1, ticks: 4, ..one_each() }),
    ]
}

fn slices() -> Vec<Named> {
    let over = || Config { slice: 0, ticks: 0, ..base() };
    vec![
        named(
            "rd1",
            "A, B, X, slice over at every end; 1 interruption, no time",
            Config { interruptions: 1, ..over() },
        ),
        named("rd2", "the same with 1 cut", Config { cuts: 1, ..over() }),
        named("rd3", "the same with 1 drop", Config { drops: 1, ..over() }),
        named("rd4", "A, B, X, Y, slice over at every end", Config { slice: 0, ticks: 0, ..tasks(&[1, 1], &[1, 1]) }),
        named(
            "rd5",
            "A, B, X, slice over; the server loses its key, 1 tick",
            Config { server_losses: 1, ticks: 1, ..over() },
        ),
        named(
            "rd6",
            "A, B, X, slice over; who is called comes later or not at all, 4 ticks",
            Config { late_callers: true, ticks: 4, ..over() },
        ),
        named(
            "rd7",
            "A, B, X wait for a tick; who is called comes later or not at all, 1 drop, 3 ticks",
            Config { late_callers: true, drops: 1, ticks: 3, waits: Waits::Ticks(1), ..base() },
        ),
    ]
}

fn forced() -> Vec<Named> {
    let one_each = || Config { forces: 1, copies: 2, ..tasks(&[1], &[1]) };
    let stranger = |config| Config { forces: 1, forced_by: ForcedBy::Stranger, ..config };
    vec![
        named("re0s", "A, X; forced from elsewhere, 4 ticks", stranger(Config { ticks: 4, ..tasks(&[1], &[1]) })),
        named("re1s", "A, X; forced by 2 copies, 1 cut, 1 tick", Config { cuts: 1, ..one_each() }),
        named("re1t", "A, B, X; forced by 2 copies, no time", Config { forces: 1, copies: 2, ticks: 0, ..base() }),
        named(
            "re1r",
            "A, X; forced, 1 cut, 4 ticks while nothing is under way, a ghost lives for 1",
            Config { cuts: 1, ticks: 4, idle_ticks: true, ghost_ticks: 1, ..one_each() },
        ),
        named(
            "re1h",
            "hand-overs: A, B, X for 3 ticks; forced by 2 copies, no time",
            Config { forces: 1, copies: 2, ticks: 0, leases: leases(&[3, 3], &[3]), ..base() },
        ),
        named(
            "rg1",
            "A, B, X; forced from elsewhere while they listen, no time",
            stranger(Config { ticks: 0, ..base() }),
        ),
    ]
}

fn nested() -> Vec<Named> {
    let nests = |first: &[u8]| Config { nest: true, ..tasks(first, &[1]) };
    vec![
        named("rf6", "A nests, B, X; 1 drop, no time", Config { drops: 1, ticks: 0, ..nests(&[2, 1]) }),
        named("rf1", "A nests, X; 1 cut, 1 tick", Config { cuts: 1, ..nests(&[2]) }),
        named("rf2", "A nests twice, X; 1 drop, no time", Config { drops: 1, ticks: 0, ..nests(&[3]) }),
        named(
            "rf3",
            "A nests, B, X; holds that were nested are passed on, no time",
            Config { ticks: 0, ..nests(&[2, 1]) },
        ),
        named(
            "rf4s",
            "A nests, X; the server loses its key, 3 ticks",
            Config { server_losses: 1, ticks: 3, ..nests(&[2]) },
        ),
        named(
            "rf5",
            "A nests, X, unlocks are awaited; 1 cut, no time",
            Config { unlock: true, cuts: 1, ticks: 0, ..nests(&[2]) },
        ),
    ]
}

fn others() -> Vec<Named> {
    vec![
        named(
            "rh1s",
            "A, B, held for 2 ticks at most; 1 cut, 3 ticks",
            Config { max_hold: 2, cuts: 1, ticks: 3, ..tasks(&[1, 1], &[]) },
        ),
        named("rh1t", "A, B, X, held for 2 ticks at most; 3 ticks", Config { max_hold: 2, ticks: 3, ..base() }),
        named(
            "p1",
            "A, X wait for a tick; 1 cut, 2 ticks",
            Config { waits: Waits::Ticks(1), cuts: 1, ticks: 2, ..tasks(&[1], &[1]) },
        ),
        named(
            "p2",
            "A twice, B, X try once; 1 cut, no time",
            Config { waits: Waits::Once, cuts: 1, ticks: 0, ..tasks(&[2, 1], &[1]) },
        ),
    ]
}
