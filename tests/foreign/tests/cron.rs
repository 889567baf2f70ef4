//! A periodic job under somebody else's scheduler: every node's cron fires every second, and each second's work is done once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use relatch::{Client, EmbeddedStore, JobContext, Outcome};
use tokio::time::sleep;
use tokio_cron_scheduler::{Job, JobScheduler};

const SECOND: Duration = Duration::from_secs(1);

/// So often was each period's work done.
type Done = Arc<Mutex<BTreeMap<SystemTime, u32>>>;

/// What a service does where it starts.
async fn node(client: Client, done: Done) -> JobScheduler {
    let job = client.periodic_job("report", SECOND);
    let cron = JobScheduler::new().await.expect("it starts");
    let every_second = Job::new_async("* * * * * *", move |_, _| {
        let (job, done) = (job.clone(), Arc::clone(&done));
        Box::pin(async move {
            let work = |ctx: JobContext| async move {
                *done.lock().expect("no panic").entry(ctx.period()).or_default() += 1;
                Ok::<_, ()>(())
            };
            let outcome = job.run(work).await.expect("the store answers");
            assert!(matches!(outcome, Outcome::Ran(()) | Outcome::AlreadyDone { .. } | Outcome::Running { .. }));
        })
    });
    cron.add(every_second.expect("it is a schedule")).await.expect("it has room");
    cron.start().await.expect("it starts");
    cron
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_s_cron_fires_and_each_period_s_work_is_done_once() {
    let (store, done) = (EmbeddedStore::new(), Done::default());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let client = Client::builder().embedded(&store).connect().await.expect("a store refuses nobody");
        nodes.push(node(client, Arc::clone(&done)).await);
    }
    let enough = async {
        while done.lock().expect("no panic").len() < 4 {
            sleep(SECOND / 20).await;
        }
    };
    tokio::time::timeout(SECOND * 60, enough).await.expect("they fire every second");
    for mut node in nodes {
        node.shutdown().await.expect("it ends");
    }
    let done = done.lock().expect("no panic");
    assert!(done.values().all(|times| *times == 1), "{done:?}");
}
