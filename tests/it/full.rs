//! A server that is full, or evicts, or may not write: what waits asks less and less often, and what is lost is told.

use std::time::Duration;

use relatch::{Client, Error, LostCause, Mutex, RefusedKind};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{Server, clock::monotonic, eventually_async, lag::Lag},
    kept::connected,
};

/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
const WAITERS: u64 = 100;
/// How long the commands are counted each time.
const COUNTED: Duration = Duration::from_secs(3);
/// How late something may be noticed that has a time of its own.
const SLACK: Duration = Duration::from_millis(500);

fn tell(server: &Server, words: &[&str]) {
    let (command, rest) = words.split_first().expect("a command");
    let _: redis::Value = redis::cmd(command).arg(rest).query(&mut server.connection()).expect("the server answers");
}

/// How many scripts were asked for within the time.
async fn asked(server: &Server) -> u64 {
    server.reset_counts();
    sleep(COUNTED).await;
    server.count("evalsha")
}

#[tokio::test]
async fn a_hundred_waiters_ask_ever_more_seldom_while_the_server_is_read_only_and_enter_when_it_heals() {
    let server = Server::own();
    let client = Client::connect(server.url()).await.expect("connects");
    let dropped = client.lock("dropped").lock().await.expect("a free lock");
    tell(&server, &["REPLICAOF", "127.0.0.1", "1"]);
    // Each for a lock of its own, and as many for one.
    let own = (0..WAITERS).map(|number| format!("{number}"));
    let names = own.chain((0..WAITERS).map(|_| "shared".to_owned()));
    let enter = async |mutex: Mutex| mutex.try_lock().wait(LOOK * 6).await.map(|guard| guard.is_some());
    let waiting: JoinSet<_> = names.map(|name| enter(client.mutex(name))).collect();
    drop(dropped);
    let contenders = WAITERS + 2;
    let (early, late) = (asked(&server).await, asked(&server).await);
    // The pauses are half a second on average in the end, and shorter before; without growth it would be thirty a second.
    assert!(early <= contenders * 20, "{early} at first");
    assert!(late <= contenders * 9, "{late} later on");
    // Whoever waits goes on asking, as often as a busy machine lets it.
    eventually_async(LOOK, async || server.count("evalsha") >= contenders).await;
    tell(&server, &["REPLICAOF", "NO", "ONE"]);
    let entered = waiting.join_all();
    for entered in timeout(LOOK, entered).await.expect("all enter") {
        assert!(entered.expect("the server answers"), "somebody else had it for a minute");
    }
    eventually_async(LOOK, async || server.keys().is_empty()).await;
}

#[tokio::test]
async fn a_hundred_waiters_ask_once_each_when_the_server_is_out_of_memory() {
    let server = Server::own();
    let client = Client::connect(server.url()).await.expect("connects");
    tell(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    server.reset_counts();
    let locks = (0..WAITERS).map(|number| client.mutex(format!("{number}")));
    let waiting: JoinSet<_> = locks.map(|mutex| async move { mutex.lock().await }).collect();
    for answer in waiting.join_all().await {
        let error = answer.expect_err("nothing can be written");
        assert!(matches!(error, Error::Refused { kind: RefusedKind::OutOfMemory, .. }), "{error:?}");
    }
    sleep(SLACK).await;
    assert_eq!(server.count("evalsha"), WAITERS);
}

#[tokio::test]
async fn a_holder_whose_key_was_evicted_is_told_at_its_next_renewal() {
    let watchdog = Duration::from_secs(3);
    let server = Server::builder().line("maxmemory-policy allkeys-lru").line("maxmemory-samples 64").start();
    let client = connected(Client::builder().url(server.url()).watchdog_timeout(watchdog)).await;
    let lock = client.lock("job");
    let guard = lock.lock().await.expect("a free lock");
    let lost = guard.lost();
    tell(&server, &["CONFIG", "SET", "maxmemory", "4mb"]);
    let mut connection = server.async_connection().await;
    let text = "x".repeat(1024);
    let (started, mut filler) = (monotonic(), 0..);
    loop {
        let mut fill = redis::pipe();
        for number in filler.by_ref().take(200) {
            fill.set(format!("filler {number}"), &text).ignore();
        }
        let _: () = fill.query_async(&mut connection).await.expect("there is room for what is new");
        let there: bool = redis::AsyncCommands::exists(&mut connection, "job").await.expect("EXISTS answers");
        if !there {
            break;
        }
        assert!(monotonic() - started < LOOK * 2, "the key stays");
    }
    let (lag, gone) = (Lag::watch(), monotonic());
    let error = timeout(LOOK, lost).await.expect("it is told");
    let took = monotonic() - gone;
    assert!(took <= lag.added_to(watchdog / 3 + SLACK), "told {took:?} later");
    assert!(matches!(error, Error::Lost { cause: LostCause::Gone, .. }), "{error:?}");
    assert!(!guard.is_held());
    tell(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    let again = client.mutex("job").lock().await.expect("a free lock");
    assert!(timeout(watchdog / 2, again.lost()).await.is_err(), "a new hold is whole");
}
