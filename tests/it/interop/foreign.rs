//! The lock clients of other languages, in the programs of `tests/interop/{python,go,node}`: which there are, how they are
//! started, and what they say. It judges no answer.

use std::{
    fmt,
    future::{Future, IntoFuture},
    io::{Write, stderr},
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use super::program::{ANSWER, Program, built_by};
use crate::harness::Server;

/// A client of another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    RedisPy,
    Redsync,
    Redislock,
    /// node-redlock as most have it.
    Redlock4,
    /// The one that is to follow.
    Redlock5,
}

/// A running client.
#[derive(Debug)]
pub(crate) struct Foreign {
    kind: Kind,
    program: Program,
    version: String,
}

/// Something that a client was told, and has not been waited for.
#[derive(Debug)]
#[must_use = "it is under way already, and its answer may be a refusal"]
pub(crate) struct Asked(oneshot::Receiver<Value>);

/// What a client said: a value, or what its error is called and what that says.
#[derive(Debug)]
pub(crate) struct Answer(Result<Value, (String, String)>);

impl Kind {
    /// Whose tools it needs.
    pub(crate) fn language(self) -> &'static str {
        match self {
            Self::RedisPy => "python",
            Self::Redsync | Self::Redislock => "go",
            Self::Redlock4 | Self::Redlock5 => "node",
        }
    }

    /// What its program calls it.
    fn called(self) -> &'static str {
        match self {
            Self::RedisPy => "redis-py",
            Self::Redsync => "redsync",
            Self::Redislock => "redislock",
            Self::Redlock4 => "redlock4",
            Self::Redlock5 => "redlock5",
        }
    }

    /// Its error where somebody else has the lock that it is to release.
    pub(crate) fn refuses_to_release(self) -> &'static str {
        match self {
            Self::RedisPy => "LockNotOwnedError",
            Self::Redsync => "ErrTaken",
            Self::Redislock => "ErrLockNotHeld",
            Self::Redlock4 => "LockError",
            Self::Redlock5 => "ExecutionError",
        }
    }

    /// Its error where nobody has it.
    pub(crate) fn has_nothing_to_release(self) -> &'static str {
        match self {
            Self::Redsync => "ErrLockAlreadyExpired",
            _ => self.refuses_to_release(),
        }
    }

    /// Its error where the lock that it is to extend is not its own.
    pub(crate) fn refuses_to_extend(self) -> &'static str {
        match self {
            Self::Redislock => "ErrNotObtained",
            _ => self.refuses_to_release(),
        }
    }

    /// Whether it can be asked whether a lock is still its own. node-redlock goes by its local clock.
    pub(crate) fn knows_what_is_its_own(self) -> bool {
        self.language() != "node"
    }

    /// Whether the language's tools are there. Its clients are installed now, where they were not.
    pub(crate) fn is_installed(self) -> bool {
        self.folder().is_some()
    }

    /// Where it is. What could not be built is not tried again by every test.
    #[track_caller]
    fn folder(self) -> Option<&'static Path> {
        static BUILT: [OnceLock<Result<Option<PathBuf>, String>>; 3] = [const { OnceLock::new() }; 3];
        let language = self.language();
        let place = ["python", "go", "node"].iter().position(|it| *it == language).expect("there are three");
        match BUILT[place].get_or_init(|| built_by("clients.sh", &[language])) {
            Ok(folder) => folder.as_deref(),
            Err(error) => panic!("the clients were not installed: {error}"),
        }
    }

    /// Starts it, connected to this server.
    pub(crate) async fn start(self, server: &Server) -> Foreign {
        self.start_over(&format!("127.0.0.1:{}", server.port())).await
    }

    /// Starts it, connected to the servers at these addresses, which have commas between: for votes.
    pub(crate) async fn start_over(self, addresses: &str) -> Foreign {
        let folder = self.folder().expect("who starts it has asked whether it is there");
        let mut command = match self.language() {
            "python" => script("python3", &folder.join("peer.py")),
            "node" => script("node", &folder.join("peer.js")),
            _ => Command::new(folder.join("peer")),
        };
        command.args(["--redis", addresses, "--client", self.called()]);
        let (program, hello) = Program::start(&mut command, self.called()).await;
        let version = hello["version"].as_str().expect("it says what it is").to_owned();
        Foreign { kind: self, program, version }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RedisPy => "redis-py",
            Self::Redsync => "redsync",
            Self::Redislock => "bsm/redislock",
            Self::Redlock4 | Self::Redlock5 => "node-redlock",
        })
    }
}

impl Foreign {
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Tries once: its token, or nothing.
    pub(crate) fn try_lock(&self, name: &str, ttl: Duration) -> Asked {
        self.tell("try", name, &[&ms(ttl)])
    }

    /// Tries once, without a TTL. Only redis-py can.
    pub(crate) fn try_lock_for_ever(&self, name: &str) -> Asked {
        self.try_lock(name, Duration::ZERO)
    }

    /// Tries once, with metadata beside its token. Only redislock has them.
    pub(crate) fn try_lock_with(&self, name: &str, ttl: Duration, metadata: &str) -> Asked {
        self.tell("try", name, &[&ms(ttl), metadata])
    }

    /// Waits as it waits, for so long: its token, or nothing.
    pub(crate) fn lock(&self, name: &str, ttl: Duration, within: Duration) -> Asked {
        self.tell("wait", name, &[&ms(ttl), &ms(within)])
    }

    /// From now on the token is the one that it holds the lock with.
    pub(crate) fn adopt(&self, name: &str, ttl: Duration, token: &str) -> Asked {
        self.tell("adopt", name, &[&ms(ttl), token])
    }

    /// Sets the TTL.
    pub(crate) fn extend(&self, name: &str, ttl: Duration) -> Asked {
        self.tell("extend", name, &[&ms(ttl)])
    }

    pub(crate) fn release(&self, name: &str) -> Asked {
        self.tell("release", name, &[])
    }

    /// Whether a lock is its own, by the server.
    pub(crate) fn is_mine(&self, name: &str) -> Asked {
        self.tell("mine", name, &[])
    }

    /// So many times: waits for the lock, reads a number at the key, pauses, writes the next one, and releases.
    pub(crate) fn count(&self, name: &str, ttl: Duration, key: &str, times: u32, pause: Duration) -> Asked {
        self.tell("count", name, &[&ms(ttl), key, &times.to_string(), &ms(pause)])
    }

    fn tell(&self, verb: &str, name: &str, words: &[&str]) -> Asked {
        Asked(self.program.tell(&[&[verb, name], words].concat()))
    }
}

impl Asked {
    /// Whether there is no answer yet. After a `false` it must not be waited for.
    pub(crate) fn is_pending(&mut self) -> bool {
        matches!(self.0.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }
}

impl IntoFuture for Asked {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            let said = timeout(ANSWER, self.0).await.expect("the program answers in time").expect("the program lives");
            let text = |key: &str| said[key].as_str().map(str::to_owned);
            Answer(match text("error") {
                Some(error) => Err((error, text("message").unwrap_or_default())),
                None => Ok(said["result"].clone()),
            })
        })
    }
}

impl Answer {
    /// The token with which it holds the lock now; `None` where somebody else has it.
    #[track_caller]
    #[must_use = "it may hold nothing"]
    pub(crate) fn token(&self) -> Option<&str> {
        match self.value() {
            Value::Null => None,
            token => Some(token.as_str().expect("a token is text")),
        }
    }

    /// What came of it, where it is a yes or a no.
    #[track_caller]
    #[must_use = "a no is an answer, too"]
    pub(crate) fn yes(&self) -> bool {
        self.value().as_bool().expect("a yes or a no")
    }

    /// What the error is called that came of it.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        &self.0.as_ref().expect_err("a refusal").0
    }

    #[track_caller]
    fn value(&self) -> &Value {
        self.0.as_ref().expect("no error")
    }
}

/// Whether the tools of all of them are there. What is skipped is said past the test runner, which would keep it to itself.
pub(crate) fn are_installed(kinds: &[Kind], test: &str) -> bool {
    let missing = kinds.iter().find(|kind| !kind.is_installed());
    if let Some(kind) = missing {
        let _ = writeln!(stderr(), "skipped, there are no tools of {}: {test}", kind.language());
    }
    missing.is_none()
}

fn script(with: &str, path: &Path) -> Command {
    let mut command = Command::new(with);
    command.arg(path);
    command
}

fn ms(time: Duration) -> String {
    time.as_millis().to_string()
}
