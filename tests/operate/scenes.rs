//! What the tests have in common: clients, and what they find.

use std::{collections::BTreeSet, time::Duration};

use futures_util::StreamExt;
use relatch::{
    Client, ClientBuilder, Error,
    operate::{Found, Kind, Search},
};

use crate::harness::Server;

/// How long a look may take on a busy machine.
pub(crate) const LOOK: Duration = Duration::from_secs(20);

/// Whether the servers of these tests know a command, as from some version on.
pub(crate) fn knows(command: &str) -> bool {
    let mut asked = redis::cmd("COMMAND");
    let known: Vec<redis::Value> =
        asked.arg("INFO").arg(command).query(&mut Server::shared().connection()).expect("it answers");
    known.iter().any(|it| !matches!(it, redis::Value::Nil))
}

/// Whether they can be asked what a user may do, without it being done: not before 7.0, as PEXPIRETIME.
pub(crate) fn knows_dry_runs() -> bool {
    knows("PEXPIRETIME")
}

pub(crate) async fn connected(builder: ClientBuilder) -> Client {
    builder.command_timeout(LOOK).watchdog_timeout(LOOK * 3).connect().await.expect("the server lets us in")
}

pub(crate) async fn client(url: impl AsRef<str>) -> Client {
    connected(Client::builder().url(url)).await
}

/// All that it finds, and all that went wrong.
pub(crate) async fn all(search: Search) -> (Vec<Found>, Vec<Error>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let items: Vec<_> = search.collect().await;
    for item in items {
        match item {
            Ok(it) => found.push(it),
            Err(error) => errors.push(error),
        }
    }
    (found, errors)
}

/// The names that it finds and what they are, where nothing goes wrong.
pub(crate) async fn names(search: Search) -> BTreeSet<(String, Kind)> {
    let (found, errors) = all(search).await;
    assert!(errors.is_empty(), "{errors:?}");
    found.into_iter().map(|it| (it.name.to_string(), it.kind)).collect()
}

/// The one that this name is.
pub(crate) async fn one(client: &Client, name: &str) -> Found {
    client.inspect_key(name).await.expect("it may be looked at").expect("somebody has it")
}
