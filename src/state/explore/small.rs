//! Small worlds, each for a few rules: `n`, `m` and `k` of `configs.rs`.

use super::{
    config::Config,
    configs::{Named, WIDE, base, leases, named, tasks},
};

pub(super) fn kept() -> Vec<Named> {
    let one_each = || tasks(&[1], &[1]);
    vec![
        named("n1", "A, X; a client ends, 1 cut, 2 ticks", Config { closes: 1, cuts: 1, ticks: 2, ..one_each() }),
        named("n2", "A, B, X; a client ends, no time", Config { closes: 1, ticks: 0, ..base() }),
        named(
            "n10",
            "A nests, B, X; a client is about to end, and ends; the server loses its key, no time",
            Config { endings: 1, closes: 1, server_losses: 1, ticks: 0, nest: true, ..tasks(&[2, 1], &[1]) },
        ),
        named(
            "n9",
            "hand-overs: A, B for 3 ticks, X; a client is about to end, and ends; 2 ticks",
            Config { endings: 1, closes: 1, ticks: 2, leases: leases(&[3, 3], &[3]), ..base() },
        ),
        named(
            "q1",
            "A twice, X, replicas are to know of grants: too few do once; 1 drop, no time",
            Config { too_few: 1, drops: 1, ticks: 0, acknowledged: true, ..tasks(&[2], &[1]) },
        ),
        named(
            "q2",
            "the same, slice over at every end, 1 cut, 1 tick",
            Config { cuts: 1, drops: 1, slice: 0, acknowledged: true, ..one_each() },
        ),
        named(
            "q3",
            "A, B, X, replicas are to know of grants; 1 cut, no time",
            Config { cuts: 1, ticks: 0, acknowledged: true, ..base() },
        ),
        named(
            "n3",
            "A nests, X; a guard is detached, 3 ticks",
            Config { detaches: 1, nest: true, ticks: 3, ..tasks(&[2], &[1]) },
        ),
        named(
            "n4",
            "A, B; an extension, 1 cut, 3 ticks",
            Config { extensions: 1, cuts: 1, ticks: 3, ..tasks(&[1, 1], &[]) },
        ),
        named("n5", "A, B, X; another server follows, no time", Config { failovers: 1, ticks: 0, ..base() }),
        named(
            "n6",
            "A nests, X; another server follows, 2 ticks",
            Config { failovers: 1, nest: true, ticks: 2, cap: WIDE, ..tasks(&[2], &[1]) },
        ),
        named(
            "n8",
            "A nests; another server follows, no time",
            Config { failovers: 1, nest: true, ticks: 0, ..tasks(&[2], &[]) },
        ),
        named(
            "n7",
            "hand-overs: A, B, X for 3 ticks; another server follows, no time",
            Config { failovers: 1, ticks: 0, leases: leases(&[3, 3], &[3]), ..base() },
        ),
    ]
}

pub(super) fn small() -> Vec<Named> {
    vec![
        named("m1", "A, X, 3 ticks, clocks differ", Config { ticks: 3, drift: true, ..tasks(&[1], &[1]) }),
        named(
            "m2",
            "A, B, 5 ticks: a hold that is offered is not kept for ever",
            Config { ticks: 5, idle_ticks: true, ..tasks(&[1, 1], &[]) },
        ),
        named("m3", "A, B, X, 3 ticks", Config { ticks: 3, ..base() }),
        named(
            "m4",
            "A, B, X, slice over, 1 drop: nobody waits for 2 ticks on a free key",
            Config { slice: 0, drops: 1, ticks: 3, idle_ticks: true, free_ticks: 1, ..base() },
        ),
        named(
            "m5",
            "A alone, answers later than its lease of 1 tick; 1 cut, 2 ticks",
            Config { cuts: 1, ticks: 2, leases: leases(&[1], &[]), ..tasks(&[1], &[]) },
        ),
        named(
            "m6",
            "A alone for 3 ticks, late answers, 6 ticks; a ghost lives for 1",
            Config { ticks: 6, ghost_ticks: 1, leases: leases(&[3], &[]), ..tasks(&[1], &[]) },
        ),
        named(
            "m7",
            "A alone twice for 3 ticks, nests, late answers, 5 ticks",
            Config { ticks: 5, nest: true, leases: leases(&[3], &[]), ..tasks(&[2], &[]) },
        ),
        named(
            "m8",
            "A alone nests, timers fire late, clocks differ, 4 ticks",
            Config { ticks: 4, nest: true, drift: true, late_timers: true, ..tasks(&[2], &[]) },
        ),
        named(
            "m9",
            "A, B and X for 3 ticks, timers fire late, 3 ticks",
            Config { ticks: 3, late_timers: true, leases: leases(&[3, 3], &[3]), ..base() },
        ),
        named(
            "m10",
            "A and X; who is called comes later or not at all, 5 ticks",
            Config { ticks: 5, late_callers: true, ..tasks(&[1], &[1]) },
        ),
        named(
            "k1",
            "a shortening hand-over: A for 3 ticks, B for 1, X sleeps for a tick at most on a free key",
            Config { free_ticks: 1, ticks: 4, idle_ticks: true, leases: leases(&[3, 1], &[0]), ..base() },
        ),
    ]
}
