//! What is worth a line in a log: emitted through `tracing`, whose subscribers may ask about locks themselves.

use std::sync::Arc;

use tracing::{Level, enabled};

use super::{compact_instant::millis, entry_ref::EntryRef, failure::error_of, tenure::Tenure};
use crate::{
    error::{LostCause, Op},
    name::Field,
    owner::Owner,
    state::{End, LogEvent},
};

/// A hold is over for its owner.
pub(super) fn ended(place: &EntryRef, tenure: &Tenure, event: LogEvent) {
    let (lock, owner) = (Field(place.name()), &tenure.owner);
    match event {
        LogEvent::Ended { end: End::Lost(cause), held } => {
            let cause = LostCause::from(cause);
            tracing::warn!(%lock, %owner, cause = ?cause, held_ms = millis(held), "lost");
        }
        LogEvent::Ended { end: End::Over, held } => tracing::debug!(%lock, %owner, held_ms = millis(held), "released"),
        LogEvent::RanOut { held } => tracing::debug!(%lock, %owner, held_ms = millis(held), "its lease is over"),
        LogEvent::Untaken => parked(place, owner),
        _ => {}
    }
}

pub(super) fn emit(place: &EntryRef, event: LogEvent) {
    let lock = Field(place.name());
    match event {
        LogEvent::Renewed => {
            if let Some(owner) = enabled!(Level::TRACE).then(|| holder(place)).flatten() {
                tracing::trace!(%lock, %owner, "renewed");
            }
        }
        LogEvent::OutOfOrder if place.engine.first_time("order", place.name()) => tracing::warn!(
            %lock,
            owner = holder(place).map(tracing::field::display),
            "an inner guard outlives an outer one: branches of one task share their owner's hold; see client.mutex"
        ),
        // Whoever closed the client knows that it gives all up.
        LogEvent::GaveUpRelease(_) if place.engine.is_closed() => {}
        LogEvent::GaveUpRelease(fault) => {
            let befell = place.entry.lock().fault();
            let error = error_of(fault.into(), befell, place, Op::Release);
            tracing::warn!(%lock, %error, "a release was given up: its lease ends the hold");
        }
        LogEvent::ReapedOldCopy(number) => {
            tracing::warn!(%lock, hold = %number, "released a hold that an old copy of a command left");
        }
        LogEvent::Nested(id) if enabled!(Level::DEBUG) => {
            let hold =
                place.look(|name, now| name.held_under(id, now).map(|hold| (hold.share.owner.clone(), hold.granted())));
            if let Some((owner, holds)) = hold {
                tracing::debug!(%lock, %owner, holds, "nested");
            }
        }
        // One that does not wait says so itself.
        LogEvent::Contended(id) => {
            let asker = {
                let name = &place.entry.lock().name;
                if place.engine.was_heard() { name.asker(id).map(Arc::clone) } else { None }
            };
            asker.into_iter().for_each(|asker| asker.contended(place.name()));
        }
        // Its caller says so, or whoever performs the end; the rest is said, or of no use.
        LogEvent::OutOfOrder
        | LogEvent::Granted(_)
        | LogEvent::Nested(_)
        | LogEvent::Passed(_)
        | LogEvent::HandedOver(_)
        | LogEvent::Ended { .. }
        | LogEvent::RanOut { .. }
        | LogEvent::Untaken
        | LogEvent::TooLate => {}
    }
}

/// Whose the live hold is.
fn holder(place: &EntryRef) -> Option<Owner> {
    place.look(|name, _| name.holder().map(|tenure| tenure.owner.clone()))
}

/// Somebody did not come for its turn: said once a name.
pub(super) fn parked(place: &EntryRef, owner: &Owner) {
    if place.engine.first_time("parked", place.name()) {
        tracing::warn!(
            lock = %Field(place.name()),
            %owner,
            "an acquisition is neither polled nor dropped: when its turn came others waited, and now go first"
        );
    }
}

/// Guards that are dropped at once, again and again.
pub(super) fn unused(place: &EntryRef, owner: &Owner) {
    let lock = Field(place.name());
    tracing::warn!(
        %lock,
        %owner,
        "guards are dropped at once, again and again: the guard is the lock; keep it for as long as the work takes"
    );
}
