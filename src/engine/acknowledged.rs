//! A try whose grant counts once replicas know of it. It goes another way than all other commands, so nothing is known of its
//! order among them: it waits until all releases are answered, its own release waits until it is, and each one has a number of
//! its own. Once it is granted, a caller waits for the replicas whatever it was ready to wait for the lock.

use std::{pin::pin, sync::Arc};

use futures_util::{
    FutureExt,
    future::{Either, select},
};
use tokio::sync::oneshot;

use super::{
    Attempt, acquire::Departure, admit::ContenderSlot, ask::Ask, half_built::HalfBuilt, parked::SentTry,
    registry::Place, tried::Tried,
};
use crate::backend::{Acknowledged, Dispatch, Fault, Replicas};

/// What came of it so far, and who knows of it.
type Asking = Option<(Departure, Result<(Attempt, Acknowledged), Fault>)>;

impl ContenderSlot {
    /// One try, from the clearing of the wake flag to the guard.
    pub(super) async fn attempt_acknowledged(&self, ask: &Ask, half: &mut HalfBuilt, replicas: Replicas) -> Tried {
        let (place, dispatch) = (&self.place, self.dispatch());
        half.sent(place.engine.lease(ask.lease), &dispatch);
        self.polls_by(None);
        let answer = asked(place, ask, self.id, half, replicas, &dispatch);
        let Some((departure, answer)) = self.in_line(ask, answer).await else { return self.unheard(half) };
        let (answer, acknowledged) = match answer {
            Ok((attempt, acknowledged)) => (Ok(attempt), Ok(acknowledged)),
            Err(fault) => (Err(fault.clone()), Err(fault)),
        };
        let (mut granted, acknowledged) = match (self.heard(half, &departure, answer), acknowledged) {
            (Ok(granted), Ok(acknowledged)) => (granted, acknowledged),
            (Err(tried), _) => return tried,
            (_, Err(fault)) => return Tried::Fault(fault),
        };
        let Some(known) = self.known(acknowledged).await else { return Tried::Closed };
        match known {
            Ok(known) if replicas.wanted <= known => {
                granted.moment = place.engine.clock().moment();
                self.enter(ask, half, granted, (departure.era, &dispatch))
            }
            Ok(known) => Tried::Fault(Fault::too_few_replicas(known, replicas.wanted)),
            Err(fault) => Tried::Fault(fault),
        }
    }

    /// How many replicas know of it; `None`: the client ends.
    async fn known(&self, mut acknowledged: Acknowledged) -> Option<Result<u32, Fault>> {
        let place = &self.place;
        loop {
            if place.engine.is_ending() {
                return None;
            }
            if let Either::Left((known, _)) = select(&mut acknowledged, pin!(place.entry.nudged())).await {
                return Some(known);
            }
        }
    }
}

/// Asks by itself, whoever polls.
fn asked(
    place: &Place,
    ask: &Ask,
    contender: u64,
    half: &mut HalfBuilt,
    replicas: Replicas,
    dispatch: &Arc<Dispatch>,
) -> impl Future<Output = Option<Asking>> + Unpin + use<> {
    let (mut tell, told) = oneshot::channel();
    let ((apart, turn), engine) = (half.goes_apart(), &place.engine);
    let (asked, place, ask) = (half.asked(dispatch), place.clone(), ask.clone());
    engine.spawn(Box::pin(async move {
        let tries = place.tries();
        // Nobody stands in line for whoever is gone.
        let place_in_line = tokio::select! {
            biased;
            () = tell.closed() => None,
            place_in_line = tries.acknowledged() => place_in_line,
        };
        let answer = match &place_in_line {
            Some(_) => sent(&place, &ask, contender, asked, replicas).await,
            None => None,
        };
        drop(place_in_line);
        if answer.as_ref().is_none_or(|(_, answer)| answer.as_ref().err().is_none_or(|fault| !fault.may_have_run)) {
            apart.ends();
        }
        // What is to be released may be released from now on.
        drop(turn);
        drop(tell.send(answer));
    }));
    told.map(Result::ok)
}

/// A try that has its place.
async fn sent(place: &Place, ask: &Ask, contender: u64, asked: SentTry, replicas: Replicas) -> Asking {
    let (number, dispatch) = (asked.number, Arc::clone(&asked.dispatch));
    let departure = Departure::now(place, ask, contender, asked)?;
    let lease = departure.term.lease;
    let answer = place.entry.protocol.acquire_acknowledged(number, lease, replicas, &dispatch).await;
    Some((departure, answer))
}
