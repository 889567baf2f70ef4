//! A service that is told to stop: its holders are, too, and the next process gets their locks as soon as they have.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join;
use relatch::{Client, Error, Owner, Released, Shutdown};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{Proxy, matching},
        unique_name,
    },
    runtimes::{elsewhere, without_a_runtime},
};

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_millis(1_500);

async fn connect(url: String) -> Client {
    Client::builder().url(url).connect().await.expect("connects")
}

#[tokio::test]
async fn the_next_process_gets_a_lock_as_soon_as_its_holder_has_stopped() {
    let (old, new) = (connect(Server::shared().url()).await, connect(Server::shared().url()).await);
    let (name, stopped) = (unique_name(), Arc::new(AtomicBool::new(false)));
    let guard = old.lock(&name).lock().await.expect("a free lock");
    let says = Arc::clone(&stopped);
    let worker = tokio::spawn(async move {
        guard.cancellation().cancelled().await;
        // What it has begun it brings to an end, under the lock.
        sleep(Duration::from_millis(200)).await;
        assert!(guard.is_held());
        says.store(true, Ordering::SeqCst);
    });
    let next = tokio::spawn(async move { new.lock(&name).lock().await });
    let began = Instant::now();
    let shutdown = old.shutdown(SOON * 3).await;
    assert!(shutdown.is_clean() && shutdown.released == 1, "{shutdown:?}");
    let theirs = next.await.expect("no panic").expect("its turn comes");
    assert!(stopped.load(Ordering::SeqCst), "two are inside");
    // The lease is 30 s.
    assert!(began.elapsed() < SOON, "the next one waited {:?}", began.elapsed());
    worker.await.expect("no panic");
    theirs.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_pool_of_workers_and_its_queues_wind_down() {
    let server = Server::own();
    let client = connect(server.url()).await;
    let mut workers = JoinSet::new();
    for worker in 0..40 {
        let lock = client.mutex(format!("queue {}", worker % 4));
        workers.spawn(async move {
            loop {
                match lock.lock().await {
                    Ok(guard) => {
                        sleep(Duration::from_millis(3)).await;
                        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
                    }
                    Err(Error::Closed) => return,
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    sleep(Duration::from_millis(100)).await;
    let shutdown = client.shutdown(SOON).await;
    assert!(shutdown.is_clean(), "{shutdown:?}");
    while let Some(worker) = workers.join_next().await {
        worker.expect("no panic");
    }
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_still_held_is_named_and_renewed_until_the_grace_is_over() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG).connect().await.expect("connects");
    let guard = client.lock("kept").lock().await.expect("a free lock");
    let (lock, owner) = (client.lock("detached"), Owner::new());
    assert_eq!(lock.lock().owner(&owner).await.expect("a free lock").detach(), owner);
    let shutting_down = client.clone();
    let shutdown = tokio::spawn(async move { shutting_down.shutdown(WATCHDOG * 2).await });
    guard.cancellation().cancelled().await;
    sleep(WATCHDOG + WATCHDOG / 5).await;
    assert!(guard.is_held() && !server.hash("kept").is_empty(), "it is renewed");
    assert_eq!(lock.unlock().owner(&owner).await.expect("it is held"), Released::Freed);
    let Shutdown { released, still_held, .. } = shutdown.await.expect("no panic");
    assert_eq!((released, still_held), (1, vec!["kept".into()]));
    assert!(client.is_closed() && !guard.is_held());
    drop(guard);
    assert_eq!(proxy.count(&matching::script("release").mentioning("kept")), 0);
    eventually_async(SOON, async || server.keys().is_empty()).await;
}

#[test]
fn a_client_with_a_thread_of_its_own_is_shut_down_from_anywhere() {
    let url = Server::shared().url();
    let client = Client::builder().url(url).own_thread().connect_blocking().expect("connects");
    let lock = client.lock(unique_name());
    let guard = without_a_runtime(async { lock.lock().await }).expect("a free lock");
    let shutting_down = client.clone();
    let shutdown = elsewhere(move || {
        without_a_runtime(async {
            let stop = guard.cancellation();
            let holder = async {
                stop.cancelled().await;
                drop(guard);
            };
            join(shutting_down.shutdown(SOON), holder).await.0
        })
    });
    assert!(shutdown.is_clean() && shutdown.released == 1 && client.is_closed());
    assert!(Server::shared().hash(lock.name()).is_empty());
}
