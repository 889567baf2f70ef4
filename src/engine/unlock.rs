//! The end of a guard, and of a detached ticket: what its first `unlock` decides, what a later one asks, what its drop leaves to
//! the background. What the end of a hold means is decided by its name.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::time::timeout;

use super::{
    elsewhere::HomeWatch,
    ended::{End, Loss},
    entry::Event,
    entry_ref::EntryRef,
    failure::error_of,
    outcome::Released,
    share::{Share, Stage},
    tenure::{Answered, Tenure},
};
use crate::{
    backend::Fault,
    error::{Error, LostCause, Op, Result},
    state::{self, Id, Told},
};

/// What is asked of a name that somebody lets go of.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    /// To end what this id stands for, or what became of that.
    End(Id),
    /// What the owner still holds, once the server knows.
    Count(state::Owner),
}

/// What becomes of an end, for somebody who waits for it. Dropped, the end goes on.
pub(super) struct Unlocking {
    place: EntryRef,
    waiter: Arc<Tenure>,
    /// Whose end says how it was lost.
    tenure: Option<Arc<Tenure>>,
    watch: HomeWatch,
}

impl Unlocking {
    pub(super) fn begin(place: &EntryRef, asked: Asked, waiter: Arc<Tenure>, tenure: Option<&Arc<Tenure>>) -> Self {
        let told = Arc::clone(&waiter);
        place.on(match asked {
            Asked::End(id) => Event::Unlock { id, waiter: told },
            Asked::Count(owner) => Event::Recount { owner, waiter: told },
        });
        Self::under_way(place, waiter, tenure)
    }

    /// One that was asked for before.
    fn under_way(place: &EntryRef, waiter: Arc<Tenure>, tenure: Option<&Arc<Tenure>>) -> Self {
        Self { place: place.clone(), waiter, tenure: tenure.cloned(), watch: HomeWatch::default() }
    }

    fn result(&self, Answered { told, fault }: Answered) -> Result<Released> {
        let name = self.place.name();
        match told {
            Told::Freed => Ok(Released::Freed),
            Told::StillHeld(left) => Ok(Released::StillHeld(left)),
            Told::AlreadyExpired => Ok(Released::AlreadyExpired),
            Told::Lost(cause) => {
                let (cause, since) = (LostCause::from(cause), std::time::Instant::now());
                // One that ran out before may be somebody else's by now, as only the server knows.
                let before = match self.tenure.as_ref().and_then(|tenure| tenure.end()) {
                    Some(End::Lost(loss)) if loss.cause == cause => Some(loss),
                    _ => None,
                };
                Err(before.unwrap_or(Loss { cause, since }).error(name))
            }
            Told::Failed(failure) => Err(error_of(failure, fault, &self.place, Op::Release)),
            // Its own share was released, and the rest of the hold was lost before the server said so.
            _ => {
                let lost = self.tenure.as_ref().and_then(|tenure| tenure.loss(name));
                Err(lost.unwrap_or_else(|| Error::NotHeld { name: Arc::clone(name), guards: 0 }))
            }
        }
    }
}

impl Future for Unlocking {
    type Output = Result<Released>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Poll::Ready(answered) = this.waiter.poll_answer(cx) else {
            let silence = ready!(this.watch.poll(&this.place.engine, cx));
            return Poll::Ready(Err(silence.error(this.place.name(), Op::Release)));
        };
        this.watch = HomeWatch::default();
        Poll::Ready(this.result(answered))
    }
}

/// What is told later stays there for whoever asks again.
impl Drop for Unlocking {
    fn drop(&mut self) {
        self.waiter.unattended();
    }
}

impl Share {
    /// [`LockGuard::unlock`](super::LockGuard::unlock).
    pub(super) async fn let_go(&self) -> Result<Released> {
        let before = {
            let mut stage = self.stage();
            match &*stage {
                Stage::Over(result) => return result.clone().map_err(|error| *error),
                Stage::Held | Stage::Failed => mem::replace(&mut *stage, Stage::Ending),
                Stage::Ending => Stage::Ending,
            }
        };
        let again = !matches!(before, Stage::Held);
        let result = if !again {
            let ending = self.unlocking(Some(Asked::End(self.id)));
            self.is_released();
            ending.await
        } else {
            // Rare, and large.
            Box::pin(self.ask_again(before)).await
        };
        let next = match &result {
            Err(error) if !error.is_lost() => Stage::Failed,
            result => Stage::Over(result.as_ref().copied().map_err(|error| Box::new(error.clone()))),
        };
        if again && matches!(next, Stage::Over(_)) {
            // What is known is not asked for any more.
            self.place.on(Event::Dropped { id: self.id });
        }
        // Another one may know by now.
        let mut stage = self.stage();
        if !matches!(*stage, Stage::Over(_)) {
            *stage = next;
        }
        drop(stage);
        result
    }

    fn unlocking(&self, asked: Option<Asked>) -> Unlocking {
        let tenure = Some(&self.tenure);
        match asked {
            Some(asked) => {
                let own = self.waiter.opens();
                let waiter = if own { Arc::clone(&self.waiter) } else { Tenure::new(self.waiter.owner.clone(), None) };
                Unlocking::begin(&self.place, asked, waiter, tenure)
            }
            None => Unlocking::under_way(&self.place, Arc::clone(&self.waiter), tenure),
        }
    }

    /// It was decided before: waits for what becomes of it, for as long as a command may take.
    async fn ask_again(&self, before: Stage) -> Result<Released> {
        let (place, engine) = (&self.place, &self.place.engine);
        let owner = state::Owner(self.tenure.owner.number());
        // Others of its hold may stay.
        let stays =
            place.look(|name, now| name.held_by(owner, now).is_some_and(|hold| Arc::ptr_eq(&hold.share, &self.tenure)));
        let asked = if stays { Asked::Count(owner) } else { Asked::End(self.id) };
        let under_way = matches!(before, Stage::Ending) && self.waiter.attends();
        let unlocking = self.unlocking((!under_way).then_some(asked));
        let within = engine.settings().command_timeout;
        let bounded = engine.anywhere(Box::pin(async move { timeout(within, unlocking).await }));
        let answer = bounded.await.map_err(|silence| silence.error(place.name(), Op::Release))?;
        answer.unwrap_or_else(|_| Err(not_yet(place.name())))
    }

    /// Releases what it still has, in the background.
    pub(super) fn abandon(&self) {
        let before = {
            let mut stage = self.stage();
            match *stage {
                Stage::Over(_) => return,
                Stage::Held | Stage::Ending | Stage::Failed => {
                    mem::replace(&mut *stage, Stage::Over(Ok(Released::Freed)))
                }
            }
        };
        if let Stage::Held = before {
            self.is_dropped();
            self.is_released();
        }
        self.place.on(Event::Dropped { id: self.id });
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Nobody knows yet how a release went.
fn not_yet(name: &Arc<str>) -> Error {
    let fault = Fault::timeout(true, "the release is not answered yet; it is repeated in the background");
    Error::from_fault(fault, name, Op::Release)
}
