//! The periodic job as its users meet it: who does the work, what the others hear, and what becomes of it when a node fails, dies or
//! hears nothing. On the embedded store, where an hour is over in no time; on real servers in `job.rs`.

use std::{
    cell::Cell,
    collections::BTreeMap,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use relatch::{CancellationToken, Client, EmbeddedStore, Error, JobContext, LostCause, Outcome, PeriodicJob};
use tokio::{
    sync::oneshot,
    task::{JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};

use crate::{
    embedded::client,
    harness::{eventually_async, traces::Traces},
    kept,
};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
/// Of a client with the default options.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);

pub(crate) type Done = Result<Outcome<u32, &'static str>, Error>;

pub(crate) fn hourly(client: &Client) -> PeriodicJob {
    client.periodic_job("report", HOUR)
}

/// The work takes no time, and is done.
pub(crate) async fn succeeds(job: &PeriodicJob) -> Done {
    job.run(|ctx| async move { Ok(ctx.attempt()) }).await
}

pub(crate) async fn fails(job: &PeriodicJob) -> Done {
    job.run(|_| async { Err("broken") }).await
}

#[track_caller]
pub(crate) fn assert_ran(done: Done, attempt: u32) {
    assert!(matches!(done, Ok(Outcome::Ran(which)) if which == attempt), "{done:?}");
}

#[track_caller]
pub(crate) fn assert_failed(done: Done, which: u32) {
    assert!(matches!(done, Ok(Outcome::Failed { attempt, error: "broken", .. }) if attempt == which), "{done:?}");
}

#[track_caller]
pub(crate) fn assert_done(done: Done, by: &Client) {
    let id = by.id().to_string();
    assert!(matches!(&done, Ok(Outcome::AlreadyDone { client_id, .. }) if *client_id == id), "{done:?}");
}

#[track_caller]
fn assert_lost(done: Done, which: u32, why: LostCause) {
    assert!(
        matches!(&done, Ok(Outcome::Lost { attempt, error: Error::Lost { cause, .. }, .. }) if *attempt == which && *cause == why),
        "{done:?}"
    );
}

pub(crate) fn is_running(done: &Done, by: &Client) -> bool {
    let id = by.id().to_string();
    matches!(done, Ok(Outcome::Running { client_id, .. }) if *client_id == id)
}

/// What a store keeps of the job.
pub(crate) fn record(store: &EmbeddedStore, name: &str) -> BTreeMap<String, String> {
    store.hash(format!("relatch_job:{{{name}}}")).into_iter().collect()
}

/// A store at the very start of a period of its server's clock.
pub(crate) async fn at_the_start_of(period: Duration) -> EmbeddedStore {
    let store = EmbeddedStore::new();
    let probe = client(&store).await.periodic_job("probe", period);
    assert_ran(succeeds(&probe).await, 1);
    let inspected = probe.inspect().await.expect("the store answers").expect("it was done");
    let (start, at) = (inspected.period, inspected.success.expect("it was").at);
    sleep((start + period).duration_since(at).expect("it was done in the period")).await;
    store.expire("relatch_job:{probe}").then_some(store).expect("there is a record")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

/// Somebody works, and says so, until told what came of it.
pub(crate) async fn begins(
    job: &PeriodicJob,
) -> (oneshot::Sender<Result<u32, &'static str>>, tokio::task::JoinHandle<Done>) {
    let (began, has_begun) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let job = job.clone();
    let working = tokio::spawn(async move {
        let work = |_: JobContext| async move {
            began.send(()).expect("somebody asks");
            ended.await.unwrap_or(Err("nobody said"))
        };
        job.run(work).await
    });
    has_begun.await.expect("it begins");
    (end, working)
}

#[tokio::test(start_paused = true)]
async fn the_first_does_the_work_and_all_others_hear_that_it_is_done() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let (job, theirs) = (hourly(&ann), hourly(&ben));
    assert_eq!(theirs.inspect().await.expect("the store answers"), None);
    assert_ran(succeeds(&job).await, 1);
    assert_done(succeeds(&theirs).await, &ann);
    assert_done(succeeds(&job).await, &ann);
    let known = theirs.inspect().await.expect("the store answers").expect("it was done");
    assert_eq!((known.attempts, known.running.is_none(), known.last_success), (1, true, Some(known.period)));
    let success = known.success.expect("it was");
    assert_eq!(success.client_id, ann.id().to_string());
    assert!(success.at < known.period + SECOND && known.kept_for.is_some_and(|kept| (HOUR..=HOUR * 2).contains(&kept)));
    // The next period has its own.
    sleep(HOUR).await;
    assert_ran(succeeds(&theirs).await, 1);
    assert_done(succeeds(&job).await, &ben);
    // And nothing of it is left in the end.
    sleep(HOUR * 3).await;
    assert!(store.is_empty() && store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_at_once_by_anybody_until_the_attempts_are_spent() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let started = Instant::now();
    let fences = Mutex::new(Vec::new());
    for (node, attempt) in [(&ann, 1), (&ben, 2), (&ann, 3)] {
        let work = |ctx: JobContext| {
            fences.lock().expect("no panic").push((ctx.fence(), ctx.attempt(), seconds(ctx.period())));
            async { Err("broken") }
        };
        assert_failed(hourly(node).run(work).await, attempt);
    }
    assert!(started.elapsed() < SECOND, "after {:?}", started.elapsed());
    for node in [&ann, &ben] {
        let done = succeeds(&hourly(node)).await;
        assert!(matches!(done, Ok(Outcome::Exhausted { attempts: 3, .. })), "{done:?}");
    }
    sleep(HOUR).await;
    let work = |ctx: JobContext| {
        fences.lock().expect("no panic").push((ctx.fence(), ctx.attempt(), seconds(ctx.period())));
        async move { Ok(ctx.missed()) }
    };
    assert_ran(hourly(&ben).run(work).await, 0);
    let fences = fences.into_inner().expect("no panic");
    assert!(fences.is_sorted() && fences.iter().all(|(fence, ..)| *fence < 1 << 53), "{fences:?}");
    assert!(fences.iter().all(|(fence, attempt, start)| *fence == start << 16 | u64::from(*attempt)), "{fences:?}");
    assert_eq!(fences.iter().map(|(_, attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3, 1]);
    assert_eq!(fences[3].2 - fences[0].2, HOUR.as_secs());
}

#[tokio::test(start_paused = true)]
async fn the_work_is_told_of_the_last_success_and_of_what_was_missed_since() {
    let store = at_the_start_of(HOUR).await;
    let job = hourly(&client(&store).await).keep_record(DAY).max_attempts(1);
    let told = |ctx: JobContext| async move { Ok::<_, &str>((ctx.last_success(), ctx.missed(), ctx.period())) };
    let Ok(Outcome::Ran((None, 0, first))) = job.run(told).await else { panic!("nothing is known of any") };
    sleep(HOUR).await;
    let Ok(Outcome::Ran((Some(last), 0, second))) = job.run(told).await else { panic!("there was one") };
    assert_eq!((last, second), (first, first + HOUR));
    sleep(HOUR).await;
    assert_failed(fails(&job).await, 1);
    sleep(HOUR * 3).await;
    let Ok(Outcome::Ran((Some(last), 3, _))) = job.run(told).await else { panic!("three were missed") };
    assert_eq!(last, second);
}

#[tokio::test(start_paused = true)]
async fn while_it_runs_the_others_hear_who_is_at_it_and_so_do_other_tasks_of_that_client() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let (end, working) = begins(&hourly(&ann)).await;
    for node in [&ben, &ann] {
        let done = succeeds(&hourly(node)).await;
        assert!(is_running(&done, &ann), "{done:?}");
        let Ok(Outcome::Running { since, remaining_lease, .. }) = done else { return };
        assert!(remaining_lease > LEASE / 2 && since < since + remaining_lease);
    }
    let known = hourly(&ben).inspect().await.expect("the store answers").expect("it runs");
    assert!(known.running.is_some_and(|run| run.client_id == ann.id().to_string()) && known.success.is_none());
    end.send(Ok(7)).expect("it works");
    assert_ran(working.await.expect("no panic"), 7);
}

/// Nothing is handed over between them: whether there is anything left to do is the server's to say.
#[tokio::test(start_paused = true)]
async fn a_task_that_stands_by_goes_on_where_another_one_of_its_client_failed_or_was_done() {
    for result in [Err("broken"), Ok(1)] {
        let store = at_the_start_of(HOUR).await;
        let job = hourly(&client(&store).await);
        let (end, working) = begins(&job).await;
        let (attempts, stop) = (Arc::new(AtomicU32::new(0)), CancellationToken::new());
        let (scheduled, stops, count) = (job.clone(), stop.clone(), Arc::clone(&attempts));
        let standing_by = tokio::spawn(async move {
            let work = |ctx: JobContext| {
                count.store(ctx.attempt(), Ordering::SeqCst);
                async { Ok::<_, ()>(()) }
            };
            scheduled.schedule(stops, work).await
        });
        sleep(MINUTE).await;
        assert_eq!(attempts.load(Ordering::SeqCst), 0);
        end.send(result).expect("it works");
        let done = working.await.expect("no panic");
        assert!(
            matches!((&done, result), (Ok(Outcome::Ran(1)), Ok(_)) | (Ok(Outcome::Failed { .. }), Err(_))),
            "{done:?}"
        );
        sleep(SECOND).await;
        assert_eq!(attempts.load(Ordering::SeqCst), if result.is_ok() { 0 } else { 2 });
        stop.cancel();
        standing_by.await.expect("no panic").expect("it was told to stop");
    }
}

#[tokio::test(start_paused = true)]
async fn work_of_many_leases_is_renewed_and_nobody_else_begins() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let (end, working) = begins(&hourly(&ann)).await;
    for _ in 0..9 {
        sleep(LEASE / 3).await;
        let done = succeeds(&hourly(&ben)).await;
        assert!(is_running(&done, &ann), "{done:?}");
    }
    end.send(Ok(1)).expect("it works");
    assert_ran(working.await.expect("no panic"), 1);
    assert_done(succeeds(&hourly(&ben)).await, &ann);
}

#[tokio::test(start_paused = true)]
async fn work_that_outlives_a_lease_that_is_not_renewed_is_dropped_and_begun_elsewhere() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let dropped = Arc::new(AtomicU32::new(0));
    struct Counts(Arc<AtomicU32>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let counts = Counts(Arc::clone(&dropped));
    let job = hourly(&ann).attempt_lease(SECOND);
    let lost: Done = job
        .run(|_| async move {
            let _counts = counts;
            pending().await
        })
        .await;
    assert_lost(lost, 1, LostCause::Expired);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_ran(succeeds(&hourly(&ben)).await, 2);
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_has_failed_and_the_panic_goes_on() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let job = hourly(&ann);
    let panics = tokio::spawn(async move { job.run(|_| async { panic!("on purpose") }).await as Done });
    assert!(panics.await.is_err_and(|error| error.is_panic()));
    // And where the closure itself does.
    let job = hourly(&ann);
    let panics =
        tokio::spawn(async move { job.run(|_| -> std::future::Ready<_> { panic!("on purpose") }).await as Done });
    assert!(panics.await.is_err_and(|error| error.is_panic()));
    eventually_async(SOON, async || !record(&store, "report").contains_key("run")).await;
    assert_ran(succeeds(&hourly(&ben)).await, 3);
}

#[tokio::test(start_paused = true)]
async fn dropped_in_its_work_it_has_failed_and_dropped_before_it_is_given_back() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    // In the work.
    let (end, working) = begins(&hourly(&ann)).await;
    working.abort();
    assert!(working.await.is_err_and(|error| error.is_cancelled()));
    drop(end);
    eventually_async(SOON, async || !record(&store, "report").contains_key("run")).await;
    assert_eq!(record(&store, "report")["attempts"], "1");
    // Between the grant, whose answer is lost, and the work.
    store.drop_next_reply(&ann).expect("its client");
    let asked = timeout(MS, succeeds(&hourly(&ann))).await;
    assert!(asked.is_err(), "{asked:?}");
    eventually_async(SOON, async || record(&store, "report").get("attempts").is_some_and(|it| it == "1")).await;
    eventually_async(LEASE, async || !record(&store, "report").contains_key("run")).await;
    assert_ran(succeeds(&hourly(&ben)).await, 2);
}

#[tokio::test(start_paused = true)]
async fn every_poll_may_be_the_last_and_no_attempt_outlives_it() {
    for polls in 0..12 {
        let store = at_the_start_of(HOUR).await;
        let (ann, ben) = (client(&store).await, client(&store).await);
        let job = hourly(&ann);
        let begun = Cell::new(false);
        {
            let mut run = Box::pin(job.run(|_| {
                begun.set(true);
                async {
                    yield_now().await;
                    Ok::<_, ()>(1)
                }
            }));
            for _ in 0..polls {
                if kept::poll_once(&mut run).await.is_ready() {
                    break;
                }
                yield_now().await;
            }
        }
        let record = || record(&store, "report");
        eventually_async(SOON, async || !record().contains_key("run")).await;
        let counted = record().get("attempts").map_or(0, |attempts| attempts.parse::<u32>().expect("a number"));
        assert_eq!(counted, u32::from(begun.get()), "after {polls} polls");
        if !record().contains_key("by") {
            assert_ran(succeeds(&hourly(&ben)).await, counted + 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_whose_answer_is_lost_is_unrecorded_and_recorded_in_the_background() {
    let traces = Traces::here();
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let work = |_: JobContext| async {
        store.drop_next_reply(&ann).expect("its client");
        Ok(1)
    };
    let done: Done = hourly(&ann).run(work).await;
    assert!(matches!(&done, Ok(Outcome::Unrecorded(1, Error::Unreachable { may_have_run: true, .. }))), "{done:?}");
    sleep(SECOND).await;
    assert_done(succeeds(&hourly(&ben)).await, &ann);
    // What was never heard there, is heard in the end.
    sleep(HOUR).await;
    let work = |_: JobContext| async {
        store.partition(&ann).expect("its client");
        Ok(1)
    };
    let done: Done = hourly(&ann).run(work).await;
    assert!(matches!(&done, Ok(Outcome::Unrecorded(1, _))), "{done:?}");
    let theirs = succeeds(&hourly(&ben)).await;
    assert!(is_running(&theirs, &ann), "{theirs:?}");
    store.heal(&ann).expect("its client");
    sleep(SECOND * 5).await;
    assert_done(succeeds(&hourly(&ben)).await, &ann);
    assert_eq!(record(&store, "report")["attempts"], "1");
    // That it was told before is no refusal to tell it.
    assert!(traces.all().iter().all(|said| !said.what.contains("refuses to publish")));
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_nothing_is_begun() {
    let store = at_the_start_of(HOUR).await;
    let ann = client(&store).await;
    store.partition(&ann).expect("its client");
    let done = hourly(&ann).run(|_| async { panic!("it was not granted") }).await as Done;
    assert!(matches!(done, Err(Error::Unreachable { .. })), "{done:?}");
    store.heal(&ann).expect("its client");
    sleep(LEASE * 2).await;
    // What came late was given back.
    assert_ran(succeeds(&hourly(&ann)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn options_out_of_bounds_are_refused_before_anything_is_sent() {
    let store = EmbeddedStore::new();
    let ann = client(&store).await;
    let job = |period| ann.periodic_job("report", period);
    let nothing = Duration::ZERO;
    let refused = [
        ("period", job(nothing)),
        ("period", job(MS * 500)),
        ("period", job(MS * 1500)),
        ("period", job(DAY * 366)),
        ("offset", job(HOUR).offset(HOUR)),
        ("offset", job(HOUR).offset(MS)),
        ("max_attempts", job(HOUR).max_attempts(0)),
        ("max_attempts", job(HOUR).max_attempts(65_536)),
        ("start_within", job(HOUR).start_within(nothing)),
        ("start_within", job(HOUR).start_within(HOUR + SECOND)),
        ("keep_record", job(HOUR).keep_record(HOUR - SECOND)),
        ("keep_record", job(HOUR).keep_record(DAY * 800)),
        ("lease", job(HOUR).attempt_lease(MS * 9)),
        ("name", ann.periodic_job("", HOUR)),
    ];
    let invalid =
        |error: Error, what: &str| assert!(matches!(error, Error::Invalid { what: said, .. } if said == what));
    for (what, job) in refused {
        invalid(succeeds(&job).await.expect_err(what), what);
        if what != "lease" {
            invalid(job.inspect().await.expect_err(what), what);
            invalid(job.reset().await.expect_err(what), what);
        }
        let scheduled = job.schedule(CancellationToken::new(), |_| async { Ok::<_, ()>(()) }).await;
        invalid(scheduled.expect_err(what), what);
    }
    assert_eq!((store.calls(&ann).expect("its client"), store.keys()), (0, Vec::new()));
    let taken =
        [job(SECOND), job(HOUR).offset(HOUR - SECOND).max_attempts(65_535).start_within(HOUR).keep_record(HOUR)];
    for job in taken {
        assert!(succeeds(&job).await.is_ok_and(|done| matches!(done, Outcome::Ran(_) | Outcome::AlreadyDone { .. })));
        sleep(DAY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_is_at_a_job_with_one_set_of_options_at_a_time_and_periods_may_change_between() {
    let store = at_the_start_of(DAY).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let (end, working) = begins(&hourly(&ann)).await;
    let other = ann.periodic_job("report", MINUTE);
    let done = succeeds(&other).await;
    assert!(
        matches!(&done, Err(Error::Invalid { what: "name", why, .. }) if why.contains("other options")),
        "{done:?}"
    );
    end.send(Ok(1)).expect("it works");
    assert_ran(working.await.expect("no panic"), 1);
    // From hours to minutes: done for this minute, which began with the hour.
    assert_done(succeeds(&other).await, &ann);
    sleep(MINUTE).await;
    assert_ran(succeeds(&other).await, 1);
    // And back: what was done within the hour is done.
    assert_done(succeeds(&hourly(&ben)).await, &ann);
    sleep(HOUR).await;
    assert_ran(succeeds(&hourly(&ben)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn periods_begin_at_full_hours_and_at_midnight_and_later_by_the_offset() {
    let store = EmbeddedStore::new();
    let ann = client(&store).await;
    let start = |name: &str, every, offset| {
        let job = ann.periodic_job(name, every).offset(offset);
        async move {
            let done = job.run(|ctx| async move { Ok::<_, ()>(ctx.period()) }).await;
            let Ok(Outcome::Ran(period)) = done else { panic!("{done:?}") };
            seconds(period)
        }
    };
    assert_eq!(start("hour", HOUR, Duration::ZERO).await % 3600, 0);
    assert_eq!(start("day", DAY, Duration::ZERO).await % 86_400, 0);
    assert_eq!(start("later", HOUR, MINUTE * 5).await % 3600, 300);
    assert_eq!(start("last", DAY, DAY - SECOND).await % 86_400, 86_399);
}

#[tokio::test(start_paused = true)]
async fn work_that_crosses_midnight_is_that_of_the_day_before_and_the_next_day_has_its_own() {
    let store = at_the_start_of(DAY).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let daily = |client: &Client| client.periodic_job("report", DAY);
    sleep(DAY - SECOND * 10).await;
    let (end, working) = begins(&daily(&ann)).await;
    sleep(SECOND * 20).await;
    // Two bodies at once would be worse than a late one.
    let done = succeeds(&daily(&ben)).await;
    assert!(is_running(&done, &ann), "{done:?}");
    end.send(Ok(1)).expect("it works");
    assert_ran(working.await.expect("no panic"), 1);
    let work = |ctx: JobContext| async move { Ok(u32::from(ctx.last_success() == Some(ctx.period() - DAY))) };
    assert_ran(daily(&ben).run(work).await, 1);
    assert_done(succeeds(&daily(&ann)).await, &ben);
}

#[tokio::test(start_paused = true)]
async fn a_period_that_began_too_long_ago_begins_nothing() {
    let store = at_the_start_of(HOUR).await;
    let ann = client(&store).await;
    let job = hourly(&ann).start_within(MINUTE);
    assert_failed(fails(&job).await, 1);
    sleep(MINUTE * 2).await;
    let done = succeeds(&job).await;
    assert!(matches!(done, Ok(Outcome::Late { .. })), "{done:?}");
    sleep(HOUR - MINUTE * 2).await;
    assert_ran(succeeds(&job).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_makes_it_be_done_once_more_and_a_clock_that_is_set_back_does_not() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    assert_ran(succeeds(&hourly(&ann)).await, 1);
    store.restart();
    sleep(SECOND).await;
    assert_ran(succeeds(&hourly(&ben)).await, 1);
    assert_done(succeeds(&hourly(&ann)).await, &ben);
    // Into the hour before, whose work was done before that.
    store.set_clock_back(MINUTE);
    assert_done(succeeds(&hourly(&ann)).await, &ben);
    store.set_clock_forward(MINUTE);
    assert_done(succeeds(&hourly(&ann)).await, &ben);
    store.set_clock_forward(HOUR);
    assert_ran(succeeds(&hourly(&ann)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_reset_is_lost_and_stays_counted_wherever_it_is() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    assert!(!hourly(&ann).reset().await.expect("the store answers"));
    for (attempt, who) in [(1, &ann), (2, &ben)] {
        let (_end, working) = begins(&hourly(&ann)).await;
        assert!(hourly(who).reset().await.expect("the store answers"));
        let told = Instant::now();
        let cause = if attempt == 1 { LostCause::Forced } else { LostCause::Gone };
        assert_lost(working.await.expect("no panic"), attempt, cause);
        assert!(told.elapsed() < LEASE / 2, "told after {:?}", told.elapsed());
    }
    assert_ran(succeeds(&hourly(&ben)).await, 3);
}

/// Nodes with timers of their own, that are up to five seconds early or late: each period's work is done once, by whoever comes first
/// in it.
#[tokio::test(start_paused = true)]
async fn twenty_nodes_whose_clocks_are_apart_do_the_work_once_in_each_of_a_thousand_periods() {
    const NODES: u32 = 20;
    const PERIODS: u32 = 1000;
    let store = at_the_start_of(MINUTE).await;
    let successes = Arc::new(Mutex::new(BTreeMap::<SystemTime, u32>::new()));
    let mut nodes = JoinSet::new();
    for node in 0..NODES {
        let job = client(&store).await.periodic_job("report", MINUTE);
        let successes = Arc::clone(&successes);
        // Before the first boundary by at most 5 s, and after it by as much.
        let apart = SECOND * 55 + SECOND * 10 * node / (NODES - 1);
        let first = Instant::now() + apart;
        nodes.spawn(async move {
            for period in 0..PERIODS {
                tokio::time::sleep_until(first + MINUTE * period).await;
                let work = |ctx: JobContext| async move {
                    sleep(MS * 10).await;
                    Ok::<_, ()>(ctx.period())
                };
                match job.run(work).await {
                    Ok(Outcome::Ran(period)) => *successes.lock().expect("no panic").entry(period).or_default() += 1,
                    Ok(Outcome::AlreadyDone { .. } | Outcome::Running { .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    while let Some(node) = nodes.join_next().await {
        node.expect("no panic");
    }
    let successes = successes.lock().expect("no panic");
    // That of the first boundary's early ones, too.
    assert_eq!(successes.len(), usize::try_from(PERIODS).expect("few") + 1);
    assert!(successes.values().all(|times| *times == 1));
    let starts: Vec<u64> = successes.keys().map(|start| seconds(*start)).collect();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 60));
}

/// A fleet that goes on by itself until it is told to stop; its work is what each test makes of it.
pub(crate) struct Fleet {
    stop: CancellationToken,
    nodes: JoinSet<Result<(), Error>>,
}

impl Fleet {
    pub(crate) async fn of<F, W>(
        store: &EmbeddedStore,
        nodes: usize,
        job: impl Fn(&Client) -> PeriodicJob,
        work: F,
    ) -> (Self, Vec<Client>)
    where
        F: Fn(usize, JobContext) -> W + Clone + Send + 'static,
        W: Future<Output = Result<(), &'static str>> + Send,
    {
        let (mut fleet, mut clients) = (Self { stop: CancellationToken::new(), nodes: JoinSet::new() }, Vec::new());
        for node in 0..nodes {
            let client = client(store).await;
            let (job, stop, work) = (job(&client), fleet.stop.clone(), work.clone());
            fleet.nodes.spawn(async move { job.schedule(stop, move |ctx| work(node, ctx)).await });
            clients.push(client);
        }
        (fleet, clients)
    }

    pub(crate) async fn ends(mut self) {
        self.stop.cancel();
        while let Some(node) = self.nodes.join_next().await {
            node.expect("no panic").expect("it was told to stop");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_does_the_work_once_a_period_and_soon_after_it_begins_until_it_is_told_to_stop() {
    let store = at_the_start_of(HOUR).await;
    let started = Instant::now();
    let done = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&done);
    let work = move |_, ctx: JobContext| {
        let noted = Arc::clone(&noted);
        async move {
            sleep(MS * 10).await;
            noted.lock().expect("no panic").push((seconds(ctx.period()), started.elapsed()));
            Ok(())
        }
    };
    let (fleet, _clients) = Fleet::of(&store, 20, hourly, work).await;
    sleep(HOUR * 100 - MINUTE).await;
    fleet.ends().await;
    let done = done.lock().expect("no panic");
    assert_eq!(done.len(), 100);
    for (number, (period, at)) in (0..).zip(done.iter()) {
        let begins = HOUR * number;
        assert_eq!(*period, done[0].0 + 3600 * u64::from(number));
        assert!((begins..begins + SECOND * 2).contains(at), "the work of period {number} was done at {at:?}");
    }
    assert!(store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_fails_on_one_node_of_a_fleet_is_tried_again_at_once_and_what_dies_within_a_lease() {
    let store = at_the_start_of(HOUR).await;
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&attempts);
    let work = move |node, ctx: JobContext| {
        let noted = Arc::clone(&noted);
        async move {
            noted.lock().expect("no panic").push((node, ctx.attempt(), Instant::now()));
            match ctx.attempt() {
                1 => Err("broken"),
                2 => pending().await,
                _ => Ok(()),
            }
        }
    };
    let (mut fleet, clients) = Fleet::of(&store, 5, hourly, work).await;
    eventually_async(SOON, async || attempts.lock().expect("no panic").len() == 2).await;
    let (dies, ..) = attempts.lock().expect("no panic")[1];
    store.partition(&clients[dies]).expect("its client");
    eventually_async(LEASE * 2, async || attempts.lock().expect("no panic").len() == 3).await;
    let [(_, 1, first), (_, 2, second), (last, 3, third)] = attempts.lock().expect("no panic")[..] else {
        panic!("three attempts")
    };
    assert!(second - first < MS * 100, "again after {:?}", second - first);
    assert!(last != dies && third - second < LEASE + SECOND, "taken over after {:?}", third - second);
    sleep(MINUTE).await;
    assert_eq!(attempts.lock().expect("no panic").len(), 3);
    fleet.stop.cancel();
    while fleet.nodes.join_next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_fleet_gives_a_period_up_when_its_attempts_are_spent_and_begins_the_next() {
    let store = at_the_start_of(HOUR).await;
    let attempts = Arc::new(Mutex::new(BTreeMap::<u64, u32>::new()));
    let noted = Arc::clone(&attempts);
    let work = move |_, ctx: JobContext| {
        *noted.lock().expect("no panic").entry(seconds(ctx.period())).or_default() += 1;
        async { Err("broken") }
    };
    let (fleet, _clients) = Fleet::of(&store, 5, |client| hourly(client).max_attempts(4), work).await;
    sleep(HOUR * 10 - MINUTE).await;
    fleet.ends().await;
    let attempts = attempts.lock().expect("no panic");
    assert_eq!(attempts.values().copied().collect::<Vec<_>>(), [4; 10]);
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_a_node_ends_at_once_or_after_its_work_which_is_told_so() {
    let store = at_the_start_of(HOUR).await;
    let ann = client(&store).await;
    // While it sleeps until the next hour.
    assert_ran(succeeds(&hourly(&ann)).await, 1);
    let stop = CancellationToken::new();
    let (job, stops) = (hourly(&ann), stop.clone());
    let idle = tokio::spawn(async move { job.schedule(stops, |_| async { Ok::<_, ()>(()) }).await });
    sleep(MINUTE).await;
    let told = Instant::now();
    stop.cancel();
    idle.await.expect("no panic").expect("it was told to stop");
    assert!(told.elapsed() < MS);
    // In the middle of its work.
    sleep(HOUR).await;
    let stop = CancellationToken::new();
    let (job, stops) = (hourly(&ann), stop.clone());
    let busy = tokio::spawn(async move {
        let work = |ctx: JobContext| async move {
            let late = ctx.cancellation();
            ctx.cancellation().cancelled().await;
            sleep(SECOND * 5).await;
            if late.is_cancelled() { Ok::<_, ()>(()) } else { Err(()) }
        };
        job.schedule(stops, work).await
    });
    sleep(MINUTE).await;
    let told = Instant::now();
    stop.cancel();
    busy.await.expect("no panic").expect("it was told to stop");
    assert!((SECOND * 5..SECOND * 6).contains(&told.elapsed()), "{:?}", told.elapsed());
    assert_done(succeeds(&hourly(&ann)).await, &ann);
    // And before it began anything.
    let none = hourly(&ann).schedule(stop, |_| async { Err::<(), _>(()) }).await;
    assert!(none.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_server_says_so_and_goes_on_when_it_is_back() {
    let traces = Traces::here();
    let store = at_the_start_of(HOUR).await;
    let ann = client(&store).await;
    store.partition(&ann).expect("its client");
    let (job, ran) = (hourly(&ann), Arc::new(AtomicU32::new(0)));
    let (stop, count) = (CancellationToken::new(), Arc::clone(&ran));
    let stops = stop.clone();
    let node = tokio::spawn(async move {
        let work = |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, ()>(()) }
        };
        job.schedule(stops, work).await
    });
    sleep(MINUTE * 10).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let told = traces.events("a periodic job could not be asked for").len();
    assert!((10..200).contains(&told), "told {told} times");
    store.heal(&ann).expect("its client");
    sleep(MINUTE).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    ann.close().await;
    let ended = node.await.expect("no panic");
    assert!(ended.is_ok() || matches!(ended, Err(Error::Closed)), "{ended:?}");
}
