//! The end of a hold, for whoever waits for it elsewhere than in a task of home: no timer of home tells of it in time if home
//! stands still.

use std::{sync::Arc, task::Context};

use super::share::{Minding, Share};
use crate::state::Instant;

impl Share {
    /// Whoever polls this elsewhere, or beside the workers of home, is woken when the end comes, and the loss is noticed here.
    pub(super) fn minds_end(&self, Minding(alarm): &mut Minding, cx: &Context<'_>) {
        let engine = &self.place.engine;
        if engine.is_home() && !engine.is_beside_home() {
            *alarm = None;
            return;
        }
        // Noticed: whoever waits for the end is told.
        while let Some((end, now)) = self.ends() {
            // One that is set too early is set anew when it has rung; the end may come nearer meanwhile.
            let stands = alarm.as_ref().is_some_and(|(at, alarm)| *at <= end && !alarm.has_rung(cx));
            if stands {
                break;
            }
            *alarm = engine.alarms().map(|alarms| (end, alarms.after(end - now)));
            if alarm.is_none() {
                break;
            }
        }
    }

    /// When the hold ends unless it is renewed, whether this guard still has a share of it or not, and what time it is.
    fn ends(&self) -> Option<(Instant, Instant)> {
        if self.tenure.end().is_some() {
            return None;
        }
        let looked = self.place.look(|name, now| {
            let its = name.live(now).filter(|hold| Arc::ptr_eq(&hold.share, &self.tenure));
            its.map(|hold| (hold.until(), now))
        });
        if looked.is_none() {
            self.check();
        }
        looked
    }
}
