//! Several libraries under one load: each in processes of its own, in rounds, taking turns in which comes first. What is
//! made of the figures is the case's.

use std::{
    env, fs,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use tokio::{process::Command, task::JoinSet, time::timeout};

use crate::{
    bench::Bench,
    load::{Info, Result},
    report::median,
};

/// A library that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    /// With fixed leases.
    Leased,
    /// The scripts, sent one after the other.
    Raw,
    Rslock,
    Rlock,
}

impl Who {
    /// Other libraries.
    pub(crate) const PEERS: [Self; 2] = [Self::Rslock, Self::Rlock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "relatch",
            Self::Leased => "relatch-leased",
            Self::Raw => "raw",
            Self::Rslock => "rslock",
            Self::Rlock => "rlock",
        }
    }
}

/// What is asked of each library.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// As the child's command line has it.
    pub(crate) case: &'static str,
    pub(crate) tasks: usize,
    pub(crate) processes: usize,
    /// Of each round.
    pub(crate) span: Duration,
    /// How long a process of ours keeps the name to itself, where it is not the default.
    pub(crate) slice: Option<Duration>,
}

/// What one library did in one round.
pub(crate) struct Run {
    who: Who,
    /// One for each process.
    lines: Vec<String>,
    /// What the server did for it, warm-up and all.
    info: Info,
}

/// All runs.
pub(crate) struct Contest(Vec<Run>);

/// Tells a child its slice.
pub(crate) const SLICE_MS: &str = "BENCH_SLICE_MS";

/// How long a child may take beyond what it was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

impl Contest {
    /// Runs all of them; whoever cannot take part is left out.
    pub(crate) async fn hold(bench: &Bench, entries: &[(Who, Load)], rounds: u32) -> Result<Self> {
        let able = |who: Who| !Who::PEERS.contains(&who) || bench.peers.program.is_some();
        let entries: Vec<_> = entries.iter().filter(|(who, _)| able(*who)).collect();
        let mut runs = Vec::new();
        for round in 0..rounds as usize {
            for turn in 0..entries.len() {
                let (who, load) = entries[(round + turn) % entries.len()];
                runs.push(run(bench, *who, *load).await?);
            }
        }
        Ok(Self(runs))
    }

    pub(crate) fn of(&self, who: Who) -> impl Iterator<Item = &Run> {
        self.0.iter().filter(move |run| run.who == who)
    }

    /// The median over the rounds; nothing of one that did not take part.
    pub(crate) fn median(&self, who: Who, figure: impl Fn(&Run) -> f64) -> Option<f64> {
        let figures: Vec<f64> = self.of(who).map(figure).collect();
        (!figures.is_empty()).then(|| median(figures))
    }

    pub(crate) fn most(&self, who: Who, figure: impl Fn(&Run) -> f64) -> f64 {
        self.of(who).map(figure).fold(0.0, f64::max)
    }

    pub(crate) fn least(&self, who: Who, figure: impl Fn(&Run) -> f64) -> f64 {
        self.of(who).map(figure).fold(f64::INFINITY, f64::min)
    }

    /// The median over the rounds of the ratio of two rates of the same round.
    pub(crate) fn ratio(&self, who: Who, base: Who) -> Option<f64> {
        self.ratio_of(Run::rate, who, base)
    }

    /// The same of another figure.
    pub(crate) fn ratio_of(&self, figure: fn(&Run) -> f64, who: Who, base: Who) -> Option<f64> {
        let ratios: Vec<f64> = self.of(who).zip(self.of(base)).map(|(who, base)| figure(who) / figure(base)).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    /// The ratio to the fastest of all other libraries.
    pub(crate) fn ratio_to_peers(&self, who: Who) -> Option<f64> {
        Who::PEERS.into_iter().filter_map(|peer| self.ratio(who, peer)).min_by(f64::total_cmp)
    }
}

impl Run {
    /// Sections that counted, a second, of all processes.
    pub(crate) fn rate(&self) -> f64 {
        self.sum("ops_per_s")
    }

    /// Sections in all, as the server saw them.
    fn sections(&self) -> f64 {
        self.sum("all_ops").max(1.0)
    }

    pub(crate) fn evalsha(&self) -> f64 {
        self.info.scripts as f64 / self.sections()
    }

    pub(crate) fn commands(&self) -> f64 {
        self.info.commands as f64 / self.sections()
    }

    /// The server's CPU, in seconds a section.
    pub(crate) fn server_cpu(&self) -> f64 {
        self.info.cpu / self.sections()
    }

    /// The CPU of its own processes, in seconds a section.
    pub(crate) fn own_cpu(&self) -> f64 {
        self.sum("cpu_ms") / 1e3 / self.sections()
    }

    /// The least served process to the most served one.
    pub(crate) fn process_fairness(&self) -> f64 {
        self.least("ops") / self.most("ops").max(1.0)
    }

    pub(crate) fn sum(&self, field: &str) -> f64 {
        self.lines.iter().map(|line| number(line, field)).sum()
    }

    pub(crate) fn most(&self, field: &str) -> f64 {
        self.lines.iter().map(|line| number(line, field)).fold(0.0, f64::max)
    }

    pub(crate) fn least(&self, field: &str) -> f64 {
        self.lines.iter().map(|line| number(line, field)).fold(f64::INFINITY, f64::min)
    }

    /// The middle one of the processes, in seconds.
    pub(crate) fn secs(&self, field_us: &str) -> f64 {
        median(self.lines.iter().map(|line| number(line, field_us) / 1e6).collect())
    }
}

/// A number of a flat line of JSON; what is not there is no number.
fn number(line: &str, field: &str) -> f64 {
    let value = line.split_once(&format!("\"{field}\":")).map(|(_, rest)| rest);
    value.and_then(|rest| rest.split([',', '}']).next()?.parse().ok()).unwrap_or(f64::NAN)
}

async fn run(bench: &Bench, who: Who, load: Load) -> Result<Run> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Relaxed);
    let before = bench.info().await?;
    let lines = spawn(bench, who.name(), load, &format!("bench:barrier:{number}")).await?;
    let info = bench.info().await?.since(before);
    Ok(Run { who, lines: lines.into_iter().map(|said| last_line(&said)).collect(), info })
}

fn last_line(said: &str) -> String {
    said.lines().rfind(|line| line.starts_with('{')).unwrap_or_default().to_owned()
}

/// Starts the processes of one library together, and gives what each of them said.
pub(crate) async fn spawn(bench: &Bench, library: &str, load: Load, barrier: &str) -> Result<Vec<String>> {
    let ours = env::current_exe()?;
    let theirs = Who::PEERS.iter().any(|peer| peer.name() == library);
    let program = bench.peers.program.as_ref().filter(|_| theirs).unwrap_or(&ours);
    let socket = Path::new(bench.server.url().trim_start_matches("redis+unix://"));
    // Beside the server's socket: gone with it.
    let shared = socket.with_file_name("inside");
    fs::write(&shared, [0; 8])?;
    let mut children = JoinSet::new();
    for _ in 0..load.processes {
        let mut child = Command::new(program);
        child.args(["--redis", bench.server.url(), "--library", library, "--case", load.case]);
        child.args(["--tasks", &load.tasks.to_string(), "--secs", &load.span.as_secs_f64().to_string()]);
        child.args(["--warm", if bench.wishes.measured { "0.5" } else { "0.01" }]);
        if let Some(slice) = load.slice {
            child.env(SLICE_MS, slice.as_millis().to_string());
        }
        if load.processes > 1 {
            child.env("BENCH_BARRIER", format!("{barrier} {}", load.processes)).env("BENCH_SHM", &shared);
        }
        let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        children.spawn(timeout(load.span + PATIENCE, child.wait_with_output()));
    }
    let mut said = Vec::new();
    while let Some(done) = children.join_next().await {
        let output = done?.map_err(|_| format!("{library} does not end"))??;
        if !output.status.success() {
            return Err(format!("{library}: {}", output.status).into());
        }
        said.push(String::from_utf8(output.stdout)?);
    }
    // The counter is the one key that a run leaves.
    bench.forget(barrier).await?;
    Ok(said)
}
