//! The release of detached holds, as its caller has it: of one lock, or of several.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    handle::{Handle, Nesting},
    outcome::Released,
    plan::Plan,
    progress::{Request, polled_again},
    several::{Several, UnlockSeveral},
};
use crate::{
    error::{Op, Result},
    owner::Owner,
};

/// Releases a detached hold. Made by `unlock()` of every primitive.
///
/// # Errors
///
/// [`Error::NotHeld`](crate::Error::NotHeld) where the owner has no detached hold of that name,
/// [`Error::Lost`](crate::Error::Lost) where it was lost less than a lease ago,
/// [`Error::Unreachable`](crate::Error::Unreachable) where the outcome is not known yet: the release goes on in the background.
/// Asked again meanwhile, it waits for what becomes of that; once that is over there is nothing left to release.
///
/// # Cancel safety
///
/// The release is decided at the first poll and final: dropping the future leaves it to the background.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// let lock = client.lock("session:7");
/// let owner = lock.lock().await?.detach();
/// // … later, perhaps in another task of this process …
/// lock.unlock().owner(&owner).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Unlock(Unlocking);

/// A release of detached holds, of one lock or of several.
#[allow(clippy::large_enum_variant, reason = "the usual one lies where its caller has it, in no box")]
enum Unlocking {
    One(Request<Released>),
    Many(Box<UnlockSeveral>),
}

impl Unlock {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Unlocking::One(Request::new(plan)))
    }

    pub(super) fn of_many(ungathering: UnlockSeveral) -> Self {
        Self(Unlocking::Many(Box::new(ungathering)))
    }

    /// Releases a hold of this owner instead of the current one.
    pub fn owner(self, owner: &Owner) -> Self {
        Self(match self.0 {
            Unlocking::One(request) => Unlocking::One(request.change(|options| options.owner = Some(owner.clone()))),
            Unlocking::Many(mut ungathering) => {
                ungathering.change_owner(owner);
                Unlocking::Many(ungathering)
            }
        })
    }
}

impl Future for Unlock {
    type Output = Result<Released>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.0 {
            Unlocking::One(request) => request.poll(cx, Op::Release, Plan::unlock),
            Unlocking::Many(ungathering) => ungathering.poll(cx),
        };
        polled.map(|answer| answer.unwrap_or_else(polled_again))
    }
}

impl fmt::Debug for Unlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unlock").finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn unlock(&self) -> Unlock {
        Unlock::new(Plan::new(self.clone(), Nesting::Current))
    }
}

impl Several {
    pub(crate) fn unlock(self: &Arc<Self>) -> Unlock {
        Unlock::of_many(UnlockSeveral::Planned(Arc::clone(self), None))
    }
}

const _: fn() = || {
    fn owned<T: Send + Unpin + 'static>() {}
    owned::<Unlock>();
};
