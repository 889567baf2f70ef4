//! A forced release. It frees exactly the holds that it saw; what that means for one of this process is decided by its name.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    Forced, Sight,
    elsewhere::HomeWatch,
    entry::Event,
    entry_ref::EntryRef,
    failure::error_of,
    handle::Handle,
    tenure::{Answered, Tenure},
};
use crate::{
    error::{Error, Op, Result},
    name::Field,
    owner::Owner,
    state::Told,
};

impl Handle {
    /// Frees exactly what it saw; a holder of this client is told first.
    pub(crate) async fn force_unlock(&self) -> Result<bool> {
        let Some(sight) = self.sight().await? else { return Ok(false) };
        self.force_seen(sight).await?;
        Ok(true)
    }

    /// The same if the holder that it sees is the one who is meant; whether it ended that one.
    #[cfg(feature = "operate")]
    pub(crate) async fn force_unlock_held(&self, is_it: impl Fn(&str) -> bool + Send + 'static) -> Result<bool> {
        match self.sight().await? {
            // No primitive has several.
            Some(sight) if matches!(&sight.holders[..], [(holder, _)] if is_it(holder)) => self.force_seen(sight).await,
            _ => Ok(false),
        }
    }

    /// Whether it is free by this.
    async fn force_seen(&self, sight: Sight) -> Result<bool> {
        let protocol = self.ready()?;
        let place = self.engine.find(protocol.key()).filter(|_| !sight.ours.is_empty());
        let freed = match place {
            Some(place) => Forcing::begin(place, sight).await?,
            None => {
                let forced = self.asked(Op::ForceRelease, |protocol| protocol.force_release(&sight)).await;
                matches!(forced.map_err(|failed| failed.error)?, Forced::Done { .. })
            }
        };
        tracing::debug!(lock = %Field(protocol.name()), freed, "forced release");
        Ok(freed)
    }
}

/// One that was begun, for somebody who waits for it. Dropped, it goes on.
struct Forcing {
    place: EntryRef,
    waiter: Arc<Tenure>,
    watch: HomeWatch,
}

impl Forcing {
    fn begin(place: EntryRef, sight: Sight) -> Self {
        let (waiter, sight) = (Tenure::new(Owner::new(), None), Arc::new(sight));
        // A key has one of them at a time, and what frees one sees all.
        let seen: Vec<_> = sight.ours.iter().take(1).copied().collect();
        for number in &seen {
            place.engine.seen().note(*number, &sight);
        }
        place.on(Event::Force { seen, waiter: Arc::clone(&waiter) });
        Self { place, waiter, watch: HomeWatch::default() }
    }
}

impl Future for Forcing {
    type Output = Result<bool>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Poll::Ready(Answered { told, fault }) = this.waiter.poll_answer(cx) else {
            let engine = Arc::clone(&this.place.engine);
            let silence = ready!(this.watch.poll(&engine, cx));
            return Poll::Ready(Err(silence.error(this.place.name(), Op::ForceRelease)));
        };
        Poll::Ready(match told {
            Told::Forced(freed) => Ok(freed),
            Told::Failed(failure) => Err(error_of(failure, fault, &this.place, Op::ForceRelease)),
            _ => Err(Error::Closed),
        })
    }
}

impl Drop for Forcing {
    fn drop(&mut self) {
        self.waiter.gone();
    }
}
