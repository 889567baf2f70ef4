//! The token lock's protocol: a string that holds the token of whoever has the lock, as the libraries of many languages have it.
//! What a user sees of it is in `token.rs`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    replies::{Status, heard, not_granted, told},
    scope::Scope,
    token_compared::unable,
};
use crate::{
    backend::{Acknowledged, Arg, Call, Dispatch, Fault, Pending, Polled, Replicas, Reply, Scripting, Value, decode},
    engine::{
        Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Published, Publishes, Renewal, RenewalGroup, Sight,
    },
    keys::{self, TokenText},
    lease::whole_ms,
    name::Field,
    script::{Script, commands, token as scripts},
    token::Token,
};

/// How a token lock is shared with others, who may be no clients of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(super) publishes: Publishes,
    /// The TTL that somebody else's key is given which has none.
    pub(super) orphans: Option<Duration>,
}

/// One token lock.
pub(super) struct TokenString {
    pub(super) scope: Arc<Scope>,
    pub(super) name: Arc<str>,
    pub(super) key: Arc<str>,
    /// What the tokens of this client begin with.
    client: u128,
    pub(super) manner: Manner,
    pub(super) scripting: Scripting,
    /// Something below may send a command again that had no answer.
    resends: bool,
    /// The greatest number that was asked for: a first sending is one of a greater one.
    asked: AtomicU64,
}

impl TokenString {
    pub(super) fn new(scope: Arc<Scope>, name: Arc<str>, key: Arc<str>, client: u128, manner: Manner) -> Self {
        let (scripting, resends) = (scope.backend.scripting(), scope.backend.abilities().resends);
        Self { scope, name, key, client, manner, scripting, resends, asked: AtomicU64::new(0) }
    }

    pub(super) fn manner(&self) -> Manner {
        self.manner
    }

    /// What is at this key, whatever it is called.
    pub(super) fn at(&self, key: &str) -> Self {
        let key: Arc<str> = Arc::from(key);
        Self::new(Arc::clone(&self.scope), Arc::clone(&key), key, self.client, self.manner)
    }

    /// The same lock in another manner.
    pub(super) fn in_manner(&self, manner: Manner) -> Self {
        let (scope, name, key) = (Arc::clone(&self.scope), Arc::clone(&self.name), Arc::clone(&self.key));
        Self::new(scope, name, key, self.client, manner)
    }

    pub(super) fn text(&self, number: HoldNumber) -> TokenText {
        TokenText::new(self.client, number.0)
    }

    /// Runs one script on the key, with these arguments and how those that wait are told.
    fn tell<T: 'static>(
        &self,
        script: &'static Script,
        args: &[Arg<'_>],
        read: impl FnOnce(&Value) -> Option<T> + Send + 'static,
    ) -> Pending<Result<T, Fault>> {
        let channel = keys::token_channel(&self.key);
        let mut args = args.to_vec();
        if self.manner.publishes != Publishes::Never {
            args.push(Arg::Text(self.scope.backend.publish_kind().command()));
            args.push(Arg::Bytes(channel.bytes()));
        }
        self.scope.run(script, &[&self.key], &args, read)
    }

    /// How a release is read. Where nobody is told it is known who heard of it: nobody listens, so nobody is stood back for.
    fn read_letting(&self) -> fn(&Value) -> Option<Letting> {
        let counts = self.manner.publishes == Publishes::Never || self.scope.backend.counts(&self.key);
        if counts { released::<true> } else { released::<false> }
    }

    /// What a token and its TTL say of who holds. One that is no text is nobody's who could be named.
    pub(super) fn sight_of(&self) -> impl Fn(&[u8], i64) -> Option<Sight> + Send + use<> {
        let client = self.client;
        move |token, ttl_ms| {
            let token = std::str::from_utf8(token).ok()?;
            let ours = TokenText::number(client, token).map(HoldNumber).into_iter().collect();
            let remaining_lease = u64::try_from(ttl_ms).ok().map(Duration::from_millis);
            Some(Sight { holders: vec![(token.to_owned(), 1)], remaining_lease, ours })
        }
    }

    /// Releases what somebody holds by this token alone.
    pub(super) fn release_token(&self, token: &Token) -> Pending<Result<Letting, Fault>> {
        match self.scripting {
            Scripting::Runs | Scripting::Denied => {}
            Scripting::Compares(deletes) => return self.release_compared(token.as_ref(), deletes),
            Scripting::Neither | Scripting::NotTold => return Box::pin(unable(self.scripting)),
        }
        self.tell(&scripts::RELEASE, &[Arg::Text(token.as_ref())], self.read_letting())
    }

    /// Makes what somebody holds by this token alone last at least so long from now.
    pub(super) fn extend_token(&self, token: &Token, lease: Duration) -> Pending<Result<Renewal, Fault>> {
        match self.scripting {
            Scripting::Runs | Scripting::Denied => {}
            Scripting::Compares(_) => return self.extend_compared(token, lease),
            Scripting::Neither | Scripting::NotTold => return Box::pin(unable(self.scripting)),
        }
        let args = [Arg::Int(whole_ms(lease)), Arg::Text(token.as_ref())];
        self.scope.run(&scripts::RENEW, &[&self.key], &args, |answer| match *answer {
            Value::Int(1) => Some(Renewal::Renewed),
            _ => (answer.numbers() == [-1]).then_some(Renewal::Gone),
        })
    }

    /// A try that gives a key without a TTL one, and says so.
    fn adopting(&self, args: &[Arg<'_>], orphans: Duration, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let (script, keys, name) = (&scripts::ACQUIRE, &[&*self.key][..], Arc::clone(&self.name));
        let args = [args, &[Arg::Int(whole_ms(orphans))]].concat();
        let (dispatch, polled) = (Some(dispatch), Polled::ByCaller);
        let answer = self.scope.backend.run(&Call { script, keys, args: &args, dispatch, polled });
        Reply::Told(Box::pin(async move {
            let answer = answer.await?;
            says_adopted(&name, &answer);
            decode(script, &answer, attempt)
        }))
    }
}

/// A try that gave somebody's key a TTL says so.
fn says_adopted(name: &Arc<str>, answer: &Value) {
    if let &[0, ttl_ms, _, 1] = answer.numbers() {
        adopted(name, ttl_ms);
    }
}

impl fmt::Debug for TokenString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenString").field("name", &self.name).field("manner", &self.manner).finish_non_exhaustive()
    }
}

impl Protocol for TokenString {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn kind(&self) -> &'static str {
        match (self.manner.publishes, self.manner.orphans) {
            (Publishes::Sometimes, None) => "token lock",
            (Publishes::Sometimes, Some(_)) => "token lock that repairs orphans",
            (Publishes::Always, None) => "token lock of relatch alone",
            (Publishes::Always, Some(_)) => "token lock of relatch alone that repairs orphans",
            (Publishes::Never, None) => "silent token lock",
            (Publishes::Never, Some(_)) => "silent token lock that repairs orphans",
        }
    }

    fn repairs(&self) -> Option<Duration> {
        self.manner.orphans
    }

    fn channel(&self) -> Arc<str> {
        Arc::from(&*keys::token_channel(&self.key))
    }

    fn passes(&self) -> bool {
        true
    }

    fn publishes(&self) -> Publishes {
        if let Scripting::Compares(_) = self.scripting { Publishes::Never } else { self.manner.publishes }
    }

    fn expired_is_released(&self) -> bool {
        true
    }

    fn token(&self, number: HoldNumber) -> Option<Token> {
        Some(Token::of(&self.text(number)))
    }

    /// The first time by the plain command, which costs a server the least. It says nothing of what a copy of it did, nor for how
    /// long it is refused: what is sent again is the script.
    fn acquire(&self, number: HoldNumber, lease: Duration, _: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let text = self.text(number);
        let args = [Arg::Bytes(text.bytes()), Arg::Int(whole_ms(lease))];
        let is_first = self.asked.fetch_max(number.0, Ordering::Relaxed) < number.0;
        match self.scripting {
            Scripting::Runs | Scripting::Denied => {}
            Scripting::Compares(_) if is_first => drop(self.scope.promises.longest(number, lease)),
            Scripting::Compares(_) => return self.acquire_compared(number, lease, dispatch),
            Scripting::Neither | Scripting::NotTold => return unable(self.scripting),
        }
        let (keys, dispatch, polled) = (&[&*self.key], Some(dispatch), Polled::ByCaller);
        // What cannot be released is not taken: the script says why.
        if is_first && !self.resends && self.scripting != Scripting::Denied {
            return self.scope.reply(&commands::SET_NX, keys, &args, dispatch, polled, taken_at_first);
        }
        match (self.manner.orphans, dispatch) {
            (Some(orphans), Some(dispatch)) => self.adopting(&args, orphans, dispatch),
            _ => self.scope.reply(&scripts::ACQUIRE, keys, &args, dispatch, polled, attempt),
        }
    }

    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        match self.scripting {
            Scripting::Runs | Scripting::Denied => {}
            Scripting::Compares(_) => return self.acquire_compared_acknowledged(number, lease, replicas, dispatch),
            Scripting::Neither | Scripting::NotTold => return Box::pin(unable(self.scripting)),
        }
        let (script, text, name) = (&scripts::ACQUIRE, self.text(number), Arc::clone(&self.name));
        let orphan_ms = self.manner.orphans.map_or(0, whole_ms);
        let args = &[Arg::Bytes(text.bytes()), Arg::Int(whole_ms(lease)), Arg::Int(orphan_ms)];
        let args = if self.manner.orphans.is_some() { &args[..] } else { &args[..2] };
        let (keys, dispatch, polled) = (&[&*self.key][..], Some(dispatch), Polled::ByUs);
        let answer = self.scope.backend.run_acknowledged(&Call { script, keys, args, dispatch, polled }, replicas);
        Box::pin(async move {
            let (answer, acknowledged) = answer.await?;
            says_adopted(&name, &answer);
            Ok((decode(script, &answer, attempt)?, acknowledged))
        })
    }

    fn release(&self, number: HoldNumber, _: u32, _: Note) -> Reply<Letting> {
        if let Scripting::Compares(deletes) = self.scripting {
            return self.release_number_compared(number, deletes);
        }
        let (text, channel) = (self.text(number), keys::token_channel(&self.key));
        let publish = self.scope.backend.publish_kind().command();
        let args = [Arg::Bytes(text.bytes()), Arg::Text(publish), Arg::Bytes(channel.bytes())];
        let args = if self.manner.publishes == Publishes::Never { &args[..1] } else { &args };
        self.scope.reply(&scripts::RELEASE, &[&self.key], args, None, Polled::ByUs, self.read_letting())
    }

    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>> {
        if let Scripting::Compares(_) = self.scripting {
            return self.hand_over_compared((from, to), lease);
        }
        let (from, to, counts) = (self.text(from), self.text(to), self.scope.backend.counts(&self.key));
        let args = [Arg::Bytes(from.bytes()), Arg::Bytes(to.bytes()), Arg::Int(whole_ms(lease))];
        self.tell(&scripts::HAND_OVER, &args, move |answer| moved(answer, counts))
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
        if let Scripting::Compares(_) = self.scripting {
            return self.renew_compared(holds, lease, within, dispatch);
        }
        self.scope.renew(&scripts::RENEW, holds, |number| self.text(number), (lease, within), dispatch)
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        match self.scripting {
            Scripting::Runs | Scripting::Denied => {}
            Scripting::Compares(_) => return self.inspect_compared(),
            Scripting::Neither | Scripting::NotTold => return Box::pin(unable(self.scripting)),
        }
        let sight = self.sight_of();
        self.scope.run(&scripts::INSPECT, &[&self.key], &[], move |answer| {
            let parts = match answer {
                Value::Numbers(free) if free[..] == [-2] => return Some(None),
                Value::Array(parts) => parts,
                _ => return None,
            };
            let [Value::Int(ttl_ms), Value::Bytes(token)] = &parts[..] else { return None };
            sight(token, *ttl_ms).map(Some)
        })
    }

    /// A release of what was seen.
    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        let token = seen.holders.first().map_or("", |(token, _)| token);
        let released = match self.scripting {
            Scripting::Compares(deletes) => self.release_compared(token, deletes),
            Scripting::Runs | Scripting::Denied | Scripting::Neither | Scripting::NotTold => {
                self.tell(&scripts::RELEASE, &[Arg::Text(token)], self.read_letting())
            }
        };
        Box::pin(async move {
            Ok(match released.await? {
                Letting::Done { published, .. } => Forced::Done { published },
                Letting::NotHeld | Letting::Expired => Forced::Gone,
            })
        })
    }
}

/// A key that had no TTL has one now.
pub(super) fn adopted(name: &str, ttl_ms: i64) {
    tracing::warn!(lock = %Field(name), ttl_ms, "a key that somebody left without a TTL was given one");
}

/// What the plain command answered.
pub(super) fn taken(answer: &Value) -> Option<Attempt> {
    match answer {
        Value::Bytes(ok) if ok == b"OK" => Some(Attempt::Granted { holds: 1, fence: None }),
        // For how long, the next try is told.
        Value::Nil => Some(Attempt::Busy { retry_in: None }),
        _ => None,
    }
}

/// The same of the first try of a number. It says not for how long, and no message may come: whoever waits asks again at once, and
/// is told.
fn taken_at_first(answer: &Value) -> Option<Attempt> {
    match taken(answer)? {
        Attempt::Busy { .. } => Some(Attempt::Busy { retry_in: Some(Duration::ZERO) }),
        attempt => Some(attempt),
    }
}

/// What a later try answered.
fn attempt(answer: &Value) -> Option<Attempt> {
    if *answer == Value::Int(1) {
        return Some(Attempt::Granted { holds: 1, fence: None });
    }
    let &[status, retry_in_ms, _, _] = answer.numbers() else { return None };
    match Status::read(status)? {
        Status::Busy => not_granted(Status::Busy, retry_in_ms),
        Status::Done | Status::Gone => None,
    }
}

/// What a release answered; `COUNTS`: the server knows of all who listen.
fn released<const COUNTS: bool>(answer: &Value) -> Option<Letting> {
    let published = match *answer {
        Value::Int(listeners) => heard(listeners, COUNTS)?,
        _ => return not_released(answer),
    };
    Some(Letting::Done { holds: 0, published })
}

fn not_released(answer: &Value) -> Option<Letting> {
    match *answer.numbers() {
        [1, 0, -1] => Some(Letting::Done { holds: 0, published: Published::No }),
        [-1, 0, -1] => Some(Letting::NotHeld),
        [-2, 0, -1] => Some(Letting::Expired),
        _ => None,
    }
}

/// What a hand-over answered; `counts`: the server knows of all who listen.
fn moved(answer: &Value, counts: bool) -> Option<Moved> {
    let done = |published| Moved::Done { published, fence: None };
    match *answer {
        Value::Int(1) => Some(done(Published::No)),
        _ if answer.numbers() == [-2, -1] => Some(Moved::Expired),
        _ => Some(told(answer, counts)?.map_or(Moved::Gone, done)),
    }
}
