//! Each command against each deployment.

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

use crate::{
    harness::{Deployment, Server, unique_name},
    program::{Folder, Running, done, relatch},
};

fn standalone() -> String {
    Server::shared().url()
}

fn sentinels() -> String {
    Deployment::shared().url()
}

fn cluster() -> String {
    Deployment::shared_cluster().url()
}

/// All that the program does, once, against the servers there.
fn all_commands(url: &str, mode: &str, wrong: &[&str]) {
    let call = |words: &[&str]| -> Command { relatch(words.iter().copied()) };
    let with = |command: &mut Command| done(command.env("RELATCH_URL", url));
    let (name, folder) = (unique_name(), Folder::new());
    // Run, with a token and without; and what is told of it from outside.
    let mut holder = call(&["run", "--lease", "9s", &name, "sh", "-c", "echo $RELATCH_HOLDER > holder; exec sleep 60"]);
    let running = Running::start(holder.env("RELATCH_URL", url).current_dir(folder.path()));
    let id = folder.read("holder");
    assert_eq!(with(&mut call(&["run", "-nq", &name, "true"])).in_silence(), 75);
    let came = with(&mut call(&["run", "--fenced", &format!("{name}-fenced"), "sh", "-c", "echo $RELATCH_FENCE"]));
    assert_eq!((came.status, &*came.out, &*came.err), (Some(0), "1\n", ""));
    // Once.
    let once = ["once", "--every", "365days", &name, "echo", "ran"];
    assert_eq!(with(&mut call(&once)).out, "ran\n");
    let (status, line) = with(&mut call(&once)).with_a_line();
    assert!(status == 0 && line.contains("it was done at"), "{line}");
    // Inspect, by name and by pattern: the lock and the job.
    for words in [&["inspect", "--json", &name][..], &["inspect", "--json", "--pattern", &name]] {
        let came = with(&mut call(words));
        let objects: Vec<Value> = came.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(objects.len(), 2, "{words:?}: {came:?}");
        let of_kind = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap_or_else(|| panic!("{came:?}"));
        let lock = of_kind("plain");
        assert_eq!(lock["holders"][0]["id"], *id, "{words:?}");
        assert!(lock["holders"][0]["label"].is_string(), "{words:?}: {lock}");
        assert!(of_kind("job")["job"]["success"].is_object(), "{came:?}");
    }
    // Force-unlock: the run is told, and ends its command.
    assert_eq!(with(&mut call(&["force-unlock", &name, "--holder", &id, "--yes"])).status, Some(0));
    assert_eq!(running.came().status, Some(76));
    // Doctor.
    let came = with(&mut call(&["doctor", "--json"]));
    assert_eq!((came.status, &*came.err), (Some(1), ""), "{came:?}");
    let codes: Vec<Value> = came.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let has = |code: &str| codes.iter().any(|finding: &Value| finding["code"] == code);
    // A busy machine's answers are slow, and there it says so. Redis 6 cannot be asked for rights.
    let is_of_here = |code: &&str| code.starts_with("latency.") || *code == "rights.unchecked";
    let found = codes.iter().filter(|finding| finding["severity"] != "ok");
    let found: BTreeSet<&str> =
        found.filter_map(|finding| finding["code"].as_str()).filter(|it| !is_of_here(it)).collect();
    assert_eq!(found, wrong.iter().copied().collect(), "{}", came.out);
    assert!(has(&format!("deployment.{mode}")) && has("scripts.run") && has("reachable.yes"), "{}", came.out);
    assert_eq!(with(&mut call(&["doctor", "--scan"])).err, "");
}

#[test]
fn one_server() {
    all_commands(&standalone(), "standalone", &["persistence.none"]);
}

#[test]
fn sentinels_and_their_master() {
    all_commands(&sentinels(), "sentinel", &["persistence.none", "replicas.not-needed"]);
}

#[test]
fn a_cluster() {
    let mut wrong = vec!["persistence.none", "replicas.not-needed"];
    // It knows no channels of a shard yet.
    if Deployment::shared_cluster().flavour() == "redis62" {
        wrong.push("pubsub.classic");
    }
    all_commands(&cluster(), "cluster", &wrong);
}
