//! What a client warns of where its callers are tasks of another runtime than the one that it lives on.

#[cfg(feature = "embedded")]
use std::{
    pin::pin,
    task::{Context, Waker},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use relatch::{Client, ClientBuilder};
use tokio::{runtime::Builder, task::spawn_blocking};
#[cfg(feature = "embedded")]
use tokio::{
    sync::{Barrier, mpsc, oneshot},
    task::JoinHandle,
    time::advance,
};
use tracing::{Level, dispatcher};

use crate::harness::{Server, eventually_async, traces::Traces, unique_name};

const MS: Duration = Duration::from_millis(1);
/// How long anything may take on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// Runs this in a task of another runtime, on a thread that is recorded, too. Where time is paused it stands still meanwhile.
async fn in_a_task_elsewhere<T: Send + 'static>(traces: &Traces, job: impl Future<Output = T> + Send + 'static) -> T {
    let dispatch = traces.dispatch();
    let elsewhere = move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("starts");
        runtime.block_on(async { tokio::spawn(job).await })
    };
    let done = spawn_blocking(move || dispatcher::with_default(&dispatch, elsewhere)).await;
    done.expect("no panic").expect("no panic")
}

/// How often it was warned so of that lock.
fn warnings(traces: &Traces, lock: &str, start: &str) -> usize {
    let warned = traces.all().into_iter().filter(|said| said.level == Level::WARN && said.what.starts_with(start));
    warned.filter(|said| said.fields.values().any(|field| field == lock)).count()
}

fn builder() -> ClientBuilder {
    Client::builder().url(Server::shared().url())
}

#[tokio::test]
async fn guards_that_are_dropped_at_once_by_a_task_elsewhere_are_one_warning() {
    const DROPPED: &str = "guards are dropped at once";
    let traces = Traces::here();
    for client in [builder().connect().await, builder().own_thread().connect().await] {
        let (client, name, over) = (client.expect("connects"), unique_name(), Arc::new(AtomicBool::new(false)));
        let (lock, until) = (client.lock(&name), Arc::clone(&over));
        let drops = in_a_task_elsewhere(&traces, async move {
            let mut left = 10;
            while left > 0 {
                drop(lock.try_lock().wait(SOON).await.expect("the server answers").expect("its turn comes"));
                left -= i32::from(until.load(Ordering::SeqCst));
            }
        });
        // What is dropped may take longer on a busy machine, and then counts for nothing.
        let warned = async {
            eventually_async(SOON, async || warnings(&traces, &name, DROPPED) == 1).await;
            over.store(true, Ordering::SeqCst);
        };
        tokio::join!(drops, warned);
        assert_eq!(warnings(&traces, &name, DROPPED), 1);
    }
}

#[tokio::test]
async fn guards_that_a_task_elsewhere_is_given_by_another_are_dropped_there_for_a_reason() {
    let traces = Traces::here();
    let (client, name) = (builder().connect().await.expect("connects"), unique_name());
    let lock = client.mutex(&name);
    in_a_task_elsewhere(&traces, async move {
        for _ in 0..300 {
            let lock = lock.clone();
            drop(tokio::spawn(async move { lock.lock().await }).await.expect("no panic").expect("its turn comes"));
        }
    })
    .await;
    assert_eq!(warnings(&traces, &name, ""), 0);
}

#[tokio::test]
async fn a_task_elsewhere_that_waits_for_a_mutex_that_it_took_is_one_warning() {
    const ITSELF: &str = "the task that waits for this mutex took it";
    let traces = Traces::here();
    let client = builder().connect().await.expect("connects");
    let [itself, others] = [(); 2].map(|()| unique_name());
    let locks = [&itself, &others].map(|name| client.mutex(name));
    in_a_task_elsewhere(&traces, async move {
        let [itself, others] = locks;
        let guard = itself.lock().await.expect("a free lock");
        for _ in 0..2 {
            assert!(itself.try_lock().wait(MS * 1_200).await.expect("is answered").is_none());
        }
        guard.unlock().await.expect("it is held");
        let guard = others.lock().await.expect("a free lock");
        let waiting = tokio::spawn(others.try_lock().wait(MS * 1_200));
        assert!(waiting.await.expect("no panic").expect("is answered").is_none());
        guard.unlock().await.expect("it is held");
    })
    .await;
    assert_eq!([&itself, &others].map(|name| warnings(&traces, name, ITSELF)), [1, 0]);
}

#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn tasks_elsewhere_that_wait_for_one_another_s_mutexes_are_one_warning() {
    let traces = Traces::here();
    let client = Client::embedded();
    let [x, y] = ["x", "y"].map(|name| client.mutex(name));
    let (tell, mut told) = mpsc::unbounded_channel();
    let (go_on, over) = oneshot::channel::<()>();
    let circle = in_a_task_elsewhere(&traces, async move {
        let both = Arc::new(Barrier::new(2));
        let tasks = [(x.clone(), y.clone()), (y, x)].map(|(first, second)| {
            let (both, tell) = (Arc::clone(&both), tell.clone());
            tokio::spawn(async move {
                let _first = first.lock().await.expect("a free lock");
                both.wait().await;
                let mut second = second.lock();
                assert!(pin!(&mut second).poll(&mut Context::from_waker(Waker::noop())).is_pending());
                tell.send(()).expect("the test waits");
                second.await
            })
        });
        assert!(over.await.is_err());
        tasks.iter().for_each(JoinHandle::abort);
    });
    let looks = async {
        told.recv().await.zip(told.recv().await).expect("both wait");
        for _ in 0..60 {
            advance(MS * 1_000).await;
        }
        drop(go_on);
    };
    tokio::join!(circle, looks);
    assert_eq!(warnings(&traces, "x, y", "owners of these locks wait for one another"), 1);
}
