//! What a token lock needs of wherever its key is: at one server, or at several that vote.

use std::{fmt, sync::Arc, time::Duration};

use super::token_string::{Manner, TokenString};
use crate::{
    backend::{Fault, Pending},
    engine::{Letting, Protocol, Renewal},
    token::Token,
};

/// A key that holds a token.
pub(crate) trait Tokens: fmt::Debug + Send + Sync {
    /// The lock that it is.
    fn protocol(self: Arc<Self>) -> Arc<dyn Protocol>;

    fn manner(&self) -> Manner;

    /// The same lock in another manner.
    fn in_manner(&self, manner: Manner) -> Arc<dyn Tokens>;

    /// Releases what somebody holds by this token alone.
    fn release_token(&self, token: &Token) -> Pending<Result<Letting, Fault>>;

    /// Makes what somebody holds by this token alone last at least so long from now.
    fn extend_token(&self, token: &Token, lease: Duration) -> Pending<Result<Renewal, Fault>>;
}

impl Tokens for TokenString {
    fn protocol(self: Arc<Self>) -> Arc<dyn Protocol> {
        self
    }

    fn manner(&self) -> Manner {
        Self::manner(self)
    }

    fn in_manner(&self, manner: Manner) -> Arc<dyn Tokens> {
        Arc::new(Self::in_manner(self, manner))
    }

    fn release_token(&self, token: &Token) -> Pending<Result<Letting, Fault>> {
        Self::release_token(self, token)
    }

    fn extend_token(&self, token: &Token, lease: Duration) -> Pending<Result<Renewal, Fault>> {
        Self::extend_token(self, token, lease)
    }
}
