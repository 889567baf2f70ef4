//! Several locks that are taken together: which they are, in which order they are taken, and what is asked of them without
//! waiting for them. How they are come by is in `gather.rs`, and what holds them in `many.rs`.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::{
    guard::LockGuard,
    handle::{Handle, Nesting},
    many::{Many, Shares, left_of},
    outcome::Released,
    plan::Plan,
    progress::requested,
    together::Together,
};
use crate::{
    error::{Error, Op, Result},
    name::Shown,
    owner::Owner,
};

/// Locks that are taken together: each once, in the order in which everybody takes them.
#[derive(Debug)]
pub(crate) struct Several {
    /// Never empty. Or what is wrong with them: every call says so.
    pub(super) handles: Result<Box<[Handle]>>,
    /// Nobody enters again where one of them is of those that nobody does.
    pub(super) nesting: Nesting,
    pub(super) name: Arc<str>,
}

impl Several {
    pub(crate) fn new(what: &'static str, parts: impl IntoIterator<Item = (Handle, Nesting)>) -> Arc<Self> {
        let (handles, nestings): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let never = nestings.contains(&Nesting::Never);
        let handles = in_order(what, handles);
        let names: Vec<_> = handles.iter().flatten().map(Handle::name).collect();
        let name = names.join(", ").into();
        Arc::new(Self { handles, nesting: if never { Nesting::Never } else { Nesting::Current }, name })
    }

    /// Takes a detached ticket of each back, or none.
    pub(crate) fn attach(&self, owner: &Owner) -> Option<LockGuard> {
        let mut shares = Shares::default();
        for handle in self.handles.as_ref().ok()? {
            match handle.attached(owner) {
                Some(share) => shares.0.push(share),
                None => {
                    shares.detach();
                    return None;
                }
            }
        }
        Some(LockGuard::many(Many::new(shares, owner.clone(), Arc::clone(&self.name))))
    }

    /// How often this owner holds the one that it holds least often. No I/O.
    pub(crate) fn hold_count(&self, owner: &Owner) -> u32 {
        let count = |handle: &Handle| handle.held(owner).unwrap_or(0);
        self.handles.iter().flatten().map(count).min().unwrap_or(0)
    }

    /// Whether anybody holds one of them, as the servers see it.
    pub(crate) async fn is_locked(&self) -> Result<bool> {
        let sights = Together::new(self.ready()?.iter().map(|handle| Box::pin(handle.sight()))).await;
        sights.into_iter().try_fold(false, |locked, sight| Ok(locked | sight?.is_some()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Those of them that there are, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.handles.iter().flatten().map(Handle::name)
    }

    /// Lets go of a detached hold of each, the last one first.
    fn releases(&self, owner: &Owner) -> Result<impl Future<Output = Vec<Result<Released>>> + Send + use<>> {
        // Each is tried, though another client of them is closed.
        let handles = self.handles.as_ref().map_err(Error::clone)?;
        let releases = handles.iter().rev().map(|handle| {
            let mut plan = Plan::new(handle.clone(), Nesting::Current);
            plan.options.owner = Some(owner.clone());
            requested(plan, Op::Release, Plan::unlock)
        });
        Ok(Together::new(releases))
    }

    /// Each can be asked for something now.
    pub(super) fn ready(&self) -> Result<&[Handle]> {
        let handles = self.handles.as_ref().map_err(Error::clone)?;
        handles.iter().try_for_each(|handle| handle.ready().map(drop))?;
        Ok(handles)
    }
}

/// Each lock once, by its key, which is the same for everybody, as no client's id is. Those of one key that several clients have
/// stay as they are named: only the caller knows of an order of these that others keep, too.
fn in_order(what: &'static str, mut handles: Vec<Handle>) -> Result<Box<[Handle]>> {
    for handle in &handles {
        handle.protocol.as_ref().map_err(Error::clone)?;
    }
    if handles.is_empty() {
        return Err(Error::invalid(what, "there is no lock in it: give it one at least"));
    }
    let key = |handle: &Handle| handle.protocol.as_ref().ok().map(|protocol| Arc::clone(protocol.key()));
    let (mut kinds, mut two) = (HashMap::new(), None);
    handles.retain(|handle| {
        let kind = handle.protocol.as_ref().ok().map(|protocol| protocol.kind());
        match kinds.entry((handle.engine.id(), key(handle))) {
            Entry::Vacant(first) => {
                first.insert(kind);
                return true;
            }
            Entry::Occupied(first) if *first.get() != kind => two = Some(handle.name().to_owned()),
            Entry::Occupied(_) => {}
        }
        false
    });
    if let Some(name) = two {
        let why = format!("lock {} is in it as two kinds of lock, and can be one of them only", Shown(&name));
        return Err(Error::invalid(what, why));
    }
    handles.sort_by_cached_key(key);
    Ok(handles.into())
}

/// The end of detached holds of several locks.
pub(super) enum UnlockSeveral {
    /// Whose they are, unless it is whoever polls.
    Planned(Arc<Several>, Option<Owner>),
    UnderWay(Pin<Box<dyn Future<Output = Vec<Result<Released>>> + Send>>),
    Done,
}

impl UnlockSeveral {
    pub(super) fn change_owner(&mut self, to: &Owner) {
        if let Self::Planned(_, owner) = self {
            *owner = Some(to.clone());
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Released>>> {
        if let Self::Planned(several, owner) = self {
            let owner = owner.take().unwrap_or_else(Owner::current);
            match several.releases(&owner) {
                Ok(releases) => *self = Self::UnderWay(Box::pin(releases)),
                Err(error) => {
                    *self = Self::Done;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let Self::UnderWay(releases) = self else { return Poll::Ready(None) };
        let released = ready!(releases.as_mut().poll(cx));
        *self = Self::Done;
        Poll::Ready(Some(left_of(released)))
    }
}
