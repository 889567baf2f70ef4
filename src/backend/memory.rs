//! Since when a server has everything that it was told. It asks nobody.

use tokio::time::Instant;

/// Since when the server that answers for a key surely has everything that it was told, by our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The process behind the present link told when it began. Where another one answered before it, or another node had the
    /// slot: since that was seen, if that is later.
    Since(Instant),
    /// It does not tell, so the present link counts: it was opened then. Every later one counts as a restart.
    SinceLink(Instant),
    /// It was not heard yet, and the present link counts until then.
    NotHeard(Instant),
}

impl Memory {
    pub(crate) fn since(self) -> Instant {
        match self {
            Self::Since(since) | Self::SinceLink(since) | Self::NotHeard(since) => since,
        }
    }

    /// No longer than this, whatever it told.
    pub(crate) fn not_before(self, changed: Instant) -> Self {
        match self {
            Self::Since(since) => Self::Since(since.max(changed)),
            Self::SinceLink(since) => Self::SinceLink(since.max(changed)),
            Self::NotHeard(since) => Self::NotHeard(since.max(changed)),
        }
    }
}
