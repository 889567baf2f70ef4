//! The guide's page shows what is printed, and nothing else; the README's crontab works.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
    time::Duration,
};

use crate::{
    harness::{
        Server,
        proxy::{Door, Proxy},
    },
    program::{Came, Folder, PROGRAM, Running, done, in_the_midst_of_a_period, relatch, shell},
};

const README: &str = include_str!("../../README.md");
const PAGE: &str = include_str!("../../src/guide/command_line.rs");

/// What stands on the page as the program's output: all below a call, and lines that begin with its name.
fn shown() -> Vec<String> {
    let (mut shown, mut in_block, mut below_call) = (Vec::new(), false, false);
    for line in PAGE.lines().map(|line| line.trim_start_matches("//!").trim_start_matches(' ')) {
        match line {
            _ if line.starts_with("```") => (in_block, below_call) = (line == "```text", false),
            _ if !in_block => {}
            _ if line.starts_with("$ relatch ") => below_call = true,
            // Behind it may stand when it was said.
            _ if line.starts_with("relatch: ") => shown.push(line.split("   ").next().unwrap_or(line).to_owned()),
            _ if below_call => shown.push(line.to_owned()),
            _ => {}
        }
    }
    shown
}

/// The words of a line without what differs from call to call: holders and processes are one word, durations another, numbers a third.
fn alike(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_end_matches([',', ':']);
        let tail = &word[bare.len()..];
        let kind = match bare {
            _ if bare.matches('-').count() == 4 && bare.len() >= 36 => "ID",
            // A label: where these tests run is one host of many.
            _ if bare.rsplit_once(':').is_some_and(|(_, rest)| rest.bytes().all(|byte| byte.is_ascii_digit())) => "ID",
            _ if ["ms", "s", "m", "h"].iter().any(|unit| is_number(bare.strip_suffix(unit))) => "DURATION",
            _ => bare,
        };
        // One may be of several words.
        words.pop_if(|before| before == "DURATION" && kind == "DURATION");
        words.push(without_digits(kind) + tail);
    }
    words
}

fn is_number(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Each number as one digit.
fn without_digits(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if shown.ends_with('0') => {}
            '0'..='9' => shown.push('0'),
            _ => shown.push(letter),
        }
    }
    // Another family of servers has the same to say.
    if shown == "Valkey" { "Redis".to_owned() } else { shown }
}

/// Without what is found of these subjects.
fn without(subjects: &[&str], lines: &mut Vec<Vec<String>>) {
    let mut is_of_it = false;
    lines.retain(|line| {
        is_of_it = match line.iter().map(String::as_str).next() {
            // What stands below a finding.
            Some("may" | "to") => is_of_it,
            _ => line
                .get(1)
                .and_then(|code| code.split_once('.'))
                .is_some_and(|(subject, _)| subjects.contains(&subject)),
        };
        !is_of_it
    });
}

fn call(url: &str, words: &[&str]) -> Command {
    relatch(["--url", url].into_iter().chain(words.iter().copied()))
}

/// A call that goes on until it is dropped, and what its command says of itself first.
fn going_on(url: &str, words: &[&str], folder: &Folder) -> (Running, String) {
    let script = "echo \"${RELATCH_HOLDER-nobody}\" > began; exec sleep 60";
    let running = Running::start(call(url, &[words, &["sh", "-c", script]].concat()).current_dir(folder.path()));
    let holder = folder.read("began");
    (running, holder)
}

#[test]
fn the_guide_shows_what_is_printed() {
    const YEAR: &str = "365days";
    let server = Server::builder().tcp().start();
    let url = server.tcp_url();
    let mut printed = Vec::new();
    let mut prints = |came: Came| printed.extend(came.out.lines().chain(came.err.lines()).map(str::to_owned));
    // A lock, and whoever is at a job.
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let (_lock, holder) = going_on(&url, &["run", "nightly-backup"], &folders[0]);
    let once = ["once", "--every", YEAR, "hourly-report"];
    let (job, _) = going_on(&url, &once, &folders[1]);
    prints(done(&mut call(&url, &["inspect", "nightly-backup", "hourly-report", "deploy"])));
    prints(done(&mut call(&url, &["force-unlock", "nightly-backup", "--holder", &holder, "--yes"])));
    prints(done(&mut call(&url, &[&once[..], &["true"]].concat())));
    drop(job);
    server.delete("relatch_job:{hourly-report}");
    assert_eq!(done(&mut call(&url, &[&once[..], &["true"]].concat())).in_silence(), 0);
    prints(done(&mut call(&url, &[&once[..], &["true"]].concat())));
    // A lock whose network is cut.
    server.delete("nightly-backup");
    let proxy = Proxy::to(&server);
    let (cut, _) = going_on(&proxy.url(), &["run", "--lease", "3s", "--grace", "1s", "nightly-backup"], &folders[2]);
    proxy.door(Door::Silent);
    proxy.silence_all();
    prints(cut.came());
    prints(done(&mut call(&url, &["doctor"])));

    let [mut printed, mut shown] =
        [printed, shown()].map(|lines| lines.iter().map(|line| alike(line)).collect::<Vec<_>>());
    // A busy machine's answers are slow, and there it says so. Redis 6 cannot be asked for rights.
    let is_old = printed.iter().flatten().any(|word| word == "rights.unchecked");
    let subjects: &[_] = if is_old { &["latency", "rights"] } else { &["latency"] };
    without(subjects, &mut printed);
    without(subjects, &mut shown);
    for line in &printed {
        assert!(shown.contains(line), "not in the guide: {line:?}");
    }
    for line in &shown {
        assert!(printed.contains(line), "in the guide alone: {line:?}");
    }
}

/// The crontab of the README: its variables, and its commands without the times.
fn crontab() -> (Vec<(&'static str, &'static str)>, Vec<&'static str>) {
    let blocks = README.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.filter(|block| block.contains("* * * *")).flat_map(str::lines);
    let (commands, variables): (Vec<_>, Vec<_>) = lines.partition(|line| line.contains("* * * *"));
    let variables = variables.into_iter().filter_map(|line| line.split_once('='));
    let commands = commands.into_iter().filter_map(|line| line.splitn(6, ' ').last());
    (variables.collect(), commands.collect())
}

#[test]
fn the_crontab_of_the_readme_works_as_it_stands_and_sends_no_mail() {
    let (server, home) = (Server::own(), Folder::new());
    let bin = home.at(".cargo/bin");
    std::fs::create_dir_all(&bin).expect("there is room");
    symlink(PROGRAM, bin.join("relatch")).expect("it is made");
    // Cron has another path for what was called before already.
    let (report, path) = (home.at("make-report"), format!("{}:/usr/bin:/bin", home.path().display()));
    std::fs::write(&report, "#!/bin/sh\necho made\n").expect("it is written");
    std::fs::set_permissions(&report, Permissions::from_mode(0o755)).expect("it is made a program");
    let (variables, commands) = crontab();
    assert_eq!(variables.len(), 1);
    let [run, once] = commands[..] else { panic!("{commands:?}") };
    let cron = |line: &str| {
        let mut command = shell(line);
        command.env_clear().env("HOME", home.path()).env("PATH", &path);
        command.envs(variables.iter().copied()).env("RELATCH_URL", server.url());
        command
    };
    assert_eq!(variables[0].0, "RELATCH_URL");
    in_the_midst_of_a_period(Duration::from_secs(3600), Duration::ZERO);
    for line in [run, once] {
        let came = done(&mut cron(line));
        assert_eq!((came.status, &*came.out, &*came.err), (Some(0), "made\n", ""), "{line}");
    }
    assert_eq!(done(&mut cron(once)).in_silence(), 0);
    let folder = Folder::new();
    let _held = going_on(&server.url(), &["run", "report"], &folder);
    assert_eq!(done(&mut cron(run)).in_silence(), 75);
}
