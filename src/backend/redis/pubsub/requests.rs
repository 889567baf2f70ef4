//! What was asked over the subscription link and not answered yet. Decides nothing.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{RedisError, RedisResult};
use tokio::time::{Instant, timeout_at};

use super::subscriber::Sink;
use crate::backend::redis::link::Answers;

/// What was asked of the server and not answered yet: one request a channel at most, and pings.
pub(super) struct Requests {
    sink: Sink,
    command_timeout: Duration,
    /// Answers come in the order of the requests: as long as earlier ones come, a later one is not missing.
    answers: Arc<Answers>,
    pings: bool,
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Answer> + Send>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Subscribe,
    Unsubscribe,
    Ping,
}

pub(super) struct Answer {
    pub(super) verb: Verb,
    pub(super) channel: Option<Arc<str>>,
    pub(super) outcome: Outcome,
}

pub(super) enum Outcome {
    Done,
    Refused(RedisError),
    Cut,
    Silent,
}

impl Requests {
    pub(super) fn new(sink: Sink, command_timeout: Duration) -> Self {
        let answers = Arc::new(Answers::new());
        Self { sink, command_timeout, answers, pings: false, under_way: FuturesUnordered::new() }
    }

    /// The next answer; none while nothing was asked. Dropped, it takes none away.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        let answer = self.under_way.next().await;
        self.pings &= !matches!(answer, Some(Answer { verb: Verb::Ping, .. }));
        if matches!(answer, Some(Answer { outcome: Outcome::Done | Outcome::Refused(_), .. })) {
            self.answers.note();
        }
        answer
    }

    /// Whether a ping is under way.
    pub(super) fn pings(&self) -> bool {
        self.pings
    }

    /// Sends with the next look at the answers.
    pub(super) fn send(&mut self, verb: Verb, channel: Option<&Arc<str>>) {
        self.pings |= verb == Verb::Ping;
        let mut sink = self.sink.clone();
        let channel = channel.cloned();
        let (answers, within) = (Arc::clone(&self.answers), self.command_timeout);
        self.under_way.push(Box::pin(async move {
            let outcome = outcome(sink.ask(verb, channel.as_deref()), &answers, within).await;
            Answer { verb, channel, outcome }
        }));
    }
}

async fn outcome(asking: impl Future<Output = RedisResult<()>>, answers: &Answers, within: Duration) -> Outcome {
    let sent = Instant::now();
    let mut asking = pin!(asking);
    loop {
        let until = sent.max(answers.last()) + within;
        return match timeout_at(until, asking.as_mut()).await {
            Ok(Ok(())) => Outcome::Done,
            Ok(Err(error)) if error.code().is_some() => Outcome::Refused(error),
            Ok(Err(_)) => Outcome::Cut,
            Err(_) if answers.last() + within > until => continue,
            Err(_) => Outcome::Silent,
        };
    }
}
