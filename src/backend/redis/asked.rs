//! One server as whoever looks at all of them sees it: over a connection of its own, which is opened for the first question. It knows
//! no lock.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::Cmd;
use tokio::time::timeout;

use super::{
    codec, faults,
    naming::Named,
    node::Node,
    options::{Clients, link_config},
    pubsub::{Verb, subscriber},
};
use crate::backend::{Answers, Fault, Pending, Publish, Question, Server};

/// One server.
pub(super) struct AskedServer {
    clients: Arc<Clients>,
    within: Duration,
    /// How releases are told there.
    publish: Publish,
    /// Nobody's while something is asked over it: whoever is dropped then has it go.
    idle: Arc<Mutex<Option<Named>>>,
}

impl AskedServer {
    /// Where this node's links lead now.
    pub(super) fn at(node: &Node, publish: Publish) -> Arc<dyn Server> {
        Arc::new(Self { clients: node.aim.now(), within: node.command_timeout, publish, idle: Arc::default() })
    }
}

impl Server for AskedServer {
    fn address(&self) -> String {
        self.clients.address().to_string()
    }

    fn ask(&self, questions: Vec<Question>) -> Pending<Result<Answers, Fault>> {
        let (clients, within, idle) = (Arc::clone(&self.clients), self.within, Arc::clone(&self.idle));
        Box::pin(async move {
            let asked = Box::pin(asked(&clients, &idle, &questions));
            timeout(within, asked).await.unwrap_or_else(|_| Err(faults::too_slow(within, &clients)))
        })
    }

    fn listen(&self, channel: &str) -> Pending<Result<(), Fault>> {
        let (clients, within, publish) = (Arc::clone(&self.clients), self.within, self.publish);
        let channel = channel.to_owned();
        Box::pin(async move {
            let listened: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async {
                let (mut sink, _subscriber) = subscriber::open(&clients, publish).await?;
                sink.ask(Verb::Subscribe, Some(&channel)).await
            });
            match timeout(within, listened).await {
                Ok(listened) => listened.map_err(|error| faults::unconnected(&error, &clients)),
                Err(_) => Err(faults::too_slow(within, &clients)),
            }
        })
    }
}

async fn asked(clients: &Clients, idle: &Mutex<Option<Named>>, questions: &[Question]) -> Result<Answers, Fault> {
    let of_before = idle.lock().unwrap_or_else(PoisonError::into_inner).take();
    let connection = match of_before {
        Some(connection) => connection,
        None => {
            let opened = clients.resp2.get_multiplexed_async_connection_with_config(&link_config()).await;
            Named::new(opened.map_err(|error| faults::unconnected(&error, clients))?, clients)
        }
    };
    let mut pipeline = redis::pipe();
    for Question(words) in questions {
        let mut cmd = Cmd::new();
        cmd.arg(words);
        pipeline.add_command(cmd);
    }
    let replies = connection.get().send_packed_commands(&pipeline, 0, questions.len()).await;
    let replies = replies.map_err(|error| faults::unconnected(&error, clients))?;
    *idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    Ok(replies.into_iter().map(|reply| codec::value(reply, &clients.secrets)).collect())
}
