//! One script's answer, still on its way, and how it is read. The backend's future is polled as it is: another box around
//! it would be one more for every command.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{Answer, Fault, Pending, Value};
use crate::script::Script;

/// Resolves to what the answer means; one that `read` does not know is a fault.
pub(crate) enum Reply<T> {
    Read {
        answer: Answer,
        script: &'static Script,
        read: fn(&Value) -> Option<T>,
    },
    /// Of what takes more than one answer, or more than reading it.
    Told(Pending<Result<T, Fault>>),
}

impl<T> Future for Reply<T> {
    type Output = Result<T, Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Read { answer, script, read } => {
                let answer = ready!(Pin::new(answer).poll(cx));
                Poll::Ready(answer.and_then(|answer| decode(script, &answer, *read)))
            }
            Self::Told(told) => told.as_mut().poll(cx),
        }
    }
}

/// What an answer means to `read`.
pub(crate) fn decode<T>(
    script: &'static Script,
    answer: &Value,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, Fault> {
    read(answer).ok_or_else(|| Fault::unexpected(script.path, answer))
}
