//! A vote that nobody won, or not we: what it got is given back at once, and the next try waits.

use std::time::Duration;

use super::{
    command::KeptBy,
    cx::Cx,
    effect::{Share, Told},
    env::one_more,
    name::Name,
    parts::contender::{Try, WantOf},
    patience::{resting, waits_on},
    sleep::SHORTEST,
};

/// The first rest after a vote that nobody won is no longer than so many round trips.
const SPLIT_TRIPS: u32 = 4;

/// No such rest is longer.
const LONGEST_SPLIT: Duration = Duration::from_millis(250);

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn split(
        &mut self,
        attempt: &Try,
        retry_in: Option<Duration>,
        kept_by: KeptBy,
        cx: &mut Cx<'_, '_, W, S>,
    ) {
        // What it got keeps others out, and may not be added to. It was no hold, so no turn ends with it.
        if let Some(why) = self.finished_number(cx) {
            self.let_go(why, cx);
        }
        match kept_by {
            KeptBy::Holder => self.busy(attempt, retry_in, cx),
            // Nobody has it: that is no turn of others, and a slice goes on where it stood.
            KeptBy::Contenders => self.rest_after_split(retry_in, cx),
        }
    }

    /// A vote that others took part in, and nobody won. All who did rest for a time of their own: otherwise the message of what each
    /// gives back would wake the others at once, for the same vote again.
    pub(crate) fn rest_after_split(&mut self, retry_in: Option<Duration>, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender_mut() else { return };
        self.trouble = None;
        if !waits_on(contender, cx) {
            return self.end_contender(Some(Told::Busy), cx);
        }
        let first = (SPLIT_TRIPS * cx.env.server.round_trip()).clamp(SHORTEST, LONGEST_SPLIT);
        let longest = retry_in.map_or(LONGEST_SPLIT, |told| told.clamp(SHORTEST, LONGEST_SPLIT));
        let resume = cx.now() + cx.env.pause((first, longest), contender.rests);
        contender.rests = one_more((first, LONGEST_SPLIT), contender.rests);
        contender.stage = resting(resume, contender.who.until(), WantOf::Key);
    }
}
