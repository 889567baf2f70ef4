//! Links of every length, on the store in this process and its paused clock: what a wait is answered, and whom the lock goes
//! to.

use std::time::Duration;

use futures_util::future::BoxFuture;
use relatch::{Client, EmbeddedStore, Error, LockGuard, Owner, embedded::Weather};
use tokio::time::{Instant, sleep};

use crate::{
    embedded::client,
    harness::traces::{Said, Traces},
    kept::{connected, poll_once},
};

const MS: Duration = Duration::from_millis(1);

/// The round trips of the links.
const TRIPS: [u32; 7] = [0, 2, 20, 50, 100, 200, 400];

/// The waits that are tried on each.
const WAITS: [u32; 6] = [0, 1, 50, 100, 300, 1000];

/// A link of this round trip.
fn link(trip: Duration) -> Weather {
    Weather::fair().request_delay(trip / 2..=trip / 2).reply_delay(trip / 2..=trip / 2)
}

/// Whether the round trip was measured before anything that counts, or nothing was.
async fn far_client(store: &EmbeddedStore, trip: Duration, known: bool) -> Client {
    let far = client(store).await;
    store.set_weather_of(&far, link(trip)).expect("a client of this store");
    if known {
        far.lock("another").lock().await.expect("the server answers").unlock().await.expect("it is held");
    }
    far
}

type Answer = Result<Option<LockGuard>, Error>;

#[track_caller]
fn assert_free(answer: Answer, what: &str) -> LockGuard {
    answer.expect(what).unwrap_or_else(|| panic!("{what}: busy"))
}

#[track_caller]
fn assert_busy(answer: Answer, what: &str) {
    assert!(answer.expect(what).is_none(), "{what}: granted");
}

/// Every combination of a link, a wait, and what is known of the link.
fn cases() -> impl Iterator<Item = (Duration, Duration, bool, String)> {
    let waits = |trip: u32| WAITS.into_iter().map(move |wait| (trip, wait));
    TRIPS.into_iter().flat_map(waits).flat_map(|(trip, wait)| {
        [true, false].map(|known| {
            let what = format!("a round trip of {trip} ms, a wait of {wait} ms, known: {known}");
            (MS * trip, MS * wait, known, what)
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_by_any_wait_over_any_link_and_one_release_ends_it() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let far = far_client(&store, trip, known).await;
        let (lock, owner, before) = (far.lock("report"), Owner::new(), store.calls(&far).expect("a client of it"));
        let asked = Instant::now();
        let outer = assert_free(lock.try_lock().owner(&owner).wait(wait).await, &what);
        let inner = assert_free(lock.try_lock().owner(&owner).wait(wait).await, &what);
        assert_eq!(asked.elapsed(), 2 * trip, "{what}");
        inner.unlock().await.expect(&what);
        outer.unlock().await.expect(&what);
        // Nothing was given up, so nothing is released again and again.
        sleep(Duration::from_secs(120)).await;
        assert_eq!(store.calls(&far).expect("a client of it") - before, 4, "{what}");
        assert!(store.is_empty(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_none_for_any_wait_over_any_link_within_a_round_trip_of_its_end() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let near = client(&store).await;
        let far = far_client(&store, trip, known).await;
        let held = near.mutex("report").lock().await.expect("it is free");
        let asked = Instant::now();
        assert_busy(far.mutex("report").try_lock().wait(wait).await, &what);
        let took = asked.elapsed();
        assert!(wait <= took && took <= wait + trip + MS, "{what}: {took:?}");
        held.unlock().await.expect(&what);
        let before = store.calls(&far).expect("a client of it");
        sleep(Duration::from_secs(120)).await;
        assert_eq!(store.calls(&far).expect("a client of it"), before, "{what}: nothing was left behind");
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_in_turn_over_any_link_hear_busy_and_nothing_else() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let near = client(&store).await;
        let far = far_client(&store, trip, known).await;
        let held = near.mutex("report").lock().await.expect("it is free");
        let waiting: Vec<_> = (0..40)
            .map(|n| {
                let mutex = far.mutex("report");
                tokio::spawn(async move {
                    sleep(n * 7 * MS).await;
                    mutex.try_lock().wait(wait).await
                })
            })
            .collect();
        for waiter in waiting {
            assert_busy(waiter.await.expect("no panic"), &what);
        }
        held.unlock().await.expect(&what);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_ever_over_any_link_enters_within_its_distance_of_the_release() {
    for trip in TRIPS.map(|trip| MS * trip) {
        let store = EmbeddedStore::new();
        let near = client(&store).await;
        let far = far_client(&store, trip, false).await;
        let held = near.mutex("report").lock().await.expect("it is free");
        let waiter = tokio::spawn(far.mutex("report").lock().into_future());
        sleep(Duration::from_secs(5)).await;
        let let_go = Instant::now();
        held.unlock().await.expect("it is held");
        let guard = waiter.await.expect("no panic").expect("the server answers");
        // The message, the try, and its answer.
        assert_eq!(let_go.elapsed(), trip * 3 / 2);
        guard.unlock().await.expect("it is held");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_nests_beside_others_of_its_owner_is_served_for_any_wait_over_any_link() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let far = far_client(&store, trip, known).await;
        let (lock, owner) = (far.lock("report"), Owner::new());
        let outer = assert_free(lock.try_lock().owner(&owner).wait(wait).await, &what);
        let asked = Instant::now();
        let nesting: Vec<_> = (0..10)
            .map(|_| {
                let (lock, owner) = (lock.clone(), owner.clone());
                tokio::spawn(async move { lock.try_lock().owner(&owner).wait(wait).await })
            })
            .collect();
        let mut inside = Vec::new();
        for nested in nesting {
            inside.push(assert_free(nested.await.expect("no panic"), &what));
        }
        assert!(asked.elapsed() <= 10 * trip, "{what}: {:?}", asked.elapsed());
        assert_eq!(outer.hold_count(), 11, "{what}");
        drop((inside, outer));
        sleep(Duration::from_secs(60)).await;
        assert!(store.is_empty(), "{what}");
    }
}

/// A nested acquisition that is neither polled nor dropped is in nobody's way.
#[tokio::test(start_paused = true)]
async fn whoever_nests_beside_a_parked_one_of_its_owner_is_served_over_any_link() {
    for trip in TRIPS.map(|trip| MS * trip).into_iter().filter(|trip| !trip.is_zero()) {
        let store = EmbeddedStore::new();
        let far = far_client(&store, trip, false).await;
        let (lock, owner, what) = (far.lock("report"), Owner::new(), format!("a round trip of {trip:?}"));
        let outer = lock.lock().owner(&owner).await.expect("it is free");
        let mut parked = lock.lock().owner(&owner);
        assert!(poll_once(&mut parked).await.is_pending());
        for _ in 0..3 {
            let asked = Instant::now();
            let waited = assert_free(lock.try_lock().owner(&owner).wait(100 * MS).await, &what);
            let tried = assert_free(lock.try_lock().owner(&owner).await, &what);
            tried.unlock().await.expect(&what);
            waited.unlock().await.expect(&what);
            // The parked one, and these.
            assert!(asked.elapsed() <= 5 * trip, "{what}: {:?}", asked.elapsed());
            sleep(Duration::from_secs(20)).await;
        }
        let asked = Instant::now();
        outer.unlock().await.expect(&what);
        assert_eq!(asked.elapsed(), trip, "{what}");
        parked.await.expect(&what).unlock().await.expect(&what);
        assert!(store.is_empty(), "{what}");
    }
}

/// Others of a process that has the lock, over and over, and who want it for once.
#[tokio::test(start_paused = true)]
async fn whoever_waits_a_while_beside_a_busy_task_of_its_own_process_hears_no_error_over_any_link() {
    for trip in TRIPS.map(|trip| MS * trip) {
        let store = EmbeddedStore::new();
        let far = far_client(&store, trip, false).await;
        let busy: Vec<_> = (0..2)
            .map(|_| {
                let mutex = far.mutex("report");
                tokio::spawn(async move {
                    loop {
                        let guard = mutex.lock().await.expect("the server answers");
                        sleep(MS).await;
                        guard.unlock().await.expect("it is held");
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            let mutex = far.mutex("report");
            let waited = mutex.try_lock().wait(100 * MS).await;
            drop(waited.unwrap_or_else(|error| panic!("a round trip of {trip:?}: {error}")));
            sleep(97 * MS).await;
        }
        busy.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// More than are under way at once: some leave from the line.
/// Where replicas are asked, too.
async fn acknowledged_client(store: &EmbeddedStore, trip: Duration) -> Client {
    store.set_replicas(1);
    let far = connected(Client::builder().embedded(store).replica_acks(1, MS * 100)).await;
    store.set_weather_of(&far, link(trip)).expect("a client of this store");
    far.lock("another").lock().await.expect("the server answers").unlock().await.expect("it is held");
    far
}

#[tokio::test(start_paused = true)]
async fn many_that_are_given_up_on_their_way_cost_a_release_each_and_nothing_later() {
    given_up_on_their_way(|store| Box::pin(far_client(store, 2 * MS, true))).await;
}

#[tokio::test(start_paused = true)]
async fn many_that_are_given_up_on_their_way_to_replicas_cost_a_release_each_and_nothing_later() {
    given_up_on_their_way(|store| Box::pin(acknowledged_client(store, 2 * MS))).await;
}

async fn given_up_on_their_way(client: impl for<'a> Fn(&'a EmbeddedStore) -> BoxFuture<'a, Client>) {
    let (store, names, day) = (EmbeddedStore::new(), 128, Duration::from_secs(24 * 3600));
    let far = client(&store).await;
    let before = store.calls(&far).expect("a client of it");
    let tries: Vec<_> =
        (0..names).map(|n| tokio::spawn(far.mutex(format!("{n}")).lock().lease(day).into_future())).collect();
    sleep(MS).await;
    tries.iter().for_each(tokio::task::JoinHandle::abort);
    for given_up in tries {
        assert!(given_up.await.is_err_and(|error| error.is_cancelled()));
    }
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(store.calls(&far).expect("a client of it") - before, 2 * names);
    assert!(store.is_empty());
}

/// A client whose way to the store was short for a while, and is of this round trip from now on.
async fn client_that_moved(store: &EmbeddedStore, trip: Duration) -> Client {
    let moved = far_client(store, 4 * MS, true).await;
    for _ in 0..20 {
        moved.lock("another").lock().await.expect("it is free").unlock().await.expect("it is held");
    }
    store.set_weather_of(&moved, link(trip)).expect("a client of this store");
    moved
}

/// The first answers are missing by when the short way would have brought them. From that alone it is known that it may have
/// become longer, before any comes.
#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_by_any_wait_soon_after_the_way_became_longer() {
    for trip in [50, 200, 400].map(|trip| MS * trip) {
        for wait in [1, 50, 100, 300].map(|wait| MS * wait) {
            let store = EmbeddedStore::new();
            let moved = client_that_moved(&store, trip).await;
            let mut answered = Vec::new();
            for n in 0..10 {
                let answer = moved.mutex(format!("report {n}")).try_lock().wait(wait).await;
                if let Ok(guard) = &answer {
                    assert!(guard.is_some(), "it is free");
                }
                answered.push(answer.is_ok());
            }
            let in_vain = answered.iter().filter(|answered| !**answered).count();
            assert!(in_vain <= 3 && answered[in_vain..].iter().all(|it| *it), "{trip:?}, {wait:?}: {answered:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_nests_is_served_for_any_wait_though_the_way_has_just_become_longer() {
    for trip in [20, 50, 100, 200, 400].map(|trip| MS * trip) {
        for wait in [1, 50, 100, 300].map(|wait| MS * wait) {
            let store = EmbeddedStore::new();
            let (moved, owner) = (far_client(&store, 4 * MS, true).await, Owner::new());
            let mut outer = Vec::new();
            for n in 0..10 {
                let lock = moved.lock(format!("report {n}"));
                outer.push((lock.lock().owner(&owner).await.expect("it is free"), lock));
            }
            store.set_weather_of(&moved, link(trip)).expect("a client of this store");
            let mut answered = Vec::new();
            // Each inside a hold of its own: nobody stands in line.
            for (_, lock) in &outer {
                let answer = lock.try_lock().owner(&owner).wait(wait).await;
                answered.push(answer.is_ok_and(|guard| guard.is_some()));
            }
            // Whoever has the lock bears a way of three times as long as any is taken to have become before an answer says so.
            let most = if trip < 300 * MS { 0 } else { 3 };
            let in_vain = answered.iter().filter(|answered| !**answered).count();
            assert!(in_vain <= most && answered[in_vain..].iter().all(|it| *it), "{trip:?}, {wait:?}: {answered:?}");
        }
    }
}

/// Where the server says nothing at all nobody waits for it much longer.
#[tokio::test(start_paused = true)]
async fn a_short_wait_for_a_server_that_has_fallen_silent_is_over_soon() {
    let store = EmbeddedStore::new();
    let moved = client_that_moved(&store, 4 * MS).await;
    store.freeze(&moved).expect("a client of this store");
    let silent = Instant::now();
    for n in 0.. {
        let (before, asked) = (silent.elapsed(), Instant::now());
        if before > Duration::from_secs(10) {
            break;
        }
        let answer = moved.mutex(format!("report {n}")).try_lock().wait(MS).await;
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}, {before:?}");
        // Past the command timeout its link is given up, and nothing is known of the next one.
        let known = if before < Duration::from_secs(3) { 3 * before } else { Duration::ZERO };
        assert!(asked.elapsed() <= known.clamp(20 * MS, 301 * MS), "after {before:?}: {:?}", asked.elapsed());
    }
}

/// One that comes late says nothing of the way.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_long_enough_is_not_called_short_after_one_late_answer() {
    let traces = Traces::here();
    let store = EmbeddedStore::new();
    let near = client_that_moved(&store, 400 * MS).await;
    near.lock("another").lock().await.expect("it is free").unlock().await.expect("it is held");
    store.set_weather_of(&near, link(4 * MS)).expect("a client of this store");
    let short = |said: &Said| said.what.contains("four round trips");
    for (lease, warns) in [(150, false), (10, true)] {
        let guard = near.lock("report").lock().lease(MS * lease).await.expect("it is free");
        guard.unlock().await.expect("it is held");
        assert_eq!(traces.all().iter().any(short), warns, "{lease}");
    }
}

/// What a process keeps a lock for while others want it, by default.
const SLICE: Duration = Duration::from_millis(10);

/// A process: its round trip in milliseconds, and how many tasks of it take the lock over and over.
type Crew = (u32, usize);

/// What came of a process whose tasks take the lock over and over.
#[derive(Clone, Copy, Debug)]
struct Share {
    trip: Duration,
    sections: u32,
    longest_wait: Duration,
}

/// Takes the lock over and over for so long, each time for a section.
async fn share(far: Client, trip: Duration, section: Duration, span: Duration) -> Share {
    let (mutex, over) = (far.mutex("report"), Instant::now() + span);
    let mut share = Share { trip, sections: 0, longest_wait: Duration::ZERO };
    loop {
        let asked = Instant::now();
        let entered = tokio::time::timeout_at(over, mutex.lock()).await;
        share.longest_wait = share.longest_wait.max(asked.elapsed());
        let Ok(guard) = entered else { return share };
        let guard = guard.expect("the server answers");
        sleep(section).await;
        share.sections += 1;
        guard.unlock().await.expect("it is held");
    }
}

/// All of these want one lock. With a seed, no two answers take the same time.
async fn shares(crews: &[Crew], section: Duration, span: Duration, seed: Option<u64>) -> Vec<Share> {
    let store = EmbeddedStore::seeded(seed.unwrap_or_default());
    let mut processes = Vec::new();
    for &(trip, tasks) in crews {
        let (client, trip) = (client(&store).await, MS * trip);
        let way = trip / 2..=if seed.is_some() { trip * 11 / 20 } else { trip / 2 };
        let weather = Weather::fair().request_delay(way.clone()).reply_delay(way);
        store.set_weather_of(&client, weather).expect("a client of this store");
        let work = |_| tokio::spawn(share(client.clone(), trip, section, span));
        processes.push((0..tasks).map(work).collect::<Vec<_>>());
    }
    let mut shares = Vec::new();
    for process in processes {
        let mut all = Vec::new();
        for task in process {
            all.push(task.await.expect("no panic"));
        }
        let together = |one: Share, other: Share| Share {
            sections: one.sections + other.sections,
            longest_wait: one.longest_wait.max(other.longest_wait),
            ..one
        };
        shares.extend(all.into_iter().reduce(together));
    }
    shares
}

/// Nobody is kept out, and what the nearest makes alone is not lost in waiting for those that are far: on ways of one length, and
/// on those that chance makes uneven.
async fn everybody_has_its_turn(crews: &[Crew]) {
    let processes = u32::try_from(crews.len()).expect("a few");
    // The clock of these tests goes by whole milliseconds: a tenth of one is none.
    for (section, long, seeds) in [(1, 12, 2), (20, 40, 8), (100, 100, 8), (1000, 300, 8)] {
        let section = MS * section;
        let bound = |trip: Duration| Duration::from_secs(1) + 12 * (SLICE + section + trip) * processes;
        // Nobody can wait for longer than it lasts. One run is long enough for whoever is kept out late to be seen, too.
        let short = bound(MS * crews.iter().map(|crew| crew.0).max().unwrap_or_default()) * 4 / 3;
        let long = short.max(Duration::from_secs(long));
        let made_alone = async |span| shares(&crews[..1], section, span, None).await[0].sections;
        let (in_long, in_short) = (made_alone(long).await, made_alone(short).await);
        let runs = (0..seeds).map(|seed| (Some(seed), short, in_short));
        for (seed, span, alone) in [(None, long, in_long)].into_iter().chain(runs) {
            let shares = shares(crews, section, span, seed).await;
            let what = format!("sections of {section:?}, seed {seed:?}: alone {alone}, {shares:?}");
            for share in &shares {
                let bound = bound(share.trip);
                assert!(share.longest_wait <= bound, "{:?} waited for more than {bound:?}: {what}", share.trip);
            }
            let all: u32 = shares.iter().map(|share| share.sections).sum();
            let kept = if section <= SLICE { shares[0].sections } else { all };
            assert!(2 * kept >= alone, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_at_16_ms_and_a_near_one_both_have_their_turn() {
    everybody_has_its_turn(&[(0, 1), (16, 1)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_at_50_ms_and_a_near_one_both_have_their_turn() {
    everybody_has_its_turn(&[(0, 1), (50, 1)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_at_200_ms_and_a_near_one_both_have_their_turn() {
    everybody_has_its_turn(&[(0, 1), (200, 1)]).await;
}

#[tokio::test(start_paused = true)]
async fn four_tasks_of_a_process_at_200_ms_and_a_near_one_all_have_their_turn() {
    everybody_has_its_turn(&[(0, 1), (200, 4)]).await;
}

#[tokio::test(start_paused = true)]
async fn four_processes_at_four_distances_all_have_their_turn() {
    everybody_has_its_turn(&[(0, 1), (10, 1), (50, 1), (200, 1)]).await;
}

/// Those that are as near as can be hear and try in the same moment: chance decides nothing between them.
#[tokio::test(start_paused = true)]
async fn three_processes_that_are_all_near_share_the_lock_evenly_and_lose_nothing() {
    let alone = shares(&[(0, 1)], MS, Duration::from_secs(5), None).await[0].sections;
    let shares = shares(&[(0, 1), (0, 1), (0, 1)], MS, Duration::from_secs(5), None).await;
    let sections = || shares.iter().map(|share| share.sections);
    let (least, most) = (sections().min().unwrap_or_default(), sections().max().unwrap_or_default());
    assert!(least * 5 >= most * 3, "{shares:?}");
    assert!(sections().sum::<u32>() * 10 >= alone * 9, "{alone}: {shares:?}");
    assert!(shares.iter().all(|share| share.longest_wait <= 8 * SLICE), "{shares:?}");
}

/// Those that are equally far do not wait for each other for longer than they need.
#[tokio::test(start_paused = true)]
async fn two_processes_that_are_equally_far_share_the_lock_evenly() {
    for trip in [20, 200] {
        let shares = shares(&[(trip, 1), (trip, 1)], MS, Duration::from_secs(60), Some(7)).await;
        let (least, most) = (shares[0].sections.min(shares[1].sections), shares[0].sections.max(shares[1].sections));
        assert!(least * 5 >= most * 3, "{shares:?}");
    }
}
