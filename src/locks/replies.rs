//! How replies are read whose form all primitives share. What they mean to one of them is in its own file.

use std::time::Duration;

use crate::{
    backend::{Fault, UNCOUNTED, Value},
    engine::{Attempt, Published, Renewal},
};

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

pub(super) fn not_granted(status: Status, retry_in_ms: i64) -> Option<Attempt> {
    match status {
        Status::Busy => Some(Attempt::Busy { retry_in: u64::try_from(retry_in_ms).ok().map(Duration::from_millis) }),
        Status::Gone => Some(Attempt::Gone),
        Status::Done => None,
    }
}

/// Of a status and listeners; the latter of what is done, if anybody was told.
pub(super) fn told(answer: &Value, counts: bool) -> Option<Option<Published>> {
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
pub(super) fn renewals(answer: &Value, asked: usize) -> Option<Vec<Result<Renewal, Fault>>> {
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
