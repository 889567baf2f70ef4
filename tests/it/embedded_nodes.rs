//! A store of several nodes in this process: masters that are replaced, with or without all that the old one had, slots that go
//! to another node, and nodes that stand still. All on a paused clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use relatch::{
    Client, EmbeddedStore, Error, LockGuard, LostCause, Uuid,
    embedded::{Forget, Happening, Purpose, Rival, Traced, Weather},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Of a client with the default options.
const LEASE: Duration = Duration::from_secs(30);
/// What another server does not have is told within this after the first link to it.
const TOLD: Duration = Duration::from_millis(1_500);
/// Whoever hears nothing asks again within this.
const POLL: Duration = Duration::from_millis(251);

async fn client(store: &EmbeddedStore) -> Client {
    Client::builder().embedded(store).connect().await.expect("a store refuses nobody of its runtime")
}

/// Names of this node, as many as are wanted.
fn names(store: &EmbeddedStore, node: usize, what: &str) -> impl Iterator<Item = String> {
    (0..).map(move |number| format!("{what}-{number}")).filter(move |name| store.node_of(name) == node)
}

async fn holds(client: &Client, names: impl IntoIterator<Item = String>) -> Vec<LockGuard> {
    let mut held = Vec::new();
    for name in names {
        held.push(client.lock(name).lock().await.expect("a free lock"));
    }
    held
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Lost { cause: LostCause::Gone, .. })
}

/// When each client's first link for commands came that replaced another one.
fn moves(trace: &[Traced]) -> BTreeMap<Uuid, Duration> {
    let mut moves = BTreeMap::new();
    for traced in trace {
        if let Happening::Replaced { link: Purpose::Commands, .. } = traced.what {
            moves.entry(traced.client).or_insert(traced.at);
        }
    }
    moves
}

#[tokio::test(start_paused = true)]
async fn a_master_that_was_replaced_has_no_replicas_that_acknowledge_anything() {
    for nodes in [1, 3] {
        let store = EmbeddedStore::seeded(1).with_nodes(nodes);
        store.set_replicas(2);
        let client = Client::builder().embedded(&store).replica_acks(2, 100 * MS).connect().await.expect("it connects");
        let mut names = names(&store, 0, "name");
        let mut lock = || client.lock(names.next().expect("there is always another"));
        let before = lock().lock().await.expect("both acknowledge it");
        store.fail_over(0, Forget::Nothing, Rival::Lives(LEASE)).expect("there is such a node");
        let answer = lock().try_lock().await;
        assert!(matches!(answer, Err(Error::TooFewReplicas { acknowledged: 0, .. })), "{answer:?}");
        // Whoever has a link to the next one has its replicas.
        store.cut(&client).expect("a client of it");
        let after = lock().lock().await.expect("both acknowledge it");
        assert!(before.is_held() && after.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_new_master_does_not_know_is_told_to_all_holders_at_once_and_what_it_knows_stays() {
    for nodes in [1, 3] {
        let store = EmbeddedStore::seeded(1).with_nodes(nodes);
        let started = Instant::now();
        let clients = [client(&store).await, client(&store).await];
        let (mut early, mut late, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        for (number, client) in clients.iter().enumerate() {
            early.extend(holds(client, names(&store, 0, &format!("early-{number}")).take(50)).await);
            if nodes > 1 {
                elsewhere.extend(holds(client, names(&store, 1, &format!("elsewhere-{number}")).take(50)).await);
            }
        }
        sleep(2 * SECOND).await;
        for (number, client) in clients.iter().enumerate() {
            late.extend(holds(client, names(&store, 0, &format!("late-{number}")).take(50)).await);
        }
        store.start_trace();
        store.fail_over(0, Forget::Since(SECOND), Rival::Dead).expect("there is such a node");
        let mut told = JoinSet::new();
        for guard in late {
            told.spawn(async move { (is_gone(&guard.lost().await), Instant::now()) });
        }
        let told = timeout(LEASE, told.join_all()).await.expect("each is told long before its lease is over");
        let moves = moves(&store.take_trace());
        let first = *moves.values().min().expect("there are new links");
        assert_eq!((told.len(), moves.len()), (100, 2));
        for (gone, at) in told {
            assert!(gone && at - started <= first + TOLD, "{nodes} nodes: {:?}, {first:?}", at - started);
        }
        sleep(2 * LEASE).await;
        for guard in early.into_iter().chain(elsewhere) {
            assert!(guard.is_held(), "{}", guard.name());
            guard.unlock().await.expect("a hold of ours");
        }
        assert!(store.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn two_hold_a_lock_only_from_the_first_move_to_a_new_master_until_the_other_is_told_and_nobody_asks_the_old_one_after_it()
 {
    let store = EmbeddedStore::seeded(2).with_nodes(1);
    let started = Instant::now();
    let (ann, ben) = (client(&store).await, client(&store).await);
    sleep(2 * SECOND).await;
    store.start_trace();
    let hers = ann.lock("report").lock().await.expect("a free lock");
    assert!(ben.lock("report").try_lock().await.expect("an answer").is_none());
    store.fail_over(0, Forget::Since(SECOND), Rival::Lives(60 * SECOND)).expect("there is such a node");
    // Nobody knows of the new one, and the old one answers everybody.
    assert!(ben.lock("report").try_lock().await.expect("an answer").is_none());
    sleep(10 * SECOND).await;
    assert!(hers.is_held() && ben.lock("report").try_lock().await.expect("an answer").is_none());
    store.cut(&ben).expect("its client");
    let his = ben.lock("report").lock().await.expect("the new master knows of nobody");
    sleep(20 * SECOND).await;
    assert!(hers.is_held() && his.is_held(), "what is promised ends here: nobody told ann");
    store.cut(&ann).expect("its client");
    let told = hers.lost().await;
    let told_at = started.elapsed();
    assert!(is_gone(&told));
    let trace = store.take_trace();
    let moves = moves(&trace);
    assert!(told_at <= moves[&ann.id()] + TOLD, "{told_at:?}, {moves:?}");
    drop(hers);
    let waiting = tokio::spawn(ann.lock("report").lock());
    sleep(LEASE * 3).await;
    assert!(his.is_held() && !waiting.is_finished());
    his.unlock().await.expect("a hold of his");
    waiting.await.expect("no panic").expect("its turn").unlock().await.expect("a hold of hers");
    let (mut know, mut asked_the_old_one) = (BTreeSet::new(), 0);
    for traced in trace.iter().chain(&store.take_trace()) {
        match &traced.what {
            Happening::Replaced { link: Purpose::Commands, .. } => know.extend([traced.client]),
            Happening::Ran(ran) if ran.is_at_rival() => {
                assert!(!know.contains(&traced.client), "{traced}");
                asked_the_old_one += 1;
            }
            _ => {}
        }
    }
    assert!(know.len() == 2 && asked_the_old_one > 2, "{know:?}, {asked_the_old_one}");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_at_an_old_master_and_whoever_waits_at_the_new_one_gets_its_turn() {
    let store = EmbeddedStore::seeded(3).with_nodes(1);
    let (ann, ben, cid) = (client(&store).await, client(&store).await, client(&store).await);
    let hers = ann.lock("report").lock().await.expect("a free lock");
    sleep(2 * SECOND).await;
    store.fail_over(0, Forget::Since(SECOND), Rival::Lives(60 * SECOND)).expect("there is such a node");
    store.cut(&cid).expect("its client");
    let turn = |client: &Client| {
        let lock = client.lock("report");
        tokio::spawn(async move {
            let guard = lock.lock().await.expect("its turn");
            let entered = Instant::now();
            sleep(MS).await;
            drop(guard);
            entered
        })
    };
    let (old, new) = (turn(&ben), turn(&cid));
    sleep(SECOND).await;
    let released = Instant::now();
    hers.unlock().await.expect("a hold of hers");
    assert!(old.await.expect("no panic") - released < SECOND, "it hears of it where it listens");
    // The new master heard of no release: her lease runs out there.
    assert!(new.await.expect("no panic") - released <= LEASE + SECOND);
    sleep(60 * SECOND + LEASE).await;
    assert!(store.is_empty() && store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_an_old_master_by_one_of_its_links_leaves_it_by_the_other_too() {
    let store = EmbeddedStore::seeded(4).with_nodes(1);
    let (ann, ben) = (client(&store).await, client(&store).await);
    let hers = ann.lock("report").lock().await.expect("a free lock");
    let waiting = tokio::spawn(ben.lock("report").lock());
    sleep(SECOND).await;
    store.fail_over(0, Forget::Nothing, Rival::Lives(600 * SECOND)).expect("there is such a node");
    // Its commands find the new master, and with them its subscriptions.
    store.set_weather_of(&ben, Weather::fair().cuts(1.0)).expect("its client");
    drop(ben.lock("other").is_locked().await);
    store.set_weather_of(&ben, Weather::fair()).expect("its client");
    store.cut(&ann).expect("its client");
    sleep(SECOND).await;
    assert!(hers.is_held() && !waiting.is_finished());
    let released = Instant::now();
    hers.unlock().await.expect("a hold of hers");
    let his = waiting.await.expect("no panic").expect("its turn");
    assert!(released.elapsed() < 50 * MS, "{:?}", released.elapsed());
    his.unlock().await.expect("a hold of his");
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_goes_elsewhere_takes_its_holds_with_it_and_nobody_who_waits_sleeps_through_a_release() {
    let store = EmbeddedStore::seeded(5).with_nodes(3);
    let clients = [client(&store).await, client(&store).await];
    let kept = clients[0].lock("{report}-kept").lock().await.expect("a free lock");
    let mut held = clients[0].lock("{report}").lock().await.expect("a free lock");
    let mut turns = clients.iter().cycle().skip(1).map(|client| tokio::spawn(client.lock("{report}").lock()));
    let mut wait = || turns.next().expect("a cycle");
    // There is always somebody who listens when it goes, and when it has arrived.
    let mut waiting = wait();
    // Half done for longer than any lease, then settled; and again at once.
    for takes in [60 * SECOND, 10 * SECOND, Duration::ZERO, SECOND] {
        sleep(350 * MS).await;
        let before = store.node_of("{report}");
        let to = store.migrate("{report}", takes).expect("there are several nodes");
        assert_eq!((store.node_of("{report}-kept"), before == to), (to, false));
        let settled = Instant::now() + takes;
        while Instant::now() < settled + 5 * SECOND {
            sleep(700 * MS).await;
            assert!(held.is_held() && !waiting.is_finished());
            let released = Instant::now();
            held.unlock().await.expect("a hold of ours");
            held = waiting.await.expect("no panic").expect("its turn");
            let took = released.elapsed();
            // As long as nobody hears of anything it is asked for; then the message is there at once.
            let longest = if released < settled { POLL } else { Duration::ZERO };
            assert!(took <= longest, "{took:?}, {takes:?}");
            waiting = wait();
        }
    }
    assert!(kept.is_held());
    kept.unlock().await.expect("a hold of ours");
    held.unlock().await.expect("a hold of ours");
    waiting.await.expect("no panic").expect("its turn").unlock().await.expect("a hold of ours");
    sleep(SECOND).await;
    assert!(store.is_empty() && store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crowd_goes_on_while_the_slot_of_its_lock_goes_from_node_to_node() {
    let store = EmbeddedStore::seeded(5).with_nodes(3);
    let (mut crowd, inside) = (JoinSet::new(), Arc::new(AtomicU32::new(0)));
    for _ in 0..3 {
        let client = client(&store).await;
        for _ in 0..2 {
            let (lock, inside) = (client.lock("report"), Arc::clone(&inside));
            crowd.spawn(async move {
                let end = Instant::now() + 60 * SECOND;
                let mut turns = 0;
                while Instant::now() < end {
                    let guard = lock.lock().await.expect("its turn");
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                    sleep(20 * MS).await;
                    assert!(guard.is_held());
                    inside.fetch_sub(1, Ordering::Relaxed);
                    guard.unlock().await.expect("a hold of ours");
                    turns += 1;
                }
                turns
            });
        }
    }
    for _ in 0..20 {
        sleep(2_900 * MS).await;
        store.migrate("report", SECOND).expect("there are several nodes");
    }
    let turns = crowd.join_all().await.iter().sum::<u32>();
    // Half of all the time that there is, though nobody hears of a third of the releases.
    assert!(turns >= 60 * 1_000 / 20 / 2, "{turns}");
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_when_its_slot_goes_elsewhere_runs_there_once() {
    let store = EmbeddedStore::seeded(6).with_nodes(2);
    let ann = client(&store).await;
    store.start_trace();
    let way = 50 * MS;
    store.set_weather(Weather::fair().request_delay(way..=way).reply_delay(way..=way));
    let trying = tokio::spawn(ann.lock("report").try_lock());
    sleep(10 * MS).await;
    store.migrate("report", SECOND).expect("there are two nodes");
    let guard = trying.await.expect("no panic").expect("an answer").expect("a free lock");
    sleep(LEASE * 2).await;
    guard.unlock().await.expect("a hold of ours");
    let acquires = store.take_trace().into_iter().filter(|traced| match &traced.what {
        Happening::Ran(ran) => ran.script().ends_with("acquire.lua"),
        _ => false,
    });
    assert_eq!(acquires.count(), 1);
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stands_still_or_dies_costs_the_names_of_the_others_nothing() {
    let store = EmbeddedStore::seeded(7).with_nodes(3);
    let ann = client(&store).await;
    let stuck = holds(&ann, names(&store, 0, "stuck").take(20)).await;
    let fine = holds(&ann, names(&store, 1, "fine").take(20)).await;
    store.freeze_node(0).expect("there is such a node");
    // More than all the tries that one client has under way.
    let waiting: Vec<_> =
        names(&store, 0, "wanted").take(1_000).map(|name| tokio::spawn(ann.lock(name).lock())).collect();
    let end = Instant::now() + 2 * LEASE;
    let mut free = names(&store, 2, "free");
    while Instant::now() < end {
        let asked = Instant::now();
        let guard = ann.lock(free.next().expect("there are enough")).try_lock().await.expect("an answer");
        guard.expect("a free lock").unlock().await.expect("a hold of ours");
        assert_eq!(asked.elapsed(), Duration::ZERO);
        sleep(100 * MS).await;
    }
    assert!(fine.iter().all(LockGuard::is_held) && !stuck.iter().any(LockGuard::is_held));
    for waiting in waiting {
        assert!(matches!(waiting.await.expect("no panic"), Err(Error::Unreachable { .. })));
    }
    store.fail_over(0, Forget::Nothing, Rival::Dead).expect("there is such a node");
    ann.lock("wanted").lock().await.expect("a node that answers").unlock().await.expect("a hold of ours");
    assert!(fine.iter().all(LockGuard::is_held));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_hears_of_is_made_up_for_when_the_lease_would_be_over() {
    let store = EmbeddedStore::seeded(8);
    let (ann, ben) = (client(&store).await, client(&store).await);
    let hers = ann.lock("report").lock().await.expect("a free lock");
    let waiting = tokio::spawn(ben.lock("report").lock());
    sleep(SECOND).await;
    store.set_weather_of(&ben, Weather::fair().lost_messages(1.0)).expect("its client");
    let released = Instant::now();
    hers.unlock().await.expect("a hold of hers");
    sleep(SECOND).await;
    assert!(!waiting.is_finished(), "nobody told it");
    waiting.await.expect("no panic").expect("its turn").unlock().await.expect("a hold of his");
    assert!(released.elapsed() <= LEASE + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_that_node_or_without_a_past_says_so() {
    let store = EmbeddedStore::new();
    let invalid = |result: relatch::Result<()>, named: &str| {
        assert!(matches!(result, Err(Error::Invalid { what, .. }) if what == named), "{named}");
    };
    invalid(store.fail_over(0, Forget::Since(SECOND), Rival::Dead), "forget");
    invalid(store.fail_over(1, Forget::Nothing, Rival::Dead), "node");
    invalid(store.freeze_node(1), "node");
    invalid(store.migrate("report", SECOND).map(drop), "node");
    store.fail_over(0, Forget::Nothing, Rival::Dead).expect("it has everything");
    assert_eq!(EmbeddedStore::new().with_nodes(0).node_of("report"), 0);
}

#[tokio::test(start_paused = true)]
async fn replicas_of_a_node_are_waited_for_whatever_becomes_of_another_one_and_not_when_its_own_link_is_another() {
    let store = EmbeddedStore::seeded(7).with_nodes(2);
    let client = Client::builder().embedded(&store).replica_acks(1, SECOND).connect().await.expect("it refuses nobody");
    let (mut here, mut there) = (names(&store, 0, "here"), names(&store, 1, "there"));
    for own in [false, true] {
        store.set_replicas(0);
        let name = here.next().expect("half of all names");
        let granted = tokio::spawn(client.lock(&name).try_lock().into_future());
        sleep(100 * MS).await;
        assert_eq!(store.hash(&name).len(), 1, "it is counted who knows of it");
        if own {
            store.fail_over(0, Forget::Nothing, Rival::Dead).expect("there is such a node");
        } else {
            store.migrate(there.next().expect("half of all names"), 10 * MS).expect("there is such a node");
            store.fail_over(1, Forget::Nothing, Rival::Dead).expect("there is such a node");
        }
        sleep(500 * MS).await;
        store.set_replicas(1);
        match granted.await.expect("no panic") {
            Ok(guard) => assert!(guard.is_some() && !own),
            Err(error) => assert!(own && matches!(error, Error::Unreachable { .. }), "{error:?}"),
        }
    }
}
