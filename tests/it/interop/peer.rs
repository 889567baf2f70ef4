//! The Java program of `tests/interop/java`: built, started, told what to do, and ended. It judges no answer.

use std::{
    env,
    future::{Future, IntoFuture},
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::oneshot, time::timeout};

use super::program::{ANSWER, Program, built_by, on_path};

/// It starts quickly and is not asked to be fast for long: no second compiler, no threads that collect garbage. And it has
/// no file of its own that would be left when it is killed.
const MACHINE: [&str; 3] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"];

/// A running program with one Redisson client, or with one for each of several servers. It is killed when this is dropped, and ends with this process.
#[derive(Debug)]
pub(crate) struct Peer {
    program: Program,
    client: String,
    version: String,
}

/// A lock of a peer, in the hands of one of its threads.
#[derive(Clone, Debug)]
pub(crate) struct JavaLock {
    peer: Arc<Peer>,
    thread: &'static str,
    kind: &'static str,
    name: String,
}

/// Something that a peer was told, and has not been waited for.
#[derive(Debug)]
#[must_use = "it is under way already, and its answer may be a refusal"]
pub(crate) struct Asked(oneshot::Receiver<Value>);

/// What a peer said.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The thread, by its number in Java: the second half of an owner.
    pub(crate) tid: u64,
    /// When the thread began with it and when it was done, by the machine's monotonic clock.
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
    outcome: Result<Value, Exception>,
}

/// What a thread of Java threw.
#[derive(Clone, Debug)]
struct Exception {
    class: String,
    message: String,
}

/// Whether Java's tools are there.
pub(crate) fn maven_is_there() -> bool {
    on_path("mvn")
}

impl Peer {
    /// Starts the program with these options, and waits until it is connected.
    pub(crate) async fn start(options: &[(&str, &str)]) -> Arc<Self> {
        let mut command = Command::new(starter());
        command
            .args(MACHINE)
            .arg("-cp")
            .arg(built().join("*"))
            .arg("relatch.interop.Peer")
            .args(options.iter().flat_map(|(key, value)| [format!("--{key}"), (*value).to_owned()]));
        let (program, hello) = Program::start(&mut command, "java").await;
        let text = |key: &str| hello[key].as_str().expect("it says who it is").to_owned();
        Arc::new(Self { program, client: text("client"), version: text("redisson") })
    }

    /// The id of its client: the first half of its owners.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// The same of each of its clients, where there is one for each of several servers.
    pub(crate) fn clients(&self) -> Vec<&str> {
        self.client.split(',').collect()
    }

    /// The version of Redisson that it runs.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// A plain lock in the hands of one of its threads, which is made at its first use.
    pub(crate) fn lock(self: &Arc<Self>, thread: &'static str, name: &str) -> JavaLock {
        JavaLock { peer: Arc::clone(self), thread, kind: "plain", name: name.to_owned() }
    }

    /// The same, fair.
    pub(crate) fn fair_lock(self: &Arc<Self>, thread: &'static str, name: &str) -> JavaLock {
        JavaLock { kind: "fair", ..self.lock(thread, name) }
    }

    /// The same, fenced.
    pub(crate) fn fenced_lock(self: &Arc<Self>, thread: &'static str, name: &str) -> JavaLock {
        JavaLock { kind: "fenced", ..self.lock(thread, name) }
    }

    /// Plain locks as one, in this order.
    pub(crate) fn multi_lock(self: &Arc<Self>, thread: &'static str, names: &[&str]) -> JavaLock {
        JavaLock { kind: "multi", ..self.lock(thread, &names.join(",")) }
    }

    /// A `RedissonRedLock` of the plain locks of this name at all its servers.
    pub(crate) fn red_lock(self: &Arc<Self>, thread: &'static str, name: &str) -> JavaLock {
        JavaLock { kind: "red", ..self.lock(thread, name) }
    }

    /// The plain lock at one of its three servers.
    pub(crate) fn lock_at(self: &Arc<Self>, server: usize, thread: &'static str, name: &str) -> JavaLock {
        JavaLock { kind: ["plain:0", "plain:1", "plain:2"][server], ..self.lock(thread, name) }
    }

    /// Tells one of its threads to do something.
    pub(crate) fn tell(&self, thread: &str, verb: &str, words: &[&str]) -> Asked {
        Asked(self.program.tell(&[&[thread, verb], words].concat()))
    }

    /// Interrupts what a thread is doing.
    pub(crate) fn interrupt(&self, thread: &str) -> Asked {
        self.tell(thread, "interrupt", &[])
    }

    /// Ends the program with no chance to clean up, and waits until it is gone.
    pub(crate) fn kill(&self) {
        self.program.kill();
    }
}

impl JavaLock {
    /// `lock()`
    pub(crate) fn lock(&self) -> Asked {
        self.tell("lock", &[])
    }

    /// `lock(lease)`
    pub(crate) fn lock_for(&self, lease: Duration) -> Asked {
        self.tell("lock", &[lease])
    }

    /// `tryLock()`
    pub(crate) fn try_lock(&self) -> Asked {
        self.tell("tryLock", &[])
    }

    /// `tryLock(wait)`
    pub(crate) fn try_lock_within(&self, wait: Duration) -> Asked {
        self.tell("tryLock", &[wait])
    }

    /// `tryLock(wait, lease)`
    pub(crate) fn try_lock_within_for(&self, wait: Duration, lease: Duration) -> Asked {
        self.tell("tryLock", &[wait, lease])
    }

    /// `unlock()`
    pub(crate) fn unlock(&self) -> Asked {
        self.tell("unlock", &[])
    }

    /// `forceUnlock()`
    pub(crate) fn force_unlock(&self) -> Asked {
        self.tell("forceUnlock", &[])
    }

    /// `isLocked()`
    pub(crate) fn is_locked(&self) -> Asked {
        self.tell("isLocked", &[])
    }

    /// `isHeldByThread(this one)`
    pub(crate) fn is_held(&self) -> Asked {
        self.tell("isHeldByThread", &[])
    }

    /// `getHoldCount()`
    pub(crate) fn hold_count(&self) -> Asked {
        self.tell("holdCount", &[])
    }

    /// `remainTimeToLive()`
    pub(crate) fn ttl(&self) -> Asked {
        self.tell("ttl", &[])
    }

    /// `getToken()` of a fenced lock
    pub(crate) fn token(&self) -> Asked {
        self.tell("token", &[])
    }

    /// `lock()` and `unlock()`, so many times, with a pause after each.
    pub(crate) fn again(&self, times: u32, pause: Duration) -> Asked {
        self.say("again", &[times.to_string(), pause.as_millis().to_string()])
    }

    fn tell(&self, verb: &str, times: &[Duration]) -> Asked {
        self.say(verb, &times.iter().map(|time| time.as_millis().to_string()).collect::<Vec<_>>())
    }

    fn say(&self, verb: &str, words: &[String]) -> Asked {
        let words: Vec<&str> = [self.kind, &self.name].into_iter().chain(words.iter().map(String::as_str)).collect();
        self.peer.tell(self.thread, verb, &words)
    }
}

impl Asked {
    /// The answer, which comes within this time.
    pub(crate) async fn within(self, bound: Duration) -> Answer {
        let said = timeout(bound, self.0).await.expect("the program answers in time").expect("the program lives");
        Answer::read(&said)
    }

    /// Whether there is no answer yet. After a `false` it must not be waited for.
    pub(crate) fn is_pending(&mut self) -> bool {
        matches!(self.0.try_recv(), Err(oneshot::error::TryRecvError::Empty))
    }
}

impl IntoFuture for Asked {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.within(ANSWER))
    }
}

impl Answer {
    fn read(said: &Value) -> Self {
        let number = |key: &str| said[key].as_u64().expect("an answer has its numbers");
        let outcome = match said["error"].as_str() {
            Some(class) => Err(Exception { class: class.to_owned(), message: said["message"].to_string() }),
            None => Ok(said["result"].clone()),
        };
        let (began, ended) = (Duration::from_nanos(number("began")), Duration::from_nanos(number("ended")));
        Self { tid: number("tid"), began, ended, outcome }
    }

    /// What came of it, where it is a yes or a no.
    #[track_caller]
    #[must_use = "a no is an answer, too"]
    pub(crate) fn yes(&self) -> bool {
        self.value().as_bool().expect("a yes or a no")
    }

    /// What came of it, where it is a number.
    #[track_caller]
    pub(crate) fn number(&self) -> i64 {
        self.value().as_i64().expect("a number")
    }

    /// The class of the exception that came of it.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        &self.outcome.as_ref().expect_err("an exception").class
    }

    /// Whether that is what came of it.
    pub(crate) fn refused(&self, exception: &str) -> bool {
        self.outcome.as_ref().is_err_and(|thrown| thrown.class == exception)
    }

    /// Whether its library failed it: by what befell the server or the way there, and not for what was asked.
    pub(crate) fn was_failed(&self) -> bool {
        self.outcome.as_ref().is_err_and(|thrown| thrown.class.starts_with("Redis"))
    }

    pub(crate) fn took(&self) -> Duration {
        self.ended - self.began
    }

    #[track_caller]
    fn value(&self) -> &Value {
        match &self.outcome {
            Ok(value) => value,
            Err(thrown) => panic!("{}: {}", thrown.class, thrown.message),
        }
    }
}

/// Where the program is, built if it was not. What could not be built is not tried again by every test.
#[track_caller]
fn built() -> &'static Path {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| built_by("build.sh", &[])?.ok_or_else(|| "Java's tools are gone".to_owned()));
    match built {
        Ok(path) => path,
        Err(error) => panic!("the Java program was not built: {error}"),
    }
}

/// Java's starter: of the JDK that is in use, where there is none on the path.
fn starter() -> PathBuf {
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    if on_path("java") { "java".into() } else { home.unwrap_or_else(|| "java".into()) }
}
