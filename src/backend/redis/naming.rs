//! How our connections are called in the server's list of them. Nobody waits for the answer, and a refusal is none.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
};

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use tokio::task::unconstrained;

use super::options::Clients;

/// A connection that says how it is called before anything else is sent over it, and once.
pub(super) struct Named {
    connection: MultiplexedConnection,
    _set_name: Option<SetName>,
}

/// The saying of it, which nobody looks at any more. The driver does not send what nobody waits for by then.
type SetName = Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>;

impl Named {
    /// One that was opened just now.
    pub(super) fn new(connection: MultiplexedConnection, clients: &Clients) -> Self {
        let set_name = clients.name.as_deref().map(|name| {
            let mut cmd = redis::cmd("CLIENT");
            cmd.arg("SETNAME").arg(name);
            let mut sender = connection.clone();
            let set_name: SetName = Mutex::new(Box::pin(async move {
                let _ = unconstrained(sender.send_packed_command(&cmd)).await;
            }));
            // The first poll sends. Unconstrained: a spent task budget would make it yield before.
            let _ = set_name.lock().unwrap_or_else(PoisonError::into_inner).as_mut().now_or_never();
            set_name
        });
        Self { connection, _set_name: set_name }
    }

    /// A handle to send on.
    pub(super) fn get(&self) -> MultiplexedConnection {
        self.connection.clone()
    }
}
