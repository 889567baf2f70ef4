//! Since when a server remembers, as its process, its links and its words have it.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, UnixStream},
    sync::Notify,
};

use super::*;
use crate::backend::Memory;

const SECOND: Duration = Duration::from_secs(1);

/// A server that has run for some seconds, when its making began, and a moment before which it surely says that it began.
async fn aged() -> (Server, Instant, Instant) {
    let began = Instant::now();
    let server = Server::start();
    let grown = Instant::now() + 3 * SECOND;
    let uptime = || {
        let info: String = server.ask(&["INFO", "server"]);
        info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.parse::<u64>().ok()).unwrap()
    };
    eventually("it is old enough", || uptime() >= 5 && Instant::now() > grown).await;
    (server, began, grown)
}

async fn told(backend: &Standalone) -> Instant {
    backend.ask_memory().await;
    match backend.remembers_since("n") {
        Some(Memory::Since(since)) => since,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_remembers_since_its_process_began_and_a_restart_counts_before_it_answers_anything() {
    let (mut server, began, grown) = aged().await;
    let backend = connect(&server.target(), options(15_000)).await.unwrap();
    assert!(matches!(backend.remembers_since("n"), Some(Memory::NotHeard(link)) if link > grown));
    let since = told(&backend).await;
    assert!(began <= since && since < grown, "{:?}", since - began);
    let first = backend.identities();
    // Another link to the same process changes nothing.
    server.hide();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    let waits = tokio::spawn(backend.run(&CALL));
    server.show();
    waits.await.unwrap().unwrap();
    match backend.remembers_since("n") {
        Some(Memory::Since(again)) => assert!(began <= again && again < grown, "{:?}", again - began),
        other => panic!("{other:?}"),
    }
    assert_eq!(backend.identities(), first);
    server.kill();
    eventually("the link is gone", || !backend.node.current.seen().0).await;
    let killed = Instant::now();
    let mut waits = backend.run(&CALL);
    assert!(poll(&mut waits).is_pending());
    server.restart();
    waits.await.unwrap();
    match backend.remembers_since("n") {
        Some(Memory::Since(since)) => assert!(since >= killed),
        other => panic!("{other:?}"),
    }
    assert!(backend.identities().len() == 1 && backend.identities() != first);
}

#[tokio::test]
async fn what_was_a_replica_for_a_while_remembers_since_that_was_over() {
    let (server, _, grown) = aged().await;
    let backend = connect(&server.target(), options(15_000)).await.unwrap();
    assert!(told(&backend).await < grown);
    let _: () = server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(backend.run(&CALL).await.unwrap_err().kind, FaultKind::ReadOnly);
    let demoted = Instant::now();
    let identities = backend.identities();
    let _: () = server.ask(&["REPLICAOF", "NO", "ONE"]);
    eventually("there is a link again", || backend.link("") > 1 && backend.node.current.seen().0).await;
    assert!(told(&backend).await >= demoted);
    assert_eq!(backend.identities(), identities, "it is the same process");
}

#[tokio::test]
async fn where_a_server_does_not_tell_each_link_counts_as_a_restart() {
    for (config, words) in
        [(&[][..], &["ACL", "SETUSER", "default", "-info"][..]), (&["--rename-command", "INFO", ""], &["PING"])]
    {
        let server = Server::with(config);
        let _: redis::Value = server.ask(words);
        let before = Instant::now();
        let backend = connect(&server.target(), options(15_000)).await.unwrap();
        let connected = Instant::now();
        backend.ask_memory().await;
        let first = backend.remembers_since("n").unwrap();
        assert!(
            matches!(first, Memory::SinceLink(since) if before < since && since < connected),
            "{words:?}: {first:?}"
        );
        assert!(backend.identities().is_empty());
        server.hide();
        eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
        let hidden = Instant::now();
        server.show();
        backend.run(&CALL).await.unwrap();
        backend.ask_memory().await;
        let second = backend.remembers_since("n").unwrap();
        assert!(matches!(second, Memory::SinceLink(since) if since > hidden), "{words:?}: {second:?}");
    }
}

#[tokio::test]
async fn a_process_that_told_is_known_again_after_links_over_which_it_did_not() {
    let (server, _, grown) = aged().await;
    let backend = connect(&server.target(), options(15_000)).await.unwrap();
    assert!(told(&backend).await < grown);
    for (right, tells) in [("-info", false), ("+info", true)] {
        let _: () = server.ask(&["ACL", "SETUSER", "default", right]);
        server.hide();
        eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
        server.show();
        backend.run(&CALL).await.unwrap();
        let memory = backend.remembers_since("n").unwrap();
        assert!(matches!(memory, Memory::Since(since) if since < grown) == tells, "{right}: {memory:?}");
        assert!(matches!(memory, Memory::SinceLink(_)) != tells, "{right}: {memory:?}");
    }
}

/// Stands in front of a server, and ends whatever connection a question for it comes over, while it bars them.
struct Guard {
    port: u16,
    bars: Arc<AtomicBool>,
    connections: Arc<Notify>,
}

impl Guard {
    async fn of(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (bars, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let guard = Self { port, bars: Arc::clone(&bars), connections: Arc::clone(&connections) };
        let socket = server.socket();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (socket, bars, connections) = (socket.clone(), Arc::clone(&bars), Arc::clone(&connections));
                tokio::spawn(async move {
                    let mut server = UnixStream::connect(socket).await.unwrap();
                    let ((mut asks, mut hears), (mut replies, mut takes)) = (client.split(), server.split());
                    let there = async {
                        let mut words = [0; 4096];
                        while let Ok(count @ 1..) = asks.read(&mut words).await {
                            let is_barred = words[..count].windows(10).any(|words| words == b"$4\r\nINFO\r\n");
                            if is_barred && bars.load(Ordering::Relaxed)
                                || takes.write_all(&words[..count]).await.is_err()
                            {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        () = there => {}
                        _ = copy(&mut replies, &mut hears) => {}
                        () = connections.notified() => {}
                    }
                });
            }
        });
        guard
    }

    fn target(&self) -> Target {
        Target::parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }
}

#[tokio::test]
async fn a_question_that_ends_a_connection_costs_no_client_its_link_for_long() {
    let server = Server::start();
    let guard = Guard::of(&server).await;
    guard.bars.store(true, Ordering::Relaxed);
    let backend = connect(&guard.target(), options(15_000)).await.unwrap();
    backend.ask_memory().await;
    assert!(matches!(backend.remembers_since("n"), Some(Memory::SinceLink(_))));
    assert_eq!((backend.run(&CALL).await.unwrap(), backend.link("")), (Value::Int(1), 1));
    // One whose questions were let through once, and then are not.
    guard.bars.store(false, Ordering::Relaxed);
    let backend = connect(&guard.target(), options(15_000)).await.unwrap();
    told(&backend).await;
    guard.bars.store(true, Ordering::Relaxed);
    guard.connections.notify_waiters();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(2));
    backend.ask_memory().await;
    assert!(matches!(backend.remembers_since("n"), Some(Memory::SinceLink(_))));
    assert_eq!(backend.link(""), 2);
}

#[tokio::test]
async fn a_client_that_does_not_want_to_know_asks_nothing_for_it() {
    let server = Server::start();
    let mut own = 0;
    let mut infos = || {
        let stats: String = server.ask(&["INFO", "commandstats"]);
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_info:calls="));
        let calls = calls.and_then(|calls| calls.split(',').next()).map_or(0, |calls| calls.parse::<u32>().unwrap());
        own += 1;
        calls + 1 - own
    };
    let backend = connect(&server.target(), options(15_000)).await.unwrap();
    eventually("it is heard", || infos() == 1).await;
    server.hide();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    server.show();
    eventually("it is heard again", || infos() >= 2).await;
    backend.run(&CALL).await.unwrap();
    assert_eq!(infos(), 2);
    told(&backend).await;
    assert_eq!(infos(), 3);
}
