//! The plain lock's protocol, on the server as Redisson has it: a hash with one field, the hold, whose value is its
//! count. What a user sees of it is in `reentrant.rs` and `mutex.rs`.

use std::{sync::Arc, time::Duration};

use super::{
    replies::{Status, heard, not_granted, told},
    scope::Scope,
};
use crate::{
    backend::{Acknowledged, Arg, Call, Dispatch, Fault, Pending, Polled, Replicas, Reply, Value, decode},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Published, Renewal, RenewalGroup, Sight},
    keys::{self, HoldField},
    lease::whole_ms,
    script::{Script, reentrant as scripts},
};

/// One plain lock.
pub(super) struct HashLock {
    pub(super) scope: Arc<Scope>,
    pub(super) name: Arc<str>,
    pub(super) key: Arc<str>,
}

impl HashLock {
    /// What is at this key, whatever it is called.
    pub(super) fn at(scope: &Arc<Scope>, key: &str) -> Self {
        let key: Arc<str> = Arc::from(key);
        Self { scope: Arc::clone(scope), name: Arc::clone(&key), key }
    }

    pub(super) fn field(&self, number: HoldNumber) -> HoldField {
        HoldField::new(&self.scope.client_id, number.0)
    }

    /// Asks for a fresh hold, and for how many replicas know of it.
    pub(super) fn acknowledged(
        &self,
        script: &'static Script,
        keys: &[&str],
        (number, lease): (HoldNumber, Duration),
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
        read: fn(&Value) -> Option<Attempt>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        let field = self.field(number);
        let args = &[Arg::Bytes(field.bytes()), Arg::Int(whole_ms(lease))];
        let (dispatch, polled) = (Some(dispatch), Polled::ByUs);
        let answer = self.scope.backend.run_acknowledged(&Call { script, keys, args, dispatch, polled }, replicas);
        Box::pin(async move {
            let (answer, acknowledged) = answer.await?;
            Ok((decode(script, &answer, read)?, acknowledged))
        })
    }

    /// Moves a hold; `read` is told whether the server knows of all who listen.
    pub(super) fn moved(
        &self,
        script: &'static Script,
        keys: &[&str],
        (from, to): (HoldNumber, HoldNumber),
        lease: Duration,
        read: fn(&Value, bool) -> Option<Moved>,
    ) -> Pending<Result<Moved, Fault>> {
        let (from, to, channel) = (self.field(from), self.field(to), keys::lock_channel(&self.key));
        let publish = self.scope.backend.publish_kind().command();
        let (lease, counts) = (Arg::Int(whole_ms(lease)), self.scope.backend.counts(&self.key));
        let [from, to, channel] = [from.bytes(), to.bytes(), channel.bytes()].map(Arg::Bytes);
        let args = [from, to, lease, Arg::Text(publish), channel];
        self.scope.run(script, keys, &args, move |answer| read(answer, counts))
    }
}

impl Protocol for HashLock {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn kind(&self) -> &'static str {
        "plain lock"
    }

    fn channel(&self) -> Arc<str> {
        Arc::from(&*keys::lock_channel(&self.key))
    }

    fn passes(&self) -> bool {
        true
    }

    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let field = self.field(number);
        let args = [Arg::Bytes(field.bytes()), Arg::Int(whole_ms(lease)), Arg::Int(holds.into())];
        // An outermost acquisition does not say so.
        let args = if holds == 1 { &args[..2] } else { &args };
        self.scope.reply(&scripts::ACQUIRE, &[&self.key], args, Some(dispatch), Polled::ByCaller, attempt)
    }

    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        self.acknowledged(&scripts::ACQUIRE, &[&self.key], (number, lease), replicas, dispatch, attempt)
    }

    fn release(&self, number: HoldNumber, holds: u32, _: Note) -> Reply<Letting> {
        let (field, channel) = (self.field(number), keys::lock_channel(&self.key));
        let publish = self.scope.backend.publish_kind().command();
        let args = [Arg::Bytes(field.bytes()), Arg::Text(publish), Arg::Bytes(channel.bytes()), Arg::Int(holds.into())];
        // The last release does not say so.
        let args = if holds == 0 { &args[..3] } else { &args };
        let read = if self.scope.backend.counts(&self.key) { released::<true> } else { released::<false> };
        // The end of a hold is the engine's to wait for; a count is told by whoever changed it.
        let polled = if holds == 0 { Polled::ByUs } else { Polled::ByCaller };
        self.scope.reply(&scripts::RELEASE, &[&self.key], args, None, polled, read)
    }

    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>> {
        self.moved(&scripts::HAND_OVER, &[&self.key], (from, to), lease, moved)
    }

    fn renewal_group(&self) -> RenewalGroup {
        RenewalGroup(scripts::RENEW.path, self.scope.backend.place(&self.key).into())
    }

    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        self.scope.renew(&scripts::RENEW, holds, |number| self.field(number), (lease, within), dispatch)
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        let own = format!("{}:", self.scope.client_id);
        self.scope.run(&scripts::INSPECT, &[&self.key], &[], move |answer| {
            let (ttl_ms, fields) = match answer {
                Value::Numbers(free) if free[..] == [-2] => return Some(None),
                Value::Array(parts) => parts.split_first()?,
                _ => return None,
            };
            let Value::Int(ttl_ms) = ttl_ms else { return None };
            let holders: Vec<(String, u32)> = fields.chunks(2).map(holder).collect::<Option<_>>()?;
            let number = |(field, _): &(String, u32)| Some(HoldNumber(field.strip_prefix(&own)?.parse().ok()?));
            let ours = holders.iter().filter_map(number).collect();
            let remaining_lease = u64::try_from(*ttl_ms).ok().map(Duration::from_millis);
            Some(Some(Sight { holders, remaining_lease, ours }))
        })
    }

    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        let channel = keys::lock_channel(&self.key);
        let publish = self.scope.backend.publish_kind().command();
        let mut args = vec![Arg::Text(publish), Arg::Bytes(channel.bytes())];
        args.extend(seen.holders.iter().map(|(field, _)| Arg::Text(field)));
        let counts = self.scope.backend.counts(&self.key);
        self.scope.run(&scripts::FORCE_RELEASE, &[&self.key], &args, move |answer| {
            let published = match *answer {
                Value::Int(listeners) => Some(heard(listeners, counts)?),
                _ => told(answer, counts)?,
            };
            Some(published.map_or(Forced::Gone, |published| Forced::Done { published }))
        })
    }
}

/// What a try answered: how often it is ours, or why it is not.
fn attempt(answer: &Value) -> Option<Attempt> {
    if let Value::Int(holds) = *answer {
        let holds = u32::try_from(holds).ok().filter(|holds| *holds > 0)?;
        return Some(Attempt::Granted { holds, fence: None });
    }
    let &[status, retry_in_ms, _, _] = answer.numbers() else { return None };
    not_granted(Status::read(status)?, retry_in_ms)
}

/// What a release answered; `COUNTS`: the server knows of all who listen.
fn released<const COUNTS: bool>(answer: &Value) -> Option<Letting> {
    if let Value::Int(listeners) = *answer {
        return Some(Letting::Done { holds: 0, published: heard(listeners, COUNTS)? });
    }
    let &[status, holds, -1] = answer.numbers() else { return None };
    match Status::read(status)? {
        Status::Done => Some(Letting::Done { holds: u32::try_from(holds).ok()?, published: Published::No }),
        Status::Gone => Some(Letting::NotHeld),
        Status::Busy => None,
    }
}

/// What a hand-over answered; `counts`: the server knows of all who listen.
fn moved(answer: &Value, counts: bool) -> Option<Moved> {
    let published = match *answer {
        Value::Int(1) => Some(Published::No),
        _ => told(answer, counts)?,
    };
    Some(published.map_or(Moved::Gone, |published| Moved::Done { published, fence: None }))
}

/// A field and its count, as `HGETALL` gives them.
fn holder(pair: &[Value]) -> Option<(String, u32)> {
    let [Value::Bytes(field), Value::Bytes(count)] = pair else { return None };
    let count = std::str::from_utf8(count).ok()?.parse().ok()?;
    Some((String::from_utf8_lossy(field).into_owned(), count))
}
