//! Calls that are awaited elsewhere than where their client lives: on another runtime, or on none. They run at home, where
//! the client's timers and links are, and their answer is awaited here. How long a home that stands still is put up with
//! is seen to by `alarm.rs`, also for a thread that blocks on a call beside the workers of home.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    alarm::{Alarm, Alarms},
    home::Attended,
    shared::Engine,
};
#[cfg(feature = "operate")]
use crate::backend::Fault;
use crate::{
    backend::Pending,
    error::{self, Error, Op, Stalled},
    runtime::{self, OwnThread},
};

/// Why there is no answer from home.
#[derive(Clone, Copy, Debug)]
pub(super) enum Silence {
    /// Its runtime ended.
    Ended,
    /// Nothing has run there for so long.
    Stalls(Duration),
}

impl Silence {
    pub(super) fn error(self, name: &Arc<str>, op: Op) -> Error {
        match self {
            Self::Ended => Error::Closed,
            Self::Stalls(time) => stalled(time, Arc::clone(name), op, true),
        }
    }
}

fn stalled(time: Duration, name: Arc<str>, op: Op, may_have_run: bool) -> Error {
    Error::Unreachable { name, op, may_have_run, source: Arc::new(Stalled(time)) }
}

/// Whether home makes progress, for whoever waits for it elsewhere, or beside its workers. Its own tasks stand still with it.
#[derive(Default)]
pub(super) struct HomeWatch(Option<Alarm>);

impl HomeWatch {
    pub(super) fn poll(&mut self, engine: &Engine, cx: &Context<'_>) -> Poll<Silence> {
        self.poll_within(engine.settings().unreachable_after, engine, cx)
    }

    fn poll_within(&mut self, patience: Duration, engine: &Engine, cx: &Context<'_>) -> Poll<Silence> {
        if engine.is_home() && !engine.is_beside_home() {
            self.0 = None;
            return Poll::Pending;
        }
        self.waits(patience, engine, cx)
    }

    /// Polls a call at home. Once home was seen to stand still nobody else is to blame: what the call says then, by a clock that
    /// goes on, is not asked for.
    pub(super) fn poll_at_home<T>(
        &mut self,
        engine: &Engine,
        cx: &mut Context<'_>,
        call: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Silence>> {
        let patience = engine.settings().unreachable_after;
        if self.0.as_ref().is_some_and(|alarm| alarm.has_rung(cx)) {
            return Poll::Ready(Err(Silence::Stalls(patience)));
        }
        match call(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending if engine.is_beside_home() => self.waits(patience, engine, cx).map(Err),
            Poll::Pending => {
                self.0 = None;
                Poll::Pending
            }
        }
    }

    /// The same for a call that is polled wherever it is awaited.
    pub(super) fn poll_anywhere<T>(
        &mut self,
        engine: &Engine,
        cx: &mut Context<'_>,
        call: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Silence>> {
        if engine.is_home() {
            return self.poll_at_home(engine, cx, call);
        }
        match call(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => self.poll(engine, cx).map(Err),
        }
    }

    fn waits(&mut self, patience: Duration, engine: &Engine, cx: &Context<'_>) -> Poll<Silence> {
        let Some(alarms) = engine.alarms() else { return Poll::Ready(Silence::Ended) };
        let alarm = self.0.get_or_insert_with(|| alarms.when_home_stalls(patience));
        if alarm.has_rung(cx) { Poll::Ready(Silence::Stalls(patience)) } else { Poll::Pending }
    }
}

/// A call that runs at home whether it is polled or not. Dropped, it ends there, unless it was decided.
pub(super) struct Away<T> {
    engine: Arc<Engine>,
    work: Attended<T>,
    watch: HomeWatch,
}

impl<T> Away<T> {
    /// What it does is final: it goes on whoever waits for it.
    pub(super) fn decided(mut self) -> Self {
        self.work.goes_on = true;
        self
    }
}

impl<T> Future for Away<T> {
    type Output = Result<T, Silence>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { engine, work, watch } = self.get_mut();
        match Pin::new(work).poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer.ok_or(Silence::Ended)),
            Poll::Pending => watch.poll(engine, cx).map(Err),
        }
    }
}

/// A call that is polled where it is awaited while that is home, and runs there from the first poll elsewhere on.
pub(super) struct Anywhere<F: Future> {
    engine: Arc<Engine>,
    at: At<F>,
    watch: HomeWatch,
}

enum At<F: Future> {
    Home(F),
    Away(Away<F::Output>),
    Over,
}

impl<F: Future<Output: Send> + Send + Unpin + 'static> Future for Anywhere<F> {
    type Output = Result<F::Output, Silence>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { engine, at, watch } = self.get_mut();
        if matches!(at, At::Home(_))
            && !engine.is_home()
            && let At::Home(call) = std::mem::replace(at, At::Over)
        {
            *at = At::Away(engine.away(call));
        }
        match at {
            At::Home(call) => watch.poll_at_home(engine, cx, |cx| Pin::new(call).poll(cx)),
            At::Away(away) => Pin::new(away).poll(cx),
            At::Over => Poll::Ready(Err(Silence::Ended)),
        }
    }
}

impl Engine {
    /// Nobody else uses the runtime that this client lives on.
    pub(crate) fn set_own_thread(&self, own: OwnThread) {
        let _ = self.home().own.set(own);
    }

    /// The runtime on which it lives.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(crate) fn runtime(&self) -> error::Result<&Handle> {
        self.home().runtime()
    }

    /// Whether this runs where the client lives.
    pub(super) fn is_home(&self) -> bool {
        self.home().is_here()
    }

    /// At home: whether this may wait for home though that stands still, as a thread that blocks on a future does.
    pub(super) fn is_beside_home(&self) -> bool {
        self.home().is_beside()
    }

    /// Background work of the client. On a runtime that ended it is dropped, and with it what it would have sent.
    pub(super) fn spawn(&self, work: Pending<()>) {
        if let Ok(runtime) = self.home().runtime() {
            runtime.spawn(work);
        }
    }

    /// Work that goes on whether it is polled or not, for as long as somebody keeps it. `None`: the runtime ended.
    pub(super) fn attend<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Attended<T> {
        self.home().attend(work)
    }

    /// `None` for a client without a home.
    pub(super) fn alarms(&self) -> Option<&Alarms> {
        let home = self.home().runtime().ok()?;
        Some(self.alarm.get_or_init(|| Alarms::new(home.clone())))
    }

    pub(super) fn away<T: Send + 'static>(self: &Arc<Self>, call: impl Future<Output = T> + Send + 'static) -> Away<T> {
        Away { engine: Arc::clone(self), work: self.attend(call), watch: HomeWatch::default() }
    }

    pub(super) fn anywhere<F>(self: &Arc<Self>, call: F) -> Anywhere<F>
    where
        F: Future<Output: Send> + Send + Unpin + 'static,
    {
        Anywhere { engine: Arc::clone(self), at: At::Home(call), watch: HomeWatch::default() }
    }

    /// What servers answer to a look, wherever it is awaited. An empty name stands for no lock.
    #[cfg(feature = "operate")]
    pub(crate) async fn looked<T: Send + 'static>(
        self: &Arc<Self>,
        name: &Arc<str>,
        look: Pending<Result<T, Fault>>,
    ) -> error::Result<T> {
        self.home().runtime()?;
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let answer = self.anywhere(look).await.map_err(|silence| silence.error(name, Op::Inspect))?;
        answer.map_err(|fault| Error::from_fault(fault, name, Op::Inspect))
    }

    #[cfg(feature = "operate")]
    pub(crate) fn command_timeout(&self) -> Duration {
        self.settings().command_timeout
    }

    /// For a call that needs nothing of the runtime that polls it, and is answered from home. It stays where it is: a future
    /// that is handed about takes room for each hand.
    pub(super) fn heard<F: Future>(&self, call: Pin<&mut F>) -> impl Future<Output = Result<F::Output, Silence>> {
        self.heard_within(self.settings().unreachable_after, call)
    }

    pub(super) fn heard_within<F: Future>(
        &self,
        patience: Duration,
        mut call: Pin<&mut F>,
    ) -> impl Future<Output = Result<F::Output, Silence>> {
        let mut watch = HomeWatch::default();
        poll_fn(move |cx| match call.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => watch.poll_within(patience, self, cx).map(Err),
        })
    }
}

/// A client connects: the runtime that this thread has entered is to be its home, and may be one that nobody drives, or that
/// something blocks.
pub(crate) async fn while_driven<T>(
    patience: Duration,
    connecting: impl Future<Output = error::Result<T>>,
) -> error::Result<T> {
    let (mut connecting, mut waiting) = (pin!(connecting), None);
    poll_fn(|cx| {
        let polled = connecting.as_mut().poll(cx);
        let Some(home) = Handle::try_current().ok().filter(|here| polled.is_pending() && !runtime::is_polled_by(here))
        else {
            waiting = None;
            return polled;
        };
        let (_, alarm) = waiting.get_or_insert_with(|| {
            let alarms = Alarms::new(home);
            let alarm = alarms.when_home_stalls(patience);
            (alarms, alarm)
        });
        if alarm.has_rung(cx) { Poll::Ready(Err(stalled(patience, Arc::from(""), Op::Connect, false))) } else { polled }
    })
    .await
}
