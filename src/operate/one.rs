//! What one name is. Each of its keys is looked at by a script, so that what is told of it was so at one moment, wherever it is; where
//! no scripts run, by plain commands.

use std::sync::Arc;

use super::{
    Found, HolderId, Looker,
    listening::Labels,
    look::{self, Draft},
    names::Candidate,
    size::no_lock,
};
use crate::{
    Client,
    backend::{Call, Fault, FaultKind, Pending, Polled, Scripting, Server, Value, questions},
    error::{Error, Op, RefusedKind, Result},
    keys, locks,
    name::Name,
    script::{Script, job, reentrant, token},
};

/// What one key's look answered.
type Answer = std::result::Result<Value, Fault>;

impl Looker {
    /// The keys that a name may have.
    pub(super) fn candidate(&self, name: &str) -> Result<Candidate> {
        // Refused where a lock of this name would be.
        let key = self.scope.plain_lock(name)?.key().to_string();
        let name: Arc<str> = Arc::clone(Name::parse(name)?.as_arc());
        let record = keys::job_record(&key).to_string();
        Ok(Candidate { key: record, lock: Some(Arc::clone(&name)), job: Some((name, key)) })
    }

    /// What a key turns out to be that another node has by now.
    pub(super) async fn routed(&self, candidate: &Candidate) -> Result<Option<Found>> {
        let (mut draft, server) = (None, self.server_of(&candidate.key));
        let server = server.as_ref();
        if let Some(name) = &candidate.lock {
            draft = match self.lock_at(name, &candidate.key, server, look::looks_drawn).await {
                Err(Error::Refused { kind: RefusedKind::WrongType, .. }) => None,
                draft => draft?,
            };
        }
        if let (None, Some((name, of))) = (&draft, &candidate.job) {
            draft = match self.job_at(name, of, server).await {
                Err(Error::Refused { kind: RefusedKind::WrongType, .. } | Error::Protocol { .. }) => None,
                draft => draft?,
            };
        }
        self.completed(draft, server).await
    }

    async fn inspect_key(&self, name: &str) -> Result<Option<Found>> {
        let Some((name, key)) = self.candidate(name)?.job else { return Ok(None) };
        // What a name has is all of one slot.
        let server = self.server_of(&key);
        let draft = self.draft(&name, &key, server.as_ref()).await?;
        self.completed(draft, server.as_ref()).await
    }

    async fn inspect_job(&self, name: &str) -> Result<Option<Found>> {
        let Some((name, of)) = self.candidate(name)?.job else { return Ok(None) };
        let server = self.server_of(&of);
        let draft = self.job_at(&name, &of, server.as_ref()).await?;
        self.completed(draft, server.as_ref()).await
    }

    /// Who holds the lock now, and who is at the job.
    pub(super) async fn now(
        &self,
        name: &Arc<str>,
        key: &str,
        server: Option<&Arc<dyn Server>>,
    ) -> Result<(Vec<HolderId>, Option<HolderId>)> {
        let ids =
            |draft: Option<Draft>| draft.into_iter().flat_map(|draft| draft.found.holders).map(|holder| holder.id);
        let lock = ids(self.lock_at(name, key, server, any_string).await?).collect::<Vec<_>>();
        let job = match self.job_at(name, key, server).await {
            // What is there is no record: that does not hide who holds the lock.
            Err(Error::Refused { .. } | Error::Protocol { .. }) if !lock.is_empty() => None,
            job => ids(job?).next(),
        };
        Ok((lock, job))
    }

    pub(super) fn server_of(&self, key: &str) -> Option<Arc<dyn Server>> {
        self.scope.backend().server_of(key)
    }

    /// The lock, or else the job.
    async fn draft(&self, name: &Arc<str>, key: &str, server: Option<&Arc<dyn Server>>) -> Result<Option<Draft>> {
        match self.lock_at(name, key, server, any_string).await? {
            Some(draft) => Ok(Some(draft)),
            None => self.job_at(name, key, server).await,
        }
    }

    async fn completed(&self, draft: Option<Draft>, server: Option<&Arc<dyn Server>>) -> Result<Option<Found>> {
        let (Some(draft), Some(server)) = (draft, server) else { return Ok(None) };
        let all = self.scope.backend().servers();
        Ok(self.complete(vec![draft], server, &all, &mut Labels::default()).await.pop())
    }

    /// `is_token`: which strings are tokens.
    async fn lock_at(
        &self,
        name: &Arc<str>,
        key: &str,
        server: Option<&Arc<dyn Server>>,
        is_token: fn(&[u8]) -> bool,
    ) -> Result<Option<Draft>> {
        let may_have_tokens = self.lock_is_small(name, key, server).await?;
        let counter = keys::fence_counter(key).to_string();
        let mut asked = vec![(&reentrant::INSPECT, key), (&token::INSPECT, key)];
        asked.extend(may_have_tokens.then_some((&token::INSPECT, &*counter)));
        let mut answers = self.answers(name, &asked).await?.into_iter();
        let [Some(hash), Some(string)] = [answers.next(), answers.next()] else { return Ok(None) };
        let counter = answers.next();
        let refused = |fault| Error::from_fault(fault, name, Op::Inspect);
        let is_wrong_type = |fault: &Fault| fault.kind == FaultKind::WrongType;
        match (hash, string) {
            (Ok(Value::Array(parts)), _) => {
                let Some((ttl, pairs)) = parts.split_first() else { return Ok(None) };
                let counter = match counter {
                    Some(Ok(Value::Array(counter))) => counter.into_iter().nth(1),
                    _ => None,
                };
                let Some(ttl) = questions::ttl_of(ttl) else { return Ok(None) };
                let draft = look::lock(Arc::clone(name), key, ttl, pairs, counter.as_ref());
                draft.map(Some).ok_or_else(|| no_lock(name, "a hash that is no lock"))
            }
            (Err(fault), Ok(Value::Array(parts))) if is_wrong_type(&fault) => match &parts[..] {
                [ttl, Value::Bytes(token)] if is_token(token) => match questions::ttl_of(ttl) {
                    Some(ttl) => Ok(look::token_lock(Arc::clone(name), key, ttl, token)),
                    None => Ok(None),
                },
                _ => Ok(None),
            },
            // It was one thing for the one and something else for the other, or it is neither.
            (Err(hash), Err(string)) if is_wrong_type(&hash) && is_wrong_type(&string) => {
                Err(no_lock(name, "neither a hash nor a string"))
            }
            (Ok(_), _) => Ok(None),
            (Err(fault), Ok(_)) if is_wrong_type(&fault) => Ok(None),
            (Err(fault), _) => Err(refused(fault)),
        }
    }

    async fn job_at(&self, name: &Arc<str>, of: &str, server: Option<&Arc<dyn Server>>) -> Result<Option<Draft>> {
        self.job_is_small(name, of, server).await?;
        let record = keys::job_record(of).to_string();
        let refused = |fault| Error::from_fault(fault, name, Op::Inspect);
        let Some(answer) = self.answers(name, &[(&job::INSPECT, &record)]).await?.pop() else { return Ok(None) };
        let answer = answer.map_err(|fault| match fault.kind {
            FaultKind::WrongType => no_lock(name, "something else where a job's record would be"),
            _ => refused(fault),
        })?;
        let read = locks::job_record(&answer);
        let record = read.ok_or_else(|| refused(Fault::unexpected(job::INSPECT.path, &answer)))?;
        let Some(record) = record else { return Ok(None) };
        let draft = look::job(Arc::clone(name), of, record);
        draft.map(Some).ok_or_else(|| no_lock(name, "a job's record that says who is at it in words of somebody else"))
    }

    /// What each of these scripts says of its key.
    async fn answers(&self, name: &Arc<str>, asked: &[(&'static Script, &str)]) -> Result<Vec<Answer>> {
        if let Scripting::Compares(_) = self.scope.backend().scripting() {
            return self.plain_answers(asked).await;
        }
        let keys: Vec<[&str; 1]> = asked.iter().map(|(_, key)| [*key]).collect();
        let call = |((script, _), keys)| Call { script, keys, args: &[], dispatch: None, polled: Polled::ByCaller };
        let calls: Vec<Call<'_>> = asked.iter().copied().zip(keys.iter().map(|keys| &keys[..])).map(call).collect();
        let backend = self.scope.backend();
        let answers = backend.run_many(&calls, self.engine.command_timeout());
        let answers: Pending<std::result::Result<_, Fault>> = Box::pin(async move { Ok(answers.await) });
        self.engine.looked(name, answers).await
    }

    /// The same by commands, in the words of the scripts.
    async fn plain_answers(&self, asked: &[(&'static Script, &str)]) -> Result<Vec<Answer>> {
        let Some(server) = self.scope.backend().servers().pop() else { return Ok(Vec::new()) };
        let free = || Value::Numbers([-2].into_iter().collect());
        let mut answers = Vec::new();
        for (script, key) in asked {
            let key = key.as_bytes();
            let value = if std::ptr::eq(*script, &raw const token::INSPECT) {
                questions::string(key)
            } else {
                questions::pairs(key)
            };
            let mut parts = self.ask(&server, vec![questions::ttl(key), value, questions::time()]).await?.into_iter();
            let (Some(ttl), Some(value), Some(now)) = (parts.next(), parts.next(), parts.next()) else { break };
            answers.push(match (ttl, value) {
                (Ok(Value::Int(-2)), Ok(_)) if std::ptr::eq(*script, &raw const job::INSPECT) => now
                    .map(|now| Value::Numbers([-2, questions::now_ms(&now).unwrap_or_default()].into_iter().collect())),
                (Ok(Value::Int(-2)), Ok(_)) => Ok(free()),
                (Ok(ttl), Ok(Value::Array(pairs))) => {
                    let now = now.ok().filter(|_| std::ptr::eq(*script, &raw const job::INSPECT));
                    let now = now.and_then(|now| questions::now_ms(&now)).map(Value::Int);
                    Ok(Value::Array([ttl].into_iter().chain(now).chain(pairs).collect()))
                }
                (Ok(ttl), Ok(value @ Value::Bytes(_))) => Ok(Value::Array(vec![ttl, value])),
                (Ok(_), Ok(_)) => Ok(free()),
                (Err(fault), _) | (_, Err(fault)) => Err(fault),
            });
        }
        Ok(answers)
    }
}

/// Whoever names a string says that it is a lock.
fn any_string(_: &[u8]) -> bool {
    true
}

impl Client {
    /// What this name is: the lock, if it is held; if not, the job of this name, if it has a record; `None` if there is neither. To
    /// know of a job beside a lock of its name there is [`Client::inspect_job`].
    ///
    /// Any string of up to 4 KiB is a token lock here: whoever names it knows what it is. Nothing is read of a key that is larger than
    /// what locks and jobs have.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] without an answer within the command timeout, [`Error::Refused`] if the server will not, or if the key
    /// holds something that is no lock or too large for one, [`Error::Protocol`] if the job's record is none, [`Error::Invalid`] for a bad name,
    /// [`Error::Closed`]. That it may not say who listens, or what holders call themselves, is no error.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let client = relatch::Client::embedded();
    /// let guard = client.fenced_lock("account:17").lock().await?;
    /// let found = client.inspect_key("account:17").await?.expect("it is held");
    /// assert_eq!(found.holders[0].id.client_id(), Some(client.id()));
    /// assert_eq!(found.fence, guard.fence());
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
    pub async fn inspect_key(&self, name: impl AsRef<str>) -> Result<Option<Found>> {
        Looker::of(self).inspect_key(name.as_ref()).await
    }

    /// What is known of the job of this name, whose period need not be known; `None` where that is nothing.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect_key`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// if let Some(record) = client.inspect_job("report").await?.and_then(|found| found.job) {
    ///     println!("{} attempts in the period of {:?}", record.attempts, record.period);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
    pub async fn inspect_job(&self, name: impl AsRef<str>) -> Result<Option<Found>> {
        Looker::of(self).inspect_job(name.as_ref()).await
    }
}
