//! What happens on a channel, who hears it, and for how long. It opens no connection.

use std::fmt;

/// Hears what happens on a channel. Called from the backend's task: must not block.
pub(crate) trait Listener: Send + Sync + 'static {
    fn hear(&self, heard: Heard<'_>);
}

/// What a listener hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard<'a> {
    /// The server confirmed the subscription, for the first time or again after a new link.
    Subscribed,
    /// Somebody published.
    Message(&'a [u8]),
    /// The link is gone; messages may be missed until `Subscribed` comes again.
    Interrupted,
    /// The server refuses subscriptions to us: poll.
    Refused,
}

/// Listens as long as it lives.
#[must_use = "dropping it unsubscribes"]
pub(crate) struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Subscription {
    /// `end` runs once, when the subscription is dropped; it must not block.
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}
