//! What a lock costs, beside the same scripts sent raw and beside other libraries.
//!
//! One command builds the libraries that are compared, starts a server of its own, and measures for about seven minutes. It ends
//! with a table of all bounds, each with its figure and whether it was reached:
//!
//! ```text
//! cargo bench --bench contention
//! ```
//!
//! Printed by it in one run (Redis 7.0.15 on a unix socket, 1 CPU for the clients, one more for the server):
//!
//! | case | what | figure | must be | reached |
//! | --- | --- | ---: | ---: | --- |
//! | serial | lock + unlock, p50 to two raw EVALSHA | 1.158 | ≤ 1.100 | no |
//! | serial | EVALSHA for a lock + unlock | 2 | ≤ 2 | yes |
//! | drop | drop of a guard, p50 | 2.3 µs | ≤ 5.0 µs | yes |
//! | drop | from the drop until it is free, in round trips, p50 | 1.091 | ≤ 2.000 | yes |
//! | distinct 64 | pairs a second to two raw EVALSHA's | 0.822 | ≥ 0.950 | no |
//! | distinct 64 | stretch: pairs a second to rslock's | 0.685 | ≥ 1.000 | no |
//! | hot 16 | sections a second to the best of rslock and rlock | 23.874 | ≥ 30.000 | no |
//! | hot 16 | longest wait of all rounds | 1.3 ms | ≤ 10.0 ms | yes |
//! | hot 16 | least to most served task, worst round | 1.000 | ≥ 0.900 | yes |
//! | hot 16 | EVALSHA a section, worst round | 0.0004 | ≤ 0.1000 | yes |
//! | hot 64 | sections a second to the best of rslock and rlock | 28.167 | ≥ 30.000 | no |
//! | hot 64 | longest wait of all rounds | 4.5 ms | ≤ 10.0 ms | yes |
//! | hot 64 | least to most served task, worst round | 1.000 | ≥ 0.900 | yes |
//! | hot 64 | EVALSHA a section, worst round | 0.0004 | ≤ 0.1000 | yes |
//! | leased 64 | round trips (EVALSHA) a section, worst round | 1.0033 | ≤ 1.1500 | yes |
//! | leased 64 | sections that came out of turn | 0 | ≤ 0 | yes |
//! | hold 16 | gap between two sections, p50 | 19.1 µs | ≤ 50.0 µs | yes |
//! | hold 16 | gap between two sections, mean | 110.9 µs | ≤ 80.0 µs | no |
//! | procs 16 | sections a second to the best of rslock and rlock | 16.261 | ≥ 10.000 | yes |
//! | procs 16 | least to most served process | 0.971 | ≥ 0.800 | yes |
//! | procs 16 | longest wait, of 12 slices | 66.8 ms | ≤ 120.0 ms | yes |
//! | hand-over | from the release to the section, in idle round trips, p50 | 1.340 | ≤ 3.000 | yes |
//! | renew | holds lost, by their guards | 0 | ≤ 0 | yes |
//! | renew | holds lost, by the server | 0 | ≤ 0 | yes |
//! | renew | memory a hold | 882 B | ≤ 700 B | no |
//! | renew | tasks beyond those of an idle client | 0 | ≤ 1 | yes |
//! | renew | CPU of the process | 3.49 % | ≤ 2.00 % | no |
//! | renew | holds that one EVALSHA renews | 100 | ≥ 100 | yes |
//! | waiters | subscription connections | 1 | ≤ 1 | yes |
//! | waiters | tries a name in the shortest TTL that it was told | 0.5333 | ≤ 1 | yes |
//! | preheld | lock + unlock, p50 to that with none held | 0.976 | ≤ 1.100 | yes |
//! | relinked | until every holder is told | 39.5 µs | ≤ 1.50 s | yes |
//! | relinked 1000 | until every holder is told | 77.7 ms | ≤ 1.50 s | yes |
//! | relinked 100000 | until every holder is told | 968.6 ms | ≤ 1.50 s | yes |
//! | relinked 100000 | lock + unlock meanwhile, p99 to that before | 4.028 | ≤ 2.000 | no |
//! | nested | nested lock + unlock, p50 to two raw EVALSHA | 1.121 | ≤ 1.100 | no |
//! | nested | EVALSHA for a nested lock + unlock | 2 | ≤ 2 | yes |
//! | fenced | fenced lock + unlock, p50 to the plain lock's | 1.061 | ≤ 1.050 | no |
//!
//! 27 of 38 reached; in all cases 0 violations of exclusion and 0 errors. What misses its mark is printed as it is. A lock and
//! unlock of ours is eight commands for the server, two scripts and six inside of them; one of `rslock` is four. Under the load of
//! `distinct` the CPU of the clients is busy all the time, and a pair takes 6.6 µs of it raw, 11.1 µs of ours and 8.3 µs of `rslock`'s.
//! A hold takes more memory, and the renewals of 100 000 holds more of that CPU, than they are to.
//!
//! In the same run, over TCP, `--case topologies` compares deployments: how much of two raw EVALSHA a lock and unlock keep there,
//! divided by how much they keep on one server (0.876 of one caller's number, 0.669 of 64 callers'):
//!
//! | deployment | one caller | 64 callers | must be | reached |
//! | --- | ---: | ---: | ---: | --- |
//! | with two replicas | 1.126 | 1.414 | ≥ 0.970 | yes |
//! | by sentinels | 1.089 | 1.455 | ≥ 0.970 | yes |
//! | on a cluster | 1.065 | 1.324 | ≥ 0.970 | yes |
//! | on one that tells all nodes | 1.027 | 1.430 | ≥ 0.970 | yes |
//!
//! Raw has the same socket options there as our links. With the driver's own, which hold small packets back while others are under
//! way, 64 callers beside one server had twice as many raw pairs on this machine, where the way to the server takes no time.
//!
//! # How to read it
//!
//! - Each ratio compares with a baseline that was measured in turns with it. *Raw* is the same scripts, sent by `EVALSHA` over
//!   the same driver with nothing around them. `rslock` and `rlock` have the same load and poll every 5 ms.
//! - A *section* is what runs between a lock and its unlock. For a hot lock the number of sections a second is not enough: a
//!   library that polls lets the task that has just released take the lock again while all others sleep. Read it together with
//!   the longest wait and the share of the least served task.
//! - The server has one CPU to itself, and the clients share the others, here one. Where both share their CPUs, a round trip
//!   takes much longer whenever the system moves them, and the ratios move with it.
//! - The ratios depend on the machine, too: a section of a hot lock costs a little of the program's own time and no system
//!   call, and system calls are what the others spend their time with.
//!
//! A plot, `benches/sections.svg` in the repository, shows sections a second against tasks on one name. With one task all
//! libraries have about as many; from two tasks on ours has many times as many. It is drawn by
//! `cargo bench --bench contention -- --case curve --json | benches/plot.py`.
//!
//! # Measure it yourself
//!
//! - `cargo bench --bench contention -- --case NAME` runs one case: `serial`, `drop`, `distinct`, `hot`, `leased`, `hold`,
//!   `procs`, `hand-over`, `renew`, `waiters`, `preheld`, `relinked`, `nested`, `topologies` (replicas, sentinels, clusters),
//!   `elsewhere` (from other runtimes); `curve` for the plot, `slices` for what a slice gives and takes. `--tasks`, `--secs`
//!   and `--json` go with it.
//! - `cargo bench -p foreign --bench latency` measures single steps with criterion.
//! - `cargo bench --bench allocations` counts what a lock and unlock ask of the allocator, on one thread:
//!   10 times, as often as the driver's two commands alone.
//! - `cargo bench -p engine` measures the engine by itself, over a server that answers at once: time, allocations and commands of a
//!   section, and the memory of a hold.
//! - The example `bench_peer` puts the same load on a server that you started, for comparisons with other languages.
