//! What a server keeps of a plain lock, read back with a plain connection of the driver. It goes through no client of
//! ours, so it shows what is there and not what is believed.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use relatch::{Client, ClientBuilder, LockGuard};

use crate::harness::{Server, clock::wall};

/// A plain lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The hold: the client's id and the hold's number.
    pub(crate) field: String,
    pub(crate) count: u32,
    /// When the key goes, by the wall clock.
    pub(crate) expires: Duration,
}

/// What there is at this name; `None` where it is free.
#[track_caller]
pub(crate) fn kept(server: &Server, name: &str) -> Option<Kept> {
    let (fields, expires) = server.hash_and_end(name);
    let (field, count) = fields.first()?.clone();
    assert_eq!(fields.len(), 1, "a plain lock has one field");
    Some(Kept { field, count, expires: expires.expect("every lock has a lease") })
}

/// What there is at this name, which somebody holds.
#[track_caller]
pub(crate) fn held(server: &Server, name: &str) -> Kept {
    kept(server, name).expect("somebody holds it")
}

impl Kept {
    /// Whether it is a hold of this client.
    pub(crate) fn is_of(&self, client: &Client) -> bool {
        self.field.split_once(':').is_some_and(|(id, _)| id == client.id().to_string())
    }
}

/// A guard's own deadline is never later than its key's end.
#[track_caller]
pub(crate) fn assert_modest(guard: &LockGuard, server: &Server) {
    // Read first: what happens in between can only make the guard's claim smaller.
    let now = wall();
    let claims = now + guard.expires_in().expect("it is held");
    let expires = held(server, guard.name()).expires;
    assert!(claims <= expires, "claims the lock for {:?} too long", claims - expires);
}

/// Where those who wait for this name listen.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Makes the server know every script, so that a rule on the first of a kind does not meet the "unknown script" before it.
pub(crate) fn teach(server: &Server) {
    let folders =
        ["reentrant", "fenced", "token", "job"].map(|folder| format!("{}/lua/{folder}", env!("CARGO_MANIFEST_DIR")));
    for script in folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the scripts are there")) {
        let text = std::fs::read_to_string(script.expect("a file").path()).expect("a script is text");
        redis::cmd("SCRIPT").arg("LOAD").arg(text).exec(&mut server.connection()).expect("the script loads");
    }
}

/// A client with the default options.
pub(crate) async fn client(url: impl AsRef<str>) -> Client {
    connected(Client::builder().url(url)).await
}

/// The client that was described.
pub(crate) async fn connected(builder: ClientBuilder) -> Client {
    builder.connect().await.expect("the server lets us in")
}

/// Polls a future once, and leaves it as it is.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}
