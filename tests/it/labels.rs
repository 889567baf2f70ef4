//! What a client's connections are called in the servers' lists of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use relatch::{Client, ClientBuilder, Error, RespVersion, ShardedPubSub};

use crate::{
    harness::{
        Server,
        cluster::{MASTERS, name_on},
        deployment::Deployment,
        eventually_async,
        proxy::{Action, Entry, Event, Proxy, matching::command},
        traces::Traces,
        unique_name,
    },
    kept::{channel, connected},
};

const LOOK: Duration = Duration::from_secs(10);
const LABEL: &str = "orders-7f9c";

fn name_of(client: &Client) -> String {
    format!("relatch:{LABEL}:{}", client.id())
}

/// The names of all connections, apart from the one that asks.
fn list(list: &str) -> Vec<String> {
    let theirs = list.lines().filter(|line| !line.contains("cmd=client|list"));
    theirs.filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("name="))).map(str::to_owned).collect()
}

fn connections(server: &Server) -> Vec<String> {
    let all: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("the server answers");
    list(&all)
}

/// What each connection through the proxy said of its name.
fn names_said(proxy: &Proxy) -> BTreeMap<u64, Vec<String>> {
    let mut said = BTreeMap::<u64, Vec<String>>::new();
    for entry in proxy.log() {
        let Some(words) = entry.words() else { continue };
        let names = said.entry(entry.connection).or_default();
        if words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"SETNAME")) {
            names.push(String::from_utf8_lossy(&words[2]).into_owned());
        }
    }
    said
}

/// While it waits for what somebody else holds, so that there are both kinds of links.
async fn with_a_waiter(server: &Server, client: &Client, then: impl AsyncFnOnce()) {
    let name = unique_name();
    let other = connected(Client::builder().url(server.url()).label("other")).await;
    let guard = other.mutex(&name).lock().await.expect("it is free");
    let waiting = tokio::spawn(client.mutex(&name).lock().into_future());
    eventually_async(LOOK, async || server.listeners(&channel(&name)) == 1).await;
    then().await;
    guard.unlock().await.expect("it is held");
    waiting.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
}

#[tokio::test]
async fn every_connection_says_once_how_it_is_called_and_those_that_replace_it_do_so_too() {
    let server = Server::own();
    for version in [RespVersion::Auto, RespVersion::Resp2] {
        let proxy = Proxy::to(&server);
        let client = connected(Client::builder().url(proxy.url()).protocol(version).label(LABEL)).await;
        let name = name_of(&client);
        // In the older protocol the driver sends nothing else over a connection that subscribes.
        let mute = version == RespVersion::Resp2;
        let expected = if mute { 1 } else { 2 };
        let listed = async || connections(&server).iter().filter(|known| **known == name).count() == expected;
        with_a_waiter(&server, &client, async || eventually_async(LOOK, listed).await).await;
        // Over a connection of its own.
        eventually_async(LOOK, async || !proxy.commands_of("INFO").is_empty()).await;
        let of = |words: &[&str]| -> BTreeSet<u64> {
            let asks = |entry: &&Entry| entry.command().is_some_and(|command| words.contains(&&*command));
            proxy.log().iter().filter(asks).map(|entry| entry.connection).collect()
        };
        let named = || names_said(&proxy).values().filter(|names| !names.is_empty()).count();
        let before = named();
        with_a_waiter(&server, &client, async || {
            let listened = of(&["SUBSCRIBE"]).len();
            proxy.cut_all();
            // Not every link that subscribes has a name.
            let again = || named() >= before + expected && of(&["SUBSCRIBE"]).len() > listened;
            eventually_async(LOOK, async || again() && listed().await).await;
        })
        .await;
        client.close().await;
        let (asking, subscribing) = (of(&["EVALSHA", "INFO"]), of(&["SUBSCRIBE"]));
        assert!(asking.len() >= 3, "two for commands and one aside: {asking:?}");
        assert!(subscribing.len() >= 2 && subscribing.is_disjoint(&asking), "{subscribing:?}");
        for (connection, names) in names_said(&proxy) {
            let says = asking.contains(&connection) || !mute && subscribing.contains(&connection);
            let expected = if says { vec![name.clone()] } else { vec![] };
            assert_eq!(names, expected, "{version:?} {connection}");
        }
    }
}

/// As older servers answer, and some proxies.
#[tokio::test]
async fn who_does_not_know_the_newer_protocol_is_listened_to_in_the_older_one() {
    let server = Server::own();
    for answer in ["-ERR unknown command 'HELLO'\r\n", "-NOPROTO unsupported protocol version\r\n", "-NOPERM no\r\n"] {
        let proxy = Proxy::to(&server);
        proxy.rule(command("HELLO"), Action::Answer(answer));
        let client = connected(Client::builder().url(proxy.url()).label(LABEL)).await;
        with_a_waiter(&server, &client, async || {
            let named = async || connections(&server).iter().filter(|known| **known == name_of(&client)).count() == 1;
            eventually_async(LOOK, named).await;
        })
        .await;
        let hears =
            proxy.log().iter().any(|entry| matches!(&entry.event, Event::Push { words, .. } if words[0] == b"message"));
        assert!(hears, "{answer}");
    }
}

#[tokio::test]
async fn whoever_may_not_name_connections_has_locks_all_the_same_and_no_word_is_lost_about_it() {
    let server = Server::builder().line("user ann on >s3cret ~* &* +@all -client").start();
    let url = format!("redis+unix://{}?user=ann&pass=s3cret", server.socket().display());
    let traces = Traces::here();
    for version in [RespVersion::Auto, RespVersion::Resp2] {
        let client = connected(Client::builder().url(&url).label(LABEL).protocol(version)).await;
        with_a_waiter(&server, &client, async || {
            let all = connections(&server);
            assert!(all.len() >= 2 && !all.contains(&name_of(&client)), "{all:?}");
        })
        .await;
        client.close().await;
    }
    let loud: Vec<_> =
        traces.all().into_iter().filter(|said| said.is_ours() && said.what.contains("SETNAME")).collect();
    assert!(loud.is_empty(), "{loud:?}");
}

#[tokio::test]
async fn a_driver_that_is_not_to_say_who_it_is_does_not_say_it_for_us_either() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let info = redis::Client::open(proxy.url()).expect("its url is good").get_connection_info().clone();
    let quiet = info.redis_settings().clone().set_skip_set_lib_name();
    let driver = redis::Client::open(info.set_redis_settings(quiet)).expect("they are good");
    let client = connected(Client::builder().redis_client(driver).label(LABEL)).await;
    with_a_waiter(&server, &client, async || {}).await;
    assert!(proxy.log().iter().all(|entry| entry.command().as_deref() != Some("CLIENT")));
}

#[tokio::test]
async fn a_client_without_a_label_is_known_by_its_host_and_process() {
    let server = Server::own();
    let client = connected(Client::builder().url(server.url())).await;
    let end = format!(":{}:{}", std::process::id(), client.id());
    eventually_async(LOOK, async || {
        let all = connections(&server);
        !all.is_empty() && all.iter().all(|name| name.starts_with("relatch:") && name.ends_with(&end))
    })
    .await;
}

/// Nobody listens there: what is refused with the label's name was refused before any I/O.
#[tokio::test]
async fn a_label_that_no_server_takes_is_refused_before_anything_is_sent() {
    let connect = async |label: &str| Client::builder().url("redis://127.0.0.1:1").label(label).connect().await;
    for label in ["", " ", "a b", "a\nb", "caf\u{e9}", "\u{7f}", &"a".repeat(65)] {
        let answer = connect(label).await;
        assert!(matches!(answer, Err(Error::Invalid { what: "label", .. })), "{label:?}: {answer:?}");
    }
    for label in ["!", "~", &"a".repeat(64)] {
        let answer = connect(label).await;
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "{label:?}: {answer:?}");
    }
}

/// On every node that has slots there are a link for commands and one that subscribes, to channels of either kind.
#[tokio::test]
async fn the_nodes_of_a_cluster_list_a_clients_connections_by_its_name() {
    for sharded in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        are_listed_by_the_nodes(sharded, RespVersion::Auto, 2).await;
    }
    are_listed_by_the_nodes(ShardedPubSub::Off, RespVersion::Resp2, 1).await;
}

async fn are_listed_by_the_nodes(sharded: ShardedPubSub, version: RespVersion, expected: usize) {
    let cluster = Deployment::shared_cluster();
    let builder = || Client::builder().url(cluster.url()).sharded_pubsub(sharded);
    let client = labelled(builder().protocol(version)).await;
    let lists = |node: &str| count(&cluster.ask::<String>(node, &["CLIENT", "LIST"]), &name_of(&client));
    let other = connected(builder()).await;
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for node in MASTERS {
        let name = name_on(node);
        held.push(other.mutex(&name).lock().await.expect("it is free"));
        waiting.push(tokio::spawn(client.mutex(&name).lock().into_future()));
    }
    eventually_async(LOOK, async || MASTERS.into_iter().all(|node| lists(node) == expected)).await;
    for (guard, waiting) in held.into_iter().zip(waiting) {
        guard.unlock().await.expect("it is held");
        waiting.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn sentinels_and_their_master_list_a_clients_connections_by_its_name() {
    let deployment = Deployment::shared();
    for (version, expected) in [(RespVersion::Auto, [2, 1]), (RespVersion::Resp2, [1, 0])] {
        let client = labelled(Client::builder().url(deployment.url()).protocol(version)).await;
        let lists = |server: &str| {
            ["", "TYPE PUBSUB"].map(|kind| {
                let words: Vec<_> = ["CLIENT", "LIST"].into_iter().chain(kind.split_whitespace()).collect();
                count(&deployment.ask::<String>(server, &words), &name_of(&client))
            })
        };
        for sentinel in ["sentinel1", "sentinel2", "sentinel3"] {
            // The one that is asked, and the one that is listened to.
            eventually_async(LOOK, async || lists(sentinel) == expected).await;
        }
        let name = unique_name();
        let held =
            labelled(Client::builder().url(deployment.url())).await.mutex(&name).lock().await.expect("it is free");
        let waiting = tokio::spawn(client.mutex(&name).lock().into_future());
        eventually_async(LOOK, async || lists("master") == expected).await;
        held.unlock().await.expect("it is held");
        waiting.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
    }
}

async fn labelled(builder: ClientBuilder) -> Client {
    connected(builder.label(LABEL)).await
}

fn count(all: &str, name: &str) -> usize {
    list(all).iter().filter(|known| *known == name).count()
}
