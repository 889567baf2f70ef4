//! How a run ends that is told to, or killed: signals go on to the command, and the command goes with us.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    harness::{
        Server, eventually,
        proxy::{Action, Proxy, Rule, matching::script},
        unique_name,
    },
    program::{Folder, PROGRAM, Running, SOON, after, now, relatch, runs, shell, stands_still},
};

fn run(folder: &Folder, options: &[&str], name: &str, script: &str) -> Command {
    let url = Server::shared().url();
    let words = ["--url", &url, "run"].into_iter().chain(options.iter().copied());
    let mut command = relatch(words.chain([name, "sh", "-c", script]));
    command.current_dir(folder.path());
    command
}

#[test]
fn a_signal_is_passed_on_and_the_command_says_what_becomes_of_it() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        let (name, folder) = (unique_name(), Folder::new());
        let number = signal.as_raw();
        let script = format!("trap 'echo got; exit 9' {number}; echo x > began; while :; do sleep 0.05; done");
        let running = Running::start(&mut run(&folder, &[], &name, &script));
        folder.read("began");
        running.signal(signal);
        let came = running.came();
        assert_eq!((came.status, &*came.out), (Some(9), "got\n"), "{signal:?}: {}", came.err);
    }
}

#[test]
fn a_command_without_a_word_about_it_is_ended_by_the_signal() {
    let (name, folder) = (unique_name(), Folder::new());
    let running = Running::start(&mut run(&folder, &[], &name, "echo x > began; exec sleep 60"));
    folder.read("began");
    running.signal(Signal::TERM);
    assert_eq!(running.came().in_silence(), 143);
    assert_eq!(Server::shared().hash(&name).len(), 0, "the lock is free");
}

#[test]
fn a_command_that_ignores_term_is_waited_for_while_its_lock_is_held() {
    let (name, folder) = (unique_name(), Folder::new());
    let script = "trap '' TERM; echo x > began; while [ ! -e end ]; do sleep 0.05; done; exit 4";
    let mut running = Running::start(&mut run(&folder, &["--lease", "3s"], &name, script));
    folder.read("began");
    let told = Instant::now();
    running.signal(Signal::TERM);
    after(told, Duration::from_millis(3500));
    assert!(!running.is_over());
    assert_eq!(Server::shared().hash(&name).len(), 1, "the lock is renewed meanwhile");
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(running.came().in_silence(), 4);
}

#[test]
fn the_lock_of_a_command_that_is_told_to_end_is_held_until_all_of_its_group_has_tidied_up() {
    let (name, folder) = (unique_name(), Folder::new());
    let inner = "trap \"until [ -e end ]; do sleep 0.01; done; date +%s%N > tidied; exit\" TERM; echo x > began; while :; do sleep 0.01; done";
    let said = std::fs::File::create(folder.at("said")).expect("it is written");
    let here = Running::saying_to(said, &mut run(&folder, &[], &name, &format!("sh -c '{inner}'; echo next")));
    folder.read("began");
    let there = Running::start(&mut run(&folder, &[], &name, "date +%s%N > there"));
    eventually(SOON, || Server::shared().listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1);
    here.signal(Signal::TERM);
    // It says so once that takes a while. A shell may have a word of its own before, about what was ended.
    let line = format!("relatch: lock \"{name}\" is held until the end of what the command has left at work");
    let times = || folder.read("said").lines().filter(|said| *said == line).count();
    eventually(SOON, || times() == 1);
    assert!(!folder.at("there").exists());
    std::fs::write(folder.at("end"), "").expect("it is written");
    let came = here.came();
    assert_eq!((came.status, &*came.out, times()), (Some(143), "", 1), "{}", folder.read("said"));
    assert_eq!(there.came().in_silence(), 0);
    assert!(folder.time("tidied") < folder.time("there"));
}

#[test]
fn two_more_signals_end_the_wait_for_what_a_command_has_left() {
    let (name, folder) = (unique_name(), Folder::new());
    let inner = "trap \"echo >> heard\" TERM USR1; echo $$ > pid; while [ ! -e end ]; do sleep 0.01; done";
    let mut running =
        Running::start(&mut run(&folder, &[], &name, &format!("sh -c '{inner}' & echo $$ > shell; wait")));
    let (rest, command) = (folder.pid("pid"), folder.pid("shell"));
    let heard = |times| {
        eventually(SOON, || {
            std::fs::read_to_string(folder.at("heard")).is_ok_and(|heard| heard.lines().count() == times)
        });
    };
    running.signal(Signal::TERM);
    eventually(SOON, || !runs(command));
    heard(1);
    // What means something else to the command, and the first of the two, go on to the rest, and we wait.
    for (signal, times) in [(Signal::USR1, 2), (Signal::USR1, 3), (Signal::TERM, 4)] {
        running.signal(signal);
        heard(times);
        assert!(!running.is_over() && runs(rest), "{signal:?}");
    }
    running.signal(Signal::TERM);
    eventually(SOON, || running.is_over());
    assert!(runs(rest));
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(running.came().status, Some(143));
}

#[test]
fn whoever_waits_is_ended_by_a_signal_and_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (name, folder) = (unique_name(), Folder::new());
        let holder = Running::start(&mut run(&folder, &[], &name, "echo x > began; exec sleep 60"));
        folder.read("began");
        let waiting = Running::start(&mut run(&folder, &[], &name, "echo never"));
        let channel = format!("redisson_lock__channel:{{{name}}}");
        eventually(SOON, || Server::shared().listeners(&channel) == 1);
        waiting.signal(signal);
        assert_eq!(waiting.came().in_silence(), 128 + signal.as_raw());
        eventually(SOON, || Server::shared().listeners(&channel) == 0);
        holder.signal(Signal::TERM);
        assert_eq!(holder.came().in_silence(), 143);
    }
}

#[test]
fn what_is_ignored_around_us_is_ignored_by_the_command_too() {
    let (name, folder) = (unique_name(), Folder::new());
    let script = "echo $$ > pid; while [ ! -e end ]; do sleep 0.05; done; echo well";
    let text =
        format!("trap '' HUP; exec '{PROGRAM}' --url '{}' run '{name}' sh -c '{script}'", Server::shared().url());
    let running = Running::start(shell(&text).current_dir(folder.path()));
    let command = folder.pid("pid");
    running.signal(Signal::HUP);
    kill_process(command, Signal::HUP).expect("it runs");
    std::fs::write(folder.at("end"), "").expect("it is written");
    let came = running.came();
    assert_eq!((came.status, &*came.out, &*came.err), (Some(0), "well\n", ""));
}

#[test]
fn what_is_blocked_around_us_is_heard_all_the_same_and_blocked_for_the_command_too() {
    const BLOCKING: &str = "exec env --block-signal=CHLD,CONT,INT,TERM,USR1";
    const LOOK: &str = "grep SigBlk /proc/self/status";
    let (name, url, folder) = (unique_name(), Server::shared().url(), Folder::new());
    // With a lease of this length nothing else wakes us.
    let ours = format!("'{PROGRAM}' --url '{url}' run --lease 5m --on-loss ignore");
    let came = Running::start(&mut shell(&format!("{BLOCKING} {ours} '{name}' {LOOK}"))).came();
    let without_us = Running::start(&mut shell(&format!("{BLOCKING} {LOOK}"))).came();
    assert_eq!((came.status, &*came.out, &*came.err), (Some(0), &*without_us.out, ""));
    let holder = Running::start(&mut run(&folder, &[], &name, "echo x > began; exec sleep 60"));
    folder.read("began");
    let waiting = Running::start(&mut shell(&format!("{BLOCKING} {ours} '{name}' echo never")));
    eventually(SOON, || Server::shared().listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1);
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.came().in_silence(), 143);
    holder.signal(Signal::TERM);
    assert_eq!(holder.came().in_silence(), 143);
}

#[test]
fn the_command_of_a_killed_run_is_gone_with_it_and_its_lock_within_the_lease() {
    let (server, name, folder) = (Server::shared(), unique_name(), Folder::new());
    let script = "trap '' TERM HUP; sleep 60 & echo $! > grandchild; echo $$ > pid; wait";
    let mut running = Running::start(&mut run(&folder, &["--lease", "3s"], &name, script));
    let (command, grandchild) = (folder.pid("pid"), folder.pid("grandchild"));
    assert_eq!(server.hash(&name).len(), 1);
    running.signal(Signal::KILL);
    eventually(SOON, || !runs(command));
    // That is said where it is promised: only the command itself ends with us.
    assert!(runs(grandchild));
    kill_process(grandchild, Signal::KILL).expect("it runs");
    eventually(SOON, || running.is_over());
    // Nobody renews it any more.
    let ends_by = now() + Duration::from_secs(3);
    eventually(SOON, || now() > ends_by);
    assert_eq!(server.ends_at(&name), None);
}

/// A server whose answer to a release never comes, and a command that ends with status 3 when it is told to.
struct Unanswered {
    name: String,
    folder: Folder,
    running: Running,
    command: Pid,
    release: Rule,
    _server: Server,
    _proxy: Proxy,
}

impl Unanswered {
    fn new() -> Self {
        let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
        let proxy = Proxy::to(&server);
        let release = proxy.rule(script("release"), Action::HoldReply);
        let script = "echo $$ > pid; while [ ! -e end ]; do sleep 0.05; done; exit 3";
        let words = ["--url", &proxy.url(), "run", &name, "sh", "-c", script];
        let running = Running::start(relatch(words).current_dir(folder.path()));
        let command = folder.pid("pid");
        Self { name, folder, running, command, release, _server: server, _proxy: proxy }
    }

    fn ends(&self) {
        std::fs::write(self.folder.at("end"), "").expect("it is written");
        eventually(SOON, || !runs(self.command));
    }

    fn was_not_waited_for(self) {
        let said = format!("lock \"{}\" was not released, it ends by itself, within 30s", self.name);
        assert_eq!(self.running.came().with_a_line(), (3, said));
    }
}

#[test]
fn a_second_signal_ends_the_wait_for_a_server_that_does_not_answer() {
    let run = Unanswered::new();
    run.ends();
    run.release.nth_blocking(1);
    for signal in [Signal::TERM, Signal::INT] {
        run.running.signal(signal);
    }
    run.was_not_waited_for();
}

#[test]
fn two_signals_that_come_before_it_is_seen_that_the_command_is_over_end_the_wait_as_well() {
    let run = Unanswered::new();
    run.running.signal(Signal::STOP);
    eventually(SOON, || stands_still(run.running.pid()));
    run.ends();
    for signal in [Signal::TERM, Signal::INT, Signal::CONT] {
        run.running.signal(signal);
    }
    run.was_not_waited_for();
}
