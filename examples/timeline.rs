//! One lock and four workers in three processes, as bars over time: a hand-over inside of a process, a release that wakes
//! another one, a process that is cut off while it holds, and the lease that lets the next one in.
//!
//! ```text
//! cargo run --example timeline --features embedded
//! ```
//!
//! In a terminal the bars grow as it happens; elsewhere they are printed at the end.

use std::{
    error::Error,
    io::{IsTerminal, Write, stdout},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use relatch::{Client, EmbeddedStore};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

/// Short, so that a lease can be seen to run out; the default of 30 s is right for a service.
const WATCHDOG: Duration = Duration::from_millis(1200);
/// Long, so that a hand-over can be seen; the default is 10 ms.
const SLICE: Duration = Duration::from_secs(2);
/// One column of the picture.
const COLUMN: Duration = Duration::from_millis(100);
const COLUMNS: usize = 60;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = EmbeddedStore::new();
    // Each client is a process of its own, though all of them live here.
    let process = || Client::builder().embedded(&store).watchdog_timeout(WATCHDOG).handover_slice(SLICE).connect();
    let (ann, ben, cyd) = (process().await?, process().await?, process().await?);

    let lanes: Vec<Lane> = ["ann, task 1", "ann, task 2", "ben", "cyd"].into_iter().map(Lane::new).collect();
    let mut play = JoinSet::new();
    let mut worker = |lane: usize, client: &Client, begins: u64, works: u64| {
        play.spawn(work(lanes[lane].clone(), client.clone(), ms(begins), ms(works)));
    };
    worker(0, &ann, 200, 900);
    worker(1, &ann, 400, 700); // from task to task: nothing is sent
    worker(2, &ben, 600, 700); // from process to process: a message wakes it
    worker(3, &cyd, 2200, 3000);
    worker(0, &ann, 3100, 800); // waits for a process that says nothing any more

    play.spawn(async move {
        sleep(ms(3500)).await;
        store.partition(&cyd)
    });
    let picture = tokio::spawn(draw(lanes));
    while let Some(done) = play.join_next().await {
        done??;
    }
    picture.await??;
    Ok(())
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One worker's turn: it waits for the press, works under the guard, and stops where it is told that the lock is lost.
async fn work(lane: Lane, client: Client, begins: Duration, works: Duration) -> relatch::Result<()> {
    sleep(begins).await;
    lane.set(Doing::Waits);
    let guard = client.lock("press").lock().await?;
    lane.set(Doing::Holds);
    match guard.protect(sleep(works)).await {
        Ok(()) => {
            lane.set(Doing::Rests);
            guard.unlock().await?;
        }
        Err(error) if error.is_lost() => {
            lane.set(Doing::Lost);
            sleep(5 * COLUMN).await;
            lane.set(Doing::Rests);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// What a worker does at a moment.
#[derive(Clone, Copy)]
enum Doing {
    Rests,
    Waits,
    Holds,
    Lost,
}

impl Doing {
    const ALL: [Self; 4] = [Self::Rests, Self::Waits, Self::Holds, Self::Lost];

    fn sign(self) -> char {
        match self {
            Self::Rests => '·',
            Self::Waits => '░',
            Self::Holds => '█',
            Self::Lost => '×',
        }
    }
}

/// A worker's row.
#[derive(Clone)]
struct Lane {
    name: &'static str,
    doing: Arc<AtomicU8>,
}

impl Lane {
    fn new(name: &'static str) -> Self {
        Self { name, doing: Arc::new(AtomicU8::new(Doing::Rests as u8)) }
    }

    fn set(&self, doing: Doing) {
        self.doing.store(doing as u8, Ordering::Relaxed);
    }

    fn doing(&self) -> Doing {
        Doing::ALL[usize::from(self.doing.load(Ordering::Relaxed))]
    }
}

/// Looks at everybody once a column.
async fn draw(lanes: Vec<Lane>) -> std::io::Result<()> {
    let live = stdout().is_terminal();
    let start = Instant::now();
    let mut rows = vec![String::new(); lanes.len()];
    let mut tick = interval(COLUMN);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    println!("█ holds  ░ waits  × was told that it lost the lock  · does something else\n");
    for column in 0..COLUMNS {
        tick.tick().await;
        for (row, lane) in rows.iter_mut().zip(&lanes) {
            row.push(lane.doing().sign());
        }
        if live {
            show(&lanes, &rows, start, column > 0)?;
        }
    }
    if !live {
        show(&lanes, &rows, start, false)?;
    }
    Ok(())
}

/// Prints the rows, over the ones of before where there are any.
fn show(lanes: &[Lane], rows: &[String], start: Instant, again: bool) -> std::io::Result<()> {
    let mut out = stdout().lock();
    if again {
        // Up to the first row.
        write!(out, "\x1b[{}A", lanes.len() + 1)?;
    }
    for (lane, row) in lanes.iter().zip(rows) {
        writeln!(out, "{:>12}  {row}", lane.name)?;
    }
    writeln!(out, "{:>12}  {:.1} s", "", start.elapsed().as_secs_f64())
}
