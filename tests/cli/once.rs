//! `relatch once`: one of many machines runs the command, and the others say why they do not.

use std::{process::Command, time::Duration};

use rustix::process::Signal;

use crate::{
    harness::{
        Server, eventually,
        proxy::{Door, Proxy},
        unique_name,
    },
    program::{Folder, Running, SOON, done, in_the_midst_of_a_period, now, relatch},
};

/// A period that no test lives to see the end of.
const YEAR: &str = "365days";

fn once(options: &[&str], name: &str, command: &[&str]) -> Command {
    let url = Server::shared().url();
    let words = ["--url", &url, "once", "--every", YEAR].into_iter().chain(options.iter().copied()).chain([name]);
    relatch(words.chain(command.iter().copied()))
}

#[test]
fn a_command_is_run_once_a_period_and_the_others_say_that_it_was_done() {
    let name = unique_name();
    let first = done(&mut once(&[], &name, &["echo", "ran"]));
    assert_eq!((first.status, &*first.out, &*first.err), (Some(0), "ran\n", ""));
    let (status, line) = done(&mut once(&[], &name, &["echo", "ran"])).with_a_line();
    assert_eq!(status, 0);
    assert!(line.starts_with(&format!("job \"{name}\": not run, it was done at 20")), "{line}");
    assert_eq!(done(&mut once(&["-q"], &name, &["echo", "ran"])).in_silence(), 0);
}

#[test]
fn many_machines_at_once_run_it_once() {
    let name = unique_name();
    let all: Vec<_> =
        (0..12).map(|_| Running::start(&mut once(&[], &name, &["sh", "-c", "echo ran; sleep 0.2"]))).collect();
    let came: Vec<_> = all.into_iter().map(Running::came).collect();
    assert!(came.iter().all(|came| came.status == Some(0)), "{came:?}");
    assert_eq!(came.iter().filter(|came| came.out == "ran\n").count(), 1, "{came:?}");
    let others = came.iter().filter(|came| came.err.contains("is at it since") || came.err.contains("it was done at"));
    assert_eq!(others.count(), 11, "{came:?}");
}

#[test]
fn a_command_that_fails_is_run_again_until_its_attempts_are_over() {
    let name = unique_name();
    for attempt in 1..=2 {
        let came = done(&mut once(&["--attempts", "2"], &name, &["sh", "-c", "echo $RELATCH_ATTEMPT; exit 7"]));
        assert_eq!((came.status, came.out), (Some(7), format!("{attempt}\n")));
        assert_eq!(came.err, format!("relatch: job \"{name}\": attempt {attempt} failed, with status 7\n"));
    }
    let said = format!("job \"{name}\": not run, all 2 attempts of this period were begun");
    assert_eq!(done(&mut once(&["--attempts", "2"], &name, &["true"])).with_a_line(), (0, said));
}

#[test]
fn a_command_knows_its_period_by_its_environment() {
    let name = unique_name();
    let url = Server::shared().url();
    let (minute, day) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));
    in_the_midst_of_a_period(day, 90 * minute);
    let words = ["--url", &url, "once", "--every", "1day", "--offset", "90m", &name, "env"];
    let came = done(relatch(words).env("RELATCH_HOLDER", "of somebody around it"));
    let told: std::collections::BTreeMap<_, _> = came.out.lines().filter_map(|line| line.split_once('=')).collect();
    let (period, ms) = (told["RELATCH_PERIOD"], told["RELATCH_PERIOD_MS"]);
    assert!(period.starts_with("20") && period.ends_with("T01:30:00Z"), "{period}");
    let start = since_1970(period);
    assert_eq!(ms.parse(), Ok(start.as_millis()));
    let fence: u64 = told["RELATCH_FENCE"].parse().expect("a number");
    assert_eq!((fence >> 16, fence & 0xffff), (start.as_secs(), 1));
    assert_eq!((told["RELATCH_JOB"], told["RELATCH_ATTEMPT"]), (&*name, "1"));
    assert!(!told.contains_key("RELATCH_HOLDER") && !told.contains_key("RELATCH_LOCK"));
}

/// The time since 1970, by the system's own `date`.
fn since_1970(text: &str) -> Duration {
    let came = done(Command::new("date").args(["-d", text, "+%s"]));
    Duration::from_secs(came.out.trim().parse().expect("a number"))
}

#[test]
fn a_command_is_not_begun_too_late_in_a_period() {
    let (status, line) = done(&mut once(&["--start-within", "1s"], &unique_name(), &["true"])).with_a_line();
    assert_eq!(status, 0);
    assert!(line.contains("not run, it is too late in the period of "), "{line}");
}

/// It listens for signals by then.
fn is_connected(running: &Running) -> bool {
    let clients: String =
        redis::cmd("CLIENT").arg("LIST").query(&mut Server::shared().connection()).expect("it answers");
    clients.contains(&format!(":{}:", running.pid().as_raw_nonzero()))
}

#[test]
fn whoever_stands_by_runs_what_failed_elsewhere() {
    let (name, folder) = (unique_name(), Folder::new());
    let failing = "echo x > began; while [ ! -e end ]; do sleep 0.05; done; exit 9";
    let here = Running::start(once(&[], &name, &["sh", "-c", failing]).current_dir(folder.path()));
    folder.read("began");
    let mut there = Running::start(&mut once(&["--stand-by"], &name, &["sh", "-c", "echo $RELATCH_ATTEMPT"]));
    eventually(SOON, || is_connected(&there));
    assert!(!there.is_over());
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(here.came().status, Some(9));
    let came = there.came();
    assert_eq!((came.status, &*came.out, &*came.err), (Some(0), "2\n", ""));
}

#[test]
fn whoever_stands_by_tells_of_its_own_failure_where_nobody_does_better() {
    let name = unique_name();
    let came = done(&mut once(&["--stand-by", "--attempts", "2"], &name, &["sh", "-c", "exit 6"]));
    assert_eq!(came.status, Some(6));
    assert_eq!(came.err.lines().count(), 3, "{}", came.err);
}

#[test]
fn whoever_stands_by_is_ended_by_a_signal() {
    let (name, folder) = (unique_name(), Folder::new());
    let holder =
        Running::start(once(&[], &name, &["sh", "-c", "echo x > began; exec sleep 60"]).current_dir(folder.path()));
    folder.read("began");
    let there = Running::start(&mut once(&["--stand-by"], &name, &["true"]));
    eventually(SOON, || is_connected(&there));
    there.signal(Signal::TERM);
    assert_eq!(there.came().in_silence(), 143);
    holder.signal(Signal::TERM);
    assert_eq!(holder.came().status, Some(143));
}

#[test]
fn an_attempt_that_is_lost_is_ended_with_its_grace() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "trap 'echo tidied; exit 0' TERM; echo x > began; while :; do sleep 0.01; done";
    let words = ["--url", &server.url(), "once", "--every", YEAR, "--lease", "9s", &name, "sh", "-c", script];
    let running = Running::start(relatch(words).current_dir(folder.path()));
    folder.read("began");
    server.delete(&format!("relatch_job:{{{name}}}"));
    let came = running.came();
    assert_eq!((came.status, &*came.out), (Some(76), "tidied\n"), "{}", came.err);
}

#[test]
fn a_command_that_is_not_there_has_had_its_attempt() {
    let name = unique_name();
    assert_eq!(done(&mut once(&["--attempts", "1"], &name, &["no-such-command-at-all"])).status, Some(127));
    let (status, line) = done(&mut once(&["--attempts", "1"], &name, &["true"])).with_a_line();
    assert!(status == 0 && line.ends_with("all 1 attempts of this period were begun"), "{line}");
}

#[test]
fn whoever_stands_by_goes_on_through_an_outage() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let once = |options: &[&str], script: &str| {
        let url = server.url();
        let words = ["--url", &url, "once", "--every", YEAR].into_iter().chain(options.iter().copied());
        let mut command = relatch(words.chain([&*name, "sh", "-c", script]));
        command.current_dir(folder.path());
        command
    };
    let here = Running::start(&mut once(&[], "echo x > began; while [ ! -e end ]; do sleep 0.05; done; exit 9"));
    folder.read("began");
    let mut there = once(&["--stand-by"], "echo $RELATCH_ATTEMPT");
    let said = std::fs::File::create(folder.at("said")).expect("it is written");
    let mut there = there.stderr(said).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let clients =
        || -> String { redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("it answers") };
    eventually(SOON, || clients().contains(&format!(":{}:", there.id())));
    server.freeze();
    let line = folder.read("said");
    server.thaw();
    assert!(line.starts_with(&format!("relatch: job \"{name}\": ")), "{line}");
    assert!(line.ends_with("; asked again until the period ends"), "{line}");
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(here.came().status, Some(9));
    eventually(SOON, || there.try_wait().expect("it can be asked").is_some());
    let output = there.wait_with_output().expect("it has ended");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"2\n"[..]));
}

#[test]
fn whoever_stands_by_waits_for_a_server_that_is_not_there_yet() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    for door in [Door::Refusing, Door::Silent] {
        proxy.door(door);
        let said = folder.at(&format!("{door:?}"));
        let file = std::fs::File::create(&said).expect("it is written");
        let name = format!("{name}-{door:?}");
        let words = ["--url", &proxy.url(), "once", "--every", YEAR, "--stand-by", &name, "echo", "ran"];
        let running = Running::saying_to(file, &mut relatch(words));
        let line = folder.read(&format!("{door:?}"));
        assert!(line.starts_with(&format!("relatch: job \"{name}\": could not connect")), "{line}");
        assert!(line.ends_with("; asked again until the period ends"), "{line}");
        proxy.door(Door::Open);
        let came = running.came();
        assert_eq!((came.status, &*came.out), (Some(0), "ran\n"));
    }
}

#[test]
fn whoever_stands_by_waits_for_a_replica_to_become_the_master() {
    let (server, folder) = (Server::own(), Folder::new());
    let follow = |words: [&str; 2]| {
        redis::cmd("REPLICAOF").arg(&words).exec(&mut server.connection()).expect("it is taken");
    };
    follow(["127.0.0.1", "1"]);
    let said = std::fs::File::create(folder.at("said")).expect("it is written");
    let words = ["--url", &server.url(), "once", "--every", YEAR, "--stand-by", "a", "echo", "ran"];
    let running = Running::saying_to(said, &mut relatch(words));
    let line = folder.read("said");
    assert!(line.ends_with("; asked again until the period ends"), "{line}");
    assert!(line.contains("READONLY") && !line.contains("script"), "{line}");
    follow(["no", "one"]);
    let came = running.came();
    assert_eq!((came.status, &*came.out), (Some(0), "ran\n"));
}

#[test]
fn whoever_waits_for_a_server_gives_up_with_the_period_or_by_a_signal() {
    let once = |every: &str, options: &[&str]| {
        let words = ["--url", "redis://127.0.0.1:1/", "once", "--every", every].into_iter();
        relatch(words.chain(options.iter().copied()).chain(["a", "true"]))
    };
    let (status, line) = Running::start(&mut once(YEAR, &[])).came().with_a_line();
    assert!(status == 69 && !line.contains("asked again"), "{line}");
    // The period has just begun.
    let offset = format!("{}s", now().as_secs() % 6);
    let came = Running::start(&mut once("6s", &["--offset", &offset, "--stand-by"])).came();
    assert_eq!(came.status, Some(69), "{came:?}");
    let says: Vec<_> = came.err.lines().map(|line| line.ends_with("; asked again until the period ends")).collect();
    assert_eq!(says, [true, false], "it is said once: {came:?}");
    let folder = Folder::new();
    let said = std::fs::File::create(folder.at("said")).expect("it is written");
    let waiting = Running::saying_to(said, &mut once(YEAR, &["--stand-by"]));
    folder.read("said");
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.came().status, Some(143));
    // One that will never serve is not waited for.
    let locked = Server::builder().tcp().password("word").start();
    let url = format!("redis://127.0.0.1:{}/", locked.port());
    let words = ["--url", &url, "once", "--every", YEAR, "--stand-by", "a", "true"];
    let (status, line) = Running::start(&mut relatch(words)).came().with_a_line();
    assert!(status == 69 && line.contains("password"), "{line}");
}

#[test]
fn whoever_cannot_say_that_it_was_done_says_that_it_may_be_done_again() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.05; done";
    let words = ["--url", &server.url(), "once", "--every", YEAR, &name, "sh", "-c", script];
    let running = Running::start(relatch(words).current_dir(folder.path()));
    folder.read("began");
    server.freeze();
    std::fs::write(folder.at("end"), "").expect("it is written");
    let (status, line) = running.came().with_a_line();
    server.thaw();
    let why =
        format!("could not release job \"{name}\": the server is unreachable, which may have been done all the same");
    assert!(line.starts_with(&format!("job \"{name}\" was done, and may be done again: {why}")), "{line}");
    assert_eq!(status, 0);
}
