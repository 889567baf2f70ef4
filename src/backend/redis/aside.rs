//! Questions that something in the way may not know, and end the connection for: they have one of their own, so that no
//! command ends with it.

use redis::{Cmd, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    naming::Named,
    options::{Clients, link_config},
};

/// A connection that no command is sent on. Closed when it is dropped.
pub(super) struct Aside {
    connection: Named,
    deadline: Instant,
}

impl Aside {
    /// To where these clients lead, if it is there and answers before the deadline.
    pub(super) async fn open(clients: &Clients, deadline: Instant) -> Option<Self> {
        let config = link_config();
        // Large, and rare: whoever may ask need not carry the room for it.
        let opened = Box::pin(clients.resp2.get_multiplexed_async_connection_with_config(&config));
        let connection = timeout_at(deadline, opened).await.ok()?.ok()?;
        Some(Self { connection: Named::new(connection, clients), deadline })
    }

    /// The answer, or a refusal; nothing where the connection is over or the deadline is.
    pub(super) async fn ask(&mut self, question: &Cmd) -> Option<Value> {
        let mut connection = self.connection.get();
        timeout_at(self.deadline, connection.send_packed_command(question)).await.ok()?.ok()
    }
}
