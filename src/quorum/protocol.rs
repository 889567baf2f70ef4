//! A name at all masters as one: each of its verbs is a vote, in a file of its own.

use std::{future::ready, sync::Arc, time::Duration};

use super::{
    everywhere::Everywhere,
    fleet::{Fleet, Member},
    renewal::renew,
};
use crate::{
    backend::{Acknowledged, Dispatch, Fault, FaultKind, Pending, Replicas, Reply},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Publishes, Renewal, RenewalGroup, Sight},
    token::Token,
};

/// One name at all masters.
pub(crate) struct Quorum {
    at: Arc<Everywhere>,
}

impl Quorum {
    /// `members` are what the name is at each master, in their order.
    pub(crate) fn new(fleet: &Arc<Fleet>, members: Box<[Arc<dyn Protocol>]>, member: Member) -> Self {
        Self { at: Arc::new(Everywhere { fleet: Arc::clone(fleet), members, member }) }
    }

    fn first(&self) -> &dyn Protocol {
        &*self.at.members[0]
    }

    /// The name at each master.
    pub(crate) fn everywhere(&self) -> &Arc<Everywhere> {
        &self.at
    }
}

impl Protocol for Quorum {
    fn name(&self) -> &Arc<str> {
        self.first().name()
    }

    fn key(&self) -> &Arc<str> {
        self.first().key()
    }

    fn kind(&self) -> &'static str {
        self.first().kind()
    }

    fn repairs(&self) -> Option<Duration> {
        self.first().repairs()
    }

    fn channel(&self) -> Arc<str> {
        self.first().channel()
    }

    fn passes(&self) -> bool {
        self.first().passes()
    }

    /// A hold that has moved on some masters, and on others not, is nobody's.
    fn hands_over(&self) -> bool {
        false
    }

    fn publishes(&self) -> Publishes {
        self.first().publishes()
    }

    fn expired_is_released(&self) -> bool {
        self.first().expired_is_released()
    }

    fn token(&self, number: HoldNumber) -> Option<Token> {
        self.first().token(number)
    }

    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let (at, dispatch) = (Arc::clone(&self.at), Arc::clone(dispatch));
        if holds == 1 {
            return Reply::Told(Box::pin(at.acquire(number, lease, dispatch)));
        }
        Reply::Told(Box::pin(at.nest(number, lease, holds, dispatch)))
    }

    fn acquire_acknowledged(
        &self,
        _: HoldNumber,
        _: Duration,
        _: Replicas,
        _: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        Box::pin(ready(Err(Fault::of(FaultKind::Invalid, false, "replicas are not asked after by a vote"))))
    }

    fn release(&self, number: HoldNumber, holds: u32, note: Note) -> Reply<Letting> {
        Reply::Told(Box::pin(Arc::clone(&self.at).release(number, holds, note)))
    }

    fn hand_over(&self, _: HoldNumber, _: HoldNumber, _: Duration) -> Pending<Result<Moved, Fault>> {
        Box::pin(ready(Err(Fault::of(FaultKind::Invalid, false, "a vote is not handed over"))))
    }

    fn renewal_group(&self) -> RenewalGroup {
        let groups = self.at.members.iter().map(|member| member.renewal_group());
        // Names that go together at each master go together.
        groups
            .reduce(|all, one| RenewalGroup(all.0, all.1.wrapping_mul(0x1_0000_01b3) ^ one.1))
            .unwrap_or(RenewalGroup("nobody", 0))
    }

    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        renew(&self.at, holds, lease, within, dispatch)
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        Box::pin(Arc::clone(&self.at).inspect())
    }

    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        Box::pin(Arc::clone(&self.at).force_release(seen.clone()))
    }
}
