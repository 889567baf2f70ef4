//! What the server says of a periodic job: how its answers are read, and the latest of them. It asks nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use crate::{backend::Value, engine::Attempt};

/// Milliseconds since 1970, by the server's clock.
pub(super) type Millis = u64;

/// So many bits of a fence are the attempt; the others are the start of its period in seconds.
const ATTEMPT_BITS: u32 = 16;

/// What an answer says, and when it came.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(super) standing: Standing,
    /// When the period began that it is about.
    pub(super) start_ms: Millis,
    pub(super) attempt: u32,
    pub(super) now_ms: Millis,
    heard: Instant,
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The attempt is ours. Nothing of `last_ms` is known where it is zero.
    Begun {
        last_ms: Millis,
    },
    Running {
        left_ms: u64,
        since_ms: Millis,
        by: String,
    },
    Done {
        at_ms: Millis,
        by: String,
    },
    Exhausted,
    Late,
    /// Nobody is at it, and somebody may be.
    Open,
}

impl Told {
    pub(super) fn new(standing: Standing, start_ms: Millis, attempt: u32, now_ms: Millis) -> Self {
        Self { standing, start_ms, attempt, now_ms, heard: Instant::now() }
    }

    /// What a begin was answered.
    pub(super) fn read(answer: &Value) -> Option<Self> {
        let (numbers, by) = match answer {
            Value::Numbers(numbers) => (numbers.to_vec(), None),
            Value::Array(parts) => {
                let (Value::Bytes(by), numbers) = parts.split_last()? else { return None };
                let number = |part: &Value| if let Value::Int(number) = part { Some(*number) } else { None };
                let by = String::from_utf8_lossy(by).into_owned();
                (numbers.iter().map(number).collect::<Option<_>>()?, Some(by))
            }
            _ => return None,
        };
        let numbers: Vec<u64> = numbers.into_iter().map(|number| number.try_into().ok()).collect::<Option<_>>()?;
        let (&[status, left_ms, attempt, start_ms, now_ms], more) = numbers.split_first_chunk()?;
        let standing = match (status, more, by) {
            (1, &[last_ms], None) => Standing::Begun { last_ms },
            (0, &[since_ms], Some(by)) => Standing::Running { left_ms, since_ms, by },
            (2, &[at_ms], Some(by)) => Standing::Done { at_ms, by },
            (3, [], None) => Standing::Exhausted,
            (4, [], None) => Standing::Late,
            _ => return None,
        };
        Some(Self::new(standing, start_ms, u32::try_from(attempt).ok()?, now_ms))
    }

    pub(super) fn attempt(&self) -> Attempt {
        match self.standing {
            Standing::Begun { .. } => Attempt::Granted { holds: 1, fence: Some(self.fence()) },
            Standing::Running { left_ms, .. } => Attempt::Busy { retry_in: Some(Duration::from_millis(left_ms)) },
            Standing::Done { .. } | Standing::Exhausted | Standing::Late | Standing::Open => Attempt::Settled,
        }
    }

    /// When the last period with a success began, where the attempt is ours.
    pub(super) fn last(&self) -> Option<Millis> {
        if let Standing::Begun { last_ms } = self.standing {
            Some(last_ms).filter(|last_ms| *last_ms > 0)
        } else {
            None
        }
    }

    /// Grows over attempts and over periods.
    pub(super) fn fence(&self) -> u64 {
        (self.start_ms / 1000) << ATTEMPT_BITS | u64::from(self.attempt)
    }

    /// How long ago that was.
    pub(super) fn age(&self) -> Duration {
        self.heard.elapsed()
    }

    /// When the next period begins, by the monotonic clock: not before the server's clock says so.
    pub(super) fn next_period(&self, every: Duration) -> Instant {
        let next = Duration::from_millis(self.start_ms) + every;
        self.heard + next.saturating_sub(Duration::from_millis(self.now_ms))
    }
}

/// The period's start, and the attempt.
pub(super) fn of_fence(fence: u64) -> (Millis, u32) {
    ((fence >> ATTEMPT_BITS) * 1000, (fence & ((1 << ATTEMPT_BITS) - 1)) as u32)
}

pub(super) fn time(ms: Millis) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

/// What was told of a job last, to all of this client who ask for it.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    number: u64,
    told: Option<Told>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hears(&self, told: Told) -> Attempt {
        let attempt = told.attempt();
        let mut latest = self.lock();
        (latest.number, latest.told) = (latest.number + 1, Some(told));
        attempt
    }

    /// How much was told so far.
    pub(super) fn number(&self) -> u64 {
        self.lock().number
    }

    /// What was told last, if it was after so much.
    pub(super) fn since(&self, number: u64) -> Option<Told> {
        let latest = self.lock();
        latest.told.clone().filter(|_| latest.number > number)
    }
}

/// The boards of all jobs of a client that somebody has a handle of.
#[derive(Debug, Default)]
pub(super) struct Boards(Mutex<HashMap<Arc<str>, Weak<Board>>>);

impl Boards {
    pub(super) fn of(&self, key: &Arc<str>) -> Arc<Board> {
        let mut boards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(board) = boards.get(key).and_then(Weak::upgrade) {
            return board;
        }
        if boards.len() == boards.capacity() {
            boards.retain(|_, board| board.strong_count() > 0);
        }
        let board = Arc::default();
        boards.insert(Arc::clone(key), Arc::downgrade(&board));
        board
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[i64]) -> Value {
        Value::Numbers(numbers.iter().copied().collect())
    }

    fn with_text(numbers: &[i64], text: &str) -> Value {
        let numbers = numbers.iter().map(|number| Value::Int(*number));
        Value::Array(numbers.chain([Value::Bytes(text.into())]).collect())
    }

    #[test]
    fn every_answer_is_read_and_no_other() {
        let (a, by) = ("a:1", "a:1".to_owned());
        let rows = [
            (numbers(&[1, 0, 2, 4000, 5000, 3000]), Standing::Begun { last_ms: 3000 }),
            (
                with_text(&[0, 7, 2, 4000, 5000, 4500], a),
                Standing::Running { left_ms: 7, since_ms: 4500, by: by.clone() },
            ),
            (with_text(&[2, 0, 2, 4000, 5000, 4600], a), Standing::Done { at_ms: 4600, by }),
            (numbers(&[3, 0, 2, 4000, 5000]), Standing::Exhausted),
            (numbers(&[4, 0, 2, 4000, 5000]), Standing::Late),
        ];
        for (answer, standing) in rows {
            let told = Told::read(&answer).unwrap();
            assert_eq!((told.standing, told.attempt, told.start_ms, told.now_ms), (standing, 2, 4000, 5000));
        }
        let strange = [
            Value::Nil,
            Value::Int(1),
            numbers(&[]),
            numbers(&[1, 0, 2, 4000, 5000]),
            numbers(&[5, 0, 2, 4000, 5000]),
            numbers(&[3, 0, 2, 4000, 5000, 1]),
            numbers(&[1, 0, -2, 4000, 5000, 0]),
            numbers(&[1, 0, 1 << 40, 4000, 5000, 0]),
            with_text(&[1, 0, 2, 4000, 5000, 3000], a),
            with_text(&[2, 0, 2, 4000], a),
            Value::Array(vec![Value::Bytes("x".into()), Value::Bytes("a:1".into())]),
        ];
        for answer in strange {
            assert!(Told::read(&answer).is_none(), "{answer:?}");
        }
    }

    #[test]
    fn a_fence_is_the_period_in_seconds_and_the_attempt_and_fits_a_double() {
        let far = 253_402_300_799_000; // the last second of the year 9999
        for (start_ms, attempt) in [(0, 1), (1_764_342_000_000, 3), (far, 65_535)] {
            let fence = Told::new(Standing::Late, start_ms, attempt, start_ms).fence();
            assert_eq!(of_fence(fence), (start_ms, attempt));
            assert!(fence < 1 << 54);
        }
        let fence = |start_ms, attempt| Told::new(Standing::Late, start_ms, attempt, 0).fence();
        assert!(fence(1000, 65_535) < fence(2000, 1) && fence(2000, 1) < fence(2000, 2));
        assert!(fence(4_102_444_800_000, 65_535) < 1 << 53); // until the year 2100, and long after
    }

    #[test]
    fn boards_are_shared_while_somebody_has_one_and_forgotten_then() {
        let boards = Boards::default();
        let key: Arc<str> = Arc::from("a");
        let first = boards.of(&key);
        assert!(Arc::ptr_eq(&first, &boards.of(&key)));
        for number in 0..1000 {
            drop(boards.of(&Arc::from(number.to_string())));
        }
        assert!(boards.0.lock().unwrap().len() < 20 && Arc::ptr_eq(&first, &boards.of(&key)));
    }
}
