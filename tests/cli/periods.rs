//! `relatch once` where a period begins or ends, and where an attempt comes to nothing.

use std::{os::unix::fs::symlink, process::Command, time::Duration};

use rustix::process::Signal;

use crate::{
    harness::{Server, eventually, unique_name},
    program::{Folder, PROGRAM, Running, SOON, as_usual, done, relatch},
};

/// A period that no test lives to see the end of.
const YEAR: &str = "365days";

fn once(options: &[&str], name: &str, command: &[&str]) -> Command {
    let url = Server::shared().url();
    let words = ["--url", &url, "once"].into_iter().chain(options.iter().copied()).chain([name]);
    relatch(words.chain(command.iter().copied()))
}

/// The server's clock.
fn clock() -> Duration {
    let (secs, micros): (u64, u32) = redis::cmd("TIME").query(&mut Server::shared().connection()).expect("it answers");
    Duration::new(secs, micros * 1000)
}

/// Periods of so many seconds of which one ends so many seconds from now, and a bit; and when that is, in milliseconds.
struct Periods {
    every: String,
    offset: String,
    next_ms: u64,
}

impl Periods {
    fn ending_in(secs: u64, every: u64) -> Self {
        let next = clock().as_secs() + secs + 1;
        Self { every: format!("{every}s"), offset: format!("{}s", next % every), next_ms: next * 1000 }
    }

    fn once(&self, options: &[&str], name: &str, command: &[&str]) -> Command {
        once(&[&["--every", &self.every, "--offset", &self.offset], options].concat(), name, command)
    }
}

/// A record by which somebody else did the work of a period.
fn was_done(name: &str, start_ms: u64, at_ms: u64) {
    let key = format!("relatch_job:{{{name}}}");
    let by = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:1";
    let mut connection = Server::shared().connection();
    let mut record = redis::cmd("HSET");
    record.arg(&key).arg("start").arg(start_ms).arg("attempts").arg(1).arg("by").arg(by).arg("at").arg(at_ms);
    let _: i64 = record.arg("last").arg(start_ms).query(&mut connection).expect("it is written");
    let _: i64 = redis::cmd("EXPIRE").arg(&key).arg(3600).query(&mut connection).expect("it is written");
}

const TELL_PERIOD: &[&str] = &["sh", "-c", "echo $RELATCH_PERIOD_MS"];

#[test]
fn whoever_stands_by_and_is_told_to_end_does_not_begin_again() {
    for (signal, script, status) in [
        (Signal::TERM, "exec sleep 60", 143),
        (Signal::INT, "exec sleep 60", 130),
        (Signal::HUP, "exec sleep 60", 129),
        (Signal::TERM, "exec 2> /dev/null; trap 'exit 1' TERM; while :; do sleep 0.05; done", 1),
    ] {
        let (name, folder) = (unique_name(), Folder::new());
        let script = format!("echo $RELATCH_ATTEMPT >> began; {script}");
        let mut here = once(&["--every", YEAR, "--stand-by"], &name, &["sh", "-c", &script]);
        let running = Running::start(here.current_dir(folder.path()));
        folder.read("began");
        running.signal(signal);
        let (ended, line) = running.came().with_a_line();
        assert_eq!((ended, line), (status, format!("job \"{name}\": attempt 1 failed, with status {status}")));
        assert_eq!(folder.read("began"), "1");
        // Another machine may do it at once.
        let next = done(&mut once(&["--every", YEAR], &name, &["sh", "-c", "echo $RELATCH_ATTEMPT"]));
        assert_eq!((next.status, &*next.out), (Some(0), "2\n"));
    }
}

#[test]
fn whoever_stands_by_does_not_begin_again_what_was_interrupted_at_its_terminal() {
    // It is the command's alone there: we do not hear of it.
    for (script, status) in [("kill -INT $$; sleep 60", 130), ("exit 130", 130), ("kill -TERM $$; sleep 60", 143)] {
        let name = unique_name();
        let here = done(&mut once(&["--every", YEAR, "--stand-by"], &name, &["sh", "-c", script]));
        let line = format!("relatch: job \"{name}\": attempt 1 failed, with status {status}\n");
        assert_eq!((here.status, here.err), (Some(status), line), "{script}");
    }
}

#[test]
fn whoever_stands_by_does_not_fail_on_into_the_next_period() {
    let (name, folder, periods) = (unique_name(), Folder::new(), Periods::ending_in(6, 12));
    let script = "echo x >> began; sleep 8; exit 7";
    let mut here = periods.once(&["--stand-by"], &name, &["sh", "-c", script]);
    let came = done(here.current_dir(folder.path()));
    assert_eq!((came.status, folder.read("began")), (Some(7), "x".to_owned()), "{}", came.err);
}

#[test]
fn whoever_stands_by_for_one_who_hangs_ends_with_the_period() {
    let (name, folder, periods) = (unique_name(), Folder::new(), Periods::ending_in(6, 12));
    let mut hangs = periods.once(&[], &name, &["sh", "-c", "echo x > began; exec sleep 60"]);
    let hangs = Running::start(hangs.current_dir(folder.path()));
    folder.read("began");
    let (status, line) = done(&mut periods.once(&["--stand-by"], &name, &["echo", "ran"])).with_a_line();
    assert!(Duration::from_millis(periods.next_ms) <= clock(), "it was not over");
    assert_eq!(status, 0);
    assert!(line.contains("is at it since") && line.ends_with(", and the period is over"), "{line}");
    hangs.signal(Signal::TERM);
    assert_eq!(hangs.came().status, Some(143));
}

#[test]
fn whoever_asks_a_moment_before_a_period_does_the_work_of_that_one() {
    let (name, periods) = (unique_name(), Periods::ending_in(3, 1000));
    was_done(&name, periods.next_ms - 1_000_000, periods.next_ms - 999_000);
    let came = done(&mut periods.once(&[], &name, TELL_PERIOD));
    assert_eq!((came.status, came.out, &*came.err), (Some(0), format!("{}\n", periods.next_ms), ""));
}

#[test]
fn whoever_asks_a_moment_before_a_period_makes_up_for_the_last_one_as_well() {
    for (script, lines) in [("", 0), ("; exit 3", 2)] {
        let (name, periods) = (unique_name(), Periods::ending_in(3, 1000));
        let script = format!("echo $RELATCH_PERIOD_MS{script}");
        let came = done(&mut periods.once(&[], &name, &["sh", "-c", &script]));
        let both = format!("{}\n{}\n", periods.next_ms - 1_000_000, periods.next_ms);
        assert_eq!((came.out, came.err.lines().count()), (both, lines), "{}", came.err);
        assert_eq!(came.status, Some(if lines == 0 { 0 } else { 3 }));
    }
}

#[test]
fn machines_that_are_all_ahead_begin_within_the_period_that_is_to_come() {
    let (name, periods) = (unique_name(), Periods::ending_in(3, 1000));
    let ahead = || Running::start(&mut periods.once(&["--start-within", "60s"], &name, TELL_PERIOD));
    let came: Vec<_> = [ahead(), ahead(), ahead()].into_iter().map(Running::came).collect();
    assert!(came.iter().all(|came| came.status == Some(0)), "{came:?}");
    let ran: Vec<_> = came.iter().filter(|came| !came.out.is_empty()).map(|came| came.out.trim()).collect();
    assert_eq!(ran, [periods.next_ms.to_string()], "{came:?}");
}

#[test]
fn whoever_waits_for_a_period_to_begin_is_ended_by_a_signal() {
    let (name, periods) = (unique_name(), Periods::ending_in(8, 1000));
    was_done(&name, periods.next_ms - 1_000_000, periods.next_ms - 999_000);
    let mut waiting = Running::start(&mut periods.once(&[], &name, &["echo", "ran"]));
    let clients = || -> String {
        redis::cmd("CLIENT").arg("LIST").query(&mut Server::shared().connection()).expect("it answers")
    };
    eventually(SOON, || clients().contains(&format!(":{}:", waiting.pid().as_raw_nonzero())));
    assert!(!waiting.is_over());
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.came().in_silence(), 143);
}

#[test]
fn a_command_that_went_on_without_its_attempt_may_be_done_again_and_that_is_said() {
    for (end, status, last) in
        [("true", 0, "was done, and may be done again: "), ("exit 5", 5, ": attempt 1 failed, with status 5")]
    {
        let (name, folder) = (unique_name(), Folder::new());
        let script = format!("echo x > began; while [ ! -e end ]; do sleep 0.05; done; {end}");
        let options = ["--every", YEAR, "--lease", "2s", "--on-loss", "ignore"];
        let said = std::fs::File::create(folder.at("said")).expect("it is written");
        let mut here = once(&options, &name, &["sh", "-c", &script]);
        let running = Running::saying_to(said, here.current_dir(folder.path()));
        folder.read("began");
        Server::shared().delete(&format!("relatch_job:{{{name}}}"));
        let loss = folder.read("said");
        assert!(loss.starts_with(&format!("relatch: job \"{name}\" was lost: ")), "{loss}");
        assert!(loss.ends_with(": the command goes on"), "{loss}");
        std::fs::write(folder.at("end"), "").expect("it is written");
        assert_eq!(running.came().status, Some(status));
        let said = folder.read("said");
        let (_, line) = said.split_once('\n').expect("there is one more");
        assert!(line.starts_with(&format!("relatch: job \"{name}\"")) && line.contains(last), "{said}");
    }
}

/// Five variables that take most of what a process may be started with, and a last one of this length.
fn with_little_room(words: &[&str], last: usize, folder: &Folder) -> Command {
    let mut command = as_usual("sh");
    // By the stack's bound the system bounds words and variables: a quarter of it.
    command.args(["-c", "ulimit -s 2048; exec \"$@\"", "sh", "./r"]).args(words).current_dir(folder.path());
    for number in 1..=4 {
        command.env(format!("FULL{number}"), "x".repeat(100_000));
    }
    command.env("LAST", "x".repeat(last));
    command
}

#[test]
fn an_attempt_for_which_the_system_has_no_process_is_given_back() {
    let (name, folder, url) = (unique_name(), Folder::new(), Server::shared().url());
    symlink(PROGRAM, folder.at("r")).expect("it is made");
    let words = ["--url", &url, "once", "--attempts", "1", "--every", YEAR, &name, "true"];
    // The same length, and nothing is done.
    let helps = words.map(|word| match word {
        "--every" => "--help",
        YEAR => "xxxxxxxx",
        word => word,
    });
    // As much as leaves room for the program, and then none for the variables that it adds.
    let starts = |last| with_little_room(&helps, last, &folder).output().is_ok_and(|output| output.status.success());
    let (mut most, mut too_much) = (0, 130_000);
    assert!(starts(most) && !starts(too_much), "the bound is another one here");
    while most + 1 < too_much {
        let middle = most.midpoint(too_much);
        if starts(middle) { most = middle } else { too_much = middle }
    }
    let (status, line) = done(&mut with_little_room(&words, most, &folder)).with_a_line();
    assert!(status == 71 && line.starts_with("the system does not give what is needed: "), "{status} {line}");
    let seen = done(&mut relatch(["--url", &url, "inspect", &name])).out;
    assert!(seen.contains(" now ") && !seen.contains("failed"), "{seen}");
    let elsewhere =
        done(&mut once(&["--every", YEAR, "--attempts", "1"], &name, &["sh", "-c", "echo $RELATCH_ATTEMPT"]));
    assert_eq!((elsewhere.status, &*elsewhere.out, &*elsewhere.err), (Some(0), "1\n", ""));
}

#[test]
fn a_record_with_a_time_that_has_no_date_is_shown_and_obeyed() {
    let name = unique_name();
    let at_ms = 253_402_300_800_000_000;
    let now = clock().as_secs();
    was_done(&name, now / 31_536_000 * 31_536_000_000, at_ms);
    let said = format!("it was done at {at_ms}ms after 1970 by client");
    let (status, line) = done(&mut once(&["--every", YEAR], &name, &["true"])).with_a_line();
    assert!(status == 0 && line.contains(&said), "{line}");
    let url = Server::shared().url();
    let came = done(&mut relatch(["--url", &url, "inspect", &name]));
    assert!(came.status == Some(0) && came.out.contains(&format!("done {at_ms}ms after 1970")), "{came:?}");
}

#[test]
fn the_help_of_once_speaks_of_attempts_and_has_all_statuses() {
    let help = |command: &str| {
        let text = done(&mut relatch([command, "--help"])).out;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (run, once) = (help("run"), help("once"));
    for word in ["RELATCH_JOB", "-c STRING", "71 ", "76 ", "69 ", "64 ", "127 ", "126 "] {
        assert!(once.contains(word), "{word}: {once}");
    }
    assert!(!once.contains("the lock"), "{once}");
    assert!(run.contains("71 the system"), "{run}");
    let (status, line) = done(&mut once_every("1M")).with_a_line();
    assert!(status == 64 && line.contains("write m for minutes"), "{line}");
}

fn once_every(every: &str) -> Command {
    once(&["--every", every], "a", &["true"])
}
