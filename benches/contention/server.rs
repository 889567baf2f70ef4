//! A server of the run's own, on a unix socket in a temporary folder.

use std::{
    env,
    io::{BufRead, BufReader},
    os::unix::net::UnixStream,
    process::{Child, ChildStdin, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::Result;

/// Starts the server `$1`, names its folder, and ends it with the end of its input: of this process, that is.
const SHELL: &str = r#"
trap '' INT TERM HUP
folder=$(mktemp -d "${TMPDIR:-/tmp}/relatch.XXXXXX") || exit 1
"$1" --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --save '' --appendonly no </dev/null >/dev/null 2>&1 &
server=$!
echo "$folder"
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
        let mut folder = String::new();
        BufReader::new(shell.stdout.take().ok_or("the shell has no output")?).read_line(&mut folder)?;
        let socket = format!("{}/redis.sock", folder.trim_end());
        let server = Self { shell, input, url: format!("redis+unix://{socket}") };
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            if started.elapsed() > Duration::from_secs(20) {
                return Err(format!("{program} does not start: is it installed? tests/run.sh does it").into());
            }
            sleep(Duration::from_millis(2));
        }
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
