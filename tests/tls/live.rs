//! TLS, live, by whichever library was built in: who is connected to, and what is said of who is not. What a plain link says
//! that meets TLS is in `tests/it/connecting.rs`.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use redis::{ClientTlsConfig, TlsCertificates};
use relatch::{Client, ClientBuilder, Error, Op, RefusedKind, RespVersion, Result};

use crate::harness::{
    Deployment, Server,
    cluster::{NODES, home, name_on, slot},
    deployment::Wishes,
    eventually_async, unique_name,
};

const MS: Duration = Duration::from_millis(1);
/// How long a look, or a handshake, may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);

fn url(server: &Server) -> String {
    format!("rediss://127.0.0.1:{}/", server.port())
}

/// What is in a file of the server's folder.
fn file(server: &Server, name: &str) -> Vec<u8> {
    fs::read(server.socket().with_file_name(name)).expect("it was made with the server")
}

/// The certificate of an issuer to trust, and one of its own, if it has one.
fn certificates(server: &Server, issuer: &str, own: Option<&str>) -> TlsCertificates {
    let client_tls = own.map(|name| ClientTlsConfig {
        client_cert: file(server, &format!("{name}.pem")),
        client_key: file(server, &format!("{name}.key")),
    });
    TlsCertificates { client_tls, root_cert: Some(file(server, &format!("{issuer}.pem"))) }
}

/// A client that has these certificates.
fn having(url: String, certificates: TlsCertificates) -> ClientBuilder {
    let client = redis::Client::build_with_tls(url, certificates);
    Client::builder().redis_client(client.expect("good certificates")).command_timeout(LOOK)
}

/// A client that trusts this issuer, and shows a certificate of its own if it has one.
fn trusting(server: &Server, issuer: &str, own: Option<&str>) -> ClientBuilder {
    having(url(server), certificates(server, issuer, own))
}

/// The life of a lock, with a waiter in another client who is woken over his subscription link.
async fn live(server: &Server, builder: ClientBuilder) {
    let builder = builder.watchdog_timeout(LOOK * 6);
    let (holder, waiter) = (builder.clone().connect().await, builder.connect().await);
    let (holder, waiter) = (holder.expect("it lets us in"), waiter.expect("it lets us in"));
    let name = unique_name();
    let guard = holder.lock(&name).lock().await.expect("a free lock");
    assert!(waiter.lock(&name).try_lock().await.expect("it answers").is_none());
    let waiting = tokio::spawn(waiter.lock(&name).lock());
    let channel = format!("redisson_lock__channel:{{{name}}}");
    eventually_async(LOOK, async || server.listeners(&channel) == 1).await;
    guard.unlock().await.expect("a hold of ours");
    let released = Instant::now();
    waiting.await.expect("no panic").expect("it is woken").unlock().await.expect("a hold of ours");
    assert!(released.elapsed() < LOOK, "it was not woken");
}

/// The same on every node of a cluster.
async fn live_on_all(cluster: &Deployment, holder: &Client, waiter: &Client) {
    // Of so many names each node has some.
    for name in (0..20).map(|_| unique_name()) {
        let held = holder.lock(&name).lock().lease(LOOK * 6).await.expect("a free lock");
        let waiting = tokio::spawn(waiter.mutex(&name).lock().into_future());
        let (node, channel) = (home(&name), format!("redisson_lock__channel:{{{name}}}"));
        let sharded = cluster.flavour() != "redis62";
        eventually_async(LOOK, async || cluster.listeners_on(node, &channel, sharded) == 1).await;
        held.unlock().await.expect("a hold of ours");
        waiting.await.expect("no panic").expect("it is free").unlock().await.expect("a hold of ours");
    }
}

/// What is said where a certificate is not accepted: the same by either library.
#[track_caller]
fn not_accepted<T>(server: &Server, answer: Result<T>) {
    let Err(error) = answer else { panic!("it was let in") };
    let Error::Refused { op: Op::Connect, kind: RefusedKind::Certificate, source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(error.to_string(), "the server refused to connect: a certificate was not accepted");
    assert!(source.to_string().starts_with(&format!("127.0.0.1:{}: ", server.port())), "{source}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_lock_lives_over_either_version_of_tls_and_of_the_protocol() {
    for tls in ["TLSv1.2", "TLSv1.3"] {
        let server = Server::builder().tls("good").line(format!("tls-protocols {tls}")).start();
        for resp in [RespVersion::Auto, RespVersion::Resp2] {
            live(&server, trusting(&server, "ca", None).protocol(resp)).await;
        }
    }
}

#[tokio::test]
async fn a_client_shows_a_certificate_of_its_own_where_one_is_wanted() {
    let server = Server::builder().tls("good").line("tls-auth-clients yes");
    for tls in ["TLSv1.2", "TLSv1.3"] {
        let server = server.clone().line(format!("tls-protocols {tls}")).start();
        live(&server, trusting(&server, "ca", Some("client"))).await;
        for own in [None, Some("stranger")] {
            not_accepted(&server, trusting(&server, "ca", own).connect().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_whichever_server_is_their_master_are_spoken_to_over_tls() {
    let deployment = Deployment::with(&Wishes { tls: true, ..Wishes::default() });
    let sentinels = ["sentinel1", "sentinel2"].map(|name| deployment.client_of(name));
    let builder = || Client::builder().sentinels("m", sentinels.clone()).command_timeout(LOOK);
    let client = builder().connect().await.expect("it lets us in");
    client.lock(unique_name()).lock().await.expect("a free lock").unlock().await.expect("a hold of ours");
    deployment.kill("master");
    let taken = client.mutex(unique_name()).try_lock().wait(LOOK * 2).await.expect("it heals").expect("a free lock");
    assert_ne!(deployment.master().await, "master");
    taken.unlock().await.expect("a hold of ours");
    // Who trusts another issuer trusts none of them.
    let url = deployment.url().replace("redis-sentinel", "rediss-sentinel");
    let answer = Client::builder().url(url).command_timeout(LOOK).connect().await;
    let Err(Error::Refused { op: Op::Connect, kind: RefusedKind::Certificate, .. }) = answer else {
        panic!("{answer:?}")
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_of_a_cluster_are_spoken_to_over_tls() {
    let cluster = Deployment::cluster_with(&Wishes { tls: true, ..Wishes::default() });
    let nodes = [cluster.client_of("node1")];
    let client = Client::builder().cluster_nodes(nodes).command_timeout(LOOK).connect().await.expect("it lets us in");
    let other = Client::builder().cluster_nodes([cluster.client_of("node5")]).command_timeout(LOOK);
    let other = other.connect().await.expect("it lets us in");
    live_on_all(&cluster, &client, &other).await;
    // Who trusts another issuer trusts none of them.
    let answer = Client::builder().url(cluster.url()).command_timeout(LOOK).connect().await;
    let Err(Error::Refused { op: Op::Connect, kind: RefusedKind::Certificate, .. }) = answer else {
        panic!("{answer:?}")
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster_are_spoken_to_by_the_names_that_their_certificates_are_good_for() {
    let cluster = Deployment::cluster_with(&Wishes { tls: true, named: true, ..Wishes::default() });
    let builder = || Client::builder().cluster_nodes([cluster.client_of("node1")]).command_timeout(LOOK);
    let (client, other) = (builder().connect().await, builder().connect().await);
    let (client, other) = (client.expect("it lets us in"), other.expect("it lets us in"));
    live_on_all(&cluster, &client, &other).await;
    // By its number nobody knows that it is the one.
    let address = cluster.client_of("node1").get_connection_info().addr().clone();
    let redis::ConnectionAddr::TcpTls { port, insecure, tls_params, .. } = address else { panic!("it speaks TLS") };
    let addr = redis::ConnectionAddr::TcpTls { host: "127.0.0.1".to_owned(), port, insecure, tls_params };
    let by_number = redis::Client::open(addr).expect("a good address");
    let answer = Client::builder().cluster_nodes([by_number]).command_timeout(LOOK).connect().await;
    let Err(Error::Refused { op: Op::Connect, kind: RefusedKind::Certificate, .. }) = answer else {
        panic!("{answer:?}")
    };
}

/// As nodes tell one another by default: a redirect names a number, for which no certificate is good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_told_by_their_numbers_are_spoken_to_by_their_names_when_slots_move_and_masters_change() {
    let cluster = Deployment::cluster_with(&Wishes { tls: true, named: true, ..Wishes::default() });
    for node in NODES {
        let () = cluster.ask(node, &["CONFIG", "SET", "cluster-preferred-endpoint-type", "ip"]);
    }
    let client = Client::builder().cluster_nodes([cluster.client_of("node1")]).command_timeout(LOOK);
    let client = client.connect().await.expect("it lets us in");
    let name = name_on("node0");
    let live = async || {
        let guard = client.mutex(&name).try_lock().wait(LOOK * 2).await.expect("its certificate is good");
        guard.expect("it is free").unlock().await.expect("a hold of ours");
    };
    live().await;
    cluster.begin_migration(slot(&name), "node0", "node1");
    live().await;
    cluster.end_migration(slot(&name), "node0", "node1");
    live().await;
    let (next, _) = cluster.hand_over("node1");
    live().await;
    assert!(cluster.scripts_run(next) > 0);
}

/// What those get who come later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Server,
    Silence,
}

/// Leads to this server, and ends the first so many connections under what the client says once the server has shown itself, so
/// that nothing of what the server thinks of that is heard. A socket that is let go with something unread in it resets.
fn resets_first(server: &Server, count: usize, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (address, port) = (listener.local_addr().expect("it has one"), server.port());
    thread::spawn(move || {
        let mut silent = Vec::new();
        for (n, client) in listener.incoming().map_while(io::Result::ok).enumerate() {
            if n >= count && then == Then::Silence {
                silent.push(client);
                continue;
            }
            thread::spawn(move || {
                let server = TcpStream::connect(("127.0.0.1", port))?;
                let (mut asks, mut hears) = (client.try_clone()?, server.try_clone()?);
                if n < count {
                    let mut said = [0; 16 * 1024];
                    let greeting = asks.read(&mut said)?;
                    hears.write_all(&said[..greeting])?;
                    let telling = thread::spawn(move || io::copy(&mut hears, &mut &client));
                    asks.peek(&mut said)?;
                    drop(server.shutdown(Shutdown::Both));
                    return telling.join().expect("no panic").map(drop);
                }
                let (mut tells, mut spoken) = (client.try_clone()?, server.try_clone()?);
                let telling =
                    thread::spawn(move || io::copy(&mut hears, &mut tells).and(tells.shutdown(Shutdown::Write)));
                io::copy(&mut asks, &mut spoken).and(server.shutdown(Shutdown::Write))?;
                telling.join().expect("no panic")
            });
        }
    });
    address
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_told_though_the_connection_is_reset_under_what_the_client_says() {
    let server = Server::builder().tls("good").line("tls-auth-clients yes").line("tls-protocols TLSv1.3").start();
    for (own, protocol) in [(None, "resp3"), (None, "resp2"), (Some("stranger"), "resp3"), (Some("stranger"), "resp2")]
    {
        let address = resets_first(&server, 1, Then::Server);
        let url = format!("rediss://{address}/?protocol={protocol}");
        let answer = having(url, certificates(&server, "ca", own)).connect().await;
        let Err(Error::Refused { kind: RefusedKind::Certificate, op: Op::Connect, .. }) = answer else {
            panic!("{own:?} {protocol}: {answer:?}")
        };
    }
    // Where the certificate is accepted the reset is all that there is to tell.
    let address = resets_first(&server, 1, Then::Server);
    let answer = having(format!("rediss://{address}/"), certificates(&server, "ca", Some("client"))).connect().await;
    assert!(matches!(answer, Err(Error::Unreachable { op: Op::Connect, .. })), "{answer:?}");
}

#[tokio::test]
async fn who_ends_one_connection_and_says_nothing_on_the_next_is_unreachable_before_the_command_timeout() {
    let server = Server::builder().tls("good").start();
    let address = resets_first(&server, 1, Then::Silence);
    let builder = having(format!("rediss://{address}/"), certificates(&server, "ca", None)).command_timeout(6 * LOOK);
    let answer = tokio::time::timeout(LOOK, builder.connect()).await.expect("it waits for no more words");
    assert!(matches!(answer, Err(Error::Unreachable { op: Op::Connect, .. })), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_cannot_show_that_it_is_the_one_is_refused() {
    let good = Server::builder().tls("good").start();
    not_accepted(&good, trusting(&good, "stranger", None).connect().await);
    not_accepted(&good, Client::builder().url(url(&good)).command_timeout(LOOK).connect().await);
    for name in ["expired", "elsewhere"] {
        let server = Server::builder().tls(name).start();
        not_accepted(&server, trusting(&server, "ca", None).connect().await);
    }
}

#[tokio::test]
async fn a_port_without_tls_says_nothing_and_the_error_says_what_that_looks_like() {
    let server = Server::builder().tcp().start();
    let started = Instant::now();
    let answer = Client::builder().url(url(&server)).command_timeout(MS * 500).connect().await;
    let Err(Error::Unreachable { op: Op::Connect, source, .. }) = answer else { panic!("{answer:?}") };
    assert!(source.to_string().contains("redis://"), "{source}");
    assert!(started.elapsed() < MS * 500 + LOOK);
}

/// Only where the driver has no rustls, whoever asked for it.
#[tokio::test]
async fn whoever_wants_no_look_at_certificates_gets_that_or_is_told_what_serves_it() {
    let server = Server::builder().tls("expired").start();
    let answer = Client::builder().url(url(&server) + "#insecure").command_timeout(LOOK).connect().await;
    if cfg!(feature = "rustls") {
        let Err(Error::Invalid { what: "url", why, .. }) = answer else { panic!("{answer:?}") };
        assert!(why.contains("native-tls"), "{why}");
    } else {
        answer.expect("it lets us in");
    }
}
