//! Servers one by one, for whoever looks at all of them: over connections of their own, so that no lock waits behind a look. What is
//! asked there is in `questions.rs`.

use super::{Fault, Pending, Value};

/// A command, word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question(pub(super) Vec<Vec<u8>>);

/// The answer to each question; one that the server refuses is a fault of its own.
pub(crate) type Answers = Vec<Result<Value, Fault>>;

/// One server that has keys.
pub(crate) trait Server: Send + Sync {
    /// Where it is: of two servers this is never the same.
    fn address(&self) -> String;

    /// Asks it all of this in one go, within the command timeout. Must be polled where the client lives. Dropped, the connection is
    /// given up, and the next one opens another.
    ///
    /// # Errors
    ///
    /// Where it does not answer all of it.
    fn ask(&self, questions: Vec<Question>) -> Pending<Result<Answers, Fault>>;

    /// Whether this user may listen to a channel where this client would.
    fn listen(&self, channel: &str) -> Pending<Result<(), Fault>>;
}

/// What kind of deployment the servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// One server, which may have replicas.
    Standalone,
    /// A master of which so many sentinels tell.
    Sentinel(usize),
    Cluster,
    /// A store in this process.
    Embedded,
}
