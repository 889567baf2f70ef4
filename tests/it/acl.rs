//! The rights on the server that a client says it needs: they are enough for all that a lock does, and none is too many. The
//! pages name the same.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use relatch::{CancellationToken, Client, ClientBuilder, Error, Outcome};
use tokio::time::timeout;

use crate::{
    harness::{
        Server,
        deployment::Deployment,
        eventually_async,
        server::free_port,
        traces::{Said, Traces},
        unique_name,
    },
    kept::{channel, connected},
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
/// Within this a link that only listens is asked whether it lives.
const COMMAND: Duration = Duration::from_millis(300);
const WATCHDOG: Duration = Duration::from_millis(1_500);
const PREFIX: &str = "app:";

/// The rights of the line of an ACL file that the page gives for this prefix.
fn rights_of_the_page() -> String {
    let page = include_str!("../../SECURITY.md");
    let line = page.lines().find(|line| line.starts_with("user ") && line.contains("~app:*")).expect("the page has it");
    // After the user's name, `on` and the password.
    line.split(' ').skip(4).collect::<Vec<_>>().join(" ")
}

/// What somebody with all rights is told.
async fn required(builder: ClientBuilder) -> relatch::Acl {
    let client = connected(builder.name_prefix(PREFIX)).await;
    client.required_acl("app:*").expect("a good pattern")
}

fn words(rules: &str) -> BTreeSet<&str> {
    rules.split(' ').collect()
}

/// Whether a list for these servers may have the word by which the driver names itself.
fn knows_setinfo(info: &str) -> bool {
    !info.contains("redis_version:7.0.")
}

#[tokio::test]
async fn the_pages_give_the_same_rights_as_a_client_does() {
    let server = Server::own();
    let acl = required(Client::builder().url(server.url())).await;
    let info: String = redis::cmd("INFO").arg("server").query(&mut server.connection()).expect("INFO answers");
    let mut page = rights_of_the_page();
    if knows_setinfo(&info) {
        page += " +client|setinfo";
    }
    assert_eq!((&*acl.data, &acl.sentinel, acl.to_string()), (&*page, &None, page.clone()));
    let line = format!("//! user locks on >a-long-random-secret {}", rights_of_the_page());
    assert!(include_str!("../../src/guide/operating.rs").lines().any(|guide| guide == line), "it has another line");
}

#[tokio::test]
async fn a_pattern_that_no_access_list_takes_is_refused() {
    let client = connected(Client::builder().url(Server::shared().url())).await;
    for pattern in ["", "a b", "a\nb", "a[b", "a\\"] {
        let refused = client.required_acl(pattern);
        assert!(matches!(refused, Err(Error::Invalid { what: "pattern", .. })), "{pattern:?}: {refused:?}");
    }
    assert!(!client.required_acl("*").expect("a good pattern").data.contains("+wait"));
    let builder = Client::builder().url(Server::shared().url()).replica_acks(1, MS * 100);
    assert!(connected(builder).await.required_acl("*").expect("a good pattern").data.contains("+wait"));
    // What is asked for when connecting is not of the pattern.
    let acl = client.required_acl("{app}:*").expect("a good pattern");
    assert!(
        acl.data.starts_with("resetkeys ~{app}:* ~redisson_lock_token:{app}:* ~relatch_job:{app}:* ~relatch:probe* resetchannels &redisson_lock__channel:{app}:* &relatch_token__channel:{app}:* &relatch_job__channel:{app}:* -@all ")
    );
}

fn server() -> (Server, String) {
    let server = Server::own();
    let url = format!("redis+unix://{}?user=ann&pass=s3cret", server.socket().display());
    (server, url)
}

fn grant<'a>(server: &Server, rules: impl IntoIterator<Item = &'a str>) {
    let user = ["SETUSER", "ann", "reset", "on", ">s3cret"];
    let words: Vec<_> = user.into_iter().chain(rules).collect();
    redis::cmd("ACL").arg(words).exec(&mut server.connection()).expect("the server takes the rules");
}

async fn client(url: &str) -> Client {
    let builder = Client::builder().url(url).name_prefix(PREFIX).watchdog_timeout(WATCHDOG).command_timeout(MS * 500);
    connected(builder.handover_slice(LOOK)).await
}

/// What the server's log says was denied.
fn denied(server: &Server) -> Vec<String> {
    log(redis::cmd("ACL").arg("LOG").query(&mut server.connection()).expect("ACL LOG answers"))
}

fn log(log: Vec<redis::Value>) -> Vec<String> {
    log.iter().map(|entry| format!("{entry:?}")).collect()
}

/// All that a lock does; `hears`: somebody listens for the release of this key.
async fn live(one: &Client, other: &Client, name: &str, hears: impl Fn(&str) -> bool) {
    let lock = one.lock(name);
    let outer = lock.lock().await.expect("a free lock");
    lock.lock().await.expect("ours").unlock().await.expect("a nested hold");
    assert!(timeout(WATCHDOG * 2, outer.lost()).await.is_err(), "it was not renewed");
    outer.extend(WATCHDOG * 2).await.expect("a live hold");
    let successor = tokio::spawn(one.mutex(name).lock().lease(LOOK));
    let waiting = tokio::spawn(other.mutex(name).lock());
    let full = format!("{PREFIX}{name}");
    let channel =
        if name.contains('{') { channel(&full).replace(&format!("{{{full}}}"), &full) } else { channel(&full) };
    eventually_async(LOOK, async || hears(&channel)).await;
    outer.unlock().await.expect("it is handed over");
    successor.await.expect("no panic").expect("its turn").unlock().await.expect("a live hold");
    let guard = waiting.await.expect("no panic").expect("it is free");
    assert!(lock.inspect().await.expect("the server answers").is_some());
    assert!(lock.force_unlock().await.expect("the server answers"));
    drop(guard);
}

/// What a fenced lock does besides.
async fn live_fenced(client: &Client, name: &str) {
    let lock = client.fenced_lock(name);
    let outer = lock.lock().await.expect("a free lock");
    lock.lock().await.expect("ours").unlock().await.expect("a nested hold");
    let successor = tokio::spawn(lock.lock());
    tokio::task::yield_now().await;
    outer.unlock().await.expect("it is handed over");
    successor.await.expect("no panic").expect("its turn").unlock().await.expect("a live hold");
}

/// What a token lock does besides.
async fn live_tokens(one: &Client, other: &Client, name: &str) {
    let lock = one.token_lock(name);
    let guard = lock.lock().await.expect("a free lock");
    let waiting = tokio::spawn(other.token_lock(name).lock());
    let successor = tokio::spawn(lock.lock().lease(LOOK));
    tokio::task::yield_now().await;
    guard.unlock().await.expect("it is handed over");
    let held = lock.resume(successor.await.expect("no panic").expect("its turn").into_token().expect("it is held"));
    held.extend(LOOK * 2).await.expect("it is the token's");
    held.unlock().await.expect("it is the token's");
    let _guard = waiting.await.expect("no panic").expect("it is free");
    assert!(lock.inspect().await.expect("the server answers").is_some());
    assert!(lock.force_unlock().await.expect("the server answers"));
}

/// What a periodic job does besides.
async fn live_jobs(one: &Client, other: &Client, name: &str) {
    let day = Duration::from_secs(24 * 3600);
    let [job, theirs] = [one, other].map(|client| client.periodic_job(name, day).max_attempts(10));
    let renewed = job.run(|ctx| async move {
        tokio::time::sleep(WATCHDOG).await;
        Err::<(), _>(ctx.attempt())
    });
    assert!(matches!(renewed.await.expect("the server answers"), Outcome::Failed { error: 1, .. }));
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let hangs = tokio::spawn(async move {
        let work = |_| async move {
            began.send(()).expect("somebody asks");
            std::future::pending::<Result<(), ()>>().await
        };
        job.run(work).await
    });
    has_begun.await.expect("it begins");
    let (stop, stops) = (CancellationToken::new(), CancellationToken::new());
    let (waits, done) = (theirs.clone(), stop.clone());
    let waiting = tokio::spawn(async move {
        let work = |_| {
            done.cancel();
            async { Ok::<_, ()>(()) }
        };
        waits.schedule(stops, work).await
    });
    assert!(theirs.reset().await.expect("the server answers"));
    assert!(matches!(hangs.await.expect("no panic").expect("the server answers"), Outcome::Lost { .. }));
    timeout(LOOK, stop.cancelled()).await.expect("the other one's turn");
    eventually_async(LOOK, async || {
        theirs.inspect().await.expect("the server answers").is_some_and(|record| record.success.is_some())
    })
    .await;
    waiting.abort();
    // A dropped begin that was granted is given back.
    drop(theirs.run(|_| async { Ok::<_, ()>(()) }).await.expect("the server answers"));
}

fn warnings(traces: &Traces) -> Vec<Said> {
    traces
        .all()
        .into_iter()
        .filter(|said| said.is_ours() && !said.is_span && said.level <= tracing::Level::WARN)
        .collect()
}

#[tokio::test]
async fn what_a_client_says_it_needs_is_enough_for_one_server() {
    let (server, url) = server();
    let acl = required(Client::builder().url(server.url())).await;
    grant(&server, acl.data.split(' '));
    let traces = Traces::here();
    let (one, other) = (client(&url).await, client(&url).await);
    for name in ["job", "{job}", "a b*", "x{y"] {
        live(&one, &other, name, |channel| server.listeners(channel) == 1).await;
        live_fenced(&one, &format!("{name}.fenced")).await;
        live_tokens(&one, &other, &format!("{name}.token")).await;
        live_jobs(&one, &other, &format!("{name}.job")).await;
    }
    redis::cmd("SET").arg("app:text").arg("no lock").exec(&mut server.connection()).expect("SET answers");
    let refused = format!("{:?}", one.mutex("text").try_lock().await.expect_err("there is something else"));
    assert!(refused.contains("a string"), "{refused}");
    // Counters of fencing tokens stay, and for a while what is known of jobs.
    let stays = |key: &String| key.starts_with("redisson_lock_token:") || key.starts_with("relatch_job:");
    let left = || server.keys().into_iter().filter(|key| !stays(key)).collect::<Vec<_>>();
    eventually_async(LOOK, async || left() == ["app:text"]).await;
    let loud: Vec<_> = warnings(&traces).into_iter().filter(|said| !said.what.contains("lost")).collect();
    assert!(loud.is_empty(), "{loud:?}");
    assert_eq!(denied(&server), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_client_says_it_needs_is_enough_for_sentinels_and_their_master() {
    const SENTINELS: [&str; 3] = ["sentinel1", "sentinel2", "sentinel3"];
    const SERVERS: [&str; 3] = ["master", "replica1", "replica2"];
    let deployment = Deployment::of_sentinels();
    let found = connected(Client::builder().url(deployment.url().replace("/#m", "/3#m")).name_prefix(PREFIX)).await;
    let mut acl = found.required_acl("app:*").expect("a good pattern");
    let is_whole = || found.required_acl("app:*").ok().and_then(|acl| acl.sentinel).unwrap_or_default();
    let setinfo = knows_setinfo(&deployment.ask::<String>("master", &["INFO", "server"]));
    eventually_async(LOOK, async || is_whole().contains("setinfo") == setinfo).await;
    acl.sentinel = Some(is_whole());
    assert!(words(&acl.data).is_superset(&["+select", "+role"].into()), "{acl}");
    for (servers, rules) in [(SERVERS, &acl.data), (SENTINELS, acl.sentinel.as_ref().expect("there are sentinels"))] {
        let user = format!("ACL SETUSER ann reset on >s3cret {rules}");
        let words: Vec<_> = user.split(' ').collect();
        servers.iter().for_each(|name| deployment.ask::<()>(name, &words));
    }
    let credentials = "/3?sentinel_username=ann&sentinel_password=s3cret#m";
    let url = deployment.url().replace("://", "://ann:s3cret@").replace("/#m", credentials);
    let of_ann = || Client::builder().url(&url).name_prefix(PREFIX).watchdog_timeout(WATCHDOG).handover_slice(LOOK);
    let (one, other) = (connected(of_ann()).await, connected(of_ann()).await);
    let hears = |channel: &str| deployment.ask::<(String, u64)>("master", &["PUBSUB", "NUMSUB", channel]).1 == 1;
    live(&one, &other, "job", hears).await;
    let listens = async || -> bool {
        let lists = SENTINELS.iter().map(|name| deployment.ask::<String>(name, &["CLIENT", "LIST", "TYPE", "PUBSUB"]));
        lists.into_iter().all(|list| list.contains("user=ann"))
    };
    eventually_async(LOOK, listens).await;
    let all = SERVERS.iter().chain(&SENTINELS).flat_map(|name| log(deployment.ask(name, &["ACL", "LOG"])));
    assert_eq!(all.collect::<Vec<_>>(), Vec::<String>::new());
    // The guide's line for sentinels.
    let guide = include_str!("../../src/guide/deployments.rs").lines();
    let line = guide.filter_map(|line| line.strip_prefix("//! user locks on >a-long-random-secret ")).next();
    let sentinel = acl.sentinel.expect("there are sentinels").replace(" +client|setinfo", "");
    assert_eq!(line, Some(&*sentinel));
}

/// Whether replicas are to know of each grant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replicas {
    None,
    One,
}

/// Everything that could say which right is missing, whatever comes of it: errors, and events.
async fn said_without(server: &Server, (url, replicas): (&str, Replicas), traces: &Traces) -> String {
    let mut errors = Vec::new();
    let builder = || {
        let builder = Client::builder().url(url).name_prefix(PREFIX).command_timeout(COMMAND).handover_slice(LOOK);
        let builder = builder.watchdog_timeout(COMMAND * 3).unreachable_after(COMMAND * 3);
        if replicas == Replicas::One { builder.replica_acks(1, COMMAND) } else { builder }
    };
    match (let_in_or_not(builder()).await, let_in_or_not(builder()).await) {
        (Ok(one), Ok(other)) => {
            for name in [unique_name(), format!("{{{}}}", unique_name())] {
                try_all(server, (&one, &other), &name, &mut errors).await;
            }
            errors.push(format!("{:?}", one.mutex("text").try_lock().await.err()));
        }
        (one, other) => errors.push(format!("{:?} {:?}", one.err(), other.err())),
    }
    let events = traces.all().into_iter().filter(|said| said.is_ours());
    let events = events.map(|said| format!("{} {:?}", said.what, said.fields));
    errors.into_iter().chain(events).collect::<Vec<_>>().join("\n").to_lowercase()
}

/// On a busy machine it may take longer to connect than a command may take here.
async fn let_in_or_not(builder: ClientBuilder) -> relatch::Result<Client> {
    let started = Instant::now();
    loop {
        match builder.clone().connect().await {
            Err(error) if error.is_transient() && started.elapsed() < LOOK => {}
            answer => return answer,
        }
    }
}

/// All that a lock does, with a waiter that stays until the server's log names something.
async fn try_all(server: &Server, (one, other): (&Client, &Client), name: &str, errors: &mut Vec<String>) {
    let mut note = |error: Option<Error>| errors.push(format!("{error:?}"));
    let (lock, mutex) = (one.lock(name), one.mutex(name));
    let guard = match lock.lock().lease(LOOK).await {
        Ok(guard) => guard,
        Err(error) => return note(Some(error)),
    };
    match lock.lock().await {
        Ok(nested) => note(nested.unlock().await.err()),
        Err(error) => note(Some(error)),
    }
    note(guard.extend(LOOK * 2).await.err());
    let mut successor = tokio::spawn(mutex.lock().lease(LOOK));
    let mut waiting = tokio::spawn(other.mutex(name).try_lock().wait(COMMAND * 4));
    // Long enough for a waiter's link to be asked whether it lives.
    let _ = timeout(COMMAND * 3, async {
        while denied(server).is_empty() {
            tokio::time::sleep(MS * 10).await
        }
    })
    .await;
    note(guard.unlock().await.err());
    let (entered, waits) = tokio::select! {
        biased;
        entered = &mut successor => (entered, true),
        // Where a hand-over is refused the other client may come first, and then makes room.
        held = &mut waiting => {
            drop(held);
            (successor.await, false)
        }
    };
    match entered.expect("no panic") {
        Ok(guard) => note(guard.unlock().await.err()),
        Err(error) => note(Some(error)),
    }
    // Kept: a lock that is free has nobody to be looked at.
    let _held = if waits { Some(waiting.await) } else { None };
    note(lock.inspect().await.err());
    note(lock.force_unlock().await.err());
    let fenced = one.fenced_lock(format!("{name}:fenced"));
    match fenced.lock().lease(LOOK).await {
        Ok(guard) => {
            note(fenced.lock().await.err());
            note(guard.unlock().await.err());
        }
        Err(error) => note(Some(error)),
    }
    let [job, theirs] =
        [one, other].map(|client| client.periodic_job(format!("{name}:job"), Duration::from_secs(24 * 3600)));
    let work = |_| async move {
        // Stands by meanwhile.
        drop(timeout(COMMAND, theirs.schedule(CancellationToken::new(), |_| async { Ok::<_, ()>(()) })).await);
        Err::<(), ()>(())
    };
    match job.run(work).await {
        Ok(_) => {
            note(job.run(|_| async { Ok::<_, ()>(()) }).await.err());
            note(job.inspect().await.err());
        }
        Err(error) => note(Some(error)),
    }
    let tokens = format!("{name}:token");
    match one.token_lock(&tokens).lock().lease(LOOK).await {
        Ok(guard) => {
            note(other.token_lock(&tokens).try_lock().wait(COMMAND).await.err());
            note(guard.unlock().await.err());
        }
        Err(error) => note(Some(error)),
    }
}

/// Without these an error says less of what stands at a key, or a name is missing in the server's list; and a link is known to live by
/// a refusal, too.
const SILENT: [&str; 4] = ["type", "ping", "client|setname", "client|setinfo"];

/// By one who lacks it, which of these rights nothing names.
async fn unnamed(server: &Server, at: (&str, Replicas), rules: &str, lacks: impl Fn(&str) -> bool) -> Vec<String> {
    redis::cmd("SET").arg("app:text").arg("no lock").exec(&mut server.connection()).expect("SET answers");
    let mut unnamed = Vec::new();
    for right in rules.split(' ').filter(|right| lacks(right)) {
        let Some((kind, what)) = right.split_at_checked(1).filter(|(kind, _)| ["+", "&", "~"].contains(kind)) else {
            continue;
        };
        grant(server, rules.split(' ').filter(|kept| *kept != right));
        redis::cmd("ACL").arg("LOG").arg("RESET").exec(&mut server.connection()).expect("ACL LOG answers");
        server.flush_scripts();
        let traces = Traces::here();
        let said = said_without(server, at, &traces).await;
        eventually_async(LOOK, async || !denied(server).is_empty()).await;
        let named = match kind {
            "~" => "the key is",
            "&" => "channel",
            _ => what,
        };
        if !said.contains(named) && !SILENT.contains(&what) {
            unnamed.push(format!("{right}: {said}"));
        }
    }
    unnamed
}

#[tokio::test]
async fn each_right_is_needed_and_one_that_is_missing_names_itself() {
    let (server, url) = server();
    let acl = required(Client::builder().url(server.url())).await;
    let unnamed = unnamed(&server, (&url, Replicas::None), &acl.data, |_| true).await;
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n\n"));
}

/// Over the link on which replicas are waited for, too: nothing else goes over it.
#[tokio::test]
async fn a_right_that_is_missing_for_a_grant_that_replicas_are_to_know_of_names_itself() {
    let (server, url) = server();
    let socket = server.socket().display().to_string();
    let port = free_port();
    redis::cmd("CONFIG").arg("SET").arg("port").arg(port).exec(&mut server.connection()).expect("the port is free");
    let _replica = Server::builder().line(format!("replicaof 127.0.0.1 {port}")).start();
    let builder = || Client::builder().url(format!("redis+unix://{socket}")).replica_acks(1, LOOK);
    connected(builder())
        .await
        .lock("app:first")
        .lock()
        .await
        .expect("the replica comes")
        .unlock()
        .await
        .expect("it is held");
    let acl = required(builder()).await;
    let of_grants = ["+hincrby", "+hexists", "+pexpire", "+pttl", "+hget", "+evalsha", "+eval", "+wait", "~app:*"];
    let unnamed = unnamed(&server, (&url, Replicas::One), &acl.data, |right| of_grants.contains(&right)).await;
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n\n"));
}
