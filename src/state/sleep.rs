//! Where a busy answer decides to sleep, and what wakes the sleeper: the wake flag, the end of the TTL that the server told,
//! and a poll where nothing would wake it.

use std::time::Duration;

use super::{
    attempt::Comes,
    cx::Cx,
    effect::{Share, Told},
    env::{Publishes, one_more},
    name::Name,
    parts::contender::{Releases, Stage, Try},
    patience::waits_on,
};

/// An expired TTL may be a moment early, and a rest of nothing is none.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// Whoever sleeps for a TTL sleeps longer by chance, but by no more than this.
const LONGEST_JITTER: Duration = Duration::from_millis(15);

impl<W, S: Share<W>> Name<W, S> {
    /// Where the server did not know its script a release is sent again, behind the try, and the key is our own.
    pub(crate) fn overtook(&self, attempt: &Try) -> bool {
        attempt.behind && !self.releases.is_empty()
    }

    pub(crate) fn waits_for_releases(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender_mut() else { return };
        (contender.rests, self.trouble) = (0, None);
        contender.stage = Stage::Gated { since: cx.now(), releases: Releases::Answered };
    }

    /// Somebody else has the key.
    pub(crate) fn busy(&mut self, attempt: &Try, retry_in: Option<Duration>, cx: &mut Cx<'_, '_, W, S>) {
        if self.overtook(attempt) {
            return self.waits_for_releases(cx);
        }
        let Some(contender) = self.tenant.contender_mut() else { return };
        (contender.rests, self.trouble) = (0, None);
        if !attempt.finds_ours {
            self.slice.busy(attempt.request.sent, cx.env.settings);
        }
        self.sleep(retry_in, cx);
    }

    /// The key is somebody else's, for so long unless it is renewed.
    pub(crate) fn sleep(&mut self, retry_in: Option<Duration>, cx: &mut Cx<'_, '_, W, S>) {
        let (now, watchdog) = (cx.now(), cx.env.settings.watchdog);
        let Some(contender) = self.tenant.contender_mut() else { return };
        if !waits_on(contender, cx) {
            return self.end_contender(Some(Told::Busy), cx);
        }
        // A TTL that somebody stripped says nothing, and a long one may not be true any more: a deletion, an eviction and a
        // server's stepped clock send no message.
        let mut ttl = retry_in.map_or(watchdog, |told| told.min(watchdog));
        if !contender.copies.lost().is_none() {
            // An old copy may take the key for this number: the next try finds it as soon as it would be released otherwise.
            ttl = ttl.min(cx.env.settings.lease(contender.who.wish.lease).min(watchdog) / 3);
        }
        let jitter = cx.env.part_of((ttl / 64).clamp(SHORTEST, LONGEST_JITTER));
        let poll = now + cx.env.pause(cx.env.settings.polls, contender.polls);
        contender.stage = Stage::Sleeping { ttl: now + ttl.max(SHORTEST) + jitter, poll };
        self.listen(cx);
    }

    /// Asks for a subscription if there is none, and anybody tells.
    pub(crate) fn listen(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if cx.env.shape.publishes != Publishes::Never && self.subscription.open() {
            cx.listen();
        }
    }

    /// Nothing may wake who sleeps from now on. Those who hear of one interruption do not all ask in that moment.
    pub(crate) fn polls_soon(&mut self, cx: &Cx<'_, '_, W, S>) {
        if let Some(contender) = self.tenant.contender_mut()
            && let Stage::Sleeping { poll, .. } = &mut contender.stage
        {
            *poll = cx.now() + cx.env.pause(cx.env.settings.polls, contender.polls);
        }
    }

    /// Whether nothing may come that would wake the sleeper: it looks again every now and then.
    pub(crate) fn polls(&self, publishes: Publishes) -> bool {
        publishes != Publishes::Always || !self.subscription.is_live()
    }

    /// Something may have woken who sleeps.
    pub(crate) fn wake(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if self.subscription.flag()
            && let Some(contender) = self.tenant.contender_mut()
            && matches!(contender.stage, Stage::Sleeping { .. })
        {
            contender.stage = Stage::Gated { since: cx.now(), releases: Releases::Sent };
        }
        self.pass_gate(Comes::IfCalled, cx);
    }

    /// The sleep may be over by itself.
    pub(crate) fn look_at_sleeper(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let (now, polls) = (cx.now(), self.polls(cx.env.shape.publishes));
        let Some(contender) = self.tenant.contender_mut() else { return };
        let Stage::Sleeping { ttl, poll } = contender.stage else { return };
        if ttl <= now || polls && poll <= now {
            contender.polls = if now < ttl { one_more(cx.env.settings.polls, contender.polls) } else { 0 };
            contender.stage = Stage::Gated { since: now, releases: Releases::Sent };
        }
    }
}
