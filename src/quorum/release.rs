//! Votes for an end: of a hold, of a part of it, and of whoever's it is.

use std::{future::poll_fn, sync::Arc};

use super::{
    ballot::{self, Settled, Word},
    everywhere::Everywhere,
    fleet::Mask,
    master::Master,
    report::Said,
    round::Round,
    stragglers::unheard,
    words::{is_expired, most, nothing, published, said_of_letting, word_of_letting},
};
use crate::{
    backend::{Fault, Pending},
    engine::{Forced, HoldNumber, Letting, Note, Sight},
};

impl Everywhere {
    /// Lets go of it, or of a part of it.
    pub(super) async fn release(self: Arc<Self>, number: HoldNumber, holds: u32, note: Note) -> Result<Letting, Fault> {
        let live = if holds == 0 { self.fleet.over(number) } else { None };
        let lease = live.as_ref().map_or(self.fleet.terms.watchdog, |live| live.lease);
        let (mut absent, mut unclean) = (Mask::default(), Mask::default());
        if let Some(live) = live {
            let withdrawn = live.leaving.iter().filter(|(_, dispatch)| dispatch.withdraw()).map(|(at, _)| *at);
            (absent, unclean) = (withdrawn.fold(live.absent, Mask::with), live.unclean);
        }
        let mut round = self.round(self.fleet.terms.watchdog);
        for (at, master) in self.fleet.masters.iter().enumerate() {
            if absent.has(at) {
                round.skip(master, Word::Gone);
            } else {
                round.ask(master, self.members[at].release(number, holds, note), None);
            }
        }
        let word = |_: &Master, answer: &Result<Letting, Fault>| word_of_letting(answer);
        let decide = if holds == 0 { ballot::ended } else { ballot::changed };
        let verdict = poll_fn(|cx| round.poll(cx, word, |round| decide(&round.words()))).await;
        let letting = self.letting(verdict, holds, &round);
        if holds > 0 {
            self.heard_later(&mut round);
            return letting;
        }
        for (at, asked) in round.asked.iter().enumerate() {
            if unclean.has(at) {
                self.place(at, number, lease).reap();
            }
            // Where nobody did it whoever asked does so again.
            if let Some(Err(fault)) = &asked.answer
                && letting.is_ok()
            {
                self.place(at, number, lease).owe(fault);
            }
        }
        for (at, reply) in unheard(&mut round.asked) {
            self.place(at, number, lease).releasing(reply);
        }
        letting
    }

    fn letting<R>(&self, verdict: Settled, holds: u32, round: &Round<R, Letting>) -> Result<Letting, Fault> {
        match verdict {
            Settled::Done => Ok(Letting::Done { holds, published: published(&round.asked) }),
            // Nobody else has it where most say so.
            Settled::Gone if is_expired(&round.asked) => Ok(Letting::Expired),
            Settled::Gone => Ok(Letting::NotHeld),
            Settled::TooFew => Err(self.fleet.too_few(self.key(), &round.asked, said_of_letting)),
        }
    }

    pub(super) async fn force_release(self: Arc<Self>, seen: Sight) -> Result<Forced, Fault> {
        let mut round = self.round(self.fleet.terms.watchdog);
        for (at, master) in self.fleet.masters.iter().enumerate() {
            round.ask(master, self.members[at].force_release(&seen), None);
        }
        let word = |_: &Master, answer: &Result<Forced, Fault>| match answer {
            Ok(Forced::Done { .. }) => Word::Yes,
            Ok(Forced::Gone) => Word::Gone,
            Err(fault) => nothing(fault),
        };
        let verdict = poll_fn(|cx| round.poll(cx, word, |round| ballot::ended(&round.words()))).await;
        self.heard_later(&mut round);
        match verdict {
            Settled::Done => {
                let told = round.asked.iter().filter_map(|asked| match asked.answer {
                    Some(Ok(Forced::Done { published })) => Some(published),
                    _ => None,
                });
                Ok(Forced::Done { published: most(told) })
            }
            Settled::Gone => Ok(Forced::Gone),
            Settled::TooFew => {
                let said = |forced: &Forced| matches!(forced, Forced::Done { .. }).then_some(Said::Granted);
                Err(self.fleet.too_few(self.key(), &round.asked, said))
            }
        }
    }

    /// An end that each master is asked for in its own words.
    pub(crate) fn ends(
        self: &Arc<Self>,
        asked: Vec<Pending<Result<Letting, Fault>>>,
    ) -> Pending<Result<Letting, Fault>> {
        let at = Arc::clone(self);
        Box::pin(async move {
            let mut round = at.round(at.fleet.terms.watchdog);
            for (master, reply) in at.fleet.masters.iter().zip(asked) {
                round.ask(master, reply, None);
            }
            let word = |_: &Master, answer: &Result<Letting, Fault>| word_of_letting(answer);
            let verdict = poll_fn(|cx| round.poll(cx, word, |round| ballot::ended(&round.words()))).await;
            at.heard_later(&mut round);
            at.letting(verdict, 0, &round)
        })
    }
}
