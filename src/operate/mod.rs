//! For operators: which locks there are, who holds them, the end of exactly one hold by force, and what is wrong with a deployment.
//!
//! All of it goes over connections of its own, one to each server that is looked at, so that no lock of the client waits behind a
//! look. They are called as the client's others are, and closed when the call or the stream is over.
//!
//! Of an embedded store it is told what keys and channels say: nobody has a label there, and it is no deployment to diagnose.
//!
//! | file | job |
//! | --- | --- |
//! | `find` | all locks of a pattern, server by server |
//! | `look` | what some keys are, by questions that cost a server little |
//! | `names` | which names keys have |
//! | `listening` | who listens, and what holders call themselves |
//! | `one` | what one name is |
//! | `size` | how large its keys are, before they are read |
//! | `force` | the end of one hold |
//! | `diagnose`, `check`, `rights` | what is wrong with a deployment, with a server, and with what a user may do there |
//! | `found`, `holder`, `finding` | what is told |
//!
//! # Rights
//!
//! Beside what [`Client::required_acl`] says, with keys of the locks that are looked for:
//!
//! | for | the user needs |
//! | --- | --- |
//! | [`Client::find`], [`Client::find_without_ttl`] | `+scan +type +hlen +hkeys +hgetall +strlen +get +pttl +time` |
//! | [`Found::listeners`] | `+pubsub\|numsub`, on a cluster with sharded channels `+pubsub\|shardnumsub`; without it there is none |
//! | [`Holder::label`] | `+client\|list +info`; without them there is none |
//! | [`Client::diagnose`] | `+info +config\|get +acl\|whoami +acl\|dryrun`, on a cluster `+cluster\|info`; what is missing is a finding |
//!
//! [`Client::inspect_key`], [`Client::inspect_job`] and [`Client::force_unlock_held`] need no more than locks do. With `+hlen +strlen` they
//! ask how large a key is and read nothing of a large one; without, to name a stranger's key costs the server what it costs to read
//! it. All of them see with `+memory\|usage` that a hash of few fields is a large one, too; without, such a one is read. A key of the pattern that
//! the user may not read is none of those that are found, and leaves an entry in the server's ACL log.

mod check;
mod diagnose;
mod find;
mod finding;
mod force;
mod found;
mod holder;
mod listening;
mod look;
mod names;
mod one;
mod rights;
mod size;

use std::sync::Arc;

use self::look::Slots;
pub use self::{
    find::Search,
    finding::{Finding, Severity, Subject},
    found::{ForcedRelease, Found, Holder, Kind},
    holder::HolderId,
};
#[cfg(doc)]
use crate::Client;
use crate::{
    backend::{Answers, Question, Server, questions},
    engine::Engine,
    error::Result,
    locks::Scope,
};

/// Whoever looks for a client.
#[derive(Clone)]
struct Looker {
    engine: Arc<Engine>,
    scope: Arc<Scope>,
}

impl Looker {
    fn of(client: &crate::Client) -> Self {
        let (engine, scope) = client.parts();
        Self { engine: Arc::clone(engine), scope: Arc::clone(scope) }
    }

    /// The answers to all of it; nothing is sent for none.
    async fn ask(&self, server: &Arc<dyn Server>, questions: Vec<Question>) -> Result<Answers> {
        self.ask_about(&Arc::from(""), server, questions, Slots::Own).await
    }

    /// The same for the sake of this name, and of keys whose slots may be another node's.
    async fn ask_about(
        &self,
        name: &Arc<str>,
        server: &Arc<dyn Server>,
        questions: Vec<Question>,
        slots: Slots,
    ) -> Result<Answers> {
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let server = Arc::clone(server);
        let questions = match slots {
            Slots::Own => questions,
            Slots::Coming => questions.into_iter().flat_map(|question| [questions::asking(), question]).collect(),
        };
        let asked = Box::pin(async move { server.ask(questions).await });
        let answers = self.engine.looked(name, asked).await?;
        Ok(match slots {
            Slots::Own => answers,
            Slots::Coming => answers.into_iter().skip(1).step_by(2).collect(),
        })
    }
}
