//! The plain lock's protocol, on the server as Redisson has it: a hash with one field, the hold, whose value is its
//! count. What a user sees of it is in `reentrant.rs` and `mutex.rs`.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::fenced_hash::FencedHash;
use crate::{
    acl::Acl,
    backend::{
        Acknowledged, Arg, Backend, Call, Dispatch, Fault, Pending, Polled, Replicas, Reply, UNCOUNTED, Value, decode,
    },
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Protocol, Published, Renewal, RenewalGroup, Sight},
    error::Error,
    keys::{self, HoldField},
    lease::whole_ms,
    name::{Name, Shown},
    script::{Script, reentrant as scripts},
};

/// What all names of a client share.
pub(crate) struct Scope {
    client_id: String,
    prefix: Arc<str>,
    /// Replicas are asked whether they know of a grant.
    acknowledged: bool,
    backend: Arc<dyn Backend>,
}

impl Scope {
    pub(crate) fn new(client_id: Uuid, prefix: Arc<str>, acknowledged: bool, backend: Arc<dyn Backend>) -> Self {
        Self { client_id: client_id.to_string(), prefix, acknowledged, backend }
    }

    /// What a user must be allowed for keys of this pattern.
    pub(crate) fn required_acl(&self, pattern: &str) -> Result<Acl, Error> {
        let rights = self.backend.rights().and(self.acknowledged.then_some("wait"));
        Acl::of(&rights, &self.prefix, pattern)
    }

    /// The plain lock of this name, if the name can be one.
    pub(crate) fn plain_lock(self: &Arc<Self>, name: &str) -> Result<Arc<dyn Protocol>, Error> {
        Ok(Arc::new(self.hash_lock(name)?))
    }

    /// The fenced lock of this name, if the name can be one.
    pub(crate) fn fenced_lock(self: &Arc<Self>, name: &str) -> Result<Arc<dyn Protocol>, Error> {
        let lock = self.hash_lock(name)?;
        let counter = Arc::from(&*keys::fence_counter(&lock.key));
        Ok(Arc::new(FencedHash { lock, counter }))
    }

    fn hash_lock(self: &Arc<Self>, name: &str) -> Result<HashLock, Error> {
        let name = Name::parse(name)?;
        let key = keys::lock_key(&self.prefix, name.as_arc());
        if !self.backend.same_slot(&key, &keys::lock_channel(&key)) {
            return Err(Error::invalid("name", torn_apart(&key)));
        }
        Ok(HashLock { scope: Arc::clone(self), name: Arc::clone(name.as_arc()), key })
    }
}

/// Why a cluster cannot have this key.
fn torn_apart(key: &str) -> String {
    format!(
        "on a cluster {} and the channel on which it is told are in different slots: use no braces, or put one pair around a \
         part of it that is not empty",
        Shown(key)
    )
}

/// Less than any TTL, and less than the `-1` of a key that has none: a renewal for this raises nothing.
const LOOK_MS: i64 = -2;

/// One plain lock.
pub(super) struct HashLock {
    scope: Arc<Scope>,
    name: Arc<str>,
    key: Arc<str>,
}

/// The statuses that the scripts answer with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Done,
    Busy,
    Gone,
}

impl Status {
    pub(super) fn read(status: i64) -> Option<Self> {
        match status {
            1 => Some(Self::Done),
            0 => Some(Self::Busy),
            -1 => Some(Self::Gone),
            _ => None,
        }
    }
}

impl HashLock {
    pub(super) fn field(&self, number: HoldNumber) -> HoldField {
        HoldField::new(&self.scope.client_id, number.0)
    }

    /// Runs one script on these keys; an answer that `read` does not know is a fault.
    fn run<T: 'static>(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[Arg<'_>],
        read: impl FnOnce(&Value) -> Option<T> + Send + 'static,
    ) -> Pending<Result<T, Fault>> {
        let call = Call { script, keys, args, dispatch: None, polled: Polled::ByCaller };
        let answer = self.scope.backend.run(&call);
        Box::pin(async move { decode(script, &answer.await?, read) })
    }

    /// The same for what every section needs, and for a command that its caller may withdraw until it left.
    pub(super) fn reply<T>(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[Arg<'_>],
        dispatch: Option<&Arc<Dispatch>>,
        polled: Polled,
        read: fn(&Value) -> Option<T>,
    ) -> Reply<T> {
        let answer = self.scope.backend.run(&Call { script, keys, args, dispatch, polled });
        Reply::Read { answer, script, read }
    }
}

impl HashLock {
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
        self.run(script, keys, &args, move |answer| read(answer, counts))
    }

    /// A call for each, in one pipeline: of many keys each may be at another node by now.
    fn renew_each(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Arg<'_>,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        let fields: Vec<HoldField> = holds.iter().map(|(_, number)| self.field(*number)).collect();
        let args: Vec<[Arg<'_>; 2]> = fields.iter().map(|field| [lease, Arg::Bytes(field.bytes())]).collect();
        let keys: Vec<[&str; 1]> = holds.iter().map(|(key, _)| [*key]).collect();
        let calls = keys.iter().zip(&args).map(|(keys, args)| Call {
            script: &scripts::RENEW,
            keys,
            args,
            dispatch: Some(dispatch),
            polled: Polled::ByUs,
        });
        let answers = self.scope.backend.run_many(&calls.collect::<Vec<_>>(), within);
        Box::pin(async move {
            let one = |answer: &Value| renewals(answer, 1)?.pop();
            let renewed = |answer| decode(&scripts::RENEW, &answer, one)?;
            answers.await.into_iter().map(|answer| answer.and_then(renewed)).collect()
        })
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
        self.reply(&scripts::ACQUIRE, &[&self.key], args, Some(dispatch), Polled::ByCaller, attempt)
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

    fn release(&self, number: HoldNumber, holds: u32) -> Reply<Letting> {
        let (field, channel) = (self.field(number), keys::lock_channel(&self.key));
        let publish = self.scope.backend.publish_kind().command();
        let args = [Arg::Bytes(field.bytes()), Arg::Text(publish), Arg::Bytes(channel.bytes()), Arg::Int(holds.into())];
        // The last release does not say so.
        let args = if holds == 0 { &args[..3] } else { &args };
        let read = if self.scope.backend.counts(&self.key) { released::<true> } else { released::<false> };
        // The end of a hold is the engine's to wait for; a count is told by whoever changed it.
        let polled = if holds == 0 { Polled::ByUs } else { Polled::ByCaller };
        self.reply(&scripts::RELEASE, &[&self.key], args, None, polled, read)
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
        let lease = Arg::Int(if lease.is_zero() { LOOK_MS } else { whole_ms(lease) });
        let script = &scripts::RENEW;
        if !self.scope.backend.abilities().joins_names {
            return self.renew_each(holds, lease, within, dispatch);
        }
        let keys: Vec<&str> = holds.iter().map(|(key, _)| *key).collect();
        let fields: Vec<HoldField> = holds.iter().map(|(_, number)| self.field(*number)).collect();
        let mut args = Vec::with_capacity(1 + fields.len());
        args.push(lease);
        args.extend(fields.iter().map(|field| Arg::Bytes(field.bytes())));
        let call = Call { script, keys: &keys, args: &args, dispatch: Some(dispatch), polled: Polled::ByUs };
        let answers = self.scope.backend.run_many(&[call], within);
        let asked = holds.len();
        Box::pin(async move {
            let answer = answers.await.pop().unwrap_or_else(|| Err(Fault::unexpected(script.path, &"no answer")));
            let renewals = answer.and_then(|answer| decode(script, &answer, |answer| renewals(answer, asked)));
            // What goes wrong with a call goes wrong with each hold in it.
            renewals.unwrap_or_else(|fault| vec![Err(fault); asked])
        })
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        let own = format!("{}:", self.scope.client_id);
        self.run(&scripts::INSPECT, &[&self.key], &[], move |answer| {
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
        self.run(&scripts::FORCE_RELEASE, &[&self.key], &args, move |answer| {
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

pub(super) fn not_granted(status: Status, retry_in_ms: i64) -> Option<Attempt> {
    match status {
        Status::Busy => Some(Attempt::Busy { retry_in: u64::try_from(retry_in_ms).ok().map(Duration::from_millis) }),
        Status::Gone => Some(Attempt::Gone),
        Status::Done => None,
    }
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

/// Of a status and listeners; the latter of what is done, if anybody was told.
fn told(answer: &Value, counts: bool) -> Option<Option<Published>> {
    let &[status, listeners] = answer.numbers() else { return None };
    match (Status::read(status)?, listeners) {
        (Status::Done, -1) => Some(Some(Published::No)),
        (Status::Done, listeners) => heard(listeners, counts).map(Some),
        (Status::Gone, _) => Some(None),
        (Status::Busy, _) => None,
    }
}

/// How many a message reached.
pub(super) fn heard(listeners: i64, counts: bool) -> Option<Published> {
    match u32::try_from(listeners) {
        Ok(listeners) if counts => Some(Published::To(listeners)),
        Ok(_) => Some(Published::Uncounted),
        Err(_) => (listeners == UNCOUNTED).then_some(Published::Uncounted),
    }
}

/// The answers of so many holds, which may be one for all that are there.
fn renewals(answer: &Value, asked: usize) -> Option<Vec<Result<Renewal, Fault>>> {
    if *answer == Value::Int(1) {
        return Some(vec![Ok(Renewal::Renewed); asked]);
    }
    let renewals = answer.numbers().iter().map(|status| match Status::read(*status)? {
        Status::Done => Some(Ok(Renewal::Renewed)),
        Status::Gone => Some(Ok(Renewal::Gone)),
        Status::Busy => None,
    });
    renewals.collect::<Option<Vec<_>>>().filter(|renewals| renewals.len() == asked)
}

/// A field and its count, as `HGETALL` gives them.
fn holder(pair: &[Value]) -> Option<(String, u32)> {
    let [Value::Bytes(field), Value::Bytes(count)] = pair else { return None };
    let count = std::str::from_utf8(count).ok()?.parse().ok()?;
    Some((String::from_utf8_lossy(field).into_owned(), count))
}
