//! One replica leads, the others stand by. The leader stops as soon as it is no longer sure, and its workers with it.

use std::{env, error::Error, time::Duration};

use relatch::{CancellationToken, Client, LockGuard, Uuid};
use tokio::{
    task::JoinSet,
    time::{interval, sleep},
};

struct Replica {
    name: &'static str,
    client: Client,
}

impl Replica {
    /// Leads for a term, or until the lock is lost. The hold may last as long as it likes: the watchdog renews it.
    async fn lead(&self, lock: &str, term: Duration) -> relatch::Result<()> {
        let guard = self.client.mutex(lock).lock().await?;
        println!("{}: leads", self.name);
        // Cancelled by a loss, since it is the hold's; and by us, when the term is over.
        let (mut workers, stop) = (JoinSet::new(), guard.cancellation());
        workers.spawn(poll_the_queue(self.name, stop.clone()));

        let reason = self.until_lost(&guard, term).await;
        // In this order: the next leader begins as soon as the lock is free, and by then nobody may work for this one.
        stop.cancel();
        workers.join_all().await;
        let released = guard.unlock().await;
        match reason {
            Some(reason) => println!("{}: deposed: {reason}", self.name),
            None => println!("{}: steps down: {:?}", self.name, released?),
        }
        Ok(())
    }

    async fn until_lost(&self, guard: &LockGuard, term: Duration) -> Option<relatch::Error> {
        tokio::select! {
            biased; // first of all the loss: a term must not be found over when the lock is gone
            reason = guard.lost() => Some(reason),
            () = sleep(term) => None,
        }
    }
}

/// Knows nothing of locks: it works until its token says stop. What it has begun it ends, which takes a moment.
async fn poll_the_queue(name: &str, stop: CancellationToken) {
    let mut tick = interval(Duration::from_millis(20));
    let mut polled = 0;
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        polled += 1;
    }
    sleep(Duration::from_millis(20)).await;
    println!("{name}: its worker stops after {polled} rounds");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let lock = format!("leader:{}", Uuid::new_v4());
    // A loss that happens on the server is noticed with the next renewal, a third of this later at most.
    let builder = Client::builder().url(&url).watchdog_timeout(Duration::from_millis(600));
    let a = Replica { name: "a", client: builder.clone().connect().await? };
    let b = Replica { name: "b", client: builder.connect().await? };

    // Replica b stands by until a is done, and would then lead for a minute, did not an operator end its term.
    let operator = async {
        sleep(Duration::from_millis(400)).await;
        a.client.lock(&lock).force_unlock().await
    };
    let (short, long) = (Duration::from_millis(150), Duration::from_secs(60));
    let b_leads = async {
        sleep(Duration::from_millis(20)).await;
        b.lead(&lock, long).await
    };
    let (first, second, forced) = tokio::join!(a.lead(&lock, short), b_leads, operator);
    first?;
    second?;
    assert!(forced?);

    a.client.close().await;
    b.client.close().await;
    Ok(())
}
