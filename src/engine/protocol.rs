//! The seam to a primitive: what makes one, and what comes of what it asks. It decides nothing.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::{Acknowledged, Dispatch, Fault, Pending, Replicas, Reply},
    token::Token,
};

// What a primitive and a name say alike.
pub(crate) use crate::state::{HoldNumber, KeptBy, Note, Published, Publishes};

/// What makes a primitive: its key, its scripts, how to read their replies. It has no loop, no renewal and no guard.
///
/// Every answer comes within the command timeout, and every call may be repeated.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// The user's name for it, as errors and events say it.
    fn name(&self) -> &Arc<str>;

    /// The mapped key: one entry of the registry.
    fn key(&self) -> &Arc<str>;

    /// Which primitive this is; two of them on one key are refused.
    fn kind(&self) -> &'static str;

    /// The TTL that a key of somebody else is given which has none; another one on one key is refused, too.
    fn repairs(&self) -> Option<Duration> {
        None
    }

    /// Where releases are published.
    fn channel(&self) -> Arc<str>;

    /// Whether a hold may change its owner without a word to the server.
    fn passes(&self) -> bool;

    /// Whether the key may go to the next owner of this process without ever being free.
    fn hands_over(&self) -> bool {
        true
    }

    /// Stands for how it is taken: where one is in use, another of its kind that is taken otherwise is refused.
    fn options(&self) -> u64 {
        0
    }

    /// Whether those who wait are told of every release.
    fn publishes(&self) -> Publishes {
        Publishes::Always
    }

    /// Whether a hold that ran out counts as released where nobody has the key by then.
    fn expired_is_released(&self) -> bool {
        false
    }

    /// The text by which whoever knows it can extend and release a hold of this number, if there is one.
    fn token(&self, _: HoldNumber) -> Option<Token> {
        None
    }

    /// Asks for a hold that counts `holds` afterwards, if `dispatch` lets it leave.
    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt>;

    /// Asks for a fresh hold, and for how many replicas know of it; what is known of the order of commands is not true of
    /// this one, and the count is not to be believed of a number that was asked for before.
    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>>;

    /// Lets go until `holds` remain; `note` says what was done under a hold that ends.
    fn release(&self, number: HoldNumber, holds: u32, note: Note) -> Reply<Letting>;

    /// Moves a hold to another number without freeing the key.
    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>>;

    /// Holds with an equal group can be renewed by one call of [`Protocol::renew`].
    fn renewal_group(&self) -> RenewalGroup;

    /// Renews holds of one group, within `within`, if `dispatch` lets it leave; one answer for each, in order: one that fails
    /// fails no other. With a lease of zero nothing is raised: it only looks whether they are there.
    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>>;

    /// Who holds now.
    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>>;

    /// Frees the key if one of the holds that were seen still has it.
    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>>;
}

/// Which renewals can share a script call: one kind of script on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RenewalGroup(pub(crate) &'static str, pub(crate) u64);

/// The end of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Ours, counted `holds` times.
    Granted { holds: u32, fence: Option<u64> },
    /// Somebody else's, for this long unless it is renewed; `None` where the key has no TTL.
    Busy { retry_in: Option<Duration> },
    /// A vote that found no majority: what it got has to be released, and its number is not asked for again. `retry_in`: when a
    /// majority may be free, as far as that was said. A nested acquire is not answered so.
    Split { retry_in: Option<Duration>, kept_by: KeptBy },
    /// A nested acquire found its outer hold missing.
    Gone,
    /// Nobody holds it, and nobody is to have it for now: there is nothing to wait for.
    Settled,
}

/// The end of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letting {
    /// `holds` remain; at zero the key is free.
    Done { holds: u32, published: Published },
    /// There was no such hold.
    NotHeld,
    /// There was none, and nobody else has the key either.
    Expired,
}

/// The end of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The new number has it, for exactly the lease. Where that ends sooner than before, those who wait were told.
    Done { published: Published, fence: Option<u64> },
    /// The old number had nothing to give.
    Gone,
    /// The same, and nobody else has the key either.
    Expired,
}

/// The end of a renewal; no answer at all is a [`Fault`], and leaves the deadline alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The TTL is at least the lease.
    Renewed,
    /// There is no such hold.
    Gone,
}

/// The end of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    /// The key is free.
    Done { published: Published },
    /// None of the holds that were seen was still there.
    Gone,
}

/// What a look at the server showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Every holder's client and hold number as they stand on the server, with its count.
    pub(crate) holders: Vec<(String, u32)>,
    /// `None` where the key has no TTL.
    pub(crate) remaining_lease: Option<Duration>,
    /// Those of the holders that are holds of this client.
    pub(crate) ours: Vec<HoldNumber>,
}
