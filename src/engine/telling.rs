//! Telling the server the newest count of a hold, here or in the background. What it was told is in `counting.rs`.

use std::sync::Arc;

use tokio::time::sleep;

use super::{
    Letting, Note,
    commands::in_turn,
    outcome::Released,
    pause::Pauses,
    registry::{Place, State},
    tenure::Tenure,
};
use crate::{
    backend::{Fault, FaultKind},
    error::{Error, LostCause, Op, Result},
    spare::{Boxes, Spare},
};

thread_local! {
    static TELLS: Boxes<()> = const { Spare::new() };
}

impl State {
    /// Whoever tells of a hold again is through: whether it may go.
    fn is_told(&mut self, tenure: &Arc<Tenure>) -> bool {
        let Some(hold) = self.live(tenure) else { return true };
        hold.counting.retelling_ends()
    }
}

/// Tells the server the newest count of a hold, one of whose tickets ended with `left` remaining. Dropped, even before it
/// was polled, or after an error that may heal, it goes on in the background.
pub(super) fn tell(
    place: Place,
    tenure: Arc<Tenure>,
    left: u32,
) -> impl Future<Output = Result<Released>> + Send + 'static {
    let telling = Telling { place, tenure, told: false };
    async move {
        let mut telling = telling;
        let result = tell_once(&telling.place, &telling.tenure).await;
        telling.told = result.as_ref().err().is_none_or(|error| !error.is_transient());
        result.map(|()| Released::StillHeld(left))
    }
}

/// Goes on telling in the background, until it is answered or the hold is over. However many counts are left untold,
/// one task tells the newest.
pub(super) fn retell(place: &Place, tenure: &Arc<Tenure>) {
    let is_new = place.update(|state, _| {
        let hold = state.live(tenure)?;
        hold.counting.retelling_begins().then_some(())
    });
    if is_new.is_none() {
        return;
    }
    let (place, tenure) = (place.clone(), Arc::clone(tenure));
    Arc::clone(&place.engine).spawn(Box::pin(async move {
        let mut pauses = Pauses::after_faults(place.engine.chance());
        loop {
            if tell_once(&place, &tenure).await.is_err_and(|error| error.is_transient()) {
                sleep(pauses.next()).await;
            } else if place.update(|state, _| state.is_told(&tenure)) {
                return;
            }
        }
    }));
}

/// A count that the server is being told.
struct Telling {
    place: Place,
    tenure: Arc<Tenure>,
    told: bool,
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.told {
            retell(&self.place, &self.tenure);
        }
    }
}

async fn tell_once(place: &Place, tenure: &Arc<Tenure>) -> Result<()> {
    let over = || tenure.loss(place.name()).map_or(Ok(()), Err);
    let Some(commands) = place.update(|state, _| state.live(tenure).map(|hold| hold.counting.commands())) else {
        return over();
    };
    let told = in_turn(place, &TELLS, commands, tell_in_turn(place.clone(), Arc::clone(tenure)));
    told.await.unwrap_or(Err(Error::Closed))
}

async fn tell_in_turn(place: Place, tenure: Arc<Tenure>) -> Result<()> {
    let (place, tenure) = (&place, &tenure);
    let over = || tenure.loss(place.name()).map_or(Ok(()), Err);
    let news = place.update(|state, fx| {
        state.expire(place, fx);
        let hold = state.live(tenure)?;
        let count = hold.count();
        if hold.counting.told() == Some(count) {
            hold.counting.is_right();
            return None;
        }
        Some((hold.number, count, hold.counting.asks()))
    });
    let Some((number, count, asked)) = news else { return over() };
    let answer = place.entry.protocol.release(number, count, Note::Unused).await;
    // By its number: a hold that was passed on meanwhile is still the one that was asked about.
    place.update(|state, fx| match (&answer, state.hold.as_mut().filter(|hold| hold.number == number)) {
        (Ok(Letting::Done { holds, .. }), Some(hold)) => {
            hold.counting.answers(asked, *holds);
            if hold.counting.told() == Some(hold.count()) {
                hold.counting.is_right();
            }
        }
        (Ok(Letting::NotHeld | Letting::Expired), Some(_)) => state.lose(place, LostCause::Gone, fx),
        _ => {}
    });
    match answer {
        Ok(_) => over(),
        // Zero deletes whatever the count was, so one that is too high does no harm.
        Err(Fault { kind: FaultKind::OutOfMemory, .. }) => Ok(()),
        Err(fault) => Err(Error::from_fault(fault, place.name(), Op::Release)),
    }
}
