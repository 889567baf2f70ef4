//! No example is warned of anything but of a lock that it shows to be lost: it shows what the library is for. Each runs as a process of its own, in which its
//! `main` is called by this test where somebody listens.

use std::{
    env,
    fmt::{Debug, Write},
    fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{self, Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use relatch::Client;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

// `EXAMPLES`: the name of each, and its `main`.
include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// Which example a process is to run.
const WHICH: &str = "RELATCH_EXAMPLE";
/// What is said before a warning.
const MARK: &str = "the library warns:";
/// What some of them show.
const LOST: &str = " message=lost ";
/// Not an example: the habit that is warned of.
const CARELESS: &str = "careless";
/// Far more than any of them needs.
const LONGEST: Duration = Duration::from_secs(60);

/// Shows the library's warnings.
struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN && metadata.target().starts_with("relatch")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        eprintln!("{MARK}{}", said.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

/// A server that goes with the test.
struct Server {
    process: Child,
    folder: PathBuf,
}

impl Server {
    fn start() -> Self {
        let folder = env::temp_dir().join(format!("relatch-examples-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder of its own");
        let socket = folder.join("socket");
        let mut server = Command::new(env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()));
        server.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).arg("--dir").arg(&folder);
        let process = server.stdout(Stdio::null()).spawn().expect("redis-server is installed");
        let server = Self { process, folder };
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed() < LONGEST, "the server does not start");
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.folder.join("socket").display())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn careless() -> Result<(), String> {
    let work = async {
        let client = Client::connect(env::var("REDIS_URL").expect("the server's")).await?;
        // What is dropped may take longer on a busy machine, and then counts for nothing: more than three.
        for _ in 0..300 {
            assert!(client.lock(CARELESS).try_lock().await?.is_some());
        }
        client.close().await;
        relatch::Result::Ok(())
    };
    let runtime = tokio::runtime::Runtime::new().expect("it starts");
    runtime.block_on(work).map_err(|error| error.to_string())
}

/// In the process of one.
fn run(name: &str) {
    tracing::subscriber::set_global_default(Warnings).expect("nobody else listens");
    let example = EXAMPLES.iter().find(|(of, _)| *of == name).map_or(careless as Main, |(_, main)| *main);
    example().expect("it ends well");
}

#[test]
fn no_example_is_warned_of_anything_but_the_losses_that_it_shows() {
    if let Ok(name) = env::var(WHICH) {
        return run(&name);
    }
    let server = Server::start();
    assert!(EXAMPLES.len() > 5, "there are examples");
    // One after the other: some show leases that are short for a busy machine.
    for name in EXAMPLES.iter().map(|(name, _)| *name).chain([CARELESS]) {
        let mut example = Command::new(env::current_exe().expect("this test has a path"));
        // No arguments: an example may have some of its own.
        example.env(WHICH, name).env("REDIS_URL", server.url()).env("RUST_TEST_NOCAPTURE", "1");
        let Output { status, stderr, .. } = example.output().expect("it starts");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{name}: {status}\n{said}");
        let warned: Vec<_> = said.lines().filter_map(|line| line.split_once(MARK)).map(|(_, what)| what).collect();
        if name == CARELESS {
            assert!(warned.iter().any(|what| what.contains("dropped at once")), "{said}");
        } else {
            assert!(warned.iter().all(|what| what.starts_with(LOST)), "{name}\n{said}");
        }
    }
}
