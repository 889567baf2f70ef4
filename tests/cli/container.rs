//! The program as the first process of a container: nobody else collects what is left there, and no signal ends it by itself.

use std::process::{Command, Stdio};

use crate::{
    harness::{Server, eventually, unique_name},
    program::{Folder, PROGRAM, Running, SOON, shell},
    screen::{INTERRUPT, Terminal},
};

const CONTAINER: &str = "unshare --pid --fork --kill-child --mount-proc";

/// Whether this user may have one.
fn may() -> bool {
    let mut may = Command::new("sh");
    may.args(["-c", &format!("{CONTAINER} true")]).stdout(Stdio::null()).stderr(Stdio::null());
    let may = may.status().is_ok_and(|status| status.success());
    if !may {
        println!("left out: only root on Linux may begin a container");
    }
    may
}

#[test]
fn an_interrupt_ends_who_looks() {
    if !may() {
        return;
    }
    let url = Server::shared().url();
    let mut terminal = Terminal::with(&format!("{CONTAINER} '{PROGRAM}' --url '{url}' inspect --watch a"));
    eventually(SOON, || terminal.screen().contains("Ctrl-C ends"));
    terminal.types(INTERRUPT);
    terminal.is_over();
}

#[test]
fn what_a_command_leaves_is_collected_while_it_runs() {
    if !may() {
        return;
    }
    let folder = Folder::new();
    // The inner ones have nobody any more when they end.
    let script = "for n in 1 2 3; do (sh -c 'echo $$ >> orphans' &); done; \
                  until [ $(cat orphans | wc -l) = 3 ]; do sleep 0.01; done; \
                  for orphan in $(cat orphans); do while [ -e /proc/$orphan ]; do sleep 0.01; done; done; echo collected";
    let url = Server::shared().url();
    let text = format!("exec {CONTAINER} '{PROGRAM}' --url '{url}' run '{}' sh -c \"$0\"", unique_name());
    let came = Running::start(shell(&text).arg(script).current_dir(folder.path())).came();
    assert_eq!((came.status, &*came.out), (Some(0), "collected\n"), "{}", came.err);
}

#[test]
fn an_interrupt_that_ends_the_command_is_status_130_where_it_does_not_end_us() {
    if !may() {
        return;
    }
    let run = format!("'{PROGRAM}' --url '{}' run '{}'", Server::shared().url(), unique_name());
    let script =
        format!("trap : INT; {CONTAINER} setsid --ctty {run} sh -c 'echo began; exec sleep 60'; echo status $?");
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(INTERRUPT);
    terminal.shows("status 130");
    terminal.is_over();
}
