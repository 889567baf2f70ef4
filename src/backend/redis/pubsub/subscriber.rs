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
        link::refuses_hello,
        naming::Named,
        options::{Clients, link_config},
    },
};

/// What is said over a link.
pub(in crate::backend::redis) enum Subscriber {
    /// In the older protocol, in which the driver sends nothing else over it: it has no name.
    Resp2(PubSubStream),
    Resp3 {
        pushes: mpsc::UnboundedReceiver<PushInfo>,
        _connection: Named,
    },
}

/// What is asked over it.
#[derive(Clone)]
pub(in crate::backend::redis) enum Sink {
    Resp2(PubSubSink),
    Resp3(MultiplexedConnection, Publish),
}

/// What a server sends that nobody asked for.
pub(in crate::backend::redis) enum Push {
    Resp2(Msg),
    Resp3(PushInfo),
    /// The server ended the subscription to this channel, by itself or because it was asked to.
    Ended(String),
}

/// Opens one, in the newer protocol where that may be spoken and is known. Without it there are no sharded channels.
pub(in crate::backend::redis) async fn open(clients: &Clients, kind: Publish) -> RedisResult<(Sink, Subscriber)> {
    if let Some(client) = &clients.resp3 {
        let (sender, pushes) = mpsc::unbounded_channel();
        let config = link_config().set_push_sender(sender);
        match client.get_multiplexed_async_connection_with_config(&config).await {
            Ok(connection) => {
                let named = Named::new(connection, clients);
                return Ok((Sink::Resp3(named.get(), kind), Subscriber::Resp3 { pushes, _connection: named }));
            }
            Err(error) if kind == Publish::Classic && clients.falls_back && refuses_hello(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let (sink, stream) = clients.resp2.get_async_pubsub().await?.split();
    Ok((Sink::Resp2(sink), Subscriber::Resp2(stream)))
}

impl Subscriber {
    /// The next of it; `None` at the end of the link.
    pub(in crate::backend::redis) async fn next(&mut self) -> Option<Push> {
        match self {
            Self::Resp2(stream) => stream.next().await.map(Push::Resp2),
            Self::Resp3 { pushes, .. } => loop {
                let push = pushes.recv().await?;
                match push.kind {
                    PushKind::Disconnection => return None,
                    PushKind::Message | PushKind::SMessage => return Some(Push::Resp3(push)),
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
            Self::Resp2(message) => Some((message.get_channel_name(), message.get_payload_bytes())),
            Self::Resp3(push) => match &push.data[..] {
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
    pub(in crate::backend::redis) async fn ask(&mut self, verb: Verb, channel: Option<&str>) -> RedisResult<()> {
        let (connection, kind) = match (self, verb, channel) {
            (Self::Resp2(sink), Verb::Subscribe, Some(channel)) => return sink.subscribe(channel).await,
            (Self::Resp2(sink), Verb::Unsubscribe, Some(channel)) => return sink.unsubscribe(channel).await,
            // Any answer will do, a refusal too.
            (Self::Resp2(sink), ..) => return sink.ping::<Value>().await.map(|_| ()),
            (Self::Resp3(connection, kind), ..) => (connection, *kind),
        };
        let (mut cmd, wanted) = words(verb, kind);
        cmd.arg(channel);
        match (connection.send_packed_command(&cmd).await?, wanted) {
            (Value::ServerError(error), _) => Err(error.into()),
            (Value::Push { kind, data }, Some(wanted))
                if kind == wanted && data.first().and_then(codec::text) == channel =>
            {
                Ok(())
            }
            (Value::SimpleString(_) | Value::BulkString(_) | Value::Okay, None) => Ok(()),
            _ => Err(RedisError::from((ErrorKind::UnexpectedReturnType, "an answer to something else"))),
        }
    }
}

/// How it is asked for channels of this kind, and which push says that it is done; none where an answer does.
fn words(verb: Verb, kind: Publish) -> (Cmd, Option<PushKind>) {
    let (word, done) = match (verb, kind) {
        (Verb::Subscribe, Publish::Classic) => ("SUBSCRIBE", Some(PushKind::Subscribe)),
        (Verb::Subscribe, Publish::Sharded) => ("SSUBSCRIBE", Some(PushKind::SSubscribe)),
        (Verb::Unsubscribe, Publish::Classic) => ("UNSUBSCRIBE", Some(PushKind::Unsubscribe)),
        (Verb::Unsubscribe, Publish::Sharded) => ("SUNSUBSCRIBE", Some(PushKind::SUnsubscribe)),
        (Verb::Ping, _) => ("PING", None),
    };
    (redis::cmd(word), done)
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
