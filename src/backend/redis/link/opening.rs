//! How a connection is opened, and why it could not be.

use std::{thread, time::Duration};

use redis::{Client, ConnectionAddr, ErrorKind, PushInfo, PushKind, RedisConnectionInfo, RedisError};
use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::Link;
use crate::backend::redis::{
    faults,
    naming::Named,
    options::{Clients, link_config},
};

/// So long a server that took up a connection is listened to for why it ended another one.
const ALERT: Duration = Duration::from_secs(1);

/// So many of a process listen at most: one TLS library waits for as long as the other side says nothing, and nothing ends
/// that.
static LISTENERS: Semaphore = Semaphore::const_new(16);

/// RESP3 first: only there the driver tells of a cut connection before something is sent.
pub(super) async fn connect(clients: &Clients, parent: &CancellationToken) -> Result<Link, RedisError> {
    let gone = parent.child_token();
    if let Some(client) = &clients.resp3 {
        let told = gone.clone();
        let config = link_config().set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                told.cancel();
            }
            Ok::<(), redis::aio::SendError>(())
        });
        match client.get_multiplexed_async_connection_with_config(&config).await {
            Ok(connection) => return Ok(Link::new(Named::new(connection, clients), gone, true)),
            Err(error) if clients.falls_back && refuses_hello(&error) => {}
            Err(error) => return Err(in_the_servers_alert(&clients.resp2, error).await),
        }
    }
    let config = link_config();
    match clients.resp2.get_multiplexed_async_connection_with_config(&config).await {
        Ok(connection) => Ok(Link::new(Named::new(connection, clients), gone, false)),
        Err(error) => {
            let error = in_the_servers_words(&clients.resp2, error).await;
            Err(in_the_servers_alert(&clients.resp2, error).await)
        }
    }
}

/// With TLS 1.3 a client speaks before the server has looked at its certificate, and a connection that is ended under what was
/// said takes along what the server thinks of it. So it is listened to once more, by somebody who says nothing.
async fn in_the_servers_alert(client: &Client, error: RedisError) -> RedisError {
    let info = client.get_connection_info();
    let dropped = error.is_connection_dropped() && !error.is_connection_refusal();
    if !dropped || !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return error;
    }
    let Ok(permit) = LISTENERS.try_acquire() else { return error };
    let silent = RedisConnectionInfo::default().set_skip_set_lib_name();
    let info = info.clone().set_redis_settings(silent);
    let listens = move || {
        let _permit = permit;
        let mut connection = Client::open(info)?.get_connection_with_timeout(ALERT)?;
        connection.set_read_timeout(Some(ALERT))?;
        connection.recv_response()
    };
    let (tell, told) = oneshot::channel();
    // Only there the driver tells what it reads while nothing is asked. A thread, since no runtime is to wait for its end.
    let listener = thread::Builder::new().name("relatch-tls".into()).spawn(move || drop(tell.send(listens())));
    // To connect it has as long as to listen.
    match (listener, timeout(2 * ALERT, told).await) {
        (Ok(_), Ok(Ok(Err(alert)))) if faults::is_about_certificates(&alert.to_string()) => alert,
        _ => error,
    }
}

/// Of credentials that are refused in the older protocol, the driver tells only that they are. So they are shown once
/// more, by hand.
async fn in_the_servers_words(client: &Client, error: RedisError) -> RedisError {
    let info = client.get_connection_info();
    let credentials = info.redis_settings();
    let Some(password) = credentials.password().filter(|_| error.kind() == ErrorKind::AuthenticationFailed) else {
        return error;
    };
    let mut auth = redis::cmd("AUTH");
    auth.arg(credentials.username()).arg(password);
    let asked = async {
        let bare = Client::open(info.clone().set_redis_settings(RedisConnectionInfo::default()))?;
        let mut connection = bare.get_multiplexed_async_connection_with_config(&link_config()).await?;
        connection.send_packed_command(&auth).await
    };
    match asked.await {
        Ok(redis::Value::ServerError(refusal)) => refusal.into(),
        _ => error,
    }
}

/// An old server, or something in front of it, that knows no HELLO. Refused credentials are no reason to ask again.
pub(in crate::backend::redis) fn refuses_hello(error: &RedisError) -> bool {
    error.kind() == ErrorKind::RESP3NotSupported || matches!(error.code(), Some("ERR" | "NOPROTO" | "NOPERM"))
}
