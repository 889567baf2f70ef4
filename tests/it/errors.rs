//! What goes wrong is told apart, in bounded time, with the server's own words behind it and no password anywhere.

use std::{
    error::Error as StdError,
    net::TcpListener,
    os::unix::net::UnixListener,
    time::{Duration, Instant},
};

use relatch::{Acquire, Client, Error, LockGuard, LostCause, Op, RefusedKind, Released, Result};

use crate::harness::{
    Server,
    asleep::nobody_asks,
    eventually_async,
    lag::Lag,
    proxy::{Door, Proxy},
    traces::Traces,
    unique_name,
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
/// How much later than its bound an answer may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
const COMMAND: Duration = Duration::from_millis(200);
const UNREACHABLE: Duration = Duration::from_millis(700);

async fn connect(url: impl AsRef<str>) -> Result<Client> {
    Client::builder().url(url).command_timeout(COMMAND).unreachable_after(UNREACHABLE).connect().await
}

async fn connected(url: impl AsRef<str>) -> Client {
    connect(url).await.expect("connects")
}

/// The error of something that may have succeeded, as it must be to anybody who reads it: lowercase, about this lock
/// (none where the name is empty), and not in its source's words.
#[track_caller]
fn said<T>(answer: Result<T>, name: &str) -> Error {
    let Some(error) = answer.err() else { panic!("it went well") };
    let text = error.to_string();
    assert!(text.starts_with(|first: char| first.is_lowercase() || first == '`'), "{text:?} is not lowercase");
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text:?} is a sentence or two");
    match error.lock_name() {
        Some(lock) => {
            assert_eq!(lock, name);
            assert!(text.contains(&format!("{name:?}")), "{text:?} does not name {name:?}");
        }
        None => {
            assert!(name.is_empty() || matches!(error, Error::Closed | Error::Invalid { .. } | Error::Protocol { .. }))
        }
    }
    if let Some(source) = error.source() {
        let words = source.to_string();
        assert!(!words.is_empty() && !text.contains(&words), "{text:?} repeats {words:?}");
    }
    error
}

/// The words behind an error.
#[track_caller]
fn source(error: &Error) -> String {
    error.source().unwrap_or_else(|| panic!("{error:?} has no source")).to_string()
}

#[track_caller]
fn refused(error: &Error, is: RefusedKind, does: Op, words: &str) {
    let Error::Refused { op, kind, .. } = error else { panic!("{error:?}") };
    assert_eq!((*kind, *op), (is, does));
    assert!(source(error).contains(words), "{:?} is not what the server says", source(error));
    assert_eq!(error.is_transient(), is == RefusedKind::ReadOnly);
}

#[track_caller]
fn unreachable(error: &Error, does: Op) {
    let Error::Unreachable { op, .. } = error else { panic!("{error:?}") };
    assert_eq!(*op, does);
    assert!(!source(error).is_empty() && error.is_transient());
}

/// Runs something that must take as long as `bound`, and not much longer.
async fn in_time<T>(bound: Duration, work: impl IntoFuture<Output = T>) -> T {
    let (lag, started) = (Lag::watch(), Instant::now());
    let out = work.await;
    let took = started.elapsed();
    assert!(took < lag.added_to(bound + SLACK), "took {took:?} where {bound:?} is the bound");
    out
}

#[tokio::test]
async fn a_key_of_another_type_is_refused_as_that_and_left_alone() {
    let server = Server::shared();
    let client = connected(server.url()).await;
    let name = unique_name();
    let mut connection = server.async_connection().await;
    let _: () = redis::AsyncCommands::set(&mut connection, &name, "text").await.expect("a free key");
    let lock = client.lock(&name);
    for answer in [
        lock.lock().await.map(|_| ()),
        lock.try_lock().await.map(|_| ()),
        lock.try_lock().wait(LOOK).await.map(|_| ()),
        client.mutex(&name).try_lock().await.map(|_| ()),
    ] {
        refused(&said(answer, &name), RefusedKind::WrongType, Op::Acquire, "WRONGTYPE");
    }
    let error = said(lock.try_lock().await, &name);
    let told = "the key holds a string, as a lock of another library is";
    assert!(source(&error).ends_with(told), "{:?}", source(&error));
    refused(&said(lock.inspect().await, &name), RefusedKind::WrongType, Op::Inspect, "WRONGTYPE");
    refused(&said(lock.is_locked().await, &name), RefusedKind::WrongType, Op::Inspect, "WRONGTYPE");
    refused(&said(lock.force_unlock().await, &name), RefusedKind::WrongType, Op::Inspect, "WRONGTYPE");
    let text: String = redis::AsyncCommands::get(&mut connection, &name).await.expect("the text is there");
    assert_eq!(text, "text");
}

#[tokio::test]
async fn a_full_server_refuses_new_locks_and_still_releases_renews_and_hands_over() {
    let server = Server::own();
    let lease = MS * 1_000;
    let builder = Client::builder().url(server.url()).watchdog_timeout(lease).handover_slice(Duration::from_secs(60));
    let client = builder.connect().await.expect("connects");
    let (outer, inner) =
        (client.lock("held").lock().await.expect("free"), client.lock("held").lock().await.expect("ours"));
    let (first, stale) =
        (client.mutex("queue").lock().await.expect("free"), client.mutex("stale").lock().await.expect("free"));
    let next = tokio::spawn(client.mutex("queue").lock().lease(Duration::from_secs(60)));
    tokio::task::yield_now().await;
    let mut connection = server.async_connection().await;
    let mut limit = redis::cmd("CONFIG");
    let _: () =
        limit.arg("SET").arg("maxmemory").arg(1).query_async(&mut connection).await.expect("CONFIG SET answers");

    for answer in [
        client.lock("other").try_lock().await.map(|_| ()),
        client.lock("other").lock().await.map(|_| ()),
        client.lock("other").try_lock().wait(LOOK).await.map(|_| ()),
    ] {
        refused(&said(answer, "other"), RefusedKind::OutOfMemory, Op::Acquire, "OOM");
    }
    // Two leases go by: only renewals can have kept it.
    assert!(tokio::time::timeout(lease * 2, outer.lost()).await.is_err(), "the watchdog did not renew");
    assert_eq!(
        client.lock("held").inspect().await.expect("answers").map(|seen| seen.client_id),
        Some(client.id().to_string())
    );
    assert_eq!(inner.unlock().await.expect("a nested release"), Released::StillHeld(1));
    assert_eq!(outer.unlock().await.expect("a release"), Released::Freed);
    assert_eq!(first.unlock().await.expect("a hand-over"), Released::Freed);
    let next = next.await.expect("no panic").expect("it was handed over");
    assert!(client.lock("stale").force_unlock().await.expect("a forced release"));
    drop(stale);
    next.unlock().await.expect("a release");
    assert_eq!(server.keys(), Vec::<String>::new());
}

/// How often a subscription was refused for want of a right.
fn refused_subscriptions(server: &Server) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("INFO answers");
    let line = info.lines().find(|line| line.starts_with("cmdstat_subscribe:")).expect("it was asked for");
    let (_, rest) = line.split_once("rejected_calls=").expect("rejections are counted");
    rest.split(',').next().and_then(|count| count.parse().ok()).expect("a number")
}

/// A right that a script lacks is a missing right, whichever version words it.
#[tokio::test]
async fn a_right_that_only_the_script_lacks_is_a_missing_right_too() {
    for lacks in ["hincrby", "pexpire", "pttl"] {
        let (server, url) = server_for(&format!("~* &* +@all -{lacks}"));
        let lock = connected(&url).await.lock("job");
        refused(&said(lock.try_lock().await, "job"), RefusedKind::Permission, Op::Acquire, "script");
        assert_eq!(server.keys(), Vec::<String>::new(), "-{lacks}");
    }
}

/// A server with a user whose rights are these.
fn server_for(rights: &str) -> (Server, String) {
    let server = Server::builder().line(format!("user ann on >s3cret {rights}")).start();
    let url = format!("redis+unix://{}?user=ann&pass=s3cret", server.socket().display());
    (server, url)
}

#[tokio::test]
async fn a_user_without_the_right_to_run_scripts_is_told_so_by_the_first_script() {
    for (rights, lacks) in [("~* &* +@all -evalsha", "'evalsha'"), ("~* &* +@all -eval", "'eval'")] {
        let (_server, url) = server_for(rights);
        let error = said(in_time(COMMAND, connected(&url).await.lock("job").try_lock()).await, "job");
        refused(&error, RefusedKind::Permission, Op::Acquire, lacks);
        assert!(error.to_string().ends_with("this user lacks the permission"), "{error}");
    }

    // And where the right is taken away later.
    let (server, url) = server_for("~* &* +@all");
    let client = connected(&url).await;
    let held = client.lock("held").lock().await.expect("a free lock");
    let mut connection = server.async_connection().await;
    let mut rights = redis::cmd("ACL");
    let _: () = rights.arg(&["SETUSER", "ann", "-evalsha"]).query_async(&mut connection).await.expect("ACL answers");
    let lock = client.lock("job");
    for answer in [lock.try_lock().await.map(|_| ()), lock.lock().await.map(|_| ())] {
        refused(&said(answer, "job"), RefusedKind::Permission, Op::Acquire, "NOPERM");
    }
    refused(&said(lock.inspect().await, "job"), RefusedKind::Permission, Op::Inspect, "NOPERM");
    refused(&said(held.extend(LOOK).await, "held"), RefusedKind::Permission, Op::Extend, "NOPERM");
    assert!(held.is_held());
    refused(&said(held.unlock().await, "held"), RefusedKind::Permission, Op::Release, "NOPERM");
}

#[tokio::test]
async fn a_key_that_the_user_may_not_touch_is_refused_and_others_are_not() {
    let (_server, url) = server_for("~ours:* &* +@all");
    let client = connected(&url).await;
    for answer in [client.lock("theirs").try_lock().await.map(|_| ()), client.lock("theirs").lock().await.map(|_| ())] {
        refused(&said(answer, "theirs"), RefusedKind::Permission, Op::Acquire, "NOPERM");
    }
    client.lock("ours:job").lock().await.expect("a free lock").unlock().await.expect("a hold of ours is released");
}

#[tokio::test]
async fn a_waiter_that_may_not_subscribe_polls_and_says_so_once() {
    // Without the command, and without the channels, which is what a new user of Redis 7 has.
    for rights in ["~* &* +@all -subscribe", "~* resetchannels +@all"] {
        let traces = Traces::here();
        let (server, url) = server_for(rights);
        let (holder, waiter) = (connected(server.url()).await, connected(&url).await);
        let names = ["first", "second", "third"];
        let mut held = Vec::new();
        for name in names {
            held.push(holder.lock(name).lock().await.expect("a free lock"));
        }
        let waiting: Vec<_> = names.map(|name| tokio::spawn(waiter.lock(name).lock())).into_iter().collect();
        let warned = || traces.all().into_iter().filter(|said| said.is_ours() && said.what.contains("polling"));
        eventually_async(LOOK, async || warned().count() > 0).await;
        for guard in held {
            guard.unlock().await.expect("a hold of ours is released");
        }
        let (lag, released) = (Lag::watch(), Instant::now());
        let mut found = Duration::ZERO;
        for waiting in waiting {
            let guard: LockGuard = waiting.await.expect("no panic").expect("polling finds the lock free");
            found = released.elapsed();
            guard.unlock().await.expect("a release whose message is refused is a release");
        }
        // The longest pause between two looks.
        assert!(found < lag.added_to(MS * 250 + SLACK), "{rights}: found free after {found:?}");
        assert_eq!(warned().count(), 1, "{rights}");
        // Each name asked once where the channels are refused, and one for all where the command is.
        assert!(refused_subscriptions(&server) <= names.len() as u64, "{rights}: asked again");
        assert!(warned().all(|said| said.level == tracing::Level::WARN));
        assert_eq!(server.keys(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_wrong_password_is_a_refusal_and_no_password_is_ever_shown() {
    let traces = Traces::here();
    let server = Server::builder().tcp().password("r1ght-s3cret").start();
    let (port, socket) = (server.port(), server.socket().display().to_string());
    let wrong = [
        (format!("redis://:wr0ng-s3cret@127.0.0.1:{port}/"), "WRONGPASS"),
        (format!("redis://default:wr0ng-s3cret@127.0.0.1:{port}/?protocol=resp2"), "WRONGPASS"),
        (format!("redis://:wr0ng-s3cret@127.0.0.1:{port}/3?protocol=resp2"), "WRONGPASS"),
        (format!("redis://nobody:wr0ng-s3cret@127.0.0.1:{port}/"), "WRONGPASS"),
        (format!("redis+unix://{socket}?pass=wr0ng-s3cret"), "WRONGPASS"),
        (format!("redis://127.0.0.1:{port}/"), "NOAUTH"),
        (format!("redis+unix://{socket}"), "NOAUTH"),
    ];
    let mut shown = String::new();
    for (url, words) in wrong {
        let builder = Client::builder().url(&url).command_timeout(COMMAND);
        shown += &format!("{builder:?}");
        let error = said(in_time(COMMAND, builder.connect()).await, "");
        refused(&error, RefusedKind::Credentials, Op::Connect, words);
        assert_eq!(error.to_string(), "the server refused to connect: the password is wrong or missing");
        shown += &everything(&error);
    }
    // With the right one nothing shows it either, while all goes well and when the server goes.
    for url in [server.url(), server.tcp_url()] {
        let client = connected(&url).await;
        let lock = client.lock(unique_name());
        let guard = lock.lock().await.expect("a free lock");
        shown += &format!("{client:?}{lock:?}{guard:?}{:?}{:?}", lock.lock(), Client::builder().url(&url));
        guard.unlock().await.expect("a hold of ours is released");
    }
    let client = connected(server.tcp_url()).await;
    server.kill();
    let error = said(client.lock("job").try_lock().await, "job");
    unreachable(&error, Op::Acquire);
    shown += &everything(&error);
    shown += &everything(&said(connect(server.url()).await, ""));
    shown += &everything(&said(connect(server.tcp_url()).await, ""));
    for said in traces.all() {
        shown += &format!("{said:?}");
    }
    assert!(!shown.contains("s3cret"), "a password is shown");
}

/// Every way to show an error and what is behind it.
fn everything(error: &Error) -> String {
    let mut shown = format!("{error}{error:?}{error:#?}");
    let mut source = error.source();
    while let Some(behind) = source {
        shown += &format!("{behind}{behind:?}{behind:#?}");
        source = behind.source();
    }
    shown
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable_within_a_command_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("a listener has an address").port();
    drop(listener);
    let server = Server::own();
    let socket = server.socket().with_file_name("nobody.sock");
    let (tcp, unix) = (format!("127.0.0.1:{port}"), socket.display().to_string());
    for (url, address) in
        [(format!("redis://ann:s3cret@{tcp}/"), tcp), (format!("redis+unix://{unix}?user=ann&pass=s3cret"), unix)]
    {
        let error = said(in_time(COMMAND, connect(url)).await, "");
        unreachable(&error, Op::Connect);
        let words = source(&error);
        assert!(words.contains(&address) && !words.contains("s3cret") && !words.contains("ann"), "{words}");
    }
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_unreachable_in_bounded_time() {
    // A listener's backlog accepts; nobody reads.
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let server = Server::own();
    let socket = server.socket().with_file_name("silent.sock");
    let _unix = UnixListener::bind(&socket).expect("the folder is the test's own");
    let port = tcp.local_addr().expect("a listener has an address").port();
    for url in [format!("redis://127.0.0.1:{port}/"), format!("redis+unix://{}", socket.display())] {
        unreachable(&said(in_time(COMMAND, connect(url)).await, ""), Op::Connect);
    }

    for proxy in [Proxy::to(&server), Proxy::tcp_to(&server)] {
        let client = connected(proxy.url()).await;
        let name = unique_name();
        let held = client.lock(&name).lock().await.expect("a free lock");
        proxy.silence_all();
        proxy.door(Door::Silent);
        let lock = client.lock("job");
        // The first one was sent; the later ones find no link.
        let first = said(in_time(COMMAND, lock.try_lock()).await, "job");
        unreachable(&first, Op::Acquire);
        assert!(matches!(first, Error::Unreachable { may_have_run: true, .. }));
        unreachable(&said(in_time(COMMAND, lock.inspect()).await, "job"), Op::Inspect);
        unreachable(&said(in_time(COMMAND, lock.force_unlock()).await, "job"), Op::Inspect);
        unreachable(&said(in_time(COMMAND, held.extend(LOOK)).await, &name), Op::Extend);
        let fresh = client.lock("fresh");
        unreachable(&said(in_time(UNREACHABLE, fresh.lock()).await, "fresh"), Op::Acquire);
        unreachable(&said(in_time(MS * 300, fresh.try_lock().wait(MS * 300)).await, "fresh"), Op::Acquire);
        unreachable(&said(in_time(COMMAND, held.unlock()).await, &name), Op::Release);
        assert!(!held.is_held());
    }
}

#[tokio::test]
async fn a_plain_lock_gives_a_silent_server_exactly_its_time() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connected(proxy.url()).await;
    proxy.silence_all();
    proxy.door(Door::Silent);
    let asked = Instant::now();
    unreachable(&said(client.lock("job").lock().await, "job"), Op::Acquire);
    let took = asked.elapsed();
    assert!((UNREACHABLE..UNREACHABLE + COMMAND).contains(&took), "took {took:?} where it was told {UNREACHABLE:?}");
}

#[tokio::test]
async fn a_replica_refuses_as_read_only_and_is_waited_for_in_bounded_time() {
    let server = Server::own();
    let client = connected(server.url()).await;
    let held = client.lock("held").lock().await.expect("a free lock");
    let mut connection = server.async_connection().await;
    let mut role = async |host: &str, port: &str| {
        let mut replicate = redis::cmd("REPLICAOF");
        let _: () = replicate.arg(host).arg(port).query_async(&mut connection).await.expect("REPLICAOF answers");
    };
    // Of a master that is not there: it serves what it has.
    role("127.0.0.1", "1").await;
    let lock = client.lock("job");
    // So it is for one that was under way when the refusal of another ended their link, and for one that finds none.
    let read_only = |error: &Error, op| refused(error, RefusedKind::ReadOnly, op, "READONLY");
    for wait in [Duration::ZERO, MS * 300] {
        let error = said(in_time(wait.max(COMMAND), lock.try_lock().wait(wait)).await, "job");
        refused(&error, RefusedKind::ReadOnly, Op::Acquire, "READONLY");
    }
    let asked = Instant::now();
    read_only(&said(in_time(UNREACHABLE, lock.lock()).await, "job"), Op::Acquire);
    assert!(asked.elapsed() >= UNREACHABLE, "given up after {:?}", asked.elapsed());
    // Looking is allowed, as soon as there is a link again: the last refusal has ended the one before.
    eventually_async(LOOK, async || client.lock("held").is_locked().await.is_ok_and(|held| held)).await;
    read_only(&said(held.unlock().await, "held"), Op::Release);
    // A wait is the caller's own, and may be longer than an endless wait would be.
    let waiting = tokio::spawn(lock.try_lock().wait(LOOK));
    tokio::time::sleep(UNREACHABLE + MS * 300).await;
    assert!(!waiting.is_finished());
    // The pauses between links have grown longer than the other client waits for a server.
    let patient = Client::builder().url(server.url()).command_timeout(COMMAND).unreachable_after(LOOK).connect().await;
    let endless = tokio::spawn(patient.expect("connects").lock("endless").lock());
    tokio::task::yield_now().await;
    role("NO", "ONE").await;
    // It heals for those who wait, and for what was to be released.
    endless.await.expect("no panic").expect("a master again").unlock().await.expect("a hold of ours is released");
    let guard = waiting.await.expect("no panic").expect("a master again").expect("a free lock");
    eventually_async(LOOK, async || !client.lock("held").is_locked().await.expect("the server answers")).await;
    guard.unlock().await.expect("a hold of ours is released");
}

#[tokio::test]
async fn a_server_that_is_loading_is_waited_for_and_then_unreachable_in_its_own_words() {
    // A key takes so long to load that the server is busy with these for a while, and answers in between.
    let server =
        Server::builder().line("enable-debug-command yes").line("loading-process-events-interval-bytes 1024").start();
    let mut connection = server.async_connection().await;
    let mut fill = redis::cmd("DEBUG");
    let _: () = fill.arg("POPULATE").arg(1200).arg("k").arg(64).query_async(&mut connection).await.expect("it fills");
    let mut slow = redis::cmd("CONFIG");
    slow.arg("SET").arg("key-load-delay").arg(1000);
    let _: () = slow.query_async(&mut connection).await.expect("CONFIG SET answers");
    let client = connected(server.url()).await;
    let patient = Client::builder().url(server.url()).command_timeout(COMMAND).connect().await.expect("connects");
    let reloading = tokio::task::spawn_blocking(move || {
        let mut connection = server.connection();
        // A busy machine takes several times as long.
        connection.set_read_timeout(Some(LOOK * 6)).expect("a socket takes a timeout");
        redis::cmd("DEBUG").arg("RELOAD").exec(&mut connection).expect("it reloads");
        server
    });
    let lock = client.lock("job");
    let loading = async || lock.is_locked().await.is_err_and(|error| source(&error).contains("LOADING"));
    eventually_async(LOOK, loading).await;
    let error = said(lock.try_lock().await, "job");
    unreachable(&error, Op::Acquire);
    assert!(matches!(error, Error::Unreachable { may_have_run: false, .. }));
    let asked = Instant::now();
    let error = said(in_time(UNREACHABLE, lock.lock()).await, "job");
    unreachable(&error, Op::Acquire);
    assert!(source(&error).contains("LOADING"), "{}", source(&error));
    assert!(asked.elapsed() >= UNREACHABLE);
    let guard = patient.lock("job").lock().await.expect("the server has loaded");
    let _server = reloading.await.expect("no panic");
    guard.unlock().await.expect("a hold of ours is released");
}

#[tokio::test]
async fn when_the_server_goes_all_who_wait_without_a_bound_fail_together() {
    type End = fn(&Server);
    for (way, end) in [("killed", Server::kill as End), ("frozen", Server::freeze)] {
        let server = Server::own();
        let (holder, client) = (connected(server.url()).await, connected(server.url()).await);
        let _held = holder.lock("job").lock().await.expect("a free lock");
        let wait = async |lock: Acquire| (lock.await, Instant::now());
        let waiting: Vec<_> = (0..8).map(|_| tokio::spawn(wait(client.mutex("job").lock()))).collect();
        eventually_async(LOOK, async || server.listeners("redisson_lock__channel:{job}") == 1).await;
        // An answer that is waited for would be missed sooner.
        nobody_asks(async || server.count("evalsha")).await;
        end(&server);
        let (lag, gone) = (Lag::watch(), Instant::now());
        let mut told = Vec::new();
        for waiting in waiting {
            let (answer, at) = waiting.await.expect("no panic");
            unreachable(&said(answer, "job"), Op::Acquire);
            told.push(at);
        }
        // A silent link is found out by a ping, which is due once a command timeout and has one to be answered.
        let (took, late) = (gone.elapsed(), lag.added_to(Duration::ZERO));
        assert!(took < UNREACHABLE + COMMAND * 3 + SLACK + late, "{way}: told after {took:?}, {late:?}");
        let (first, last) = (told.iter().min().expect("eight"), told.iter().max().expect("eight"));
        assert!(*last - *first < MS * 100 + late, "{way}: {first:?} to {last:?}, {late:?}");
    }
}

#[tokio::test]
async fn a_scheme_that_is_not_served_is_named_and_garbage_is_no_url() {
    let mut named = vec![("redis-sentinel://h1,h2/0", "#name"), ("redis-cluster://h1,h2/1", "database 0")];
    if cfg!(not(any(feature = "rustls", feature = "native-tls"))) {
        named.push(("rediss://h", "rustls"));
    }
    let garbage = [
        "",
        " ",
        "h",
        "h:6379",
        "://",
        "://h",
        "redis:",
        "redis:/h",
        "http://h",
        "redis://h:port",
        "redis://h:70000",
        "redis://h/x",
        "redis+unix://",
        "\0",
        "🔒",
        "redis\0://h",
        "file:///etc/passwd",
        "redis://[::1",
        "javascript:0",
    ];
    let asked = named.into_iter().chain(garbage.map(|url| (url, "")));
    for (url, part) in asked {
        let error = said(Client::connect(url).await, "");
        let Error::Invalid { what: "url", why, .. } = &error else { panic!("{url:?} gave {error:?}") };
        assert!(why.contains(part) && !why.is_empty(), "{url:?}: {why}");
    }
    let error = said(Client::builder().connect().await, "");
    assert!(matches!(error, Error::Invalid { what: "url", .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_without_scripts_is_found_out_by_the_first_script() {
    for gone in [&["EVALSHA", "EVAL"][..], &["EVALSHA"], &["EVAL"]] {
        let mut server = Server::builder();
        for command in gone {
            server = server.line(format!("rename-command {command} \"\""));
        }
        let server = server.start();
        let lock = connected(server.url()).await.lock("job");
        let error = said(in_time(COMMAND, lock.try_lock()).await, "job");
        refused(&error, RefusedKind::ScriptDisabled, Op::Acquire, "unknown command");
    }
}

#[tokio::test]
async fn every_kind_of_error_says_itself_in_one_line_about_its_lock() {
    let server = Server::own();
    let client = connected(server.url()).await;
    let name = "orders \"5\"\n";
    let lock = client.lock(name);
    let mut errors = vec![said(lock.unlock().await, name), said(lock.try_lock().lease(MS).await, name)];
    let outer = lock.lock().await.expect("a free lock");
    errors.push(said(lock.unlock().await, name));
    let inner = lock.lock().await.expect("ours");
    errors.push(said(lock.unlock().await, name));
    assert!(errors.last().is_some_and(|error| matches!(error, Error::NotHeld { guards: 2, .. })), "{errors:?}");
    inner.unlock().await.expect("a nested hold");
    outer.unlock().await.expect("a hold of ours is released");
    errors.push(said(outer.extend(LOOK).await, name));

    let short = lock.lock().lease(MS * 30).await.expect("a free lock");
    errors.push(short.lost().await);
    let bounded = lock.lock().max_hold(MS * 30).await.expect("free again");
    errors.push(bounded.lost().await);
    eventually_async(LOOK, async || !lock.is_locked().await.expect("the server answers")).await;
    let forced = lock.lock().await.expect("free again");
    assert!(lock.force_unlock().await.expect("the server answers"));
    errors.push(said(forced.unlock().await, name));
    let gone = lock.lock().await.expect("free again");
    let mut connection = server.async_connection().await;
    let _: () = redis::AsyncCommands::del(&mut connection, name).await.expect("DEL answers");
    errors.push(said(gone.unlock().await, name));
    // Somebody else's hash, with no number where the count stands.
    let _: () = redis::AsyncCommands::hset(&mut connection, name, "field", "text").await.expect("HSET answers");
    errors.push(said(lock.inspect().await, name));
    let _: () = redis::AsyncCommands::del(&mut connection, name).await.expect("DEL answers");
    let live = lock.lock().await.expect("free again");
    client.close().await;
    errors.push(live.lost().await);
    errors.push(said(lock.lock().await, name));

    let cause = |error: &Error| match error {
        Error::Lost { cause, .. } => Some(*cause),
        _ => None,
    };
    let causes: Vec<_> = errors.iter().filter_map(cause).collect();
    use LostCause::{Closed, Expired, Forced, Gone, MaxHold};
    assert_eq!(causes, [Expired, MaxHold, Forced, Gone, Closed]);
    let has = |is: fn(&Error) -> bool| errors.iter().any(is);
    assert!(has(|error| matches!(error, Error::Protocol { .. })) && has(|error| matches!(error, Error::Closed)));
    for error in errors {
        assert_eq!(error.is_lost(), matches!(error, Error::Lost { .. }));
        said(Err::<(), _>(error), name);
    }
}
