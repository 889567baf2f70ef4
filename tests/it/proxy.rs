//! The fault proxy does what a rule says, and nothing else.

use std::time::{Duration, Instant};

use redis::{AsyncCommands, Client, RedisError, aio::MultiplexedConnection};
use tokio::time::timeout;

use crate::harness::{
    Server,
    clock::monotonic,
    eventually_async,
    proxy::{
        Action, Door, Event, Proxy,
        matching::{any, command, push, script},
    },
    unique_name,
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// What must not come has this long to do so all the same.
const A_WHILE: Duration = Duration::from_millis(60);

/// A connection of the driver that waits for ever and says nothing that the test does not know of.
async fn connect(proxy: &Proxy) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = Client::open(proxy.url()).expect("the proxy's url is good");
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the proxy takes a connection")
}

/// Sends the command now, and not only when the answer is waited for.
fn increment(connection: &MultiplexedConnection, key: &str) -> tokio::task::JoinHandle<Result<i64, RedisError>> {
    let (mut connection, key) = (connection.clone(), key.to_owned());
    tokio::spawn(async move { connection.incr(key, 1).await })
}

async fn value(server: &Server, key: &str) -> Option<i64> {
    server.async_connection().await.get(key).await.expect("the server answers")
}

async fn becomes(server: &Server, key: &str, wanted: i64) {
    eventually_async(SOON, async || value(server, key).await == Some(wanted)).await;
}

async fn answer(pending: impl Future<Output = Result<Result<i64, RedisError>, tokio::task::JoinError>>) -> Option<i64> {
    timeout(SOON, pending).await.expect("an answer or an error comes").expect("no panic").ok()
}

#[tokio::test]
async fn traffic_without_a_rule_passes_and_is_recorded() {
    let (server, key) = (Server::shared(), unique_name());
    for proxy in [Proxy::to(server), Proxy::tcp_to(server)] {
        let mut connection = connect(&proxy).await;
        let _: i64 = connection.incr(&key, 1).await.expect("passes");
        let log = proxy.log();
        assert!(matches!(log[0].event, Event::Opened));
        let request = log.iter().find(|entry| entry.command().as_deref() == Some("INCRBY")).expect("is recorded");
        assert_eq!(request.words().map(|words| words[1].clone()), Some(key.clone().into_bytes()));
        let answered = log.iter().any(
            |entry| matches!(&entry.event, Event::Reply { to, frame } if to[0] == b"INCRBY" && frame.kind() == b':'),
        );
        assert!(answered && log.iter().all(|entry| entry.connection == 0));
        assert!(log.is_sorted_by_key(|entry| entry.at) && monotonic() >= log[log.len() - 1].at);
        assert_eq!(proxy.count(&command("incrby").mentioning(&key)), 1);
        proxy.clear_log();
        assert_eq!(proxy.count(&any()), 0);
    }
    assert_eq!(value(server, &key).await, Some(2));
}

#[tokio::test]
async fn a_password_goes_through_and_a_tcp_server_is_served_too() {
    let server = Server::builder().password("secret").tcp().start();
    let _: i64 = connect(&Proxy::to(&server)).await.incr("a", 1).await.expect("passes");
    let open = Server::builder().tcp().start();
    let proxy = Proxy::tcp_to_address(([127, 0, 0, 1], open.port()).into());
    let _: i64 = connect(&proxy).await.incr("a", 1).await.expect("passes");
    assert_eq!(open.count("incrby"), 1);
}

#[tokio::test]
async fn a_rule_counts_every_match_and_acts_on_the_occurrence_that_was_asked_for() {
    let proxy = Proxy::to(Server::shared());
    let mut connection = connect(&proxy).await;
    let rule = proxy.rule(command("INCRBY").nth(2), Action::CutBefore);
    let one: i64 = connection.incr(unique_name(), 1).await.expect("the first passes");
    assert_eq!((one, rule.seen()), (1, 1));
    let cut: Result<i64, _> = connection.incr(unique_name(), 1).await;
    assert!(cut.is_err());
    let mut connection = connect(&proxy).await;
    let _: i64 = connection.incr(unique_name(), 1).await.expect("the third passes");
    rule.nth(3).await;
}

#[tokio::test]
async fn of_two_rules_the_first_decides_and_a_removed_one_does_not() {
    let proxy = Proxy::to(Server::shared());
    let mut connection = connect(&proxy).await;
    let first = proxy.rule(command("INCRBY"), Action::Pass);
    let second = proxy.rule(any().after(1), Action::CutBefore);
    let _: i64 = connection.incr(unique_name(), 1).await.expect("passes by the first rule");
    let _: i64 = connection.incr(unique_name(), 1).await.expect("passes by the first rule");
    assert_eq!((first.seen(), second.seen()), (2, 2));
    first.remove();
    let cut: Result<i64, _> = connection.incr(unique_name(), 1).await;
    assert!(cut.is_err() && first.seen() == 2);
}

#[tokio::test]
async fn a_rule_can_look_at_arguments_and_connections() {
    let (proxy, key) = (Proxy::to(Server::shared()), unique_name());
    let (mut zeroth, mut first) = (connect(&proxy).await, connect(&proxy).await);
    let long = proxy.rule(command("SET").with(|words| words[2].len() > 3), Action::Pass);
    let on_first = proxy.rule(any().on_connection(1), Action::Pass);
    let commanding = proxy.rule(any().on_commanding(), Action::Pass);
    let subscribing = proxy.rule(any().on_subscribing(), Action::Pass);
    for text in ["abc", "abcd"] {
        let _: () = zeroth.set(&key, text).await.expect("passes");
    }
    let _: () = first.set(&key, "abcde").await.expect("passes");
    let seen = [long.seen(), on_first.seen(), commanding.seen(), subscribing.seen()];
    assert_eq!(seen, [2, 1, 3, 0]);
}

#[tokio::test]
async fn the_log_says_what_was_done_to_a_request_and_to_a_push() {
    let (server, channel) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    proxy.rule(command("SUBSCRIBE"), Action::DelayRequest(Duration::ZERO));
    proxy.rule(push("subscribe"), Action::DelayReply(Duration::ZERO));
    let client = Client::open(proxy.url()).expect("the proxy's url is good");
    client.get_async_pubsub().await.expect("connects").subscribe(&channel).await.expect("subscribes");
    let done = |event: &Event| match event {
        Event::Request { words, action } if words[0] == b"SUBSCRIBE" => Some(*action),
        Event::Push { action, .. } => Some(*action),
        _ => None,
    };
    let done: Vec<Action> = proxy.log().iter().filter_map(|entry| done(&entry.event)).collect();
    assert_eq!(done, [Action::DelayRequest(Duration::ZERO), Action::DelayReply(Duration::ZERO)]);
}

#[tokio::test]
async fn the_locks_scripts_are_told_apart_by_their_verbs() {
    let proxy = Proxy::to(Server::shared());
    let mut connection = connect(&proxy).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/lua/reentrant");
    for file in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let text = std::fs::read_to_string(file.path()).expect("a script can be read");
        let verb = file.path().file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let rule = proxy.rule(script(&verb), Action::CutBefore);
        let cut: Result<(), _> = redis::cmd("EVAL").arg(text).arg(0).query_async(&mut connection).await;
        assert!(cut.is_err() && rule.seen() == 1, "{verb}");
        assert!(proxy.log().iter().any(|entry| entry.script() == Some(verb.clone())));
        connection = connect(&proxy).await;
    }
    let other = proxy.rule(script("acquire"), Action::CutBefore);
    let one: i64 = redis::cmd("EVAL").arg("return 1").arg(0).query_async(&mut connection).await.expect("passes");
    assert_eq!((one, other.seen()), (1, 0));
}

#[tokio::test]
async fn a_delay_is_kept_both_ways() {
    let proxy = Proxy::to(Server::shared());
    let mut connection = connect(&proxy).await;
    for action in [Action::DelayRequest(A_WHILE), Action::DelayReply(A_WHILE)] {
        let rule = proxy.rule(any(), action);
        let started = Instant::now();
        let _: i64 = connection.incr(unique_name(), 1).await.expect("passes late");
        assert!(started.elapsed() >= A_WHILE);
        rule.remove();
    }
}

#[tokio::test]
async fn a_held_request_runs_when_it_is_let_go() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let connection = connect(&proxy).await;
    let rule = proxy.rule(command("INCRBY").first(2), Action::HoldRequest);
    let (one, two) = (increment(&connection, &key), increment(&connection, &key));
    rule.nth(2).await;
    assert_eq!(value(server, &key).await, None);
    rule.let_one_go();
    becomes(server, &key, 1).await;
    let answered = eventually_async(SOON, async || one.is_finished() || two.is_finished());
    answered.await;
    assert!(!(one.is_finished() && two.is_finished()));
    rule.let_go();
    assert_eq!([answer(one).await, answer(two).await].iter().flatten().sum::<i64>(), 3);
}

#[tokio::test]
async fn a_held_request_runs_also_after_its_client_has_gone() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let connection = connect(&proxy).await;
    let rule = proxy.rule(command("INCRBY").nth(1), Action::HoldRequest);
    let pending = increment(&connection, &key);
    rule.nth(1).await;
    pending.abort();
    drop((connection, pending));
    eventually_async(SOON, async || proxy.log().iter().any(|entry| matches!(entry.event, Event::ClientClosed))).await;
    assert_eq!(value(server, &key).await, None);
    let _: i64 = connect(&proxy).await.incr(&key, 10).await.expect("another connection is not held up");
    rule.let_go();
    becomes(server, &key, 11).await;
    eventually_async(SOON, async || proxy.open_connections() == 0).await;
}

#[tokio::test]
async fn a_held_reply_comes_when_it_is_let_go() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let rule = proxy.rule(command("INCRBY").nth(1), Action::HoldReply);
    let pending = increment(&connect(&proxy).await, &key);
    becomes(server, &key, 1).await;
    assert!(!pending.is_finished());
    rule.let_go();
    assert_eq!(answer(pending).await, Some(1));
}

#[tokio::test]
async fn a_swallowed_request_never_runs_and_neither_does_what_follows_it() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let connection = connect(&proxy).await;
    let rule = proxy.rule(command("INCRBY"), Action::SwallowRequest);
    let (mut one, mut two) = (increment(&connection, &key), increment(&connection, &key));
    rule.nth(2).await;
    assert!(timeout(A_WHILE, async { tokio::join!(&mut one, &mut two) }).await.is_err());
    assert!(!one.is_finished() && !two.is_finished());
    assert_eq!((value(server, &key).await, proxy.open_connections()), (None, 1));
}

#[tokio::test]
async fn a_swallowed_reply_is_of_a_request_that_ran() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let connection = connect(&proxy).await;
    proxy.rule(command("INCRBY").nth(1), Action::SwallowReply);
    let mut one = increment(&connection, &key);
    becomes(server, &key, 1).await;
    let mut two = increment(&connection, &key);
    becomes(server, &key, 2).await;
    assert!(
        timeout(A_WHILE, async {
            tokio::select! { _ = &mut one => {}, _ = &mut two => {} }
        })
        .await
        .is_err()
    );
    assert_eq!(proxy.open_connections(), 1);
}

#[tokio::test]
async fn a_duplicated_request_runs_twice_and_is_answered_once() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let mut connection = connect(&proxy).await;
    proxy.rule(command("INCRBY").nth(1), Action::Duplicate);
    let answers: (i64, i64) =
        (connection.incr(&key, 1).await.expect("answers"), connection.incr(&key, 1).await.expect("answers"));
    assert_eq!(answers, (1, 3));
}

#[tokio::test]
async fn a_late_duplicate_runs_when_it_is_let_go_whatever_became_of_its_connection() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let mut connection = connect(&proxy).await;
    let rule = proxy.rule(command("INCRBY").nth(1), Action::DuplicateLater);
    let one: i64 = connection.incr(&key, 1).await.expect("answers at once");
    assert_eq!(one, 1);
    proxy.cut_all();
    eventually_async(SOON, async || proxy.open_connections() == 0).await;
    assert_eq!(value(server, &key).await, Some(1));
    rule.let_go();
    becomes(server, &key, 2).await;
}

#[tokio::test]
async fn a_cut_falls_before_after_or_in_the_middle() {
    let server = Server::shared();
    for (action, ran) in [
        (Action::CutBefore, None),
        (Action::CutMidRequest, None),
        (Action::CutAfter, Some(1)),
        (Action::CutMidReply, Some(1)),
    ] {
        let (proxy, key) = (Proxy::to(server), unique_name());
        let connection = connect(&proxy).await;
        proxy.rule(command("INCRBY").nth(1), action);
        assert_eq!(answer(increment(&connection, &key)).await, None, "{action:?}");
        assert_eq!(value(server, &key).await, ran, "{action:?}");
        assert!(proxy.log().iter().any(|entry| matches!(entry.event, Event::Cut)));
        eventually_async(SOON, async || proxy.open_connections() == 0).await;
    }
}

#[tokio::test]
async fn a_silent_connection_stays_open_and_passes_nothing() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let (by_rule, by_hand) = (connect(&proxy).await, connect(&proxy).await);
    let rule = proxy.rule(command("INCRBY").nth(1), Action::Silence);
    let mut one = increment(&by_rule, &key);
    rule.nth(1).await;
    proxy.silence_all();
    let mut two = increment(&by_hand, &key);
    rule.nth(2).await;
    assert!(
        timeout(A_WHILE, async {
            tokio::select! { _ = &mut one => {}, _ = &mut two => {} }
        })
        .await
        .is_err()
    );
    assert_eq!((value(server, &key).await, proxy.open_connections()), (None, 2));
}

#[tokio::test]
async fn new_connections_can_be_refused_or_left_without_an_answer() {
    let proxy = Proxy::to(Server::shared());
    let client = Client::open(proxy.url()).expect("the proxy's url is good");
    let mut before = connect(&proxy).await;
    proxy.door(Door::Refusing);
    assert!(client.get_multiplexed_async_connection().await.is_err());
    assert!(proxy.log().iter().any(|entry| matches!(entry.event, Event::Refused)));
    proxy.door(Door::Silent);
    assert!(timeout(A_WHILE, client.get_multiplexed_async_connection()).await.is_err());
    proxy.door(Door::Open);
    connect(&proxy).await;
    let _: i64 = before.incr(unique_name(), 1).await.expect("an open connection does not notice");
}

#[tokio::test]
async fn a_throttle_slows_every_frame_down() {
    let proxy = Proxy::to(Server::shared());
    let mut connection = connect(&proxy).await;
    proxy.throttle(10_000);
    let started = Instant::now();
    let _: () = connection.set(unique_name(), "a".repeat(1000)).await.expect("passes slowly");
    assert!(started.elapsed() >= Duration::from_millis(100));
    proxy.throttle(0);
}

#[tokio::test]
async fn one_connection_can_be_slowed_down_alone() {
    let proxy = Proxy::to(Server::shared());
    let (mut slow, mut quick) = (connect(&proxy).await, connect(&proxy).await);
    proxy.throttle_connection(0, 10_000);
    let long = "a".repeat(20_000);
    let setting = tokio::spawn(async move { slow.set::<_, _, ()>(unique_name(), long).await });
    proxy.rule(command("SET"), Action::Pass).nth(1).await;
    let _: () = quick.set(unique_name(), "a".repeat(20_000)).await.expect("passes quickly");
    assert!(!setting.is_finished());
    proxy.throttle(0);
    setting.await.expect("no panic").expect("passes slowly");
}

#[tokio::test]
async fn a_request_can_be_answered_in_its_turn_without_the_server() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let connection = connect(&proxy).await;
    let rule = proxy.rule(command("INCRBY").nth(2), Action::Answer("-LOADING not yet\r\n"));
    let pending = [(); 3].map(|()| increment(&connection, &key));
    let [one, two, three] =
        pending.map(async |pending| timeout(SOON, pending).await.expect("in time").expect("no panic"));
    assert_eq!((one.await.ok(), three.await.ok()), (Some(1), Some(2)));
    assert_eq!(two.await.expect_err("it was refused").code(), Some("LOADING"));
    assert_eq!((rule.seen(), value(server, &key).await), (3, Some(2)));
}

#[tokio::test]
async fn the_requests_about_one_thing_are_shown_in_order_and_without_the_proxys_own_copies() {
    let (server, key) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let mut connection = connect(&proxy).await;
    let copy = proxy.rule(command("SET"), Action::DuplicateLater);
    let _: () = connection.set(&key, "a").await.expect("passes");
    let _: i64 = connection.incr(unique_name(), 1).await.expect("passes");
    let _: () = connection.del(&key).await.expect("passes");
    copy.let_go();
    eventually_async(SOON, async || server.async_connection().await.exists(&key).await.is_ok_and(|there: bool| there))
        .await;
    let names: Vec<_> = proxy.commands_of(&key).iter().filter_map(|entry| entry.command()).collect();
    assert_eq!(names, ["SET", "DEL"]);
    assert!(proxy.log().iter().any(|entry| matches!(&entry.event, Event::Copied { words } if words[0] == b"SET")));
}

#[tokio::test]
async fn a_server_that_dies_is_a_closed_connection_and_one_that_is_away_is_none() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let mut connection = connect(&proxy).await;
    server.kill();
    let dropped: Result<i64, _> = connection.incr("a", 1).await;
    assert!(dropped.is_err());
    let client = Client::open(proxy.url()).expect("the proxy's url is good");
    assert!(client.get_multiplexed_async_connection().await.is_err());
    server.restart_empty();
    let _: i64 = connect(&proxy).await.incr("a", 1).await.expect("a new connection finds the new server");
}

#[test]
fn a_test_without_a_runtime_can_use_a_proxy_too() {
    let proxy = Proxy::to(Server::shared());
    let rule = proxy.rule(command("PING"), Action::Pass);
    let mut connection = Client::open(proxy.url()).and_then(|client| client.get_connection()).expect("connects");
    redis::cmd("PING").exec(&mut connection).expect("answers");
    rule.nth_blocking(1);
}

#[tokio::test]
async fn a_server_can_be_made_to_forget_its_scripts_before_a_request() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let mut connection = connect(&proxy).await;
    let text = "return 1";
    let hash: String = redis::cmd("SCRIPT").arg(&["LOAD", text]).query_async(&mut connection).await.expect("loads");
    let mut run = redis::cmd("EVALSHA");
    run.arg(&hash).arg(0);
    assert_eq!(run.query_async::<i64>(&mut connection).await.expect("it is known"), 1);
    proxy.rule(command("EVALSHA"), Action::FlushScriptsFirst);
    let refused = run.query_async::<i64>(&mut connection).await.expect_err("it was forgotten");
    assert_eq!(refused.code(), Some("NOSCRIPT"));
    // Replies and requests still belong together.
    assert_eq!(redis::cmd("EVAL").arg(&[text, "0"]).query_async::<i64>(&mut connection).await.expect("runs"), 1);
}
