//! Unix and TCP sockets as one kind of stream.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream},
};

pub(super) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Where a server listens.
#[derive(Clone, Debug)]
pub(super) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// As it is seen from another address of this machine.
    TcpFrom(Ipv4Addr, SocketAddr),
}

impl Address {
    pub(super) async fn connect(&self) -> io::Result<(Reader, Writer)> {
        match self {
            Self::Unix(path) => Ok(unix(UnixStream::connect(path).await?)),
            Self::Tcp(address) => Ok(tcp(TcpStream::connect(address).await?)),
            Self::TcpFrom(from, address) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind((*from, 0).into())?;
                Ok(tcp(socket.connect(*address).await?))
            }
        }
    }
}

/// Where a proxy listens.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Must be called with a runtime at hand.
    pub(super) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixListener::bind(path).map(Self::Unix),
            Address::Tcp(address) | Address::TcpFrom(_, address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
        }
    }

    /// Where it came to listen, once the system has chosen a port.
    pub(super) fn address(&self, asked: Address) -> io::Result<Address> {
        match self {
            Self::Unix(_) => Ok(asked),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Reader, Writer)> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| unix(stream)),
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| tcp(stream)),
        }
    }
}

fn unix(stream: UnixStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Box::new(reader), Box::new(writer))
}

fn tcp(stream: TcpStream) -> (Reader, Writer) {
    // A proxy that waited for more bytes would add delays that no rule asked for.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    (Box::new(reader), Box::new(writer))
}
