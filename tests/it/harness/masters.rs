//! Servers that know nothing of each other, for whoever asks several of them at once.

use std::{sync::OnceLock, thread};

use super::Server;

/// So many there are at most.
const ALL: usize = 5;

/// The first so many of the five servers of this test process: for tests that only use names of their own and do them no harm.
pub(crate) fn shared(count: usize) -> &'static [Server] {
    static SHARED: OnceLock<Vec<Server>> = OnceLock::new();
    &SHARED.get_or_init(|| own(ALL).into_iter().map(Server::for_all).collect())[..count]
}

/// Servers for one test.
pub(crate) fn own(count: usize) -> Vec<Server> {
    let starting: Vec<_> = (0..count).map(|_| thread::spawn(Server::own)).collect();
    starting.into_iter().map(|server| server.join().expect("a server starts")).collect()
}
