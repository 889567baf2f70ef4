//! One ticket as its holder has it: what can be asked of it, awaited and done, whether it is all that a guard has or one of
//! many. Every decision is taken elsewhere.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, atomic::AtomicBool},
    task::Poll,
    time::Duration,
};

use once_cell::race::OnceBox;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    effects::Effects,
    hold::Hold,
    minding::Minding,
    outcome::Released,
    plan::Terms,
    registry::Place,
    tenure::{End, Tenure},
    unlock::Stage,
};
use crate::{
    error::{Error, Result},
    owner::Owner,
};

/// One acquisition's share of a hold.
pub(crate) struct Share {
    pub(super) place: Place,
    pub(super) tenure: Arc<Tenure>,
    pub(super) ticket: u64,
    /// It was asked for something.
    pub(super) touched: AtomicBool,
    /// It is one of several, and may end because of another one. A value that the compiler can tell one of many guards by.
    pub(super) together: bool,
    pub(super) stage: Mutex<Stage>,
    /// This share ended; the hold may go on without it.
    pub(super) released: OnceBox<Notify>,
}

impl Share {
    pub(super) fn new(place: Place, tenure: Arc<Tenure>, ticket: u64) -> Self {
        Self {
            place,
            tenure,
            ticket,
            touched: AtomicBool::new(false),
            together: false,
            stage: Mutex::new(Stage::Held),
            released: OnceBox::new(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.look(|_| ()).is_some()
    }

    pub(super) fn expires_in(&self) -> Option<Duration> {
        let moment = self.place.engine.clock().moment();
        self.look(|hold| hold.deadline(moment).saturating_duration_since(moment.now))
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

    pub(super) fn hold_count(&self) -> u32 {
        self.look(Hold::granted).unwrap_or(0)
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
        let mut fx = Effects::default();
        if matches!(*stage, Stage::Held) {
            let detached = self.place.change(&mut fx, |state, _| {
                let hold = state.hold_of(&self.tenure)?;
                hold.tickets.iter_mut().find(|ticket| ticket.id == self.ticket)?.detached = true;
                Some(())
            });
            if detached.is_some() {
                *stage = Stage::Over(Ok(Released::StillHeld(0)));
            }
        }
        drop(stage);
        fx.run(&self.place);
        self.tenure.owner.clone()
    }

    /// It was taken on other terms, for others were missing: now these are true of it, from this instant on. False if it was
    /// lost meanwhile.
    pub(super) fn settle(&self, Terms { lease, max_hold }: Terms, since: Instant) -> bool {
        let settled = self.place.update(|state, fx| {
            state.expire(&self.place, fx);
            let hold = state.live(&self.tenure)?;
            let ticket = hold.tickets.iter_mut().find(|ticket| ticket.id == self.ticket)?;
            *ticket = ticket.on_terms(lease, max_hold, since.into());
            hold.floor = hold.floor.max(ticket.floor);
            Some(())
        });
        if max_hold.is_some() {
            self.tenure.may_end_sooner();
        }
        settled.is_some()
    }

    /// Others are missing: nobody works under it until it is taken with them, and dropped before that it is no mistake.
    pub(super) fn gathered(&mut self) {
        self.touch();
        self.together = true;
        self.place.update(|state, _| {
            if let Some(hold) = state.live(&self.tenure) {
                hold.tickets.iter_mut().filter(|it| it.id == self.ticket).for_each(|it| it.gathered = true);
            }
        });
    }

    /// Reads from the live hold, if this share of it lasts.
    pub(super) fn look<R>(&self, read: impl FnOnce(&Hold) -> R) -> Option<R> {
        self.touch();
        self.place.look_at(&self.tenure, self.ticket, read)
    }

    /// Notices now what a timer would tell soon, or a withdrawn command noticed first.
    pub(super) fn check(&self) {
        self.touch();
        self.place.update(|state, fx| state.expire(&self.place, fx));
    }

    pub(super) fn why_not_held(&self) -> Error {
        self.place.why_not_held(&self.tenure)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("name", self.place.name()).field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl Place {
    /// Reads from the live hold, if the ticket still has its share of it.
    pub(super) fn look_at<R>(&self, tenure: &Arc<Tenure>, ticket: u64, read: impl FnOnce(&Hold) -> R) -> Option<R> {
        self.update(|state, fx| {
            state.expire(self, fx);
            let hold = state.live(tenure)?;
            hold.ticket(ticket)?;
            Some(read(hold))
        })
    }

    pub(super) fn why_not_held(&self, tenure: &Tenure) -> Error {
        self.update(|state, fx| state.expire(self, fx));
        match tenure.end() {
            Some(End::Lost(loss)) => loss.error(self.name()),
            _ => Error::NotHeld { name: Arc::clone(self.name()), guards: 0 },
        }
    }
}
