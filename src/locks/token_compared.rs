//! The token lock at a server that runs no scripts, by the commands that set and delete a key only while it has a value. Nobody is told
//! of a release there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{join, join3};
use tokio::time::Instant;

use super::token_string::{TokenString, adopted, taken};
use crate::{
    backend::{
        Acknowledged, Arg, Call, Deletes, Dispatch, Fault, FaultKind, Pending, Polled, Replicas, Reply, Scripting,
        Value, decode,
    },
    engine::{Attempt, HoldNumber, Letting, Moved, Published, Renewal, Sight},
    keys::TokenText,
    lease::whole_ms,
    script::{Script, commands},
    token::Token,
};

/// Until when each hold was asked for. A command that sets a TTL may make it shorter than it was promised, where a script would not: so
/// none asks for less than one before it did.
#[derive(Debug, Default)]
pub(super) struct Promises(Mutex<Promised>);

#[derive(Debug, Default)]
struct Promised {
    until: HashMap<HoldNumber, Instant>,
    /// Those that are over are looked for when there are so many.
    crowded: usize,
}

impl Promises {
    const FEW: usize = 64;

    /// This lease from now on, or what is left of the longest before it.
    pub(super) fn longest(&self, number: HoldNumber, lease: Duration) -> Duration {
        let mut promised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if promised.until.len() >= promised.crowded.max(Self::FEW) {
            promised.until.retain(|_, until| now < *until);
            promised.crowded = 2 * promised.until.len();
        }
        let until = promised.until.entry(number).or_insert(now);
        *until = (*until).max(now + lease);
        *until - now
    }

    fn end(&self, number: HoldNumber) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).until.remove(&number);
    }
}

/// A server that can neither run scripts nor do without, as far as it says.
pub(super) fn unable<T>(what: Scripting) -> Reply<T> {
    let why = match what {
        Scripting::NotTold => {
            "the server runs no scripts, and did not say when the client connected whether it has a command that deletes a key only \
             while it has a value, as Redis has from 8.4 and Valkey from 9.0 on: COMMAND INFO, on a connection of its own, had no answer \
             or was refused"
        }
        _ => {
            "the server runs no scripts, and has no command that deletes a key only while it has a value, as Redis has from 8.4 and \
             Valkey from 9.0 on"
        }
    };
    Reply::Told(Box::pin(async move { Err(Fault::of(FaultKind::ScriptDisabled, false, why)) }))
}

impl TokenString {
    fn ask<T>(
        &self,
        command: &'static Script,
        args: &[Arg<'_>],
        dispatch: Option<&Arc<Dispatch>>,
        read: fn(&Value) -> Option<T>,
    ) -> Reply<T> {
        self.scope.reply(command, &[&self.key], args, dispatch, Polled::ByCaller, read)
    }

    /// A later try: it finds its own token, or a free key, or for how long somebody else has it. All three leave together.
    pub(super) fn acquire_compared(
        &self,
        number: HoldNumber,
        lease: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Reply<Attempt> {
        let (text, lease) = (self.text(number), Arg::Int(whole_ms(self.scope.promises.longest(number, lease))));
        let (token, dispatch) = (Arg::Bytes(text.bytes()), Some(dispatch));
        let again = self.ask(&commands::SET_IFEQ, &[token, token, lease], dispatch, done);
        let anew = self.ask(&commands::SET_NX, &[token, lease], dispatch, taken);
        let ttl = self.ask(&commands::PTTL, &[], dispatch, number_of);
        let orphans =
            self.manner.orphans.map(|ttl| (whole_ms(ttl), Arc::clone(&self.scope.backend), Arc::clone(&self.key)));
        let name = Arc::clone(&self.name);
        Reply::Told(Box::pin(async move {
            let (again, anew, ttl) = join3(again, anew, ttl).await;
            let granted = Attempt::Granted { holds: 1, fence: None };
            match (again, anew) {
                (Ok(true), _) | (_, Ok(Attempt::Granted { .. })) => return Ok(granted),
                (Ok(false), Ok(_)) => {}
                (Err(fault), Ok(_)) | (Ok(false), Err(fault)) => return Err(fault),
                (Err(fault), Err(later)) => {
                    return Err(Fault { may_have_run: fault.may_have_run || later.may_have_run, ..fault });
                }
            }
            let left = |ms: i64| u64::try_from(ms).ok().map(Duration::from_millis);
            let Ok(ttl) = ttl else { return Ok(Attempt::Busy { retry_in: None }) };
            if let Some((orphan_ms, backend, key)) = orphans.filter(|_| ttl == -1) {
                let (keys, args) = ([&*key], [Arg::Int(orphan_ms)]);
                let polled = Polled::ByCaller;
                let call = Call { script: &commands::PEXPIRE_NX, keys: &keys, args: &args, dispatch: None, polled };
                let answer = backend.run(&call).await?;
                if answer == Value::Int(1) {
                    adopted(&name, orphan_ms);
                    return Ok(Attempt::Busy { retry_in: left(orphan_ms) });
                }
            }
            Ok(Attempt::Busy { retry_in: left(ttl) })
        }))
    }

    /// The plain command, and how many replicas know of it.
    pub(super) fn acquire_compared_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        let (script, text) = (&commands::SET_NX, self.text(number));
        let args = &[Arg::Bytes(text.bytes()), Arg::Int(whole_ms(self.scope.promises.longest(number, lease)))];
        let (keys, dispatch, polled) = (&[&*self.key][..], Some(dispatch), Polled::ByUs);
        let answer = self.scope.backend.run_acknowledged(&Call { script, keys, args, dispatch, polled }, replicas);
        Box::pin(async move {
            let (answer, acknowledged) = answer.await?;
            Ok((decode(script, &answer, taken)?, acknowledged))
        })
    }

    pub(super) fn release_number_compared(&self, number: HoldNumber, deletes: Deletes) -> Reply<Letting> {
        self.scope.promises.end(number);
        Reply::Told(self.release_compared(&self.text(number), deletes))
    }

    /// Who has the key where the token does not is asked in the same moment.
    pub(super) fn release_compared(&self, token: &str, deletes: Deletes) -> Pending<Result<Letting, Fault>> {
        let deleted = self.ask(deletes.command(), &[Arg::Text(token)], None, number_of);
        let holder = self.ask(&commands::GET, &[], None, holder);
        Box::pin(async move {
            let (deleted, holder) = join(deleted, holder).await;
            match deleted? {
                // Nobody listens.
                1 => Ok(Letting::Done { holds: 0, published: Published::To(0) }),
                _ => Ok(if holder?.is_some() { Letting::NotHeld } else { Letting::Expired }),
            }
        })
    }

    /// Whether it moved before is asked in the same moment.
    pub(super) fn hand_over_compared(
        &self,
        (from, to): (HoldNumber, HoldNumber),
        lease: Duration,
    ) -> Pending<Result<Moved, Fault>> {
        let lease = Arg::Int(whole_ms(self.scope.promises.longest(to, lease)));
        let (before, after) = (self.text(from), self.text(to));
        let args = [Arg::Bytes(before.bytes()), Arg::Bytes(after.bytes()), lease];
        let moved = self.ask(&commands::SET_IFEQ, &args, None, done);
        let holder = self.ask(&commands::GET, &[], None, holder);
        self.scope.promises.end(from);
        Box::pin(async move {
            let (moved, holder) = join(moved, holder).await;
            let done = Moved::Done { published: Published::No, fence: None };
            if moved? {
                return Ok(done);
            }
            Ok(match holder? {
                Some(token) if token == after.bytes() => done,
                Some(_) => Moved::Gone,
                None => Moved::Expired,
            })
        })
    }

    /// Each hold by itself, in one pipeline. Whoever was told a token may have asked for more than we know of: the TTLs are asked for
    /// first, in another.
    pub(super) fn renew_compared(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        let texts: Vec<TokenText> = holds.iter().map(|(_, number)| self.text(*number)).collect();
        let keys: Vec<[&str; 1]> = holds.iter().map(|(key, _)| [*key]).collect();
        let (looks, polled) = (lease.is_zero(), Polled::ByUs);
        let (script, leaves) = if looks { (&commands::GET, Some(dispatch)) } else { (&commands::PTTL, None) };
        let calls = keys.iter().map(|keys| Call { script, keys, args: &[], dispatch: leaves, polled });
        let started = Instant::now();
        let answers = self.scope.backend.run_many(&calls.collect::<Vec<_>>(), within);
        if looks {
            return Box::pin(async move {
                let seen = |(answer, text): (_, TokenText)| still_there(answer, |token| token == text.bytes());
                answers.await.into_iter().zip(texts).map(seen).collect()
            });
        }
        let (scope, dispatch) = (Arc::clone(&self.scope), Arc::clone(dispatch));
        let holds: Vec<(String, HoldNumber)> = holds.iter().map(|(key, number)| ((*key).to_owned(), *number)).collect();
        Box::pin(async move {
            let ttls = answers.await;
            let keys: Vec<[&str; 1]> = holds.iter().map(|(key, _)| [&**key]).collect();
            let args = holds.iter().zip(&texts).zip(&ttls).map(|(((_, number), text), ttl)| {
                let lease_ms = whole_ms(scope.promises.longest(*number, lease));
                let ttl_ms = ttl.as_ref().ok().and_then(number_of).unwrap_or(0);
                [Arg::Bytes(text.bytes()), Arg::Bytes(text.bytes()), Arg::Int(lease_ms.max(ttl_ms))]
            });
            let args: Vec<[Arg<'_>; 3]> = args.collect();
            let (script, dispatch) = (&commands::SET_IFEQ, Some(&dispatch));
            let calls = keys.iter().zip(&args).zip(&ttls).filter(|(_, ttl)| ttl.is_ok());
            let calls: Vec<_> = calls.map(|((keys, args), _)| Call { script, keys, args, dispatch, polled }).collect();
            let left = within.saturating_sub(started.elapsed());
            let answers = if calls.is_empty() { Vec::new() } else { scope.backend.run_many(&calls, left).await };
            let mut answers = answers.into_iter();
            let answer = |ttl: Result<Value, Fault>| match ttl {
                Ok(_) => Some(still_there(answers.next()?, |ok| ok == b"OK")),
                Err(fault) => Some(Err(fault)),
            };
            ttls.into_iter().map_while(answer).collect()
        })
    }

    /// Whoever has a token alone does not know what was promised before: its TTL is asked for first.
    pub(super) fn extend_compared(&self, token: &Token, lease: Duration) -> Pending<Result<Renewal, Fault>> {
        let ttl = self.ask(&commands::PTTL, &[], None, number_of);
        let (backend, key, token) = (Arc::clone(&self.scope.backend), Arc::clone(&self.key), token.clone());
        Box::pin(async move {
            let ttl = ttl.await?;
            let (keys, text) = ([&*key], Arg::Text(token.as_ref()));
            let args = [text, text, Arg::Int(whole_ms(lease).max(ttl))];
            let (script, polled) = (&commands::SET_IFEQ, Polled::ByCaller);
            match backend.run(&Call { script, keys: &keys, args: &args, dispatch: None, polled }).await {
                Ok(answer) => {
                    decode(script, &answer, done).map(|done| if done { Renewal::Renewed } else { Renewal::Gone })
                }
                Err(Fault { kind: FaultKind::WrongType, .. }) => Ok(Renewal::Gone),
                Err(fault) => Err(fault),
            }
        })
    }

    pub(super) fn inspect_compared(&self) -> Pending<Result<Option<Sight>, Fault>> {
        let (token, ttl) =
            (self.ask(&commands::GET, &[], None, holder), self.ask(&commands::PTTL, &[], None, number_of));
        let sight = self.sight_of();
        Box::pin(async move {
            let (token, ttl) = join(token, ttl).await;
            match token? {
                None => Ok(None),
                Some(token) => decode(&commands::GET, &Value::Bytes(token), |answer| match answer {
                    Value::Bytes(token) => Some(Some(sight(token, ttl.clone().ok()?)?)),
                    _ => None,
                }),
            }
        })
    }
}

/// What a hold's key answered of it. No string is nobody's token.
fn still_there(answer: Result<Value, Fault>, is_it: impl FnOnce(&[u8]) -> bool) -> Result<Renewal, Fault> {
    match answer {
        Ok(Value::Bytes(bytes)) => Ok(if is_it(&bytes) { Renewal::Renewed } else { Renewal::Gone }),
        Ok(Value::Nil) | Err(Fault { kind: FaultKind::WrongType, .. }) => Ok(Renewal::Gone),
        Ok(other) => Err(Fault::unexpected(commands::SET_IFEQ.path, &other)),
        Err(fault) => Err(fault),
    }
}

/// Whether a key was set.
fn done(answer: &Value) -> Option<bool> {
    match answer {
        Value::Bytes(ok) if ok == b"OK" => Some(true),
        Value::Nil => Some(false),
        _ => None,
    }
}

fn number_of(answer: &Value) -> Option<i64> {
    if let Value::Int(number) = *answer { Some(number) } else { None }
}

fn holder(answer: &Value) -> Option<Option<Vec<u8>>> {
    match answer {
        Value::Bytes(token) => Some(Some(token.clone())),
        Value::Nil => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_asks_for_less_than_was_promised_before_and_what_is_over_is_forgotten() {
        const SECOND: Duration = Duration::from_secs(1);
        let (promises, number) = (Promises::default(), HoldNumber(1));
        assert_eq!(promises.longest(number, SECOND * 30), SECOND * 30);
        assert_eq!(promises.longest(number, SECOND * 300), SECOND * 300);
        tokio::time::advance(SECOND * 10).await;
        assert_eq!(promises.longest(number, SECOND * 30), SECOND * 290);
        promises.end(number);
        assert_eq!(promises.longest(number, SECOND * 30), SECOND * 30);
        for number in 0..1000 {
            tokio::time::advance(SECOND).await;
            promises.longest(HoldNumber(number), SECOND * 30);
        }
        assert!(promises.0.lock().unwrap().until.len() <= 2 * Promises::FEW);
    }
}
