//! One acquisition from the first poll to the guard: it is admitted, and waits in the local queue where it has to. How the
//! one who tries at the server does that is in `acquire.rs`.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::time::Instant;
use tracing::Instrument;

use super::{
    Protocol,
    acquire::contend,
    admit::{Admission, ContenderSlot},
    ask::Ask,
    distance::{Distance, GRACE},
    effects::millis,
    nest::Nested,
    pause::{LONGEST_PAUSE, Trouble, bounded, bounded_by, unanswered},
    queue::{QueuePlace, Told},
    registry::{Place, State},
    share::Share,
    shared::Engine,
    tenure::Tenure,
    tried::Contended,
};
use crate::{
    backend::FaultKind,
    error::{Error, Result},
    name::Field,
    spare::{Boxes, Reused, Spare},
};

/// An acquisition that was begun.
pub(super) type Acquiring = Reused<Result<Option<Share>>>;

thread_local! {
    static QUEUED: Boxes<Result<Option<Share>>> = const { Spare::new() };
    static REFUSED: Boxes<Result<Option<Share>>> = const { Spare::new() };
    static CONTENDING: Boxes<Result<Option<Share>>> = const { Spare::new() };
    static GOING_ON: Boxes<Result<Option<Share>>> = const { Spare::new() };
}

/// One that ends before it was admitted.
pub(super) fn refused(error: Error) -> Acquiring {
    Reused::new(&REFUSED, async { Err(error) })
}

/// One acquisition.
pub(crate) struct Acquisition {
    engine: Arc<Engine>,
    protocol: Arc<dyn Protocol>,
    pub(super) ask: Ask,
    /// It was said that somebody else has it: once an acquisition, however often it is found so.
    said: AtomicBool,
}

impl Acquisition {
    /// Asks to be admitted at once, and acquires for as long as the caller waits. `Ok(None)`: somebody else has it.
    ///
    /// A future has room for all that may come of it, and is moved with all of it. So the usual ones have no room for the
    /// others: of somebody who queues and is passed the lock, and of somebody who tries at the server.
    pub(crate) fn start(engine: Arc<Engine>, protocol: Arc<dyn Protocol>, ask: Ask) -> Acquiring {
        let span = tracing::debug_span!("acquire", lock = %Field(protocol.name()), owner = %ask.owner);
        // A clock is not read for what nobody hears.
        let heard = span.in_scope(|| tracing::enabled!(tracing::Level::DEBUG));
        let asked = heard.then(|| engine.clock().now());
        let this = Self { engine, protocol, ask, said: AtomicBool::new(false) };
        match span.in_scope(|| this.admission(None)) {
            Admission::Queue(waiting) => {
                let queued = async move { this.acquired(asked, this.queue(waiting).await) };
                Reused::new(&QUEUED, queued.instrument(span))
            }
            Admission::Contend(slot) => {
                let contending = async move { this.acquired(asked, this.contend(slot).await) };
                Reused::new(&CONTENDING, contending.instrument(span))
            }
            admission => {
                let going_on = async move { this.acquired(asked, this.go_on(admission).await) };
                Reused::new(&GOING_ON, going_on.instrument(span))
            }
        }
    }

    fn acquired(&self, asked: Option<Instant>, acquired: Result<Option<Share>>) -> Result<Option<Share>> {
        if let (Some(asked), Ok(Some(guard))) = (asked, &acquired)
            && guard.stands()
        {
            let waited_ms = millis(self.engine.clock().now().saturating_duration_since(asked));
            tracing::debug!(lock = %Field(self.protocol.name()), owner = %self.ask.owner, waited_ms, "acquired");
        }
        acquired
    }

    fn admission(&self, stood: Option<u64>) -> Admission {
        let admitted = self.engine.at(&self.protocol, |place, state, fx| state.admit(place, &self.ask, stood, fx));
        admitted.unwrap_or_else(Admission::Refused)
    }

    async fn queue(&self, waiting: QueuePlace) -> Result<Option<Share>> {
        let number = waiting.number();
        let place = self.ask.elsewhere.then(|| waiting.place().clone());
        let admission = match self.turn(waiting).await? {
            None => return Ok(None),
            Some(Told::Granted(guard)) if self.takes(&guard) => return Ok(Some(guard)),
            // What was passed had run out before it was taken: that is nobody's fault, so start over.
            Some(Told::Granted(_)) => self.admission(None),
            Some(Told::Contend(slot)) if slot.take() => Admission::Contend(slot),
            // Others went first meanwhile.
            Some(Told::Contend(_)) => self.admission(None),
            Some(Told::Called) => match place {
                // Whether the caller is there is not known here.
                Some(place) => return Ok(Some(Share::of_nothing(place, &self.ask))),
                None => self.admission(Some(number)),
            },
            Some(Told::Failed(error)) => return Err(error),
        };
        self.anew(admission).await
    }

    async fn contend(&self, slot: ContenderSlot) -> Result<Option<Share>> {
        match contend(slot, self).await? {
            Contended::Over(answer) => Ok(answer),
            Contended::PassedOver => self.anew(self.admission(None)).await,
        }
    }

    /// What follows once it was in line, or was passed over.
    fn anew(&self, admission: Admission) -> Pin<Box<dyn Future<Output = Result<Option<Share>>> + Send + '_>> {
        match admission {
            Admission::Contend(slot) => Box::pin(self.contend(slot)),
            admission => Box::pin(self.go_on(admission)),
        }
    }

    async fn go_on(&self, mut admission: Admission) -> Result<Option<Share>> {
        loop {
            let granted = match admission {
                Admission::Busy => {
                    self.say_contended();
                    return Ok(None);
                }
                Admission::Refused(error) => return Err(error),
                Admission::Contend(_) => return self.anew(admission).await,
                Admission::Nest(nest) => match nest.acquire(&self.ask).await? {
                    Nested::Granted(guard) => Some(guard),
                    Nested::OuterLost => None,
                },
                Admission::Queue(waiting) => return Box::pin(self.queue(waiting)).await,
            };
            if let Some(guard) = granted.filter(|guard| self.takes(guard)) {
                return Ok(Some(guard));
            }
            admission = self.admission(None);
        }
    }

    /// Whether what was given is still good. Who is elsewhere takes it there.
    fn takes(&self, guard: &Share) -> bool {
        if self.ask.elsewhere { guard.is_held() } else { guard.take() }
    }

    /// Waits for the turn in the local queue.
    async fn turn(&self, mut waiting: QueuePlace) -> Result<Option<Told>> {
        self.say_contended();
        let until = self.ask.patience.until();
        let told = if waiting.behind_itself {
            Box::pin(bounded(until, self.turn_behind_itself(&mut waiting))).await
        } else {
            bounded(until, waiting.turn()).await
        };
        let told = match told {
            // Whoever has the lock by now is told so, though its wait is over in that moment.
            None if waiting.is_decided() => Some(waiting.turn().await),
            told => told,
        };
        match told {
            Some(Some(told)) => Ok(Some(told)),
            Some(None) => Err(Error::Closed),
            None => Box::pin(waiting.wait_over()).await,
        }
    }

    pub(super) fn say_contended(&self) {
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::debug!(lock = %Field(self.protocol.name()), owner = %self.ask.owner, "contended");
        }
    }
}

impl Share {
    /// Whoever comes for it asks again.
    fn of_nothing(place: Place, ask: &Ask) -> Self {
        let ticket = place.engine.draw();
        Self::new(place, Tenure::new(ask.owner.clone(), None), ticket)
    }

    fn stands(&self) -> bool {
        self.place.update(|state, _| state.live(&self.tenure).is_some())
    }

    /// It is there, and nobody has it until its owner takes it.
    pub(super) fn leave(&self) {
        self.place.update(|state, _| {
            if let Some(hold) = state.live(&self.tenure) {
                hold.left_untaken(self.ticket, self.place.engine.clock().now().into());
            }
        });
    }

    /// The owner it was given to takes it; false if the hold ran out meanwhile.
    pub(super) fn take(&self) -> bool {
        self.place.update(|state, fx| {
            state.expire(&self.place, fx);
            let taken = state.live(&self.tenure).map(|hold| hold.taken_up(self.ticket)).is_some();
            if taken {
                state.turn_taken();
            }
            taken
        })
    }
}

/// What is known of a name whose wait is over.
enum WaitEnd {
    /// Somebody else has it.
    Busy,
    /// The server did not answer.
    Trouble(Error),
    /// The contender has no answer; or has one, and is not polled.
    None,
}

impl State {
    /// `heard`: when the server answered anybody last.
    fn news(&self, place: &Place, now: Instant, heard: Instant, distance: Distance) -> WaitEnd {
        let fresh =
            |trouble: &Trouble| now < trouble.at + place.engine.settings().longest_try() + LONGEST_PAUSE + GRACE;
        let silent = |since: Instant| since.max(heard) + distance.patience(since) <= now;
        match self.trouble.as_ref().filter(|trouble| trouble.lasts(heard)) {
            Some(trouble) if fresh(trouble) => WaitEnd::Trouble(trouble.error.clone()),
            None if !self.tries_since().is_some_and(silent) => WaitEnd::Busy,
            // What goes before its try has no answer, whoever polls.
            _ if !self.releases.is_empty() || self.slice.awaits_answer() => WaitEnd::Trouble(unheard(place)),
            _ => WaitEnd::None,
        }
    }
}

impl QueuePlace {
    /// The wait is over: busy, unless the name's contender gets no answers. Where that is not known the server is asked
    /// whether it answers at all.
    async fn wait_over<T>(self) -> Result<Option<T>> {
        let place = self.place().clone();
        let (now, heard, distance) = (place.engine.clock().now(), place.last_answer(), place.distance());
        match place.update(|state, _| state.news(&place, now, heard, distance)) {
            WaitEnd::Busy => return Ok(None),
            WaitEnd::Trouble(error) => return Err(error),
            WaitEnd::None => drop(self),
        }
        let cut_off = || Some(place.distance().cut_off(now, now));
        match bounded_by(cut_off, place.entry.protocol.inspect()).await {
            Some(Ok(_)) => Ok(None),
            Some(Err(fault)) if !fault.heals() && fault.kind != FaultKind::Closed => Ok(None),
            _ => Err(unheard(&place)),
        }
    }
}

fn unheard(place: &Place) -> Error {
    unanswered(place, false, "no answer before the wait was over")
}
