//! The mutex: nobody re-enters it, whoever asks and from wherever. What it shares with the plain lock is in
//! `conformance.rs`.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use relatch::{Client, Error, Owner, Released};
use tokio::{sync::oneshot, time::sleep};

use crate::{
    harness::{Server, unique_name},
    kept::poll_once,
};

const MS: Duration = Duration::from_millis(1);

async fn connect() -> Client {
    Client::connect(Server::shared().url()).await.expect("connects")
}

/// How many are in a section at the same time, and how many there ever were.
#[derive(Default)]
struct Section {
    inside: AtomicU32,
    most: AtomicU32,
}

impl Section {
    async fn work(&self, work: impl Future<Output = ()>) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        work.await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn branches_of_one_task_are_never_in_the_section_together() {
    branches_exclude_each_other(&connect().await).await;
}

pub(crate) async fn branches_exclude_each_other(client: &Client) {
    let (mutex, lock) = (client.mutex(unique_name()), client.lock(unique_name()));
    let (excluded, nested) = (Section::default(), Section::default());
    let branches = stream::iter(0..8_u32).map(|branch| {
        let (mutex, lock, excluded, nested) = (&mutex, &lock, &excluded, &nested);
        async move {
            // None starts while another one is still asking.
            sleep(MS * 2 * branch).await;
            let guard = mutex.lock().await.expect("acquires");
            excluded.work(sleep(5 * MS)).await;
            guard.unlock().await.expect("releases");
            let _nests = lock.lock().owner(&Owner::new()).await.expect("acquires");
            nested.work(sleep(MS)).await;
        }
    });
    branches.buffer_unordered(8).collect::<Vec<()>>().await;
    assert_eq!((excluded.most(), nested.most()), (1, 1));
}

#[tokio::test]
async fn a_guard_that_was_moved_into_a_job_keeps_the_next_request_of_the_same_task_out() {
    let client = connect().await;
    let mutex = client.mutex(unique_name());
    let section = Arc::new(Section::default());
    let guard = mutex.lock().await.expect("acquires");
    let (begin, begun) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let inside = Arc::clone(&section);
    let job = tokio::spawn(async move {
        let work = async {
            begin.send(()).expect("the test waits for the job");
            ended.await.expect("the test ends the job");
        };
        inside.work(work).await;
        guard.unlock().await
    });
    begun.await.expect("the job begins");
    assert!(mutex.try_lock().await.expect("answers").is_none());
    let mut request = Box::pin(async {
        let guard = mutex.lock().await.expect("acquires");
        section.work(ready(())).await;
        guard
    });
    assert!(poll_once(&mut request).await.is_pending());
    // All that time both of them want to be in.
    assert!(mutex.try_lock().wait(20 * MS).await.expect("answers").is_none());
    assert!(poll_once(&mut request).await.is_pending());
    end.send(()).expect("the job waits");
    let next = request.await;
    assert_eq!(job.await.expect("no panic").expect("releases"), Released::Freed);
    next.unlock().await.expect("releases");
    assert_eq!(section.most(), 1);
}

#[tokio::test]
async fn a_lock_and_a_mutex_of_one_name_exclude_each_other() {
    let (client, other) = (connect().await, connect().await);
    for elsewhere in [&client, &other] {
        let name = unique_name();
        let guard = client.lock(&name).lock().await.expect("acquires");
        assert!(elsewhere.mutex(&name).try_lock().await.expect("answers").is_none());
        guard.unlock().await.expect("releases");

        let guard = elsewhere.mutex(&name).lock().await.expect("acquires");
        assert!(client.lock(&name).try_lock().await.expect("answers").is_none());
        assert!(client.mutex(&name).is_locked().await.expect("answers"));
        let seen = client.lock(&name).inspect().await.expect("answers").expect("it is held");
        assert_eq!((seen.client_id, seen.hold_count), (elsewhere.id().to_string(), 1));
        assert!(!client.lock(&name).is_held(), "whoever took the mutex, it is nobody's who could nest");
        guard.unlock().await.expect("releases");
        client.lock(&name).try_lock().await.expect("answers").expect("free").unlock().await.expect("releases");
    }
}

#[tokio::test]
async fn an_owner_is_refused_and_nothing_is_asked() {
    let client = connect().await;
    let mutex = client.mutex(unique_name());
    let monitor = Server::shared().monitor();
    let owner = Owner::new();
    let refused = [mutex.lock().owner(&owner).await.map(drop), mutex.try_lock().owner(&owner).await.map(drop)];
    for answer in refused {
        assert!(matches!(answer, Err(Error::Invalid { what: "owner", .. })), "{answer:?}");
    }
    assert!(!monitor.ran().iter().any(|ran| ran.mentions(mutex.name())));
}

#[tokio::test]
async fn a_detached_mutex_is_released_by_its_owner_through_the_lock() {
    let client = connect().await;
    let mutex = client.mutex(unique_name());
    let owner = mutex.lock().await.expect("acquires").detach();
    assert!(mutex.try_lock().await.expect("answers").is_none());
    let lock = client.lock(mutex.name());
    assert!(matches!(lock.unlock().await, Err(Error::NotHeld { .. })), "it is not this task's");
    assert_eq!(lock.unlock().owner(&owner).await.expect("releases"), Released::Freed);
    assert!(!mutex.is_locked().await.expect("answers"));
}
