//! What is wrong with one server: it answers, what it says of itself, what it lets this user do. What the user may do is in
//! `rights.rs`.

use std::{error::Error as StdError, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Finding, Looker, Severity, Subject};
use crate::{
    backend::{Deployment, Question, Server, Value, questions},
    error::Error,
};

/// Of so many pings the one in the middle counts.
const PINGS: usize = 5;

/// An answer is fast up to here, and slow from there on.
const FAST: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(100);

/// The oldest version that is served, and what is tested, by family.
const OLDEST: (u32, u32) = (6, 2);
const NEWEST_REDIS: (u32, u32) = (8, 2);
const NEWEST_VALKEY: (u32, u32) = (9, 1);

/// How many slots a cluster has.
const SLOTS: u32 = 16_384;

/// After so long a cluster has a dead master for dead; more is long for whoever waits for a lock.
const LONG_NODE_TIMEOUT_MS: u64 = 5000;

/// What one server is found to be.
pub(super) struct Checked {
    pub(super) findings: Vec<Finding>,
    /// What it says of its cluster.
    pub(super) cluster: Vec<Finding>,
}

pub(super) fn finding(
    severity: Severity,
    subject: Subject,
    code: &'static str,
    found: String,
    may_happen: &str,
    to_do: &str,
) -> Finding {
    let (may_happen, to_do) = (may_happen.to_owned(), to_do.to_owned());
    Finding { severity, subject, code, server: None, found, may_happen, to_do }
}

/// What could not be checked for want of a right, in the words of an access list.
pub(super) fn unchecked(subject: Subject, code: &'static str, what: &str, right: &str) -> Finding {
    let (found, to_do) =
        (format!("{what} could not be checked"), format!("give the user the right `{right}` to have it checked"));
    finding(Severity::Notice, subject, code, found, "it is not known", &to_do)
}

impl Looker {
    pub(super) async fn check(&self, server: &Arc<dyn Server>, deployment: &Deployment) -> Checked {
        let mut checked = Checked { findings: Vec::new(), cluster: Vec::new() };
        match self.latency(server).await {
            Ok(latency) => checked.findings.extend([reachable(), slow(latency)]),
            Err(error) => checked.findings.push(unreachable(&error)),
        }
        if checked.findings.len() > 1 {
            checked.findings.push(version(self.said(server, questions::info("server")).await.as_ref()));
            checked.findings.push(eviction(self.said(server, questions::info("memory")).await.as_ref()));
            let persistence = self.said(server, questions::info("persistence")).await;
            let save = self.said(server, questions::setting("save")).await;
            let forced = self.said(server, questions::setting("appendfsync")).await;
            checked.findings.push(self::persistence(persistence.as_ref(), save.as_ref(), forced.as_ref()));
            let replication = self.said(server, questions::info("replication")).await;
            let least = self.said(server, questions::setting("min-replicas-to-write")).await;
            checked.findings.push(replicas(replication.as_ref(), least.as_ref(), deployment));
            checked.findings.extend(self.rights(server).await);
            if *deployment == Deployment::Cluster {
                let timeout = self.said(server, questions::setting("cluster-node-timeout")).await;
                checked
                    .cluster
                    .extend(cluster(self.said(server, questions::cluster_info()).await.as_ref(), timeout.as_ref()));
            }
        }
        let here = server.address();
        checked.findings.iter_mut().for_each(|finding| finding.server = Some(here.clone()));
        checked
    }

    async fn latency(&self, server: &Arc<dyn Server>) -> Result<Duration, Error> {
        let mut took = Vec::with_capacity(PINGS);
        for ping in 0..=PINGS {
            let started = Instant::now();
            let answer = self.ask(server, vec![questions::ping()]).await?;
            // The first one opens the connection.
            took.extend((ping > 0).then(|| started.elapsed()));
            if let Some(Err(fault)) = answer.into_iter().next() {
                return Err(Error::from_fault(fault, &Arc::from(""), crate::error::Op::Inspect));
            }
        }
        took.sort_unstable();
        Ok(took[PINGS / 2])
    }

    /// The answer, where it may have one.
    pub(super) async fn said(&self, server: &Arc<dyn Server>, question: Question) -> Option<Value> {
        self.ask(server, vec![question]).await.ok()?.pop()?.ok()
    }
}

fn reachable() -> Finding {
    finding(Severity::Ok, Subject::Reachable, "reachable.yes", "the server answers".into(), "", "")
}

fn unreachable(error: &Error) -> Finding {
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let (code, to_do) = match error {
        Error::Refused { .. } => ("reachable.refused", "look at the user, its password and its rights"),
        _ => ("reachable.no", "look whether the server runs, and at the network between"),
    };
    finding(Severity::Error, Subject::Reachable, code, why, "its locks can be neither had nor renewed", to_do)
}

fn slow(latency: Duration) -> Finding {
    let found = format!("an answer takes {:.1} ms", latency.as_secs_f64() * 1000.0);
    let (severity, code, may_happen, to_do) = match latency {
        _ if latency <= FAST => (Severity::Ok, "latency.low", "", ""),
        _ if latency <= SLOW => (
            Severity::Notice,
            "latency.medium",
            "a lock and an unlock take that long each",
            "bring the server nearer, or look what keeps it busy",
        ),
        _ => (
            Severity::Warning,
            "latency.high",
            "locks are slow, and short leases may be over before their answer comes",
            "bring the server nearer, look what keeps it busy, and let leases be much longer",
        ),
    };
    finding(severity, Subject::Latency, code, found, may_happen, to_do)
}

fn version(info: Option<&Value>) -> Finding {
    let subject = Subject::Version;
    let said = |name| info.and_then(|info| questions::field(info, name));
    let (family, text, newest) = match (said("valkey_version"), said("redis_version")) {
        (Some(text), _) => ("Valkey", text, NEWEST_VALKEY),
        (None, Some(text)) => ("Redis", text, NEWEST_REDIS),
        (None, None) => return unchecked(subject, "version.unchecked", "the version", "+info"),
    };
    let mut numbers = text.split('.').map_while(|number| number.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return unchecked(subject, "version.unchecked", "the version", "+info");
    };
    let (version, found) = ((major, minor), format!("{family} {major}.{minor}"));
    let (severity, code, may_happen, to_do) = if version < OLDEST {
        (Severity::Warning, "version.old", "it is not tested, and may lack what locks need", "upgrade to 7.0 or later")
    } else if newest < version {
        (
            Severity::Notice,
            "version.new",
            "this version of relatch was not tested with it",
            "see whether there is a later relatch",
        )
    } else {
        (Severity::Ok, "version.known", "", "")
    };
    finding(severity, subject, code, found, may_happen, to_do)
}

fn eviction(info: Option<&Value>) -> Finding {
    let subject = Subject::Eviction;
    let said = |name| info.and_then(|info| questions::field(info, name));
    let (Some(bytes), Some(policy)) = (said("maxmemory"), said("maxmemory_policy")) else {
        return unchecked(subject, "eviction.unchecked", "what it does when its memory is full", "+info");
    };
    let known = ["allkeys", "volatile", "noeviction"].into_iter().find(|known| policy.starts_with(known));
    if known == Some("noeviction") && info.is_some_and(is_full) {
        return finding(
            Severity::Error,
            subject,
            "eviction.full",
            "its memory is full".into(),
            "it refuses what needs memory: no lock can be had, while those that are held are renewed and freed",
            "let maxmemory be more, or look what fills it",
        );
    }
    let (is_bound, found) = (bytes != "0", format!("maxmemory-policy is of the kind {}", known.unwrap_or("unknown")));
    let (severity, code, may_happen) = match (known, is_bound) {
        (Some("noeviction"), _) => (Severity::Ok, "eviction.none", ""),
        (Some("allkeys"), true) => (Severity::Warning, "eviction.allkeys", EVICTS),
        (Some("volatile"), true) => (Severity::Warning, "eviction.volatile", EVICTS),
        (Some(_), false) => {
            (Severity::Notice, "eviction.unbound", "once maxmemory is given, locks may be dropped for want of it")
        }
        (_, true) => (Severity::Notice, "eviction.unknown", "locks may be dropped when memory is full"),
        (None, false) => (Severity::Ok, "eviction.none", ""),
    };
    let to_do = if severity == Severity::Ok {
        ""
    } else {
        "let maxmemory-policy be noeviction, or keep locks on a server of their own"
    };
    finding(severity, subject, code, found, may_happen, to_do)
}

/// Whether it has more than it may. What it sends to replicas and to its append-only file does not count.
fn is_full(info: &Value) -> bool {
    let bytes = |name| questions::field(info, name).and_then(|bytes| bytes.parse::<u64>().ok());
    let (Some(bound @ 1..), Some(used)) = (bytes("maxmemory"), bytes("used_memory")) else { return false };
    bound < used.saturating_sub(bytes("mem_not_counted_for_evict").unwrap_or(0))
}

const EVICTS: &str = "when memory is full, a lock that is held may be dropped, and somebody else gets in";

fn persistence(info: Option<&Value>, save: Option<&Value>, forced: Option<&Value>) -> Finding {
    let subject = Subject::Persistence;
    let said = |name| info.and_then(|info| questions::field(info, name));
    let Some(appends) = said("aof_enabled") else {
        return unchecked(subject, "persistence.unchecked", "what it keeps on disk", "+info");
    };
    if [said("aof_last_write_status"), said("rdb_last_bgsave_status")].contains(&Some("err")) {
        let (found, may_happen) =
            ("it could not write to its disk", "it may refuse writes, and with them locks; a restart forgets some");
        return finding(
            Severity::Error,
            subject,
            "persistence.failing",
            found.into(),
            may_happen,
            "look at its disk and its log",
        );
    }
    if appends != "0" {
        return match forced.and_then(questions::set_to) {
            None => {
                let what = "whether what it appends is forced to its disk";
                unchecked(subject, "persistence.unchecked", what, "+config|get")
            }
            Some("no") => finding(
                Severity::Notice,
                subject,
                "persistence.aof-unforced",
                "it writes an append-only file, and leaves to the system when that is on its disk".into(),
                "when its machine fails, the locks of the last half a minute may be forgotten",
                "let appendfsync be everysec",
            ),
            Some(_) => {
                finding(Severity::Ok, subject, "persistence.aof", "it writes an append-only file".into(), "", "")
            }
        };
    }
    match save.and_then(questions::set_to) {
        None => unchecked(subject, "persistence.unchecked", "whether it takes snapshots", "+config|get"),
        Some("") => finding(
            Severity::Warning,
            subject,
            "persistence.none",
            "it keeps nothing on disk".into(),
            "a restart forgets all locks while their holders go on working",
            "let appendonly be yes",
        ),
        Some(_) => finding(
            Severity::Notice,
            subject,
            "persistence.snapshots",
            "it takes snapshots now and then".into(),
            "a restart forgets the locks since the last one",
            "let appendonly be yes",
        ),
    }
}

fn replicas(info: Option<&Value>, least: Option<&Value>, deployment: &Deployment) -> Finding {
    let subject = Subject::Replicas;
    let said = |name| info.and_then(|info| questions::field(info, name));
    let count = said("connected_slaves").and_then(|count| count.parse::<u32>().ok());
    let (Some(role), Some(count)) = (said("role"), count) else {
        return unchecked(subject, "replicas.unchecked", "whether it has replicas", "+info");
    };
    if role != "master" {
        let (may_happen, to_do) = ("no lock can be had there", "name its master, or its sentinels");
        return finding(Severity::Error, subject, "replicas.is-one", "it is a replica".into(), may_happen, to_do);
    }
    let least = least.and_then(questions::set_to).and_then(|least| least.parse::<u32>().ok());
    // Told only where it counts them: with a lag of 0 it needs none, whatever their number is.
    let good = said("min_slaves_good_slaves").and_then(|good| good.parse::<u32>().ok());
    if let Some(good) = good.filter(|good| *good < least.unwrap_or(1)) {
        let needs = least.map_or_else(|| "replicas".to_owned(), |least| format!("{least} replicas"));
        return finding(
            Severity::Error,
            subject,
            "replicas.missing",
            format!("it needs {needs}, and {good} are there and in time"),
            "it refuses to write: locks can be neither had nor renewed nor freed",
            "look where its replicas are, or let min-replicas-to-write be less",
        );
    }
    let least = if good.is_none() && least.is_some() { Some(0) } else { least };
    match (count, deployment, least) {
        (0, Deployment::Standalone | Deployment::Embedded, _) => {
            finding(Severity::Ok, subject, "replicas.alone", "it has no replicas".into(), "", "")
        }
        (0, ..) => finding(
            Severity::Warning,
            subject,
            "replicas.none",
            "the master has no replica".into(),
            "when it fails, nobody takes its place, and no lock can be had",
            "give it a replica",
        ),
        (_, _, None) => unchecked(subject, "replicas.unchecked", "whether it waits for its replicas", "+config|get"),
        (_, _, Some(0)) => finding(
            Severity::Warning,
            subject,
            "replicas.not-needed",
            format!("{count} replicas, of which none needs to be there"),
            "a master that is cut off goes on granting locks, and the next one does not know of them",
            "let min-replicas-to-write be 1, or connect with replica_acks",
        ),
        (_, _, Some(least)) => {
            let found = format!("{count} replicas, of which it needs {least}");
            finding(Severity::Ok, subject, "replicas.needed", found, "", "")
        }
    }
}

/// What one node says of its cluster.
fn cluster(info: Option<&Value>, timeout: Option<&Value>) -> Vec<Finding> {
    let subject = Subject::Cluster;
    let said = |name| info.and_then(|info| questions::field(info, name));
    let mut findings = Vec::new();
    // Numbers alone are repeated: whoever answers may say a credential.
    let count = |name| said(name).and_then(|count| count.parse::<u32>().ok());
    findings.push(match (said("cluster_state"), count("cluster_slots_assigned"), count("cluster_slots_ok")) {
        (Some("ok"), Some(SLOTS), Some(SLOTS)) => {
            finding(Severity::Ok, subject, "cluster.whole", "all slots are served".into(), "", "")
        }
        (Some(_), Some(assigned), Some(ok)) => finding(
            Severity::Error,
            subject,
            "cluster.incomplete",
            format!("{assigned} of {SLOTS} slots are assigned, and {ok} are served"),
            "locks whose names are in the others can be neither had nor renewed",
            "look which nodes are down, and assign the slots that nobody has",
        ),
        _ => unchecked(subject, "cluster.unchecked", "whether all slots are served", "+cluster|info"),
    });
    let timeout_ms = timeout.and_then(questions::set_to).and_then(|ms| ms.parse::<u64>().ok());
    if let Some(ms) = timeout_ms.filter(|ms| LONG_NODE_TIMEOUT_MS < *ms) {
        findings.push(finding(
            Severity::Notice,
            subject,
            "cluster.slow-failover",
            format!("cluster-node-timeout is {ms} ms"),
            "for longer than that no lock of a master that fails can be had, and leases that are not longer are lost",
            "let cluster-node-timeout be shorter, or leases longer",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPENDS: &str = "aof_enabled:1\naof_last_write_status:ok\nrdb_last_bgsave_status:ok\n";

    fn text(text: &str) -> Value {
        Value::Bytes(text.replace('\n', "\r\n").into())
    }

    fn setting(value: &str) -> Value {
        Value::Array(vec![text("name"), text(value)])
    }

    #[test]
    fn a_version_is_old_new_or_known() {
        for (info, code, found) in [
            ("redis_version:6.0.16\n", "version.old", "Redis 6.0"),
            ("redis_version:6.2.14\n", "version.known", "Redis 6.2"),
            ("redis_version:8.2.1\n", "version.known", "Redis 8.2"),
            ("redis_version:9.0.0\n", "version.new", "Redis 9.0"),
            ("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:9.1.0\n", "version.known", "Valkey 9.1"),
            ("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:9.2.0\n", "version.new", "Valkey 9.2"),
        ] {
            let finding = version(Some(&text(info)));
            assert_eq!((finding.code, &*finding.found), (code, found), "{info}");
        }
        for info in [None, Some(text("redis_version:s3cret\n")), Some(Value::Nil)] {
            let finding = version(info.as_ref());
            assert!(finding.code == "version.unchecked" && !finding.found.contains("s3cret"));
        }
    }

    #[test]
    fn what_is_kept_on_disk_is_told_and_what_is_not() {
        let rows = [
            (APPENDS, None, Some("everysec"), "persistence.aof"),
            (APPENDS, Some(""), Some("always"), "persistence.aof"),
            (APPENDS, Some("3600 1"), Some("no"), "persistence.aof-unforced"),
            (APPENDS, None, None, "persistence.unchecked"),
            ("aof_enabled:1\naof_last_write_status:err\n", None, Some("everysec"), "persistence.failing"),
            ("aof_enabled:0\nrdb_last_bgsave_status:err\n", Some("3600 1"), None, "persistence.failing"),
            ("aof_enabled:0\n", Some("3600 1"), Some("no"), "persistence.snapshots"),
            ("aof_enabled:0\n", Some(""), Some("everysec"), "persistence.none"),
            ("aof_enabled:0\n", None, None, "persistence.unchecked"),
            ("", Some(""), Some("everysec"), "persistence.unchecked"),
        ];
        for (info, save, forced, code) in rows {
            let [save, forced] = [save, forced].map(|value| value.map(setting));
            let finding = persistence(Some(&text(info)), save.as_ref(), forced.as_ref());
            assert_eq!(finding.code, code, "{info} {save:?} {forced:?}");
        }
    }

    #[test]
    fn memory_is_full_where_more_counts_than_there_may_be() {
        let rows = [
            ("used_memory:9\nmaxmemory:0\nmaxmemory_policy:noeviction\n", "eviction.none"),
            ("used_memory:8\nmaxmemory:8\nmaxmemory_policy:noeviction\n", "eviction.none"),
            ("used_memory:9\nmaxmemory:8\nmaxmemory_policy:noeviction\n", "eviction.full"),
            ("used_memory:9\nmaxmemory:8\nmaxmemory_policy:noeviction\nmem_not_counted_for_evict:1\n", "eviction.none"),
            // What is evicted makes room.
            ("used_memory:9\nmaxmemory:8\nmaxmemory_policy:allkeys-lru\n", "eviction.allkeys"),
            ("used_memory:9\nmaxmemory:8\nmaxmemory_policy:volatile-ttl\n", "eviction.volatile"),
            ("used_memory:9\nmaxmemory:0\nmaxmemory_policy:allkeys-lru\n", "eviction.unbound"),
            ("used_memory:9\n", "eviction.unchecked"),
        ];
        for (info, code) in rows {
            assert_eq!(eviction(Some(&text(info))).code, code, "{info}");
        }
    }

    #[test]
    fn replicas_are_needed_where_there_shall_be_a_next_master() {
        // How many it has, and how many of these are in time where it counts them.
        let master = |count: u32, good: Option<u32>| {
            let good = good.map(|good| format!("min_slaves_good_slaves:{good}\n")).unwrap_or_default();
            format!("role:master\nconnected_slaves:{count}\n{good}")
        };
        let (one, sentinels) = (Deployment::Standalone, Deployment::Sentinel(3));
        let rows = [
            (master(0, None), &one, Some("0"), "replicas.alone"),
            (master(0, None), &one, None, "replicas.alone"),
            (master(0, Some(0)), &one, Some("1"), "replicas.missing"),
            (master(0, Some(0)), &one, None, "replicas.missing"),
            (master(0, None), &Deployment::Cluster, Some("0"), "replicas.none"),
            (master(0, Some(0)), &Deployment::Cluster, Some("1"), "replicas.missing"),
            (master(2, None), &sentinels, Some("0"), "replicas.not-needed"),
            (master(2, Some(2)), &sentinels, Some("1"), "replicas.needed"),
            (master(2, Some(2)), &sentinels, Some("2"), "replicas.needed"),
            (master(2, Some(2)), &sentinels, Some("3"), "replicas.missing"),
            (master(2, Some(1)), &sentinels, Some("2"), "replicas.missing"),
            (master(2, Some(0)), &sentinels, None, "replicas.missing"),
            // With a lag of 0 it counts none.
            (master(2, None), &sentinels, Some("1"), "replicas.not-needed"),
            (master(2, None), &sentinels, None, "replicas.unchecked"),
            ("role:slave\nconnected_slaves:0\n".to_owned(), &one, Some("0"), "replicas.is-one"),
            (String::new(), &one, Some("0"), "replicas.unchecked"),
        ];
        for (info, deployment, least, code) in rows {
            let least = least.map(setting);
            assert_eq!(replicas(Some(&text(&info)), least.as_ref(), deployment).code, code, "{info} {deployment:?}");
        }
    }

    #[test]
    fn a_cluster_is_whole_or_says_how_much_of_it_is_there() {
        let codes = |info: &str, timeout: &str| {
            let findings = cluster(Some(&text(info)), Some(&setting(timeout)));
            findings.iter().map(|finding| finding.code).collect::<Vec<_>>()
        };
        let whole = "cluster_state:ok\ncluster_slots_assigned:16384\ncluster_slots_ok:16384\n";
        assert_eq!(codes(whole, "5000"), ["cluster.whole"]);
        assert_eq!(codes(whole, "15000"), ["cluster.whole", "cluster.slow-failover"]);
        let part = "cluster_state:fail\ncluster_slots_assigned:16384\ncluster_slots_ok:10923\n";
        assert_eq!(codes(part, "5000"), ["cluster.incomplete"]);
        assert_eq!(codes("", "s3cret"), ["cluster.unchecked"]);
    }

    #[test]
    fn an_answer_is_fast_or_slow() {
        for (ms, severity) in [(1, Severity::Ok), (11, Severity::Notice), (101, Severity::Warning)] {
            assert_eq!(slow(Duration::from_millis(ms)).severity, severity);
        }
    }
}
