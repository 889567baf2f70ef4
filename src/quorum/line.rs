//! The way to all masters of a quorum as one: who listens hears one story of them, who asks is told what most of them are like.
//!
//! What is told of what the masters say is decided in `waves.rs`. What was decided is told in its order, by one thread at a time and
//! with no mutex held.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use smallvec::SmallVec;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{
    ballot::majority,
    waves::{self, News, Told, Waves},
};
use crate::backend::{Heard, Line, Listener, RoundTrip, Subscription};

/// The number of a link that is none any more: no link ever has so great a one.
const NO_LINK: u64 = 1 << 56;

/// Several masters that know nothing of each other. Key and channel are the same on all of them.
pub(crate) struct QuorumLine {
    lines: Arc<[Arc<dyn Line>]>,
    /// Never changes: see [`Line::era`] below.
    eras: watch::Sender<u64>,
    /// Where timers run. Without one nothing is waited for.
    home: Option<Handle>,
    listening: Arc<Mutex<Listening>>,
    places: Mutex<Places>,
}

/// All that listen.
#[derive(Default)]
struct Listening {
    closed: bool,
    drawn: u64,
    open: HashMap<u64, Subscriptions>,
}

/// The subscriptions of one listener, and what it hears by them.
struct Subscriptions {
    hearing: Arc<Hearing>,
    _masters: Vec<Subscription>,
}

/// The combinations of the masters' places that were asked for: as many as there are of the nodes that have the keys.
#[derive(Default)]
struct Places(HashMap<SmallVec<[u32; 8]>, u32>);

impl QuorumLine {
    /// Over one master or more. It lives on the runtime that this runs on.
    pub(crate) fn new(lines: Vec<Arc<dyn Line>>) -> Self {
        Self {
            lines: lines.into(),
            eras: watch::Sender::new(0),
            home: Handle::try_current().ok(),
            listening: Arc::default(),
            places: Mutex::default(),
        }
    }
}

impl Line for QuorumLine {
    fn subscribe(&self, key: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        let hearing = Arc::new(Hearing {
            lines: Arc::clone(&self.lines),
            key: key.into(),
            home: self.home.clone(),
            listener,
            inside: Mutex::new(Inside::new(self.lines.len())),
        });
        let subscribe = |(master, line): (usize, &Arc<dyn Line>)| {
            let listener = Arc::new(MasterListener { hearing: Arc::clone(&hearing), master });
            line.subscribe(key, Arc::clone(&channel), listener)
        };
        let masters = self.lines.iter().enumerate().map(subscribe).collect();
        let mut subscriptions = Some(Subscriptions { hearing, _masters: masters });
        let id = {
            let mut listening = lock(&self.listening);
            listening.drawn += 1;
            let id = listening.drawn;
            if !listening.closed {
                listening.open.extend(subscriptions.take().map(|subscriptions| (id, subscriptions)));
            }
            id
        };
        drop(subscriptions);
        let listening = Arc::clone(&self.listening);
        Subscription::new(move || {
            let subscriptions = lock(&listening).open.remove(&id);
            drop(subscriptions);
        })
    }

    /// The sum: the number of each master's link grows, so that it grows with each of them.
    fn link(&self, key: &str) -> u64 {
        let number = |line: &Arc<dyn Line>| match line.link(key) {
            0 => NO_LINK,
            number => number,
        };
        self.lines.iter().map(number).fold(0, u64::wrapping_add)
    }

    /// When a quorum had answered last.
    fn last_answer(&self, key: &str) -> Instant {
        let mut answers: SmallVec<[Instant; 8]> = self.lines.iter().map(|line| line.last_answer(key)).collect();
        answers.sort_unstable();
        answers[answers.len() - majority(answers.len())]
    }

    /// That of the last of the fastest quorum, which is the one that is waited for.
    fn round_trip(&self, key: &str) -> Option<RoundTrip> {
        let known = self.lines.iter().filter_map(|line| line.round_trip(key));
        let mut known: SmallVec<[RoundTrip; 8]> = known.collect();
        known.sort_unstable_by_key(|trip| trip.usual);
        known.get(majority(self.lines.len()) - 1).copied()
    }

    fn place(&self, key: &str) -> u32 {
        let places: SmallVec<[u32; 8]> = self.lines.iter().map(|line| line.place(key)).collect();
        if places.iter().all(|place| *place == 0) { 0 } else { lock(&self.places).number(places) }
    }

    /// Always the same: one master that changed is no reason to ask all of them whether a hold is still there. That its votes do not
    /// count for a while, and that holds get theirs back, is seen to where votes are counted.
    fn era(&self, _: &str) -> u64 {
        0
    }

    fn eras(&self) -> watch::Receiver<u64> {
        self.eras.subscribe()
    }

    fn in_use(&self) {
        self.lines.iter().for_each(|line| line.in_use());
    }

    /// Ends what listens here. The links are those of the masters' clients, and stay.
    fn close(&self) {
        let subscriptions = {
            let mut listening = lock(&self.listening);
            listening.closed = true;
            std::mem::take(&mut listening.open)
        };
        drop(subscriptions);
    }
}

impl Places {
    /// From one on: zero is where all masters' are.
    fn number(&mut self, places: SmallVec<[u32; 8]>) -> u32 {
        let next = self.0.len() as u32 + 1;
        *self.0.entry(places).or_insert(next)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.hearing.end();
    }
}

/// Hears one master.
struct MasterListener {
    hearing: Arc<Hearing>,
    master: usize,
}

impl Listener for MasterListener {
    fn hear(&self, heard: Heard<'_>) {
        let news = match heard {
            Heard::Subscribed => News::Subscribed,
            Heard::Message(_) => News::Message,
            Heard::Interrupted => News::Interrupted,
            Heard::Refused => News::Refused,
        };
        self.hearing.hear(self.master, news);
    }
}

/// What one listener hears of all masters.
struct Hearing {
    lines: Arc<[Arc<dyn Line>]>,
    key: Box<str>,
    home: Option<Handle>,
    listener: Arc<dyn Listener>,
    inside: Mutex<Inside>,
}

struct Inside {
    waves: Waves,
    /// Decided, and not told yet.
    to_tell: VecDeque<News>,
    /// Somebody is at it.
    telling: bool,
    /// When the timer rings, if there is one.
    timer: Option<(Instant, AbortHandle)>,
    ended: bool,
}

impl Inside {
    fn new(masters: usize) -> Self {
        Self { waves: Waves::new(masters), to_tell: VecDeque::new(), telling: false, timer: None, ended: false }
    }
}

impl Hearing {
    fn hear(self: &Arc<Self>, master: usize, news: News) {
        let (now, patience) = (self.now(), self.patience());
        self.decide(now, |waves| waves.hear(master, news, now, patience));
    }

    /// The timer rings.
    fn ring(self: &Arc<Self>) {
        let now = Instant::now();
        lock(&self.inside).timer = None;
        self.decide(now, |waves| waves.due(now));
    }

    fn decide(self: &Arc<Self>, now: Instant, decide: impl FnOnce(&mut Waves) -> Told) {
        {
            let mut inside = lock(&self.inside);
            if inside.ended {
                return;
            }
            let told = decide(&mut inside.waves);
            inside.to_tell.extend(told);
            self.set_timer(&mut inside, now);
        }
        self.tell();
    }

    /// One that rings in time. One that rings for nothing does no harm.
    fn set_timer(self: &Arc<Self>, inside: &mut Inside, now: Instant) {
        let Some(due) = inside.waves.next_due() else { return };
        let Some(home) = &self.home else {
            let told = inside.waves.due(due.max(now));
            inside.to_tell.extend(told);
            return;
        };
        if inside.timer.as_ref().is_some_and(|(at, _)| *at <= due) {
            return;
        }
        let hearing = Arc::downgrade(self);
        let timer = home.spawn(async move {
            sleep_until(due).await;
            if let Some(hearing) = hearing.upgrade() {
                hearing.ring();
            }
        });
        if let Some((_, later)) = inside.timer.replace((due, timer.abort_handle())) {
            later.abort();
        }
    }

    /// Tells everything in order, unless somebody is at it, who goes on with this then.
    fn tell(&self) {
        let mut turn = {
            let mut inside = lock(&self.inside);
            if inside.telling || inside.to_tell.is_empty() {
                return;
            }
            inside.telling = true;
            TellingTurn { hearing: self, through: false }
        };
        while let Some(news) = turn.next() {
            self.listener.hear(match news {
                News::Subscribed => Heard::Subscribed,
                // Of several messages that are one: what they say is not asked for.
                News::Message => Heard::Message(&[]),
                News::Interrupted => Heard::Interrupted,
                News::Refused => Heard::Refused,
            });
        }
    }

    fn patience(&self) -> Duration {
        let usual = self.lines.iter().filter_map(|line| line.round_trip(&self.key)).map(|trip| trip.usual);
        waves::patience(usual)
    }

    /// The time where the timers run, wherever this is called.
    fn now(&self) -> Instant {
        let here = Handle::try_current().ok().map(|here| here.id());
        match &self.home {
            Some(home) if here != Some(home.id()) => {
                let _entered = home.enter();
                Instant::now()
            }
            _ => Instant::now(),
        }
    }

    /// Nobody is told anything from now on, but for what is just being told.
    fn end(&self) {
        let timer = {
            let mut inside = lock(&self.inside);
            inside.ended = true;
            inside.to_tell.clear();
            inside.timer.take()
        };
        if let Some((_, timer)) = timer {
            timer.abort();
        }
    }
}

/// Whoever tells.
struct TellingTurn<'a> {
    hearing: &'a Hearing,
    /// Everything was told; without that the listener panicked.
    through: bool,
}

impl TellingTurn<'_> {
    fn next(&mut self) -> Option<News> {
        let mut inside = lock(&self.hearing.inside);
        let news = inside.to_tell.pop_front();
        // In the same step: whoever comes after this finds nobody.
        inside.telling = news.is_some();
        self.through = news.is_none();
        news
    }
}

impl Drop for TellingTurn<'_> {
    fn drop(&mut self) {
        if !self.through {
            lock(&self.hearing.inside).telling = false;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread,
    };

    use tokio::time::{advance, sleep};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const KEY: &str = "a";

    type Listeners = Mutex<Vec<(u64, Arc<dyn Listener>)>>;

    /// One master: what a test says it is.
    struct Master {
        listeners: Arc<Listeners>,
        subscribed: AtomicU64,
        link: AtomicU64,
        place: u32,
        round_trip: Option<RoundTrip>,
        last_answer: Instant,
        uses: AtomicUsize,
        closed: AtomicBool,
    }

    impl Master {
        fn new() -> Self {
            Self {
                listeners: Arc::default(),
                subscribed: AtomicU64::new(0),
                link: AtomicU64::new(1),
                place: 0,
                round_trip: None,
                last_answer: Instant::now(),
                uses: AtomicUsize::new(0),
                closed: AtomicBool::new(false),
            }
        }

        fn says(&self, heard: Heard<'_>) {
            let listeners: Vec<_> = lock(&self.listeners).iter().map(|(_, listener)| Arc::clone(listener)).collect();
            listeners.iter().for_each(|listener| listener.hear(heard));
        }
    }

    impl Line for Master {
        fn subscribe(&self, key: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
            assert_eq!((key, &*channel), (KEY, "channel"));
            let id = self.subscribed.fetch_add(1, Ordering::Relaxed);
            lock(&self.listeners).push((id, listener));
            let listeners = Arc::clone(&self.listeners);
            Subscription::new(move || lock(&listeners).retain(|(known, _)| *known != id))
        }

        fn link(&self, _: &str) -> u64 {
            self.link.load(Ordering::Relaxed)
        }

        fn last_answer(&self, _: &str) -> Instant {
            self.last_answer
        }

        fn round_trip(&self, _: &str) -> Option<RoundTrip> {
            self.round_trip
        }

        fn place(&self, key: &str) -> u32 {
            self.place + u32::from(key == "elsewhere")
        }

        fn era(&self, _: &str) -> u64 {
            self.link(KEY)
        }

        fn eras(&self) -> watch::Receiver<u64> {
            watch::Sender::new(0).subscribe()
        }

        fn in_use(&self) {
            self.uses.fetch_add(1, Ordering::Relaxed);
        }

        fn close(&self) {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Remembers what it was told, and does something while it is.
    #[derive(Default)]
    struct Recorder {
        told: Mutex<Vec<News>>,
        meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    }

    impl Recorder {
        fn told(&self) -> Vec<News> {
            lock(&self.told).clone()
        }

        fn meanwhile(&self, does: impl FnOnce() + Send + 'static) {
            *lock(&self.meanwhile) = Some(Box::new(does));
        }
    }

    impl Listener for Recorder {
        fn hear(&self, heard: Heard<'_>) {
            let meanwhile = lock(&self.meanwhile).take();
            if let Some(does) = meanwhile {
                does();
            }
            lock(&self.told).push(match heard {
                Heard::Subscribed => News::Subscribed,
                Heard::Message(_) => News::Message,
                Heard::Interrupted => News::Interrupted,
                Heard::Refused => News::Refused,
            });
        }
    }

    fn quorum_of(masters: Vec<Master>) -> (Vec<Arc<Master>>, QuorumLine) {
        let masters: Vec<Arc<Master>> = masters.into_iter().map(Arc::new).collect();
        let lines = masters.iter().map(|master| Arc::clone(master) as Arc<dyn Line>).collect();
        (masters, QuorumLine::new(lines))
    }

    /// Three masters, all of which listen, and what was told after that.
    fn three() -> (Vec<Arc<Master>>, QuorumLine, Arc<Recorder>, Subscription) {
        let (masters, line) = quorum_of((0..3).map(|_| Master::new()).collect());
        let recorder = Arc::new(Recorder::default());
        let subscription = line.subscribe(KEY, "channel".into(), recorder.clone());
        masters.iter().for_each(|master| master.says(Heard::Subscribed));
        assert_eq!(std::mem::take(&mut *lock(&recorder.told)), [News::Subscribed; 2]);
        (masters, line, recorder, subscription)
    }

    fn listen(masters: &[Arc<Master>]) -> Vec<usize> {
        masters.iter().map(|master| lock(&master.listeners).len()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_on_all_masters_is_heard_once_and_one_that_fewer_tell_a_little_later() {
        let (masters, _line, recorder, _subscription) = three();
        masters.iter().for_each(|master| master.says(Heard::Message(b"1")));
        assert_eq!(recorder.told(), [News::Message]);
        sleep(100 * MS).await;
        masters[2].says(Heard::Message(b"1"));
        advance(MS).await;
        tokio::task::yield_now().await;
        assert_eq!(recorder.told(), [News::Message]);
        sleep(2 * MS).await;
        assert_eq!(recorder.told(), [News::Message; 2]);
        sleep(100 * MS).await;
        assert_eq!(recorder.told(), [News::Message; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn masters_that_are_far_apart_are_waited_for_as_long_as_they_differ() {
        let (near, far) = (5 * MS, 25 * MS);
        let at = |usual| Master { round_trip: Some(RoundTrip { usual, ..RoundTrip::default() }), ..Master::new() };
        let (masters, line) = quorum_of(vec![at(near), at(far), at(far)]);
        let recorder = Arc::new(Recorder::default());
        let _subscription = line.subscribe(KEY, "channel".into(), recorder.clone());
        masters.iter().for_each(|master| master.says(Heard::Subscribed));
        masters[0].says(Heard::Message(b"1"));
        sleep(19 * MS).await;
        assert!(!recorder.told().contains(&News::Message));
        sleep(3 * MS).await;
        assert!(recorder.told().contains(&News::Message));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_heard_on_a_thread_without_a_runtime_is_timed_at_home() {
        let (masters, _line, recorder, _subscription) = three();
        advance(Duration::from_secs(3600)).await;
        let master = Arc::clone(&masters[0]);
        thread::spawn(move || master.says(Heard::Message(b"1"))).join().unwrap();
        assert_eq!(recorder.told(), [], "the time of home is far ahead");
        sleep(3 * MS).await;
        assert_eq!(recorder.told(), [News::Message]);
    }

    #[test]
    fn without_a_home_nothing_is_waited_for() {
        let (masters, _line, recorder, _subscription) = three();
        masters[0].says(Heard::Message(b"1"));
        assert_eq!(recorder.told(), [News::Message]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_subscription_is_ended_at_all_masters_and_with_what_was_still_to_be_told() {
        let (masters, line, recorder, subscription) = three();
        let other = line.subscribe(KEY, "channel".into(), Arc::new(Recorder::default()));
        let listeners: Vec<_> = masters.iter().map(|master| Arc::clone(&lock(&master.listeners)[0].1)).collect();
        masters[0].says(Heard::Message(b"1"));
        drop(subscription);
        assert_eq!(listen(&masters), [1; 3]);
        // A master that did not hear of it yet.
        listeners.iter().for_each(|listener| listener.hear(Heard::Message(b"1")));
        sleep(100 * MS).await;
        assert_eq!(recorder.told(), []);
        drop((listeners, other));
        assert_eq!(listen(&masters), [0; 3]);
        assert_eq!(Arc::strong_count(&recorder), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_line_hears_nothing_and_leaves_the_masters_open() {
        let (masters, line, recorder, subscription) = three();
        masters[0].says(Heard::Message(b"1"));
        line.close();
        assert_eq!(listen(&masters), [0; 3]);
        let later = line.subscribe(KEY, "channel".into(), recorder.clone());
        assert_eq!(listen(&masters), [0; 3]);
        sleep(100 * MS).await;
        assert_eq!(recorder.told(), []);
        assert!(masters.iter().all(|master| !master.closed.load(Ordering::Relaxed)));
        drop((subscription, later));
    }

    #[tokio::test]
    async fn what_is_heard_while_something_is_told_is_told_after_it() {
        let (masters, _line, recorder, _subscription) = three();
        let other = masters.clone();
        recorder.meanwhile(move || {
            let says = move || other[..2].iter().for_each(|master| master.says(Heard::Interrupted));
            thread::spawn(says).join().unwrap();
        });
        masters[..2].iter().for_each(|master| master.says(Heard::Message(b"1")));
        assert_eq!(recorder.told(), [News::Message, News::Interrupted]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_may_be_dropped_while_something_is_told_and_a_listener_may_panic() {
        let (masters, _line, recorder, subscription) = three();
        recorder.meanwhile(|| panic!("a listener's own"));
        let says = || masters[..2].iter().for_each(|master| master.says(Heard::Message(b"1")));
        assert!(catch_unwind(AssertUnwindSafe(says)).is_err());
        says();
        assert_eq!(recorder.told(), [News::Message]);
        recorder.meanwhile(move || drop(subscription));
        says();
        assert_eq!(recorder.told(), [News::Message; 2]);
        assert_eq!(listen(&masters), [0; 3]);
    }

    #[tokio::test]
    async fn a_link_is_another_after_each_change_of_a_masters_link_and_of_one_that_has_none_any_more() {
        let (masters, line) = quorum_of((0..3).map(|_| Master::new()).collect());
        let mut seen = vec![line.link(KEY)];
        for (master, number) in [(0, 2), (1, 2), (1, 7), (0, 8), (2, 0), (0, 9), (1, 0), (0, 0)] {
            masters[master].link.store(number, Ordering::Relaxed);
            seen.push(line.link(KEY));
            assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
            assert_eq!((line.era(KEY), *line.eras().borrow()), (0, 0));
        }
        assert!(line.eras().has_changed().is_ok(), "whoever waits for a change waits");
    }

    #[tokio::test]
    async fn the_last_answer_and_the_round_trip_are_those_of_the_last_of_a_quorum() {
        let now = Instant::now();
        let master = |ago: u32, trip: Option<u32>| {
            let trip = trip.map(|trip| RoundTrip { usual: trip * MS, longest: 90 * MS, shortest: MS });
            Master { last_answer: now - ago * MS, round_trip: trip, ..Master::new() }
        };
        for (masters, ago, trip) in [
            (vec![(5, Some(7))], 5, Some(7)),
            (vec![(5, None)], 5, None),
            (vec![(1, Some(9)), (30, Some(3))], 30, Some(9)),
            (vec![(50, Some(70)), (2, Some(4)), (9, Some(1))], 9, Some(4)),
            (vec![(50, None), (2, Some(4)), (9, Some(1))], 9, Some(4)),
            (vec![(50, None), (2, None), (9, Some(1))], 9, None),
            (vec![(4, Some(1)), (3, Some(2)), (2, Some(3)), (1, Some(4))], 3, Some(3)),
            (vec![(1, Some(5)), (2, Some(1)), (3, None), (4, Some(8)), (5, Some(9))], 3, Some(8)),
        ] {
            let (_, line) = quorum_of(masters.iter().map(|(ago, trip)| master(*ago, *trip)).collect());
            assert_eq!(line.last_answer(KEY), now - ago * MS, "{masters:?}");
            assert_eq!(line.round_trip(KEY).map(|trip| trip.usual), trip.map(|trip| trip * MS), "{masters:?}");
        }
    }

    #[tokio::test]
    async fn keys_are_at_one_place_where_they_are_on_each_master() {
        let (masters, line) = quorum_of((0..3).map(|_| Master::new()).collect());
        assert_eq!((line.place(KEY), line.place("b")), (0, 0));
        let elsewhere = line.place("elsewhere");
        assert_ne!(elsewhere, 0);
        assert_eq!(line.place("elsewhere"), elsewhere);
        line.in_use();
        assert!(masters.iter().all(|master| master.uses.load(Ordering::Relaxed) == 1));
        // Such as nodes of clusters have: none is taken for another.
        let of = |places: [u32; 2]| places.map(|place| Master { place, ..Master::new() });
        let (_, one) = quorum_of(of([3, 7]).into());
        let (same, other) = (one.place(KEY), one.place("elsewhere"));
        assert!(same != other && same == one.place("b"));
    }
}
