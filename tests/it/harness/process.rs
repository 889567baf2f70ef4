//! Other processes: copies of this test binary that play a role instead of running the tests.
//!
//! A role is a function in `ROLES`. It talks with the test that spawned it by lines, and never outlives it.

use std::{
    env,
    io::{BufRead, BufReader, Write, stdin, stdout},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio, exit},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

#[cfg(target_os = "linux")]
use super::hosts::Hosts;
use crate::ROLES;

/// How long a line may take when the test names no bound.
const LINE: Duration = Duration::from_secs(20);
/// The variables of a child: its role, and the role's arguments.
const ROLE: &str = "RELATCH_TEST_ROLE";
const ARGS: &str = "RELATCH_TEST_ARGS";
/// Between two arguments in one variable.
const BETWEEN: char = '\x1f';
/// Before each line of a role, since the test runner writes to the same pipe.
const OURS: &str = "@ ";

/// What a child can do: a name, and the function that runs instead of the tests.
pub(crate) type Role = (&'static str, fn(&mut Parent, &[String]));

/// A child that plays a role. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    executor: Option<Executor>,
    printed: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts a copy of this binary in a role.
    pub(crate) fn spawn(role: &str, args: &[&str]) -> Self {
        Self::of(Command::new(this_program()), role, args)
    }

    /// One to which the names of hosts are those.
    #[cfg(target_os = "linux")]
    pub(crate) fn spawn_among(hosts: &Hosts, role: &str, args: &[&str]) -> Self {
        Self::of(hosts.command(&this_program()), role, args)
    }

    fn of(mut program: Command, role: &str, args: &[&str]) -> Self {
        assert!(ROLES.iter().any(|(name, _)| *name == role), "no role is called {role}");
        assert!(!args.iter().any(|arg| arg.contains(BETWEEN)), "an argument has the separator in it");
        let mut child = program
            .args(["harness::process::child_process_entry", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGS, args.join(&BETWEEN.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Away from a Ctrl-C: the end of its pipe tells the child.
            .process_group(0)
            .spawn()
            .expect("the test binary starts again");
        let stdin = child.stdin.take().expect("the child's input is piped");
        let stdout = BufReader::new(child.stdout.take().expect("the child's output is piped"));
        let stderr = BufReader::new(child.stderr.take().expect("the child's errors are piped"));
        let (sender, lines) = channel();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (out, err) = (Arc::clone(&printed), Arc::clone(&printed));
        let said = thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                match line.strip_prefix(OURS) {
                    // Nobody need listen to the end.
                    Some(line) => drop(sender.send(line.to_owned())),
                    None => out.lock().unwrap_or_else(PoisonError::into_inner).extend(not_the_runners(&line)),
                }
            }
        });
        let cried = thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                eprintln!("{line}");
                err.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Self { child, stdin, lines, executor: None, printed, readers: vec![said, cried] }
    }

    /// Sends the child a line.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("the child listens");
    }

    /// The child's next line.
    #[track_caller]
    pub(crate) fn hear(&self) -> String {
        self.hear_within(LINE).expect("the child says something in time")
    }

    /// The child's next line, unless it says nothing for that long. Panics when the child has ended.
    #[track_caller]
    pub(crate) fn hear_within(&self, within: Duration) -> Option<String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the child has ended"),
        }
    }

    /// Stops the child where it stands, as a long pause of its machine would, and waits until it stands.
    pub(crate) fn freeze(&mut self) {
        let pid = Pid::from_child(&self.child);
        self.executor.get_or_insert_with(|| Executor::of(pid));
        kill_process(pid, Signal::STOP).expect("the child takes the signal");
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).expect("the child stops");
    }

    /// Lets a frozen child go on.
    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("the child takes the signal");
    }

    /// Ends the child with no chance to clean up, frozen or not, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child is gone");
    }

    /// Waits until the child has ended by itself, and says whether its role came to its end without a panic.
    pub(crate) fn ended_well(&mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }

    /// Everything that the ended child wrote to its output or its errors and that is neither a line for us nor the test
    /// runner's own.
    pub(crate) fn printed(&mut self) -> Vec<String> {
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader does not panic");
        }
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn this_program() -> PathBuf {
    env::current_exe().expect("the test binary has a path")
}

/// What is left of a line without what the test runner writes around a role that comes to its end.
fn not_the_runners(line: &str) -> Option<String> {
    // It leaves this line open while the role plays.
    let line = line.strip_prefix("test harness::process::child_process_entry ... ").unwrap_or(line);
    let around = ["running 1 test", "test result: ok."];
    let runners = line.is_empty() || line == "ok" || around.iter().any(|start| line.starts_with(start));
    (!runners).then(|| line.to_owned())
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shell that kills a frozen child when this process is gone: a frozen one cannot notice that by itself.
#[derive(Debug)]
struct Executor {
    shell: Child,
    stay: ChildStdin,
}

impl Executor {
    fn of(child: Pid) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", r#"trap '' HUP INT TERM; read -r stay || kill -KILL "$1""#, "executor"])
            .arg(child.as_raw_nonzero().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell starts");
        let stay = shell.stdin.take().expect("the shell's input is piped");
        Self { shell, stay }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // The child was collected, and its number may be somebody else's by now.
        let _ = writeln!(self.stay, "stay");
        let _ = self.shell.wait();
    }
}

/// What a role has instead of a test: the process that spawned it.
#[derive(Debug)]
pub(crate) struct Parent {
    lines: Receiver<String>,
}

impl Parent {
    /// Sends the parent a line.
    pub(crate) fn say(&mut self, line: &str) {
        let mut out = stdout().lock();
        // The runner may have left its own line open.
        let written = write!(out, "\n{OURS}{line}\n").and_then(|()| out.flush());
        written.expect("the parent listens");
    }

    /// The parent's next line.
    pub(crate) fn hear(&mut self) -> String {
        self.lines.recv().expect("the end of the lines is the end of this process")
    }
}

/// Where a child starts; for the tests themselves there is nothing to do here.
#[test]
fn child_process_entry() {
    let Ok(role) = env::var(ROLE) else { return };
    let args = env::var(ARGS).unwrap_or_default();
    let args: Vec<String> = args.split(BETWEEN).filter(|arg| !arg.is_empty()).map(str::to_owned).collect();
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        // The parent is gone.
        exit(1);
    });
    let (_, play) = ROLES.iter().find(|(name, _)| *name == role).expect("the parent looked the role up");
    play(&mut Parent { lines }, &args);
}

/// Roles for the tests of this file.
pub(crate) mod roles {
    use super::{Parent, Process};
    use crate::harness::{Server, clock::monotonic};

    /// Says its arguments, then every line that it hears, until the line is `end`.
    pub(crate) fn echo(parent: &mut Parent, args: &[String]) {
        parent.say(&args.join("+"));
        loop {
            let line = parent.hear();
            if line == "end" {
                return;
            }
            parent.say(&line);
        }
    }

    /// Writes to its output and to its errors what is meant for nobody.
    pub(crate) fn mutter(_: &mut Parent, _: &[String]) {
        println!("out");
        eprintln!("err");
    }

    /// Says what its clock shows.
    pub(crate) fn tell_time(parent: &mut Parent, _: &[String]) {
        parent.say(&monotonic().as_nanos().to_string());
    }

    /// Has a server and a frozen child, names their folder and pid, and waits to be killed.
    pub(crate) fn keep(parent: &mut Parent, _: &[String]) {
        let server = Server::shared();
        let mut child = Process::spawn("echo", &[]);
        child.hear();
        child.freeze();
        let folder = server.socket().parent().expect("the socket is in a folder");
        parent.say(&folder.display().to_string());
        parent.say(&child.child.id().to_string());
        parent.hear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::process::test_kill_process;

    use super::*;
    use crate::harness::{clock::monotonic, eventually};

    #[test]
    fn a_child_talks_by_lines_and_ends_when_its_role_does() {
        let mut child = Process::spawn("echo", &["a b", "c"]);
        assert_eq!(child.hear(), "a b+c");
        child.say("more");
        assert_eq!(child.hear(), "more");
        child.say("end");
        assert!(child.ended_well());
    }

    #[test]
    fn what_a_child_prints_besides_its_lines_is_known() {
        let mut quiet = Process::spawn("echo", &["a"]);
        quiet.say("end");
        assert!(quiet.ended_well());
        assert_eq!(quiet.printed(), Vec::<String>::new());
        let mut child = Process::spawn("mutter", &[]);
        assert!(child.ended_well());
        let mut printed = child.printed();
        printed.sort();
        assert_eq!(printed, ["err", "out"]);
    }

    #[test]
    fn a_frozen_child_goes_on_when_it_is_thawed() {
        let mut child = Process::spawn("echo", &[]);
        child.hear();
        child.freeze();
        child.say("late");
        assert_eq!(child.hear_within(Duration::from_millis(50)), None);
        child.thaw();
        assert_eq!(child.hear(), "late");
    }

    #[test]
    fn a_childs_clock_is_ours() {
        let before = monotonic().as_nanos();
        let there: u128 = Process::spawn("tell_time", &[]).hear().parse().expect("a number");
        assert!((before..=monotonic().as_nanos()).contains(&there));
    }

    #[test]
    fn servers_and_frozen_children_of_a_killed_process_are_gone_too() {
        let mut process = Process::spawn("keep", &[]);
        let folder = process.hear();
        let pid = process.hear().parse().ok().and_then(Pid::from_raw).expect("a pid");
        assert!(Path::new(&folder).join("redis.sock").exists());
        process.kill();
        eventually(LINE, || !Path::new(&folder).exists());
        eventually(LINE, || is_gone(pid));
    }

    /// Also when nobody collected its status yet, as in a container whose first process does not.
    fn is_gone(pid: Pid) -> bool {
        test_kill_process(pid).is_err()
            || std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
                .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
    }
}
