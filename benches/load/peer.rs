//! The command line of a program that measures one library on a server that somebody else started, and the line of JSON
//! that it answers with.
//!
//! ```text
//! PROGRAM --redis HOST:PORT --case serial|distinct|hot|hold|procs|renew --tasks N --secs S
//! ```
//!
//! | case | what |
//! | --- | --- |
//! | serial, distinct | each task locks and unlocks a name of its own: times are of the pair |
//! | hot | all tasks want one name, and sections are empty: times are of the wait |
//! | hold | the same, and a section sleeps for 2 ms |
//! | procs | as hot, in one of several processes that start together |
//! | renew | so many holds of 10 s that the library renews |
//!
//! Two variables are for `procs`: `BENCH_BARRIER="key n"`, a counter that each process raises by one, and all start when
//! it reads `n`; and `BENCH_SHM`, a file of eight bytes, in which the processes check that only one of them is inside.

use std::{
    env,
    fs::{self, File, OpenOptions},
    path::PathBuf,
    time::Duration,
};

use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::{Library, Load, Result, connect, renew::renew, run};

/// How long a section of `hold` sleeps.
const SECTION: Duration = Duration::from_millis(2);

/// What the command line asks for.
pub(crate) struct Asked {
    /// Which of the program's libraries; the first by default.
    pub(crate) library: String,
    pub(crate) url: String,
    case: Case,
    tasks: usize,
    warm: Duration,
    pub(crate) span: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Serial,
    Distinct,
    Hot,
    Hold,
    Procs,
    Renew,
}

const CASES: &[(&str, Case)] = &[
    ("serial", Case::Serial),
    ("distinct", Case::Distinct),
    ("hot", Case::Hot),
    ("hold", Case::Hold),
    ("procs", Case::Procs),
    ("renew", Case::Renew),
];

impl Asked {
    /// Reads the arguments. Without a server it is the one that `REDIS_URL` names.
    pub(crate) fn read(mut args: impl Iterator<Item = String>, libraries: &[&str]) -> Result<Self> {
        let mut asked = Self {
            library: libraries.first().copied().unwrap_or_default().to_owned(),
            url: env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned()),
            case: Case::Serial,
            tasks: 1,
            warm: Duration::from_millis(500),
            span: Duration::from_secs(1),
        };
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--redis" if value.contains("://") => asked.url = value,
                "--redis" => asked.url = format!("redis://{value}/"),
                "--library" if libraries.contains(&value.as_str()) => asked.library = value,
                "--library" => return Err(format!("no library {value} here: {}", libraries.join(", ")).into()),
                "--case" => asked.case = case(&value)?,
                "--tasks" => asked.tasks = value.parse::<usize>()?.max(1),
                "--warm" => asked.warm = Duration::try_from_secs_f64(value.parse()?)?,
                "--secs" => asked.span = Duration::try_from_secs_f64(value.parse()?)?,
                _ => {
                    return Err(format!("{arg} is unknown: --redis, --library, --case, --tasks, --warm, --secs").into());
                }
            }
        }
        Ok(asked)
    }

    fn case_name(&self) -> &'static str {
        CASES.iter().find(|(_, case)| *case == self.case).map_or("", |(name, _)| name)
    }
}

fn case(name: &str) -> Result<Case> {
    let found = CASES.iter().find(|(known, _)| *known == name);
    let names: Vec<_> = CASES.iter().map(|(name, _)| *name).collect();
    Ok(found.ok_or_else(|| format!("no case is called {name}: {}", names.join(", ")))?.1)
}

/// Does it, and gives the line.
pub(crate) async fn answer<L: Library>(asked: &Asked, library: &L, version: &str) -> Result<String> {
    let mut connection = connect(&asked.url).await?;
    // Whatever is made at the first use is made now.
    let first = library.lock("bench:warm");
    let guard = L::acquire(&first).await?;
    L::release(&first, guard).await?;
    start_together(&mut connection).await?;
    let cpu = cpu_nanos();
    let fields = if asked.case == Case::Renew {
        renew(library, asked.tasks, asked.span, &mut connection).await?
    } else {
        let load = Load {
            tasks: asked.tasks,
            contended: matches!(asked.case, Case::Hot | Case::Hold | Case::Procs),
            section: if asked.case == Case::Hold { SECTION } else { Duration::ZERO },
            warm: asked.warm,
            span: asked.span,
        };
        run(library, load, shared_file()?).await.fields()
    };
    Ok(format!(
        "{{\"peer\":\"{}\",\"version\":\"{version}\",\"case\":\"{}\",\"tasks\":{},{fields},\"cpu_ms\":{:.1},\"rss_mb\":{:.1}}}",
        asked.library,
        asked.case_name(),
        asked.tasks,
        (cpu_nanos() - cpu) / 1e6,
        resident_kib() / 1024.0,
    ))
}

/// Waits until all processes of this run are there, where there are others.
async fn start_together(connection: &mut MultiplexedConnection) -> Result<()> {
    let Ok(barrier) = env::var("BENCH_BARRIER") else { return Ok(()) };
    let (key, processes) = barrier.split_once(' ').ok_or("BENCH_BARRIER is a key and a number")?;
    let processes: u64 = processes.parse()?;
    let mut there: u64 = redis::cmd("INCR").arg(key).query_async(connection).await?;
    while there < processes {
        sleep(Duration::from_millis(1)).await;
        there = redis::cmd("GET").arg(key).query_async(connection).await?;
    }
    Ok(())
}

fn shared_file() -> Result<Option<File>> {
    let Some(path) = env::var_os("BENCH_SHM") else { return Ok(None) };
    Ok(Some(OpenOptions::new().read(true).write(true).open(path)?))
}

/// The memory of this process; zero where the system does not say.
fn resident_kib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// What all threads of this process have run; zero where the system does not say.
fn cpu_nanos() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let run = |folder: PathBuf| fs::read_to_string(folder.join("schedstat")).ok()?.split(' ').next()?.parse().ok();
    threads.filter_map(|thread| run(thread.path())).fold(0.0, |sum, run: f64| sum + run)
}
