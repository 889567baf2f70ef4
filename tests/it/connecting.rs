//! Who may be connected to, how, and what is never said about it. How TLS connects is in `tests/tls`.

use std::{error::Error as StdError, time::Duration};

use futures_util::{StreamExt, stream};
use relatch::{Client, ClientBuilder, Error, Op, RefusedKind, RespVersion, Result};

use crate::{
    harness::{
        Server,
        asleep::asleep_by,
        eventually, eventually_async,
        proxy::{Action, Door, Proxy, matching::command},
        server::{Builder, free_port},
        traces::Traces,
        unique_name,
    },
    kept::channel,
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
const NAME: &str = "s3cret-name";
const PASSWORD: &str = "s3cret/pass:w\u{f6}rd?#@%+";
const ENCODED: &str = "s3cret%2Fpass%3Aw%C3%B6rd%3F%23%40%25%2B";

/// The whole life of a lock, and a waiter that is woken.
async fn live(client: &Client) -> Result<()> {
    let lock = client.lock(unique_name());
    let guard = lock.lock().await?;
    lock.lock().await?.unlock().await?;
    guard.extend(LOOK).await?;
    let waiting = tokio::spawn(client.mutex(lock.name()).try_lock().wait(MS * 200));
    guard.unlock().await?;
    waiting.await.expect("no panic")?.expect("it is free").unlock().await?;
    lock.inspect().await.map(drop)
}

/// Every way to show what somebody answered, and what is behind it.
fn shown<T>(answer: Result<T>) -> String {
    let Some(error) = answer.err() else { return String::new() };
    let mut shown = format!("{error}{error:?}{error:#?}");
    let mut source = error.source();
    while let Some(behind) = source {
        shown += &format!("{behind}{behind:?}{behind:#?}");
        source = behind.source();
    }
    shown
}

/// What is not shown: each part of it that is long enough to be worth something, as text and as the numbers of its bytes.
#[track_caller]
fn nothing_of_it(shown: &str) {
    let lower = shown.to_lowercase();
    for part in ["s3cret", "pass:w", "w\u{f6}rd", "%2fpass", "%3aw"] {
        let numbers = part.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        assert!(!lower.contains(part) && !lower.contains(&numbers), "{part:?} is in {shown}");
    }
}

/// All that names one server with these credentials. Over TCP, a number of the long name would be cut by the server where
/// it quotes; over a socket they are in the query.
fn named(port: u16, socket: &str) -> Vec<ClientBuilder> {
    let long = format!("{NAME}{}", "-and-so-on".repeat(11));
    let urls = [
        format!("redis://{NAME}:{ENCODED}@127.0.0.1:{port}/"),
        format!("redis://:{ENCODED}@127.0.0.1:{port}/3"),
        format!("redis://{long}:{ENCODED}@127.0.0.1:{port}/"),
        format!("redis+unix://{socket}?user={NAME}&pass={ENCODED}"),
        format!("redis+unix://{socket}?pass={ENCODED}&db=1"),
    ];
    let own = |url: &String| {
        let info = redis::IntoConnectionInfo::into_connection_info(url.as_str()).expect("a good url");
        let settings = info.redis_settings().clone().set_username(NAME).set_password(PASSWORD);
        redis::Client::open(info.set_redis_settings(settings)).expect("a good description")
    };
    let objects: Vec<_> = urls.iter().map(|url| Client::builder().redis_client(own(url))).collect();
    let both = |builder: ClientBuilder| [builder.clone(), builder.protocol(RespVersion::Resp2)];
    urls.iter().map(|url| Client::builder().url(url)).chain(objects).flat_map(both).collect()
}

#[test]
fn a_builder_shows_nothing_of_the_credentials_that_it_has_for_nodes_that_are_found() {
    let info = redis::IntoConnectionInfo::into_connection_info("redis://any.host:1/").expect("a good url");
    let settings = info.redis_settings().clone().set_username(NAME).set_password(PASSWORD);
    let like = redis::Client::open(info.set_redis_settings(settings)).expect("a good description");
    let of_sentinels = Client::builder().sentinels("m", [like.clone()]).nodes_like(like.clone());
    let of_cluster = Client::builder().cluster_nodes([like.clone()]).nodes_like(like);
    nothing_of_it(&format!("{of_sentinels:?} {of_cluster:?}"));
}

#[tokio::test]
async fn what_a_server_repeats_of_the_credentials_is_shown_nowhere() {
    let traces = Traces::here();
    let mut all = String::new();
    // A server that quotes what it does not know.
    let without = |server: Builder, command: &str| server.line(format!("rename-command {command} \"\""));
    let server = without(without(Server::builder().tcp(), "AUTH"), "HELLO").start();
    for builder in named(server.port(), &server.socket().display().to_string()) {
        all += &format!("{builder:?}");
        let answer = builder.command_timeout(LOOK).connect().await;
        let Err(Error::Refused { op: Op::Connect, .. }) = &answer else { panic!("{answer:?}") };
        let said = shown(answer);
        assert!(said.contains("unknown command") && said.contains("with args beginning with: <hidden>"), "{said}");
        all += &said;
    }
    nothing_of_it(&all);

    // Somebody in between who repeats them, in whatever he refuses, whenever that is.
    const QUOTES: [&str; 8] = [
        "-ERR you said s3cret-name s3cret/pass:w\u{f6}rd?#@%+\r\n",
        "-NOPERM User s3cret-name has no permissions\r\n",
        "-WRONGPASS not s3cret/pass:w\u{f6}rd?#@%+ of S3CRET-NAME\r\n",
        "-LOADING s3cret/pass:w\u{f6}rd?#@%+\r\n",
        "$36\r\ns3cret-name s3cret/pass:w\u{f6}rd?#@%+\r\n\r\n",
        "+s3cret/pass:w\u{f6}rd?#@%+\r\n",
        "$61\r\nmaxmemory:1\r\nmaxmemory_policy:volatile-s3cret/pass:w\u{f6}rd?#@%+\r\n",
        "*3\r\n+s3cret-name\r\n$22\r\ns3cret/pass:w\u{f6}rd?#@%+\r\n*1\r\n$11\r\ns3cret-name\r\n",
    ];
    let open = Server::builder().line("user default on nopass ~* &* +@all").start();
    let mut admin = open.async_connection().await;
    let rule = ["SETUSER", NAME, "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"];
    let _: () = redis::cmd("ACL").arg(&rule).query_async(&mut admin).await.expect("ACL answers");
    let holder = Client::connect(open.url()).await.expect("it lets us in");
    let asked = ["HELLO", "AUTH", "EVALSHA", "SUBSCRIBE", "TYPE", "INFO", "PING", "UNSUBSCRIBE"];
    let meet = async |quote, asked| {
        let proxy = Proxy::to(&open);
        // The older protocol has AUTH alone, and a link that tells of its end is asked for it less often.
        let version = if matches!(asked, "AUTH" | "PING") { RespVersion::Resp2 } else { RespVersion::Auto };
        let builder = Client::builder().url(format!("{}?user={NAME}&pass={ENCODED}", proxy.url())).protocol(version);
        let builder = builder.command_timeout(MS * 500).unreachable_after(MS * 700);
        // At once, and where it had let us in before.
        let well = builder.clone().connect().await.expect("it lets us in");
        let (held, wait) = (unique_name(), MS * 100);
        let guard = holder.lock(&held).lock().await.expect("a free lock");
        let rule = proxy.rule(command(asked), Action::Answer(quote));
        if asked == "TYPE" {
            proxy.rule(command("EVALSHA"), Action::Answer("-WRONGTYPE something else is there\r\n"));
        }
        let mut said = shown(builder.connect().await) + &format!("{well:?}");
        for _ in 0..2 {
            said += &shown(live(&well).await);
            // A wait that is over before it listens, on a machine that stood still, ends no subscription.
            let asks = async {
                loop {
                    said += &shown(well.lock(&held).try_lock().wait(wait).await);
                    // Nobody need wait for these.
                    if !matches!(asked, "PING" | "UNSUBSCRIBE") || rule.seen() > 0 {
                        return;
                    }
                }
            };
            tokio::time::timeout(LOOK, asks).await.expect("it asks");
            proxy.cut_all();
        }
        eventually_async(LOOK, async || rule.seen() > 0).await;
        guard.unlock().await.expect("a hold of ours");
        well.close().await;
        said
    };
    // On the heap, where all of them have room.
    let met = QUOTES.iter().flat_map(|quote| asked.map(|asked| Box::pin(meet(*quote, asked))));
    // Some at a time: all at once they are late for each other on a busy machine.
    all += &stream::iter(met).buffered(16).collect::<Vec<_>>().await.concat();
    all += &traces.all().iter().map(|said| format!("{said:?}")).collect::<String>();
    nothing_of_it(&all);
    assert!(all.contains("<hidden>"), "nobody repeated anything");
}

/// Two nodes of one cluster, of which the other one has the slot that is asked for when connecting.
fn cluster() -> [Server; 2] {
    let node = || {
        let bus = free_port();
        let server = Server::builder().tcp().line("cluster-enabled yes").line(format!("cluster-port {bus}"));
        (server.line("cluster-require-full-coverage no").start(), bus)
    };
    let ((one, _), (other, bus)) = (node(), node());
    let ask = |server: &Server, words: &str| {
        let (mut cluster, mut connection) = (redis::cmd("CLUSTER"), server.connection());
        cluster.arg(words.split(' ').collect::<Vec<_>>());
        cluster.query::<String>(&mut connection).expect("CLUSTER answers")
    };
    ask(&one, "ADDSLOTSRANGE 0 8191");
    ask(&other, "ADDSLOTSRANGE 8192 16383");
    ask(&one, &format!("MEET 127.0.0.1 {} {bus}", other.port()));
    let whole = |info: String| info.contains("cluster_state:ok") && info.contains("cluster_slots_assigned:16384");
    eventually(LOOK, || [&one, &other].iter().all(|server| whole(ask(server, "INFO"))));
    [one, other]
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_and_the_scheme_for_it_is_named() {
    let nodes = cluster();
    for node in &nodes {
        let own = redis::Client::open(node.tcp_url()).expect("a good url");
        let builders =
            [("url", Client::builder().url(node.tcp_url())), ("redis_client", Client::builder().redis_client(own))];
        for (option, builder) in builders {
            let Err(Error::Invalid { what, why, .. }) = builder.connect().await else { panic!("it was let in") };
            assert!(what == option && why.contains("redis-cluster://"), "{what}: {why}");
        }
    }
    // In the older protocol it is told by the keys that it has not got.
    for node in &nodes {
        let answer = Client::builder().url(node.tcp_url()).protocol(RespVersion::Resp2).connect().await;
        let Err(Error::Invalid { what: "url", why, .. }) = answer else { panic!("{answer:?}") };
        assert!(why.contains("redis-cluster://"), "{why}");
    }
}

#[tokio::test]
async fn what_is_asked_when_connecting_has_a_key_and_a_refused_one_is_no_failure() {
    for version in [RespVersion::Auto, RespVersion::Resp2] {
        let server = Server::own();
        let proxy = Proxy::to(&server);
        // As a proxy does that finds the server by a command's key.
        let keyless = |words: &[Vec<u8>]| words.get(2).is_some_and(|count| count == b"0");
        proxy.rule(command("EVALSHA").with(keyless), Action::CutBefore);
        proxy.rule(command("EVAL").with(keyless), Action::CutBefore);
        let builder = Client::builder().url(proxy.url()).protocol(version).name_prefix("app:");
        let client = builder.connect().await.expect("it lets us in");
        let probes = proxy.commands_of("app:relatch:probe");
        assert_eq!(probes.len(), 1, "{probes:?}");
        let asked = proxy.commands_of("0000000000000000000000000000000000000000");
        assert!(
            asked.iter().all(|asked| asked.words().is_some_and(|words| words[3].starts_with(b"app:relatch:probe")))
        );
        live(&client).await.expect("all that a lock does");
        assert_eq!(server.keys(), Vec::<String>::new());
    }
    // And where the key is not the user's.
    let server = Server::builder().line("user ann on >s3cret ~theirs &* +@all").start();
    let url = format!("redis+unix://{}?user=ann&pass=s3cret", server.socket().display());
    let client = Client::connect(url).await.expect("it lets us in");
    client.lock("theirs").lock().await.expect("a free lock").unlock().await.expect("a hold of ours");
}

#[tokio::test]
async fn a_client_object_may_ask_for_either_version_of_the_protocol() {
    let server = Server::own();
    let ends = |name: &str, action| {
        let proxy = Proxy::to(&server);
        proxy.rule(command(name), action);
        let builder = Client::builder().redis_client(redis::Client::open(proxy.url()).expect("a good url"));
        (proxy, builder.command_timeout(MS * 500))
    };
    // A proxy that ends the connection where it does not know a command.
    let (_proxy, builder) = ends("HELLO", Action::CutBefore);
    let answer = builder.clone().connect().await;
    assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
    live(&builder.protocol(RespVersion::Resp2).connect().await.expect("it lets us in")).await.expect("all goes well");
    // One that says so.
    let (_proxy, builder) = ends("HELLO", Action::Answer("-ERR unknown command 'HELLO'\r\n"));
    live(&builder.clone().connect().await.expect("it lets us in")).await.expect("all goes well");
    let answer = builder.protocol(RespVersion::Resp3).connect().await;
    let Err(Error::Refused { kind: RefusedKind::Other, op: Op::Connect, source, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert!(source.to_string().contains("HELLO"), "{source}");
}

#[tokio::test]
async fn a_command_may_take_longer_than_a_socket_can_count() {
    let server = Server::builder().tcp().start();
    for seconds in [32_767, 32_768, 36_000, 2_592_000, 31_536_000] {
        for url in [server.tcp_url(), server.url()] {
            let client = Client::builder().url(url).command_timeout(MS * 1000 * seconds).connect().await;
            live(&client.expect("it lets us in")).await.expect("all goes well");
        }
    }
}

#[tokio::test]
async fn the_right_to_subscribe_is_noticed_when_it_is_granted() {
    let traces = Traces::here();
    let server = Server::builder().line("user ann on >s3cret ~* &* +@all -subscribe").start();
    let url = format!("redis+unix://{}?user=ann&pass=s3cret", server.socket().display());
    // Looks by polling are rare by then, and a lease is longer than the test.
    let builder = || Client::builder().watchdog_timeout(LOOK * 6);
    let holder = builder().url(server.url()).connect().await.expect("it lets us in");
    let waiter = builder().url(url).connect().await.expect("it lets us in");
    let guard = holder.lock("job").lock().await.expect("a free lock");
    let waiting = tokio::spawn(waiter.lock("job").lock());
    let warned = || traces.all().into_iter().filter(|said| said.is_ours() && said.what.contains("polling")).count();
    eventually_async(LOOK, async || warned() == 1).await;
    let mut admin = server.async_connection().await;
    let monitor = server.monitor();
    let granted = ["SETUSER", "ann", "+subscribe"];
    let _: () = redis::cmd("ACL").arg(&granted).query_async(&mut admin).await.expect("ACL answers");
    eventually_async(LOOK, async || server.listeners(&channel("job")) == 1).await;
    asleep_by(&monitor, &channel("job"), |ran| ran.name() == "EVALSHA").await;
    drop(monitor);
    server.reset_counts();
    tokio::time::sleep(MS * 700).await;
    assert_eq!((server.count("evalsha"), server.count("eval")), (0, 0));
    guard.unlock().await.expect("a hold of ours");
    waiting.await.expect("no panic").expect("it is woken").unlock().await.expect("a hold of ours");
    // And for names that come later.
    let guard = holder.lock("later").lock().await.expect("a free lock");
    let waiting = tokio::spawn(waiter.lock("later").lock());
    eventually_async(LOOK, async || server.listeners(&channel("later")) == 1).await;
    guard.unlock().await.expect("a hold of ours");
    waiting.await.expect("no panic").expect("it is woken").unlock().await.expect("a hold of ours");
    assert_eq!(warned(), 1);
}

#[tokio::test]
async fn who_ends_a_connection_before_a_word_may_want_tls_and_is_said_to() {
    let server = Server::own();
    let proxy = Proxy::tcp_to(&server);
    proxy.door(Door::Refusing);
    let answer = Client::builder().url(proxy.url()).command_timeout(LOOK).connect().await;
    let Err(Error::Unreachable { op: Op::Connect, source, .. }) = answer else { panic!("{answer:?}") };
    assert!(source.to_string().contains("rediss://"), "{source}");

    // And a port that does want it.
    let server = Server::builder().tls("good").start();
    for version in [RespVersion::Auto, RespVersion::Resp2] {
        let url = format!("redis://ann:s3cret@127.0.0.1:{}/", server.port());
        let answer = Client::builder().url(url).protocol(version).command_timeout(LOOK).connect().await;
        let Err(Error::Unreachable { op: Op::Connect, source, .. }) = answer else { panic!("{answer:?}") };
        assert!(source.to_string().contains("rediss://"), "{source}");
    }
}
