//! What the fault proxy does to confirmations and messages, in both protocols. Requests and their replies are in
//! `proxy.rs`.

use std::time::Duration;

use redis::{AsyncCommands, Client, RedisFuture, aio::MultiplexedConnection};
use tokio::time::timeout;

use crate::harness::{
    Server, eventually,
    proxy::{
        Action, Event, Proxy,
        matching::{any, command, push},
    },
    unique_name,
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// What must not come has this long to do so all the same.
const A_WHILE: Duration = Duration::from_millis(60);

/// A subscriber in each of the two protocols, and the messages it hears.
async fn subscribers(proxy: &Proxy) -> [(&'static str, Subscriber); 2] {
    let client = Client::open(proxy.url()).expect("the proxy's url is good");
    let old = Subscriber::Old(Box::new(client.get_async_pubsub().await.expect("connects")));
    let client = Client::open(format!("{}?protocol=resp3", proxy.url())).expect("the proxy's url is good");
    let (sender, pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender).set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config).await.expect("connects");
    [("the old protocol", old), ("the new protocol", Subscriber::New(connection, pushes))]
}

enum Subscriber {
    Old(Box<redis::aio::PubSub>),
    New(MultiplexedConnection, tokio::sync::mpsc::UnboundedReceiver<redis::PushInfo>),
}

impl Subscriber {
    fn subscribe<'a>(&'a mut self, channel: &'a str) -> RedisFuture<'a, ()> {
        Box::pin(async move {
            match self {
                Self::Old(pubsub) => pubsub.subscribe(channel).await,
                Self::New(connection, _) => connection.subscribe(channel).await,
            }
        })
    }

    /// The next message's channel, if one comes within `within`.
    async fn hears(&mut self, within: Duration) -> Option<String> {
        let next = async {
            match self {
                Self::Old(pubsub) => {
                    use tokio_stream::StreamExt;
                    pubsub.on_message().next().await.map(|message| message.get_channel_name().to_owned())
                }
                Self::New(_, pushes) => loop {
                    let push = pushes.recv().await?;
                    if push.kind == redis::PushKind::Message {
                        return redis::from_redis_value(push.data.first()?.clone()).ok();
                    }
                },
            }
        };
        timeout(within, next).await.ok().flatten()
    }
}

#[tokio::test]
async fn confirmations_and_messages_flow_to_subscribers_of_both_protocols() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    for (protocol, mut subscriber) in subscribers(&proxy).await {
        let channel = unique_name();
        let subscribing = proxy.rule(any().on_subscribing(), Action::Pass);
        timeout(SOON, subscriber.subscribe(&channel)).await.expect(protocol).expect(protocol);
        let _: i64 = server.async_connection().await.publish(&channel, "0").await.expect("publishes");
        assert_eq!(subscriber.hears(SOON).await.as_ref(), Some(&channel), "{protocol}");
        assert_eq!(subscribing.seen(), 1, "{protocol}");
        assert_eq!(proxy.count(&push("message").mentioning(&channel)), 1, "{protocol}");
    }
}

#[tokio::test]
async fn a_confirmation_can_be_held_by_its_request_or_by_itself() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    for (protocol, mut subscriber) in subscribers(&proxy).await {
        for matches in [command("SUBSCRIBE"), push("subscribe")] {
            let channel = unique_name();
            let rule = proxy.rule(matches, Action::HoldReply);
            {
                let mut pending = subscriber.subscribe(&channel);
                assert!(timeout(A_WHILE, &mut pending).await.is_err(), "{protocol}");
                rule.nth(1).await;
                eventually(SOON, || server.listeners(&channel) == 1);
                rule.let_go();
                timeout(SOON, pending).await.expect(protocol).expect(protocol);
            }
            rule.remove();
        }
    }
}

#[tokio::test]
async fn one_message_can_be_lost_and_the_next_one_heard() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    for (protocol, mut subscriber) in subscribers(&proxy).await {
        let (lost, heard) = (unique_name(), unique_name());
        proxy.rule(push("message").mentioning(&lost), Action::SwallowReply);
        for channel in [&lost, &heard] {
            subscriber.subscribe(channel).await.expect(protocol);
        }
        for channel in [&lost, &heard] {
            let _: i64 = server.async_connection().await.publish(channel, "0").await.expect("publishes");
        }
        assert_eq!(subscriber.hears(SOON).await, Some(heard), "{protocol}");
    }
}

#[tokio::test]
async fn replies_still_match_on_a_connection_that_subscribes_and_commands() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let [_, (_, Subscriber::New(mut connection, _pushes))] = subscribers(&proxy).await else { unreachable!() };
    let key = unique_name();
    proxy.rule(command("GET").nth(1), Action::CutAfter);
    connection.subscribe(&[unique_name(), unique_name()]).await.expect("subscribes");
    let _: i64 = connection.incr(&key, 1).await.expect("answers");
    let cut: Result<Option<i64>, _> = connection.get(&key).await;
    assert!(cut.is_err());
    let to_get = |event: &Event| matches!(event, Event::Reply { to, frame } if to[0] == b"GET" && !frame.is_error());
    assert_eq!(proxy.log().iter().filter(|entry| to_get(&entry.event)).count(), 1);
}
