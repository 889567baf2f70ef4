//! The rights that the page names are enough, and none is too many.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use relatch::{
    Client, Error,
    operate::{Kind, Severity},
};

use crate::{
    harness::Server,
    scenes::{all, client, connected, knows_dry_runs, one},
};

/// What the page's table names for each of the calls.
fn rights_of_the_page() -> Vec<(String, Vec<String>)> {
    let page = include_str!("../../src/operate/mod.rs");
    let rows = page.lines().filter_map(|line| line.strip_prefix("//! | [")).map(|row| row.replace("\\|", "|"));
    let words = |row: String| {
        let words = row.split(['`', ' ']).filter(|word| word.starts_with('+')).map(str::to_owned).collect();
        (row.split(']').next().expect("a call").trim_matches('`').to_owned(), words)
    };
    rows.map(words).collect()
}

/// All that somebody is told who has these rights beside those of locks.
async fn told(rights: &BTreeSet<String>) -> (BTreeSet<Kind>, usize, bool, bool, BTreeSet<&'static str>) {
    let required = {
        let admin = client(Server::shared().url()).await;
        admin.required_acl("*").expect("a good pattern").data
    };
    let more = rights.iter().cloned().collect::<Vec<_>>().join(" ");
    let server = Server::builder().tcp().line(format!("user operator on >s {required} {more}")).start();
    let holder = connected(Client::builder().url(server.url()).label("orders")).await;
    let guards = (
        holder.lock("plain").lock().await.expect("it is free"),
        holder.fenced_lock("fenced").lock().await.expect("it is free"),
        holder.token_lock("token").lock().await.expect("it is free"),
    );
    let job = holder.periodic_job("job", Duration::from_secs(3600));
    let _ = job.run(|_| async { Ok::<_, Infallible>(()) }).await.expect("it is done");
    let operator = client(server.tcp_url().replace("://", "://operator:s@")).await;
    let (found, errors) = all(operator.find("*")).await;
    assert!(errors.iter().all(|error| matches!(error, Error::Refused { .. })), "{errors:?}");
    let looked = one(&operator, "plain").await;
    let unchecked = operator.diagnose().await.expect("there is something to say");
    let unchecked =
        unchecked.into_iter().filter(|it| it.severity == Severity::Notice && it.code.ends_with("unchecked"));
    let kinds = found.iter().map(|it| it.kind).collect();
    drop(guards);
    (
        kinds,
        errors.len(),
        looked.listeners.is_some(),
        looked.holders[0].label.is_some(),
        unchecked.map(|it| it.code).collect(),
    )
}

#[tokio::test]
async fn the_rights_of_the_page_are_enough_and_without_one_something_is_missing() {
    let page = rights_of_the_page();
    let calls: Vec<_> = page.iter().map(|(call, _)| &**call).collect();
    assert_eq!(calls, ["Client::find", "Found::listeners", "Holder::label", "Client::diagnose"]);
    // Of a cluster, and what locks need themselves.
    let elsewhere = ["+pubsub|shardnumsub", "+cluster|info", "+info", "+type", "+hgetall", "+get", "+pttl", "+time"];
    let everything: BTreeSet<String> = page.into_iter().flat_map(|(_, rights)| rights).collect();
    let kinds = BTreeSet::from([Kind::Plain, Kind::Fenced, Kind::Token, Kind::Job]);
    let (unchecked, dry_runs): (&[_], &[_]) = match knows_dry_runs() {
        true => (&[], &[]),
        false => (&["rights.unchecked"], &["+acl|whoami", "+acl|dryrun"]),
    };
    let whole = (kinds, 0, true, true, unchecked.iter().copied().collect());
    assert_eq!(told(&everything).await, whole);
    for right in &everything {
        if !elsewhere.iter().chain(dry_runs).any(|it| it == right) {
            let without = everything.iter().filter(|it| *it != right).cloned().collect();
            assert_ne!(told(&without).await, whole, "without {right}");
        }
    }
}
