//! The end of a detached hold, by its owner alone.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    entry_ref::EntryRef,
    handle::Handle,
    outcome::Released,
    tenure::Tenure,
    unlock::{Asked, Unlocking},
};
use crate::{
    error::{Error, Result},
    owner::Owner,
    state::{self, Hold, Unlockable},
};

/// What becomes of it.
pub(super) enum UnlockingDetached {
    UnderWay { unlocking: Unlocking, place: EntryRef, owner: state::Owner },
    Answered(Option<Result<Released>>),
}

impl UnlockingDetached {
    pub(super) fn begin(handle: &Handle, owner: Owner) -> Self {
        let answered = |error| Self::Answered(Some(Err(error)));
        let protocol = match handle.ready() {
            Ok(protocol) => protocol,
            Err(error) => return answered(error),
        };
        let not_held = |guards| answered(Error::NotHeld { name: Arc::clone(protocol.name()), guards });
        let Some(place) = handle.engine.find(protocol.key()) else { return not_held(0) };
        let number = state::Owner(owner.number());
        let asked = match place.change(|name, env, _| name.unlockable(number, env.now)) {
            Unlockable::Ticket(id) | Unlockable::UnderWay(id) => Asked::End(id),
            Unlockable::Untold => Asked::Count(number),
            Unlockable::Nothing { guards } => return not_held(guards),
        };
        let unlocking = Unlocking::begin(&place, asked, Tenure::new(owner, None), None);
        Self::UnderWay { unlocking, place, owner: number }
    }
}

impl Future for UnlockingDetached {
    type Output = Result<Released>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::UnderWay { unlocking, place, owner } => {
                Poll::Ready(match ready!(Pin::new(unlocking).poll(cx)) {
                    // Others stay: the count that an unreachable server still has heals by itself, so it is no error: a second
                    // try must not end a second one.
                    Err(error) if error.is_transient() => {
                        let left = place.look(|name, now| name.held_by(*owner, now).map(Hold::granted));
                        left.map_or(Err(error), |left| Ok(Released::StillHeld(left)))
                    }
                    answer => answer,
                })
            }
            Self::Answered(answer) => Poll::Ready(answer.take().unwrap_or(Err(Error::Closed))),
        }
    }
}
