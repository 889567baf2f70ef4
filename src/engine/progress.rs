//! A plan from its first poll to its answer: it settles whose it is, and does what `plan.rs` says. Whoever polls it, here or
//! elsewhere, only waits to be told. What users hold of it is in `request.rs`.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use super::{
    acquisition::Acquisition,
    detached::UnlockingDetached,
    elsewhere::HomeWatch,
    outcome::Released,
    plan::{Options, Plan},
    share::Share,
};
use crate::error::{Error, Op, Result};

/// A plan, and how far it has come: it stays in its place, so that nothing is moved about.
pub(super) struct Request<T: Answer> {
    plan: Plan,
    progress: Progress<T>,
    /// Whether home makes progress, where that has to be watched.
    watch: HomeWatch,
}

enum Progress<T: Answer> {
    Planned,
    Running(T::Begun),
    Done,
}

/// What a request answers with.
pub(super) trait Answer: Sized + Send + 'static {
    /// What was begun, and waits.
    type Begun: Future<Output = Result<Self>> + Send + Unpin;
}

impl Answer for Released {
    type Begun = UnlockingDetached;
}

impl Answer for Option<Share> {
    type Begun = Acquisition;
}

/// How a request is begun.
pub(super) type Start<T> = fn(&Plan) -> <T as Answer>::Begun;

impl<T: Answer> Request<T> {
    pub(super) fn new(plan: Plan) -> Self {
        Self { plan, progress: Progress::Planned, watch: HomeWatch::default() }
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut Options)) -> Self {
        if let Progress::Planned = self.progress {
            change(&mut self.plan.options);
        }
        self
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, op: Op, start: Start<T>) -> Poll<Option<Result<T>>> {
        if let Progress::Planned = self.progress {
            self.plan.begin();
            self.progress = Progress::Running(start(&self.plan));
        }
        let Progress::Running(running) = &mut self.progress else { return Poll::Ready(None) };
        let engine = &self.plan.handle.engine;
        let polled = self.watch.poll_anywhere(engine, cx, |cx| Pin::new(running).poll(cx));
        if polled.is_ready() {
            self.progress = Progress::Done;
            self.watch = HomeWatch::default();
        }
        polled.map(|heard| Some(heard.unwrap_or_else(|silence| Err(silence.error(&self.plan.full_name(), op)))))
    }
}

pub(super) fn polled_again<T>() -> Result<T> {
    Err(Error::invalid("future", "it was polled again after it had answered"))
}

/// One of several that are awaited together.
pub(super) fn requested<T: Answer>(
    plan: Plan,
    op: Op,
    start: Start<T>,
) -> impl Future<Output = Result<T>> + Send + Unpin + 'static {
    let mut request = Request::new(plan);
    poll_fn(move |cx| request.poll(cx, op, start).map(|answer| answer.unwrap_or_else(polled_again)))
}
