//! The periodic job on real servers: what it costs and leaves there, what becomes of it when answers are lost, and where it may be
//! awaited. What its users meet otherwise is in `embedded_job.rs`, what its scripts do in `scripts/job.rs`.

use std::{collections::BTreeMap, sync::Mutex, thread, time::Duration};

use relatch::{CancellationToken, Client, Error, JobContext, LostCause, Outcome, PeriodicJob};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::{
    harness::{
        Server,
        deployment::Deployment,
        eventually, eventually_async,
        proxy::{Action, Proxy, matching::script},
        unique_name,
    },
    kept::{client, connected, teach},
    runtimes::without_a_runtime,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);

type Done = Result<Outcome<u32, &'static str>, Error>;

fn daily(client: &Client) -> PeriodicJob {
    client.periodic_job("report", DAY)
}

/// The work takes no time, and is done.
async fn succeeds(job: &PeriodicJob) -> Done {
    job.run(|ctx| async move { Ok(ctx.attempt()) }).await
}

#[track_caller]
fn assert_ran(done: Done, attempt: u32) {
    assert!(matches!(done, Ok(Outcome::Ran(which)) if which == attempt), "{done:?}");
}

fn record(server: &Server) -> BTreeMap<String, String> {
    redis::cmd("HGETALL").arg("relatch_job:{report}").query(&mut server.connection()).expect("it answers")
}

/// In real time, since the work blocks: it is done, and its lease over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_done_after_its_lease_counts_while_nobody_else_has_begun() {
    let server = Server::own();
    for taken_over in [false, true] {
        let name = unique_name();
        let [ann, ben] = [client(server.url()).await, client(server.url()).await]
            .map(|client| client.periodic_job(&name, DAY).attempt_lease(MS * 200));
        let (began, has_begun) = oneshot::channel();
        let late = |job: PeriodicJob| {
            let work = move |_: JobContext| async move {
                began.send(()).expect("somebody asks");
                thread::sleep(MS * 600);
                Ok(1)
            };
            tokio::spawn(async move { job.run(work).await })
        };
        let working = late(ann.clone());
        has_begun.await.expect("it begins");
        if taken_over {
            eventually_async(SOON, async || succeeds(&ben).await.is_ok_and(|done| matches!(done, Outcome::Ran(2))))
                .await;
            let done = working.await.expect("no panic");
            let is_lost = matches!(
                &done,
                Ok(Outcome::Lost { attempt: 1, error: Error::Lost { cause: LostCause::Gone, .. }, .. })
            );
            assert!(is_lost, "{done:?}");
        } else {
            assert_ran(working.await.expect("no panic"), 1);
        }
        let done = succeeds(&ann).await;
        assert!(matches!(done, Ok(Outcome::AlreadyDone { .. })), "{done:?}");
    }
}

#[tokio::test]
async fn on_a_server_a_period_costs_two_scripts_and_leaves_one_record_with_a_ttl() {
    let server = Server::own();
    teach(&server);
    let job = client(server.url()).await.periodic_job("report", DAY);
    server.reset_counts();
    assert_ran(succeeds(&job).await, 1);
    assert_eq!(["evalsha", "eval"].map(|command| server.count(command)), [2, 0]);
    assert_eq!(server.keys(), ["relatch_job:{report}"]);
    let ttl: i64 = redis::cmd("PTTL").arg("relatch_job:{report}").query(&mut server.connection()).expect("it answers");
    let ttl = Duration::from_millis(ttl.try_into().expect("it has one"));
    assert!((DAY * 2 - MINUTE..=DAY * 2).contains(&ttl), "{ttl:?}");
    assert!(matches!(succeeds(&job).await, Ok(Outcome::AlreadyDone { .. })));
    assert_eq!(server.count("evalsha"), 3);
}

#[tokio::test]
async fn on_a_server_whose_answers_are_lost_an_attempt_is_counted_once_and_its_success_is_found_again() {
    let server = Server::own();
    teach(&server);
    let proxy = Proxy::to(&server);
    let builder = Client::builder().url(proxy.url()).command_timeout(MS * 300);
    let (ann, ben) = (connected(builder).await, client(server.url()).await);
    // The begin's: what it made is given back.
    let rule = proxy.rule(script("acquire").first(1), Action::CutAfter);
    let done = succeeds(&daily(&ann)).await;
    assert!(matches!(done, Err(Error::Unreachable { may_have_run: true, .. })), "{done:?}");
    drop(rule);
    let idle = || !record(&server).contains_key("run");
    eventually_async(SOON, async || idle()).await;
    // The success's: the second sending finds it. The begin's release may go once more before the next begin, where its answer is
    // on its way.
    let success = script("release").with(|words| words.iter().any(|word| word == b"success"));
    let rule = proxy.rule(success.first(1), Action::CutAfter);
    let done = succeeds(&daily(&ann)).await;
    assert!(matches!(done, Ok(Outcome::Unrecorded(1, Error::Unreachable { .. }))), "{done:?}");
    drop(rule);
    let done = succeeds(&daily(&ben)).await;
    let id = ann.id().to_string();
    assert!(matches!(&done, Ok(Outcome::AlreadyDone { client_id, .. }) if *client_id == id), "{done:?}");
    let record = record(&server);
    assert_eq!((record["attempts"].as_str(), record.contains_key("run")), ("1", false));
}

#[tokio::test]
async fn on_a_server_another_node_begins_where_one_failed_within_a_round_trip_of_the_message() {
    let server = Server::own();
    let (ann, ben) = (client(server.url()).await, client(server.url()).await);
    let ((began, has_begun), (end, ended)) = (oneshot::channel(), oneshot::channel());
    let job = daily(&ann);
    let working = tokio::spawn(async move {
        let work = |_: JobContext| async move {
            began.send(()).expect("somebody asks");
            ended.await.expect("somebody says")
        };
        job.run(work).await
    });
    has_begun.await.expect("it begins");
    let stop = CancellationToken::new();
    let (began, has_begun) = oneshot::channel();
    let (job, stops, began) = (daily(&ben), stop.clone(), Mutex::new(Some(began)));
    let node = tokio::spawn(async move {
        let work = |ctx: JobContext| {
            let began = began.lock().expect("no panic").take().expect("once");
            began.send((ctx.attempt(), Instant::now())).expect("somebody asks");
            async { Ok::<_, ()>(()) }
        };
        job.schedule(stops, work).await
    });
    let channel = "relatch_job__channel:{report}";
    eventually_async(SOON, async || server.listeners(channel) == 1).await;
    let failed = Instant::now();
    end.send(Err("broken")).expect("it works");
    let done: Done = working.await.expect("no panic");
    assert!(matches!(done, Ok(Outcome::Failed { attempt: 1, error: "broken", .. })), "{done:?}");
    let (attempt, at) = timeout(SOON, has_begun).await.expect("soon").expect("it begins");
    assert_eq!(attempt, 2);
    // The lease would have lasted for half a minute.
    assert!(at - failed < SECOND * 5, "after {:?}", at - failed);
    stop.cancel();
    node.await.expect("no panic").expect("it was told to stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_and_with_sentinels_a_job_is_done_once_and_a_failure_is_told() {
    for deployment in [Deployment::of_cluster(), Deployment::of_sentinels()] {
        let url = deployment.url();
        for name in ["report", "{report}:a", "b{report}"] {
            let [ann, ben] = [client(&url).await, client(&url).await].map(|client| client.periodic_job(name, DAY));
            let ((began, has_begun), stop) = (oneshot::channel(), CancellationToken::new());
            let (began, stops) = (Mutex::new(Some(began)), stop.clone());
            let work = |_: JobContext| async {
                let standing_by = tokio::spawn({
                    let (ben, stops) = (ben.clone(), stops.clone());
                    async move { ben.schedule(stops, |ctx| async move { Ok::<_, ()>(ctx.attempt()) }).await }
                });
                began.lock().expect("no panic").take().expect("once").send(standing_by).expect("somebody asks");
                tokio::time::sleep(MS * 300).await;
                Err("broken")
            };
            let done: Done = ann.run(work).await;
            assert!(matches!(done, Ok(Outcome::Failed { attempt: 1, .. })), "{done:?}");
            let recorded = async || {
                let record = ann.inspect().await.expect("the server answers").expect("it was done");
                record.attempts == 2 && record.success.is_some()
            };
            // Long before the lease would be over.
            eventually_async(SOON, recorded).await;
            stop.cancel();
            has_begun.await.expect("it began").await.expect("no panic").expect("it was told to stop");
        }
    }
}

#[test]
fn a_job_is_done_and_scheduled_where_there_is_no_runtime() {
    let server = Server::own();
    let client = Client::builder().url(server.url()).own_thread().connect_blocking().expect("the server answers");
    let job = daily(&client);
    assert_ran(without_a_runtime(succeeds(&job)), 1);
    assert!(without_a_runtime(job.inspect()).is_ok_and(|record| record.is_some_and(|record| record.success.is_some())));
    server.reset_counts();
    let stop = CancellationToken::new();
    let stops = stop.clone();
    let node = thread::spawn(move || without_a_runtime(job.schedule(stops, |_| async { Ok::<_, ()>(()) })));
    eventually(SOON, || server.count("evalsha") == 1);
    assert!(!node.is_finished(), "it goes on until it is told to stop");
    stop.cancel();
    node.join().expect("no panic").expect("it was told to stop");
}
