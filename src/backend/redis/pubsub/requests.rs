//! What was asked over the subscription link and not answered yet. Decides nothing.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{RedisError, RedisResult, aio::PubSubSink};
use tokio::time::timeout;

/// What was asked of the server and not answered yet: one request a channel at most, and pings.
pub(super) struct Requests {
    sink: PubSubSink,
    command_timeout: Duration,
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
    pub(super) fn new(sink: PubSubSink, command_timeout: Duration) -> Self {
        Self { sink, command_timeout, under_way: FuturesUnordered::new() }
    }

    /// The next answer; none while nothing was asked.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.under_way.next().await
    }

    /// Sends with the next look at the answers.
    pub(super) fn send(&mut self, verb: Verb, channel: Option<&Arc<str>>) {
        let mut sink = self.sink.clone();
        let channel = channel.cloned();
        let within = self.command_timeout;
        self.under_way.push(Box::pin(async move {
            let name = channel.as_deref();
            let outcome = match timeout(within, ask(&mut sink, verb, name)).await {
                Ok(Ok(())) => Outcome::Done,
                Ok(Err(error)) if error.code().is_some() => Outcome::Refused(error),
                Ok(Err(_)) => Outcome::Cut,
                Err(_) => Outcome::Silent,
            };
            Answer { verb, channel, outcome }
        }));
    }
}

async fn ask(sink: &mut PubSubSink, verb: Verb, channel: Option<&str>) -> RedisResult<()> {
    match (verb, channel) {
        (Verb::Subscribe, Some(channel)) => sink.subscribe(channel).await,
        (Verb::Unsubscribe, Some(channel)) => sink.unsubscribe(channel).await,
        // Any answer will do, a refusal too.
        _ => sink.ping::<redis::Value>().await.map(|_| ()),
    }
}
