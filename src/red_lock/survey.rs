//! Every master's own word on a name.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::{
    error::{Op, Result},
    locks::{Inspection, ReentrantLock, VotedScope},
};

/// What one master of a [`RedLock`](crate::RedLock) says of a lock. Made by [`RedLock::survey`](crate::RedLock::survey).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MasterView {
    /// Which master, by its address, or by its place among those that were given where it has none.
    pub master: String,
    /// Who holds it there, or why that is not known.
    pub held: Result<Option<Inspection>>,
    /// For so long its grants count for nothing, since it may have forgotten some: see
    /// [`restart_quarantine`](crate::RedLockBuilder::restart_quarantine).
    pub young_for: Option<Duration>,
    /// How long it took to answer, or to fail.
    pub took: Duration,
}

/// Asks each of them.
pub(super) async fn survey(lock: &ReentrantLock, scope: &VotedScope, name: &str) -> Vec<MasterView> {
    let quorum = scope.plain_lock(name);
    let masters = scope.fleet().names().into_iter().enumerate();
    let views = masters.map(|(at, master)| {
        let quorum = &quorum;
        async move {
            let began = Instant::now();
            let quorum = match quorum {
                Ok(quorum) => quorum,
                Err(error) => {
                    return MasterView { master, held: Err(error.clone()), young_for: None, took: Duration::ZERO };
                }
            };
            let asked = lock.handle().answer(Op::Inspect, || quorum.everywhere().look_at(at));
            let held = asked.await.map(|sight| sight.and_then(Inspection::of));
            let young_for = scope.fleet().young_for(at, quorum.everywhere().key());
            MasterView { master, held, young_for, took: began.elapsed() }
        }
    });
    join_all(views).await
}
