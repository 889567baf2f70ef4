//! One server behind one command link that is replaced when it ends. Knows scripts only as bytes to send, and no
//! subscription: those have a link of their own.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::FutureExt;
use redis::{Cmd, RedisResult};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    acks::Acks,
    aim::Aim,
    cluster::Routes,
    codec::{self, Hashes},
    command::{LinkAccess, LinkWait, Timer, UnderWay},
    current::{Current, Found, Numbers, SendTurn},
    faults,
    info::KnownServer,
    keeper::{self, CloseOnDrop},
    link::{Answers, Cause, Kept, Link},
    options::{Clients, Options},
    outage::Outage,
    said::SaidOnce,
    secrets::Secrets,
    spare::Spared,
    task::Task,
    waiting::{Over, Wait},
};
use crate::{
    backend::{Fault, FaultKind, Polled, RoundTrips, Value, dispatch::Dispatches},
    script::Script,
};

/// One server, and the link to it.
pub(super) struct Node {
    pub(super) aim: Aim,
    /// The same wherever the server is.
    pub(super) secrets: Secrets,
    pub(super) command_timeout: Duration,
    pub(super) hashes: Hashes,
    /// Where the link's tasks and every timer live, whoever polls.
    pub(super) runtime: Handle,
    pub(super) answers: Answers,
    /// Of single scripts whose answers are waited for by tasks of ours: a pipeline takes as long as what it carries, and a
    /// caller may look for its answer whenever it likes.
    pub(super) round_trips: RoundTrips,
    pub(super) current: Arc<Current>,
    pub(super) outage: Outage,
    /// Links that were opened before this lead to another server than the present command link, as far as is known.
    pub(super) elsewhere: watch::Sender<Instant>,
    pub(super) closed: CancellationToken,
    /// Where the commands go that another node of the cluster is to answer.
    routes: Option<Weak<Routes>>,
    /// When something was last found that had been waiting for too long.
    stalled: Mutex<Option<Instant>>,
    pub(super) known: KnownServer,
    pub(super) said: Arc<SaidOnce>,
    /// Once somebody asks for them.
    pub(super) acks: OnceLock<Acks>,
}

/// On this first link, over which it makes sure that there is a server that can be worked with: since `started` within the
/// command timeout. The link is replaced from then on, until `closed` is cancelled.
pub(super) async fn start(
    link: Link,
    aim: Aim,
    options: Options<'_>,
    started: Instant,
    closed: CancellationToken,
) -> Result<Arc<Node>, Fault> {
    let (link, within) = (Arc::new(link), options.command_timeout);
    let (round_trips, asked, opened) = (RoundTrips::default(), Instant::now(), link.last_pong());
    let probed = link.probe(options.probe_key, within.saturating_sub(started.elapsed()), &aim.now()).await?;
    round_trips.note(asked.elapsed());
    let current = Current::new(Some(link.clone()), &Numbers::new());
    let node = Node::start(aim, within, current, round_trips, closed, None, Some(Kept(link)));
    node.known.probed(probed, node.aim.name());
    node.known.memory.begins(opened);
    Ok(node)
}

impl Node {
    /// One of a cluster, for which a link is opened from now on. Must be called on the runtime that it is to live on.
    pub(super) fn of_cluster(
        aim: Aim,
        command_timeout: Duration,
        numbers: &Arc<Numbers>,
        closed: CancellationToken,
        routes: Weak<Routes>,
    ) -> Arc<Self> {
        let current = Current::new(None, numbers);
        Self::start(aim, command_timeout, current, RoundTrips::default(), closed, Some(routes), None)
    }

    fn start(
        aim: Aim,
        command_timeout: Duration,
        current: Current,
        round_trips: RoundTrips,
        closed: CancellationToken,
        routes: Option<Weak<Routes>>,
        link: Option<Kept>,
    ) -> Arc<Self> {
        let runtime = Handle::current();
        let node = Arc::new(Self {
            hashes: Hashes::of_catalogue(),
            secrets: aim.now().secrets.clone(),
            aim,
            command_timeout,
            runtime: runtime.clone(),
            answers: Answers::new(),
            round_trips,
            current: Arc::new(current),
            outage: Outage::none(),
            elsewhere: watch::Sender::new(Instant::now()),
            closed,
            said: routes.as_ref().and_then(Weak::upgrade).map(|routes| Arc::clone(&routes.said)).unwrap_or_default(),
            routes,
            stalled: Mutex::default(),
            known: KnownServer::default(),
            acks: OnceLock::new(),
        });
        let changes = node.aim.changes();
        runtime.spawn(keeper::keep(CloseOnDrop(node.clone()), changes, link));
        runtime.spawn(node.clone().tell());
        node
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "an async fn has room for its arguments twice, and every command carries it"
    )]
    pub(super) fn run(
        self: Arc<Self>,
        cmd: Spared,
        script: &'static Script,
        dispatches: Dispatches,
        polled: Polled,
    ) -> impl Future<Output = Result<Value, Fault>> {
        async move {
            let started = Instant::now();
            // What is rare is boxed, and what is not stands here in full.
            let (link, mut turn) = match self.link_access()? {
                LinkAccess::Open(link, turn) => (link, turn),
                LinkAccess::Wait(wait) => {
                    return Box::pin(self.run_waiting(wait, started, cmd, script, dispatches)).await;
                }
            };
            let mut timer = Timer::started(started, self.command_timeout);
            let mut connection = link.connection();
            let mut send = pin!(connection.send_packed_command(&cmd));
            dispatches.leave(link.number())?;
            let mut under_way = UnderWay::new(&link, started, self.command_timeout);
            let mut wait = link.waiting().until(timer.deadline());
            let outcome = poll_fn(|cx| self.poll_answer(&link, send.as_mut(), &mut turn, timer, &mut wait, cx)).await?;
            under_way.over = true;
            let (reply, at) = self.noted(&link, outcome)?;
            if polled == Polled::ByUs {
                self.round_trips.note(at - timer.sent);
            }
            if !codec::is_refusal(&reply) {
                return codec::value(reply, self.secrets());
            }
            Box::pin(self.refused(reply, &link, &cmd, script, &mut timer, &dispatches)).await
        }
    }

    async fn run_waiting(
        self: Arc<Self>,
        wait: LinkWait,
        started: Instant,
        cmd: Spared,
        script: &'static Script,
        dispatches: Dispatches,
    ) -> Result<Value, Fault> {
        let runtime = self.runtime.clone();
        let task = async move {
            let mut timer = Timer::started(started, self.command_timeout);
            let (link, turn) = self.link(wait, &mut timer).await?;
            let reply = self.sent(&link, &cmd, Some(turn), timer, &dispatches).await?;
            if !codec::is_refusal(&reply) {
                return codec::value(reply, self.secrets());
            }
            self.refused(reply, &link, &cmd, script, &mut timer, &dispatches).await
        };
        Task::spawn(&runtime, task).answer().await
    }

    /// What becomes of a refusal: a script that the server does not know by its hash is sent whole, and where a key holds
    /// something else it is asked for what that is.
    async fn refused(
        &self,
        reply: redis::Value,
        link: &Link,
        cmd: &Cmd,
        script: &'static Script,
        timer: &mut Timer,
        dispatches: &Dispatches,
    ) -> Result<Value, Fault> {
        timer.sent = Instant::now();
        let reply = match codec::is_unknown_script(&reply) {
            true => self.sent(link, &codec::eval(cmd, script), None, *timer, dispatches).await?,
            false => reply,
        };
        self.look_for_replica(link, [&reply]);
        let reply = match self.routes() {
            Some(routes) => routes.redirected(self, reply, (cmd, script), *timer, (dispatches, 1)).await?,
            None => reply,
        };
        let fault = match codec::value(reply, self.secrets()) {
            Err(fault) if fault.kind == FaultKind::WrongType => fault,
            answer => return answer.map_err(|fault| faults::denied(fault, script, &codec::keys(cmd, script))),
        };
        let Some(question) = codec::type_of_key(cmd) else { return Err(fault) };
        timer.sent = Instant::now();
        let there = self.sent(link, &question, None, *timer, &Dispatches::of([])).await;
        let known = there.ok().and_then(|there| Some(faults::in_place_of_a_lock(&fault, codec::type_there(&there)?)));
        Err(known.unwrap_or(fault))
    }

    /// A link that leads to a replica is over: where its name leads by now there may be a master.
    pub(super) fn look_for_replica<'a>(&self, link: &Link, replies: impl IntoIterator<Item = &'a redis::Value>) {
        if let Some(fault) = replies.into_iter().find_map(|reply| faults::of_a_replica(reply, self.secrets())) {
            self.current.failed(fault.clone());
            link.demote(fault);
        }
    }

    pub(super) fn routes(&self) -> Option<Arc<Routes>> {
        self.routes.as_ref()?.upgrade()
    }

    /// Whether it cannot be counted on at present: there is no link, or one over which nothing comes.
    pub(super) fn is_suspect(&self) -> bool {
        let Some(link) = self.current.link() else { return true };
        let stalled = *self.stalled.lock().unwrap_or_else(PoisonError::into_inner);
        stalled.is_some_and(|since| self.answers.last().max(link.last_pong()) < since)
    }

    /// Commands have been waiting for an answer for longer than it should take.
    pub(super) fn stalls(&self) {
        let known = self.is_suspect();
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if !known {
            self.aim.missed();
        }
    }

    /// The answer to one command, which leaves in the first poll if it is still wanted.
    pub(super) async fn sent(
        &self,
        link: &Link,
        cmd: &Cmd,
        turn: Option<SendTurn>,
        timer: Timer,
        dispatches: &Dispatches,
    ) -> Result<redis::Value, Fault> {
        let mut connection = link.connection();
        let send = pin!(connection.send_packed_command(cmd));
        dispatches.leave(link.number())?;
        self.answer(link, send, turn, timer).await.map(|(reply, _)| reply)
    }

    /// Looks for a link, or takes a place among those who wait for one: the first to be polled is the first to send.
    pub(super) fn link_access(&self) -> Result<LinkAccess, Fault> {
        let waiting = match self.current.find() {
            Found::Link(link) => return Ok(LinkAccess::Open(link, None)),
            Found::Closed => return Err(self.current.over(false)),
            Found::Nothing(waiting) => waiting,
        };
        let mut wait: LinkWait = Box::pin(waiting.turn());
        match (&mut wait).now_or_never() {
            Some(found) => found.map(|(link, turn)| LinkAccess::Open(link, Some(turn))),
            None => Ok(LinkAccess::Wait(wait)),
        }
    }

    /// The link to send on, once it is this command's turn.
    pub(super) async fn link(&self, wait: LinkWait, timer: &mut Timer) -> Result<(Arc<Link>, SendTurn), Fault> {
        let deadline = timer.deadline();
        tokio::select! {
            biased;
            found = wait => {
                timer.sent = Instant::now();
                found
            }
            () = self.sleep_until(deadline) => Err(self.current.fault()),
        }
    }

    /// Sends in the first poll and waits for the answer: with it comes the instant at which it came.
    pub(super) async fn answer<T>(
        &self,
        link: &Link,
        mut send: Pin<&mut impl Future<Output = RedisResult<T>>>,
        mut turn: Option<SendTurn>,
        timer: Timer,
    ) -> Result<(T, Instant), Fault> {
        let mut under_way = UnderWay::new(link, timer.sent, self.command_timeout);
        let mut wait = link.waiting().until(timer.deadline());
        let outcome = poll_fn(|cx| self.poll_answer(link, send.as_mut(), &mut turn, timer, &mut wait, cx)).await?;
        under_way.over = true;
        self.noted(link, outcome)
    }

    /// An error unless there is an answer, or may be one yet.
    fn poll_answer<T>(
        &self,
        link: &Link,
        send: Pin<&mut impl Future<Output = RedisResult<T>>>,
        turn: &mut Option<SendTurn>,
        timer: Timer,
        wait: &mut Wait<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RedisResult<T>, Fault>> {
        let polled = send.poll(cx);
        // The first poll has sent: the next one in line may.
        drop(turn.take());
        if let Poll::Ready(outcome) = polled {
            return Poll::Ready(Ok(outcome));
        }
        wait.poll(cx).map(|over| match over {
            Over::Late => Err(faults::timeout(timer.within, true)),
            Over::Gone => Err(self.gone(link)),
        })
    }

    /// What came over the link, whose health it tells.
    fn noted<T>(&self, link: &Link, outcome: RedisResult<T>) -> Result<(T, Instant), Fault> {
        match outcome {
            Ok(reply) => Ok((reply, self.answers.note())),
            Err(error) => {
                // Refusals are replies: an error means that the connection is no good.
                link.end(Cause::Cut);
                // What ended the link before tells more than its end.
                Err(match link.cause() {
                    Cause::Cut => faults::failed(&error, true, self.secrets()),
                    _ => self.gone(link),
                })
            }
        }
    }

    /// What is not to be shown of what comes over the link.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn gone(&self, link: &Link) -> Fault {
        // The token would not do: it is the last to know that it was cancelled.
        if self.current.is_closed() {
            return self.current.over(true);
        }
        match link.cause() {
            Cause::Cut | Cause::Unready | Cause::Moved => faults::dropped(),
            Cause::Demoted => link.refusal().map_or_else(faults::dropped, faults::behind_a_refusal),
            Cause::Silent => faults::silent(),
            Cause::Elsewhere => faults::elsewhere(),
        }
    }

    /// A timer on our own runtime: the caller may have none.
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let _entered = self.runtime.enter();
        sleep_until(deadline)
    }

    /// Says when the server is away, until the backend is closed.
    async fn tell(self: Arc<Self>) {
        self.closed.run_until_cancelled(self.outage.tell(self.aim.name())).await;
        if self.current.is_retired() {
            self.outage.end(self.aim.name());
        }
    }

    /// The server is there from now on: links to where it was are given up at once.
    pub(super) fn turn(&self, clients: Clients) {
        self.aim.turn(clients);
        self.elsewhere.send_replace(Instant::now());
    }

    pub(super) fn close(&self) {
        self.current.close();
        self.closed.cancel();
    }
}
