//! The answer to one command, as its primitive gives it and as its name is told it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    Attempt, Forced, Letting, Moved, Renewal,
    convert::{answer_of_attempt, answer_of_force, answer_of_moved, answer_of_release, answer_of_renewal},
    foreign::{panicked, unless_it_panics},
    replicas::Acknowledging,
};
use crate::{
    backend::{Fault, Pending, Reply},
    state::Answer,
};

/// The answer to one of the verbs.
pub(super) enum Replying {
    Acquire(Reply<Attempt>),
    /// Its grant counts once replicas know of it.
    Acknowledged {
        reply: Pending<Result<Attempt, Fault>>,
        so_far: Arc<Acknowledging>,
    },
    Release(Reply<Letting>),
    HandOver(Pending<Result<Moved, Fault>>),
    Force(Pending<Result<Forced, Fault>>),
    /// A longer lease of one hold.
    Lengthen(Pending<Vec<Result<Renewal, Fault>>>),
}

impl Replying {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Fault>> {
        unless_it_panics(|| self.read(cx)).unwrap_or_else(|| Poll::Ready(Err(panicked())))
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Fault>> {
        match self {
            Self::Acquire(reply) => Pin::new(reply).poll(cx).map(|answer| answer.map(answer_of_attempt)),
            Self::Acknowledged { reply, .. } => reply.as_mut().poll(cx).map(|answer| answer.map(answer_of_attempt)),
            Self::Release(reply) => Pin::new(reply).poll(cx).map(|answer| answer.map(answer_of_release)),
            Self::HandOver(reply) => reply.as_mut().poll(cx).map(|answer| answer.map(answer_of_moved)),
            Self::Lengthen(reply) => reply.as_mut().poll(cx).map(|mut answers| {
                let missing = || Err(Fault::unexpected("renew", &"no answer"));
                answers.pop().unwrap_or_else(missing).map(answer_of_renewal)
            }),
            Self::Force(reply) => reply.as_mut().poll(cx).map(|answer| answer.map(answer_of_force)),
        }
    }
}
