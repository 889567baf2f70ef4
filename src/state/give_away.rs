//! A hold becomes somebody else's, who knows its number and needs nothing of this process to extend or release it. From then on
//! it is neither renewed nor released here. Nor are old copies of its acquire: that release would be its own.

use super::{
    cx::Cx,
    effect::{Effect, End, LogEvent, Share},
    end::tell_of_end,
    env::Env,
    id::{HoldNumber, Id},
    name::Name,
    parts::tenant::Tenant,
};

impl<W, S: Share<W>> Name<W, S> {
    /// Gives the live hold away that has this ticket and nothing else. None where there is nothing to give.
    pub(crate) fn give_away(
        &mut self,
        id: Id,
        env: &mut Env<'_>,
        effects: &mut Vec<Effect<W, S>>,
    ) -> Option<HoldNumber> {
        let cx = &mut Cx::new(env, effects);
        self.expire(cx);
        let number = self.give(id, cx);
        // Whoever waits here tries at the server, like everybody else.
        self.follow(cx);
        debug_assert_eq!(self.check(cx.env), Ok(()));
        number
    }

    fn give(&mut self, id: Id, cx: &mut Cx<'_, '_, W, S>) -> Option<HoldNumber> {
        self.tenant.hold().filter(|hold| hold.has(id) && hold.count() == 1)?;
        let Tenant::Hold(mut hold) = self.tenant.take() else { return None };
        let held = cx.now() - hold.taken;
        cx.ended(hold.share.clone(), End::Over, LogEvent::Ended { end: End::Over, held });
        tell_of_end(&mut hold, cx);
        // It is still there, and nobody was told: no more is known of others than after a loss.
        self.slice.lost(cx.now());
        Some(hold.number)
    }
}
