//! `relatch run` where the lock is lost: the command is over before anybody else's begins.

use std::{process::Command, time::Duration};

use rustix::process::Signal;

use crate::{
    harness::{
        Server, eventually,
        proxy::{Action, Door, Event, Proxy, matching::script},
        unique_name,
    },
    program::{Came, Folder, Running, SOON, done, now, relatch, runs, stands_still},
};

/// Writes when it was told to stop, and goes on; writes that it lives, again and again.
const STUBBORN: &str =
    "trap 'date +%s%N >> told' TERM; echo $$ > pid; while :; do date +%s%N >> alive; sleep 0.01; done";

/// A lease of which a third is time enough for a busy machine, and passes soon.
const ROOMY: &str = "9s";

fn run(folder: &Folder, url: &str, options: &[&str], name: &str, script: &str) -> Command {
    let words = ["--url", url, "run"].into_iter().chain(options.iter().copied());
    let mut command = relatch(words.chain([name, "sh", "-c", script]));
    command.current_dir(folder.path());
    command
}

/// The one line of ours beside what a shell says of its own commands that were told to stop with it.
#[track_caller]
fn our_line(came: &Came) -> &str {
    let mut lines = came.err.lines().filter_map(|line| line.strip_prefix("relatch: "));
    let line = lines.next().unwrap_or_else(|| panic!("nothing was said: {came:?}"));
    assert_eq!(lines.next(), None);
    line
}

/// Nothing passes any more, and nobody is told.
fn cut(proxy: &Proxy) {
    proxy.door(Door::Silent);
    proxy.silence_all();
}

#[test]
fn a_command_behind_a_cut_network_is_told_in_time_and_gone_before_another_begins() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    let options = ["--lease", "6s", "--grace", "2s"];
    let here = Running::start(&mut run(&folder, &proxy.url(), &options, &name, STUBBORN));
    let command = folder.pid("pid");
    let began = "date +%s%N > began";
    let there = Running::start(&mut run(&folder, &server.url(), &options, &name, began));
    eventually(SOON, || server.listeners(&format!("redisson_lock__channel:{{{name}}}")) > 0);
    cut(&proxy);
    let cut_at = now();
    // What passed before is all that the server will hear: this is the end of it.
    let ends_at = server.ends_at(&name).expect("it has a TTL");
    let came = here.came();
    assert!(!runs(command));
    assert_eq!(there.came().in_silence(), 0);
    let [told, last, other] = ["told", "alive", "began"].map(|name| folder.time(name));
    let since = |at: Duration| at.saturating_sub(cut_at).as_millis();
    println!(
        "cut; told to stop after {} ms, last sign of life after {} ms, the lock's end after {} ms, the other began after {} ms",
        since(told),
        since(last),
        since(ends_at),
        since(other)
    );
    assert!(told < ends_at, "told {told:?}, the lock's end {ends_at:?}");
    assert!(last < ends_at, "last {last:?}, the lock's end {ends_at:?}");
    assert!(last < other, "last {last:?}, the other {other:?}");
    assert_eq!(came.status, Some(76));
    let line = our_line(&came);
    assert!(line.starts_with(&format!("lock \"{name}\" ends in ")), "{line}");
    assert!(line.ends_with(": the command is told to stop"), "{line}");
}

#[test]
fn a_command_that_stops_when_told_has_its_time_for_it() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "trap 'sleep 0.3; echo tidied; exit 0' TERM; echo x > began; while :; do sleep 0.01; done";
    let running = Running::start(&mut run(&folder, &server.url(), &["--lease", ROOMY], &name, script));
    folder.read("began");
    server.delete(&name);
    let came = running.came();
    assert_eq!((came.status, &*came.out), (Some(76), "tidied\n"));
    let said = format!("lock \"{name}\" was lost: the server no longer knows the hold: the command is told to stop");
    assert_eq!(our_line(&came), said);
}

#[test]
fn all_of_a_group_is_gone_with_the_lock() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 0.01; done' & echo $$ > pid; wait";
    let options = ["--lease", "3s", "--grace", "500ms"];
    let running = Running::start(&mut run(&folder, &server.url(), &options, &name, script));
    let (command, grandchild) = (folder.pid("pid"), folder.pid("grandchild"));
    server.delete(&name);
    assert_eq!(running.came().status, Some(76));
    assert!(!runs(command) && !runs(grandchild));
}

#[test]
fn a_command_is_killed_without_a_word_if_that_is_wanted() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let options = ["--lease", "3s", "--on-loss", "kill"];
    let running = Running::start(&mut run(&folder, &server.url(), &options, &name, STUBBORN));
    let command = folder.pid("pid");
    server.delete(&name);
    let (status, line) = running.came().with_a_line();
    assert_eq!(status, 76);
    assert!(line.ends_with("the server no longer knows the hold: the command is killed"), "{line}");
    assert!(!folder.at("told").exists());
    assert!(!runs(command));
}

#[test]
fn a_command_goes_on_without_its_lock_if_that_is_wanted() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.01; done; exit 5";
    let options = ["--lease", "3s", "--on-loss", "ignore"];
    let said = std::fs::File::create(folder.at("said")).expect("it is written");
    let mut running = Running::saying_to(said, &mut run(&folder, &server.url(), &options, &name, script));
    folder.read("began");
    server.delete(&name);
    assert_eq!(done(&mut run(&folder, &server.url(), &["-n"], &name, "true")).in_silence(), 0);
    let line = folder.read("said");
    assert!(line.ends_with("the server no longer knows the hold: the command goes on"), "{line}");
    assert!(!running.is_over());
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(running.came().status, Some(5));
    assert_eq!(folder.read("said"), line, "that was all");
}

#[test]
fn a_command_that_ends_with_its_lock_lost_says_so() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.01; done";
    let running = Running::start(&mut run(&folder, &server.url(), &[], &name, script));
    folder.read("began");
    server.delete(&name);
    std::fs::write(folder.at("end"), "").expect("it is written");
    let (status, line) = running.came().with_a_line();
    assert_eq!((status, line), (76, format!("lock \"{name}\" was lost: the server no longer knows the hold")));
}

#[test]
fn a_command_is_over_when_its_time_is() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let options = ["--max-hold", "2s"];
    let here = Running::start(&mut run(&folder, &server.url(), &options, &name, STUBBORN));
    folder.pid("pid");
    let over_by = now() + Duration::from_secs(2);
    let there = Running::start(&mut run(&folder, &server.url(), &[], &name, "date +%s%N > began"));
    assert_eq!(here.came().status, Some(76));
    assert_eq!(there.came().in_silence(), 0);
    let [told, last, other] = ["told", "alive", "began"].map(|name| folder.time(name));
    assert!(told < last && last < other, "told {told:?}, last {last:?}, the other {other:?}");
    assert!(last < over_by, "last {last:?}, its time is over {over_by:?}");
}

#[test]
fn a_command_with_a_token_is_over_when_its_time_is_and_the_next_has_a_greater_one() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let options = ["--fenced", "--max-hold", "2s"];
    let script = format!("echo $RELATCH_FENCE > fence; {STUBBORN}");
    let here = Running::start(&mut run(&folder, &server.url(), &options, &name, &script));
    folder.pid("pid");
    let over_by = now() + Duration::from_secs(2);
    let then = "date +%s%N > began; echo $RELATCH_FENCE > next";
    let there = Running::start(&mut run(&folder, &server.url(), &["--fenced"], &name, then));
    assert_eq!(here.came().status, Some(76));
    assert_eq!(there.came().in_silence(), 0);
    let [told, last, other] = ["told", "alive", "began"].map(|name| folder.time(name));
    assert!(told < last && last < other && last < over_by, "told {told:?}, last {last:?}, the other {other:?}");
    assert_eq!((folder.read("fence"), folder.read("next")), ("1".to_owned(), "2".to_owned()));
}

/// How many connections it has refused.
fn refused(proxy: &Proxy) -> usize {
    proxy.log().iter().filter(|entry| matches!(entry.event, Event::Refused)).count()
}

#[test]
fn a_network_that_comes_back_in_time_ends_nothing() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.01; done; exit 3";
    let running = Running::start(&mut run(&folder, &proxy.url(), &["--lease", "12s"], &name, script));
    folder.read("began");
    let before = server.ends_at(&name).expect("it has a TTL");
    proxy.door(Door::Refusing);
    proxy.cut_all();
    // Renewed in time, two thirds of the lease are left at least: where that is less, the first renewal has fallen into it.
    let due = before - Duration::from_millis(7500);
    eventually(SOON, || now() > due && refused(&proxy) > 0);
    assert_eq!(server.ends_at(&name), Some(before));
    proxy.door(Door::Open);
    eventually(SOON, || server.ends_at(&name).is_some_and(|now| now > before));
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(running.came().in_silence(), 3);
}

#[test]
fn whoever_waits_waits_on_through_an_outage() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.05; done";
    let here = Running::start(&mut run(&folder, &server.url(), &[], &name, script));
    folder.read("began");
    let said = std::fs::File::create(folder.at("said")).expect("it is written");
    let there = Running::saying_to(said, &mut run(&folder, &proxy.url(), &[], &name, "echo in"));
    eventually(SOON, || server.listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1);
    proxy.door(Door::Refusing);
    proxy.cut_all();
    let line = folder.read("said");
    assert!(line.starts_with(&format!("relatch: lock \"{name}\": ")) && line.ends_with("; waiting on"), "{line}");
    std::fs::write(folder.at("end"), "").expect("it is written");
    assert_eq!(here.came().in_silence(), 0);
    proxy.door(Door::Open);
    let came = there.came();
    assert_eq!((came.status, &*came.out), (Some(0), "in\n"));
    assert_eq!(folder.read("said"), line, "that was all");
}

#[test]
fn whoever_cannot_say_that_the_lock_is_free_says_when_it_is() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.01; done; exit 3";
    let running = Running::start(&mut run(&folder, &proxy.url(), &["--lease", "12s"], &name, script));
    folder.read("began");
    cut(&proxy);
    std::fs::write(folder.at("end"), "").expect("it is written");
    let (status, line) = running.came().with_a_line();
    assert_eq!(status, 3);
    assert!(line.starts_with(&format!("could not release lock \"{name}\": the server is unreachable")), "{line}");
    assert!(line.ends_with(&format!("lock \"{name}\": it ends by itself, within 12s")), "{line}");
}

#[test]
fn a_command_is_gone_in_time_though_nobody_reads_what_is_said_of_it() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    // A pipe that is full: whoever writes to it waits for ever.
    let script = "(yes | head -c 1000000 >&2) & exec sh -c \"$0\"";
    let words = ["--url", &proxy.url(), "run", "--lease", "3s", &name, "sh", "-c", script, STUBBORN];
    let mut command = relatch(words);
    let mut child = command.current_dir(folder.path()).stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let pid = folder.pid("pid");
    cut(&proxy);
    let ends_at = server.ends_at(&name).expect("it has a TTL");
    eventually(SOON, || !runs(pid));
    let last = folder.time("alive");
    assert!(last < ends_at, "last {last:?}, the lock's end {ends_at:?}");
    eventually(SOON, || child.try_wait().expect("it can be asked").is_some());
    assert_eq!(child.wait().expect("it has ended").code(), Some(76));
}

#[test]
fn a_command_is_never_begun_without_its_lock() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    let look = proxy.rule(script("inspect"), Action::HoldReply);
    // The look has a quarter of it.
    let options = ["--lease", "8s", "--on-loss", "ignore"];
    let running = Running::start(&mut run(&folder, &proxy.url(), &options, &name, "echo x > began"));
    look.nth_blocking(1);
    // As a machine that is asleep.
    running.signal(Signal::STOP);
    eventually(SOON, || server.ends_at(&name).is_none());
    running.signal(Signal::CONT);
    let (status, line) = running.came().with_a_line();
    let said = format!("lock \"{name}\" ended before the command began: nothing was run");
    assert_eq!((status, line), (76, said));
    assert!(!folder.at("began").exists());
}

#[test]
fn a_server_that_is_slow_to_say_who_holds_a_lock_keeps_no_command_from_beginning_in_time() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let proxy = Proxy::to(&server);
    let look = proxy.rule(script("inspect"), Action::HoldReply);
    let options = ["--lease", "4s", "--on-loss", "ignore"];
    let script = "echo x > began; while [ ! -e end ]; do sleep 0.05; done; echo ${RELATCH_HOLDER-nobody}";
    let running = Running::start(&mut run(&folder, &proxy.url(), &options, &name, script));
    folder.read("began");
    look.let_go();
    std::fs::write(folder.at("end"), "").expect("it is written");
    let came = running.came();
    assert_eq!((came.status, &*came.out), (Some(0), "nobody\n"), "{}", came.err);
    assert!(came.err.contains("RELATCH_HOLDER is not set"), "{}", came.err);
}

#[test]
fn a_call_ends_though_nobody_reads_what_it_says() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let holder = Running::start(&mut run(&folder, &server.url(), &[], &name, "echo x > began; exec sleep 60"));
    folder.read("began");
    let (_reader, full) = full_pipe();
    let other = unique_name();
    for (words, status) in [(&["-n", &*name, "true"][..], 75), (&[&*other, "no-such-command-at-all"], 127)] {
        let mut command = relatch(["--url", &server.url(), "run"].iter().copied().chain(words.iter().copied()));
        let mut child = command.stderr(full.try_clone().expect("it is a file")).spawn().expect("it starts");
        eventually(SOON, || child.try_wait().expect("it can be asked").is_some());
        assert_eq!(child.wait().expect("it has ended").code(), Some(status), "{words:?}");
    }
    assert_eq!(server.hash(&other).len(), 0, "the lock is free");
    holder.signal(Signal::TERM);
    assert_eq!(holder.came().status, Some(143));
}

/// One that takes nothing more: whoever writes to it waits for ever.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("there is one");
    rustix::io::ioctl_fionbio(&writer, true).expect("it is a file");
    while std::io::Write::write(&mut writer, &[b'x'; 512]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("it is a file");
    (reader, writer)
}

#[test]
fn a_command_that_stands_still_is_told_to_stop_and_can_hear_it() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let script = "trap 'echo tidied; exit 0' TERM; echo $$ > pid; kill -STOP $$; while :; do sleep 0.01; done";
    let running = Running::start(&mut run(&folder, &server.url(), &["--lease", ROOMY], &name, script));
    let command = folder.pid("pid");
    eventually(SOON, || stands_still(command));
    server.delete(&name);
    let came = running.came();
    assert_eq!((came.status, &*came.out), (Some(76), "tidied\n"), "{}", came.err);
}

#[test]
fn what_a_command_started_has_its_time_to_stop_though_the_command_is_over() {
    let (server, name, folder) = (Server::own(), unique_name(), Folder::new());
    let inner = "trap \"sleep 0.3; echo tidied; exit 0\" TERM; echo x > began; while :; do sleep 0.01; done";
    let script = format!("sh -c '{inner}' & exec sleep 60");
    let running = Running::start(&mut run(&folder, &server.url(), &["--lease", ROOMY], &name, &script));
    folder.read("began");
    server.delete(&name);
    let came = running.came();
    assert_eq!((came.status, &*came.out), (Some(76), "tidied\n"), "{}", came.err);
}
