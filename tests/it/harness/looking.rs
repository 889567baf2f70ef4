//! A connection of the driver for what a test looks at by itself. It makes no client of ours.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};

/// How long a look at a server may take. The driver's own bounds are shorter than a busy machine may stand still.
pub(crate) const LOOK: Duration = Duration::from_secs(10);

pub(crate) async fn looking(client: &Client) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(LOOK)).set_response_timeout(Some(LOOK));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server takes a connection")
}
