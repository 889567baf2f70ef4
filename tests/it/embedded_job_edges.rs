//! The periodic job at its edges: nodes that die at any step, ends that nobody answers, clocks that are set, and a client that ends or
//! is asked by several tasks. On the embedded store, as in `embedded_job.rs`.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use relatch::{CancellationToken, Client, Error, JobContext, Outcome, PeriodicJob, RefusedKind, embedded::Weather};
use tokio::time::{Instant, sleep};

use crate::{
    embedded::client,
    embedded_job::{
        DAY, Done, Fleet, HOUR, LEASE, MINUTE, MS, SECOND, assert_done, assert_failed, assert_ran, at_the_start_of,
        begins, fails, hourly, is_running, record, succeeds,
    },
    harness::{eventually_async, traces::Traces},
    kept,
};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A node that goes on by itself, and how often it began the work.
struct Scheduled {
    stop: CancellationToken,
    begun: Arc<AtomicU32>,
    node: tokio::task::JoinHandle<Result<(), Error>>,
}

impl Scheduled {
    fn new(job: PeriodicJob) -> Self {
        let (stop, begun) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let (stops, count) = (stop.clone(), Arc::clone(&begun));
        let work = move |_: JobContext| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, ()>(()) }
        };
        let node = tokio::spawn(async move { job.schedule(stops, work).await });
        Self { stop, begun, node }
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }

    async fn ends(self) {
        self.stop.cancel();
        self.node.await.expect("no panic").expect("it was told to stop");
    }
}

/// Whatever it was about to do: ask, hear, work, say that it is done.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_killed_at_any_step_is_counted_if_it_began_and_followed_within_its_lease() {
    let (mut died_early, mut died_at_it, mut died_late) = (0, 0, 0);
    for (max_attempts, lives) in (0..36).map(|step| (1 + step % 2 * 2, MS * 2 * step)) {
        let store = at_the_start_of(HOUR).await;
        let (ann, ben) = (client(&store).await, client(&store).await);
        let way = MS * 5;
        store
            .set_weather_of(&ann, Weather::fair().request_delay(way..=way).reply_delay(way..=way))
            .expect("its client");
        let job = hourly(&ann).max_attempts(max_attempts);
        let node = tokio::spawn(async move {
            let work = |_: JobContext| async {
                sleep(MS * 30).await;
                Ok(0_u32)
            };
            job.run(work).await as Done
        });
        sleep(lives).await;
        store.partition(&ann).expect("its client");
        node.abort();
        // What was on its way runs.
        sleep(way * 2).await;
        let kept = record(&store, "report");
        let next = hourly(&ben).max_attempts(max_attempts);
        if kept.contains_key("by") {
            died_late += 1;
            assert_done(succeeds(&next).await, &ann);
        } else if kept.contains_key("run") {
            died_at_it += 1;
            assert!(is_running(&succeeds(&next).await, &ann), "after {lives:?}");
            sleep(LEASE - MS * 200).await;
            assert!(is_running(&succeeds(&next).await, &ann), "after {lives:?}");
            sleep(MS * 300).await;
            let done = succeeds(&next).await;
            if max_attempts == 1 {
                assert!(matches!(done, Ok(Outcome::Exhausted { attempts: 1, .. })), "{done:?}");
                sleep(HOUR).await;
                assert_ran(succeeds(&next).await, 1);
            } else {
                assert_ran(done, 2);
            }
        } else {
            died_early += 1;
            assert_ran(succeeds(&next).await, 1);
        }
    }
    assert!(died_early > 1 && died_at_it > 10 && died_late > 2, "{died_early} {died_at_it} {died_late}");
}

/// Somebody's begin was not answered at first, so that copies of it are looked for after its end, whose every sending is lost.
#[tokio::test(start_paused = true)]
async fn what_is_said_of_work_again_and_again_after_its_end_is_what_became_of_it() {
    for result in [Ok(1), Err("broken")] {
        let store = at_the_start_of(HOUR).await;
        let (ann, ben) = (client(&store).await, client(&store).await);
        let stop = CancellationToken::new();
        let (job, stops, parted) = (hourly(&ann).max_attempts(2), stop.clone(), store.clone());
        store.drop_next_reply(&ann).expect("its client");
        let node = tokio::spawn({
            let ann = ann.clone();
            async move {
                let work = |ctx: JobContext| {
                    assert_eq!(ctx.attempt(), 1);
                    parted.partition(&ann).expect("its client");
                    stops.cancel();
                    async { result }
                };
                job.schedule(stops.clone(), work).await
            }
        });
        eventually_async(MINUTE, async || stop.is_cancelled()).await;
        node.await.expect("no panic").expect("it was told to stop");
        let runs = record(&store, "report");
        assert!(runs.contains_key("run") && runs["attempts"] == "1", "{runs:?}");
        // The lease is over, and with it what repeats the end.
        sleep(LEASE + SECOND * 4).await;
        store.heal(&ann).expect("its client");
        eventually_async(LEASE, async || !record(&store, "report").contains_key("run")).await;
        assert_eq!(record(&store, "report")["attempts"], "1");
        let next = succeeds(&hourly(&ben).max_attempts(2)).await;
        if result.is_ok() { assert_done(next, &ann) } else { assert_ran(next, 2) }
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_on_a_node_is_tried_again_on_another_one_if_there_is_any() {
    for nodes in [1, 4] {
        let store = at_the_start_of(HOUR).await;
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&attempts);
        let work = move |node, ctx: JobContext| {
            let noted = Arc::clone(&noted);
            async move {
                noted.lock().expect("no panic").push((node, ctx.attempt()));
                sleep(SECOND).await;
                Err("broken")
            }
        };
        let (fleet, _clients) = Fleet::of(&store, nodes, hourly, work).await;
        sleep(MINUTE).await;
        fleet.ends().await;
        let attempts = attempts.lock().expect("no panic");
        assert_eq!(attempts.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
        let elsewhere = attempts.windows(2).all(|pair| pair[0].0 != pair[1].0);
        assert_eq!(elsewhere, nodes > 1, "{attempts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_goes_on_for_several_periods_holds_them_up_and_the_next_one_knows_what_was_missed() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let (end, working) = begins(&hourly(&ann)).await;
    let waits = Scheduled::new(hourly(&ben));
    sleep(HOUR * 7 / 2).await;
    assert!(is_running(&succeeds(&hourly(&ben)).await, &ann));
    assert_eq!(waits.begun(), 0);
    waits.ends().await;
    end.send(Ok(1)).expect("it works");
    assert_ran(working.await.expect("no panic"), 1);
    let work = |ctx: JobContext| async move { Ok(ctx.missed()) };
    assert_ran(hourly(&ben).run(work).await, 2);
    assert_done(succeeds(&hourly(&ann)).await, &ben);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_ends_as_soon_as_its_client_closes_or_shuts_down_however_long_it_would_sleep() {
    for shuts_down in [false, true] {
        let store = at_the_start_of(DAY).await;
        let ann = client(&store).await;
        let node = Scheduled::new(ann.periodic_job("report", DAY));
        sleep(HOUR).await;
        assert_eq!(node.begun(), 1);
        let told = Instant::now();
        if shuts_down {
            assert!(ann.shutdown(MINUTE).await.is_clean());
        } else {
            ann.close().await;
        }
        let ended = node.node.await.expect("no panic");
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        assert!(told.elapsed() < SECOND, "after {:?}", told.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn work_under_way_while_its_client_shuts_down_is_told_so_and_is_on_record() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let job = hourly(&ann);
    let working = tokio::spawn(async move {
        let work = |ctx: JobContext| async move {
            ctx.cancellation().cancelled().await;
            sleep(LEASE * 2).await;
            Ok(ctx.attempt())
        };
        job.run(work).await as Done
    });
    sleep(MINUTE).await;
    assert!(ann.shutdown(HOUR).await.is_clean());
    assert_ran(working.await.expect("no panic"), 1);
    assert_done(succeeds(&hourly(&ben)).await, &ann);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_looked_at_only_after_it_was_told_to_stop_begins_nothing() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let (job, stop) = (hourly(&ann), CancellationToken::new());
    let mut scheduled = Box::pin(job.schedule(stop.clone(), |_| async { panic!("it is to stop") as Result<(), ()> }));
    assert!(kept::poll_once(&mut scheduled).await.is_pending());
    eventually_async(MINUTE, async || record(&store, "report").contains_key("run")).await;
    sleep(SECOND).await;
    stop.cancel();
    scheduled.await.expect("it was told to stop");
    eventually_async(MINUTE, async || !record(&store, "report").contains_key("run")).await;
    assert_ran(succeeds(&hourly(&ben)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_waits_for_a_task_of_its_client_that_is_at_the_job_with_other_options() {
    let store = at_the_start_of(HOUR).await;
    let ann = client(&store).await;
    let node = Scheduled::new(hourly(&ann));
    sleep(MINUTE).await;
    assert_eq!(node.begun(), 1);
    sleep(HOUR - MINUTE * 2).await;
    // Across the beginning of the next period.
    let (end, working) = begins(&hourly(&ann).start_within(HOUR).keep_record(DAY).offset(MINUTE)).await;
    sleep(MINUTE * 5).await;
    assert!(!node.node.is_finished());
    end.send(Err("broken")).expect("it works");
    assert_failed(working.await.expect("no panic"), 1);
    sleep(MINUTE).await;
    assert_eq!(node.begun(), 2);
    node.ends().await;
    // From the start it is a mistake.
    let (end, working) = begins(&ann.periodic_job("other", HOUR)).await;
    let refused =
        ann.periodic_job("other", DAY).schedule(CancellationToken::new(), |_| async { Ok::<_, ()>(()) }).await;
    assert!(matches!(refused, Err(Error::Invalid { what: "name", .. })), "{refused:?}");
    drop(end);
    assert_failed_by_nobody(working.await.expect("no panic"));
}

fn assert_failed_by_nobody(done: Done) {
    assert!(matches!(done, Ok(Outcome::Failed { error: "nobody said", .. })), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_period_that_a_schedule_gives_up_is_told_once_in_an_event() {
    let traces = Traces::here();
    let store = at_the_start_of(HOUR).await;
    let job = hourly(&client(&store).await).max_attempts(2);
    let stop = CancellationToken::new();
    let stops = stop.clone();
    let node = tokio::spawn(async move { job.schedule(stops, |_| async { Err::<(), _>("broken") }).await });
    sleep(HOUR * 3 - MINUTE).await;
    assert_eq!(traces.events("an attempt at a periodic job failed").len(), 6);
    assert_eq!(traces.events("a periodic job was given up for this period").len(), 3);
    stop.cancel();
    node.await.expect("no panic").expect("it was told to stop");
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_which_too_few_replicas_know_begins_nothing_and_is_given_back() {
    let store = at_the_start_of(HOUR).await;
    let builder = Client::builder().embedded(&store).replica_acks(1, MS * 100);
    let ann = builder.connect().await.expect("a store refuses nobody of its runtime");
    store.set_replicas(0);
    let done = hourly(&ann).run(|_| async { panic!("no replica knows of it") }).await as Done;
    assert!(matches!(done, Err(Error::TooFewReplicas { .. })), "{done:?}");
    eventually_async(SECOND, async || !record(&store, "report").contains_key("run")).await;
    assert_eq!(record(&store, "report")["attempts"], "0");
    let node = Scheduled::new(hourly(&ann));
    sleep(MINUTE).await;
    assert_eq!(node.begun(), 0);
    assert!(!node.node.is_finished());
    store.set_replicas(1);
    sleep(MINUTE).await;
    assert_eq!((node.begun(), &*record(&store, "report")["attempts"]), (1, "1"));
    node.ends().await;
}

#[tokio::test(start_paused = true)]
async fn where_something_else_has_its_key_it_is_refused_and_a_schedule_goes_on_when_that_is_gone() {
    let store = at_the_start_of(HOUR).await;
    let ann = client(&store).await;
    store.steal_token("relatch_job:{report}", Some(MINUTE * 10));
    let done = hourly(&ann).run(|_| async { panic!("it is no job") }).await as Done;
    assert!(matches!(done, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{done:?}");
    assert!(hourly(&ann).inspect().await.is_err() && hourly(&ann).reset().await.is_err());
    let node = Scheduled::new(hourly(&ann));
    sleep(MINUTE * 5).await;
    assert_eq!(node.begun(), 0);
    sleep(MINUTE * 6).await;
    assert_eq!(node.begun(), 1);
    node.ends().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_whose_clock_was_set_back_beneath_it_lasts_while_it_lives_and_not_when_it_died() {
    for dies in [true, false] {
        let store = at_the_start_of(HOUR).await;
        let (ann, ben) = (client(&store).await, client(&store).await);
        store.set_clock_forward(YEAR);
        let (_end, working) = begins(&hourly(&ann)).await;
        sleep(LEASE).await;
        if dies {
            store.partition(&ann).expect("its client");
            working.abort();
        }
        store.set_clock_back(YEAR);
        assert!(is_running(&succeeds(&hourly(&ben)).await, &ann));
        for _ in 0..9 {
            sleep(LEASE / 3).await;
            let done = succeeds(&hourly(&ben)).await;
            assert!(dies || is_running(&done, &ann), "{done:?}");
        }
        if dies {
            assert_done(succeeds(&hourly(&ben)).await, &ben);
        } else {
            working.abort();
            eventually_async(SECOND, async || !record(&store, "report").contains_key("run")).await;
            assert_ran(succeeds(&hourly(&ben)).await, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_goes_on_within_a_period_after_the_clock_was_a_year_ahead_and_when_it_is_back() {
    let store = at_the_start_of(HOUR).await;
    let done = Arc::new(Mutex::new(BTreeMap::<SystemTime, u32>::new()));
    let noted = Arc::clone(&done);
    let work = move |_, ctx: JobContext| {
        *noted.lock().expect("no panic").entry(ctx.period()).or_default() += 1;
        async { Ok(()) }
    };
    let (fleet, _clients) = Fleet::of(&store, 5, hourly, work).await;
    sleep(MINUTE).await;
    store.set_clock_forward(YEAR);
    sleep(HOUR * 2).await;
    store.set_clock_back(YEAR);
    sleep(HOUR * 2).await;
    fleet.ends().await;
    let done = done.lock().expect("no panic");
    // The first hour, two of the next year, and two of this one.
    assert_eq!(done.len(), 5, "{done:?}");
    assert!(done.values().all(|times| *times == 1), "{done:?}");
}

/// The second before midnight comes twice, or each of the day's seconds is a bit longer.
#[tokio::test(start_paused = true)]
async fn a_leap_second_at_the_server_makes_nothing_be_done_twice_and_leaves_nothing_out() {
    for steps in [1, 1000] {
        let store = at_the_start_of(DAY).await;
        let done = Arc::new(Mutex::new(Vec::new()));
        let (noted, began) = (Arc::clone(&done), Instant::now());
        let work = move |_, ctx: JobContext| {
            noted.lock().expect("no panic").push((ctx.period(), began.elapsed()));
            async { Ok(()) }
        };
        let (fleet, _clients) = Fleet::of(&store, 3, |client| client.periodic_job("report", DAY), work).await;
        let timer = client(&store).await.periodic_job("report", DAY);
        if steps == 1 {
            sleep(DAY).await;
            // Midnight, and once more.
            assert!(matches!(
                succeeds(&timer).await,
                Ok(Outcome::Ran(_) | Outcome::AlreadyDone { .. } | Outcome::Running { .. })
            ));
            store.set_clock_back(SECOND);
        } else {
            for _ in 0..steps {
                sleep(DAY / steps).await;
                store.set_clock_back(SECOND / steps);
            }
        }
        for _ in 0..40 {
            sleep(MS * 100).await;
            assert!(!matches!(succeeds(&timer).await, Ok(Outcome::Failed { .. } | Outcome::Lost { .. })));
        }
        sleep(DAY).await;
        fleet.ends().await;
        let record = timer.inspect().await.expect("the store answers").expect("it was done");
        let done = done.lock().expect("no panic");
        let mut periods: Vec<_> = done.iter().map(|(period, _)| *period).collect();
        periods.dedup();
        assert_eq!(periods.len(), done.len(), "{done:?}");
        assert_eq!(record.period, done[0].0 + DAY * 2);
        // The timer of its own may have been first on the second day.
        assert!((2..=3).contains(&done.len()), "{done:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_changes_begins_the_next_period_where_it_says_and_none_twice() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    assert_ran(succeeds(&hourly(&ann)).await, 1);
    let later = hourly(&ben).offset(MINUTE * 5);
    sleep(MINUTE).await;
    assert_done(succeeds(&later).await, &ann);
    sleep(MINUTE * 5).await;
    assert_ran(succeeds(&later).await, 1);
    // And back: what began after the full hour stands for it.
    assert_done(succeeds(&hourly(&ann)).await, &ben);
    sleep(HOUR).await;
    assert_ran(succeeds(&hourly(&ann)).await, 1);
}

/// A stored context keeps neither the attempt nor its record.
#[tokio::test(start_paused = true)]
async fn a_context_that_is_kept_keeps_nothing_else() {
    let store = at_the_start_of(HOUR).await;
    let (ann, ben) = (client(&store).await, client(&store).await);
    let kept = Arc::new(Mutex::new(None));
    let job = hourly(&ann);
    let run = tokio::spawn({
        let kept = Arc::clone(&kept);
        async move {
            let work = |ctx: JobContext| {
                *kept.lock().expect("no panic") = Some(ctx);
                pending()
            };
            job.run(work).await as Done
        }
    });
    eventually_async(SECOND, async || kept.lock().expect("no panic").is_some()).await;
    run.abort();
    eventually_async(SECOND, async || !record(&store, "report").contains_key("run")).await;
    let ctx = kept.lock().expect("no panic").take().expect("it began");
    assert!(ctx.cancellation().is_cancelled());
    assert_ran(succeeds(&hourly(&ben)).await, 2);
    assert_failed(fails(&hourly_other(&ann)).await, 1);
}

fn hourly_other(client: &Client) -> PeriodicJob {
    client.periodic_job("other", HOUR)
}
