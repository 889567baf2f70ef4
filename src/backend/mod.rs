//! The seam to a server: run a script, listen on a channel. It knows no lock, no wait and no lease.

use std::{error::Error as StdError, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{
    error::UnexpectedReply,
    script::Script,
    spare::{Boxes, Reused, Spare},
};

mod backoff;
mod dispatch;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod redis;
mod reply;

pub(crate) use dispatch::Dispatch;
pub(crate) use reply::{Reply, decode};

/// An answer that is still on its way.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// An answer to one script.
pub(crate) type Answer = Reused<Result<Value, Fault>>;

thread_local! {
    static ANSWERS: Boxes<Result<Value, Fault>> = const { Spare::new() };
}

/// In a box that an earlier one had.
fn answer(future: impl Future<Output = Result<Value, Fault>> + Send + 'static) -> Answer {
    Reused::new(&ANSWERS, future)
}

/// What a server must offer.
///
/// Commands that are polled first go first: two futures of [`Backend::run`] that were polled in turn while
/// [`Backend::link`] stayed the same reach the server in that order. Every answer comes within the command timeout,
/// counted from the first poll, as an answer or as a [`Fault`]. Dropping a future withdraws the command if it was not
/// written yet, and ends all repetitions by lower layers. A command that waits for a link is asked for once more when it
/// gets one: see [`Dispatch`].
pub(crate) trait Backend: Send + Sync + 'static {
    /// Runs one script.
    fn run(&self, call: &Call<'_>) -> Answer;

    /// Runs many scripts in one pipeline, within `within`; one answer for each, in order.
    fn run_many(&self, calls: &[Call<'_>], within: Duration) -> Pending<Vec<Result<Value, Fault>>>;

    /// Listens on a channel until the subscription is dropped. Comes back at once; what happens is heard.
    fn subscribe(&self, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription;

    /// Which link the next command takes; another number after every replacement.
    fn link(&self) -> u64;

    /// When a script was last answered, by a refusal too; when the first link was opened, if none ever was. A server that
    /// lets one in and answers no script is silent.
    fn last_answer(&self) -> Instant;

    /// Ends both links. Commands under way and later ones answer with [`FaultKind::Closed`].
    fn close(&self);
}

/// One script with its keys and arguments, borrowed: a backend encodes it before it returns.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [Arg<'a>],
    /// Asked before each sending; the calls of one pipeline leave together or not at all.
    pub(crate) dispatch: Option<&'a Arc<Dispatch>>,
}

/// An argument as it goes to the server.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    Text(&'a str),
    /// Text as its bytes, for what was built of text a moment ago.
    Bytes(&'a [u8]),
    Int(i64),
}

/// A reply, free of any driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    /// An array of nothing but numbers, as most scripts answer: a few need no memory of their own.
    Numbers(SmallVec<[i64; 4]>),
    /// Any other array.
    Array(Vec<Value>),
}

impl Value {
    /// An array of these parts, if there are any and each is a number.
    fn of_numbers<P>(parts: &[P], number: impl Fn(&P) -> Option<i64>) -> Option<Self> {
        if parts.is_empty() { None } else { parts.iter().map(number).collect::<Option<_>>().map(Self::Numbers) }
    }

    /// The numbers of an array of numbers; none of anything else.
    pub(crate) fn numbers(&self) -> &[i64] {
        if let Self::Numbers(numbers) = self { numbers } else { &[] }
    }
}

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

/// Why there is no answer of the script's own.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Whether the script may have run all the same.
    pub(crate) may_have_run: bool,
    pub(crate) source: Arc<dyn StdError + Send + Sync>,
}

impl Fault {
    /// A command that had no answer in time.
    pub(crate) fn timeout(may_have_run: bool, why: &'static str) -> Self {
        Self::of(FaultKind::Timeout, may_have_run, why)
    }

    /// One for which nobody had words but us.
    pub(crate) fn of(kind: FaultKind, may_have_run: bool, why: impl Into<String>) -> Self {
        Self { kind, may_have_run, source: Arc::from(Box::<dyn StdError + Send + Sync>::from(why.into())) }
    }

    /// An answer that this script does not give.
    pub(crate) fn unexpected(script: &'static str, reply: &impl fmt::Debug) -> Self {
        let source = Arc::new(UnexpectedReply::new(script, reply));
        Self { kind: FaultKind::Unexpected, may_have_run: true, source }
    }
}

/// The kinds of fault that the layers above tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// No answer within the command's deadline.
    Timeout,
    /// No link: refused, dropped, or not there in time.
    Dropped,
    /// The server cannot now but may soon: LOADING, TRYAGAIN, CLUSTERDOWN, MASTERDOWN, NOREPLICAS, BUSY.
    Unready,
    /// READONLY or MISCONF: a replica, or a master that may not write.
    ReadOnly,
    /// NOPERM, NOAUTH, WRONGPASS.
    Permission,
    /// WRONGTYPE.
    WrongType,
    /// OOM.
    OutOfMemory,
    /// EVAL and EVALSHA are unknown or forbidden by the server's configuration.
    ScriptDisabled,
    /// Any other word of refusal.
    Other,
    /// An answer that no script of ours gives.
    Unexpected,
    /// Its caller did not want it any more when it was to leave: it never did.
    Withdrawn,
    /// The backend was closed.
    Closed,
}

impl FaultKind {
    /// Whether the same command may succeed when it is sent again.
    pub(crate) fn heals(self) -> bool {
        matches!(self, Self::Timeout | Self::Dropped | Self::Unready | Self::ReadOnly)
    }
}
