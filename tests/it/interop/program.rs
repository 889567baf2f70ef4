//! A program of another language beside us: built, started, told what to do line by line, and ended. It judges no answer.

use std::{
    collections::HashMap,
    env,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

/// How long an answer may take when the test names no bound. A start takes a second, on a busy machine several.
pub(crate) const ANSWER: Duration = Duration::from_secs(20);

/// A script that builds ends so where it lacks the tools.
const LACKS_TOOLS: i32 = 3;

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// A running program. It is killed when this is dropped, and ends with this process.
#[derive(Debug)]
pub(crate) struct Program {
    child: Mutex<Child>,
    commands: Mutex<ChildStdin>,
    waiting: Waiting,
    asked: AtomicU64,
}

impl Program {
    /// Starts it, and waits for its first line, which says who it is. What it writes to its errors is ours, under this name.
    pub(crate) async fn start(command: &mut Command, called: &'static str) -> (Self, Value) {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Away from a Ctrl-C: the end of its input tells it.
            .process_group(0)
            .spawn()
            .expect("the program starts");
        let commands = child.stdin.take().expect("its input is piped");
        let answers = BufReader::new(child.stdout.take().expect("its output is piped"));
        let errors = BufReader::new(child.stderr.take().expect("its errors are piped"));
        let (sender, hello) = oneshot::channel();
        let waiting = Waiting::new(Mutex::new(HashMap::from([(0, sender)])));
        let answered = Arc::clone(&waiting);
        thread::spawn(move || {
            for line in answers.lines().map_while(Result::ok) {
                // Half a line is the last one of a program that was killed.
                let Ok(answer) = serde_json::from_str::<Value>(&line) else { break };
                let id = answer["id"].as_u64().expect("an answer has a number");
                if let Some(sender) = lock(&answered).remove(&id) {
                    // Nobody need wait for it.
                    let _ = sender.send(answer);
                }
            }
            // Who still waits learns that nothing comes.
            lock(&answered).clear();
        });
        thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| eprintln!("{called}: {line}")));
        let program =
            Self { child: Mutex::new(child), commands: Mutex::new(commands), waiting, asked: AtomicU64::new(0) };
        let hello = timeout(ANSWER, hello).await.expect("it connects in time").expect("it connects");
        (program, hello)
    }

    /// Tells it to do something. The answer comes, unless the program ends before.
    pub(crate) fn tell(&self, words: &[&str]) -> oneshot::Receiver<Value> {
        let id = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(!words.iter().any(|word| word.contains(['\t', '\n'])), "no word has a tab or a line end");
        let (sender, answer) = oneshot::channel();
        lock(&self.waiting).insert(id, sender);
        writeln!(lock(&self.commands), "{id}\t{}", words.join("\t")).expect("the program listens");
        answer
    }

    /// Ends it with no chance to clean up, and waits until it is gone.
    pub(crate) fn kill(&self) {
        let mut child = lock(&self.child);
        child.kill().expect("it can be killed");
        child.wait().expect("it is gone");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Where a script of `tests/interop` says that it has built; `None` where it lacks the tools, of which it has told.
pub(crate) fn built_by(script: &str, words: &[&str]) -> Result<Option<PathBuf>, String> {
    let path = format!("{}/tests/interop/{script}", env!("CARGO_MANIFEST_DIR"));
    let ran = Command::new(path).args(words).stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    match ran.status.code() {
        Some(0) => {
            let path = String::from_utf8(ran.stdout).map_err(|error| error.to_string())?;
            Ok(Some(path.trim_end().into()))
        }
        Some(LACKS_TOOLS) => Ok(None),
        _ => Err(format!("{script} {}: {}", words.join(" "), ran.status)),
    }
}

/// Whether somebody who types this name would start something.
pub(crate) fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
