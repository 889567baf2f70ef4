//! The way to the fake server: each call may be given a fate, and every call is recorded when it is sent. What scripts do
//! is in `server.rs`, how the engine calls them in `protocol.rs`.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    fate::{Fate, Sent, Verb, broken, fault, unopened},
    line::is_elsewhere,
    server::{Hearing, Server},
};
use crate::backend::{Dispatch, Fault, FaultKind, Heard, Pending, RoundTrip, Way};

/// The server, the link to it, and the record.
pub(super) struct World {
    pub(super) this: Weak<World>,
    pub(super) command_timeout: Duration,
    /// Whether there is a link; calls wait for one.
    linked: watch::Sender<bool>,
    pub(super) eras: watch::Sender<u64>,
    inside: Mutex<Inside>,
    /// Calls that somebody waits for.
    under_way: AtomicUsize,
}

type Policy = Box<dyn FnMut(&Sent) -> Fate + Send>;

/// On what a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Track {
    /// The link, on which everything keeps its order.
    Common,
    /// Apart from it: nothing is known of its order among those that take the link.
    Own,
}

pub(super) struct Inside {
    server: Server,
    fates: HashMap<Verb, VecDeque<Fate>>,
    usual: HashMap<Verb, Fate>,
    policy: Option<Policy>,
    record: Vec<Sent>,
    pub(super) link: u64,
    pub(super) leaves_apart: bool,
    /// Here, and elsewhere.
    pub(super) last_answer: [Instant; 2],
    /// The last change was elsewhere, where this name is not.
    pub(super) elsewhere: Option<u64>,
    pub(super) round_trip: Option<RoundTrip>,
    pub(super) closed: bool,
}

impl World {
    pub(super) fn new(command_timeout: Duration) -> Arc<Self> {
        let inside = Inside {
            server: Server::default(),
            fates: HashMap::new(),
            usual: HashMap::new(),
            policy: None,
            record: Vec::new(),
            link: 1,
            leaves_apart: false,
            last_answer: [Instant::now(); 2],
            elsewhere: None,
            round_trip: Some(RoundTrip::default()),
            closed: false,
        };
        let (linked, eras, under_way) = (watch::Sender::new(true), watch::Sender::new(1), AtomicUsize::new(0));
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            command_timeout,
            linked,
            eras,
            inside: Mutex::new(inside),
            under_way,
        })
    }

    pub(super) fn inside(&self) -> MutexGuard<'_, Inside> {
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
        (inside.fates, inside.usual, inside.policy) = (HashMap::new(), HashMap::new(), None);
    }

    /// Another server answers for the names that are elsewhere.
    pub(super) fn changes_elsewhere(&self) {
        let latest = *self.eras.borrow() + 1;
        self.inside().elsewhere = Some(latest);
        self.eras.send_replace(latest);
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

    /// The server itself, as a test looks at it and changes it.
    pub(super) fn server<R>(&self, change: impl FnOnce(&mut Server) -> R) -> R {
        change(&mut self.inside().server)
    }

    /// The hold on the server: its number, `None` for another process, and its count.
    pub(super) fn holder(&self, key: &str) -> Option<(Option<u64>, u32)> {
        self.server(|server| server.holder(key))
    }

    pub(super) fn ttl(&self, key: &str) -> Duration {
        self.server(|server| server.ttl(key))
    }

    pub(super) fn other_takes(&self, key: &str, lease: Duration) {
        self.server(|server| server.other_takes(key, lease));
    }

    pub(super) fn other_frees(&self, key: &str) {
        self.server(|server| server.other_frees(key));
    }

    /// The server loses a key.
    pub(super) fn delete(&self, key: &str) {
        self.server(|server| server.delete(key));
    }

    pub(super) fn hearing(&self, hearing: Hearing) {
        self.server(|server| server.hearing = hearing);
    }

    pub(super) fn subscriptions(&self) -> usize {
        self.server(|server| server.subscribers.len())
    }

    pub(super) fn subscriptions_made(&self) -> usize {
        self.server(|server| server.subscriptions_made)
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
        let listeners = self.server(|server| server.subscribed(confirmed));
        listeners.iter().for_each(|listener| listener.hear(heard));
    }

    /// How many calls somebody waits for.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// What the backend has measured.
    pub(super) fn set_round_trip(&self, trip: Option<Duration>) {
        self.inside().round_trip = trip.map(|trip| RoundTrip { usual: trip, longest: trip, shortest: trip });
    }

    fn way(&self) -> Way {
        let (era, inside) = (*self.eras.borrow(), self.inside());
        Way { era, link: if inside.leaves_apart { u64::MAX } else { inside.link } }
    }

    pub(super) fn new_link(&self) {
        self.inside().link += 1;
    }

    /// From now on calls wait for a link, each for as long as it may take.
    pub(super) fn unlink(&self) {
        self.linked.send_replace(false);
    }

    /// There is a link again: who waited for it goes.
    pub(super) fn relink(&self) {
        self.new_link();
        self.linked.send_replace(true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inside().closed
    }

    pub(super) fn send<T: Send + 'static>(
        &self,
        sent: Sent,
        within: Duration,
        dispatch: Option<&Arc<Dispatch>>,
        run: impl Fn(&mut Server) -> T + Send + Sync + 'static,
    ) -> Pending<Result<T, Fault>> {
        self.send_by(Track::Common, sent, within, dispatch, run)
    }

    pub(super) fn send_by<T: Send + 'static>(
        &self,
        track: Track,
        mut sent: Sent,
        within: Duration,
        dispatch: Option<&Arc<Dispatch>>,
        run: impl Fn(&mut Server) -> T + Send + Sync + 'static,
    ) -> Pending<Result<T, Fault>> {
        let Some(world) = self.this.upgrade() else { return Box::pin(async { Err(fault(FaultKind::Closed)) }) };
        let dispatch = dispatch.map(Arc::clone);
        Box::pin(async move {
            let deadline = Instant::now() + within;
            if !*world.linked.borrow() {
                let linked = async { world.linked.subscribe().wait_for(|linked| *linked).await.map(drop) };
                let _ = timeout_at(deadline, linked).await.map_err(|_| fault(FaultKind::Dropped))?;
            }
            if dispatch.as_ref().is_some_and(|dispatch| !dispatch.leaves(world.way())) {
                return Err(fault(FaultKind::Withdrawn));
            }
            sent.at = Instant::now();
            let keys = sent.keys.clone();
            let fate = world.inside().fate(sent).ok_or_else(|| fault(FaultKind::Closed))?;
            world.under_way.fetch_add(1, Ordering::Relaxed);
            let _under_way = UnderWay(&world);
            world.carry_out(track, fate, &keys, deadline - Instant::now(), run).await
        })
    }

    async fn carry_out<T: Send + 'static>(
        self: &Arc<Self>,
        track: Track,
        fate: Fate,
        keys: &[Arc<str>],
        within: Duration,
        run: impl Fn(&mut Server) -> T + Send + Sync + 'static,
    ) -> Result<T, Fault> {
        match &fate {
            Fate::Gone => keys.iter().for_each(|key| self.delete(key)),
            Fate::Taken(lease) => keys.iter().for_each(|key| self.server(|server| server.other_wrests(key, *lease))),
            Fate::Behind(copies) => copies.run(self),
            // A link keeps its order: what runs behind later commands was left on one that is over.
            Fate::Late(_) | Fate::Broken | Fate::Withheld(_) if track == Track::Common => self.new_link(),
            _ => {}
        }
        let answered = async {
            Ok(match fate {
                Fate::Prompt | Fate::Gone | Fate::Taken(_) | Fate::Behind(_) => {
                    let answer = self.server(&run);
                    next_poll().await;
                    answer
                }
                Fate::Slow(pause) => {
                    let answer = self.server(&run);
                    sleep(pause).await;
                    answer
                }
                Fate::Held(gate) => {
                    let answer = self.server(&run);
                    gate.passed().await;
                    answer
                }
                Fate::Twice { later, under_way } => {
                    self.server(&run);
                    let answer = self.later(sleep(later), run).await;
                    sleep(under_way).await;
                    answer
                }
                Fate::Delayed(pause) => self.later(sleep(pause), run).await,
                Fate::Late(pause) => silence(self.later(sleep(pause), run)).await,
                Fate::Lost => {
                    self.server(&run);
                    silence(()).await
                }
                Fate::Never => silence(()).await,
                Fate::Refused(kind) => {
                    next_poll().await;
                    return Err(fault(kind));
                }
                Fate::Unopened => {
                    next_poll().await;
                    return Err(unopened());
                }
                Fate::Broken => {
                    self.server(&run);
                    next_poll().await;
                    return Err(broken());
                }
                Fate::Doubled(copies) => {
                    let answer = self.server(&run);
                    copies.keep(run);
                    next_poll().await;
                    answer
                }
                Fate::Withheld(copies) => {
                    copies.keep(run);
                    next_poll().await;
                    return Err(broken());
                }
            })
        };
        let answer = timeout(within, answered).await.map_err(|_| Fault::timeout(true, "no answer in time"))?;
        if answer.as_ref().err().is_none_or(|fault| fault.kind != FaultKind::Dropped) {
            self.inside().last_answer[usize::from(is_elsewhere(&keys[0]))] = Instant::now();
        }
        answer
    }

    /// Runs when the time has come, wanted or not.
    fn later<T: Send + 'static>(
        self: &Arc<Self>,
        when: impl Future<Output = ()> + Send + 'static,
        run: impl Fn(&mut Server) -> T + Send + Sync + 'static,
    ) -> Pending<T> {
        let (tell, told) = oneshot::channel();
        let world = Arc::clone(self);
        let late = async move {
            when.await;
            let _ = tell.send(world.server(&run));
        };
        self.server(|server| server.by_itself(late));
        Box::pin(async { told.await.expect("the server's task runs to its end") })
    }
}

/// A call that somebody waits for; dropped with the wait.
struct UnderWay<'a>(&'a World);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
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
}
