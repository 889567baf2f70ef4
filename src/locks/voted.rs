//! The names of a `RedLock`: what a name is at each master, made one by a vote.

use std::{fmt, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    hash::HashLock,
    scope::Scope,
    token_string::{Manner, TokenString},
    tokens::Tokens,
};
use crate::{
    backend::{Fault, Pending},
    engine::{Letting, Protocol, Renewal},
    error::Result,
    quorum::{Everywhere, Fleet, Member, Quorum},
    token::Token,
};

/// What all names of a `RedLock` share.
pub(crate) struct VotedScope {
    fleet: Arc<Fleet>,
    /// One for each master, in their order: the same holder at all of them, with the same tokens.
    scopes: Arc<[Arc<Scope>]>,
}

impl VotedScope {
    /// `of` are the clients' own scopes, at least one.
    pub(crate) fn new(fleet: Arc<Fleet>, of: &[&Arc<Scope>], id: Uuid) -> Self {
        let tokens = of.first().map_or(0, |scope| scope.chance().token());
        Self { fleet, scopes: of.iter().map(|scope| Arc::new(scope.for_votes(id, tokens))).collect() }
    }

    pub(crate) fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// The plain lock of this name, if the name can be one at every master.
    pub(crate) fn plain_lock(&self, name: &str) -> Result<Arc<Quorum>> {
        let members = self.scopes.iter().map(|scope| scope.plain_lock(name)).collect::<Result<_>>()?;
        let scopes = Arc::clone(&self.scopes);
        let member: Member = Arc::new(move |at, key| Arc::new(HashLock::at(&scopes[at], key)));
        Ok(Arc::new(Quorum::new(&self.fleet, members, member)))
    }

    /// The token lock of this name, if the name can be one at every master.
    pub(crate) fn token_lock(&self, name: &str, manner: Manner) -> Result<Arc<dyn Tokens>> {
        let members = self.scopes.iter().map(|scope| Ok(Arc::new(scope.token_lock(name, manner)?)));
        Ok(Arc::new(VotedTokens::new(&self.fleet, members.collect::<Result<_>>()?)))
    }
}

/// A token lock over masters.
struct VotedTokens {
    fleet: Arc<Fleet>,
    members: Arc<[Arc<TokenString>]>,
    quorum: Arc<Quorum>,
}

impl VotedTokens {
    fn new(fleet: &Arc<Fleet>, members: Arc<[Arc<TokenString>]>) -> Self {
        let each = members.iter().map(|member| Arc::clone(member) as Arc<dyn Protocol>).collect();
        let of = Arc::clone(&members);
        let member: Member = Arc::new(move |at, key| Arc::new(of[at].at(key)));
        let quorum = Arc::new(Quorum::new(fleet, each, member));
        Self { fleet: Arc::clone(fleet), members, quorum }
    }
}

impl fmt::Debug for VotedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VotedTokens").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Tokens for VotedTokens {
    fn protocol(self: Arc<Self>) -> Arc<dyn Protocol> {
        Arc::clone(&self.quorum) as Arc<dyn Protocol>
    }

    fn manner(&self) -> Manner {
        self.members[0].manner()
    }

    fn in_manner(&self, manner: Manner) -> Arc<dyn Tokens> {
        let members = self.members.iter().map(|member| Arc::new(member.in_manner(manner))).collect();
        Arc::new(Self::new(&self.fleet, members))
    }

    fn release_token(&self, token: &Token) -> Pending<std::result::Result<Letting, Fault>> {
        let asked = self.members.iter().map(|member| member.release_token(token)).collect();
        Everywhere::ends(self.quorum.everywhere(), asked)
    }

    fn extend_token(&self, token: &Token, lease: Duration) -> Pending<std::result::Result<Renewal, Fault>> {
        let asked = self.members.iter().map(|member| member.extend_token(token, lease)).collect();
        Everywhere::lengthens(self.quorum.everywhere(), asked, lease)
    }
}
