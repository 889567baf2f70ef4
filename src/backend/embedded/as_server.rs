//! A store as one server that is looked at: from outside, so that no weather befalls it. It knows what is asked of keys and of
//! channels, and nothing else.

use std::{future::ready, sync::Arc};

use super::{delivery::SharedStore, frame::value, network::Network};
use crate::{
    backend::{Answers, Fault, FaultKind, Pending, Question, Server, Value},
    glob,
};

/// The store, with all of its nodes.
#[derive(Debug)]
pub(super) struct StoreAsServer(pub(super) Arc<SharedStore>);

impl Server for StoreAsServer {
    fn address(&self) -> String {
        "an embedded store".to_owned()
    }

    fn ask(&self, questions: Vec<Question>) -> Pending<Result<Answers, Fault>> {
        let answers = self.0.with(|network| questions.iter().map(|question| answered(network, question)).collect());
        Box::pin(ready(Ok(answers)))
    }

    fn listen(&self, _: &str) -> Pending<Result<(), Fault>> {
        Box::pin(ready(Ok(())))
    }
}

fn answered(network: &mut Network, Question(words): &Question) -> Result<Value, Fault> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match &words[..] {
        // All at once, however many are wanted: the next part would have to know which are gone by then.
        [b"SCAN", _, b"MATCH", pattern, b"COUNT", _, rest @ ..] => {
            let keys = network.keys().into_iter().map(String::into_bytes).filter(|key| glob::matches(pattern, key));
            let keys: Vec<_> = keys.collect();
            let mut is_wanted = |key: &Vec<u8>| match rest {
                [b"TYPE", wanted] => {
                    value(network.command(&[b"TYPE", key])).is_ok_and(|it| it == Value::Bytes(wanted.to_vec()))
                }
                _ => true,
            };
            let found: Vec<_> = keys.into_iter().filter(|key| is_wanted(key)).map(Value::Bytes).collect();
            Ok(Value::Array(vec![Value::Bytes(b"0".to_vec()), Value::Array(found)]))
        }
        [b"PUBSUB", _, channels @ ..] => {
            let known = network.listeners();
            let count =
                |channel: &[u8]| known.iter().find(|(it, _)| it.as_bytes() == channel).map_or(0, |(_, count)| *count);
            let pair = |channel: &&[u8]| [Value::Bytes(channel.to_vec()), Value::Int(count(channel) as i64)];
            Ok(Value::Array(channels.iter().flat_map(pair).collect()))
        }
        [b"TYPE" | b"HLEN" | b"STRLEN" | b"HKEYS" | b"HGETALL" | b"GET" | b"PTTL" | b"TIME", ..] => {
            value(network.command(&words))
        }
        // What it takes there is no server's memory.
        [b"MEMORY", ..] => Ok(Value::Nil),
        _ => Err(Fault::of(FaultKind::Other, false, "an embedded store is no server: it does not know this command")),
    }
}
