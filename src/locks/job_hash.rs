//! The periodic job's protocol: one hash with the newest period, its attempts, who is at it, and the last success. What a user sees
//! of it is in `job.rs`.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use super::{
    job_told::{Board, Millis, Standing, Told, of_fence},
    replies::{heard, told},
    scope::Scope,
};
use crate::{
    backend::{Acknowledged, Arg, Call, Dispatch, Fault, Pending, Polled, Replicas, Reply, Value, decode},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Published, Renewal, RenewalGroup, Sight},
    keys::{self, HoldField},
    lease::whole_ms,
    script::job as scripts,
};

/// How a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    pub(super) every: Duration,
    pub(super) offset: Duration,
    pub(super) max_attempts: u16,
    /// The whole period, unless it is said.
    pub(super) within: Option<Duration>,
    /// Two periods, unless it is said.
    pub(super) keep: Option<Duration>,
}

impl Terms {
    pub(super) fn within(&self) -> Duration {
        self.within.unwrap_or(self.every)
    }

    fn keep(&self) -> Duration {
        self.keep.unwrap_or(self.every * 2)
    }
}

/// One periodic job.
pub(super) struct JobHash {
    scope: Arc<Scope>,
    name: Arc<str>,
    /// What a lock of this name would have: the channel is made of it.
    of: Arc<str>,
    key: Arc<str>,
    board: Arc<Board>,
    terms: Terms,
}

/// What is known of a job.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) now_ms: Millis,
    pub(super) ttl_ms: Option<u64>,
    pub(super) start_ms: Millis,
    pub(super) attempts: u32,
    /// Who runs it, until when, and since when.
    pub(super) run: Option<(String, Millis, Millis)>,
    /// Whose the period's success is, and when it came.
    pub(super) done: Option<(String, Millis)>,
    /// When the last period with a success began.
    pub(super) last_ms: Option<Millis>,
}

impl JobHash {
    pub(super) fn new(scope: Arc<Scope>, name: Arc<str>, of: Arc<str>, key: Arc<str>, terms: Terms) -> Self {
        let board = scope.jobs.of(&key);
        Self { scope, name, of, key, board, terms }
    }

    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// The same job, done otherwise.
    pub(super) fn on(&self, terms: Terms) -> Self {
        let (scope, name, of) = (Arc::clone(&self.scope), Arc::clone(&self.name), Arc::clone(&self.of));
        Self { scope, name, of, key: Arc::clone(&self.key), board: Arc::clone(&self.board), terms }
    }

    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    pub(super) fn client_id(&self) -> &str {
        &self.scope.client_id
    }

    /// Asks for what is known; nothing is where there is no record.
    pub(super) fn kept(&self) -> Pending<Result<(Option<Kept>, Millis), Fault>> {
        self.scope.run(&scripts::INSPECT, &[&self.key], &[], kept)
    }

    /// How a job stands of which this is known.
    pub(super) fn standing(&self, kept: Option<&Kept>, now_ms: Millis) -> Told {
        let (every, start_ms) = (ms(self.terms.every), self.start_ms(now_ms));
        let told = |standing, start_ms, attempt| Told::new(standing, start_ms, attempt, now_ms);
        let Some(kept) = kept else { return told(Standing::Open, start_ms, 0) };
        if let Some((by, until_ms, since_ms)) = kept.run.as_ref().filter(|(_, until_ms, _)| now_ms < *until_ms) {
            let (left_ms, since_ms, by) = (until_ms - now_ms, *since_ms, by.clone());
            return told(Standing::Running { left_ms, since_ms, by }, kept.start_ms, kept.attempts);
        }
        if kept.start_ms < start_ms || start_ms + every < kept.start_ms {
            return told(Standing::Open, start_ms, 0);
        }
        let standing = match &kept.done {
            Some((by, at_ms)) => Standing::Done { at_ms: *at_ms, by: by.clone() },
            None if u32::from(self.terms.max_attempts) <= kept.attempts => Standing::Exhausted,
            None if ms(self.terms.within()) < now_ms.saturating_sub(kept.start_ms) => Standing::Late,
            None => Standing::Open,
        };
        told(standing, kept.start_ms, kept.attempts)
    }

    /// When the period began that this time is in.
    fn start_ms(&self, now_ms: Millis) -> Millis {
        let (every, offset) = (ms(self.terms.every), ms(self.terms.offset));
        now_ms.saturating_sub(offset) / every * every + offset
    }

    /// How much was left, when the server answered, of the period that it was in.
    pub(super) fn left_when_told(&self, told: &Told) -> Duration {
        Duration::from_millis((self.start_ms(told.now_ms) + ms(self.terms.every)).saturating_sub(told.now_ms))
    }

    fn field(&self, number: HoldNumber) -> HoldField {
        HoldField::new(&self.scope.client_id, number.0)
    }

    /// What a begin says.
    fn begin<'a>(&self, field: &'a HoldField, lease: Duration) -> [Arg<'a>; 7] {
        let Terms { every, offset, max_attempts, .. } = self.terms;
        let time = |time| Arg::Int(whole_ms(time));
        let (within, keep) = (time(self.terms.within()), time(self.terms.keep()));
        [Arg::Bytes(field.bytes()), time(lease), time(every), time(offset), within, Arg::Int(max_attempts.into()), keep]
    }
}

fn ms(time: Duration) -> Millis {
    whole_ms(time).unsigned_abs()
}

impl fmt::Debug for JobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHash").field("name", &self.name).field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Protocol for JobHash {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn kind(&self) -> &'static str {
        "periodic job"
    }

    fn channel(&self) -> Arc<str> {
        Arc::from(&*keys::job_channel(&self.of))
    }

    fn passes(&self) -> bool {
        false
    }

    /// Whether there is anything left to do is the server's to say, each time.
    fn hands_over(&self) -> bool {
        false
    }

    fn options(&self) -> u64 {
        let mut options = DefaultHasher::new();
        self.terms.hash(&mut options);
        options.finish()
    }

    /// Nor is what was done under one lost, while nobody else has begun.
    fn expired_is_released(&self) -> bool {
        true
    }

    fn acquire(&self, number: HoldNumber, lease: Duration, _: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let (script, field, board) = (&scripts::ACQUIRE, self.field(number), Arc::clone(&self.board));
        let (keys, args) = (&[&*self.key][..], &self.begin(&field, lease));
        let (dispatch, polled) = (Some(dispatch), Polled::ByCaller);
        let answer = self.scope.backend.run(&Call { script, keys, args, dispatch, polled });
        Reply::Told(Box::pin(async move { Ok(board.hears(decode(script, &answer.await?, Told::read)?)) }))
    }

    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        let (script, field, board) = (&scripts::ACQUIRE, self.field(number), Arc::clone(&self.board));
        let (keys, args) = (&[&*self.key][..], &self.begin(&field, lease));
        let (dispatch, polled) = (Some(dispatch), Polled::ByUs);
        let answer = self.scope.backend.run_acknowledged(&Call { script, keys, args, dispatch, polled }, replicas);
        Box::pin(async move {
            let (answer, acknowledged) = answer.await?;
            Ok((board.hears(decode(script, &answer, Told::read)?), acknowledged))
        })
    }

    fn release(&self, number: HoldNumber, _: u32, note: Note) -> Reply<Letting> {
        let (field, channel) = (self.field(number), keys::job_channel(&self.of));
        let (word, start_ms) = match note {
            Note::Unused => ("unused", 0),
            Note::Failure(fence) => ("failure", of_fence(fence).0),
            Note::Success(fence) => ("success", of_fence(fence).0),
        };
        let (start, keep) = (Arg::Int(start_ms.cast_signed()), Arg::Int(whole_ms(self.terms.keep())));
        let publish = Arg::Text(self.scope.backend.publish_kind().command());
        let args = [Arg::Bytes(field.bytes()), Arg::Text(word), start, keep, publish, Arg::Bytes(channel.bytes())];
        let read = if self.scope.backend.counts(&self.key) { released::<true> } else { released::<false> };
        self.scope.reply(&scripts::RELEASE, &[&self.key], &args, None, Polled::ByUs, read)
    }

    /// Never asked for: see [`Protocol::hands_over`].
    fn hand_over(&self, _: HoldNumber, _: HoldNumber, _: Duration) -> Pending<Result<Moved, Fault>> {
        Box::pin(async { Ok(Moved::Gone) })
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
            let (kept, now_ms) = kept(answer)?;
            Some(kept.and_then(|kept| kept.run).map(|(by, until_ms, _)| {
                let ours = by.strip_prefix(&own).and_then(|number| number.parse().ok());
                let remaining_lease = Some(Duration::from_millis(until_ms.saturating_sub(now_ms)));
                Sight { ours: ours.into_iter().map(HoldNumber).collect(), holders: vec![(by, 1)], remaining_lease }
            }))
        })
    }

    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        let channel = keys::job_channel(&self.of);
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

/// What an end was answered; `COUNTS`: the server knows of all who listen.
fn released<const COUNTS: bool>(answer: &Value) -> Option<Letting> {
    let published = match *answer {
        Value::Int(listeners) => heard(listeners, COUNTS)?,
        _ => match *answer.numbers() {
            [1, 0, -1] => Published::No,
            // The first sending told of it.
            [1, 0, -2] => Published::Uncounted,
            [-1, 0, _] => return Some(Letting::NotHeld),
            _ => return None,
        },
    };
    Some(Letting::Done { holds: 0, published })
}

/// What a look showed, and the server's time.
pub(super) fn kept(answer: &Value) -> Option<(Option<Kept>, Millis)> {
    let parts = match answer {
        Value::Numbers(free) if free.first() == Some(&-2) => {
            return Some((None, free.get(1).copied()?.try_into().ok()?));
        }
        Value::Array(parts) => parts,
        _ => return None,
    };
    let (&[Value::Int(ttl_ms), Value::Int(now_ms)], fields) = parts.split_first_chunk()? else { return None };
    let mut known = HashMap::new();
    for pair in fields.chunks(2) {
        let [Value::Bytes(field), Value::Bytes(value)] = pair else { return None };
        known.insert(&field[..], std::str::from_utf8(value).ok()?);
    }
    let number = |field: &str| known.get(field.as_bytes()).map(|value| value.parse::<u64>().ok());
    let needed = |field: &str| number(field)?;
    let run = match known.get(&b"run"[..]) {
        Some(run) => Some(((*run).to_owned(), needed("until")?, needed("since")?)),
        None => None,
    };
    let done = match known.get(&b"by"[..]) {
        Some(by) => Some(((*by).to_owned(), needed("at")?)),
        None => None,
    };
    let attempts = u32::try_from(needed("attempts")?).ok()?;
    let last_ms = if known.contains_key(&b"last"[..]) { Some(needed("last")?) } else { None };
    let (now_ms, ttl_ms) = (u64::try_from(now_ms).ok()?, u64::try_from(ttl_ms).ok());
    Some((Some(Kept { now_ms, ttl_ms, start_ms: needed("start")?, attempts, run, done, last_ms }), now_ms))
}
