//! A long way to whatever listens on a port: bytes take so long in each direction, whatever they say, and as many as there are
//! are on their way at once.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        self, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime,
    sync::mpsc::unbounded_channel,
    time::{Instant, sleep_until},
};

/// It ends with all that is on it when this is dropped.
#[derive(Debug)]
pub(crate) struct Detour {
    /// Its own: a test's runtime may be busy.
    runtime: Option<runtime::Runtime>,
    port: u16,
}

impl Detour {
    /// To this port of 127.0.0.1.
    pub(crate) fn to(port: u16, each_way: Duration) -> Self {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("detour").enable_all().build().expect("a runtime starts");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listener.set_nonblocking(true).expect("a socket takes it");
        let here = listener.local_addr().expect("it has an address").port();
        runtime.spawn(async move {
            let listener = net::TcpListener::from_std(listener).expect("a runtime takes it");
            while let Ok((asks, _)) = listener.accept().await {
                tokio::spawn(join(asks, (Ipv4Addr::LOCALHOST, port).into(), each_way));
            }
        });
        Self { runtime: Some(runtime), port: here }
    }

    /// Where it begins.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        // In the background, since a test may drop it inside a runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Both directions, until one of the two ends.
async fn join(asks: TcpStream, to: SocketAddr, each_way: Duration) {
    let Ok(answers) = TcpStream::connect(to).await else { return };
    let _ = (asks.set_nodelay(true), answers.set_nodelay(true));
    let ((asked, ask), (answered, answer)) = (asks.into_split(), answers.into_split());
    tokio::select! {
        () = pass(asked, answer, each_way) => {}
        () = pass(answered, ask, each_way) => {}
    }
}

/// What is read leaves for the other end at once, and arrives there in its time.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, takes: Duration) {
    let (leave, mut under_way) = unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            drop(leave.send((Instant::now() + takes, buffer[..count].to_vec())));
        }
    };
    let writing = async move {
        while let Some((arrives, bytes)) = under_way.recv().await {
            sleep_until(arrives).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
