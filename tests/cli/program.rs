//! The program that is tested: how it is called, and what came of it.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{eventually, unique_name};

/// How long anything may take on a busy machine that is not to take long.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The program with these arguments; nothing that is around it says where a server is.
pub(crate) fn relatch<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = as_usual(PROGRAM);
    command.args(arguments);
    command
}

/// Its path.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_relatch");

/// A shell that runs this text.
pub(crate) fn shell(text: &str) -> Command {
    let mut command = as_usual("sh");
    command.args(["-c", text]);
    command
}

/// A program for which all signals do what they usually do: whoever starts the tests in the background ignores some.
pub(crate) fn as_usual(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]).stdin(Stdio::null());
    without_ours(&mut command);
    command
}

fn without_ours(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("RELATCH_") {
            command.env_remove(name);
        }
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Came {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The status alone, where nothing was said.
    #[track_caller]
    pub(crate) fn in_silence(self) -> i32 {
        assert_eq!((&*self.out, &*self.err), ("", ""), "{self:?}");
        self.status.expect("it exits")
    }

    /// The status and the one line that was said.
    #[track_caller]
    pub(crate) fn with_a_line(self) -> (i32, String) {
        let line = self.err.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {self:?}"));
        assert!(!line.contains('\n'), "more than one line: {line}");
        let line = line.strip_prefix("relatch: ").unwrap_or_else(|| panic!("not ours: {line}"));
        (self.status.expect("it exits"), line.to_owned())
    }
}

/// Runs it to its end.
#[track_caller]
pub(crate) fn done(command: &mut Command) -> Came {
    Came::of(command.output().expect("it starts"))
}

/// One that runs; dropped it is killed.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::saying_to(Stdio::piped(), command)
    }

    /// One whose lines can be read while it runs.
    pub(crate) fn saying_to(lines: impl Into<Stdio>, command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(lines).spawn().expect("it starts")))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().expect("it runs"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it takes the signal");
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.0.as_mut().expect("it runs").try_wait().expect("it can be asked").is_some()
    }

    /// What came of it, once it has ended.
    #[track_caller]
    pub(crate) fn came(mut self) -> Came {
        eventually(SOON, || self.is_over());
        let child = self.0.take().expect("it ran");
        let (give, given) = mpsc::channel();
        thread::spawn(move || drop(give.send(child.wait_with_output())));
        // Whoever it left behind may have its pipes still.
        let output = given.recv_timeout(SOON).expect("nobody writes any more");
        Came::of(output.expect("it can be waited for"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A folder for what commands write, gone with the test.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = env::temp_dir().join(format!("relatch-cli-{}", unique_name()));
        fs::create_dir(&path).expect("there is room for a folder");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What stands in a file, once something does.
    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        let mut read = String::new();
        eventually(SOON, || {
            read = fs::read_to_string(self.at(name)).unwrap_or_default();
            read.ends_with('\n')
        });
        read.trim().to_owned()
    }

    /// A time that a command wrote with `date +%s%N`.
    #[track_caller]
    pub(crate) fn time(&self, name: &str) -> Duration {
        Duration::from_nanos(self.read(name).lines().last().and_then(|it| it.parse().ok()).expect("a time"))
    }

    /// A process that a command wrote.
    #[track_caller]
    pub(crate) fn pid(&self, name: &str) -> Pid {
        self.read(name).parse().ok().and_then(Pid::from_raw).expect("a pid")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a process runs; one that waits to be collected does not.
pub(crate) fn runs(pid: Pid) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether it was stopped, and does not go on yet.
pub(crate) fn stands_still(pid: Pid) -> bool {
    state(pid) == Some('T')
}

/// The letter by which the system says what a process does.
fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Its name may have any letter in it.
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// The processes with this in their command line, or in the environment that a run gives to whatever it starts.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("it is there").filter_map(Result::ok);
    let lines = entries.filter_map(|entry| {
        let read = |file: &str| fs::read(entry.path().join(file)).ok();
        let [line, environment] = ["cmdline", "environ"]
            .map(|file| String::from_utf8_lossy(&read(file).unwrap_or_default()).replace('\0', " "));
        (line.contains(text) || environment.contains(text)).then_some(line)
    });
    lines.collect()
}

/// The time by the wall clock, as commands write it.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later than 1970")
}

/// Sleeps until a while after an instant, where nothing can be looked at until then.
pub(crate) fn after(instant: Instant, a_while: Duration) {
    thread::sleep((instant + a_while).saturating_duration_since(Instant::now()));
}

/// Waits for the next period where this one is about to end: whoever asks in its last moments asks in the next one, too.
pub(crate) fn in_the_midst_of_a_period(every: Duration, offset: Duration) {
    const ENOUGH: Duration = Duration::from_secs(30);
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is later");
    let left = every.as_secs() - (since_1970 - offset).as_secs() % every.as_secs();
    if left < ENOUGH.as_secs() {
        thread::sleep(Duration::from_secs(left));
    }
}
