//! A plan from its first poll to its answer: it settles whose it is, and does what `plan.rs` says, here if here is where the
//! client lives, and else there. What users hold of it is in `request.rs`.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tracing::Instrument;

use super::{
    elsewhere::{Away, HomeWatch},
    outcome::Released,
    plan::{Options, Plan},
    share::Share,
};
use crate::{
    error::{Error, Op, Result},
    spare::Reused,
};

/// A plan, and how far it has come: it stays in its place, so that nothing is moved about.
pub(super) struct Request<T: 'static> {
    plan: Plan,
    progress: Progress<T>,
    /// While it is polled at home, but by none of its workers.
    watch: HomeWatch,
}

/// Nothing until the first poll, a boxed future from then on: polled here while here is home, and else there.
enum Progress<T: 'static> {
    Planned,
    Running(Reused<Result<T>>),
    /// It runs at home, and is awaited elsewhere.
    Away(Box<Away<Result<T>>>),
    Done,
}

/// What a request answers with. From home to a caller elsewhere it may be on its way for long, and nobody may take it.
pub(super) trait Answer: Send + 'static {
    /// Whether the request is final from its first poll on.
    const FINAL: bool = false;

    fn leaves(&self) {}

    /// Whether it is still good for anything.
    fn arrives(&self) -> bool {
        true
    }
}

impl Answer for Released {
    const FINAL: bool = true;
}

impl Answer for Option<Share> {
    fn leaves(&self) {
        self.iter().for_each(Share::leave);
    }

    fn arrives(&self) -> bool {
        self.as_ref().is_none_or(Share::take)
    }
}

/// How a request is begun, at home.
pub(super) type Start<T> = fn(&Plan) -> Reused<Result<T>>;

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
        // At every poll: an owned future may be carried elsewhere, where its timers would panic.
        let home = self.plan.handle.engine.is_home();
        match &self.progress {
            Progress::Planned if home => {
                self.plan.begin();
                self.progress = Progress::Running(start(&self.plan));
            }
            Progress::Planned => {
                // What needs no server needs no home either.
                if let Err(error) = self.plan.handle.ready() {
                    self.progress = Progress::Done;
                    return Poll::Ready(Some(Err(error)));
                }
                self.plan.carry();
                self.begin_away(start);
            }
            Progress::Running(_) if !home => self.carry(),
            Progress::Running(_) | Progress::Away(_) | Progress::Done => {}
        }
        let polled = match &mut self.progress {
            Progress::Running(running) => {
                let engine = &self.plan.handle.engine;
                let polled = self.watch.poll_at_home(engine, cx, |cx| Pin::new(running).poll(cx));
                polled.map(|heard| heard.unwrap_or_else(|silence| Err(silence.error(&self.plan.full_name(), op))))
            }
            Progress::Away(_) => self.poll_away(cx, op, start),
            Progress::Planned | Progress::Done => return Poll::Ready(None),
        };
        if polled.is_ready() {
            self.progress = Progress::Done;
            self.watch = HomeWatch::default();
        }
        polled.map(Some)
    }

    fn begin_away(&mut self, start: Start<T>) {
        self.plan.begin();
        let begun = self.plan.clone();
        let call = async move { sent(start(&begun)).await };
        self.progress = self.away(call.in_current_span());
    }

    fn carry(&mut self) {
        if let Progress::Running(running) = mem::replace(&mut self.progress, Progress::Done) {
            self.plan.carry();
            self.watch = HomeWatch::default();
            self.progress = self.away(sent(running));
        }
    }

    fn away(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Progress<T> {
        let answer = self.plan.handle.engine.away(call);
        Progress::Away(Box::new(if T::FINAL { answer.decided() } else { answer }))
    }

    fn poll_away(&mut self, cx: &mut Context<'_>, op: Op, start: Start<T>) -> Poll<Result<T>> {
        while let Progress::Away(answer) = &mut self.progress {
            let answer = match ready!(Pin::new(answer).poll(cx)) {
                Ok(answer) => answer,
                Err(silence) => return Poll::Ready(Err(silence.error(&self.plan.full_name(), op))),
            };
            if answer.as_ref().is_ok_and(|answer| !answer.arrives()) {
                // Nobody took it for as long as it lasted: that is nobody's fault, so start over.
                self.plan.waited();
                self.begin_away(start);
            } else {
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    }
}

/// At home, with its answer ready to leave.
async fn sent<T: Answer>(running: Reused<Result<T>>) -> Result<T> {
    let answer = running.await;
    answer.iter().for_each(T::leaves);
    answer
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
