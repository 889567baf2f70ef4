//! `relatch run` at a terminal: the keyboard is the command's while it runs, and a shell's job is one job.

use std::{fs::File, io::Write, process::Command};

use crate::{
    harness::{Server, eventually, unique_name},
    program::{Folder, PROGRAM, SOON, done, relatch, shell, stands_still},
    screen::{INTERRUPT, STOP, Terminal},
};

/// A command that waits until it is told to end, without a process of its own for that: one that is stopped while it starts another one
/// may not be able to say so.
struct Waiting {
    folder: Folder,
    pipe: File,
}

impl Waiting {
    fn new() -> Self {
        let folder = Folder::new();
        let made = Command::new("mkfifo").arg(folder.at("pipe")).status().expect("it starts");
        assert!(made.success());
        // Open at both ends, so that nothing is lost with whoever comes and goes.
        let pipe = File::options().read(true).write(true).open(folder.at("pipe")).expect("it opens");
        Self { folder, pipe }
    }

    fn command(&self) -> String {
        let [pipe, pid] = ["pipe", "pid"].map(|name| self.folder.at(name).display().to_string());
        format!("sh -c 'echo $$ >\"{pid}\"; echo began; read line <\"{pipe}\"; echo over'")
    }

    /// It does nothing until somebody lets it go on, whatever it is told.
    fn stands_still(&self) -> bool {
        stands_still(self.folder.pid("pid"))
    }

    /// It ends as soon as it goes on.
    fn may_end(&mut self) {
        self.pipe.write_all(b"end\n").expect("it is taken");
    }
}

fn run(name: &str, options: &str) -> String {
    format!("'{PROGRAM}' --url '{}' run {options} '{name}'", Server::shared().url())
}

fn is_free(name: &str) -> bool {
    let url = Server::shared().url();
    done(&mut relatch(["--url", &url, "run", "-nq", name, "true"])).in_silence() == 0
}

#[test]
fn an_interrupt_that_ends_the_command_is_seen_by_whoever_called() {
    let name = unique_name();
    let script = format!("trap 'echo hit' INT; {} sh -c 'echo began; exec sleep 60'; echo status $?", run(&name, ""));
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(INTERRUPT);
    terminal.shows("status 130");
    terminal.is_over();
    assert!(terminal.screen().contains("hit"), "{}", terminal.screen());
    assert!(is_free(&name));
}

#[test]
fn an_interrupt_ends_the_loop_around_a_command_that_runs_or_waits() {
    for shell in ["sh", "bash"].into_iter().filter(|shell| std::path::Path::new("/bin").join(shell).exists()) {
        for input in ["", "</dev/null"] {
            let (name, folder) = (unique_name(), Folder::new());
            let rounds = |command: &str| {
                let run = run(&name, "");
                format!("for n in 1 2 3; do echo round $n; {run} {command} {input}; done; echo after")
            };
            std::fs::write(folder.at("runs"), rounds("sh -c 'echo began; exec sleep 60'")).expect("it is written");
            std::fs::write(folder.at("waits"), rounds("true")).expect("it is written");
            let mut holder = Terminal::with(&format!("{shell} '{}'", folder.at("runs").display()));
            holder.shows("began");
            let mut waiting = Terminal::with(&format!("{shell} '{}'", folder.at("waits").display()));
            eventually(SOON, || Server::shared().listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1);
            for terminal in [&mut waiting, &mut holder] {
                terminal.types(INTERRUPT);
                terminal.is_over();
                let screen = terminal.screen();
                assert!(!screen.contains("round 2") && !screen.contains("after"), "{shell} {input}: {screen}");
            }
        }
    }
}

#[test]
fn a_command_that_takes_an_interrupt_for_something_else_goes_on() {
    let name = unique_name();
    let command =
        "sh -c 'trap \"echo taken; hit=1\" INT; echo began; until [ $hit ]; do sleep 0.05; done; echo after; exit 3'";
    let script = format!("trap 'echo hit' INT; {} {command}; echo status $?", run(&name, ""));
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(INTERRUPT);
    terminal.shows("taken");
    terminal.shows("after");
    terminal.shows("status 3");
    terminal.is_over();
    assert!(!terminal.screen().contains("hit"), "{}", terminal.screen());
}

#[test]
fn an_interrupt_ends_the_wait_for_the_lock() {
    let name = unique_name();
    let holder = Terminal::with(&format!("{} sh -c 'echo began; exec sleep 60'", run(&name, "")));
    holder.shows("began");
    let mut terminal = Terminal::with(&format!("trap : INT; {} true; echo status $?", run(&name, "")));
    eventually(SOON, || Server::shared().listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1);
    terminal.types(INTERRUPT);
    terminal.shows("status 130");
    terminal.is_over();
}

#[test]
fn the_keyboard_is_the_commands_and_then_the_callers_again() {
    let command = "sh -c 'read line; echo command got $line'";
    let script = format!("{} {command}; read line; echo caller got $line", run(&unique_name(), ""));
    let mut terminal = Terminal::with(&script);
    terminal.types("one\n");
    terminal.shows("command got one");
    terminal.types("two\n");
    terminal.shows("caller got two");
    terminal.is_over();
}

#[test]
fn a_pager_behind_a_command_has_the_keyboard_until_the_command_wants_it() {
    let name = unique_name();
    let command =
        "sh -c 'touch began; while [ ! -e end ]; do sleep 0.05; done; read line </dev/tty; echo command got $line'";
    let pager =
        "sh -c 'until [ -e began ]; do sleep 0.05; done; read line </dev/tty; echo pager got $line; touch end; cat'";
    let folder = Folder::new();
    let script = format!("cd '{}'; set -m; {} {command} | {pager}; echo over", folder.path().display(), run(&name, ""));
    let mut terminal = Terminal::with(&script);
    eventually(SOON, || folder.at("began").exists());
    terminal.types("one\n");
    terminal.shows("pager got one");
    terminal.types("two\n");
    terminal.shows("command got two");
    terminal.shows("over");
    terminal.is_over();
}

#[test]
fn a_job_is_stopped_and_goes_on_in_front_and_in_the_background() {
    for (how, ends) in [("fg >/dev/null", "status 0"), ("bg >/dev/null; wait; (exit $?)", "status 0")] {
        let name = unique_name();
        let mut waiting = Waiting::new();
        let command = waiting.command();
        let script = format!("set -m; {} {command}; echo stopped $?; read line; {how}; echo status $?", run(&name, ""));
        let mut terminal = Terminal::with(&script);
        terminal.shows("began");
        terminal.types(STOP);
        terminal.shows("stopped 148");
        assert!(!is_free(&name), "it is held while it can be");
        waiting.may_end();
        assert!(waiting.stands_still(), "{}", terminal.screen());
        terminal.types("go\n");
        terminal.shows("over");
        terminal.shows(ends);
        terminal.is_over();
    }
}

#[test]
fn a_command_before_a_pager_stops_with_it_and_before_its_lock_ends() {
    let name = unique_name();
    let mut waiting = Waiting::new();
    let command = waiting.command();
    let script = format!(
        "set -m; {} {command} | cat; echo stopped; read line; fg >/dev/null; echo end",
        run(&name, "--lease 12s")
    );
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(STOP);
    terminal.shows("stopped");
    waiting.may_end();
    assert!(waiting.stands_still(), "{}", terminal.screen());
    terminal.types("go\n");
    terminal.shows("over");
    terminal.shows("end");
    terminal.is_over();
}

#[test]
fn whoever_waits_is_stopped_and_goes_on() {
    let name = unique_name();
    let mut holder = Terminal::with(&format!("{} sh -c 'echo began; read line'", run(&name, "")));
    holder.shows("began");
    let script =
        format!("set -m; {} echo in; echo stopped $?; read line; fg >/dev/null; echo status $?", run(&name, ""));
    let mut terminal = Terminal::with(&script);
    eventually(SOON, || Server::shared().listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1);
    terminal.types(STOP);
    terminal.shows("stopped 148");
    terminal.types("go\n");
    holder.types("end\n");
    terminal.shows("in");
    terminal.shows("status 0");
    terminal.is_over();
}

#[test]
fn a_job_that_is_stopped_for_longer_than_its_lease_does_not_go_on() {
    let name = unique_name();
    let waiting = Waiting::new();
    let command = waiting.command();
    let script = format!(
        "set -m; {} {command}; echo stopped $?; read line; fg >/dev/null; echo status $?",
        run(&name, "--lease 5s")
    );
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(STOP);
    terminal.shows("stopped 148");
    eventually(SOON, || is_free(&name));
    terminal.types("go\n");
    terminal.shows("status 76");
    terminal.is_over();
    assert!(!terminal.screen().lines().any(|line| line == "over"), "{}", terminal.screen());
    assert!(terminal.screen().contains("was lost while the command stood still"), "{}", terminal.screen());
}

#[test]
fn a_job_in_the_background_leaves_the_keyboard_alone() {
    let (name, mut waiting) = (unique_name(), Waiting::new());
    let (run, command) = (run(&name, ""), waiting.command());
    let read = "read line; echo caller got $line";
    let mut terminal = Terminal::with(&format!("set -m; {run} {command} & {read}; wait; echo done; {read}; echo end"));
    terminal.shows("began");
    terminal.types("one\n");
    terminal.shows("caller got one");
    waiting.may_end();
    terminal.shows("over");
    terminal.shows("done");
    terminal.types("two\n");
    terminal.shows("caller got two");
    terminal.shows("end");
    terminal.is_over();
}

#[test]
fn a_command_in_the_background_of_a_script_leaves_it_the_keyboard_and_its_interrupts() {
    let (name, mut waiting) = (unique_name(), Waiting::new());
    let (run, command) = (run(&name, ""), waiting.command());
    let read = "read line; echo caller got $line";
    // Without job control all of it is one group, and in front.
    let mut terminal = Terminal::with(&format!("trap 'echo hit' INT; {run} {command} & {read}; {read}; {read}"));
    terminal.shows("began");
    terminal.types("one\n");
    terminal.shows("caller got one");
    terminal.types(INTERRUPT);
    terminal.shows("hit");
    assert!(!is_free(&name), "what is in the background of a script ignores interrupts");
    waiting.may_end();
    terminal.shows("over");
    eventually(SOON, || is_free(&name));
    terminal.types("two\n");
    terminal.shows("caller got two");
    terminal.is_over();
}

#[test]
fn a_job_in_the_background_that_wants_the_keyboard_gets_it_in_front() {
    let (name, folder) = (unique_name(), Folder::new());
    let command = "sh -c 'echo $$ > pid; read line; echo command got $line'";
    // It stands still for want of it.
    let wants = "until [ -s pid ] && grep -q \") T \" /proc/$(cat pid)/stat; do sleep 0.05; done; echo back";
    let (run, at) = (run(&name, ""), folder.path().display());
    let script = format!("cd '{at}'; set -m; {run} {command} & {wants}; fg >/dev/null; echo status $?");
    let mut terminal = Terminal::with(&script);
    terminal.shows("back");
    terminal.types("one\n");
    terminal.shows("command got one");
    terminal.shows("status 0");
    terminal.is_over();
}

#[test]
fn where_nobody_could_let_it_go_on_nothing_stops() {
    let name = unique_name();
    let mut waiting = Waiting::new();
    let mut terminal = Terminal::with(&format!("exec {} {}", run(&name, ""), waiting.command()));
    terminal.shows("began");
    terminal.types(STOP);
    // What is written before that is seen to may be gone with it.
    eventually(SOON, || terminal.screen().contains("^Z"));
    waiting.may_end();
    terminal.shows("over");
    terminal.is_over();
}

#[test]
fn a_terminal_that_is_gone_ends_all_of_it() {
    let name = unique_name();
    let mut terminal = Terminal::with(&format!("exec {} sh -c 'echo began; exec sleep 60'", run(&name, "")));
    terminal.shows("began");
    terminal.goes();
    terminal.is_over();
    eventually(SOON, || is_free(&name));
}

#[test]
fn without_a_terminal_an_interrupt_is_a_signal() {
    let name = unique_name();
    let text = format!("{} sh -c 'kill -INT $PPID; while :; do :; done'; echo status $?", run(&name, ""));
    let came = done(&mut shell(&text));
    assert_eq!(came.out, "status 130\n");
}

#[test]
fn a_job_in_the_background_says_its_line_where_a_terminal_stops_whoever_writes_from_there() {
    let name = unique_name();
    let mut holder = Terminal::with(&format!("{} sh -c 'echo began; read line'", run(&name, "")));
    holder.shows("began");
    let script = format!("set -m; stty tostop; {} true & read line; stty -tostop; echo end", run(&name, "-n"));
    let mut terminal = Terminal::with(&script);
    terminal.shows(&format!("relatch: lock \"{name}\" is held by somebody else"));
    terminal.types("go\n");
    terminal.shows("end");
    terminal.is_over();
    holder.types("end\n");
    holder.is_over();
}
