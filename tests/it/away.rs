//! A server that cannot be reached for a while: what the log says of it, and what is not given up for it. And what a server
//! says of itself that somebody must know.

use std::time::Duration;

use relatch::{Client, Error, RefusedKind};
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::{
    harness::{
        Server,
        asleep::asleep,
        eventually_async,
        proxy::{Action, Proxy, matching::command},
        traces::{Said, Traces},
        unique_name,
    },
    kept::{channel, client, connected, kept, teach},
};

const MS: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(10);
/// A link that lasts so long is back.
const LASTING: Duration = Duration::from_secs(1);

fn ask(server: &Server, words: &[&str]) {
    let _: redis::Value = redis::cmd(words[0]).arg(&words[1..]).query(&mut server.connection()).expect("it answers");
}

fn kill_links(server: &Server) {
    ask(server, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

/// How many there are, the one that asks among them.
fn links(server: &Server) -> usize {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("it answers");
    list.lines().count()
}

/// What a service sees with the usual level.
fn loud(traces: &Traces) -> Vec<Said> {
    traces.all().into_iter().filter(|said| said.is_ours() && said.level <= Level::INFO).collect()
}

fn words(traces: &Traces) -> Vec<(Level, String)> {
    loud(traces).into_iter().map(|said| (said.level, said.what)).collect()
}

#[tokio::test]
async fn a_server_that_is_away_is_said_once_and_once_that_it_is_back() {
    let traces = Traces::here();
    let server = Server::builder().password("s3cret").start();
    let url = format!("redis+unix://{}?pass=s3cret", server.socket().display());
    let (client, holder, name) = (client(&url).await, client(&url).await, unique_name());
    let held = holder.mutex(&name).lock().await.expect("a free lock");
    drop(holder);
    let waiter = tokio::spawn(client.mutex(&name).lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    waiter.abort();
    drop(held);
    let gone = || server.listeners(&channel(&name)) == 0 && server.keys().is_empty();
    eventually_async(SOON, async || gone()).await;
    let other = client.mutex(unique_name());
    assert!(loud(&traces).is_empty(), "{:?}", loud(&traces));
    let killed = Instant::now();
    server.kill();
    eventually_async(SOON, async || !loud(&traces).is_empty()).await;
    let noticed = Instant::now();
    // A link is tried for again and again meanwhile.
    eventually_async(SOON, async || traces.events("no command link").len() >= 5).await;
    assert_eq!(loud(&traces).len(), 1, "{:?}", loud(&traces));
    let least = noticed.elapsed();
    server.restart_empty();
    let entered = other.try_lock().wait(SOON).await.expect("it heals").expect("a free lock");
    eventually_async(SOON, async || loud(&traces).len() > 1).await;
    let most = killed.elapsed();
    let said = loud(&traces);
    let [lost, back] = &said[..] else { panic!("{said:?}") };
    assert_eq!((lost.level, back.level), (Level::WARN, Level::INFO));
    assert!(lost.what.contains("lost") && back.what.contains("back"), "{said:?}");
    let away = Duration::from_millis(back.field("away_ms").parse().expect("a number of milliseconds"));
    assert!(away + MS >= least && away <= most, "{away:?} where it was {least:?} at least and {most:?} at most");
    for said in &said {
        assert_eq!(said.field("server"), server.socket().display().to_string());
        assert!(!format!("{said:?}").contains("s3cret"));
    }
    entered.unlock().await.expect("a live hold");
}

#[tokio::test]
async fn links_that_are_lost_again_and_again_are_one_outage() {
    let traces = Traces::here();
    let server = Server::own();
    let client = client(server.url()).await;
    let count = |level| words(&traces).iter().filter(|(said, _)| *said == level).count();
    // A link that lasted through a slow round was back.
    let (mut killed, mut slow) = (Instant::now(), 0);
    for _ in 0..5 {
        slow += usize::from(killed.elapsed() >= LASTING);
        killed = Instant::now();
        kill_links(&server);
        let guard = client.lock("a").try_lock().wait(SOON).await.expect("it heals").expect("a free lock");
        guard.unlock().await.expect("a live hold");
    }
    eventually_async(SOON, async || count(Level::INFO) > 0 && count(Level::INFO) == count(Level::WARN)).await;
    let outages = count(Level::WARN);
    assert!((1..=1 + slow).contains(&outages), "{slow} rounds were slow, {:?}", words(&traces));
    let levels: Vec<_> = words(&traces).into_iter().map(|(level, _)| level).collect();
    assert_eq!(levels, [Level::WARN, Level::INFO].repeat(outages));
    // The next one is another.
    kill_links(&server);
    eventually_async(SOON, async || count(Level::INFO) == outages + 1).await;
    assert_eq!(count(Level::WARN), outages + 1);
}

#[tokio::test]
async fn a_subscription_link_that_is_lost_alone_is_named() {
    let traces = Traces::here();
    let server = Server::own();
    let (one, other, name) = (client(server.url()).await, client(server.url()).await, unique_name());
    let _held = one.mutex(&name).lock().await.expect("a free lock");
    let waiter = tokio::spawn(other.mutex(&name).lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    eventually_async(SOON, async || words(&traces).len() > 1).await;
    let said = words(&traces);
    let [(Level::WARN, lost), (Level::INFO, _)] = &said[..] else { panic!("{said:?}") };
    assert!(lost.contains("subscriptions") && lost.contains("polling"), "{lost}");
    waiter.abort();
}

/// Keeps the name as a client in another process does, and never speaks.
fn keep(server: &Server, name: &str) {
    ask(server, &["HSET", name, "somebody:1", "1"]);
    ask(server, &["PEXPIRE", name, "600000"]);
}

/// Who waits listens to what the server says: that it says nothing more is noticed there first.
#[tokio::test]
async fn a_server_that_falls_silent_under_a_waiter_is_said_to_be_away() {
    let traces = Traces::here();
    let (server, name) = (Server::own(), unique_name());
    teach(&server);
    let proxy = Proxy::to(&server);
    let builder = Client::builder().url(proxy.url()).command_timeout(MS * 1000).unreachable_after(SOON * 3);
    let client = connected(builder.watchdog_timeout(SOON * 6)).await;
    keep(&server, &name);
    let waiter = tokio::spawn(client.mutex(&name).lock());
    // Then nothing is asked for over the other link.
    asleep(&proxy, "acquire").await;
    server.freeze();
    let froze = Instant::now();
    eventually_async(SOON, async || words(&traces).last().is_some_and(|(_, said)| said.contains("server"))).await;
    let noticed = Instant::now();
    // Both links are tried for again meanwhile.
    let tried = || ["no command link", "no subscription link in time"].map(|in_vain| traces.events(in_vain).len());
    let before = tried();
    eventually_async(SOON, async || tried().iter().zip(before).all(|(now, before)| *now > before)).await;
    let said = loud(&traces);
    let [listening, lost] = &said[..] else { panic!("{said:?}") };
    assert!(listening.what.contains("subscriptions") && lost.what.contains("the server is lost"), "{said:?}");
    for said in &said {
        assert_eq!((said.level, said.field("cause")), (Level::WARN, "Silent"), "{said:?}");
    }
    let least = noticed.elapsed();
    server.thaw();
    eventually_async(SOON, async || loud(&traces).len() > 2).await;
    let most = froze.elapsed();
    // And that is all: what else there is to say is said once a link has lasted for so long, and nothing else tells that none is.
    sleep(LASTING).await;
    let said = loud(&traces);
    let [_, _, back] = &said[..] else { panic!("{said:?}") };
    assert_eq!((back.level, back.what.as_str()), (Level::INFO, "the server is back"));
    let away = Duration::from_millis(back.field("away_ms").parse().expect("a number of milliseconds"));
    assert!(away + MS >= least && away <= most, "{away:?} where it was {least:?} at least and {most:?} at most");
    waiter.abort();
}

#[tokio::test]
async fn a_loss_of_the_server_is_said_although_nobody_could_listen_before_and_can_after() {
    let traces = Traces::here();
    let (server, name) = (Server::own(), unique_name());
    let proxy = Proxy::to(&server);
    let client = client(proxy.url()).await;
    keep(&server, &name);
    let waiter = tokio::spawn(client.mutex(&name).lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    let rule = proxy.rule(command("SUBSCRIBE"), Action::CutBefore);
    ask(&server, &["CLIENT", "KILL", "TYPE", "pubsub"]);
    let all = [
        (Level::WARN, "the link for subscriptions is lost; waiting for locks by polling until it is back"),
        (Level::WARN, "the link to the server is lost; connecting again until it is back"),
        (Level::INFO, "the server is back"),
        (Level::INFO, "the link for subscriptions is back"),
    ];
    let said = async |count: usize| {
        eventually_async(SOON, async || words(&traces).len() >= count).await;
        assert_eq!(
            words(&traces),
            all[..count].iter().map(|(level, said)| (*level, (*said).to_owned())).collect::<Vec<_>>()
        );
    };
    said(1).await;
    kill_links(&server);
    said(2).await;
    said(3).await;
    rule.remove();
    said(4).await;
    waiter.abort();
}

#[tokio::test]
async fn the_end_of_a_client_is_no_outage() {
    let traces = Traces::here();
    let server = Server::own();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    client(server.url()).await.close().await;
    drop(client(server.url()).await);
    // Whoever looked after a link has seen its end by then, and nobody is left who could say anything of it.
    eventually_async(SOON, async || (links(&server), tasks()) == (1, before)).await;
    assert!(loud(&traces).is_empty(), "{:?}", loud(&traces));
}

/// The password is changed for a while, and all links are cut: what was asked for meanwhile never left.
#[tokio::test]
async fn what_cannot_be_sent_since_no_link_can_be_opened_is_sent_once_one_can() {
    const RENEWED: Duration = Duration::from_millis(2900);
    let traces = Traces::here();
    let server = Server::builder().password("one").start();
    let url = format!("redis+unix://{}?pass=one", server.socket().display());
    let builder = || Client::builder().url(&url).command_timeout(MS * 200).watchdog_timeout(Duration::from_secs(60));
    let client = connected(builder().unreachable_after(SOON)).await;
    let (name, renewed, waited) = (unique_name(), unique_name(), unique_name());
    let guard = client.mutex(&name).lock().await.expect("a free lock");
    let kept_on = connected(builder().watchdog_timeout(RENEWED)).await;
    let watched = kept_on.mutex(&renewed).lock().await.expect("a free lock");
    let mut raw = server.connection();
    let set = |raw: &mut redis::Connection, password: &str| {
        let _: redis::Value =
            redis::cmd("CONFIG").arg(&["SET", "requirepass", password]).query(raw).expect("CONFIG answers");
    };
    set(&mut raw, "two");
    let kill = ["KILL", "TYPE", "normal", "SKIPME", "yes"];
    let _: i64 = redis::cmd("CLIENT").arg(&kill).query(&mut raw).expect("CLIENT KILL answers");
    let changed = Instant::now();
    // Both links are known to be gone: what is sent on one that is not yet may have arrived.
    let lost = || words(&traces).iter().filter(|(level, _)| *level == Level::WARN).count();
    eventually_async(SOON, async || lost() == 2).await;
    // One try says what is wrong, a first release does, and a client that comes now.
    let unlocked = guard.unlock().await;
    let is_of_credentials = |error: &Error| matches!(error, Error::Refused { kind: RefusedKind::Credentials, .. });
    assert!(unlocked.as_ref().is_err_and(is_of_credentials), "{unlocked:?}");
    assert!(client.mutex(&waited).try_lock().await.is_err_and(|error| is_of_credentials(&error)));
    assert!(builder().connect().await.is_err_and(|error| is_of_credentials(&error)));
    let waiting = tokio::spawn(client.mutex(&waited).lock());
    let renewals = || traces.events("a renewal had no answer; it is tried again").len();
    eventually_async(SOON, async || renewals() > 0).await;
    set(&mut raw, "one");
    eventually_async(SOON, async || kept(&server, &name).is_none()).await;
    let entered = waiting.await.expect("no panic").expect("it heals");
    // Renewed since, and so not too late.
    let left = || watched.expires_in().expect("it is held");
    eventually_async(SOON, async || left() > RENEWED * 2 / 3).await;
    assert!(watched.is_held() && entered.is_held());
    assert!(changed.elapsed() < SOON);
}

#[tokio::test]
async fn a_server_that_drops_locks_when_it_is_full_is_warned_of_once_a_client() {
    for (policy, bytes, warns) in [
        ("volatile-ttl", "100mb", true),
        ("allkeys-lru", "100mb", true),
        ("allkeys-lru", "0", false),
        ("noeviction", "100mb", false),
    ] {
        let traces = Traces::here();
        let server =
            Server::builder().line(format!("maxmemory {bytes}")).line(format!("maxmemory-policy {policy}")).start();
        for (protocol, clients) in [("resp2", 1), ("resp3", 2)] {
            let expected = vec![policy; if warns { clients } else { 0 }];
            let policies = || {
                let warnings = traces.all().into_iter().filter(|said| said.is_ours() && said.level == Level::WARN);
                warnings.filter_map(|said| said.fields.get("policy").cloned()).collect::<Vec<_>>()
            };
            let proxy = Proxy::to(&server);
            let asked = proxy.rule(command("INFO"), Action::Pass);
            let client = client(format!("{}?protocol={protocol}", proxy.url())).await;
            // Once a link it is asked; its answer comes before that of what is asked next. It is not warned of once a link.
            for links in 1..=2 {
                eventually_async(SOON, async || asked.seen() == links).await;
                let guard = client.lock("a").try_lock().wait(SOON).await.expect("it heals").expect("a free lock");
                guard.unlock().await.expect("a live hold");
                eventually_async(SOON, async || policies() == expected).await;
                if links == 1 {
                    kill_links(&server);
                }
            }
            assert_eq!(policies(), expected);
        }
    }
}

#[tokio::test]
async fn a_client_that_may_not_ask_for_info_warns_by_the_configuration_once_a_client() {
    for protocol in ["resp2", "resp3"] {
        let traces = Traces::here();
        let line = "user ann on >pw ~* &* +@all -info";
        let server = Server::builder().line(line).line("maxmemory 100mb").line("maxmemory-policy volatile-lru").start();
        let url = format!("redis+unix://{}?user=ann&pass=pw&protocol={protocol}", server.socket().display());
        let client = client(url).await;
        let warnings = || loud(&traces).into_iter().filter(|said| said.fields.contains_key("policy")).count();
        eventually_async(SOON, async || warnings() == 1).await;
        for _ in 0..2 {
            client.lock("a").lock().await.expect("a free lock").unlock().await.expect("a live hold");
            kill_links(&server);
        }
        client.lock("a").lock().await.expect("a free lock").unlock().await.expect("a live hold");
        assert_eq!(warnings(), 1);
    }
}

#[tokio::test]
async fn a_client_that_may_not_ask_what_a_server_does_works_all_the_same() {
    let traces = Traces::here();
    let line = "user ann on >pw ~* &* +@all -info -config";
    let server = Server::builder().line(line).line("maxmemory 100mb").line("maxmemory-policy volatile-lru").start();
    let client = client(format!("redis+unix://{}?user=ann&pass=pw", server.socket().display())).await;
    for _ in 0..2 {
        client.lock("a").lock().await.expect("a free lock").unlock().await.expect("a live hold");
        kill_links(&server);
    }
    assert!(loud(&traces).iter().all(|said| said.what.contains("link")), "{:?}", loud(&traces));
}

/// As proxies do that do not serve a command.
#[tokio::test]
async fn what_ends_a_connection_for_a_question_about_the_server_takes_no_command_along() {
    let traces = Traces::here();
    let server = Server::own();
    let no = |question| (command(question), Action::Answer("-NOPERM no\r\n"));
    let parted = (
        command("EVALSHA").with(|words| words.get(2).is_some_and(|keys| keys == b"2")),
        Action::Answer("-CROSSSLOT no\r\n"),
    );
    for (protocol, question, beside) in [
        ("resp2", "INFO", None),
        ("resp3", "INFO", None),
        ("resp3", "CONFIG", Some(no("INFO"))),
        ("resp2", "INFO", Some(parted)),
    ] {
        for _ in 0..5 {
            let proxy = Proxy::to(&server);
            let rule = proxy.rule(command(question), Action::CutBefore);
            if let Some((what, action)) = &beside {
                proxy.rule(what.clone(), *action);
            }
            let client = client(format!("{}?protocol={protocol}", proxy.url())).await;
            let lock = client.lock(unique_name());
            for _ in 0..2 {
                let guard = lock.try_lock().await.expect("the link is there").expect("a free lock");
                guard.unlock().await.expect("a live hold");
                eventually_async(SOON, async || rule.seen() > 0 && proxy.open_connections() == 1).await;
            }
        }
    }
    assert!(loud(&traces).is_empty(), "{:?}", loud(&traces));
}
