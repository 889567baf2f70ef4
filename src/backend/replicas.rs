//! Replicas that are to have what a script wrote before it counts. It asks none.

use std::{sync::Arc, time::Duration};

use super::{Befell, Fault, FaultKind, Pending};

/// A server looks for waits that are over no more often than this.
const LATE: Duration = Duration::from_millis(100);

/// How many replicas are to have something, and how long they are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) wanted: u32,
    pub(crate) within: Duration,
}

/// How many replicas have what a script wrote: as many as were wanted, or those that said so in time.
pub(crate) type Acknowledged = Pending<Result<u32, Fault>>;

impl Replicas {
    /// After so long a server says how many they are, if nothing holds it up.
    pub(crate) fn told_within(self) -> Duration {
        self.within + LATE
    }

    /// Those that suffice for both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { wanted: self.wanted.max(other.wanted), within: self.within.max(other.within) }
    }
}

/// The source of a [`FaultKind::TooFewReplicas`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{acknowledged} of {wanted} replicas acknowledged it")]
pub(crate) struct TooFewReplicas {
    pub(crate) acknowledged: u32,
    pub(crate) wanted: u32,
}

impl Fault {
    /// No more than so many replicas have it.
    pub(crate) fn too_few_replicas(acknowledged: u32, wanted: u32) -> Self {
        let source = Arc::new(TooFewReplicas { acknowledged, wanted });
        Self { kind: FaultKind::TooFewReplicas, may_have_run: true, befell: Befell::Command, source }
    }
}
