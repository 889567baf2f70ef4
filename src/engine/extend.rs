//! A holder asks for a longer lease than it has.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::{
    elsewhere::HomeWatch,
    entry::Event,
    failure::error_of,
    share::Share,
    tenure::{Answered, Tenure},
};
use crate::{
    error::{Op, Result},
    state::{Beyond, Told},
};

impl Share {
    /// [`LockGuard::extend`](super::LockGuard::extend).
    pub(super) async fn lengthen(&self, lease: Duration) -> Result<()> {
        self.lengthens(lease, Beyond::Refused).await
    }

    /// The same for a lease that may end with the `max_hold` of this hold, as that of every acquisition.
    pub(super) async fn lengthen_within_bound(&self, lease: Duration) -> Result<()> {
        self.lengthens(lease, Beyond::Cut).await
    }

    async fn lengthens(&self, lease: Duration, beyond: Beyond) -> Result<()> {
        if !self.is_held() {
            return Err(self.why_not_held());
        }
        let waiter = Tenure::new(self.tenure.owner.clone(), None);
        self.place.on(Event::Extend { id: self.id, lease, beyond, waiter: Arc::clone(&waiter) });
        Extending { share: self, waiter, watch: HomeWatch::default(), over: false }.await
    }
}

/// One that was begun.
struct Extending<'a> {
    share: &'a Share,
    waiter: Arc<Tenure>,
    watch: HomeWatch,
    /// It is known what came of it.
    over: bool,
}

impl Future for Extending<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let place = &this.share.place;
        let Poll::Ready(Answered { told, fault }) = this.waiter.poll_answer(cx) else {
            let silence = ready!(this.watch.poll(&place.engine, cx));
            return Poll::Ready(Err(silence.error(place.name(), Op::Extend)));
        };
        this.over = true;
        Poll::Ready(match told {
            Told::Extended => Ok(()),
            Told::Failed(failure) => Err(error_of(failure, fault, place, Op::Extend)),
            _ => Err(this.share.why_not_held()),
        })
    }
}

impl Drop for Extending<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.waiter.gone();
        let (place, waiter) = (&self.share.place, &self.waiter);
        place.change(|name, env, effects| name.drop_extension(|it| Arc::ptr_eq(it, waiter), env, effects));
    }
}
