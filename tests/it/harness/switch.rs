//! Two networks on one machine, for whoever may not make real ones: what servers and clients say to each other goes through
//! here, and what goes between the two stands still while they are cut apart. It reads nothing of what it carries.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime,
    sync::watch,
};

use super::eventually;

/// How long what stood still may take to pass.
const LOOK: Duration = Duration::from_secs(10);

/// A second port by which nodes of a cluster speak to each other is so much higher.
const BUS: u16 = 10_000;

/// Everybody is known by its address, and by a port of his own there. Dropped, it closes every connection.
#[derive(Debug)]
pub(crate) struct Switch {
    runtime: Option<runtime::Runtime>,
    /// The beginning of all addresses.
    network: [u8; 3],
    cut: watch::Sender<bool>,
    /// What stands still, and did until it was passed on just now.
    standing: Arc<()>,
}

impl Switch {
    pub(super) fn new() -> Self {
        static MADE: AtomicU8 = AtomicU8::new(0);
        let process = process::id().to_le_bytes();
        // Of three digits each, as is every other one of the same network.
        let network = [127, 100 + process[0] % 100, 100 + MADE.fetch_add(1, Ordering::Relaxed) % 100];
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("switch")
            .enable_all()
            .build()
            .expect("a runtime starts");
        Self { runtime: Some(runtime), network, cut: watch::Sender::new(false), standing: Arc::default() }
    }

    /// Where everybody is known to be.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.at(1)
    }

    /// Where servers are, and from where they and others speak: of the two networks.
    pub(crate) fn sides(&self) -> [Ipv4Addr; 2] {
        [self.at(2), self.at(3)]
    }

    /// Where a client in one of the networks is told that all servers are.
    pub(crate) fn entrance(&self, side: usize) -> Ipv4Addr {
        self.at(4 + u8::try_from(side).expect("there are two"))
    }

    fn at(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.network;
        Ipv4Addr::new(a, b, c, last)
    }

    /// Takes in a server that listens there: its port is the same here.
    pub(super) fn take(&self, server: SocketAddr, is_node: bool) {
        let at_hand = self.runtime.as_ref().expect("it runs").enter();
        for more in [0, BUS].into_iter().take(1 + usize::from(is_node)) {
            let port = server.port() + more;
            let listener = std::net::TcpListener::bind((self.address(), port)).expect("the port is nobody's here");
            listener.set_nonblocking(true).expect("a socket takes that");
            let listener = TcpListener::from_std(listener).expect("a runtime is at hand");
            let way = Way { crosses: true, cut: self.cut.subscribe(), standing: Arc::downgrade(&self.standing) };
            tokio::spawn(listen(listener, SocketAddr::new(server.ip(), port), self.sides(), way));
        }
        drop(at_hand);
    }

    /// Nothing passes any more between the two networks, and nobody is told.
    pub(super) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// What stood still goes on, and is there when this comes back.
    pub(super) fn mend(&self) {
        self.cut.send_replace(false);
        eventually(LOOK, || Arc::strong_count(&self.standing) == 1);
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // In the background, since a test may drop it inside a runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whether something may pass.
#[derive(Clone)]
struct Way {
    crosses: bool,
    cut: watch::Receiver<bool>,
    standing: Weak<()>,
}

impl Way {
    /// What comes back is kept until that has passed which had to wait.
    async fn opens(&mut self) -> Option<Arc<()>> {
        if !self.crosses {
            return None;
        }
        // Before the look: who mends what is cut then sees it.
        let standing = self.standing.upgrade();
        // An error: the switch is gone, and this goes with it.
        let _ = self.cut.wait_for(|cut| !cut).await;
        standing
    }
}

async fn listen(listener: TcpListener, server: SocketAddr, sides: [Ipv4Addr; 2], way: Way) {
    while let Ok((client, from)) = listener.accept().await {
        // Who is in neither of them reaches everybody.
        let is_inside = sides.map(IpAddr::from).contains(&from.ip());
        let crosses = is_inside && from.ip() != server.ip();
        tokio::spawn(carry(client, server, Way { crosses, ..way.clone() }));
    }
}

async fn carry(client: TcpStream, server: SocketAddr, mut way: Way) -> io::Result<()> {
    drop(way.opens().await);
    let server = TcpStream::connect(server).await?;
    for end in [&client, &server] {
        end.set_nodelay(true)?;
    }
    let (client, server) = (client.into_split(), server.into_split());
    tokio::join!(pass(client.0, server.1, way.clone()), pass(server.0, client.1, way));
    Ok(())
}

/// The end of a connection is told by what passes, too.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut way: Way) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or_default();
        let _standing = way.opens().await;
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            let _ = to.shutdown().await;
            return;
        }
    }
}
