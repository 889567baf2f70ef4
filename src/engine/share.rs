//! One ticket as its holder has it: what can be asked of it, awaited and done, whether it is all that a guard has or one of
//! many. Every decision is taken elsewhere.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use once_cell::race::OnceBox;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    alarm::Alarm,
    ask::{Terms, lease_of},
    ended::End,
    entry::Event,
    entry_ref::EntryRef,
    outcome::Released,
    tenure::Tenure,
};
use crate::{
    error::{Error, Result},
    owner::Owner,
    state::{Hold, Id, Instant as NameInstant},
};

/// One acquisition's share of a hold.
pub(crate) struct Share {
    pub(super) place: EntryRef,
    pub(super) tenure: Arc<Tenure>,
    /// Its own acquisition, which is told what becomes of its end.
    pub(super) waiter: Arc<Tenure>,
    pub(super) id: Id,
    /// It was asked for something.
    touched: AtomicBool,
    /// It is one of several, and may end because of another one. A value that the compiler can tell one of many guards by.
    pub(super) together: bool,
    stage: Mutex<Stage>,
    /// This share ended; the hold may go on without it.
    released: OnceBox<Notify>,
}

/// When a hold ends, for whoever waits for that elsewhere than in a task of home.
#[derive(Default)]
pub(super) struct Minding(pub(super) Option<(NameInstant, Alarm)>);

/// How far a guard's end has come.
#[derive(Debug)]
pub(super) enum Stage {
    Held,
    /// It was decided, and is not answered.
    Ending,
    /// The same, and somebody was told why.
    Failed,
    /// Most end well, so none has room for more than that.
    Over(std::result::Result<Released, Box<Error>>),
}

impl Share {
    pub(super) fn new(place: EntryRef, tenure: Arc<Tenure>, waiter: Arc<Tenure>, id: Id) -> Self {
        Self {
            place,
            tenure,
            waiter,
            id,
            touched: AtomicBool::new(false),
            together: false,
            stage: Mutex::new(Stage::Held),
            released: OnceBox::new(),
        }
    }

    /// It is asked for something.
    pub(super) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_touched(&self) -> bool {
        self.together || self.touched.load(Ordering::Relaxed)
    }

    pub(super) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_held(&self) -> bool {
        self.look(|_, _| ()).is_some()
    }

    pub(super) fn expires_in(&self) -> Option<Duration> {
        self.look(|hold, now| hold.until() - now)
    }

    pub(super) async fn lost(&self) -> Error {
        self.check();
        let (mut over, mut minding) = (pin!(self.tenure.over()), Minding::default());
        poll_fn(|cx| {
            let polled = over.as_mut().poll(cx);
            if polled.is_pending() {
                self.minds_end(&mut minding, cx);
            }
            polled
        })
        .await;
        match self.tenure.loss(self.place.name()) {
            // The rest of the hold may be lost after this share was released.
            Some(error) if !self.is_let_go() => error,
            _ => std::future::pending().await,
        }
    }

    /// Whether this guard's share was released, and not lost before.
    fn is_let_go(&self) -> bool {
        !matches!(&*self.stage(), Stage::Held | Stage::Over(Err(_)))
    }

    pub(super) fn cancellation(&self) -> CancellationToken {
        self.check();
        self.tenure.token(|| self.place.engine.is_ending()).child_token()
    }

    pub(super) async fn protect<F: Future>(&self, mut work: Pin<&mut F>) -> Result<F::Output> {
        let mut over = pin!(self.tenure.over());
        let mut released = pin!(self.released.get_or_init(Box::default).notified());
        let mut minding = Minding::default();
        poll_fn(|cx| {
            let ended = over.as_mut().poll(cx).is_ready() || released.as_mut().poll(cx).is_ready();
            if ended || !self.is_held() {
                return Poll::Ready(Err(self.why_not_held()));
            }
            match work.as_mut().poll(cx) {
                Poll::Ready(_) if !self.is_held() => Poll::Ready(Err(self.why_not_held())),
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending => {
                    self.minds_end(&mut minding, cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Resolves when the hold is over, or this share of it.
    pub(super) async fn ended(&self) {
        let mut over = pin!(self.tenure.over());
        let mut released = pin!(self.released.get_or_init(Box::default).notified());
        let mut minding = Minding::default();
        poll_fn(|cx| {
            let ended = over.as_mut().poll(cx).is_ready() || released.as_mut().poll(cx).is_ready();
            if ended {
                return Poll::Ready(());
            }
            self.minds_end(&mut minding, cx);
            Poll::Pending
        })
        .await;
    }

    pub(super) fn is_released(&self) {
        if let Some(released) = self.released.get() {
            released.notify_waiters();
        }
    }

    pub(super) fn hold_count(&self) -> u32 {
        self.look(|hold, _| hold.granted()).unwrap_or(0)
    }

    pub(super) fn fence(&self) -> Option<u64> {
        self.touch();
        self.tenure.fence()
    }

    pub(super) fn owner(&self) -> &Owner {
        self.touch();
        &self.tenure.owner
    }

    pub(super) fn name(&self) -> &Arc<str> {
        self.touch();
        self.place.name()
    }

    pub(super) fn detach(self) -> Owner {
        let mut stage = self.stage();
        if matches!(*stage, Stage::Held) {
            let kept = self.place.change(|name, env, effects| {
                let kept = name.has_ticket(self.id);
                name.on(Event::Detached { id: self.id }, env, effects);
                kept
            });
            if kept {
                *stage = Stage::Over(Ok(Released::StillHeld(0)));
            }
        }
        drop(stage);
        self.tenure.owner.clone()
    }

    /// It was taken on other terms, for others were missing: now these are true of it, from this instant on. False if it was
    /// lost meanwhile.
    pub(super) fn settle(&self, Terms { lease, max_hold }: Terms, since: Instant) -> bool {
        let since = self.place.engine.instant(since);
        self.place.on(Event::Settle { id: self.id, lease: lease_of(lease), max_hold, since });
        if max_hold.is_some() {
            self.tenure.may_end_sooner();
        }
        self.place.look(|name, now| name.is_held(self.id, now))
    }

    /// Others are missing: nobody works under it until it is taken with them, and dropped before that it is no mistake.
    pub(super) fn gathered(&mut self) {
        self.touch();
        self.together = true;
        self.place.change(|name, _, _| name.gather(self.id));
    }

    /// It is there, and nobody has it until its owner takes it.
    pub(super) fn leave(&self) {
        self.place.change(|name, _, _| name.offer_again(self.id));
    }

    /// Whether it is still there, and from now on its owner's.
    pub(super) fn take(&self) -> bool {
        self.place.take(self.id)
    }

    /// Reads from the live hold, if this share of it lasts.
    fn look<R>(&self, read: impl FnOnce(&Hold<Arc<Tenure>, Arc<Tenure>>, crate::state::Instant) -> R) -> Option<R> {
        self.touch();
        let looked = self.place.look(|name, now| name.held_under(self.id, now).map(|hold| read(hold, now)));
        if looked.is_none() && self.tenure.end().is_none() {
            // A timer would tell soon.
            self.check();
        }
        looked
    }

    /// Notices now what a timer would tell soon, or a withdrawn command noticed first.
    pub(super) fn check(&self) {
        self.touch();
        self.place.on(Event::Tick);
    }

    pub(super) fn why_not_held(&self) -> Error {
        if self.tenure.end().is_none() {
            self.check();
        }
        match self.tenure.end() {
            Some(End::Lost(loss)) => loss.error(self.place.name()),
            _ => Error::NotHeld { name: Arc::clone(self.place.name()), guards: 0 },
        }
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("name", self.place.name()).field("id", &self.id).finish_non_exhaustive()
    }
}
