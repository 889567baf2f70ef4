//! What is found, and what is known of it.

use std::{collections::BTreeSet, convert::Infallible, pin::pin, time::Duration};

use futures_util::{FutureExt, StreamExt};
use redis::Connection;
use relatch::{
    Client, Error, RefusedKind, ShardedPubSub,
    operate::{Found, HolderId, Kind},
};

use crate::{
    harness::{
        Deployment, Server,
        cluster::{MASTERS, name_on},
        eventually_async,
        proxy::{
            Action, Proxy,
            matching::{command, script},
        },
        unique_name,
    },
    scenes::{LOOK, all, client, connected, names, one},
};

const REDISSON: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586";
const HOUR: Duration = Duration::from_secs(3600);

fn run(connection: &mut Connection, words: &[&str]) {
    redis::cmd(words[0]).arg(&words[1..]).exec(connection).expect("the server takes it");
}

fn set(names: &[(&str, Kind)]) -> BTreeSet<(String, Kind)> {
    names.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
}

/// What strangers have, that looks a little like what we have.
fn strangers(connection: &mut Connection) {
    run(connection, &["HSET", "s:hash", "name", "ann"]);
    run(connection, &["HSET", "s:mixed", &format!("{REDISSON}:1"), "1", "mode", "read"]);
    run(connection, &["HSET", "s:count", &format!("{REDISSON}:1"), "no number"]);
    run(connection, &["HSET", "relatch_job:{s:job}", "start", "1"]);
    run(connection, &["SET", "s:text", "some words of a cached page"]);
    run(connection, &["SET", "s:number", "17"]);
    run(connection, &["SET", "s:big", &"a1".repeat(50_000)]);
    run(connection, &["RPUSH", "s:list", "0123456789abcdef0123456789abcdef"]);
    run(connection, &["ZADD", "s:zset", "1", "a"]);
    run(connection, &["SADD", "s:set", "a"]);
    run(connection, &["XADD", "s:stream", "*", "a", "1"]);
    redis::cmd("SET").arg(b"s:\xff\xfe").arg("0123456789abcdef0123456789abcdef").exec(connection).expect("taken");
    let fields: Vec<String> = (0..5000).flat_map(|n| [format!("{REDISSON}:{n}"), "1".to_owned()]).collect();
    redis::cmd("HSET").arg("s:many").arg(fields).exec(connection).expect("taken");
}

#[tokio::test]
async fn each_kind_is_found_those_of_other_libraries_too_and_strangers_keys_are_passed_over() {
    let server = Server::own();
    let mut connection = server.connection();
    strangers(&mut connection);
    run(&mut connection, &["HSET", "redisson", &format!("{REDISSON}:61"), "2"]);
    run(&mut connection, &["PEXPIRE", "redisson", "60000"]);
    run(&mut connection, &["SET", "redis-py", "9f86d081884c7d659a2feaa0c55ad015"]);
    run(&mut connection, &["SET", "redsync", "c2hhMjU2c2hhMjU2c2hhMQ==", "PX", "60000"]);
    let client = client(server.url()).await;
    let plain = client.lock("plain").lock().await.expect("it is free");
    let nested = client.lock("plain").lock().await.expect("it is ours");
    let fenced = client.fenced_lock("fenced").lock().await.expect("it is free");
    let token = client.token_lock("token").lock().await.expect("it is free");
    let job = client.periodic_job("job", HOUR);
    let mut running = pin!(job.run(|_| std::future::pending::<Result<(), Infallible>>()));
    eventually_async(LOOK, async || {
        assert!(running.as_mut().now_or_never().is_none());
        client.inspect_job("job").await.expect("it may be looked at").is_some()
    })
    .await;

    let (found, errors) = all(client.find("*")).await;
    assert!(errors.is_empty(), "{errors:?}");
    let them: BTreeSet<_> = found.iter().map(|it| (it.name.to_string(), it.kind)).collect();
    let expected = [
        ("plain", Kind::Plain),
        ("redisson", Kind::Plain),
        ("fenced", Kind::Fenced),
        ("token", Kind::Token),
        ("redis-py", Kind::Token),
        ("redsync", Kind::Token),
        ("job", Kind::Job),
    ];
    assert_eq!((them, found.len()), (set(&expected), expected.len()), "{found:?}");
    let of = |name: &str| found.iter().find(|it| &*it.name == name).expect("it was found");
    let holder = |found: &Found| found.holders[0].clone();
    assert_eq!((holder(of("plain")).id.client_id(), holder(of("plain")).count), (Some(client.id()), 2));
    assert_eq!(holder(of("redisson")).id, format!("{REDISSON}:61").parse().expect("a holder"));
    assert_eq!((holder(of("redisson")).count, holder(of("redisson")).label), (2, None));
    assert_eq!((of("fenced").fence, of("plain").fence), (fenced.fence(), None));
    assert!(holder(of("token")).id.is_token() && holder(of("redis-py")).id != holder(of("redsync")).id);
    assert_eq!(of("redis-py").ttl, None);
    assert!(of("plain").ttl.is_some_and(|ttl| LOOK * 2 < ttl && ttl <= LOOK * 3));
    let record = of("job").job.as_ref().expect("a job has a record");
    assert_eq!((record.attempts, holder(of("job")).id.client_id()), (1, Some(client.id())));
    assert_eq!(names(client.find_without_ttl("*")).await, set(&[("redis-py", Kind::Token)]));
    // One by one they are the same, but for the time that went by.
    for found in &found {
        let mut again = one(&client, &found.name).await;
        (again.ttl, again.job) = (found.ttl, found.job.clone());
        assert_eq!(&again, found);
    }
    // What nobody holds is not found.
    drop((nested, plain, fenced, token));
    job.reset().await.expect("it may be ended");
    let left =
        set(&[("redisson", Kind::Plain), ("redis-py", Kind::Token), ("redsync", Kind::Token), ("job", Kind::Job)]);
    eventually_async(LOOK, async || names(client.find("*")).await == left).await;
    assert_eq!(one(&client, "job").await.holders, []);
}

#[tokio::test]
async fn a_holder_says_what_it_is_called_and_those_who_wait_are_counted() {
    let (sentinel, cluster, server) =
        (Deployment::shared().url(), Deployment::shared_cluster().url(), Server::shared().url());
    let deployments = [
        (&sentinel, ShardedPubSub::Auto),
        (&cluster, ShardedPubSub::Auto),
        (&cluster, ShardedPubSub::Off),
        (&server, ShardedPubSub::Auto),
    ];
    for (url, channels) in deployments {
        let builder = || Client::builder().url(url).sharded_pubsub(channels);
        let client = async || connected(builder()).await;
        let holder = connected(builder().label("orders-7f9c")).await;
        let operator = connected(builder().label("operator")).await;
        let names: Vec<_> = MASTERS.iter().map(|node| name_on(node)).collect();
        for name in &names {
            let guard = holder.lock(name).lock().await.expect("it is free");
            assert_eq!(one(&operator, name).await.listeners, Some(0));
            let (one_more, two_more) = (client().await, client().await);
            let mut waiting = [one_more.lock(name).lock().into_future(), two_more.lock(name).lock().into_future()];
            eventually_async(LOOK, async || {
                assert!(waiting.iter_mut().all(|it| it.now_or_never().is_none()));
                one(&operator, name).await.listeners == Some(2)
            })
            .await;
            let (found, errors) = all(operator.find(name)).await;
            assert!(errors.is_empty() && found.len() == 1, "{found:?} {errors:?}");
            for found in [&found[0], &one(&operator, name).await] {
                let label = found.holders[0].label.as_deref();
                assert_eq!((label, found.listeners), (Some("orders-7f9c"), Some(2)), "{url} {channels:?}");
            }
            drop(waiting);
            guard.unlock().await.expect("it is held");
        }
    }
}

#[tokio::test]
async fn all_nodes_are_looked_at_and_one_that_is_away_is_said_to_be() {
    let cluster = Deployment::of_cluster();
    let client = connected(Client::builder().url(cluster.url())).await;
    let mut guards = Vec::new();
    let held: Vec<_> = MASTERS.iter().map(|node| name_on(node)).collect();
    for name in &held {
        guards.push(client.lock(name).lock().await.expect("it is free"));
    }
    let all_of_them: BTreeSet<_> = held.iter().map(|name| (name.clone(), Kind::Plain)).collect();
    assert_eq!(names(client.find("test-*")).await, all_of_them);

    let soon = Client::builder().url(cluster.url()).command_timeout(Duration::from_secs(2));
    let soon = soon.connect().await.expect("the cluster lets us in");
    cluster.freeze(MASTERS[1]);
    let (found, errors) = all(soon.find("test-*")).await;
    cluster.thaw(MASTERS[1]);
    assert!(matches!(errors[..], [Error::Unreachable { .. }, ..]), "{errors:?}");
    let found: BTreeSet<_> = found.iter().map(|it| it.name.to_string()).collect();
    assert!(found.contains(&held[0]) && found.contains(&held[2]), "{found:?}");
}

#[tokio::test]
async fn a_prefix_is_of_no_name_and_other_prefixes_are_strangers() {
    let (server, prefix) = (Server::own(), "a*p[p]:");
    let ours = connected(Client::builder().url(server.url()).name_prefix(prefix)).await;
    let all_names = client(server.url()).await;
    let guard = ours.lock("x").lock().await.expect("it is free");
    let other = all_names.lock("aap:x").lock().await.expect("it is free");
    let _ = ours.periodic_job("x", HOUR).run(|_| async { Ok::<_, Infallible>(()) }).await.expect("it is done");
    assert_eq!(names(ours.find("*")).await, set(&[("x", Kind::Plain), ("x", Kind::Job)]));
    assert_eq!(one(&ours, "x").await.kind, Kind::Plain);
    assert_eq!(ours.inspect_job("x").await.expect("may be looked at").expect("it is done").kind, Kind::Job);
    let key = format!("{prefix}x");
    let expected = set(&[(&key, Kind::Plain), ("aap:x", Kind::Plain), (&key, Kind::Job)]);
    assert_eq!(names(all_names.find("*")).await, expected);
    guard.unlock().await.expect("it is held");
    // Without a lock it is the job that has the name.
    assert_eq!(one(&ours, "x").await.kind, Kind::Job);
    drop(other);
}

#[tokio::test]
async fn names_may_have_any_characters_and_patterns_escape_them() {
    let server = Server::own();
    let client = client(server.url()).await;
    let texts = ["a*b", "a[1]b", "a?b", "a\\b", "a b", "a\nb", "a\0b", "{a}b", "a{b", "\u{e9}", "\u{1f512}", "^"];
    let mut guards = Vec::new();
    for name in texts {
        guards.push(client.fenced_lock(name).lock().await.expect("it is free"));
    }
    let expected: BTreeSet<_> = texts.iter().map(|name| ((*name).to_owned(), Kind::Fenced)).collect();
    assert_eq!(names(client.find("*")).await, expected);
    for name in texts {
        let pattern = name.replace('\\', "\\\\").replace('*', "\\*").replace('?', "\\?").replace('[', "\\[");
        assert_eq!(names(client.find(&pattern)).await, set(&[(name, Kind::Fenced)]), "{pattern:?}");
        assert_eq!(one(&client, name).await.kind, Kind::Fenced);
    }
    assert_eq!(names(client.find("a?b")).await.len(), 7);
    for (pattern, why) in [("", "empty"), ("a[", "set"), ("a\\", "lone")] {
        let (found, errors) = all(client.find(pattern)).await;
        assert!(found.is_empty());
        assert!(matches!(&errors[..], [Error::Invalid { what: "pattern", why: said, .. }] if said.contains(why)));
    }
}

#[tokio::test]
async fn who_may_not_list_connections_or_count_listeners_is_told_the_rest() {
    let lines = [
        "user poor on >s ~* &* -@all +@connection -client +client|setname +@scripting +@hash +@string +@keyspace +info +time +ping +@pubsub -pubsub",
        "user reader on >s ~app:* ~*lock*:{app:* &* -@all +@all",
    ];
    let server = lines.into_iter().fold(Server::builder().tcp(), |builder, line| builder.line(line)).start();
    let url = |user: &str| server.tcp_url().replace("://", &format!("://{user}:s@"));
    let holder = connected(Client::builder().url(server.url()).label("orders")).await;
    let guard = holder.lock("app:x").lock().await.expect("it is free");
    let other = holder.lock("secret").lock().await.expect("it is free");
    let poor = client(url("poor")).await;
    for found in [one(&poor, "app:x").await, all(poor.find("app:*")).await.0.remove(0)] {
        assert_eq!((found.listeners, found.holders[0].label.as_deref()), (None, None));
        assert_eq!(found.holders[0].id.client_id(), Some(holder.id()));
    }
    // What somebody may not read is not found.
    let reader = client(url("reader")).await;
    assert_eq!(names(reader.find("*")).await, set(&[("app:x", Kind::Plain)]));
    let refused = reader.inspect_key("secret").await;
    assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::Permission, .. })), "{refused:?}");
    drop((guard, other));
}

#[tokio::test]
async fn who_may_not_look_for_keys_is_told_so() {
    let line = "user blind on >s ~* &* +@all -scan";
    let server = Server::builder().tcp().line(line).start();
    let blind = client(server.tcp_url().replace("://", "://blind:s@")).await;
    let (found, errors) = all(blind.find("*")).await;
    assert!(found.is_empty());
    assert!(matches!(errors[..], [Error::Refused { kind: RefusedKind::Permission, .. }]), "{errors:?}");
}

#[tokio::test]
async fn a_key_of_a_strange_type_is_no_lock_and_is_said_to_be_none() {
    let server = Server::own();
    strangers(&mut server.connection());
    let client = client(server.url()).await;
    for name in ["s:hash", "s:mixed", "s:count", "s:list", "s:zset", "s:set", "s:stream"] {
        let refused = client.inspect_key(name).await;
        assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{name}: {refused:?}");
    }
    assert_eq!(client.inspect_key("nobody").await.expect("it may be looked at"), None);
    assert_eq!(client.inspect_job("nobody").await.expect("it may be looked at"), None);
    // Whoever names a string says that it is a lock.
    assert_eq!(one(&client, "s:number").await.kind, Kind::Token);
    assert!(matches!(client.inspect_job("s:job").await, Err(Error::Protocol { .. })));
    assert!(matches!(client.inspect_key("").await, Err(Error::Invalid { what: "name", .. })));
}

#[tokio::test]
async fn a_token_is_never_shown() {
    let server = Server::own();
    let client = client(server.url()).await;
    let guard = client.token_lock("x").lock().await.expect("it is free");
    let token = guard.token().expect("it has one");
    let found = one(&client, "x").await;
    let shown = format!("{found:?} {}", found.holders[0].id);
    assert!(!shown.contains(token.as_ref()) && !shown.contains(&token.as_ref()[..16]), "{shown}");
    assert_eq!(found.holders[0].id.to_string().parse::<HolderId>().expect("a holder"), found.holders[0].id);
}

#[tokio::test]
async fn a_client_that_is_closed_finds_nothing_and_says_so() {
    let client = client(Server::shared().url()).await;
    let mut search = client.find("*");
    client.close().await;
    assert!(matches!(search.next().await, Some(Err(Error::Closed))));
    assert!(search.next().await.is_none());
    assert!(matches!(client.inspect_key(unique_name()).await, Err(Error::Closed)));
    assert!(matches!(client.diagnose().await, Err(Error::Closed)));
}

/// Its links live on its own thread.
#[test]
fn a_client_of_another_thread_finds_as_well() {
    let server = Server::own();
    let client = Client::builder().url(server.url()).own_thread().connect_blocking().expect("it lets us in");
    let found = pin!(async {
        let guard = client.lock("x").lock().await.expect("it is free");
        let found = names(client.find("*")).await;
        guard.unlock().await.expect("it is held");
        found
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without anything");
    assert_eq!(runtime.block_on(found), set(&[("x", Kind::Plain)]));
}

#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn a_store_in_this_process_is_looked_at_too() {
    use relatch::{EmbeddedStore, operate::ForcedRelease};

    let store = EmbeddedStore::new().with_nodes(3);
    let connected = async || Client::builder().embedded(&store).connect().await.expect("the store lets us in");
    let (client, other) = (connected().await, connected().await);
    let mut guards = Vec::new();
    for at in 0..50 {
        guards.push(client.lock(format!("x{at}")).lock().await.expect("it is free"));
    }
    let fenced = client.fenced_lock("fenced").lock().await.expect("it is free");
    let token = client.token_lock("token").lock().await.expect("it is free");
    let _ = client.periodic_job("job", HOUR).run(|_| async { Ok::<_, Infallible>(()) }).await.expect("it is done");
    store.steal_token("orphan", None);
    assert_eq!(names(client.find("x*")).await.len(), 50);
    let others = set(&[("fenced", Kind::Fenced), ("token", Kind::Token), ("orphan", Kind::Token), ("job", Kind::Job)]);
    assert_eq!(names(client.find("[^x]*")).await, others);
    assert_eq!(names(client.find_without_ttl("*")).await, set(&[("orphan", Kind::Token)]));
    let waiting = tokio::spawn(other.lock("x0").lock().into_future());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let found = one(&other, "x0").await;
    assert_eq!((found.listeners, found.holders[0].label.as_deref()), (Some(1), None));
    let forced = other.force_unlock_held("x0", &found.holders[0].id).await;
    assert_eq!(forced.expect("it may be ended"), ForcedRelease::Ended);
    drop(waiting.await.expect("no panic").expect("its turn"));
    drop((fenced, token));
    assert_eq!(client.diagnose().await.expect("it is there")[0].code, "deployment.embedded");
}

/// So long a list would keep the server busy.
#[tokio::test]
async fn a_server_with_very_many_connections_is_not_asked_for_their_list() {
    let server = Server::own();
    let holder = connected(Client::builder().url(server.url()).label("orders")).await;
    let mut guards = Vec::new();
    for at in 0..300 {
        guards.push(holder.lock(format!("x{at}")).lock().await.expect("it is free"));
    }
    for (said, label) in
        [("$24\r\nconnected_clients:1000\r\n\r\n", Some("orders")), ("$24\r\nconnected_clients:1001\r\n\r\n", None)]
    {
        let proxy = Proxy::to(&server);
        proxy.rule(command("INFO").mentioning("clients"), Action::Answer(said));
        let operator = client(proxy.url()).await;
        let lists = command("CLIENT").mentioning("LIST");
        assert_eq!(one(&operator, "x0").await.holders[0].label.as_deref(), label);
        assert_eq!(proxy.count(&lists), usize::from(label.is_some()));
        proxy.clear_log();
        let (found, errors) = all(operator.find("x*")).await;
        assert!(errors.is_empty() && found.len() >= 300, "{errors:?}");
        assert!(found.iter().all(|it| it.holders[0].label.as_deref() == label), "{found:?}");
        // Once for all of them.
        assert_eq!(proxy.count(&lists), usize::from(label.is_some()));
    }
}

#[tokio::test]
async fn a_look_without_an_answer_is_not_said_to_have_done_anything() {
    let server = Server::own();
    let client = Client::builder().url(server.url()).command_timeout(Duration::from_millis(500)).connect().await;
    let client = client.expect("the server lets us in");
    server.freeze();
    let errors =
        [client.inspect_key("x").await.err(), client.inspect_job("x").await.err(), all(client.find("x")).await.1.pop()];
    server.thaw();
    // What is asked first is answered, and the script is not.
    let proxy = Proxy::to(&server);
    proxy.rule(script("inspect"), Action::HoldRequest);
    let behind = Client::builder().url(proxy.url()).command_timeout(Duration::from_millis(500)).connect().await;
    let behind = behind.expect("the server lets us in");
    let more = [behind.inspect_key("x").await.err(), behind.lock("x").inspect().await.err()];
    for error in errors.into_iter().chain(more) {
        let error = error.expect("nobody answers");
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert!(!error.to_string().contains("may have run"), "{error}");
    }
}
