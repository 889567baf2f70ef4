//! The end of a hold, for whoever waits for it elsewhere than in a task of home: no timer of home tells of it in time if home
//! stands still.

use std::{task::Context, time::Duration};

use tokio::time::Instant;

use super::{alarm::Alarm, share::Share};

/// When a hold ends, for whoever waits for that elsewhere than in a task of home.
#[derive(Default)]
pub(super) struct Minding(Option<(Instant, Alarm)>);

impl Share {
    /// No timer of home tells of the hold's end in time if home stands still: whoever polls this elsewhere, or beside its
    /// workers, is woken when it comes, and the loss is noticed here.
    pub(super) fn minds_end(&self, Minding(alarm): &mut Minding, cx: &Context<'_>) {
        let engine = &self.place.engine;
        if engine.is_home() && !engine.is_beside_home() {
            *alarm = None;
            return;
        }
        // Noticed: whoever waits for the end is told.
        while let Some((end, left)) = self.lasts() {
            // One that is set too early is set anew when it has rung; the end may come nearer meanwhile.
            let stands = alarm.as_ref().is_some_and(|(at, alarm)| *at <= end && !alarm.has_rung(cx));
            if stands {
                break;
            }
            *alarm = engine.alarms().map(|alarms| (end, alarms.after(left)));
            if alarm.is_none() {
                break;
            }
        }
    }

    /// When the hold ends unless it is renewed, and how long it lasts until then, whether this guard still has a share of it or
    /// not.
    fn lasts(&self) -> Option<(Instant, Duration)> {
        let moment = self.place.engine.clock().moment();
        self.place.update(|state, fx| {
            state.expire_at(&self.place, moment, fx);
            let end = state.live(&self.tenure)?.end(moment);
            Some((end, end.saturating_duration_since(moment.now)))
        })
    }
}
