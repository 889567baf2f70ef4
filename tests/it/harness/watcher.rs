//! A shell that starts a server, and ends it when the tests are gone, however they went.
//!
//! It stands between because nothing else is left to clean up after a SIGKILL, and since a static is never dropped.
//! The shell reads its orders from a pipe whose other end only this process has: the end of the pipe is the end of
//! the tests.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// How long a server may take to stand still.
const STOP: Duration = Duration::from_secs(10);

/// `$1` is the server's program, `$2` the library that steps its wall clock if that is wanted: it is told by a file how
/// far, and leaves the monotonic clock alone. The C library comes with it, since a server that brings an allocator of
/// its own asks for the time before the other one is ready. `$3` is what the program is to be, if that is no server. A process
/// group of its own keeps Ctrl-C away; the ignored signals are for the rest, and a server sets its own handlers for them. A
/// socket's path has at most 107 bytes, which not every temporary folder leaves room for.
const SHELL: &str = r#"
trap '' HUP INT TERM PIPE
temporary=${TMPDIR:-/tmp}
[ ${#temporary} -le 70 ] || temporary=/tmp
folder=$(mktemp -d "$temporary/relatch.XXXXXX") || exit 1
pid=
echo "$folder"
while read -r order; do
    case $order in
        start) ${2:+env "LD_PRELOAD=$2:libc.so.6" "FAKETIME_TIMESTAMP_FILE=$folder/clock" FAKETIME_NO_CACHE=1 \
            FAKETIME_DONT_FAKE_MONOTONIC=1} "$1" "$folder/redis.conf" $3 </dev/null >>"$folder/log" 2>&1 & pid=$!; echo "$pid" ;;
        end) kill -KILL "$pid"; wait "$pid"; pid=; echo ended ;;
    esac
done
[ -z "$pid" ] || { kill -KILL "$pid"; wait "$pid"; }
rm -rf "$folder"
"#;

/// The shell, and the server that it runs if it was told to.
#[derive(Debug)]
pub(super) struct Watcher {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
    server: Option<Pid>,
}

impl Watcher {
    /// A shell with a temporary folder, and no server yet.
    pub(super) fn new(program: &Path, stepped_by: Option<&Path>, mode: &str) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "watcher"])
            .arg(program)
            .arg(stepped_by.unwrap_or(Path::new("")))
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell starts");
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().expect("the shell's answers are piped"));
        let mut watcher = Self { shell, orders, answers, folder: PathBuf::new(), server: None };
        watcher.folder = PathBuf::from(watcher.answer());
        watcher
    }

    /// The temporary folder: configuration, socket and log of the server.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the server on `redis.conf` in the folder.
    pub(super) fn start(&mut self) {
        assert!(self.server.is_none(), "the server runs already");
        self.order("start");
        let pid = self.answer().parse().ok().and_then(Pid::from_raw).expect("the shell names the server's pid");
        self.server = Some(pid);
    }

    /// Ends the server with SIGKILL, which ends a frozen one too, and waits until it is gone.
    pub(super) fn end(&mut self) {
        if self.server.take().is_some() {
            self.order("end");
            assert_eq!(self.answer(), "ended");
        }
    }

    /// Sends the running server a signal.
    pub(super) fn signal(&self, signal: Signal) {
        let pid = self.server.expect("the server runs");
        kill_process(pid, signal).expect("the server takes the signal");
    }

    /// Stops the server's process, and waits until it stands where the system says so.
    pub(super) fn freeze(&self) {
        freeze(self.server.expect("the server runs"));
    }

    fn order(&mut self, word: &str) {
        let orders = self.orders.as_mut().expect("the shell listens until it is dropped");
        writeln!(orders, "{word}").expect("the shell takes an order");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the shell answers");
        line.trim_end().to_owned()
    }
}

/// Stops a process, and waits until it stands where the system says so.
pub(super) fn freeze(pid: Pid) {
    kill_process(pid, Signal::STOP).expect("the server takes the signal");
    // It is a shell's child and not ours, so it cannot be waited for.
    let stat = PathBuf::from(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    if stat.exists() {
        let stands = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
        eventually(STOP, || fs::read_to_string(&stat).is_ok_and(stands));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Only so that the folder is gone when the server is; the shell does the rest without us.
        let _ = self.shell.wait();
    }
}
