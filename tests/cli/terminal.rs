//! `relatch run` at a terminal: the keyboard is the command's while it runs, and a shell's job is one job.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    io::ioctl_fionbio,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::{
    harness::{Server, eventually, unique_name},
    program::{PROGRAM, SOON, done, relatch, shell},
};

/// Ctrl-C and Ctrl-Z, as they are typed.
const INTERRUPT: &str = "\x03";
const STOP: &str = "\x1a";

/// A terminal with a program in front of it. Dropped, the terminal is gone, and the program with it.
struct Terminal {
    keyboard: Option<File>,
    screen: Arc<Mutex<String>>,
    program: Child,
    reader: Option<JoinHandle<()>>,
    is_gone: Arc<AtomicBool>,
}

impl Terminal {
    /// A shell that runs this text.
    fn with(text: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there is one");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let end = || Stdio::from(File::options().read(true).write(true).open(path).expect("it opens"));
        // The first of a session, whose terminal this is.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg("sh").arg("-c").arg(text);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let program = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
        ioctl_fionbio(&master, true).expect("it is a file");
        let keyboard = File::from(master);
        let is_gone = Arc::new(AtomicBool::new(false));
        let mut output = keyboard.try_clone().expect("it is a file");
        let screen = Arc::new(Mutex::new(String::new()));
        let (shown, gone) = (Arc::clone(&screen), Arc::clone(&is_gone));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 1024];
            while !gone.load(Ordering::Relaxed) {
                match output.read(&mut bytes) {
                    Ok(count @ 1..) => {
                        let text = String::from_utf8_lossy(&bytes[..count]).replace('\r', "");
                        shown.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
                    }
                    // At the end of the last program nothing more is there to read, until there is another one.
                    Ok(_) | Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self { keyboard: Some(keyboard), screen, program, reader: Some(reader), is_gone }
    }

    /// It is unplugged.
    fn goes(&mut self) {
        self.is_gone.store(true, Ordering::Relaxed);
        drop(self.keyboard.take());
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic");
        }
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[track_caller]
    fn shows(&self, line: &str) {
        let shown = || self.screen().lines().any(|shown| shown.trim_start_matches(['^', 'C', 'Z']) == line);
        let started = std::time::Instant::now();
        while !shown() {
            assert!(started.elapsed() < SOON, "no {line:?} on the screen: {:?}", self.screen());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn types(&mut self, text: &str) {
        let keyboard = self.keyboard.as_mut().expect("it is there");
        keyboard.write_all(text.as_bytes()).expect("it is typed");
    }

    #[track_caller]
    fn is_over(&mut self) {
        eventually(SOON, || self.program.try_wait().expect("it can be asked").is_some());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.goes();
        let _ = self.program.kill();
        let _ = self.program.wait();
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
fn an_interrupt_ends_the_command_and_not_whoever_called() {
    let name = unique_name();
    let script = format!("trap 'echo hit' INT; {} sh -c 'echo began; exec sleep 60'; echo status $?", run(&name, ""));
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(INTERRUPT);
    terminal.shows("status 130");
    terminal.is_over();
    assert!(!terminal.screen().contains("hit"), "{}", terminal.screen());
    assert!(is_free(&name));
}

#[test]
fn a_command_that_takes_an_interrupt_for_something_else_goes_on() {
    let name = unique_name();
    let command = "sh -c 'trap \"echo taken\" INT; echo began; sleep 60; echo after; exit 3'";
    let mut terminal = Terminal::with(&format!("{} {command}; echo status $?", run(&name, "")));
    terminal.shows("began");
    terminal.types(INTERRUPT);
    terminal.shows("taken");
    terminal.shows("after");
    terminal.shows("status 3");
    terminal.is_over();
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
fn a_job_is_stopped_and_goes_on_in_front_and_in_the_background() {
    for (how, ends) in [("fg >/dev/null", "status 0"), ("bg >/dev/null; wait; (exit $?)", "status 0")] {
        let name = unique_name();
        let command = "sh -c 'echo began; sleep 0.5; echo over'";
        let script = format!("set -m; {} {command}; echo stopped $?; read line; {how}; echo status $?", run(&name, ""));
        let mut terminal = Terminal::with(&script);
        terminal.shows("began");
        terminal.types(STOP);
        terminal.shows("stopped 148");
        assert!(!is_free(&name), "it is held while it can be");
        thread::sleep(Duration::from_millis(700)); // by then it would be over
        assert!(!terminal.screen().contains("over"), "{}", terminal.screen());
        terminal.types("go\n");
        terminal.shows("over");
        terminal.shows(ends);
        terminal.is_over();
    }
}

#[test]
fn a_job_that_is_stopped_for_longer_than_its_lease_does_not_go_on() {
    let name = unique_name();
    let command = "sh -c 'echo began; sleep 0.5; echo over'";
    let script = format!(
        "set -m; {} {command}; echo stopped $?; read line; fg >/dev/null; echo status $?",
        run(&name, "--lease 1s")
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
    let name = unique_name();
    let script = format!("set -m; {} sleep 0.3 & read line; echo caller got $line; wait; echo over", run(&name, ""));
    let mut terminal = Terminal::with(&script);
    eventually(SOON, || !Server::shared().hash(&name).is_empty());
    terminal.types("one\n");
    terminal.shows("caller got one");
    terminal.shows("over");
    terminal.is_over();
}

#[test]
fn a_job_in_the_background_that_wants_the_keyboard_gets_it_in_front() {
    let name = unique_name();
    let command = "sh -c 'read line; echo command got $line'";
    let script = format!("set -m; {} {command} & sleep 1; echo back; fg >/dev/null; echo status $?", run(&name, ""));
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
    let script = format!("exec {} sh -c 'echo began; sleep 0.5; echo over'", run(&name, ""));
    let mut terminal = Terminal::with(&script);
    terminal.shows("began");
    terminal.types(STOP);
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
    let text = format!("{} sh -c 'kill -INT $PPID; sleep 60'; echo status $?", run(&name, ""));
    let came = done(&mut shell(&text));
    assert_eq!(came.out, "status 130\n");
}
