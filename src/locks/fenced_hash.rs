//! The fenced lock's protocol: the plain lock's, and beside it a counter that grows with every new holder, as Redisson has it.
//! What a user sees of it is in `fenced.rs`.

use std::{sync::Arc, time::Duration};

use smallvec::SmallVec;

use super::{
    hash::HashLock,
    replies::{Status, heard, not_granted},
};
use crate::{
    backend::{Acknowledged, Arg, Dispatch, Fault, Pending, Polled, Replicas, Reply, Value},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Published, Renewal, RenewalGroup, Sight},
    lease::whole_ms,
    script::fenced as scripts,
};

/// One fenced lock.
pub(super) struct FencedHash {
    pub(super) lock: HashLock,
    /// The key of the counter.
    pub(super) counter: Arc<str>,
}

impl FencedHash {
    fn keys(&self) -> [&str; 2] {
        [self.lock.key(), &self.counter]
    }
}

impl Protocol for FencedHash {
    fn name(&self) -> &Arc<str> {
        self.lock.name()
    }

    fn key(&self) -> &Arc<str> {
        self.lock.key()
    }

    fn kind(&self) -> &'static str {
        "fenced lock"
    }

    fn channel(&self) -> Arc<str> {
        self.lock.channel()
    }

    /// Every owner has a token of its own, which only the server gives.
    fn passes(&self) -> bool {
        false
    }

    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let field = self.lock.field(number);
        let args = [Arg::Bytes(field.bytes()), Arg::Int(whole_ms(lease)), Arg::Int(holds.into())];
        let args = if holds == 1 { &args[..2] } else { &args };
        self.lock.scope.reply(&scripts::ACQUIRE, &self.keys(), args, Some(dispatch), Polled::ByCaller, attempt)
    }

    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        self.lock.acknowledged(&scripts::ACQUIRE, &self.keys(), (number, lease), replicas, dispatch, attempt)
    }

    fn release(&self, number: HoldNumber, holds: u32, note: Note) -> Reply<Letting> {
        self.lock.release(number, holds, note)
    }

    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>> {
        self.lock.moved(&scripts::HAND_OVER, &self.keys(), (from, to), lease, moved)
    }

    fn renewal_group(&self) -> RenewalGroup {
        self.lock.renewal_group()
    }

    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        self.lock.renew(holds, lease, within, dispatch)
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        self.lock.inspect()
    }

    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        self.lock.force_release(seen)
    }
}

/// What a try answered: how often it is ours and under which token, or why it is not.
fn attempt(answer: &Value) -> Option<Attempt> {
    let ([status, retry_in_ms, holds], fence) = parts(answer, 3)?;
    match Status::read(status)? {
        Status::Done => Some(Attempt::Granted { holds: u32::try_from(holds).ok()?, fence: Some(token(fence)?) }),
        status => not_granted(status, retry_in_ms),
    }
}

fn moved(answer: &Value, counts: bool) -> Option<Moved> {
    let ([status, listeners], fence) = parts(answer, 1)?;
    match (Status::read(status)?, listeners) {
        (Status::Done, -1) => Some(Moved::Done { published: Published::No, fence: Some(token(fence)?) }),
        (Status::Done, listeners) => {
            Some(Moved::Done { published: heard(listeners, counts)?, fence: Some(token(fence)?) })
        }
        (Status::Gone, _) => Some(Moved::Gone),
        (Status::Busy, _) => None,
    }
}

/// The token, at its place in an answer, and the numbers around it. A token that no number of Lua has exactly is text.
fn parts<const N: usize>(answer: &Value, place: usize) -> Option<([i64; N], i64)> {
    let number = |part: &Value| match part {
        Value::Int(number) => Some(*number),
        Value::Bytes(text) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    };
    let mut parts: SmallVec<[i64; 4]> = match answer {
        Value::Array(parts) => parts.iter().map(number).collect::<Option<_>>()?,
        answer => answer.numbers().into(),
    };
    if place >= parts.len() {
        return None;
    }
    let fence = parts.remove(place);
    Some((parts.as_slice().try_into().ok()?, fence))
}

/// None is less than one.
fn token(fence: i64) -> Option<u64> {
    u64::try_from(fence).ok().filter(|fence| *fence > 0)
}
