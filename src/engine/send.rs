//! Sends the commands that a name decided on, each by the call of its primitive, asked at that moment whether it is still wanted.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    HoldNumber, Note,
    clock::Moment,
    entry::{Event, Place},
    flights::{Landed, Replying, Sending, Tried},
    renew::time_left,
    replicas::{Acknowledging, known},
    shared::instant,
};
use crate::{
    backend::Dispatch,
    state::{self, Answer, Command, Verb},
};

impl Place {
    /// What is answered at once is handed back.
    pub(super) fn send(&self, command: Command, moment: Moment) -> Option<Landed> {
        let Command { id, number, verb } = command;
        let protocol = &self.entry.protocol;
        let number = HoldNumber(number.0);
        let (dispatch, reply) = match verb {
            Verb::Acquire { holds: 1, .. } => return self.tries_in_turn(command, moment),
            Verb::Acquire { lease, holds } => {
                let dispatch = self.dispatch(id);
                let reply = protocol.acquire(number, lease, holds, &dispatch);
                (Some(dispatch), Replying::Acquire(reply))
            }
            // Of what nothing else is said.
            Verb::Renew { .. } => return self.lengthen(command, instant(moment.date, moment.slept), moment),
            // The end of a hold is wanted whatever happens, and leaves whenever it can. Other ends are asked about.
            Verb::Release { holds: 0, note } => (None, Replying::Release(protocol.release(number, 0, note_of(note)))),
            _ if !self.leaves_now(id) => {
                self.on(withdrawn(id));
                return None;
            }
            Verb::Release { holds, note } => (None, Replying::Release(protocol.release(number, holds, note_of(note)))),
            Verb::HandOver { to, lease } => {
                (None, Replying::HandOver(protocol.hand_over(number, HoldNumber(to.0), lease)))
            }
            Verb::Force => {
                let Some(sight) = self.engine.seen().take(number) else {
                    self.on(withdrawn(id));
                    return None;
                };
                (None, Replying::Force(protocol.force_release(&sight)))
            }
        };
        self.fly(Sending { command: id, dispatch, reply, tried: None }, moment.now)
    }

    /// A longer lease. Somebody waits for it, and has since then: it goes by itself.
    pub(super) fn lengthen(&self, command: Command, since: state::Instant, moment: Moment) -> Option<Landed> {
        let Command { id, number, verb } = command;
        let Verb::Renew { lease } = verb else { return None };
        let protocol = &self.entry.protocol;
        let dispatch = self.dispatch(id);
        let within = time_left(&self.engine, since);
        let reply = protocol.renew(&[(&**protocol.key(), HoldNumber(number.0))], lease, within, &dispatch);
        self.fly(
            Sending { command: id, dispatch: Some(dispatch), reply: Replying::Lengthen(reply), tried: None },
            moment.now,
        )
    }

    /// A try that has its turn among those of its client.
    pub(super) fn try_now(&self, command: Command, at: u32, sent: Instant) -> Option<Landed> {
        let Command { id, number, verb } = command;
        let Verb::Acquire { lease, holds } = verb else { return None };
        let dispatch = self.dispatch(id);
        let number = HoldNumber(number.0);
        let protocol = &self.entry.protocol;
        let reply = match self.engine.settings().replicas {
            None => Replying::Acquire(protocol.acquire(number, lease, holds, &dispatch)),
            Some(replicas) => {
                let asked = protocol.acquire_acknowledged(number, lease, replicas, &dispatch);
                let (place, so_far) = (self.clone(), Arc::<Acknowledging>::default());
                let known_so_far = Arc::clone(&so_far);
                let reply = Box::pin(async move {
                    let (attempt, acknowledged) = asked.await?;
                    if !known_so_far.answered(attempt) {
                        return Ok(attempt);
                    }
                    place.on(Event::Granting { command: id });
                    known(attempt, acknowledged, replicas).await
                });
                Replying::Acknowledged { reply, so_far }
            }
        };
        self.fly(Sending { command: id, dispatch: Some(dispatch), reply, tried: Some(Tried { at, lease }) }, sent)
    }

    /// Asks the name when the backend asks.
    fn dispatch(&self, command: state::CommandId) -> Arc<Dispatch> {
        let place = self.clone();
        Dispatch::asked_in(move |era| place.leaves(command, era))
    }

    fn leaves_now(&self, command: state::CommandId) -> bool {
        self.leaves(command, self.engine.line().era(self.entry.protocol.key()))
    }
}

fn withdrawn(command: state::CommandId) -> Event {
    Event::Answered { command, answer: Err::<Answer, _>(state::Fault::WITHDRAWN) }
}

fn note_of(note: state::Note) -> Note {
    match note {
        state::Note::Unused => Note::Unused,
        state::Note::Failure(fence) => Note::Failure(fence),
        state::Note::Success(fence) => Note::Success(fence),
    }
}
