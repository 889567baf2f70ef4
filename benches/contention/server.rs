//! A server of the run's own, on a unix socket in a temporary folder. Of several CPUs it has the last one, and the clients
//! have the others: where they share them, how long a round trip takes depends on how the system has just spread them.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::net::UnixStream,
    process::{Child, ChildStdin, Command, Stdio},
    sync::OnceLock,
    thread::{available_parallelism, sleep},
    time::{Duration, Instant},
};

#[cfg(target_os = "linux")]
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use crate::Result;

/// Starts the server `$1`, names its folder, and ends it with the end of its input: of this process, that is.
/// A socket's path has at most 107 bytes, which not every temporary folder leaves room for.
const SHELL: &str = r#"
trap '' INT TERM HUP
temporary=${TMPDIR:-/tmp}
[ ${#temporary} -le 70 ] || temporary=/tmp
folder=$(mktemp -d "$temporary/relatch.XXXXXX") || exit 1
"$1" --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --save '' --appendonly no </dev/null >/dev/null 2>&1 &
server=$!
echo "$server $folder"
read -r _
kill -KILL "$server"; wait "$server"
rm -rf "$folder"
"#;

/// Gone, with its folder, when this is dropped or the process ends.
pub(crate) struct Server {
    shell: Child,
    input: Option<ChildStdin>,
    url: String,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "server", &program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = shell.stdin.take();
        let mut said = String::new();
        BufReader::new(shell.stdout.take().ok_or("the shell has no output")?).read_line(&mut said)?;
        let (pid, folder) = said.trim_end().split_once(' ').ok_or("the server has a number and a folder")?;
        let pid = pid.to_owned();
        let socket = format!("{folder}/redis.sock");
        let server = Self { shell, input, url: format!("redis+unix://{socket}") };
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            if started.elapsed() > Duration::from_secs(20) {
                return Err(format!("{program} does not start: is it installed? tests/run.sh does it").into());
            }
            sleep(Duration::from_millis(2));
        }
        // By then it has all its threads.
        move_over(&pid)?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.shell.wait();
    }
}

/// The CPU that is left to the servers.
static LEFT: OnceLock<usize> = OnceLock::new();

/// Leaves a CPU to the servers that are started from here on. To be called first: threads and processes that were there
/// before stay where they are. Where there is one CPU only, or nobody may choose, all share what there is.
#[cfg(target_os = "linux")]
pub(crate) fn leave_a_cpu() {
    let Ok(mut cpus) = sched_getaffinity(None) else { return };
    let ours: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect();
    if let [_, .., last] = ours[..] {
        cpus.unset(last);
        if sched_setaffinity(None, &cpus).is_ok() {
            let _ = LEFT.set(last);
        }
    }
}

/// Moves a server to its CPU, with all its threads: it was started on those of the clients.
#[cfg(target_os = "linux")]
pub(crate) fn move_over(pid: &str) -> Result<()> {
    let Some(cpu) = LEFT.get() else { return Ok(()) };
    let mut cpus = CpuSet::new();
    cpus.set(*cpu);
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name().to_string_lossy().parse()?;
        sched_setaffinity(Pid::from_raw(thread), &cpus)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn leave_a_cpu() {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn move_over(_: &str) -> Result<()> {
    Ok(())
}

/// Where the clients run, and where the server does.
pub(crate) fn cpus() -> String {
    let clients = available_parallelism().map_or(0, usize::from);
    let server = if LEFT.get().is_some() { "one more for the server" } else { "shared with the server" };
    format!("{clients} CPU{} for the clients, {server}", if clients == 1 { "" } else { "s" })
}
