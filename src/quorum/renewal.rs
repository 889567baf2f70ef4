//! Votes for a longer lease, of many names in one question, and the mending that follows: where a renewal was won, a master that
//! knows of no such hold is asked for it anew. Nobody can have a majority without one of the masters that just renewed it, so what is
//! mended takes nothing from anybody; its vote counts from the next renewal on.

use std::{future::poll_fn, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{
    ballot::{self, Settled, Word},
    everywhere::Everywhere,
    fleet::Mask,
    master::Master,
    report::Said,
    round::{Asked, Each, Round},
    stragglers::{Place, unheard},
    words::{nothing, withdrawn, word_of_renewal},
};
use crate::{
    backend::{Dispatch, Fault, Pending, Way},
    engine::{HoldNumber, Renewal},
};

/// One master's answers, one for each hold.
pub(super) type Answers = Vec<Result<Renewal, Fault>>;

/// Renews holds of one group, all of them at every master.
pub(super) fn renew(
    at: &Arc<Everywhere>,
    holds: &[(&str, HoldNumber)],
    lease: Duration,
    within: Duration,
    dispatch: &Arc<Dispatch>,
) -> Pending<Vec<Result<Renewal, Fault>>> {
    let at = Arc::clone(at);
    let asked: Vec<(Arc<str>, HoldNumber)> = holds.iter().map(|(key, number)| (Arc::from(*key), *number)).collect();
    let mut round = Round::new(within, at.members.len());
    for (master, member) in at.fleet.masters.iter().zip(&at.members) {
        let wanted = Arc::clone(dispatch);
        let dispatch = Dispatch::new(move |_| wanted.is_wanted());
        let reply = member.renew(holds, lease, within, &dispatch).map(heard);
        round.ask(master, Box::pin(reply), Some(dispatch));
    }
    let dispatch = Arc::clone(dispatch);
    Box::pin(async move {
        if !dispatch.leaves(Way::default()) {
            return asked.iter().map(|_| Err(withdrawn())).collect();
        }
        // What is renewed anywhere says that a master is there; which holds it knows is looked up below.
        let word = |_: &Master, answer: &Result<Answers, Fault>| match answer {
            Ok(answers) if answers.iter().any(Result::is_ok) => Word::Yes,
            _ => Word::Nothing { may_have_run: true },
        };
        let settled = poll_fn(|cx| {
            round.poll(cx, word, |round| {
                let each = (0..asked.len()).map(|hold| ballot::changed(&words(round, hold)));
                each.collect::<Option<Vec<Settled>>>()
            })
        });
        let settled = settled.await;
        let mut answers = Vec::with_capacity(settled.len());
        let mut renewed = Vec::new();
        for (hold, (settled, (key, number))) in settled.into_iter().zip(&asked).enumerate() {
            let words = words(&round, hold);
            answers.push(match settled {
                Settled::Done => {
                    at.fleet.renewed(*number, lease);
                    ballot::mends(&words).for_each(|master| at.mend(master, key, *number, lease));
                    renewed.push((hold, Arc::clone(key), *number));
                    Ok(Renewal::Renewed)
                }
                Settled::Gone => {
                    at.lost(key, *number, lease, &words);
                    Ok(Renewal::Gone)
                }
                Settled::TooFew => Err(at.fleet.too_few(key, &of_one(&round, hold), said)),
            });
        }
        at.heard_late(&mut round, renewed, lease);
        answers
    })
}

/// One that says nothing of any hold is silent, whatever they are asked for together.
pub(super) fn heard(answers: Answers) -> Result<Answers, Fault> {
    match answers.first() {
        Some(Err(first)) if answers.iter().all(|answer| answer.as_ref().is_err_and(Fault::is_silence)) => {
            Err(first.clone())
        }
        _ => Ok(answers),
    }
}

/// The same question as if one of the holds had been asked for alone: what a master will not do for another one is nothing to it.
pub(super) fn of_one<R>(round: &Round<R, Answers>, hold: usize) -> Each<Asked<(), Renewal>> {
    let of_one = |asked: &Asked<R, Answers>| {
        let answer = asked.answer.as_ref().and_then(|answer| match answer {
            Ok(answers) => answers.get(hold).cloned(),
            Err(fault) => Some(Err(fault.clone())),
        });
        asked.with(answer)
    };
    round.asked.iter().map(of_one).collect()
}

/// What all masters said of one of the holds.
fn words<R>(round: &Round<R, Answers>, hold: usize) -> Each<Word> {
    let word = |answer: &Result<Answers, Fault>| match answer {
        Ok(answers) => answers.get(hold).map_or(Word::Nothing { may_have_run: true }, word_of_renewal),
        Err(fault) => nothing(fault),
    };
    round.asked.iter().map(|asked| asked.answer.as_ref().map_or(asked.word, word)).collect()
}

pub(super) fn said(renewal: &Renewal) -> Option<Said> {
    (*renewal == Renewal::Renewed).then_some(Said::Granted)
}

impl Everywhere {
    /// A longer lease that each master is asked for in its own words.
    pub(crate) fn lengthens(
        self: &Arc<Self>,
        asked: Vec<Pending<Result<Renewal, Fault>>>,
        lease: Duration,
    ) -> Pending<Result<Renewal, Fault>> {
        let at = Arc::clone(self);
        Box::pin(async move {
            let mut round = at.round(lease);
            for (master, reply) in at.fleet.masters.iter().zip(asked) {
                round.ask(master, reply, None);
            }
            let word = |_: &Master, answer: &Result<Renewal, Fault>| word_of_renewal(answer);
            let verdict = poll_fn(|cx| round.poll(cx, word, |round| ballot::changed(&round.words()))).await;
            at.heard_later(&mut round);
            match verdict {
                Settled::Done => Ok(Renewal::Renewed),
                Settled::Gone => Ok(Renewal::Gone),
                Settled::TooFew => Err(at.fleet.too_few(at.key(), &round.asked, said)),
            }
        })
    }

    /// The hold was renewed by a majority, and this master knows of no such hold. A look raises nothing, and mends nothing: it says not
    /// for how long.
    fn mend(&self, master: usize, key: &Arc<str>, number: HoldNumber, lease: Duration) {
        if !lease.is_zero() {
            self.place_of(master, key, number, lease).mend();
        }
    }

    /// A majority knows of no such hold: whoever has it still keeps others out for nobody.
    pub(super) fn lost(&self, key: &Arc<str>, number: HoldNumber, lease: Duration, words: &[Word]) {
        let (lease, unclean) = self.fleet.is_over(number).unwrap_or((lease, Mask::default()));
        for (master, word) in words.iter().enumerate() {
            if *word != Word::Gone {
                self.place_of(master, key, number, lease).let_go();
            }
            if unclean.has(master) {
                self.place_of(master, key, number, lease).reap();
            }
        }
    }

    fn place_of(&self, master: usize, key: &Arc<str>, number: HoldNumber, lease: Duration) -> Place {
        let (member, until) = ((self.member)(master, key), Instant::now() + lease);
        Place { fleet: Arc::clone(&self.fleet), master, member, number, lease, until }
    }

    /// Masters that come later are mended, too: the renewal was won in the same round.
    fn heard_late<R>(
        self: &Arc<Self>,
        round: &mut Round<R, Answers>,
        renewed: Vec<(usize, Arc<str>, HoldNumber)>,
        lease: Duration,
    ) where
        R: Future<Output = Result<Answers, Fault>> + Unpin + Send + 'static,
    {
        let renewed: Arc<[_]> = renewed.into();
        for (master, reply) in unheard(&mut round.asked) {
            let (at, renewed) = (Arc::clone(self), Arc::clone(&renewed));
            self.fleet.hears_later(master, reply, move |answers| {
                let Ok(answers) = answers else { return };
                for (hold, key, number) in renewed.iter() {
                    if matches!(answers.get(*hold), Some(Ok(Renewal::Gone))) {
                        at.mend(master, key, *number, lease);
                    }
                }
            });
        }
    }
}
