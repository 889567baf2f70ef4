//! Votes for a hold: for a fresh one, and for one more of one that is held.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    ballot::{self, Fresh, Settled, Word},
    everywhere::Everywhere,
    fleet::{Live, Mask, Standing},
    master::Master,
    round::{Each, Round},
    stragglers::Place,
    words::{said_of_attempt, withdrawn, word_of_attempt},
};
use crate::{
    backend::{Dispatch, Fault, Reply, Way},
    engine::{Attempt, HoldNumber},
};

/// What a vote leaves at the masters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    Nothing,
    Hold,
    /// What is about to be released.
    Votes,
}

impl Everywhere {
    /// A fresh hold.
    pub(super) async fn acquire(
        self: Arc<Self>,
        number: HoldNumber,
        lease: Duration,
        dispatch: Arc<Dispatch>,
    ) -> Result<Attempt, Fault> {
        self.fleet.identified(self.key(), lease).await?;
        // It leaves for all of them now, and its lease counts from here: a master that has no link yet may be told a little later.
        if !dispatch.leaves(Way::default()) {
            return Err(withdrawn());
        }
        let mut round = self.ask_for(number, lease, &dispatch);
        let (key, quarantine) = (Arc::clone(self.key()), self.fleet.terms.quarantine);
        let word = |master: &Master, answer: &Result<Attempt, Fault>| match answer {
            Ok(Attempt::Granted { .. }) if master.young_for(&key, quarantine, Instant::now()).is_some() => Word::Young,
            answer => word_of_attempt(answer),
        };
        let verdict = poll_fn(|cx| round.poll(cx, word, |round| ballot::fresh(&round.words()))).await;
        let attempt = match verdict {
            Fresh::Won => Ok(Attempt::Granted { holds: 1, fence: None }),
            Fresh::Busy { retry_in } => Ok(Attempt::Busy { retry_in }),
            Fresh::Split { retry_in, kept_by } => Ok(Attempt::Split { retry_in, kept_by }),
            Fresh::TooFew => Err(self.fleet.too_few(&key, &round.asked, said_of_attempt)),
        };
        let stays = match &attempt {
            Ok(Attempt::Busy { .. }) => Stays::Nothing,
            Ok(Attempt::Granted { .. }) => Stays::Hold,
            Ok(_) => Stays::Votes,
            // Nobody releases what ran nowhere.
            Err(fault) => {
                if fault.may_have_run {
                    Stays::Votes
                } else {
                    Stays::Nothing
                }
            }
        };
        self.decided(round, number, lease, stays, &dispatch);
        attempt
    }

    /// The question to each of them, after what is owed there: on one link they run in this order.
    fn ask_for(&self, number: HoldNumber, lease: Duration, dispatch: &Arc<Dispatch>) -> Round<Reply<Attempt>, Attempt> {
        let mut round = self.round(lease);
        for (at, master) in self.fleet.masters.iter().enumerate() {
            if !master.is_asked() {
                round.skip(master, Word::Nothing { may_have_run: false });
                continue;
            }
            for (owed, until) in master.take_owed(self.key()) {
                Place { until, ..self.place(at, owed, lease) }.let_go();
            }
            let wanted = Arc::clone(dispatch);
            let dispatch = Dispatch::new(move |_| wanted.is_wanted());
            round.ask(master, self.members[at].acquire(number, lease, 1, &dispatch), Some(dispatch));
        }
        round
    }

    /// What is known of the number from now on, and what is still to be heard of it.
    fn decided(
        &self,
        mut round: Round<Reply<Attempt>, Attempt>,
        number: HoldNumber,
        lease: Duration,
        stays: Stays,
        dispatch: &Arc<Dispatch>,
    ) {
        // Where it did not run nothing is to be released. What has not left yet leaves for a hold that lives: one that every master
        // has bears more than a bare majority.
        let (mut absent, mut later, mut leaving) = (Mask::default(), Each::new(), Vec::new());
        for (at, asked) in round.asked.iter_mut().enumerate() {
            let waits = asked.dispatch.as_ref().filter(|_| asked.reply.is_some());
            let never_left = match waits {
                Some(dispatch) if stays == Stays::Hold => {
                    leaving.push((at, Arc::clone(dispatch)));
                    false
                }
                waits => waits.is_some_and(|dispatch| dispatch.withdraw()),
            };
            match (asked.reply.take().filter(|_| !never_left), &asked.answer) {
                (Some(reply), _) => later.push((at, reply)),
                // What was answered may run twice.
                (None, Some(Ok(_))) => {}
                (None, _) if !never_left && ballot::may_have(asked.word) => {}
                (None, _) => absent = absent.with(at),
            }
        }
        // It is known before anything more is heard: what goes wrong later finds it there.
        if stays != Stays::Nothing {
            let standing = if stays == Stays::Hold { Standing::Won } else { Standing::Lost };
            let (unclean, until) = (Mask::default(), Instant::now() + lease);
            self.fleet.stands(number, Live { standing, absent, leaving, unclean, lease, until });
            // Whoever asked gave it up, and has released it by now.
            if !dispatch.is_wanted() {
                self.fleet.is_over(number);
            }
        }
        for (at, asked) in round.asked.iter().enumerate() {
            if let Some(Err(fault)) = &asked.answer {
                self.place(at, number, lease).acquire_failed(fault);
            }
        }
        for (at, reply) in later {
            self.place(at, number, lease).acquiring(reply);
        }
    }

    /// One more of a hold.
    pub(super) async fn nest(
        self: Arc<Self>,
        number: HoldNumber,
        lease: Duration,
        holds: u32,
        dispatch: Arc<Dispatch>,
    ) -> Result<Attempt, Fault> {
        if !dispatch.leaves(Way::default()) {
            return Err(withdrawn());
        }
        let mut round = self.round(lease);
        for (at, master) in self.fleet.masters.iter().enumerate() {
            let wanted = Arc::clone(&dispatch);
            let dispatch = Dispatch::new(move |_| wanted.is_wanted());
            round.ask(master, self.members[at].acquire(number, lease, holds, &dispatch), Some(dispatch));
        }
        let word = |_: &Master, answer: &Result<Attempt, Fault>| word_of_attempt(answer);
        match poll_fn(|cx| round.poll(cx, word, |round| ballot::nested(&round.words()))).await {
            Settled::Done => {
                self.heard_later(&mut round);
                Ok(Attempt::Granted { holds, fence: None })
            }
            Settled::Gone => {
                self.lost(self.key(), number, lease, &round.words());
                Ok(Attempt::Gone)
            }
            Settled::TooFew => Err(self.fleet.too_few(self.key(), &round.asked, said_of_attempt)),
        }
    }
}
