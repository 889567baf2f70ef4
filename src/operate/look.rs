//! What some keys are, by questions that cost a server little: nothing is read of a key before it is known to be small, and to look
//! like one of ours.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use super::{Found, Holder, HolderId, Kind, Looker, names::Candidate, size};
use crate::{
    backend::{
        Fault, FaultKind, Question, Server, Value,
        questions::{self, Shape},
    },
    error::{Error, Op, Result},
    keys,
    locks::{self, JobRecord},
};

/// The most fields that a hash of ours has, with room to spare.
pub(super) const MOST_FIELDS: i64 = 16;

/// The longest counter of tokens, in bytes: the digits of the server's largest integer.
pub(super) const LONGEST_FENCE: i64 = 19;

/// So long is a token that some library draws, in bytes.
const TOKEN: RangeInclusive<i64> = 20..=64;

/// All fields that a job's record can have, and those that each one has.
const JOB_FIELDS: [&str; 8] = ["start", "attempts", "run", "until", "since", "by", "at", "last"];
const JOB_NEEDS: [&str; 2] = ["start", "attempts"];

/// What a key turned out to be, and where those who wait for it listen.
pub(super) struct Draft {
    pub(super) found: Found,
    pub(super) channel: String,
}

/// What came of the inspection of one key.
pub(super) enum Inspected {
    Draft(Box<Draft>),
    /// Its slot is another node's.
    Elsewhere(Candidate, Shape),
}

/// Whether a node is asked of keys whose slots are not its own yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slots {
    Own,
    Coming,
}

/// What a key is, as far as is known before its values are.
enum Likely {
    /// The counter of its tokens may be one.
    Fenced,
    /// What is where its counter would be is none.
    Plain,
    Token,
    Job,
}

impl Looker {
    /// What these keys of a server are. Those that are none of ours, are gone, or may not be read, are left out.
    pub(super) async fn look(
        &self,
        server: &Arc<dyn Server>,
        candidates: Vec<(Candidate, Shape)>,
        slots: Slots,
    ) -> Result<Vec<Inspected>> {
        let (mut inspected, nobody) = (Vec::new(), Arc::from(""));
        // Small enough?
        let sized = |(it, shape): &(Candidate, Shape)| {
            let memory = (*shape == Shape::Hash).then(|| size::memory(&it.key));
            [questions::size(*shape, it.key.as_bytes())].into_iter().chain(memory)
        };
        let asked = candidates.iter().flat_map(sized).collect();
        let mut sizes = self.ask_about(&nobody, server, asked, slots).await?.into_iter();
        let mut small = Vec::new();
        for (candidate, shape) in candidates {
            let Some(size) = sizes.next() else { break };
            let memory = if shape == Shape::Hash { sizes.next() } else { None };
            let is_large = matches!(memory, Some(Ok(Value::Int(bytes))) if size::largest(&candidate.key) < bytes);
            match (told(size, &mut inspected, (&candidate, shape))?, shape) {
                (Some(Value::Int(1..=MOST_FIELDS)), Shape::Hash) if !is_large => small.push((candidate, shape)),
                (Some(Value::Int(size)), Shape::String) if TOKEN.contains(&size) => small.push((candidate, shape)),
                _ => {}
            }
        }
        // Of the right fields?
        let hashes = || small.iter().filter(|(_, shape)| *shape == Shape::Hash);
        let asked = hashes().map(|(it, _)| questions::fields(it.key.as_bytes())).collect();
        let mut fields = self.ask_about(&nobody, server, asked, slots).await?.into_iter();
        let mut likely = Vec::new();
        for (candidate, shape) in small {
            if shape == Shape::String {
                likely.extend(candidate.lock.is_some().then_some((candidate, Likely::Token)));
                continue;
            }
            let Some(answer) = fields.next() else { break };
            if let Some(fields) = told(answer, &mut inspected, (&candidate, shape))?
                && let Some(kind) = kind_of(&candidate, &fields)
            {
                likely.push((candidate, kind));
            }
        }
        // And is its counter small?
        let locks = likely.iter_mut().filter(|(_, kind)| matches!(kind, Likely::Fenced));
        let mut locks: Vec<_> = locks.collect();
        let counter = |candidate: &Candidate| keys::fence_counter(&candidate.key);
        let asked = locks.iter().map(|(it, _)| questions::size(Shape::String, counter(it).bytes())).collect();
        let lengths = self.ask_about(&nobody, server, asked, slots).await?;
        for ((_, kind), length) in locks.iter_mut().zip(lengths) {
            if matches!(length, Ok(Value::Int(length)) if LONGEST_FENCE < length) {
                *kind = Likely::Plain;
            }
        }
        let asked = likely.iter().flat_map(|(candidate, kind)| values(candidate, kind)).collect();
        let mut answers = self.ask_about(&nobody, server, asked, slots).await?.into_iter();
        for (candidate, kind) in likely {
            let mut parts = Vec::new();
            for answer in answers.by_ref().take(values(&candidate, &kind).len()) {
                parts.push(told(answer, &mut inspected, (&candidate, kind.shape()))?);
            }
            inspected.extend(drafted(&candidate, &kind, parts).map(|draft| Inspected::Draft(Box::new(draft))));
        }
        // One that went elsewhere said so to each question.
        inspected.dedup_by(
            |one, other| matches!((one, other), (Inspected::Elsewhere(one, _), Inspected::Elsewhere(other, _)) if one == other),
        );
        Ok(inspected)
    }
}

impl Likely {
    fn shape(&self) -> Shape {
        if let Self::Token = self { Shape::String } else { Shape::Hash }
    }
}

/// An answer of a key's. `None`: it is not ours to know. An error is one that the next key would get, too.
fn told(
    answer: std::result::Result<Value, Fault>,
    inspected: &mut Vec<Inspected>,
    (candidate, shape): (&Candidate, Shape),
) -> Result<Option<Value>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        // It is something else by now, or nobody's business.
        Err(fault) if fault.kind == FaultKind::WrongType || questions::is_of_a_key(&fault) => Ok(None),
        Err(fault) if questions::is_elsewhere(&fault) => {
            inspected.push(Inspected::Elsewhere(candidate.clone(), shape));
            Ok(None)
        }
        Err(fault) => Err(Error::from_fault(fault, &Arc::from(""), Op::Inspect)),
    }
}

/// What a hash with these fields may be.
fn kind_of(candidate: &Candidate, fields: &Value) -> Option<Likely> {
    let Value::Array(fields) = fields else { return None };
    let fields: Vec<&str> = fields.iter().map(questions::text).collect::<Option<_>>()?;
    if candidate.lock.is_some() && !fields.is_empty() && fields.iter().all(|it| HolderId::of_field(it).is_some()) {
        return Some(Likely::Fenced);
    }
    let is_job = JOB_NEEDS.iter().all(|it| fields.contains(it)) && fields.iter().all(|it| JOB_FIELDS.contains(it));
    (candidate.job.is_some() && is_job).then_some(Likely::Job)
}

/// What is asked of a key that is likely of this kind.
fn values(candidate: &Candidate, kind: &Likely) -> Vec<Question> {
    let key = candidate.key.as_bytes();
    match kind {
        Likely::Plain => vec![questions::ttl(key), questions::pairs(key)],
        Likely::Fenced => {
            let counter = keys::fence_counter(&candidate.key);
            vec![questions::ttl(key), questions::pairs(key), questions::string(counter.bytes())]
        }
        Likely::Token => vec![questions::ttl(key), questions::string(key)],
        Likely::Job => vec![questions::ttl(key), questions::pairs(key), questions::time()],
    }
}

fn drafted(candidate: &Candidate, kind: &Likely, parts: Vec<Option<Value>>) -> Option<Draft> {
    let mut parts = parts.into_iter();
    let (ttl, value) = (parts.next()??, parts.next()??);
    let Value::Int(ttl_ms) = ttl else { return None };
    let more = parts.next().flatten();
    match kind {
        Likely::Plain | Likely::Fenced => {
            let Value::Array(pairs) = value else { return None };
            lock(candidate.lock.clone()?, &candidate.key, questions::ttl_of(&ttl)?, &pairs, more.as_ref())
        }
        Likely::Token => {
            let Value::Bytes(token) = value else { return None };
            let is_one = looks_drawn(&token);
            is_one
                .then(|| token_lock(candidate.lock.clone()?, &candidate.key, questions::ttl_of(&ttl)?, &token))
                .flatten()
        }
        Likely::Job => {
            let (Value::Array(pairs), Some(now)) = (value, more) else { return None };
            let now_ms = questions::now_ms(&now)?;
            let record = [Value::Int(ttl_ms), Value::Int(now_ms)].into_iter().chain(pairs).collect();
            let (name, of) = candidate.job.clone()?;
            job(name, &of, locks::job_record(&Value::Array(record))??)
        }
    }
}

/// A lock by the fields and the counts of its hash, and by the counter of its tokens.
pub(super) fn lock(
    name: Arc<str>,
    key: &str,
    ttl: Option<Duration>,
    pairs: &[Value],
    counter: Option<&Value>,
) -> Option<Draft> {
    let holder = |pair: &[Value]| {
        let [field, count] = pair else { return None };
        let (id, count) = (HolderId::of_field(questions::text(field)?)?, questions::text(count)?.parse().ok()?);
        Some(Holder { id, count, label: None })
    };
    let holders: Vec<_> =
        pairs.chunks(2).map(holder).collect::<Option<_>>().filter(|them: &Vec<_>| !them.is_empty())?;
    let fence = counter.and_then(questions::text).and_then(|fence| fence.parse().ok());
    let kind = if fence.is_some() { Kind::Fenced } else { Kind::Plain };
    let found = Found { name, kind, holders, listeners: None, ttl, fence, job: None };
    Some(Draft { found, channel: keys::lock_channel(key).to_string() })
}

/// A token lock by what its key holds.
pub(super) fn token_lock(name: Arc<str>, key: &str, ttl: Option<Duration>, token: &[u8]) -> Option<Draft> {
    let holders = vec![Holder { id: HolderId::of_token(&crate::backend::redis::digest(token)), count: 1, label: None }];
    let found = Found { name, kind: Kind::Token, holders, listeners: None, ttl, fence: None, job: None };
    Some(Draft { found, channel: keys::token_channel(key).to_string() })
}

/// A job by its record; none if somebody is at it who is no holder.
pub(super) fn job(name: Arc<str>, of: &str, record: JobRecord) -> Option<Draft> {
    let holder = |id| Holder { id, count: 1, label: None };
    let at = record.running.as_ref();
    let holders = match at.map(|at| HolderId::of_field(&format!("{}:{}", at.client_id, at.hold_id))) {
        Some(id) => vec![holder(id?)],
        None => Vec::new(),
    };
    let ttl = record.kept_for;
    let found = Found { name, kind: Kind::Job, holders, listeners: None, ttl, fence: None, job: Some(record) };
    Some(Draft { found, channel: keys::job_channel(of).to_string() })
}

/// Whether a text looks like one that a library drew by chance: long enough, of digits and letters in any of the usual codes.
pub(super) fn looks_drawn(token: &[u8]) -> bool {
    let of_a_code = |it: &u8| it.is_ascii_alphanumeric() || b"+/-_=".contains(it);
    token.iter().all(of_a_code)
        && token.iter().any(u8::is_ascii_digit)
        && token.iter().any(u8::is_ascii_alphabetic)
        && TOKEN.contains(&i64::try_from(token.len()).unwrap_or(i64::MAX))
}
