//! Which commands keep a server busy for too long, by its own log.
//!
//! Others have the processor, too, so that any command may be slow once. One that is slow by itself is slow whenever it is sent. So the
//! same is done several times over with the same keys, and only a command that was too slow each time counts: its shortest run was.

use std::collections::BTreeSet;

use crate::harness::Server;

/// In microseconds: a command that takes longer is too long.
const LONGEST: u32 = 10_000;

const ROUNDS: usize = 5;

/// It takes some 50 ms, whatever server runs it: the log has to show it.
const SURELY_SLOW: &str = "for i = 1, 5000000 do end";

pub(crate) fn watched() -> Server {
    Server::builder().line(format!("slowlog-log-slower-than {LONGEST}")).line("slowlog-max-len 10000").start()
}

/// The commands, as far as the log shows their words, that took too long whenever this was done.
pub(crate) fn slow_commands(server: &Server, mut done: impl FnMut()) -> BTreeSet<String> {
    let mut connection = server.connection();
    let mut always: Option<BTreeSet<String>> = None;
    for _ in 0..ROUNDS {
        redis::cmd("SLOWLOG").arg("RESET").exec(&mut connection).expect("it answers");
        done();
        redis::cmd("EVAL").arg(SURELY_SLOW).arg(0).exec(&mut connection).expect("it is run");
        let log: Vec<(u64, u64, u64, Vec<String>, String, String)> =
            redis::cmd("SLOWLOG").arg("GET").arg(10_000).query(&mut connection).expect("it answers");
        println!("{log:?}");
        let slow: BTreeSet<_> = log.into_iter().map(|(_, _, _, words, ..)| words.join(" ")).collect();
        always = Some(always.map_or(slow.clone(), |always| always.intersection(&slow).cloned().collect()));
    }
    let mut always = always.unwrap_or_default();
    assert!(always.remove(&format!("EVAL {SURELY_SLOW} 0")), "the log misses what is slow: {always:?}");
    always
}
