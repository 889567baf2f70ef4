//! What answers count as in a ballot, and what many of them come to. It decides no ballot.

use std::{collections::HashMap, time::Duration};

use super::{ballot::Word, report::Said, round::Asked};
use crate::{
    backend::{Fault, FaultKind},
    engine::{Attempt, Letting, Published, Renewal, Sight},
};

pub(super) fn word_of_attempt(answer: &Result<Attempt, Fault>) -> Word {
    match answer {
        Ok(Attempt::Granted { .. }) => Word::Yes,
        Ok(Attempt::Busy { retry_in }) => Word::Busy { retry_in: *retry_in },
        Ok(Attempt::Gone | Attempt::Settled | Attempt::Split { .. }) => Word::Gone,
        Err(fault) => nothing(fault),
    }
}

pub(super) fn said_of_attempt(attempt: &Attempt) -> Option<Said> {
    match attempt {
        Attempt::Granted { .. } => Some(Said::Granted),
        Attempt::Busy { retry_in } => Some(Said::Busy { remaining: *retry_in }),
        Attempt::Gone | Attempt::Settled | Attempt::Split { .. } => None,
    }
}

/// That somebody else has it says more than that it is gone.
pub(super) fn word_of_letting(answer: &Result<Letting, Fault>) -> Word {
    match answer {
        Ok(Letting::Done { .. }) => Word::Yes,
        Ok(Letting::NotHeld) => Word::Busy { retry_in: None },
        Ok(Letting::Expired) => Word::Gone,
        Err(fault) => nothing(fault),
    }
}

pub(super) fn said_of_letting(letting: &Letting) -> Option<Said> {
    matches!(letting, Letting::Done { .. }).then_some(Said::Granted)
}

pub(super) fn word_of_renewal(answer: &Result<Renewal, Fault>) -> Word {
    match answer {
        Ok(Renewal::Renewed) => Word::Yes,
        Ok(Renewal::Gone) => Word::Gone,
        Err(fault) => nothing(fault),
    }
}

pub(super) fn nothing(fault: &Fault) -> Word {
    Word::Nothing { may_have_run: fault.may_have_run }
}

/// Whether nobody else has what ended: some say so, and nobody says that it is somebody else's.
pub(super) fn is_expired<R>(asked: &[Asked<R, Letting>]) -> bool {
    let says = |letting| asked.iter().any(|asked| matches!(asked.answer, Some(Ok(said)) if said == letting));
    says(Letting::Expired) && !says(Letting::NotHeld)
}

/// How many heard of an end, as far as masters told.
pub(super) fn published<R>(asked: &[Asked<R, Letting>]) -> Published {
    most(asked.iter().filter_map(|asked| match asked.answer {
        Some(Ok(Letting::Done { published, .. })) => Some(published),
        _ => None,
    }))
}

/// Those who listen do so at every master: the most that one of them counts is how many there are.
pub(super) fn most(told: impl Iterator<Item = Published>) -> Published {
    told.fold(Published::No, |most, told| match (most, told) {
        (Published::Uncounted, _) | (_, Published::Uncounted) => Published::Uncounted,
        (Published::To(most), Published::To(told)) => Published::To(most.max(told)),
        (Published::No, told) => told,
        (most, Published::No) => most,
    })
}

/// Whom so many masters name, with the time for which so many still will.
pub(super) fn agreed<'a>(said: impl Iterator<Item = &'a Sight>, q: usize) -> Option<Sight> {
    let mut by_holder: HashMap<&str, Vec<(&Sight, u32)>> = HashMap::new();
    for sight in said {
        for (holder, holds) in &sight.holders {
            by_holder.entry(holder).or_default().push((sight, *holds));
        }
    }
    let (holder, mut named) = by_holder.into_iter().find(|(_, named)| named.len() >= q)?;
    named.sort_by_key(|(sight, _)| sight.remaining_lease.unwrap_or(Duration::MAX));
    // One that was mended counts less until it is told.
    let holds = named.iter().map(|(_, holds)| *holds).max()?;
    let (sight, _) = named[named.len() - q];
    let (holders, remaining_lease, ours) =
        (vec![(holder.to_owned(), holds)], sight.remaining_lease, sight.ours.clone());
    Some(Sight { holders, remaining_lease, ours })
}

/// That so many masters are taken, though they name different holders: nobody else can have it, for as long as so many still are. A
/// vote of Redisson's has another name at each of them. All names are told, so that all of it can be ended.
pub(super) fn taken<'a>(said: impl Iterator<Item = &'a Sight>, q: usize) -> Option<Sight> {
    let mut taken: Vec<&Sight> = said.collect();
    taken.sort_by_key(|sight| sight.remaining_lease.unwrap_or(Duration::MAX));
    let remaining_lease = taken.get(taken.len().checked_sub(q)?)?.remaining_lease;
    let holders = taken.iter().flat_map(|sight| sight.holders.clone()).collect();
    let ours = taken.iter().flat_map(|sight| sight.ours.clone()).collect();
    Some(Sight { holders, remaining_lease, ours })
}

/// Its caller did not want it any more.
pub(super) fn withdrawn() -> Fault {
    Fault::of(FaultKind::Withdrawn, false, "it was withdrawn before it was sent")
}
