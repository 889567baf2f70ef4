//! What goes on once a ballot is decided: answers that came later are heard, and what a number may have left at one master is let go
//! of there. Nobody waits for any of it.
//!
//! | a number at a master | what happens | next |
//! | --- | --- | --- |
//! | asked for | it is answered | nothing is owed, or it has it |
//! | asked for | it never left | nothing is owed: no release is sent there |
//! | asked for | no answer, and it may have run | *unclean*: once the number is over it is released every third of its lease, for a lease and a third |
//! | its release left | it is answered | nothing is owed |
//! | its release left | no answer | *owed*: repeated until it is answered or its lease is over, and sent before this process asks for that name there again |

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use super::{fleet::Fleet, round::Asked};
use crate::{
    backend::{Dispatch, Fault, FaultKind, Reply},
    engine::{Attempt, HoldNumber, Letting, Note, Protocol},
};

/// The bound of the first pause between two repetitions, and of the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A number at one master.
pub(super) struct Place {
    pub(super) fleet: Arc<Fleet>,
    pub(super) master: usize,
    pub(super) member: Arc<dyn Protocol>,
    pub(super) number: HoldNumber,
    pub(super) lease: Duration,
    /// What it may have here is over by then.
    pub(super) until: Instant,
}

impl Place {
    /// An acquire that was not answered when its ballot was decided.
    pub(super) fn acquiring(self, reply: Reply<Attempt>) {
        let fleet = Arc::clone(&self.fleet);
        fleet.hears_later(self.master, reply, move |answer| {
            if let Err(fault) = answer {
                self.acquire_failed(&fault);
            }
        });
    }

    /// A copy of an acquire that was not answered may run at any time.
    pub(super) fn acquire_failed(self, fault: &Fault) {
        if fault.may_have_run && !self.fleet.is_unclean(self.number, self.master) {
            self.reap();
        }
    }

    /// The hold was renewed by a majority, and this master knows nothing of it.
    pub(super) fn mend(self) {
        let (fleet, number) = (Arc::clone(&self.fleet), self.number);
        // From now on it is to be released there, too.
        fleet.asked_again(number, self.master);
        // Behind its release it would be nobody's.
        let dispatch = Dispatch::new(move |_| fleet.lives(number));
        let mut reply = self.member.acquire(self.number, self.lease, 1, &dispatch);
        // It leaves now.
        let first = (&mut reply).now_or_never();
        let answered = async move {
            match first {
                Some(answer) => answer,
                None => reply.await,
            }
        };
        let fleet = Arc::clone(&self.fleet);
        fleet.hears_later(self.master, answered, move |answer| match answer {
            // It was released in the moment in which this left.
            Ok(_) if !self.fleet.lives(self.number) => self.let_go(),
            Ok(_) => {}
            Err(fault) => self.acquire_failed(&fault),
        });
    }

    /// It is over, and this master may have it.
    pub(super) fn let_go(self) {
        let mut reply = self.member.release(self.number, 0, Note::Unused);
        match (&mut reply).now_or_never() {
            Some(Err(fault)) => self.owe(&fault),
            Some(Ok(_)) => {}
            None => self.releasing(reply),
        }
    }

    /// A release that was not answered when its ballot was decided.
    pub(super) fn releasing(self, reply: Reply<Letting>) {
        let fleet = Arc::clone(&self.fleet);
        fleet.hears_later(self.master, reply, move |answer| {
            if let Err(fault) = answer {
                self.owe(&fault);
            }
        });
    }

    /// A release had no answer: it is repeated until it has.
    pub(super) fn owe(self, fault: &Fault) {
        if !fault.heals() || fault.kind == FaultKind::Closed {
            return;
        }
        let master = Arc::clone(&self.fleet.masters[self.master]);
        if Instant::now() >= self.until || !master.owe(self.member.key(), self.number, self.until) {
            return;
        }
        let fleet = Arc::clone(&self.fleet);
        fleet.spawn(async move {
            let mut bound = FIRST_PAUSE;
            loop {
                sleep(self.fleet.chance.part_of(bound)).await;
                bound = (bound * 2).min(LONGEST_PAUSE);
                // Whoever asked for the name meanwhile has said it.
                if Instant::now() >= self.until || !master.take_owed_number(self.member.key(), self.number) {
                    master.take_owed_number(self.member.key(), self.number);
                    return;
                }
                let answer = self.member.release(self.number, 0, Note::Unused).await;
                master.said(&answer);
                if !answer.is_err_and(|fault| fault.heals()) {
                    return;
                }
                master.owe(self.member.key(), self.number, self.until);
            }
        });
    }

    /// It is over, and an old copy of its acquire may run there yet.
    pub(super) fn reap(self) {
        let Some(watched) = self.fleet.masters[self.master].watches() else { return };
        let fleet = Arc::clone(&self.fleet);
        fleet.spawn(async move {
            let _watched = watched;
            for _ in 0..4 {
                sleep(self.lease / 3).await;
                let answer = self.member.release(self.number, 0, Note::Unused).await;
                self.fleet.masters[self.master].said(&answer);
            }
        });
    }
}

/// Whoever was not heard when the ballot was decided.
pub(super) fn unheard<R, T>(asked: &mut [Asked<R, T>]) -> impl Iterator<Item = (usize, R)> + '_ {
    asked.iter_mut().enumerate().filter_map(|(at, asked)| Some((at, asked.reply.take()?)))
}
