//! Searches that something befalls.

use std::time::Duration;

use futures_util::StreamExt;
use relatch::{Client, Error, operate::Kind};

use crate::{
    harness::{
        Deployment, Server,
        cluster::{MASTERS, name_on, slot},
        eventually, eventually_async,
        proxy::{Action, Proxy, matching::command},
    },
    scenes::{LOOK, all, client, connected, names, one},
};

#[tokio::test]
async fn a_server_that_does_not_sort_keys_out_is_asked_what_each_is() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    proxy.rule(command("SCAN").mentioning("TYPE"), Action::Answer("-ERR syntax error\r\n"));
    let client = client(proxy.url()).await;
    redis::cmd("RPUSH").arg("list").arg("a").exec(&mut server.connection()).expect("it is taken");
    let plain = client.lock("plain").lock().await.expect("it is free");
    let token = client.token_lock("token").lock().await.expect("it is free");
    let expected = [("plain".to_owned(), Kind::Plain), ("token".to_owned(), Kind::Token)].into();
    assert_eq!(names(client.find("*")).await, expected);
    assert!(!proxy.commands_of("TYPE").is_empty());
    drop((plain, token));
}

#[tokio::test]
async fn a_search_whose_connection_breaks_says_so_and_is_over() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = client(proxy.url()).await;
    let mut guards = Vec::new();
    for at in 0..2000 {
        guards.push(client.lock(format!("x{at}")).lock().await.expect("it is free"));
    }
    let mut search = client.find("*");
    let first = search.next().await.expect("there are some").expect("the server answers");
    assert!(first.name.starts_with('x'));
    proxy.cut_all();
    let rest: Vec<_> = search.collect().await;
    let errors = rest.iter().filter(|it| matches!(it, Err(Error::Unreachable { .. }))).count();
    assert!(errors == 1 && rest.last().is_some_and(Result::is_err) && rest.len() < 2000, "{errors} of {}", rest.len());
    // The next one has a connection of its own.
    let (found, errors) = all(client.find("x1?")).await;
    assert!(errors.is_empty() && found.len() == 10, "{found:?} {errors:?}");
}

/// The keys are at one node, and their slot is another's.
#[tokio::test]
async fn a_lock_whose_slot_is_half_moved_is_found_where_it_is() {
    let cluster = Deployment::of_cluster();
    let client = connected(Client::builder().url(cluster.url()).label("orders")).await;
    let [from, to] = [MASTERS[0], MASTERS[1]];
    let name = name_on(from);
    let guard = client.fenced_lock(&name).lock().await.expect("it is free");
    let token = client.token_lock(format!("token:{{{name}}}")).lock().await.expect("it is free");
    let stranger = format!("stranger:{{{name}}}");
    let fields: Vec<String> = (0..10_000).map(|at| at.to_string()).collect();
    let words: Vec<&str> = ["HSET", &stranger].into_iter().chain(fields.iter().map(String::as_str)).collect();
    let () = cluster.ask(from, &words);
    cluster.begin_migration(slot(&name), from, to);
    cluster.move_keys(slot(&name), from, to);
    let expected = [(name.clone(), Kind::Fenced), (format!("token:{{{name}}}"), Kind::Token)].into_iter().collect();
    let () = cluster.ask(to, &["CONFIG", "RESETSTAT"]);
    assert_eq!(names(client.find("*")).await, expected);
    // What is no lock's was not read there either.
    let stats: String = cluster.ask(to, &["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_hgetall:calls=1,"), "{stats}");
    let found = one(&client, &name).await;
    assert_eq!((found.fence, found.holders[0].id.client_id()), (guard.fence(), Some(client.id())));
    cluster.end_migration(slot(&name), from, to);
    assert_eq!(names(client.find("*")).await, expected);
    assert_eq!(one(&client, &name).await.holders[0].label.as_deref(), Some("orders"));
    drop((guard, token));
}

#[tokio::test]
async fn a_search_that_is_dropped_asks_no_more_and_leaves_no_connection() {
    let server = Server::own();
    let client = client(server.url()).await;
    let mut guards = Vec::new();
    for at in 0..2000 {
        guards.push(client.lock(format!("x{at}")).lock().await.expect("it is free"));
    }
    let connections = || {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("it answers");
        list.lines().filter(|line| line.contains(&client.id().to_string())).count()
    };
    eventually(LOOK, || connections() <= 1);
    let before = connections();
    for _ in 0..20 {
        let mut search = client.find("*");
        assert!(search.next().await.is_some_and(|it| it.is_ok()));
        // Neither does one that waits for an answer.
        let mut search = client.find("*");
        drop(tokio::time::timeout(Duration::ZERO, search.next()).await);
        drop(search);
    }
    eventually_async(LOOK, async || connections() == before).await;
    let scans = server.count("SCAN");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.count("SCAN"), scans);
}

/// As one that deletes a key while it has a value, and lets nobody run scripts.
#[tokio::test]
async fn where_no_scripts_run_names_are_looked_at_all_the_same() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    for name in ["EVAL", "EVALSHA"] {
        proxy.rule(command(name), Action::Answer("-ERR unknown command 'EVALSHA', with args beginning with: \r\n"));
    }
    let known = "*2\r\n*1\r\n$7\r\ndelifeq\r\n*-1\r\n";
    proxy.rule(command("COMMAND").mentioning("DELIFEQ"), Action::Answer(known));
    let (holder, operator) = (client(server.url()).await, client(proxy.url()).await);
    let plain = holder.lock("plain").lock().await.expect("it is free");
    let fenced = holder.fenced_lock("fenced").lock().await.expect("it is free");
    let token = holder.token_lock("token").lock().await.expect("it is free");
    let job = holder.periodic_job("job", Duration::from_secs(3600));
    let _ = job.run(|_| async { Ok::<_, std::convert::Infallible>(()) }).await.expect("it is done");
    redis::cmd("RPUSH").arg("list").arg("a").exec(&mut server.connection()).expect("it is taken");
    for name in ["plain", "fenced", "token", "job"] {
        let (ours, theirs) = (one(&operator, name).await, one(&holder, name).await);
        assert_eq!((&ours.kind, &ours.holders, ours.fence), (&theirs.kind, &theirs.holders, theirs.fence));
        assert_eq!((ours.ttl.is_some(), ours.job.is_some()), (true, name == "job"));
    }
    assert_eq!(operator.inspect_key("free").await.expect("it may be looked at"), None);
    assert!(matches!(operator.inspect_key("list").await, Err(Error::Refused { .. })));
    let findings = operator.diagnose().await.expect("there is something to say");
    assert!(findings.iter().any(|it| it.code == "scripts.without"), "{findings:#?}");
    drop((plain, fenced, token));
}

/// A master fails while the search is elsewhere: whoever takes its place is looked at instead.
#[tokio::test]
async fn a_master_that_takes_the_place_of_another_meanwhile_is_looked_at_instead() {
    let cluster = Deployment::of_cluster();
    let client = Client::builder().url(cluster.url()).command_timeout(Duration::from_secs(2));
    let client = client.watchdog_timeout(LOOK * 3).connect().await.expect("the cluster lets us in");
    let mut guards = Vec::new();
    for node in MASTERS {
        let name = name_on(node);
        guards.push((node, client.lock(&name).lock().await.expect("it is free")));
        let has_it = || cluster.ask::<i64>(node, &["WAIT", "1", "100"]) == 1;
        eventually(LOOK, has_it);
    }
    let mut search = client.find("test-*");
    let first = search.next().await.expect("there are three").expect("the node answers");
    let (killed, guard) = guards.iter().find(|(_, guard)| guard.name() != &*first.name).expect("two others");
    cluster.kill(killed);
    let is_there = async || client.inspect_key(guard.name()).await.is_ok_and(|found| found.is_some());
    eventually_async(LOOK, is_there).await;
    let (rest, errors) = all(search).await;
    assert!(errors.is_empty(), "{errors:?}");
    let mut found: Vec<_> = rest.iter().map(|it| it.name.to_string()).chain([first.name.to_string()]).collect();
    let mut held: Vec<_> = guards.iter().map(|(_, guard)| guard.name().to_owned()).collect();
    found.sort();
    held.sort();
    found.dedup();
    assert_eq!(found, held);
}
