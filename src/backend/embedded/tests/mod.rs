//! The seam's contract, as [`EmbeddedBackend`] keeps it; what it is in words stands at [`Backend`].

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

mod memory;

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    backend::EmbeddedBackend,
    conditions::Weather,
    connection::{Cause, Route},
    delivery::SharedStore,
    instances::Instances,
    network::Network,
    trace::Purpose,
};
use crate::{
    backend::{
        Answer, Arg, Backend, Call, Dispatch, Fault, FaultKind, Heard, Line, Listener, Polled, RoundTrip, Value, Way,
        slot::slot,
    },
    chance::Chance,
    script::reentrant,
};

const TIMEOUT: Duration = Duration::from_secs(3);
const MS: Duration = Duration::from_millis(1);
const CLIENT: Uuid = Uuid::from_u128(1);
const ROUTE: Route = Route { client: CLIENT, node: 0 };

/// A store with one client.
struct Bench {
    store: Arc<SharedStore>,
    link: EmbeddedBackend,
}

impl Bench {
    fn new() -> Self {
        Self::of_nodes(1)
    }

    fn of_nodes(nodes: usize) -> Self {
        let store = SharedStore::new(Network::new(Chance::seeded(1), Instances::new(nodes, false)));
        let link = EmbeddedBackend::open(&store, CLIENT, TIMEOUT).unwrap();
        Self { store, link }
    }

    /// Asks for the lock as a hold of this name.
    fn acquire(&self, hold: &str, dispatch: Option<&Arc<Dispatch>>) -> Answer {
        let args = [Arg::Text(hold), Arg::Int(30_000), Arg::Int(1)];
        self.link.run(&Call {
            script: &reentrant::ACQUIRE,
            keys: &["a"],
            args: &args,
            dispatch,
            polled: Polled::ByCaller,
        })
    }

    /// Who has it.
    fn holder(&self) -> Option<String> {
        let reply = self.store.with(|network| network.command(&[b"HKEYS", b"a"]));
        let text = format!("{reply:?}");
        ["x", "y"].into_iter().find(|hold| text.contains(&format!("[{}]", hold.as_bytes()[0]))).map(str::to_owned)
    }

    fn cut(&self) {
        self.store.with(|network| network.break_link(ROUTE, Purpose::Commands, Cause::Cut));
    }
}

fn poll<F: Future + Unpin>(pending: &mut F) -> Poll<F::Output> {
    Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
}

fn fault(answer: Result<Value, Fault>) -> (FaultKind, bool) {
    let fault = answer.unwrap_err();
    (fault.kind, fault.may_have_run)
}

#[tokio::test(start_paused = true)]
async fn commands_that_are_polled_first_go_first_with_and_without_a_link() {
    for parked in [false, true] {
        let bench = Bench::new();
        if parked {
            bench.cut();
        }
        let (mut first, mut second) = (bench.acquire("x", None), bench.acquire("y", None));
        // In this order, and not in that in which they were made.
        let (second_polled, first_polled) = (poll(&mut second), poll(&mut first));
        assert_eq!((second_polled.is_pending(), first_polled.is_pending()), (parked, parked));
        if parked {
            assert!(second.await.is_ok() && first.await.is_ok());
        }
        assert_eq!(bench.holder().as_deref(), Some("y"), "parked: {parked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_is_asked_whether_it_leaves_when_it_does_and_not_before() {
    let bench = Bench::new();
    let wanted = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&wanted);
    let dispatch = Dispatch::new(move |_| asked.load(Ordering::Relaxed));
    bench.cut();
    let mut waiting = bench.acquire("x", Some(&dispatch));
    assert!(poll(&mut waiting).is_pending());
    wanted.store(false, Ordering::Relaxed);
    assert_eq!(fault(waiting.await), (FaultKind::Withdrawn, false));
    assert_eq!(bench.holder(), None);

    let withdrawn = Dispatch::new(|_| true);
    assert!(withdrawn.withdraw());
    assert_eq!(fault(bench.acquire("x", Some(&withdrawn)).await), (FaultKind::Withdrawn, false));
    let left = Dispatch::new(|_| true);
    assert!(bench.acquire("x", Some(&left)).await.is_ok() && !left.withdraw());
}

/// Asks for the store when it is dropped, as the last of a client does, and notes whether it may have it.
struct LastOfClient(Arc<SharedStore>, Arc<AtomicBool>);

impl Drop for LastOfClient {
    fn drop(&mut self) {
        let (store, (free, is_free)) = (Arc::clone(&self.0), mpsc::channel());
        thread::spawn(move || store.with(|_| free.send(())));
        self.1.store(is_free.recv_timeout(Duration::from_secs(5)).is_ok(), Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_of_a_client_may_go_with_the_question_of_a_command_that_is_over() {
    for (parked, way, migrates) in [
        (true, Duration::ZERO, false),
        (false, Duration::ZERO, false),
        (false, TIMEOUT * 2, false),
        (false, TIMEOUT / 2, true),
    ] {
        let (bench, may) = (Bench::of_nodes(2), Arc::new(AtomicBool::new(false)));
        assert!(bench.store.with(|network| network.set_conditions(None, Weather::fair().request_delay(way..=way))));
        let last = LastOfClient(Arc::clone(&bench.store), Arc::clone(&may));
        let dispatch = Dispatch::new(move |_| !last.1.load(Ordering::Relaxed));
        if parked {
            bench.cut();
        }
        let mut asking = bench.acquire("x", Some(&dispatch));
        let _ = poll(&mut asking);
        drop((asking, dispatch));
        if migrates {
            bench.store.with(|network| network.migrate(slot(b"a"), Duration::ZERO));
        }
        sleep(TIMEOUT * 3).await;
        assert!(may.load(Ordering::Relaxed), "parked: {parked}, on its way for {way:?}, moves: {migrates}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_pipeline_leave_together_or_not_at_all() {
    let bench = Bench::new();
    let (yes, no) = (Dispatch::new(|_| true), Dispatch::new(|_| false));
    let args = [Arg::Text("x"), Arg::Int(30_000), Arg::Int(1)];
    let call = |dispatch| Call {
        script: &reentrant::ACQUIRE,
        keys: &["a"],
        args: &args,
        dispatch: Some(dispatch),
        polled: Polled::ByCaller,
    };
    let answers = bench.link.run_many(&[call(&yes), call(&no)], TIMEOUT).await;
    assert_eq!(answers.len(), 2);
    assert!(answers.into_iter().all(|answer| fault(answer) == (FaultKind::Withdrawn, false)));
    assert_eq!(bench.holder(), None);
    let answers = bench.link.run_many(&[call(&yes), call(&yes)], TIMEOUT).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    assert!(bench.link.run_many(&[], TIMEOUT).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_answer_comes_within_its_time_counted_from_the_first_poll() {
    let bench = Bench::new();
    bench.store.with(|network| network.freeze(CLIENT));
    let late = bench.acquire("x", None);
    sleep(TIMEOUT).await;
    let began = Instant::now();
    assert_eq!(fault(late.await), (FaultKind::Timeout, true));
    assert_eq!(began.elapsed(), TIMEOUT);
    // In line, too; and a pipeline has its own time.
    let began = Instant::now();
    let args = [Arg::Text("x"), Arg::Int(30_000), Arg::Int(1)];
    let call =
        Call { script: &reentrant::ACQUIRE, keys: &["a"], args: &args, dispatch: None, polled: Polled::ByCaller };
    let answers = bench.link.run_many(&[call], 50 * MS).await;
    assert_eq!(answers.into_iter().map(fault).collect::<Vec<_>>(), [(FaultKind::Dropped, false)]);
    assert_eq!(began.elapsed(), 50 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_command_is_taken_back_if_it_has_not_left() {
    let bench = Bench::new();
    bench.cut();
    let mut waiting = bench.acquire("x", None);
    assert!(poll(&mut waiting).is_pending());
    drop(waiting);
    assert!(bench.acquire("y", None).await.is_ok());
    assert_eq!(bench.holder().as_deref(), Some("y"));
    drop(bench.acquire("x", None));
    assert_eq!(bench.holder().as_deref(), Some("y"), "it was never polled");
}

#[tokio::test(start_paused = true)]
async fn a_link_has_another_number_after_every_replacement_and_tells_what_broke_under_a_command() {
    let bench = Bench::new();
    for number in 1..4 {
        assert_eq!(bench.link.link(""), number);
        bench.store.with(|network| network.freeze(CLIENT));
        let mut under_way = bench.acquire("x", None);
        assert!(poll(&mut under_way).is_pending());
        bench.cut();
        assert_eq!(fault(under_way.await), (FaultKind::Dropped, true));
        bench.store.with(|network| network.thaw(CLIENT));
        let asked = Instant::now();
        assert!(bench.acquire("x", None).await.is_ok());
        assert!(bench.link.last_answer("") >= asked);
    }
}

#[tokio::test(start_paused = true)]
async fn the_round_trip_is_what_commands_take_in_the_weather_of_their_client() {
    let bench = Bench::new();
    let trip = || bench.link.round_trip("a");
    assert_eq!(trip(), None, "nothing was asked yet");
    assert!(bench.acquire("x", None).await.is_ok());
    assert_eq!(trip(), Some(RoundTrip::default()));
    let weather = |way| Weather::fair().request_delay(way..=way).reply_delay(way..=way);
    // One's own goes before that of all.
    for (of, way) in [(Some(CLIENT), 20 * MS), (None, 5 * MS)] {
        assert!(bench.store.with(|network| network.set_conditions(of, weather(way))));
    }
    assert_eq!(trip(), Some(RoundTrip::default()), "what was measured before is all that is known");
    assert!(bench.acquire("x", None).await.is_ok());
    assert_eq!(trip().map(|trip| trip.longest), Some(40 * MS));
    let (asked, link) = (Instant::now(), bench.link);
    assert!(
        link.run(&Call {
            script: &reentrant::INSPECT,
            keys: &["a"],
            args: &[],
            dispatch: None,
            polled: Polled::ByCaller
        })
        .await
        .is_ok()
    );
    assert_eq!(asked.elapsed(), 40 * MS);
}

#[tokio::test(start_paused = true)]
async fn closing_answers_what_left_what_stands_in_line_and_what_comes_later() {
    let bench = Bench::new();
    bench.store.with(|network| network.freeze(CLIENT));
    let mut under_way = bench.acquire("x", None);
    assert!(poll(&mut under_way).is_pending());
    let other = Bench::new();
    other.cut();
    let mut in_line = other.acquire("x", None);
    assert!(poll(&mut in_line).is_pending());
    for bench in [&bench, &other] {
        bench.link.close();
        bench.link.close();
        assert_eq!(fault(bench.acquire("x", None).await), (FaultKind::Closed, false));
    }
    assert_eq!(fault(under_way.await), (FaultKind::Closed, true));
    assert_eq!(fault(in_line.await), (FaultKind::Closed, false));
}

#[tokio::test(start_paused = true)]
async fn what_finds_its_slot_elsewhere_is_asked_again_whether_it_leaves_and_takes_the_way_of_what_is_sent_there() {
    let (way, moving) = (20 * MS, slot(b"a"));
    for wanted in [true, false] {
        let bench = Bench::of_nodes(2);
        assert!(bench.store.with(|network| network.set_conditions(None, Weather::fair().request_delay(way..=way))));
        let (asked, takes) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Way::default())));
        let (answer, way_of) = (Arc::clone(&asked), Arc::clone(&takes));
        let dispatch = Dispatch::new(move |way| {
            *way_of.lock().expect("no panic") = way;
            answer.load(Ordering::Relaxed)
        });
        let taken = || *takes.lock().expect("no panic");
        let (line, eras) = (&bench.link, bench.link.eras());
        let (before, elsewhere) = (line.link("a"), line.link("b"));
        let mut under_way = bench.acquire("x", Some(&dispatch));
        assert!(poll(&mut under_way).is_pending());
        assert_eq!(taken(), Way { era: line.era("a"), link: before });
        bench.store.with(|network| network.migrate(moving, Duration::ZERO));
        let after = line.link("a");
        assert_eq!((line.era("a"), *eras.borrow(), line.link("b")), (after, after, elsewhere));
        assert!(after > before.max(elsewhere));
        asked.store(wanted, Ordering::Relaxed);
        sleep(way + MS).await;
        assert_eq!(taken(), Way::over(after));
        if wanted {
            assert!(under_way.await.is_ok());
        } else {
            assert_eq!(fault(under_way.await), (FaultKind::Withdrawn, false));
        }
        assert_eq!(bench.holder().as_deref(), wanted.then_some("x"));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_unsubscribes_while_the_slot_of_its_channel_goes_elsewhere_listens_nowhere() {
    let way = 20 * MS;
    for (early, late) in [(MS, MS), (MS, way * 2), (way * 2, MS)] {
        let bench = Bench::of_nodes(2);
        assert!(bench.store.with(|network| network.set_conditions(None, Weather::fair().request_delay(way..=way))));
        let recorder = Arc::new(Recorder::default());
        let subscription = bench.link.subscribe("a", Arc::from("c"), Arc::clone(&recorder) as Arc<dyn Listener>);
        sleep(early).await;
        bench.store.with(|network| network.migrate(slot(b"a"), Duration::ZERO));
        sleep(late).await;
        drop(subscription);
        sleep(way * 4).await;
        assert!(bench.store.read(Network::listeners).is_empty(), "{early:?} {late:?}");
    }
}

/// Remembers what it heard.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Listener for Recorder {
    fn hear(&self, heard: Heard<'_>) {
        self.0.lock().unwrap().push(match heard {
            Heard::Message(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_confirmed_hears_in_order_and_is_made_anew_on_the_next_link() {
    let bench = Bench::new();
    let recorder = Arc::new(Recorder::default());
    let subscription = bench.link.subscribe("", Arc::from("c"), Arc::clone(&recorder) as Arc<dyn Listener>);
    for message in [&b"1"[..], b"2"] {
        bench.store.with(|network| network.command(&[b"PUBLISH", b"c", message]));
    }
    bench.store.with(|network| network.break_link(ROUTE, Purpose::Messages, Cause::Cut));
    bench.store.with(|network| network.command(&[b"PUBLISH", b"c", b"lost"]));
    sleep(TIMEOUT).await;
    bench.store.with(|network| network.command(&[b"PUBLISH", b"c", b"3"]));
    drop(subscription);
    bench.store.with(|network| network.command(&[b"PUBLISH", b"c", b"4"]));
    sleep(MS).await;
    assert_eq!(*recorder.0.lock().unwrap(), ["Subscribed", "1", "2", "Interrupted", "Subscribed", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_asked_for_while_nothing_passes_stands_once_something_does() {
    type Deed = fn(&mut Network, Uuid);
    let blocks: [(Deed, Deed); 2] = [(Network::freeze, Network::thaw), (Network::partition, Network::heal)];
    // Over before the silence is found, and after that, on the next link.
    for ((block, unblock), (long, link)) in blocks.into_iter().flat_map(|it| [(it, (MS, 1)), (it, (TIMEOUT * 3, 2))]) {
        let bench = Bench::new();
        let (recorder, deaf) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
        let audience = || {
            bench.store.read(|network| network.listeners().into_iter().map(|(channel, _)| channel).collect::<Vec<_>>())
        };
        bench.store.with(|network| block(network, CLIENT));
        let kept = bench.link.subscribe("", Arc::from("c"), Arc::clone(&recorder) as Arc<dyn Listener>);
        drop(bench.link.subscribe("", Arc::from("d"), Arc::clone(&deaf) as Arc<dyn Listener>));
        sleep(long).await;
        assert!(recorder.0.lock().unwrap().is_empty() && audience().is_empty());
        bench.store.with(|network| unblock(network, CLIENT));
        sleep(TIMEOUT).await;
        assert_eq!(bench.store.read(|network| network.clients[&CLIENT].links[0].messages.number), link);
        assert_eq!(audience(), ["c"]);
        bench.store.with(|network| network.command(&[b"PUBLISH", b"c", b"1"]));
        assert_eq!(*recorder.0.lock().unwrap(), ["Subscribed", "1"]);
        assert!(deaf.0.lock().unwrap().is_empty());
        drop(kept);
        assert!(audience().is_empty());
    }
}
