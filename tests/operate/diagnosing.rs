//! What is said of deployments.

use std::time::Duration;

use relatch::{
    Client, Error,
    operate::{Finding, Severity},
};

use crate::{
    harness::{Deployment, Server, cluster::MASTERS},
    scenes::{client, connected, knows, knows_dry_runs},
};

async fn findings(client: &Client) -> Vec<Finding> {
    let findings = client.diagnose().await.expect("there is always something to say");
    for it in &findings {
        let is_fine = it.severity == Severity::Ok;
        assert_eq!((it.may_happen.is_empty(), it.to_do.is_empty()), (is_fine, is_fine), "{it:?}");
        assert!(it.code.starts_with(&format!("{}.", it.subject.code())) && !it.found.is_empty(), "{it:?}");
    }
    findings
}

#[track_caller]
fn has(findings: &[Finding], severity: Severity, code: &str) {
    let found = findings.iter().any(|it| it.code == code && it.severity == severity);
    assert!(found, "no {code} ({severity}) in {findings:#?}");
}

/// As far as the server can be asked.
#[track_caller]
fn has_all_rights(findings: &[Finding]) {
    let (severity, code) =
        if knows_dry_runs() { (Severity::Ok, "rights.all") } else { (Severity::Notice, "rights.unchecked") };
    has(findings, severity, code);
}

#[tokio::test]
async fn a_server_that_is_well_is_said_to_be() {
    let server = Server::builder().line("appendonly yes").line("maxmemory-policy noeviction").start();
    let findings = findings(&client(server.url()).await).await;
    for code in [
        "deployment.standalone",
        "reachable.yes",
        "eviction.none",
        "persistence.aof",
        "replicas.alone",
        "scripts.run",
        "pubsub.allowed",
    ] {
        has(&findings, Severity::Ok, code);
    }
    has_all_rights(&findings);
    assert!(findings.iter().all(|it| it.severity <= Severity::Warning));
    for subject in ["latency.", "version."] {
        assert!(findings.iter().any(|it| it.code.starts_with(subject)), "no {subject}");
    }
}

#[tokio::test]
async fn a_server_that_loses_locks_is_said_to() {
    let rows = [
        ("maxmemory 64mb", "maxmemory-policy allkeys-lru", "eviction.allkeys", Severity::Warning),
        ("maxmemory 64mb", "maxmemory-policy volatile-ttl", "eviction.volatile", Severity::Warning),
        ("maxmemory 0", "maxmemory-policy allkeys-lru", "eviction.unbound", Severity::Notice),
    ];
    for (bound, policy, code, severity) in rows {
        let server = Server::builder().line(bound).line(policy).line("appendonly no").line("save \"\"").start();
        let findings = findings(&client(server.url()).await).await;
        has(&findings, severity, code);
        has(&findings, Severity::Warning, "persistence.none");
    }
    let server = Server::builder().line("save 3600 1").start();
    has(&findings(&client(server.url()).await).await, Severity::Notice, "persistence.snapshots");
}

#[tokio::test]
async fn a_server_that_gives_no_lock_is_said_to() {
    let rows = [
        ("min-replicas-to-write 1", "replicas.missing"),
        // It has more than that from the beginning.
        ("maxmemory 100kb", "eviction.full"),
    ];
    for (line, code) in rows {
        let server = Server::builder().line(line).line("maxmemory-policy noeviction").start();
        let client = client(server.url()).await;
        has(&findings(&client).await, Severity::Error, code);
        let refused = client.lock("x").try_lock().await;
        assert!(matches!(refused, Err(Error::Refused { .. } | Error::Unreachable { .. })), "{line}: {refused:?}");
    }
}

#[tokio::test]
async fn what_is_appended_and_not_forced_to_the_disk_is_said_to_be() {
    let server = Server::builder().line("appendonly yes").line("appendfsync no").start();
    has(&findings(&client(server.url()).await).await, Severity::Notice, "persistence.aof-unforced");
}

#[tokio::test]
async fn what_a_user_may_not_do_is_named() {
    let without_channels = if knows("SSUBSCRIBE") { "-subscribe -ssubscribe" } else { "-subscribe" };
    let nochannels = format!("user nochannels on >s ~* &* +@all {without_channels}");
    let lines = [
        "user noscripts on >s ~* &* +@all -@scripting",
        &nochannels,
        "user nowrites on >s ~* &* +@all -hincrby -pexpire",
        "user nokeys on >s ~other:* &* +@all",
        "user poor on >s ~* &* -@all +@read +@write +@scripting +@pubsub +ping +time +type +hello +client",
        "user poorer on >s ~* &* -@all +@write +@scripting +@pubsub +ping +hello +client",
    ];
    let server = lines.into_iter().fold(Server::builder().tcp(), |builder, line| builder.line(line)).start();
    let of = async |user: &str| {
        let url = server.tcp_url().replace("://", &format!("://{user}:s@"));
        findings(&client(url).await).await
    };
    let noscripts = of("noscripts").await;
    // Some can do for token locks what a script does.
    match knows("DELEX") || knows("DELIFEQ") {
        true => has(&noscripts, Severity::Warning, "scripts.without"),
        false => has(&noscripts, Severity::Error, "scripts.denied"),
    }
    has(&noscripts, Severity::Error, "rights.denied");
    has(&of("nochannels").await, Severity::Warning, "pubsub.denied");
    let nowrites = of("nowrites").await;
    has(&nowrites, Severity::Ok, "scripts.run");
    if knows_dry_runs() {
        let denied = nowrites.iter().find(|it| it.code == "rights.denied").expect("it is said");
        assert_eq!(denied.found, "this user lacks +hincrby +pexpire");
        has(&of("nochannels").await, Severity::Error, "rights.denied");
    }
    has(&of("nokeys").await, Severity::Notice, "rights.keys");
    // Who may not ask is told which right that takes, and what can be tried is.
    let poor = of("poor").await;
    for code in ["version", "eviction", "persistence", "replicas", "rights"] {
        has(&poor, Severity::Notice, &format!("{code}.unchecked"));
    }
    let unknown = poor.iter().find(|it| it.code == "rights.unchecked").expect("it is said");
    assert!(
        unknown.found.contains("+hset") && !unknown.found.contains("+hget") && unknown.to_do.contains("+acl|dryrun")
    );
    let poorer = of("poorer").await;
    let denied = poorer.iter().find(|it| it.code == "rights.denied").expect("it is said");
    assert!(denied.found.contains("+hget") && denied.found.contains("+time"), "{denied:?}");
    assert!(server.keys().is_empty(), "it wrote");
}

#[tokio::test]
async fn a_server_that_is_away_is_a_finding() {
    let server = Server::own();
    let client = Client::builder().url(server.url()).command_timeout(Duration::from_secs(1));
    let client = client.connect().await.expect("it lets us in");
    server.kill();
    let findings = findings(&client).await;
    has(&findings, Severity::Error, "reachable.no");
    assert!(findings.iter().any(|it| it.server.as_ref().is_some_and(|at| server.url().contains(at.as_str()))));
}

#[tokio::test]
async fn a_node_that_is_away_is_a_finding_beside_those_of_the_others() {
    let cluster = Deployment::of_cluster();
    let soon = Client::builder().url(cluster.url()).command_timeout(Duration::from_secs(2));
    let soon = soon.connect().await.expect("the cluster lets us in");
    let before = findings(&soon).await;
    for (severity, code) in [
        (Severity::Ok, "deployment.cluster"),
        (Severity::Ok, "cluster.whole"),
        (Severity::Ok, "scripts.run"),
        (Severity::Ok, "pubsub.allowed"),
        (Severity::Warning, "replicas.not-needed"),
    ] {
        has(&before, severity, code);
    }
    has_all_rights(&before);
    assert_eq!(before.iter().filter(|it| it.code == "reachable.yes").count(), MASTERS.len());
    assert!(before.iter().any(|it| it.code.starts_with("pubsub.")));
    cluster.freeze(MASTERS[0]);
    let during = findings(&soon).await;
    cluster.thaw(MASTERS[0]);
    has(&during, Severity::Error, "reachable.no");
    let away = during.iter().find(|it| it.code == "reachable.no").and_then(|it| it.server.clone());
    assert!(away.is_some_and(|at| at.ends_with(&cluster.port(MASTERS[0]).to_string())));
    assert_eq!(during.iter().filter(|it| it.code == "reachable.yes").count(), MASTERS.len() - 1);
}

#[tokio::test]
async fn sentinels_are_counted_and_their_master_is_looked_at() {
    let deployment = Deployment::shared();
    let client = connected(Client::builder().url(deployment.url())).await;
    crate::harness::eventually_async(crate::scenes::LOOK, async || {
        findings(&client).await.iter().any(|it| it.found.contains("3 sentinels"))
    })
    .await;
    let findings = findings(&client).await;
    has(&findings, Severity::Ok, "deployment.sentinel");
    has(&findings, Severity::Ok, "reachable.yes");
    assert!(findings.iter().any(|it| it.code.starts_with("replicas.") && it.found.contains('2')), "{findings:#?}");
}
