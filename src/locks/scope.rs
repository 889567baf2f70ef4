//! What all names of one client share: the way to the servers, the prefix, and how their scripts are run. It reads no reply but
//! those of renewals, which all primitives have alike.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use uuid::Uuid;

use super::{
    fenced_hash::FencedHash,
    hash::HashLock,
    job_hash::{JobHash, Terms},
    job_told::Boards,
    replies::renewals,
    token_compared::Promises,
    token_string::{Manner, TokenString},
};
use crate::{
    acl::Acl,
    backend::{Arg, Backend, Call, Dispatch, Fault, Pending, Polled, Reply, Value, decode},
    chance::Chance,
    engine::{HoldNumber, Protocol, Renewal},
    error::Error,
    keys::{self, Built},
    lease::whole_ms,
    name::{Name, Shown},
    script::Script,
};

/// What all names of a client share.
pub(crate) struct Scope {
    pub(super) client_id: String,
    prefix: Arc<str>,
    /// Replicas are asked whether they know of a grant.
    acknowledged: bool,
    pub(super) backend: Arc<dyn Backend>,
    chance: Chance,
    /// What the tokens of this client begin with, drawn for the first of them.
    tokens: OnceLock<u128>,
    /// Where no scripts run.
    pub(super) promises: Promises,
    /// What was told of its periodic jobs.
    pub(super) jobs: Boards,
}

impl Scope {
    pub(crate) fn new(
        client_id: Uuid,
        prefix: Arc<str>,
        acknowledged: bool,
        backend: Arc<dyn Backend>,
        chance: Chance,
    ) -> Self {
        let (client_id, tokens) = (client_id.to_string(), OnceLock::new());
        let (promises, jobs) = (Promises::default(), Boards::default());
        Self { client_id, prefix, acknowledged, backend, chance, tokens, promises, jobs }
    }

    /// The same for a holder that is known by another name, at several servers alike.
    pub(super) fn for_votes(&self, holder: Uuid, tokens: u128) -> Self {
        let (prefix, backend) = (Arc::clone(&self.prefix), Arc::clone(&self.backend));
        let scope = Self::new(holder, prefix, false, backend, self.chance.clone());
        let _ = scope.tokens.set(tokens);
        scope
    }

    pub(crate) fn chance(&self) -> &Chance {
        &self.chance
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
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

    /// The token lock of this name, if the name can be one.
    pub(super) fn token_lock(self: &Arc<Self>, name: &str, manner: Manner) -> Result<TokenString, Error> {
        let (name, key) = self.mapped(name, keys::token_channel)?;
        let client = *self.tokens.get_or_init(|| self.chance.token());
        Ok(TokenString::new(Arc::clone(self), name, key, client, manner))
    }

    /// The periodic job of this name, if the name can be one.
    pub(super) fn job(self: &Arc<Self>, name: &str, terms: Terms) -> Result<JobHash, Error> {
        let (name, of) = self.mapped(name, keys::job_channel)?;
        let key = Arc::from(&*keys::job_record(&of));
        Ok(JobHash::new(Arc::clone(self), name, of, key, terms))
    }

    fn hash_lock(self: &Arc<Self>, name: &str) -> Result<HashLock, Error> {
        let (name, key) = self.mapped(name, keys::lock_channel)?;
        Ok(HashLock { scope: Arc::clone(self), name, key })
    }

    /// The name and its key, if it can have one beside such a channel.
    fn mapped(&self, name: &str, channel: impl Fn(&str) -> Built) -> Result<(Arc<str>, Arc<str>), Error> {
        let name = Name::parse(name)?;
        let key = keys::lock_key(&self.prefix, name.as_arc());
        if !self.backend.same_slot(&key, &channel(&key)) {
            return Err(Error::invalid("name", torn_apart(&key)));
        }
        Ok((Arc::clone(name.as_arc()), key))
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

impl Scope {
    /// Runs one script on these keys; an answer that `read` does not know is a fault.
    pub(super) fn run<T: 'static>(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[Arg<'_>],
        read: impl FnOnce(&Value) -> Option<T> + Send + 'static,
    ) -> Pending<Result<T, Fault>> {
        let call = Call { script, keys, args, dispatch: None, polled: Polled::ByCaller };
        let answer = self.backend.run(&call);
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
        let answer = self.backend.run(&Call { script, keys, args, dispatch, polled });
        Reply::Read { answer, script, read }
    }

    /// Renews holds, which a script knows by what `text` makes of their numbers.
    pub(super) fn renew<T: AsRef<[u8]>>(
        &self,
        script: &'static Script,
        holds: &[(&str, HoldNumber)],
        text: impl Fn(HoldNumber) -> T,
        (lease, within): (Duration, Duration),
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        let lease = Arg::Int(if lease.is_zero() { LOOK_MS } else { whole_ms(lease) });
        let texts: Vec<T> = holds.iter().map(|(_, number)| text(*number)).collect();
        if !self.backend.abilities().joins_names {
            return self.renew_each(script, holds, &texts, (lease, within), dispatch);
        }
        let keys: Vec<&str> = holds.iter().map(|(key, _)| *key).collect();
        let mut args = Vec::with_capacity(1 + texts.len());
        args.push(lease);
        args.extend(texts.iter().map(|text| Arg::Bytes(text.as_ref())));
        let call = Call { script, keys: &keys, args: &args, dispatch: Some(dispatch), polled: Polled::ByUs };
        let answers = self.backend.run_many(&[call], within);
        let asked = holds.len();
        Box::pin(async move {
            let answer = answers.await.pop().unwrap_or_else(|| Err(Fault::unexpected(script.path, &"no answer")));
            let renewals = answer.and_then(|answer| decode(script, &answer, |answer| renewals(answer, asked)));
            // What goes wrong with a call goes wrong with each hold in it.
            renewals.unwrap_or_else(|fault| vec![Err(fault); asked])
        })
    }

    /// A call for each, in one pipeline: of many keys each may be at another node by now.
    fn renew_each<T: AsRef<[u8]>>(
        &self,
        script: &'static Script,
        holds: &[(&str, HoldNumber)],
        texts: &[T],
        (lease, within): (Arg<'_>, Duration),
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        let args: Vec<[Arg<'_>; 2]> = texts.iter().map(|text| [lease, Arg::Bytes(text.as_ref())]).collect();
        let keys: Vec<[&str; 1]> = holds.iter().map(|(key, _)| [*key]).collect();
        let calls = keys.iter().zip(&args).map(|(keys, args)| Call {
            script,
            keys,
            args,
            dispatch: Some(dispatch),
            polled: Polled::ByUs,
        });
        let answers = self.backend.run_many(&calls.collect::<Vec<_>>(), within);
        Box::pin(async move {
            let one = |answer: &Value| renewals(answer, 1)?.pop();
            let renewed = |answer| decode(script, &answer, one)?;
            answers.await.into_iter().map(|answer| answer.and_then(renewed)).collect()
        })
    }
}
