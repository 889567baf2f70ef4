//! One link over which channels are listened to, of either kind. It knows no listener and keeps no message.

use futures_util::{FutureExt, StreamExt};
use redis::{
    Cmd, ErrorKind, Msg, PushInfo, PushKind, RedisError, RedisResult, Value,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream},
};
use tokio::{sync::mpsc, task::unconstrained};

use super::requests::Verb;
use crate::backend::{
    Publish,
    redis::{
        codec,
        naming::Named,
        options::{Clients, link_config},
    },
};

/// What is said over a link.
pub(super) enum Subscriber {
    /// What is told to all servers of a deployment.
    Classic(PubSubStream),
    /// What is told to one node of a cluster.
    Sharded { pushes: mpsc::UnboundedReceiver<PushInfo>, _connection: Named },
}

/// What is asked over it.
#[derive(Clone)]
pub(super) enum Sink {
    Classic(PubSubSink),
    Sharded(MultiplexedConnection),
}

/// What a server sends that nobody asked for.
pub(super) enum Push {
    Classic(Msg),
    Sharded(PushInfo),
    /// The server ended the subscription to this channel, by itself or because it was asked to.
    Ended(String),
}

/// Opens one; `None` where the server must know a newer protocol than may be spoken with it.
pub(super) async fn open(clients: &Clients, kind: Publish) -> RedisResult<(Sink, Subscriber)> {
    let resp3 = match (kind, &clients.resp3) {
        (Publish::Sharded, Some(client)) => client,
        _ => {
            let (sink, stream) = clients.resp2.get_async_pubsub().await?.split();
            return Ok((Sink::Classic(sink), Subscriber::Classic(stream)));
        }
    };
    let (sender, pushes) = mpsc::unbounded_channel();
    let config = link_config().set_push_sender(sender);
    let connection = resp3.get_multiplexed_async_connection_with_config(&config).await?;
    let named = Named::new(connection, clients);
    Ok((Sink::Sharded(named.get()), Subscriber::Sharded { pushes, _connection: named }))
}

impl Subscriber {
    /// The next of it; `None` at the end of the link.
    pub(super) async fn next(&mut self) -> Option<Push> {
        match self {
            Self::Classic(stream) => stream.next().await.map(Push::Classic),
            Self::Sharded { pushes, .. } => loop {
                let push = pushes.recv().await?;
                match push.kind {
                    PushKind::Disconnection => return None,
                    PushKind::SMessage => return Some(Push::Sharded(push)),
                    PushKind::SUnsubscribe => {
                        let channel = push.data.first().and_then(codec::text).unwrap_or_default();
                        return Some(Push::Ended(channel.to_owned()));
                    }
                    _ => {}
                }
            },
        }
    }

    /// What was sent already. Unconstrained: a spent task budget would hide it.
    pub(super) fn now(&mut self) -> Option<Push> {
        unconstrained(self.next()).now_or_never().flatten()
    }
}

impl Push {
    /// The channel and what was published there, unless it is something else.
    pub(super) fn message(&self) -> Option<(&str, &[u8])> {
        match self {
            Self::Classic(message) => Some((message.get_channel_name(), message.get_payload_bytes())),
            Self::Sharded(push) => match &push.data[..] {
                [channel, Value::BulkString(payload)] => Some((codec::text(channel)?, payload)),
                _ => None,
            },
            Self::Ended(_) => None,
        }
    }
}

impl Sink {
    /// Asks, and waits for the answer. One that belongs to something else is an error without a code: from there on nobody
    /// knows whose answers are whose.
    pub(super) async fn ask(&mut self, verb: Verb, channel: Option<&str>) -> RedisResult<()> {
        let connection = match (self, verb, channel) {
            (Self::Classic(sink), Verb::Subscribe, Some(channel)) => return sink.subscribe(channel).await,
            (Self::Classic(sink), Verb::Unsubscribe, Some(channel)) => return sink.unsubscribe(channel).await,
            // Any answer will do, a refusal too.
            (Self::Classic(sink), ..) => return sink.ping::<Value>().await.map(|_| ()),
            (Self::Sharded(connection), ..) => connection,
        };
        let (cmd, kind) = match (verb, channel) {
            (Verb::Subscribe, Some(channel)) => (of("SSUBSCRIBE", channel), Some((PushKind::SSubscribe, channel))),
            (Verb::Unsubscribe, Some(channel)) => {
                (of("SUNSUBSCRIBE", channel), Some((PushKind::SUnsubscribe, channel)))
            }
            _ => (redis::cmd("PING"), None),
        };
        match (connection.send_packed_command(&cmd).await?, kind) {
            (Value::ServerError(error), _) => Err(error.into()),
            (Value::Push { kind, data }, Some((wanted, channel)))
                if kind == wanted && data.first().and_then(codec::text) == Some(channel) =>
            {
                Ok(())
            }
            (Value::SimpleString(_) | Value::BulkString(_) | Value::Okay, None) => Ok(()),
            _ => Err(RedisError::from((ErrorKind::UnexpectedReturnType, "an answer to something else"))),
        }
    }
}

fn of(verb: &str, channel: &str) -> Cmd {
    let mut cmd = redis::cmd(verb);
    cmd.arg(channel);
    cmd
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::backend::redis::testing::{Server, options};

    /// Whatever else is received in this poll of the task looks as if there were nothing.
    fn spend_the_budget() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        (0..1000).for_each(|n| sender.send(n).unwrap());
        while receiver.recv().now_or_never().is_some() {}
        assert!(!receiver.is_empty());
    }

    #[tokio::test]
    async fn what_was_said_is_found_by_a_task_that_has_done_as_much_as_it_may() {
        let server = Server::start();
        for (kind, publish) in [(Publish::Classic, "PUBLISH"), (Publish::Sharded, "SPUBLISH")] {
            let clients = server.target().clients(options(3000)).unwrap();
            let (mut sink, mut subscriber) = open(&clients, kind).await.unwrap();
            sink.ask(Verb::Subscribe, Some("a")).await.unwrap();
            assert_eq!(server.ask::<i64>(&[publish, "a", "0"]), 1);
            let hears = async {
                loop {
                    spend_the_budget();
                    match subscriber.now() {
                        Some(push) if push.message().is_some() => break,
                        _ => sleep(Duration::from_millis(2)).await,
                    }
                }
            };
            timeout(Duration::from_secs(10), hears).await.unwrap_or_else(|_| panic!("{publish}"));
        }
    }
}
