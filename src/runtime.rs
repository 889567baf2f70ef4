//! What a client needs of the tokio runtime that it lives on. It knows no client.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use tokio::{runtime::Handle, time::sleep};

use crate::error::{Error, Result};

/// The runtime that this runs on, if it has timers.
pub(crate) fn here() -> Result<Handle> {
    let here = Handle::try_current().map_err(|_| {
        invalid("there is no tokio runtime here: make the client inside the one that it is to live on".to_owned())
    })?;
    has("timers", "enable_time", || drop(sleep(Duration::ZERO)))?;
    Ok(here)
}

/// The runtime that this runs on, if it has timers and sockets.
pub(crate) fn with_sockets() -> Result<Handle> {
    let here = here()?;
    has("I/O", "enable_io", || drop(socket()))?;
    Ok(here)
}

/// Nothing tells what a runtime has but the panic over what it has not. The program's hook hears of that panic; nobody else
/// does, and it is the first and the last one.
fn has(what: &str, enabled_by: &str, takes_it: impl FnOnce()) -> Result<()> {
    catch_unwind(AssertUnwindSafe(takes_it)).map_err(|_| {
        invalid(format!("the tokio runtime here has no {what}: build it with enable_all(), or {enabled_by}() at least"))
    })
}

fn invalid(why: String) -> Error {
    Error::invalid("runtime", why)
}

/// Any socket. That the system gives none says nothing about the runtime.
#[cfg(unix)]
fn socket() -> io::Result<impl Sized> {
    tokio::net::UnixStream::pair()
}

#[cfg(not(unix))]
fn socket() -> io::Result<impl Sized> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    tokio::net::UdpSocket::from_std(socket)
}
