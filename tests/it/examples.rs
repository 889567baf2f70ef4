//! The examples as a newcomer runs them. What the library does is tested elsewhere; here it is that they show it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    time::Duration,
};

use crate::harness::{Server, eventually};

/// Far more than any of them needs: a bound for one that hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// The features of this build: with others, everything would be compiled once more.
const FEATURES: &[(&str, bool)] = &[
    ("rustls", cfg!(feature = "rustls")),
    ("native-tls", cfg!(feature = "native-tls")),
    ("cluster", cfg!(feature = "cluster")),
    ("sentinel", cfg!(feature = "sentinel")),
    ("embedded", cfg!(feature = "embedded")),
    ("operate", cfg!(feature = "operate")),
    ("cli", cfg!(feature = "cli")),
];

/// The names of all examples that this build has.
fn names() -> Vec<String> {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).expect("there are examples");
    let paths = files.map(|file| file.expect("the folder can be read").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<_> = sources.map(|path| path.file_stem().expect("a name").display().to_string()).collect();
    names.retain(|name| !["red_lock", "timeline"].contains(&&**name) || cfg!(feature = "embedded"));
    names.sort();
    names
}

/// The folder of the examples' programs, which are built first if they are older than their source. `RELATCH_EXAMPLES` names a
/// folder where that was done: nobody then waits here for another's compiler.
fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(built) = env::var_os("RELATCH_EXAMPLES").map(PathBuf::from) {
            names().iter().for_each(|name| is_newer_than_its_source(&built, name));
            return built;
        }
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let on: Vec<&str> = FEATURES.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--offline", "--examples"]);
        if on.len() == FEATURES.len() {
            // Then it is the build of everything, whose other members switch on more of what all need.
            build.args(["--workspace", "--all-features"]);
        } else {
            build.args(["--features", &on.join(",")]);
        }
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        // Tests run from `deps`, beside which the examples are.
        let tests = env::current_exe().expect("the test binary has a path");
        let profile = tests.parent().and_then(Path::parent).expect("cargo has put it into a folder");
        profile.join("examples")
    })
}

#[track_caller]
fn is_newer_than_its_source(built: &Path, name: &str) {
    let changed = |path: &Path| {
        fs::metadata(path).and_then(|it| it.modified()).expect("it is there, and its file system has times")
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{name}.rs"));
    assert!(changed(&source) <= changed(&built.join(name)), "{name} was built from an older source");
}

/// A run of one example on a server.
struct Run(Child);

impl Run {
    fn start(name: &str, server: &Server) -> Self {
        let mut example = Command::new(programs().join(name));
        example.env("REDIS_URL", server.url()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(example.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}")))
    }

    /// What it said. An example says less than a pipe holds, so it never waits for us to read.
    fn end(mut self) -> Output {
        eventually(LONGEST, || self.0.try_wait().expect("a child can be asked").is_some());
        let mut output =
            Output { status: self.0.wait().expect("it has ended"), stdout: Vec::new(), stderr: Vec::new() };
        let (stdout, stderr) = (self.0.stdout.take(), self.0.stderr.take());
        std::io::copy(&mut stdout.expect("it is piped"), &mut output.stdout).expect("a pipe can be read");
        std::io::copy(&mut stderr.expect("it is piped"), &mut output.stderr).expect("a pipe can be read");
        output
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_example_ends_well_and_leaves_no_key() {
    let server = Server::own();
    let names = names();
    let runs: Vec<_> = names.iter().map(|name| Run::start(name, &server)).collect();
    for (name, run) in names.iter().zip(runs) {
        let Output { status, stdout, stderr } = run.end();
        let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{name}: {status}\n{said}\n{complained}");
        assert!(!said.is_empty(), "{name} shows nothing");
    }
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[test]
fn the_quickstart_shows_contention_nesting_the_watchdog_and_a_loss() {
    let server = Server::own();
    let output = Run::start("quickstart", &server).end();
    let said = String::from_utf8(output.stdout).expect("it speaks UTF-8");
    assert!(output.status.success(), "{said}");

    // Each line that is wanted comes after the one before it.
    let wanted = [
        "ann  enters \"kitchen\"",
        "ben  tries, and is told that it is taken",
        "ben  waits",
        "ann  leaves",
        "ben  enters \"kitchen\"",
        "ann  holds \"ledger\"",
        "ann  takes it again, without waiting: held 2 times",
        "held 1 time",
        "ann  lets go of the last one: Freed",
        "ann  holds \"export\" on a lease of 600ms",
        "ann  still holds it after 1.35s",
        "ann  holds \"deploy\"",
        "ben  frees it by force",
        "ann  is told, and the work is stopped: lock \"deploy\" was lost",
        "close their clients",
    ];
    let mut rest = said.lines();
    for line in wanted {
        assert!(rest.any(|said| said.contains(line)), "no line with {line:?} at its place in\n{said}");
    }
}

#[test]
fn nobody_works_for_the_old_leader_when_the_next_one_begins() {
    let output = Run::start("leader", &Server::own()).end();
    let said = String::from_utf8(output.stdout).expect("it speaks UTF-8");
    assert!(output.status.success(), "{said}");
    let at = |wanted: &str| {
        let line = said.lines().position(|line| line.starts_with(wanted));
        line.unwrap_or_else(|| panic!("no line with {wanted:?} in\n{said}"))
    };
    let stopped = at("a: its worker stops");
    assert!(at("a: leads") < stopped && stopped < at("a: steps down: Freed"), "\n{said}");
    assert!(stopped < at("b: leads"), "the lock was free before the worker had stopped\n{said}");
    assert!(at("b: leads") < at("b: its worker stops"), "\n{said}");
    assert!(at("b: its worker stops") < at("b: deposed: lock "), "\n{said}");
}

#[test]
fn the_hour_s_work_is_done_once_by_the_one_after_it_failed() {
    let output = Run::start("hourly", &Server::own()).end();
    let said = String::from_utf8(output.stdout).expect("it speaks UTF-8");
    assert!(output.status.success(), "{said}");
    let wanted = ["1: failed", "2: done", "3: somebody else", "4: somebody else", "cleaned up: Freed"];
    let lines: Vec<&str> = said.lines().map(|line| line.trim_start_matches("replica ")).collect();
    assert!(
        lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(line, wanted)| line.starts_with(wanted)),
        "{said}"
    );
}

#[cfg(feature = "embedded")]
#[test]
fn the_timeline_shows_a_hand_over_a_wake_up_a_loss_and_who_came_next() {
    let output = Run::start("timeline", Server::shared()).end();
    let said = String::from_utf8(output.stdout).expect("it speaks UTF-8");
    assert!(output.status.success(), "{said}");
    let rows: Vec<Vec<char>> = ["ann, task 1", "ann, task 2", "ben", "cyd"]
        .map(|who| {
            let row = said.lines().find_map(|line| line.trim_start().strip_prefix(who));
            row.unwrap_or_else(|| panic!("no row of {who} in\n{said}")).trim().chars().collect()
        })
        .into();
    let mut holders: Vec<usize> = Vec::new();
    for column in 0..rows[0].len() {
        holders.extend((0..rows.len()).filter(|row| rows[*row][column] == '█'));
    }
    holders.dedup();
    assert_eq!(holders, [0, 1, 2, 3, 0], "\n{said}");
    let lost: Vec<bool> = rows.iter().map(|row| row.contains(&'×')).collect();
    assert_eq!(lost, [false, false, false, true], "\n{said}");
}
