//! What is worth a line in a log: emitted through `tracing`, whose subscribers may ask about locks themselves.

use std::{sync::Arc, time::Duration};

use tracing::{Level, enabled};

use super::{entry::Place, tenure::Tenure};
use crate::{
    error::LostCause,
    name::Field,
    owner::Owner,
    state::{End, LogEvent},
};

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A hold ended for its owner, which had it for so long.
pub(super) fn ended(place: &Place, tenure: &Tenure, end: End, held: Option<Duration>) {
    let (lock, owner, held) = (Field(place.name()), &tenure.owner, held.unwrap_or_default());
    match end {
        End::Over => tracing::debug!(%lock, %owner, held_ms = millis(held), "released"),
        End::Lost(cause) => {
            let cause = LostCause::from(cause);
            tracing::warn!(%lock, %owner, cause = ?cause, held_ms = millis(held), "lost");
        }
    }
}

pub(super) fn emit(place: &Place, event: LogEvent) {
    let lock = Field(place.name());
    match event {
        LogEvent::Renewed => {
            if let Some(owner) = enabled!(Level::TRACE).then(|| holder(place)).flatten() {
                tracing::trace!(%lock, %owner, "renewed");
            }
        }
        LogEvent::OutOfOrder => tracing::warn!(
            %lock,
            owner = holder(place).map(tracing::field::display),
            "an inner guard outlives an outer one: branches of one task share their owner's hold; see client.mutex"
        ),
        LogEvent::GaveUpRelease => tracing::debug!(%lock, "a release had no answer until its lease was over"),
        LogEvent::ReapedOldCopy => {
            tracing::debug!(%lock, "an old copy of an acquire had taken the lock, and was released")
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
            let asker = place.look(|name, _| name.asker(id).map(Arc::clone));
            asker.into_iter().for_each(|asker| asker.contended(place.name()));
        }
        // Its caller says so.
        LogEvent::Granted(_)
        | LogEvent::Nested(_)
        | LogEvent::Passed(_)
        | LogEvent::HandedOver(_)
        | LogEvent::Ended { .. } => {}
    }
}

/// Whose the live hold is.
fn holder(place: &Place) -> Option<Owner> {
    place.look(|name, _| name.holder().map(|tenure| tenure.owner.clone()))
}

/// Guards that are dropped at once, again and again.
pub(super) fn unused(place: &Place, owner: &Owner) {
    let lock = Field(place.name());
    tracing::warn!(
        %lock,
        %owner,
        "guards are dropped at once, again and again: the guard is the lock; keep it for as long as the work takes"
    );
}
