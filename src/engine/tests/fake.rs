//! A server that lives in memory and on tokio's clock, and a protocol in front of it. Each call may be given a fate; every
//! call is recorded when it is sent. It decides nothing about locks beyond what the scripts decide.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    backend::{Backend, Call, Fault, FaultKind, Heard, Listener, Pending, Subscription, Value},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Protocol, Renewal, RenewalGroup, Sight},
    lease::whole_ms,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Acquire,
    Release,
    HandOver,
    Renew,
    Inspect,
    ForceRelease,
}

/// One call, as it left.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) verb: Verb,
    pub(super) key: Arc<str>,
    /// A hand-over has two, from and to; a renewal as many as there are holds.
    pub(super) numbers: Vec<u64>,
    /// Asked for by an acquire, left by a release.
    pub(super) holds: u32,
    pub(super) lease: Duration,
    pub(super) at: Instant,
}

/// What becomes of a call. "Runs" is said of the script, whether or not somebody still waits for the answer.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// Runs when it is sent, and is answered at the next poll.
    Prompt,
    /// Runs when it is sent, and is answered so much later.
    Slow(Duration),
    /// Runs when it is sent; the answer waits at the gate.
    Held(Gate),
    /// Runs and is answered when the gate opens.
    Blocked(Gate),
    /// Runs when it is sent and once more so much later, when it is answered: a lower layer sent it again.
    Twice(Duration),
    /// Runs when it is sent, and is never answered.
    Lost,
    /// Runs so much later, and is never answered.
    Late(Duration),
    /// Never runs, and is never answered.
    Never,
    /// The server, or the network, says no at once.
    Refused(FaultKind),
    /// Runs, and then its link breaks.
    Broken,
}

/// Holds answers back until it is opened.
#[derive(Clone, Debug)]
pub(super) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn passed(&self) {
        // The sender is ours, so it outlives the wait.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// How subscriptions fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Confirmed at once.
    Prompt,
    /// Confirmed when a test says so.
    ByHand,
    Refused,
}

/// The server, the link to it, and the record.
pub(super) struct World {
    this: Weak<World>,
    command_timeout: Duration,
    inside: Mutex<Inside>,
}

type Policy = Box<dyn FnMut(&Sent) -> Fate + Send>;

struct Inside {
    keys: HashMap<Arc<str>, Key>,
    fates: HashMap<Verb, VecDeque<Fate>>,
    usual: HashMap<Verb, Fate>,
    policy: Option<Policy>,
    record: Vec<Sent>,
    subscribers: Vec<Subscriber>,
    subscriptions_made: usize,
    hearing: Hearing,
    /// Listeners of other processes.
    others: u32,
    /// Whether the server can say how many a message reached.
    counts: bool,
    link: u64,
    last_answer: Instant,
    closed: bool,
}

#[derive(Debug)]
struct Key {
    /// `None` is another process.
    holder: Option<u64>,
    count: u32,
    expires: Instant,
}

struct Subscriber {
    id: usize,
    channel: Arc<str>,
    listener: Arc<dyn Listener>,
    confirmed: bool,
}

impl World {
    pub(super) fn new(command_timeout: Duration) -> Arc<Self> {
        let inside = Inside {
            keys: HashMap::new(),
            fates: HashMap::new(),
            usual: HashMap::new(),
            policy: None,
            record: Vec::new(),
            subscribers: Vec::new(),
            subscriptions_made: 0,
            hearing: Hearing::Prompt,
            others: 0,
            counts: true,
            link: 1,
            last_answer: Instant::now(),
            closed: false,
        };
        Arc::new_cyclic(|this| Self { this: this.clone(), command_timeout, inside: Mutex::new(inside) })
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fates of the next calls of a verb.
    pub(super) fn next(&self, verb: Verb, fates: impl IntoIterator<Item = Fate>) {
        self.inside().fates.entry(verb).or_default().extend(fates);
    }

    /// The fate of every call of a verb that has none of its own.
    pub(super) fn always(&self, verb: Verb, fate: Fate) {
        self.inside().usual.insert(verb, fate);
    }

    /// Decides the fate of every call from now on.
    pub(super) fn policy(&self, policy: impl FnMut(&Sent) -> Fate + Send + 'static) {
        self.inside().policy = Some(Box::new(policy));
    }

    /// Nothing goes wrong any more.
    pub(super) fn heal(&self) {
        let mut inside = self.inside();
        inside.fates.clear();
        inside.usual.clear();
        inside.policy = None;
    }

    pub(super) fn record(&self) -> Vec<Sent> {
        self.inside().record.clone()
    }

    pub(super) fn forget_record(&self) {
        self.inside().record.clear();
    }

    /// What was sent of one verb.
    pub(super) fn sent(&self, verb: Verb) -> Vec<Sent> {
        self.inside().record.iter().filter(|sent| sent.verb == verb).cloned().collect()
    }

    pub(super) fn verbs(&self) -> Vec<Verb> {
        self.inside().record.iter().map(|sent| sent.verb).collect()
    }

    /// The hold on the server: its number, `None` for another process, and its count.
    pub(super) fn holder(&self, key: &str) -> Option<(Option<u64>, u32)> {
        self.inside().live(key).map(|key| (key.holder, key.count))
    }

    pub(super) fn ttl(&self, key: &str) -> Duration {
        let now = Instant::now();
        self.inside().live(key).map_or(Duration::ZERO, |key| key.expires - now)
    }

    /// Another process takes the key, or goes on holding it.
    pub(super) fn other_takes(&self, key: &str, lease: Duration) {
        let mut inside = self.inside();
        assert!(inside.live(key).is_none_or(|key| key.holder.is_none()), "{key} is held by us");
        inside.keys.insert(Arc::from(key), Key { holder: None, count: 1, expires: Instant::now() + lease });
    }

    /// Another process frees the key, whoever has it, and says so.
    pub(super) fn other_frees(&self, key: &str) {
        let mut inside = self.inside();
        inside.keys.remove(key);
        inside.publish(&channel(key));
    }

    /// The server loses a key.
    pub(super) fn delete(&self, key: &str) {
        self.inside().keys.remove(key);
    }

    pub(super) fn subscriptions(&self) -> usize {
        self.inside().subscribers.len()
    }

    pub(super) fn subscriptions_made(&self) -> usize {
        self.inside().subscriptions_made
    }

    pub(super) fn hearing(&self, hearing: Hearing) {
        self.inside().hearing = hearing;
    }

    pub(super) fn others_listen(&self, others: u32) {
        self.inside().others = others;
    }

    pub(super) fn cannot_count(&self) {
        self.inside().counts = false;
    }

    /// Every subscription is confirmed, for the first time or again.
    pub(super) fn confirm(&self) {
        self.tell(true, Heard::Subscribed);
    }

    /// The link of every subscription is gone.
    pub(super) fn interrupt(&self) {
        self.tell(false, Heard::Interrupted);
    }

    fn tell(&self, confirmed: bool, heard: Heard<'_>) {
        let mut inside = self.inside();
        inside.subscribers.iter_mut().for_each(|subscriber| subscriber.confirmed = confirmed);
        let listeners: Vec<_> = inside.subscribers.iter().map(|subscriber| Arc::clone(&subscriber.listener)).collect();
        drop(inside);
        listeners.iter().for_each(|listener| listener.hear(heard));
    }

    pub(super) fn new_link(&self) {
        self.inside().link += 1;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inside().closed
    }

    fn send<T: Send + 'static>(
        &self,
        mut sent: Sent,
        within: Duration,
        run: impl Fn(&mut Inside) -> T + Send + Sync + 'static,
    ) -> Pending<Result<T, Fault>> {
        let Some(world) = self.this.upgrade() else { return Box::pin(async { Err(fault(FaultKind::Closed)) }) };
        Box::pin(async move {
            sent.at = Instant::now();
            let fate = world.inside().fate(sent).ok_or_else(|| fault(FaultKind::Closed))?;
            world.carry_out(fate, within, run).await
        })
    }

    async fn carry_out<T: Send + 'static>(
        self: &Arc<Self>,
        fate: Fate,
        within: Duration,
        run: impl Fn(&mut Inside) -> T + Send + Sync + 'static,
    ) -> Result<T, Fault> {
        let answered = async {
            Ok(match fate {
                Fate::Prompt => {
                    let answer = run(&mut self.inside());
                    next_poll().await;
                    answer
                }
                Fate::Slow(pause) => {
                    let answer = run(&mut self.inside());
                    sleep(pause).await;
                    answer
                }
                Fate::Held(gate) => {
                    let answer = run(&mut self.inside());
                    gate.passed().await;
                    answer
                }
                Fate::Blocked(gate) => self.later(async move { gate.passed().await }, run).await,
                Fate::Twice(pause) => {
                    run(&mut self.inside());
                    self.later(sleep(pause), run).await
                }
                Fate::Late(pause) => {
                    let answer = self.later(sleep(pause), run);
                    silence(answer).await
                }
                Fate::Lost => {
                    run(&mut self.inside());
                    silence(()).await
                }
                Fate::Never => silence(()).await,
                Fate::Refused(kind) => {
                    next_poll().await;
                    return Err(fault(kind));
                }
                Fate::Broken => {
                    run(&mut self.inside());
                    next_poll().await;
                    return Err(Fault { may_have_run: true, ..fault(FaultKind::Dropped) });
                }
            })
        };
        let answer = timeout(within, answered).await.map_err(|_| Fault::timeout(true, "no answer in time"))?;
        if answer.as_ref().err().is_none_or(|fault| fault.kind != FaultKind::Dropped) {
            self.inside().last_answer = Instant::now();
        }
        answer
    }

    /// Runs when the time has come, wanted or not.
    fn later<T: Send + 'static>(
        self: &Arc<Self>,
        when: impl Future<Output = ()> + Send + 'static,
        run: impl Fn(&mut Inside) -> T + Send + Sync + 'static,
    ) -> Pending<T> {
        let (tell, told) = oneshot::channel();
        let world = Arc::clone(self);
        tokio::spawn(async move {
            when.await;
            let _ = tell.send(run(&mut world.inside()));
        });
        Box::pin(async { told.await.expect("the server's task runs to its end") })
    }
}

/// Never comes back; keeps what it is given meanwhile.
async fn silence<K, T>(_kept: K) -> T {
    std::future::pending().await
}

/// A round trip that takes no time.
async fn next_poll() {
    let mut first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut first) {
            cx.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
}

fn fault(kind: FaultKind) -> Fault {
    Fault { kind, ..Fault::timeout(false, "the test wants it") }
}

pub(super) fn channel(key: &str) -> Arc<str> {
    Arc::from(format!("channel of {key}"))
}

impl Inside {
    /// Writes the call down; `None` once the links are closed.
    fn fate(&mut self, sent: Sent) -> Option<Fate> {
        if self.closed {
            return None;
        }
        let own = self.fates.get_mut(&sent.verb).and_then(VecDeque::pop_front);
        let fate = own.or_else(|| self.policy.as_mut().map(|policy| policy(&sent)));
        let fate = fate.or_else(|| self.usual.get(&sent.verb).cloned()).unwrap_or(Fate::Prompt);
        self.record.push(sent);
        Some(fate)
    }

    fn live(&mut self, key: &str) -> Option<&mut Key> {
        let now = Instant::now();
        if self.keys.get(key).is_some_and(|key| key.expires <= now) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    fn mine(&mut self, key: &str, number: u64) -> Option<&mut Key> {
        self.live(key).filter(|key| key.holder == Some(number))
    }

    fn publish(&mut self, channel: &Arc<str>) -> Option<u32> {
        let ours: Vec<_> = self
            .subscribers
            .iter()
            .filter(|subscriber| subscriber.confirmed && subscriber.channel == *channel)
            .map(|subscriber| Arc::clone(&subscriber.listener))
            .collect();
        let reached = self.others + u32::try_from(ours.len()).unwrap();
        if !ours.is_empty() {
            tokio::spawn(async move { ours.iter().for_each(|listener| listener.hear(Heard::Message(b"0"))) });
        }
        self.counts.then_some(reached)
    }

    fn acquire(&mut self, key: &Arc<str>, number: u64, lease: Duration, holds: u32) -> Attempt {
        let expires = Instant::now() + lease;
        match self.live(key) {
            None if holds > 1 => Attempt::Gone,
            None => {
                self.keys.insert(Arc::clone(key), Key { holder: Some(number), count: 1, expires });
                Attempt::Granted { holds: 1, fence: None }
            }
            Some(there) if there.holder == Some(number) => {
                there.count = there.count.max(holds);
                there.expires = there.expires.max(expires);
                Attempt::Granted { holds: there.count, fence: None }
            }
            Some(there) => Attempt::Busy { retry_in: Some(there.expires - Instant::now()) },
        }
    }

    fn release(&mut self, key: &Arc<str>, number: u64, holds: u32) -> Letting {
        let Some(there) = self.mine(key, number) else { return Letting::NotHeld };
        if holds == 0 {
            self.keys.remove(key);
            return Letting::Done { holds: 0, listeners: self.publish(&channel(key)) };
        }
        there.count = there.count.min(holds);
        Letting::Done { holds, listeners: None }
    }

    fn hand_over(&mut self, key: &Arc<str>, from: u64, to: u64, lease: Duration) -> Moved {
        let expires = Instant::now() + lease;
        if let Some(there) = self.mine(key, from) {
            *there = Key { holder: Some(to), count: 1, expires };
            return Moved::Done;
        }
        match self.mine(key, to) {
            Some(there) => {
                there.expires = there.expires.max(expires);
                Moved::Done
            }
            None => Moved::Gone,
        }
    }

    fn renew(&mut self, key: &Arc<str>, number: u64, lease: Duration) -> Renewal {
        let expires = Instant::now() + lease;
        match self.mine(key, number) {
            Some(there) => {
                there.expires = there.expires.max(expires);
                Renewal::Renewed
            }
            None => Renewal::Gone,
        }
    }

    fn sight(&mut self, key: &Arc<str>) -> Option<Sight> {
        let now = Instant::now();
        self.live(key).map(|there| Sight {
            holders: vec![(there.holder.map_or_else(|| "other".to_owned(), |own| format!("own:{own}")), there.count)],
            remaining_lease: Some(there.expires - now),
            ours: there.holder.map(HoldNumber).into_iter().collect(),
        })
    }
}

impl Backend for World {
    fn run(&self, _: &Call<'_>) -> Pending<Result<Value, Fault>> {
        unreachable!("the fake protocol runs no scripts")
    }

    fn run_many(&self, _: &[Call<'_>], _: Duration) -> Pending<Vec<Result<Value, Fault>>> {
        unreachable!("the fake protocol runs no scripts")
    }

    fn subscribe(&self, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        let (id, hearing) = {
            let mut inside = self.inside();
            inside.subscriptions_made += 1;
            let id = inside.subscriptions_made;
            let confirmed = inside.hearing == Hearing::Prompt;
            let listener = Arc::clone(&listener);
            inside.subscribers.push(Subscriber { id, channel, listener, confirmed });
            (id, inside.hearing)
        };
        let news = match hearing {
            Hearing::Prompt => Some(Heard::Subscribed),
            Hearing::Refused => Some(Heard::Refused),
            Hearing::ByHand => None,
        };
        if let Some(news) = news {
            tokio::spawn(async move { listener.hear(news) });
        }
        let world = self.this.clone();
        Subscription::new(move || {
            if let Some(world) = world.upgrade() {
                world.inside().subscribers.retain(|subscriber| subscriber.id != id);
            }
        })
    }

    fn link(&self) -> u64 {
        self.inside().link
    }

    fn last_answer(&self) -> Instant {
        self.inside().last_answer
    }

    fn close(&self) {
        self.inside().closed = true;
    }
}

/// A lock on the server above.
pub(super) struct FakeLock {
    world: Arc<World>,
    name: Arc<str>,
    channel: Arc<str>,
    passes: bool,
}

impl FakeLock {
    pub(super) fn new(world: &Arc<World>, name: &str, passes: bool) -> Arc<dyn Protocol> {
        Arc::new(Self { world: Arc::clone(world), name: Arc::from(name), channel: channel(name), passes })
    }

    fn sent(&self, verb: Verb, numbers: Vec<u64>, holds: u32, lease: Duration) -> Sent {
        Sent { verb, key: Arc::clone(&self.name), numbers, holds, lease, at: Instant::now() }
    }

    fn send<T: Send + 'static>(
        &self,
        sent: Sent,
        run: impl Fn(&mut Inside, &Arc<str>) -> T + Send + Sync + 'static,
    ) -> Pending<Result<T, Fault>> {
        let key = Arc::clone(&self.name);
        self.world.send(sent, self.world.command_timeout, move |inside| run(inside, &key))
    }
}

/// As a lease goes to the server.
fn sendable(lease: Duration) -> Duration {
    Duration::from_millis(whole_ms(lease).unsigned_abs())
}

impl Protocol for FakeLock {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn key(&self) -> &Arc<str> {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "fake lock"
    }

    fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    fn passes(&self) -> bool {
        self.passes
    }

    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32) -> Pending<Result<Attempt, Fault>> {
        let lease = sendable(lease);
        let sent = self.sent(Verb::Acquire, vec![number.0], holds, lease);
        self.send(sent, move |inside, key| inside.acquire(key, number.0, lease, holds))
    }

    fn release(&self, number: HoldNumber, holds: u32) -> Pending<Result<Letting, Fault>> {
        let sent = self.sent(Verb::Release, vec![number.0], holds, Duration::ZERO);
        self.send(sent, move |inside, key| inside.release(key, number.0, holds))
    }

    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>> {
        let lease = sendable(lease);
        let sent = self.sent(Verb::HandOver, vec![from.0, to.0], 1, lease);
        self.send(sent, move |inside, key| inside.hand_over(key, from.0, to.0, lease))
    }

    fn renewal_group(&self) -> RenewalGroup {
        RenewalGroup("fake", 0)
    }

    fn renew(
        &self,
        holds: &[(Arc<str>, HoldNumber)],
        lease: Duration,
        within: Duration,
    ) -> Pending<Result<Vec<Renewal>, Fault>> {
        let (holds, lease) = (holds.to_vec(), sendable(lease));
        let sent = self.sent(Verb::Renew, holds.iter().map(|(_, number)| number.0).collect(), 0, lease);
        self.world.send(sent, within, move |inside| {
            holds.iter().map(|(key, number)| inside.renew(key, number.0, lease)).collect()
        })
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        self.send(self.sent(Verb::Inspect, Vec::new(), 0, Duration::ZERO), Inside::sight)
    }

    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        let numbers: Vec<u64> = seen.ours.iter().map(|number| number.0).collect();
        let seen: Vec<Option<u64>> = match numbers.is_empty() {
            true => vec![None],
            false => numbers.iter().copied().map(Some).collect(),
        };
        self.send(self.sent(Verb::ForceRelease, numbers, 0, Duration::ZERO), move |inside, key| {
            if !inside.live(key).is_some_and(|there| seen.contains(&there.holder)) {
                return Forced::Gone;
            }
            inside.keys.remove(key);
            inside.publish(&channel(key));
            Forced::Done
        })
    }
}
