//! Where a client lives: the runtime that drives its links, its timers and its background work. What is awaited elsewhere
//! is in `elsewhere.rs`.

use std::{
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll},
};

use tokio::{
    runtime::{Handle, Id},
    task::JoinHandle,
};

use crate::{
    error::{Error, Result},
    runtime::{self, OwnThread},
};

/// A client's home.
pub(super) struct Home {
    /// Or why there is none: every call says so.
    runtime: Result<Handle>,
    id: Option<Id>,
    /// Its thread, if it has one of its own.
    pub(super) own: OnceLock<OwnThread>,
}

impl Home {
    /// The runtime that this runs on.
    pub(super) fn here() -> Self {
        let runtime = runtime::here();
        let id = runtime.as_ref().ok().map(Handle::id);
        Self { runtime, id, own: OnceLock::new() }
    }

    /// Where somebody else lives, too, who has the thread if there is one.
    pub(super) fn beside(other: &Self) -> Self {
        Self { runtime: other.runtime.clone(), id: other.id, own: OnceLock::new() }
    }

    pub(super) fn runtime(&self) -> Result<&Handle> {
        self.runtime.as_ref().map_err(Error::clone)
    }

    pub(super) fn attend<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Attended<T> {
        Attended { work: self.runtime().ok().map(|runtime| runtime.spawn(work)), goes_on: false }
    }

    /// The client needs it no more.
    pub(super) fn leave(&self) {
        if let Some(own) = self.own.get() {
            own.end();
        }
    }

    /// Whether this runs there, and something is done there while it waits.
    pub(super) fn is_here(&self) -> bool {
        let works = |home: &Handle| runtime::has_workers(home) || runtime::is_polled_by(home);
        let is_it = |here: Handle| Some(here.id()) == self.id && works(&here);
        self.id.is_some() && Handle::try_current().is_ok_and(is_it)
    }

    /// Here: whether this is none of its tasks, and waits for them.
    pub(super) fn is_beside(&self) -> bool {
        self.runtime.as_ref().is_ok_and(|home| runtime::has_workers(home) && !runtime::is_polled_by(home))
    }
}

/// Work in the background that ends when nobody wants it any more, unless it is to go on.
pub(super) struct Attended<T> {
    work: Option<JoinHandle<T>>,
    pub(super) goes_on: bool,
}

impl<T> Future for Attended<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.work {
            Some(work) => Pin::new(work).poll(cx).map(std::result::Result::ok),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Drop for Attended<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.as_ref().filter(|_| !self.goes_on) {
            work.abort();
        }
    }
}
