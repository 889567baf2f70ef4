//! What was asked for, before the first poll; then it is checked, and done. The futures that users hold, which do so, are in
//! `request.rs`, and what an acquisition is in `acquisition.rs`.

use std::{sync::Arc, time::Duration};

use tokio::task;

use super::{
    Settings,
    acquisition::Acquisition,
    ask::{AcquireOptions, Patience, Terms},
    detached::UnlockingDetached,
    handle::{Handle, Nesting},
    shared::Engine,
};
use crate::{
    error::{Error, Result},
    lease::{self, Lease, Wait},
    owner::Owner,
};

/// What a caller may say of a request before its first poll.
#[derive(Clone, Default)]
pub(super) struct Options {
    pub(super) owner: Option<Owner>,
    pub(super) lease: Lease,
    pub(super) max_hold: Option<Duration>,
    pub(super) wait: Option<Duration>,
}

/// What was asked for, before the first poll.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) handle: Handle,
    pub(super) nesting: Nesting,
    pub(super) options: Options,
    /// Who polled first, or first after it was begun anew.
    task: Option<task::Id>,
    task_of: TaskOf,
}

/// Which task asks.
#[derive(Clone, Copy)]
enum TaskOf {
    Poller,
    /// Another one polls for it.
    Caller,
}

impl Plan {
    pub(super) fn new(handle: Handle, nesting: Nesting) -> Self {
        Self { handle, nesting, options: Options::default(), task: None, task_of: TaskOf::Poller }
    }

    /// For a caller who waits for several, wherever this one is polled.
    pub(super) fn of_many(handle: Handle, nesting: Nesting, task: Option<task::Id>) -> Self {
        let nesting = if nesting == Nesting::Never { Nesting::NeverOfMany } else { nesting };
        Self { task, task_of: TaskOf::Caller, ..Self::new(handle, nesting) }
    }

    /// Whoever polls first is the owner, wherever the rest is done.
    pub(super) fn begin(&mut self) {
        if self.nesting == Nesting::Current {
            self.options.owner.get_or_insert_with(Owner::current);
        }
        if let TaskOf::Poller = self.task_of {
            self.task = task::try_id();
        }
    }

    /// The name as an error has it.
    pub(super) fn full_name(&self) -> Arc<str> {
        self.handle.protocol.as_ref().map_or_else(|_| Arc::from(""), |protocol| Arc::clone(protocol.name()))
    }

    /// Checks everything that needs no server. The owner is whoever polls first.
    fn check(&self, waits: Waits) -> Result<AcquireOptions> {
        self.handle.ready()?;
        let Terms { lease, max_hold } =
            self.options.terms(self.handle.engine.settings()).map_err(|error| self.said(error))?;
        let patience = waits.patience(self.options.wait, &self.handle.engine);
        let owner = self.options.whose(self.nesting).map_err(|error| self.said(error))?;
        let nests = self.nesting == Nesting::Current;
        Ok(AcquireOptions { owner, lease, max_hold, patience, task: self.task, nests })
    }

    /// What is wrong with an option, and of which lock.
    fn said(&self, error: Error) -> Error {
        error.for_lock(self.handle.name())
    }

    pub(super) fn acquire(&self, waits: Waits) -> Acquisition {
        let ask = match self.check(waits) {
            Ok(ask) => ask,
            Err(error) => return Acquisition::refused(error),
        };
        let Handle { engine, protocol } = &self.handle;
        let Ok(protocol) = protocol else { return Acquisition::refused(Error::Closed) };
        Acquisition::start(engine, protocol, ask)
    }

    pub(super) fn unlock(&self) -> UnlockingDetached {
        let owner = self.options.owner.clone().unwrap_or_else(Owner::current);
        UnlockingDetached::begin(&self.handle, owner)
    }
}

/// How long the caller of a request waits.
#[derive(Clone, Copy)]
pub(super) enum Waits {
    ForEver,
    AsTold,
    /// As told for an answer, and not at all until a lock is free.
    ForAnswer,
}

impl Waits {
    pub(super) fn patience(self, wait: Option<Duration>, engine: &Engine) -> Patience {
        match (self, lease::wait(wait.unwrap_or_default())) {
            (Self::ForEver, _) | (Self::AsTold, Wait::Forever) => Patience::ForEver,
            (Self::AsTold | Self::ForAnswer, Wait::None) | (Self::ForAnswer, Wait::Forever) => Patience::Once,
            (Self::AsTold, Wait::For(wait)) => Patience::Until(engine.clock().now() + wait),
            (Self::ForAnswer, Wait::For(wait)) => Patience::OnceBy(engine.clock().now() + wait),
        }
    }
}

impl Options {
    pub(super) fn terms(&self, settings: &Settings) -> Result<Terms> {
        let lease = match self.lease {
            Lease::Watchdog => Lease::Watchdog,
            Lease::Fixed(lease) => Lease::Fixed(settings.fixed_lease(lease)?),
        };
        Ok(Terms { lease, max_hold: self.max_hold.map(lease::max_hold).transpose()? })
    }

    /// Whose it is, for whoever polls now.
    pub(super) fn whose(&self, nesting: Nesting) -> Result<Owner> {
        match (&self.owner, nesting) {
            (Some(_), Nesting::Never) => {
                Err(Error::invalid("owner", "a mutex gives every acquisition an owner of its own"))
            }
            (Some(owner), Nesting::Current | Nesting::NeverOfMany) => Ok(owner.clone()),
            (None, Nesting::Current) => Ok(Owner::current()),
            (None, Nesting::Never | Nesting::NeverOfMany) => Ok(Owner::new()),
        }
    }
}
