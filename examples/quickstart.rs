//! Four things that a lock does, as a timeline: two owners contend, one owner nests, the watchdog outlives its lease,
//! and a loss is told.
//!
//! ```text
//! cargo run --example quickstart --features embedded        # on a store in this process
//! cargo run --example quickstart -- redis://127.0.0.1/      # on a server; REDIS_URL names it as well
//! ```

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

#[cfg(feature = "embedded")]
use relatch::EmbeddedStore;
use relatch::{Client, ClientBuilder, Lease, Released, Uuid};
use tokio::{sync::oneshot, time::sleep};

/// Short, so that the watchdog can be seen at work; the default of 30 s is right for a service.
const WATCHDOG: Duration = Duration::from_millis(600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).or_else(|| env::var("REDIS_URL").ok());

    // Two clients are two processes, wherever they live. The prefix keeps this run apart from every other.
    let builder = reach(url).watchdog_timeout(WATCHDOG).name_prefix(format!("quickstart:{}:", Uuid::new_v4()));
    let ann = Person { name: "ann", client: builder.clone().connect().await?, start: Instant::now() };
    let ben = Person { name: "ben", client: builder.connect().await?, start: ann.start };

    println!("\n1. Two owners contend: the second is woken when the first lets go");
    contend(&ann, &ben).await?;

    println!("\n2. One owner nests: a function locks what its caller holds");
    let guard = ann.client.lock("ledger").lock().await?;
    ann.says("holds \"ledger\"");
    book(&ann).await?;
    ann.says(format!("lets go of the last one: {:?}", guard.unlock().await?));

    println!("\n3. The watchdog renews: the work outlives its lease");
    outlive(&ann, &ben).await?;

    println!("\n4. A loss is told: an operator frees the lock while its holder works");
    lose(&ann, &ben).await?;

    ann.client.close().await;
    ben.client.close().await;
    ann.says("and ben close their clients");
    Ok(())
}

/// The server that was named, or else a store in this process.
#[cfg(feature = "embedded")]
fn reach(url: Option<String>) -> ClientBuilder {
    match url {
        Some(url) => Client::builder().url(url),
        None => Client::builder().embedded(&EmbeddedStore::new()),
    }
}

/// The server that was named, or else the usual one.
#[cfg(not(feature = "embedded"))]
fn reach(url: Option<String>) -> ClientBuilder {
    Client::builder().url(url.as_deref().unwrap_or("redis://127.0.0.1/"))
}

async fn contend(ann: &Person, ben: &Person) -> Result<(), Box<dyn Error>> {
    let guard = ann.client.lock("kitchen").lock().await?;
    ann.says("enters \"kitchen\"");
    let (left, when_left) = oneshot::channel();

    let busy = ben.client.lock("kitchen").try_lock().await?;
    ben.says(if busy.is_none() { "tries, and is told that it is taken" } else { "should not have come in" });
    let waits = async {
        ben.says("waits");
        let guard = ben.client.lock("kitchen").lock().await?;
        let entered = Instant::now();
        ben.says("enters \"kitchen\"");
        guard.unlock().await?;
        ben.says("leaves");
        Ok::<_, relatch::Error>(entered)
    };
    let works = async {
        sleep(Duration::from_millis(300)).await;
        ann.says("leaves");
        let _ = left.send(Instant::now());
        guard.unlock().await
    };
    let (entered, released) = tokio::join!(waits, works);
    released?;
    let gap = entered?.duration_since(when_left.await?);
    ben.says(format!("was inside {gap:.1?} after ann began to leave"));
    Ok(())
}

/// Knows nothing of its caller: it takes the lock that it needs.
async fn book(who: &Person) -> relatch::Result<()> {
    let lock = who.client.lock("ledger");
    let guard = lock.lock().await?;
    who.says(format!("takes it again, without waiting: held {} times", lock.hold_count()));
    match guard.unlock().await? {
        Released::StillHeld(times) => who.says(format!("lets go of the inner one: held {times} time")),
        other => who.says(format!("should still hold it: {other:?}")),
    }
    Ok(())
}

async fn outlive(ann: &Person, ben: &Person) -> relatch::Result<()> {
    let guard = ann.client.lock("export").lock().lease(Lease::Watchdog).await?;
    ann.says(format!("holds \"export\" on a lease of {WATCHDOG:?}"));
    for _ in 0..3 {
        sleep(WATCHDOG * 3 / 4).await;
        let left = ben.client.lock("export").remaining_lease().await?.unwrap_or_default();
        ben.says(format!("asks the server: it is taken for {left:.0?} more"));
    }
    let verdict = if guard.is_held() { "still holds it" } else { "has lost it" };
    ann.says(format!("{verdict} after {:?}", WATCHDOG * 9 / 4));
    guard.unlock().await?;
    ann.says("leaves");
    Ok(())
}

async fn lose(ann: &Person, ben: &Person) -> relatch::Result<()> {
    let guard = ann.client.lock("deploy").lock().await?;
    ann.says("holds \"deploy\" and starts ten seconds of work");
    let operator = async {
        sleep(Duration::from_millis(100)).await;
        let freed = ben.client.lock("deploy").force_unlock().await;
        ben.says("frees it by force");
        freed
    };
    let (worked, freed) = tokio::join!(guard.protect(sleep(Duration::from_secs(10))), operator);
    freed?;
    match worked {
        Err(error) if error.is_lost() => ann.says(format!("is told, and the work is stopped: {error}")),
        Err(error) => return Err(error),
        Ok(()) => ann.says("was not told"),
    }
    // A lost hold needs no release: unlocking it repeats how it ended.
    let answer = guard.unlock().await;
    ann.says(format!("asks once more: {}", if answer.is_err_and(|e| e.is_lost()) { "lost" } else { "released" }));
    Ok(())
}

/// Somebody with a client of their own.
struct Person {
    name: &'static str,
    client: Client,
    start: Instant,
}

impl Person {
    fn says(&self, what: impl AsRef<str>) {
        println!("{:>6} ms  {}  {}", self.start.elapsed().as_millis(), self.name, what.as_ref());
    }
}
