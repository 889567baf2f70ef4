//! TLS, live, by whichever library was built in: who is connected to, and what is said of who is not. What a plain link says
//! that meets TLS is in `tests/it/connecting.rs`.

use std::{
    fs,
    time::{Duration, Instant},
};

use redis::{ClientTlsConfig, TlsCertificates};
use relatch::{Client, ClientBuilder, Error, Op, RefusedKind, RespVersion, Result};

use crate::harness::{Server, eventually_async, unique_name};

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

/// A client that trusts this issuer, and shows a certificate of its own if it has one.
fn trusting(server: &Server, issuer: &str, own: Option<&str>) -> ClientBuilder {
    let client_tls = own.map(|name| ClientTlsConfig {
        client_cert: file(server, &format!("{name}.pem")),
        client_key: file(server, &format!("{name}.key")),
    });
    let root_cert = Some(file(server, &format!("{issuer}.pem")));
    let client = redis::Client::build_with_tls(url(server), TlsCertificates { client_tls, root_cert });
    Client::builder().redis_client(client.expect("good certificates")).command_timeout(LOOK)
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
            let answer = trusting(&server, "ca", own).connect().await;
            match &answer {
                // The newer version lets a client speak before it has looked at the certificate, and may end the connection
                // before what it thinks of it has been read.
                Err(Error::Unreachable { op: Op::Connect, .. }) if tls == "TLSv1.3" => {}
                _ => not_accepted(&server, answer),
            }
        }
    }
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
