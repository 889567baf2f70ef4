//! One owner's time with a hold, and how it ended: what that owner's guards share. It knows no deadline and no count.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, LostCause},
    owner::Owner,
};

/// One owner's time with a hold, shared with that owner's guards. A pass ends it and begins another.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) owner: Owner,
    end: OnceLock<End>,
    token: OnceLock<CancellationToken>,
}

/// How a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Released, passed on or handed over.
    Over,
    Lost(Loss),
}

/// How and when a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LostCause,
    pub(crate) since: std::time::Instant,
}

impl Tenure {
    pub(crate) fn new(owner: Owner) -> Arc<Self> {
        Arc::new(Self { owner, end: OnceLock::new(), token: OnceLock::new() })
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end.get().copied()
    }

    /// The first end counts; whoever waits for it is woken. Not to be called under an entry's mutex: wakers run here.
    pub(crate) fn finish(&self, end: End) {
        let _ = self.end.set(end);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    /// Notes the end under the entry's mutex; [`Tenure::finish`] follows outside.
    pub(crate) fn note(&self, end: End) {
        let _ = self.end.set(end);
    }

    /// Cancelled when the tenure ends, however it ends.
    pub(crate) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        if self.end.get().is_some() {
            token.cancel();
        }
        token
    }

    /// The error of a lost tenure.
    pub(crate) fn loss(&self, name: &Arc<str>) -> Option<Error> {
        match self.end()? {
            End::Over => None,
            End::Lost(loss) => Some(loss.error(name)),
        }
    }
}

impl Loss {
    pub(crate) fn error(self, name: &Arc<str>) -> Error {
        Error::Lost { name: Arc::clone(name), cause: self.cause, since: self.since }
    }
}
