//! One question to all masters, from the first sending to the moment in which the ballot is decided. What the words mean is in
//! `ballot.rs`; what is left to hear then is for `stragglers.rs`.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use smallvec::SmallVec;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    ballot::{Fresh, Settled, Word},
    master::Master,
};
use crate::backend::{Dispatch, Fault, FaultKind};

/// Few have more masters.
pub(super) type Each<T> = SmallVec<[T; 5]>;

pub(super) type Words = Each<Word>;

/// A suspect is waited for so long at least once all others were heard.
const SHORTEST_GRACE: Duration = Duration::from_millis(1);

/// What one master is asked.
pub(super) struct Asked<R, T> {
    pub(super) master: Arc<Master>,
    /// Until it is answered. A master that is not asked has none from the beginning.
    pub(super) reply: Option<R>,
    /// Of what can be withdrawn until it left.
    pub(super) dispatch: Option<Arc<Dispatch>>,
    pub(super) answer: Option<Result<T, Fault>>,
    pub(super) word: Word,
    pub(super) took: Duration,
    /// It was one when the question was put.
    suspect: bool,
}

impl<R, T> Asked<R, T> {
    /// As if this had been the answer.
    pub(super) fn with<U>(&self, answer: Option<Result<U, Fault>>) -> Asked<(), U> {
        Asked {
            master: Arc::clone(&self.master),
            reply: self.reply.as_ref().map(|_| ()),
            dispatch: self.dispatch.clone(),
            answer,
            word: self.word,
            took: self.took,
            suspect: self.suspect,
        }
    }
}

/// Why nobody is waited for longer than needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hurry {
    No,
    /// Only suspects are missing.
    Suspects,
    /// It cannot be won any more, whatever the others say.
    Lost,
}

/// What a question comes to.
pub(super) trait Verdict {
    /// Too few masters said anything that counts.
    fn is_too_few(&self) -> bool;

    /// What was asked for is somebody else's.
    fn is_lost(&self) -> bool {
        false
    }
}

impl Verdict for Fresh {
    fn is_too_few(&self) -> bool {
        *self == Self::TooFew
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Split { .. })
    }
}

impl Verdict for Settled {
    fn is_too_few(&self) -> bool {
        *self == Self::TooFew
    }
}

/// Of many names.
impl Verdict for Vec<Settled> {
    fn is_too_few(&self) -> bool {
        self.contains(&Settled::TooFew)
    }
}

/// What they agree on, if enough of them said anything.
impl<T> Verdict for Option<T> {
    fn is_too_few(&self) -> bool {
        self.is_none()
    }
}

/// One question to all masters.
pub(super) struct Round<R, T> {
    pub(super) asked: Each<Asked<R, T>>,
    began: Instant,
    /// How long masters are waited for that say nothing.
    within: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    hurry: Hurry,
}

impl<R: Future<Output = Result<T, Fault>> + Unpin, T> Round<R, T> {
    /// Nothing is sent before the first poll.
    pub(super) fn new(within: Duration, masters: usize) -> Self {
        let asked = Each::with_capacity(masters);
        Self { asked, began: Instant::now(), within, timer: None, hurry: Hurry::No }
    }

    pub(super) fn ask(&mut self, master: &Arc<Master>, reply: R, dispatch: Option<Arc<Dispatch>>) {
        let (master, suspect) = (Arc::clone(master), master.is_suspect());
        let (reply, word, took) = (Some(reply), Word::Open, Duration::ZERO);
        self.asked.push(Asked { master, reply, dispatch, answer: None, word, took, suspect });
    }

    /// This one is not asked, and counts as having said so.
    pub(super) fn skip(&mut self, master: &Arc<Master>, word: Word) {
        let (master, reply, dispatch) = (Arc::clone(master), None, None);
        self.asked.push(Asked { master, reply, dispatch, answer: None, word, took: Duration::ZERO, suspect: true });
    }

    pub(super) fn words(&self) -> Words {
        self.asked.iter().map(|asked| asked.word).collect()
    }

    /// Until it is decided: `word` says what an answer counts as, and `decide` whether all that was said decides it. Where nobody is
    /// left to be heard it has to.
    pub(super) fn poll<V: Verdict>(
        &mut self,
        cx: &mut Context<'_>,
        word: impl Fn(&Master, &Result<T, Fault>) -> Word,
        decide: impl Fn(&Self) -> Option<V>,
    ) -> Poll<V> {
        if self.timer.is_none() {
            self.began = Instant::now();
        }
        let mut heard = self.timer.is_none();
        for asked in &mut self.asked {
            let Some(reply) = &mut asked.reply else { continue };
            let Poll::Ready(answer) = Pin::new(reply).poll(cx) else { continue };
            asked.master.said(&answer);
            (asked.word, asked.took) = (word(&asked.master, &answer), self.began.elapsed());
            (asked.reply, asked.answer, heard) = (None, Some(answer), true);
        }
        if heard && let Some(verdict) = decide(self).or_else(|| self.hurries(&decide)) {
            return Poll::Ready(verdict);
        }
        let until = self.began + self.within;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.waits_no_longer();
        decide(self).map_or(Poll::Pending, Poll::Ready)
    }

    /// It is not decided, and not everybody is worth waiting for. Where all were heard but suspects, these are not waited for: what
    /// keeps silent is not waited for by everybody anew. Before it is said that too few are there they have as long again: they may
    /// be back. As long have those whose word only tells what is left behind by a vote that is lost.
    fn hurries<V: Verdict>(&mut self, decide: impl Fn(&Self) -> Option<V>) -> Option<V> {
        let (mut heard, mut missing) = (false, false);
        for asked in &self.asked {
            let open = asked.word == Word::Open;
            (heard, missing) = (heard || !open && !asked.suspect, missing || open && !asked.suspect);
        }
        if !heard {
            return None;
        }
        if !missing && self.decided_if(Word::Nothing { may_have_run: true }, &decide).is_some_and(|it| !it.is_too_few())
        {
            self.waits_no_longer();
            return decide(self);
        }
        let hurry = match missing {
            false => Hurry::Suspects,
            true if self.decided_if(Word::Yes, &decide).is_some_and(|it| it.is_lost()) => Hurry::Lost,
            true => return None,
        };
        if self.hurry == Hurry::No {
            self.hurry = hurry;
            let so_far = self.began.elapsed();
            let until = self.began + (so_far + so_far.max(SHORTEST_GRACE)).min(self.within);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(until),
                None => self.timer = Some(Box::pin(sleep_until(until))),
            }
        }
        None
    }

    /// What it would come to if all that are missing said this.
    fn decided_if<V>(&mut self, word: Word, decide: impl Fn(&Self) -> Option<V>) -> Option<V> {
        let open: Each<usize> = (0..self.asked.len()).filter(|at| self.asked[*at].word == Word::Open).collect();
        open.iter().for_each(|at| self.asked[*at].word = word);
        let verdict = decide(self);
        open.iter().for_each(|at| self.asked[*at].word = Word::Open);
        verdict
    }

    fn waits_no_longer(&mut self) {
        let took = self.began.elapsed();
        for asked in self.asked.iter_mut().filter(|asked| asked.word == Word::Open) {
            let never_left = asked.dispatch.as_ref().is_some_and(|dispatch| dispatch.withdraw());
            if never_left {
                asked.reply = None;
                asked.answer = Some(Err(Fault::of(FaultKind::Dropped, false, NO_LINK)));
            }
            // Of a vote that is lost nobody had to wait for it.
            if self.hurry != Hurry::Lost {
                asked.master.was_silent();
            }
            (asked.word, asked.took) = (Word::Nothing { may_have_run: !never_left }, took);
        }
    }
}

const NO_LINK: &str = "there was no link to it";
