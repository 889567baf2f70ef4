//! Token locks at a server that runs no scripts: one that compares by itself serves them, as Redis from 8.4 and Valkey from 9.0 on,
//! and of any other it is said so before anything is taken. The first is a fake that knows those commands and no others.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use redis::AsyncConnectionConfig;
use relatch::{Client, Error, LostCause, RefusedKind, Released};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{Action, Proxy, matching::command},
        traces::Traces,
        unique_name,
    },
    kept::{connected, poll_once},
};

const MS: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(10);
const LASTS: Duration = Duration::from_secs(60);
const WATCHDOG: Duration = Duration::from_millis(600);

/// A key's text, and when it goes.
type Keys = HashMap<String, (String, Option<Instant>)>;

/// Strings with a time to live, and no script.
#[derive(Clone)]
struct Fake {
    /// What it calls the command that deletes a key while it has a value, if it has one.
    deletes: Option<&'static str>,
    keys: Arc<Mutex<Keys>>,
    asked: Arc<Mutex<Vec<Vec<String>>>>,
    address: SocketAddr,
}

impl Fake {
    async fn start(deletes: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        let fake = Self { deletes, keys: Arc::default(), asked: Arc::default(), address };
        let accepting = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        fake
    }

    fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    async fn serve(self, stream: TcpStream) {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        while let Some(words) = words(&mut read).await {
            let answer = self.answer(&words.iter().map(String::as_str).collect::<Vec<_>>());
            if write.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, words: &[&str]) -> String {
        self.asked.lock().expect("no panic").push(words.iter().map(|word| (*word).to_owned()).collect());
        let mut keys = self.keys.lock().expect("no panic");
        keys.retain(|_, (_, until)| until.is_none_or(|until| Instant::now() < until));
        let (name, rest) = (words[0].to_uppercase(), &words[1..]);
        let of = |ms: &str| Some(Instant::now() + Duration::from_millis(ms.parse().expect("a number")));
        match (&*name, rest) {
            ("HELLO", _) => {
                "%4\r\n+server\r\n+redis\r\n+version\r\n+8.4.0\r\n+mode\r\n+standalone\r\n+role\r\n+master\r\n".into()
            }
            ("CLIENT", _) => "+OK\r\n".into(),
            ("PING", _) => "+PONG\r\n".into(),
            ("COMMAND", ["INFO", asked @ ..]) => {
                let known = |name: &&&str| if Some(**name) == self.deletes { "*1\r\n+it\r\n" } else { "_\r\n" };
                format!("*{}\r\n{}", asked.len(), asked.iter().map(|name| known(&name)).collect::<String>())
            }
            ("SET", [key, token, "NX", "PX", ms]) => match keys.contains_key(*key) {
                true => "_\r\n".into(),
                false => {
                    keys.insert((*key).into(), ((*token).into(), of(ms)));
                    "+OK\r\n".into()
                }
            },
            ("SET", [key, token, "IFEQ", known, "PX", ms]) => match keys.get_mut(*key) {
                Some(there) if there.0 == *known => {
                    *there = ((*token).into(), of(ms));
                    "+OK\r\n".into()
                }
                _ => "_\r\n".into(),
            },
            ("GET", [key]) => match keys.get(*key) {
                Some((token, _)) => format!("${}\r\n{token}\r\n", token.len()),
                None => "_\r\n".into(),
            },
            ("PTTL", [key]) => match keys.get(*key) {
                Some((_, Some(until))) => format!(":{}\r\n", (*until - Instant::now()).as_millis()),
                there => format!(":{}\r\n", if there.is_some() { -1 } else { -2 }),
            },
            ("PEXPIRE", [key, ms, "NX"]) => match keys.get_mut(*key) {
                Some((_, until @ None)) => {
                    *until = of(ms);
                    ":1\r\n".into()
                }
                _ => ":0\r\n".into(),
            },
            ("SET", [key, token]) => {
                keys.insert((*key).into(), ((*token).into(), None));
                "+OK\r\n".into()
            }
            ("DEL", [key]) => format!(":{}\r\n", u8::from(keys.remove(*key).is_some())),
            (name, [key, "IFEQ", known] | [key, known]) if self.deletes == Some(name) => {
                let is_it = keys.get(*key).is_some_and(|there| there.0 == *known);
                format!(":{}\r\n", u8::from(is_it && keys.remove(*key).is_some()))
            }
            _ => format!("-ERR unknown command '{}', with args beginning with: \r\n", words[0]),
        }
    }
}

/// One command as it comes over the wire.
async fn words(read: &mut (impl AsyncBufReadExt + AsyncReadExt + Unpin)) -> Option<Vec<String>> {
    let count = number(read, '*').await?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(read, '$').await? + 2];
        read.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}

async fn number(read: &mut (impl AsyncBufReadExt + Unpin), kind: char) -> Option<usize> {
    let mut line = String::new();
    read.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

/// What is there, past all clients of ours.
struct There(redis::aio::MultiplexedConnection);

impl There {
    async fn at(url: &str) -> Self {
        let client = redis::Client::open(url).expect("a good url");
        let config = AsyncConnectionConfig::new();
        Self(client.get_multiplexed_async_connection_with_config(&config).await.expect("it answers"))
    }

    async fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::Cmd::new().arg(words).query_async(&mut self.0).await.expect("it answers")
    }

    async fn holder(&mut self, name: &str) -> Option<String> {
        self.ask(&["GET", name]).await
    }

    async fn ttl_ms(&mut self, name: &str) -> i64 {
        self.ask(&["PTTL", name]).await
    }
}

async fn client(url: &str) -> Client {
    connected(Client::builder().url(url).watchdog_timeout(WATCHDOG).handover_slice(LASTS)).await
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Lost { cause: LostCause::Gone, .. })), "{outcome:?}");
}

/// All that a token lock does.
async fn does_without_scripts(url: &str) {
    let (one, other, mut there) = (client(url).await, client(url).await, There::at(url).await);
    let name = unique_name();
    let (lock, theirs) = (one.token_lock(&name), other.token_lock(&name));

    let guard = lock.lock().await.expect("it is free");
    let token = guard.token().expect("it has one");
    assert_eq!(there.holder(&name).await.as_deref(), Some(token.as_ref()));
    assert!(theirs.try_lock().await.expect("it answers").is_none());
    assert!(theirs.try_lock().wait(MS * 60).await.expect("it answers").is_none());
    // Renewed, and no renewal makes shorter what was asked for in between.
    assert!(timeout(WATCHDOG * 2, guard.lost()).await.is_err(), "it was not renewed");
    guard.extend(LASTS).await.expect("it is held");
    guard.extend(MS * 100).await.expect("it is held");
    assert!(timeout(WATCHDOG, guard.lost()).await.is_err(), "it was not renewed");
    assert!(there.ttl_ms(&name).await > 55_000 && guard.expires_in().is_some_and(|left| left > LASTS / 2));
    let seen = theirs.inspect().await.expect("it answers").expect("it is held");
    assert_eq!((&seen.token, seen.remaining_lease.is_some_and(|left| left > LASTS / 2)), (&token, true));

    // Its successor has another token, and its own lease.
    let mut next = lock.lock().lease(LASTS / 2);
    assert!(poll_once(&mut next).await.is_pending());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let next = next.await.expect("its turn");
    let now = there.holder(&name).await;
    assert_eq!((now.as_deref() == Some(token.as_ref()), now.is_some()), (false, true));
    assert!((20_000..=30_000).contains(&there.ttl_ms(&name).await));

    // Whoever waits elsewhere looks again.
    let waiting = tokio::spawn(theirs.lock().lease(LASTS));
    assert!(theirs.try_lock().wait(MS * 60).await.expect("it answers").is_none());
    assert_eq!(next.unlock().await.expect("it is held"), Released::Freed);
    let guard = timeout(SOON, waiting).await.expect("it is free").expect("no panic").expect("it answers");

    // By its token alone.
    let held = lock.resume(guard.into_token().expect("it is held"));
    let stranger = lock.resume("stranger".parse().expect("a token"));
    assert_lost(stranger.extend(LASTS * 2).await);
    assert_lost(stranger.unlock().await);
    assert!((50_000..=60_000).contains(&there.ttl_ms(&name).await), "a stranger leaves the TTL alone");
    held.extend(LASTS / 6).await.expect("it is the token's");
    assert!(there.ttl_ms(&name).await > 50_000, "never shorter");
    held.extend(LASTS * 2).await.expect("it is the token's");
    assert!(there.ttl_ms(&name).await > 100_000);
    assert_eq!(held.unlock().await.expect("it is the token's"), Released::Freed);
    assert_eq!(there.holder(&name).await, None);

    // Over before its end.
    for taken in [false, true] {
        let guard = lock.lock().lease(MS * 60).await.expect("it is free");
        assert!(guard.lost().await.is_lost());
        while there.holder(&name).await.is_some() {}
        if taken {
            there.ask::<()>(&["SET", &name, "theirs", "NX", "PX", "60000"]).await;
            assert_lost(guard.unlock().await);
            assert_eq!(there.holder(&name).await.as_deref(), Some("theirs"));
        } else {
            assert_eq!(guard.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
        }
    }
    assert!(lock.force_unlock().await.expect("it answers"));
    assert_eq!((there.holder(&name).await, lock.inspect().await.expect("it answers")), (None, None));

    let name = unique_name();
    there.ask::<()>(&["SET", &name, "whose"]).await;
    assert!(one.token_lock(&name).try_lock().wait(MS * 300).await.expect("it answers").is_none());
    assert_eq!(there.ttl_ms(&name).await, -1);
    let started = Instant::now();
    let lock = other.token_lock(&name).repair_orphans(MS * 1000);
    lock.lock().await.expect("it is free in the end").unlock().await.expect("it is held");
    assert!(MS * 1000 <= started.elapsed() && started.elapsed() < SOON);

    let lock = connected(Client::builder().url(url).handover_slice(MS)).await.token_lock(unique_name());
    for _ in 0..3 {
        let guard = lock.try_lock().await.expect("it answers").expect("it is free at once");
        tokio::time::sleep(MS * 20).await;
        drop(guard);
    }

    // Others cannot do without.
    let refused = one.lock(unique_name()).try_lock().await;
    assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::ScriptDisabled, .. })), "{refused:?}");
}

/// It is said before anything is taken, and says who can.
async fn is_refused(url: &str) {
    let (one, mut there, name) = (client(url).await, There::at(url).await, unique_name());
    let lock = one.token_lock(&name);
    for refused in [lock.try_lock().await.map(drop), lock.lock().await.map(drop)] {
        let Err(Error::Refused { kind: RefusedKind::ScriptDisabled, source, .. }) = &refused else {
            panic!("{refused:?}")
        };
        let said = source.to_string();
        assert!(said.contains("Redis has from 8.4") && said.contains("Valkey from 9.0"), "{said}");
    }
    let held = lock.resume("any".parse().expect("a token"));
    let refusals = [held.unlock().await.map(drop), held.extend(LASTS).await, lock.inspect().await.map(drop)];
    for refused in refusals {
        let Err(Error::Refused { kind: RefusedKind::ScriptDisabled, source, .. }) = &refused else {
            panic!("{refused:?}")
        };
        assert!(source.to_string().contains("Valkey from 9.0"), "{source}");
    }
    assert_eq!(there.holder(&name).await, None);
    // Nor where replicas are to know of it.
    let one = connected(Client::builder().url(url).replica_acks(1, MS * 100)).await;
    let refused = one.token_lock(&name).try_lock().await;
    assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::ScriptDisabled, .. })), "{refused:?}");
    assert_eq!(there.holder(&name).await, None);
}

#[tokio::test]
async fn a_server_that_compares_by_itself_needs_no_scripts() {
    for deletes in ["DELIFEQ", "DELEX"] {
        let fake = Fake::start(Some(deletes)).await;
        let traces = Traces::here();
        does_without_scripts(&fake.url()).await;
        let said = traces.events("the server runs no scripts: token locks do without, and all others are refused");
        assert_eq!(said.len(), 3, "once a client");
        let asked = fake.asked.lock().expect("no panic").clone();
        let sent: Vec<&str> = asked.iter().map(|words| &*words[0]).collect();
        assert!(sent.contains(&deletes) && !sent.iter().any(|name| name.contains("SUBSCRIBE") || *name == "PUBLISH"));
        let acl = client(&fake.url()).await.required_acl("*").expect("a good pattern").data;
        let wanted = format!(" -@all +{} +get +pexpire +pttl +set +publish ", deletes.to_lowercase());
        assert!(acl.contains(&wanted) && !acl.contains("eval") && acl.contains("+command|info"), "{acl}");
    }
}

#[tokio::test]
async fn a_plain_command_whose_reply_is_lost_is_found_by_a_comparison() {
    let fake = Fake::start(Some("DELEX")).await;
    for loss in [Action::SwallowReply, Action::CutAfter, Action::SwallowRequest] {
        let (proxy, name) = (Proxy::tcp_to_address(fake.address), unique_name());
        let builder = Client::builder().url(proxy.url()).command_timeout(MS * 300);
        let lock = connected(builder).await.token_lock(&name);
        proxy.rule(command("SET").mentioning(&name).first(1), loss);
        let guard = lock.lock().lease(LASTS).await.expect("it is asked for again");
        let token = guard.token().expect("it has one");
        let mut there = There::at(&fake.url()).await;
        assert_eq!(there.holder(&name).await.as_deref(), Some(token.as_ref()), "{loss:?}");
        let keeps = Duration::from_millis(u64::try_from(there.ttl_ms(&name).await).expect("it has a TTL"));
        let claims = guard.expires_in().expect("it is held");
        assert!(claims <= keeps && keeps > LASTS - SOON, "{loss:?}: claims {claims:?} of {keeps:?}");
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        eventually_async(SOON, async || fake.keys.lock().expect("no panic").is_empty()).await;
    }
}

#[tokio::test]
async fn a_server_that_can_do_neither_is_told_from_one_that_can() {
    is_refused(&Fake::start(None).await.url()).await;
}

#[tokio::test]
async fn a_renewal_leaves_the_time_that_whoever_was_told_the_token_asked_for() {
    let fake = Fake::start(Some("DELEX")).await;
    let (one, other, mut there) = (client(&fake.url()).await, client(&fake.url()).await, There::at(&fake.url()).await);
    let name = unique_name();
    let guard = one.token_lock(&name).lock().await.expect("it is free");
    let told = other.token_lock(&name).resume(guard.token().expect("it has one"));
    told.extend(LASTS).await.expect("it is the token's");
    assert!(timeout(WATCHDOG * 2, guard.lost()).await.is_err(), "it was not renewed");
    let (keeps, believes) = (there.ttl_ms(&name).await, told.expires_in());
    assert!(keeps > 50_000, "{keeps} ms, and {believes:?} are believed");
}

#[tokio::test]
async fn whoever_is_asked_in_vain_what_it_can_do_is_asked_again_and_is_not_said_to_have_nothing() {
    let fake = Fake::start(Some("DELEX")).await;
    let proxy = Proxy::tcp_to_address(fake.address);
    for once in [Action::CutBefore, Action::CutAfter] {
        proxy.rule(command("COMMAND").first(1), once);
        let lock = client(&proxy.url()).await.token_lock(unique_name());
        let guard = lock.try_lock().await.expect("it can").expect("it is free");
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    }
    for always in [Action::CutBefore, Action::Answer("-NOPERM no permissions to run the 'command|info' command\r\n")] {
        let rule = proxy.rule(command("COMMAND"), always);
        let refused = client(&proxy.url()).await.token_lock(unique_name()).try_lock().await;
        let Err(Error::Refused { kind: RefusedKind::ScriptDisabled, source, .. }) = &refused else {
            panic!("{refused:?}")
        };
        assert!(source.to_string().contains("did not say") && source.to_string().contains("COMMAND INFO"), "{source}");
        rule.remove();
    }
}

mod conformance {
    use super::*;

    /// Of those in the matrix, Valkey can do without scripts.
    #[tokio::test]
    async fn whoever_may_run_no_scripts_leaves_no_lock_that_it_cannot_release() {
        let rights = "user ann on >s3cret ~* &* +@all -evalsha -eval";
        let (server, name) = (Server::builder().line(rights.to_owned()).tcp().start(), unique_name());
        let url = format!("redis://ann:s3cret@127.0.0.1:{}/", server.port());
        let lock = connected(Client::builder().url(url)).await.token_lock(&name);
        match lock.try_lock().await {
            Ok(guard) => drop(guard.expect("it is free").unlock().await.expect("it is held")),
            Err(Error::Refused { kind: RefusedKind::Permission, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(server.keys(), Vec::<String>::new());
    }

    /// On whichever server the tests run: of those in the matrix, Valkey can.
    #[tokio::test]
    async fn a_server_without_eval_does_what_its_kind_can() {
        let without = |server: &str| format!("rename-command {server} \"\"");
        let server = Server::builder().line(without("EVAL")).line(without("EVALSHA")).start();
        let known: Vec<redis::Value> = redis::cmd("COMMAND")
            .arg("INFO")
            .arg("DELIFEQ")
            .arg("DELEX")
            .query(&mut server.connection())
            .expect("it answers");
        if known.iter().any(|known| matches!(known, redis::Value::Array(it) if !it.is_empty())) {
            does_without_scripts(&server.url()).await;
        } else {
            is_refused(&server.url()).await;
        }
    }
}
