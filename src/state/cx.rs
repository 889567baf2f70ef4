//! What an event is worked on with: the world, and where the effects go. Whatever is sent, told, ended or logged goes through
//! here, so it can be counted here.

use std::time::Duration;

use super::{
    command::{Command, Raises, Verb},
    deadline::Instant,
    effect::{Effect, End, Failure, Log, LogEvent, Told},
    env::Env,
    id::{CommandId, HoldNumber, Id},
};

pub(crate) struct Cx<'a, 'e, W, S> {
    pub(crate) env: &'a mut Env<'e>,
    effects: &'a mut Vec<Effect<W, S>>,
}

impl<'a, 'e, W, S> Cx<'a, 'e, W, S> {
    pub(crate) fn new(env: &'a mut Env<'e>, effects: &'a mut Vec<Effect<W, S>>) -> Self {
        Self { env, effects }
    }

    pub(crate) fn now(&self) -> Instant {
        self.env.now
    }

    pub(crate) fn draw_hold(&mut self) -> HoldNumber {
        HoldNumber((self.env.draw)())
    }

    pub(crate) fn send(&mut self, number: HoldNumber, verb: Verb) -> CommandId {
        let id = CommandId((self.env.draw)());
        self.effects.push(Effect::Send(Command { id, number, verb }));
        id
    }

    /// Raises the life of a hold.
    pub(crate) fn renew(&mut self, number: HoldNumber, lease: Duration, raises: Raises) -> CommandId {
        let id = CommandId((self.env.draw)());
        self.effects.push(Effect::Renew(Command { id, number, verb: Verb::Renew { lease } }, raises));
        id
    }

    pub(crate) fn withdraw(&mut self, command: CommandId) {
        self.effects.push(Effect::Withdraw(command));
    }

    pub(crate) fn tell(&mut self, waiter: W, told: Told<S>) {
        self.effects.push(Effect::Tell(waiter, told));
    }

    pub(crate) fn call(&mut self, id: Id, share: S) {
        self.effects.push(Effect::Call(id, share));
    }

    pub(crate) fn missed(&mut self, share: S) {
        self.effects.push(Effect::Missed(share));
    }

    pub(crate) fn fail(&mut self, waiter: W, failure: Failure) {
        self.tell(waiter, Told::Failed(failure));
    }

    /// The one place where a hold ends for its owner, whichever way.
    pub(crate) fn ended(&mut self, share: S, end: End, said: LogEvent) {
        self.log(said);
        self.effects.push(Effect::Ended(share, end));
    }

    pub(crate) fn listen(&mut self) {
        self.effects.push(Effect::Listen);
    }

    pub(crate) fn unlisten(&mut self) {
        self.effects.push(Effect::Unlisten);
    }

    pub(crate) fn wake_at(&mut self, at: Instant) {
        self.effects.push(Effect::WakeAt(at));
    }

    pub(crate) fn log(&mut self, event: LogEvent) {
        if self.env.log == Log::Details || event.is_for() == Log::Warnings {
            self.effects.push(Effect::Log(event));
        }
    }
}
