//! Letting go: what was decided is sent, repeated until it is answered or the lease is over, and goes out before any
//! try of this process for the name. Which way a hold ends is decided in `hand_over.rs`.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

pub(crate) use super::why::Why;
use super::{
    HoldNumber, Letting, Note, Published,
    apart::GoesBehind,
    commands::one_at_a_time,
    inline::Inline,
    outcome::{Outcome, Released, Rest},
    pause::Pauses,
    reap::OldCopies,
    registry::{Place, State},
    slice::{Listeners, Turn},
    wake::{Listening, OwnMessage},
    why::Missing,
};
use crate::{
    backend::Fault,
    error::{Error, LostCause, Op},
    name::Field,
    rules::{Rule, without},
    spare::{Boxes, Reused, Spare},
};

thread_local! {
    static SENDS: Boxes<()> = const { Spare::new() };
}

/// So many releases of one name may be unanswered before its next try waits for an answer: whoever gives up tries faster
/// than a server answers leaves no more than that to repeat.
const UNANSWERED: usize = 64;

/// A release that was decided and is not answered: a state of its entry, so a `Drop` that makes one never blocks and
/// never loses it. It is final: nothing takes it back.
#[derive(Debug)]
pub(crate) struct Releasing {
    pub(crate) number: HoldNumber,
    /// An abandoned hand-over is undone in order: this one once `number` is answered.
    pub(super) then: Option<HoldNumber>,
    /// A message of that hand-over is counted as our own, which never comes if there was still something to undo first.
    moves_own: bool,
    pub(crate) outcome: Arc<Outcome>,
    /// The link on which it is on its way.
    out_on: Option<u64>,
    missing: Missing,
    note: Note,
    turn: Turn,
    own: OwnMessage,
    lease: Duration,
    /// Nothing of the hold is left on the server after this.
    until: Instant,
}

impl State {
    /// Decides a release. Dropped, the job starts in the background; not to be dropped under the entry's mutex.
    pub(super) fn release(&mut self, place: &Place, why: Why, outcome: Arc<Outcome>, now: Instant) -> ReleaseJob {
        self.reaps.say(why.number, why.note);
        if why.old_copies != OldCopies::None {
            self.reaps.add(why.number, why.note, why.lease, place, now);
        }
        // A copy's message is expected since that was sent.
        let own = if why.missing == Missing::Copy { OwnMessage::None } else { self.listening.expect_own() };
        self.slice.released(now, why.turn);
        // Who sleeps already, while a hold that was lost is let go of, has no timer that stands for it.
        if why.turn == Turn::Yield && self.contender.is_none() {
            self.listening.clear_flag();
        }
        self.releases.push(Releasing {
            number: why.number,
            then: why.then,
            moves_own: why.own,
            outcome: Arc::clone(&outcome),
            out_on: None,
            missing: why.missing,
            note: why.note,
            turn: why.turn,
            own,
            lease: why.lease,
            until: now + why.lease + why.late,
        });
        let (Why { number, note, old_copies, .. }, behind) = (why, GoesBehind::Nothing);
        ReleaseJob { place: place.clone(), number, note, old_copies, behind, outcome, waiting: true }
    }

    /// Whether every release is on its way on this link, and there are not too many: what is sent from now on comes after
    /// them. Of an abandoned hand-over that is true once its second half is.
    pub(super) fn releases_are_out(&self, link: u64) -> bool {
        if without(Rule::ReleaseBeforeTry) {
            return true;
        }
        let room = self.releases.len() < UNANSWERED;
        room && self.releases.iter().all(|release| release.then.is_none() && release.out_on == Some(link))
    }

    fn releasing(&mut self, number: HoldNumber) -> Option<&mut Releasing> {
        self.releases.iter_mut().find(|release| release.number == number)
    }

    /// An answer came.
    fn release_answered(&mut self, place: &Place, number: HoldNumber, answer: Letting) -> Answered {
        let Some(at) = self.releases.iter().position(|release| release.number == number) else {
            return Answered::Over(Ok(Released::Freed));
        };
        let release = &mut self.releases[at];
        let published = match answer {
            Letting::Done { published, .. } => published != Published::No,
            Letting::NotHeld | Letting::Expired => release.missing == Missing::Copy,
        };
        if let Some(then) = release.then.take() {
            let freed = matches!(answer, Letting::Done { .. });
            if freed && release.moves_own {
                self.listening.unexpect_own(); // it never ran
            }
            if freed && published {
                // The message that was expected is the first half's: the second may publish one of its own.
                release.own = self.listening.expect_own();
            }
            // What the first half freed, or a copy of it, the second need not find. Nobody knows whether a copy did: what is
            // expected is right either way, since the hand-over's message comes if the second half finds something.
            let missing = if freed || release.missing == Missing::Copy { Missing::Needless } else { Missing::Lost };
            (release.number, release.out_on, release.missing) = (then, None, missing);
            // The hand-over ran by now, or never will.
            release.until = release.until.min(place.engine.clock().now() + release.lease);
            return Answered::Then(then);
        }
        let Some(release) = self.releases.remove(at) else { return Answered::Over(Ok(Released::Freed)) };
        self.reaps.say(number, Note::Unused);
        if release.own.is_expected() && !published {
            self.listening.unexpect_own();
        }
        let heard = listeners(&release, answer, &self.listening);
        match release.turn {
            Turn::Yield if self.was_the_last_turn(at) => self.slice.answered(place.engine.clock().now(), heard),
            _ => self.slice.counted(heard),
        }
        Answered::Over(match answer {
            Letting::NotHeld if release.missing == Missing::Lost => Err(Error::Lost {
                name: Arc::clone(place.name()),
                cause: LostCause::Gone,
                since: std::time::Instant::now(),
            }),
            Letting::Expired if release.missing == Missing::Lost => Ok(Released::AlreadyExpired),
            _ => Ok(Released::Freed),
        })
    }

    /// It will not be answered any more, and its rest is left to whoever asks again.
    fn release_given_up(&mut self, place: &Place, number: HoldNumber) {
        let at = self.releases.iter().position(|release| release.number == number);
        if let Some(release) = at.and_then(|at| self.releases.remove(at)) {
            let Releasing { number, then, until, note, missing, .. } = release;
            release.outcome.leave(Rest { number, then, until, note, missing });
            if release.own.is_expected() && release.missing != Missing::Copy {
                self.listening.unexpect_own();
            }
            if release.turn == Turn::Yield && at.is_some_and(|at| self.was_the_last_turn(at)) {
                self.slice.answered(place.engine.clock().now(), Listeners::Unknown);
            }
        }
    }

    /// Whether no turn of this process has ended since a release was decided that stood at this place: the cool-down of a later
    /// one waits for its own answer.
    fn was_the_last_turn(&self, at: usize) -> bool {
        self.releases.iter().skip(at).all(|later| later.turn == Turn::Keep)
    }
}

/// How many others a release's message reached.
fn listeners(release: &Releasing, answer: Letting, listening: &Listening) -> Listeners {
    match answer {
        _ if release.missing != Missing::Lost => Listeners::Unknown,
        Letting::NotHeld | Letting::Expired => Listeners::Untold,
        Letting::Done { published, .. } => listening.others(published, release.own),
    }
}

/// What an answer leaves to do.
enum Answered {
    /// The first half of an abandoned hand-over is undone, this is the second.
    Then(HoldNumber),
    Over(Result<Released, Error>),
}

/// The sending of one release. It goes on by itself, whoever waits for it: a caller may stop polling without dropping its
/// future, and others wait for the same answer. Dropped before it was started, it starts in the background.
#[derive(Debug)]
#[must_use]
pub(crate) struct ReleaseJob {
    place: Place,
    number: HoldNumber,
    note: Note,
    /// Those of its acquire, which may have left before it on the same link.
    old_copies: OldCopies,
    pub(super) behind: GoesBehind,
    outcome: Arc<Outcome>,
    /// Not started yet; a started one does not start itself again when its runtime ends.
    waiting: bool,
}

impl ReleaseJob {
    pub(super) fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    /// Starts it, and waits for what comes of the first sending. After an error that may heal it is repeated.
    pub(super) async fn once(self) -> Result<Released, Error> {
        self.begin().first().await
    }

    /// Starts it; what comes of it is known there.
    pub(super) fn begin(self) -> Arc<Outcome> {
        let outcome = Arc::clone(&self.outcome);
        self.start();
        outcome
    }

    /// Sends it here and now, unless it has to wait for its turn among its hold's commands.
    pub(super) fn start(mut self) {
        self.waiting = false;
        let engine = Arc::clone(&self.place.engine);
        let waits = !matches!(self.behind, GoesBehind::Nothing);
        if waits {
            engine.spawn(Box::pin(self.send()));
        } else {
            Inline::start(&engine, Reused::new(&SENDS, self.send()));
        }
    }

    /// Sends it. What has to be repeated gets a task.
    async fn send(mut self) {
        if let Err(fault) = self.answered().await {
            Arc::clone(&self.place.engine).spawn(Box::pin(self.insist(fault)));
        }
    }

    /// Repeats it until it is answered or the lease is over.
    async fn insist(mut self, mut fault: Fault) {
        let mut pauses = Pauses::after_faults(self.place.engine.chance());
        loop {
            self.outcome.set_first(Err(Error::from_fault(fault.clone(), self.place.name(), Op::Release)));
            let now = self.place.engine.clock().now();
            let until = self.place.update(|state, _| state.releasing(self.number).map(|release| release.until));
            let enough = without(Rule::ReleaseIsRepeated);
            if until.is_none_or(|until| until <= now) || !fault.heals() || enough {
                let error = Error::from_fault(fault, self.place.name(), Op::Release);
                tracing::warn!(lock = %Field(self.place.name()), %error, "a release was given up: its lease ends the hold");
                self.give_up(error);
                return;
            }
            sleep(pauses.next()).await;
            match self.answered().await {
                Ok(_) => return,
                Err(again) => fault = again,
            }
        }
    }

    /// Sends until there is an answer to all of it, or the first fault.
    async fn answered(&mut self) -> Result<Result<Released, Error>, Fault> {
        let _turn = one_at_a_time(&self.place, self.behind.turn()).await;
        loop {
            // What was over before this leaves is undone by it.
            let is_over = self.behind.is_over();
            let answer = Sending::new(&self.place, self.number, self.note).send().await?;
            if let Letting::Done { holds: 0, published: Published::No } = answer {
                self.place.engine.cannot_tell();
            }
            let have_run = is_over || self.old_copies.have_run(|| self.place.link());
            let answered = self.place.update(|state, fx| {
                fx.nudge();
                if have_run {
                    state.reaps.forget(self.number);
                }
                state.release_answered(&self.place, self.number, answer)
            });
            match answered {
                Answered::Then(number) => self.number = number,
                Answered::Over(result) => {
                    self.outcome.settle(result.clone());
                    return Ok(result);
                }
            }
        }
    }

    fn give_up(&mut self, error: Error) {
        self.place.update(|state, fx| {
            state.release_given_up(&self.place, self.number);
            fx.nudge();
        });
        self.outcome.set(Err(error));
    }
}

impl Drop for ReleaseJob {
    fn drop(&mut self) {
        if self.waiting {
            let rest = Self {
                place: self.place.clone(),
                number: self.number,
                note: self.note,
                old_copies: self.old_copies,
                behind: std::mem::take(&mut self.behind),
                outcome: Arc::clone(&self.outcome),
                waiting: false,
            };
            self.place.engine.spawn(Box::pin(rest.send()));
        } else {
            // Unless it was answered nobody will: the runtime is ending, and the client with it.
            self.outcome.set_first(Err(Error::Closed));
        }
    }
}

/// One release on its way. Dropped without an answer, it leaves word that a copy may have run.
struct Sending<'a> {
    place: &'a Place,
    number: HoldNumber,
    note: Note,
    known: Known,
}

/// What is known of one sending.
enum Known {
    Answered,
    NeverRan,
    MayHaveRun,
}

impl<'a> Sending<'a> {
    fn new(place: &'a Place, number: HoldNumber, note: Note) -> Self {
        Self { place, number, note, known: Known::MayHaveRun }
    }

    async fn send(mut self) -> Result<Letting, Fault> {
        let (place, number) = (self.place, self.number);
        let link = place.link();
        let mut answer = place.entry.protocol.release(number, 0, self.note);
        let mut first = true;
        let answer = poll_fn(|cx| {
            let polled = Pin::new(&mut answer).poll(cx);
            // Commands that are polled first go first: from here on a try on this link comes after it.
            if std::mem::take(&mut first) && polled.is_pending() {
                place.update(|state, fx| {
                    if let Some(release) = state.releasing(number) {
                        release.out_on = Some(link);
                    }
                    fx.nudge();
                });
            }
            polled
        })
        .await;
        self.known = match &answer {
            Ok(_) => Known::Answered,
            Err(fault) if fault.may_have_run => Known::MayHaveRun,
            Err(_) => Known::NeverRan,
        };
        answer
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        // What was answered leaves the list anyhow.
        if matches!(self.known, Known::Answered) {
            return;
        }
        self.place.update(|state, _| {
            if let Some(release) = state.releasing(self.number) {
                release.out_on = None;
                if matches!(self.known, Known::MayHaveRun) {
                    release.missing = Missing::Copy;
                }
            }
        });
    }
}
