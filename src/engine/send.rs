//! Sends the commands that a name decided on, each by the call of its primitive, asked at that moment whether it is still wanted.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    clock::Moment,
    compact_instant::instant,
    entry::Event,
    entry_ref::EntryRef,
    flights::{Landed, Sending, Tried},
    renew::time_left,
    replicas::{Acknowledging, known},
    replying::Replying,
};
use crate::{
    backend::{Dispatch, Way},
    state::{self, Answer, Command, Raises, Verb},
};

impl EntryRef {
    /// What is answered at once is handed back.
    pub(super) fn send(&self, command: Command, moment: Moment) -> Option<Landed> {
        let Command { id, number, verb } = command;
        let protocol = &self.entry.protocol;
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
            Verb::Release { holds: 0, note } => (None, Replying::Release(protocol.release(number, 0, note))),
            _ if !self.leaves_now(id) => {
                self.on(withdrawn(id));
                return None;
            }
            Verb::Release { holds, note } => (None, Replying::Release(protocol.release(number, holds, note))),
            Verb::HandOver { to, lease } => (None, Replying::HandOver(protocol.hand_over(number, to, lease))),
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

    /// A renewal, or a longer lease. What is answered at once is handed back.
    pub(super) fn renew(&self, command: Command, raises: Raises, moment: Moment) -> Option<Landed> {
        if let Raises::Longer { since } = raises {
            return self.lengthen(command, since, moment);
        }
        self.engine.renewals().push(&self.entry, command, raises);
        None
    }

    /// A longer lease. Somebody waits for it, and has since then: it goes by itself.
    fn lengthen(&self, command: Command, since: state::Instant, moment: Moment) -> Option<Landed> {
        let Command { id, number, verb } = command;
        let Verb::Renew { lease } = verb else { return None };
        let protocol = &self.entry.protocol;
        let dispatch = self.dispatch(id);
        let within = time_left(&self.engine, since);
        let reply = protocol.renew(&[(&**protocol.key(), number)], lease, within, &dispatch);
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
        Dispatch::new(move |way| place.leaves(command, way))
    }

    fn leaves_now(&self, command: state::CommandId) -> bool {
        let (line, key) = (self.engine.line(), self.entry.protocol.key());
        self.leaves(command, Way { era: line.era(key), link: line.link(key) })
    }
}

fn withdrawn(command: state::CommandId) -> Event {
    Event::Answered { command, answer: Err::<Answer, _>(state::Fault::WITHDRAWN) }
}
