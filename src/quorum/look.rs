//! Looks at who holds: a vote whose answer is whom most masters name, or that most are taken, and a survey that asks each for its own word.

use std::{future::poll_fn, sync::Arc};

use super::{
    ballot::{self, Word},
    everywhere::Everywhere,
    master::Master,
    report::Said,
    words::{agreed, nothing, taken},
};
use crate::{
    backend::{Fault, Pending},
    engine::Sight,
};

impl Everywhere {
    pub(super) async fn inspect(self: Arc<Self>) -> Result<Option<Sight>, Fault> {
        let mut round = self.round(self.fleet.terms.watchdog);
        for (at, master) in self.fleet.masters.iter().enumerate() {
            round.ask(master, self.members[at].inspect(), None);
        }
        let word = |_: &Master, answer: &Result<Option<Sight>, Fault>| match answer {
            Ok(Some(_)) => Word::Yes,
            Ok(None) => Word::Gone,
            Err(fault) => nothing(fault),
        };
        let (n, q) = (self.members.len(), ballot::majority(self.members.len()));
        let agreement = poll_fn(|cx| {
            round.poll(cx, word, |round| {
                let said = round.asked.iter().filter_map(|asked| asked.answer.as_ref()?.as_ref().ok());
                let open = round.asked.iter().any(|asked| asked.word == Word::Open);
                let (heard, sights) = (said.clone().count(), said.flatten());
                // Those that were not heard may all be one holder's.
                let is_free = sights.clone().count() + n - heard < q;
                match agreed(sights.clone(), q) {
                    None if open && !is_free => None,
                    None => Some(taken(sights, q).map(Some).or(is_free.then_some(None))),
                    seen => Some(Some(seen)),
                }
            })
        });
        let agreed = agreement.await;
        let said = |sight: &Option<Sight>| sight.as_ref().map(|sight| Said::Busy { remaining: sight.remaining_lease });
        agreed.ok_or_else(|| self.fleet.too_few(self.key(), &round.asked, said))
    }

    /// Who holds, by one of the masters alone.
    pub(crate) fn look_at(&self, master: usize) -> Pending<Result<Option<Sight>, Fault>> {
        self.members[master].inspect()
    }
}
