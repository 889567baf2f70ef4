//! Scripts whose writes replicas are to have: they go over a link of their own, and right behind them the question how many have
//! what was written over it. A server answers nothing else over a link on which it waits for replicas, so many scripts share
//! one question: all that are there when it is asked, and what comes meanwhile waits for the next one.

mod own;

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use redis::{Cmd, RedisResult, Value};
use tokio::{
    sync::{mpsc, oneshot},
    task::unconstrained,
    time::{Instant, sleep},
};

use self::own::{Own, OwnLinks};
use super::{codec, command::Timer, faults, link::Answers, node::Node, waiting::Over};
use crate::{
    backend::{self, Acknowledged, Call, Fault, FaultKind, Replicas, dispatch::Dispatches},
    lease::whole_ms,
    script::Script,
};

/// Where a node is asked for scripts whose writes replicas are to have.
pub(super) struct Acks {
    callers: mpsc::UnboundedSender<Caller>,
    /// Over the links on which replicas are waited for: they say nothing of the health of the others.
    answers: Answers,
}

/// How many replicas have it.
pub(super) type Counted = oneshot::Receiver<Result<u32, Fault>>;

/// A script, and what is wanted of it.
pub(super) struct AckRequest {
    pub(super) cmd: Cmd,
    /// The node has the key, and not the slot.
    pub(super) asking: bool,
    pub(super) script: &'static Script,
    pub(super) replicas: Replicas,
    pub(super) dispatches: Dispatches,
    pub(super) timer: Timer,
}

/// The same, and whom to tell.
struct Caller {
    request: AckRequest,
    tell: oneshot::Sender<Result<(Value, Counted), Fault>>,
}

/// What asks the node, one batch after the other.
struct Asker {
    node: Arc<Node>,
    links: OwnLinks,
}

impl AckRequest {
    pub(super) fn of(node: &Node, call: &Call<'_>, replicas: Replicas, dispatches: Dispatches) -> Self {
        let cmd = codec::command_of_many(&node.hashes, call);
        let (script, asking) = (call.script, false);
        // It stands behind one question at most.
        let timer = Timer::started(Instant::now(), node.command_timeout + replicas.told_within());
        Self { cmd, asking, script, replicas, dispatches, timer }
    }
}

impl Node {
    /// When it last answered a script over any of its links, or began to be one.
    pub(super) fn last_answer(&self) -> Instant {
        self.answered().unwrap_or_else(|| self.answers.last())
    }

    /// The same, if it ever did.
    pub(super) fn answered(&self) -> Option<Instant> {
        self.answers.ever().max(self.acks.get().and_then(|acks| acks.answers.ever()))
    }

    /// The script's answer, wherever it is answered, and how many replicas there have what it wrote.
    pub(super) async fn run_acknowledged(
        self: Arc<Self>,
        request: AckRequest,
    ) -> Result<(backend::Value, Acknowledged), Fault> {
        let (cmd, script, timer, replicas) = (request.cmd.clone(), request.script, request.timer, request.replicas);
        let dispatches = request.dispatches.clone();
        let (mut reply, mut counted) = self.acknowledged(request).await?;
        if let Some(routes) = self.routes().filter(|_| codec::is_refusal(&reply)) {
            let sent = (reply, counted);
            let redirected =
                routes.redirected_acknowledged(&self, sent, (&cmd, script), timer, (&dispatches, replicas));
            (reply, counted) = redirected.await?;
        }
        let answer = match codec::value(reply, self.secrets()) {
            Ok(answer) => answer,
            Err(fault) if fault.kind == FaultKind::WrongType => return Err(self.in_place_of_a_lock(&cmd, fault).await),
            Err(fault) => return Err(faults::denied(fault, script, &codec::keys(&cmd, script))),
        };
        Ok((answer, Box::pin(async move { counted.await.unwrap_or_else(|_| Err(self.current.over(true))) })))
    }

    /// The same as this node answers, a refusal perhaps.
    pub(super) async fn acknowledged(self: &Arc<Self>, request: AckRequest) -> Result<(Value, Counted), Fault> {
        let acks = self.acks.get_or_init(|| Acks::of(self));
        let (tell, told) = oneshot::channel();
        if acks.callers.send(Caller { request, tell }).is_err() {
            return Err(self.current.over(false));
        }
        told.await.unwrap_or_else(|_| Err(self.current.over(true)))
    }

    /// The same fault, and what stands at the key, if that is told.
    async fn in_place_of_a_lock(&self, cmd: &Cmd, fault: Fault) -> Fault {
        let Some(question) = codec::type_of_key(cmd) else { return fault };
        let there = self.ask(&question, self.command_timeout).await.ok();
        let known = there.and_then(|there| Some(faults::in_place_of_a_lock(&fault, codec::type_there(&there)?)));
        known.unwrap_or(fault)
    }
}

impl Acks {
    /// Until the node is closed. As many wait as tries are under way.
    fn of(node: &Arc<Node>) -> Self {
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut asker = Asker { node: Arc::clone(node), links: OwnLinks::of(node) };
        node.runtime.spawn(async move {
            let closed = asker.node.closed.clone();
            closed.run_until_cancelled(asker.serve(&mut told)).await;
        });
        Self { callers: tell, answers: Answers::new() }
    }
}

impl Asker {
    async fn serve(&mut self, told: &mut mpsc::UnboundedReceiver<Caller>) {
        while let Some(first) = told.recv().await {
            let mut batch = vec![first];
            // However many there are, so that each stands behind one question at most.
            while let Ok(next) = told.try_recv() {
                batch.push(next);
            }
            // Again for those whose script was not known.
            while !batch.is_empty() {
                batch = self.ask(batch).await;
            }
        }
    }

    /// All of them at once, over one link. Those whose script the server does not know come back with its source.
    async fn ask(&mut self, batch: Vec<Caller>) -> Vec<Caller> {
        // None of them waits for much longer than another.
        let until = batch.iter().map(|caller| caller.request.timer.deadline()).min().unwrap_or_else(Instant::now);
        let own = match self.links.take(until).await {
            Ok(own) => own,
            Err(fault) => {
                batch.into_iter().for_each(|caller| caller.fails(&fault));
                return Vec::new();
            }
        };
        let batch: Vec<_> = batch.into_iter().filter_map(|caller| caller.leaves(own.link.number())).collect();
        let Some(replicas) = batch.iter().map(|caller| caller.request.replicas).reduce(Replicas::and) else {
            return Vec::new();
        };
        let (unknown, end) = asked_over(&self.node, &own, batch, replicas).await;
        if end.is_ok() {
            self.links.give_back(own);
        }
        unknown
    }
}

impl Caller {
    fn fails(self, fault: &Fault) {
        drop(self.tell.send(Err(fault.clone())));
    }

    /// Unless nobody wants it any more.
    fn leaves(self, era: u64) -> Option<Self> {
        if self.tell.is_closed() {
            return None;
        }
        match self.request.dispatches.leave(era) {
            Ok(()) => Some(self),
            Err(fault) => {
                self.fails(&fault);
                None
            }
        }
    }
}

/// Asks, and tells everybody. Those whose script is not known are told later. An error: the link is of no use any more.
async fn asked_over(
    node: &Node,
    own: &Own,
    batch: Vec<Caller>,
    replicas: Replicas,
) -> (Vec<Caller>, Result<(), Fault>) {
    let (scripts, question) = (pipeline_of(&batch), question(replicas));
    let (mut first, mut second) = (own.link.connection(), own.link.connection());
    // Unconstrained: a spent task budget would part them.
    let scripts_run = pin!(unconstrained(first.send_packed_commands(&scripts, 0, scripts.len())));
    let mut is_counted = pin!(unconstrained(second.send_packed_command(&question)));
    let mut counted = None;
    let replies = match replies(node, own, scripts_run, is_counted.as_mut(), &mut counted).await {
        Ok(replies) => replies,
        Err(fault) => {
            batch.into_iter().for_each(|caller| caller.fails(&fault));
            return (Vec::new(), Err(fault));
        }
    };
    node.look_for_replica(&own.beside, &replies);
    let (mut unknown, mut waiting) = (Vec::new(), Vec::new());
    let mut replies = replies.into_iter();
    for Caller { request, tell } in batch {
        let forbidden = if request.asking { replies.next().filter(codec::is_refusal) } else { None };
        let Some(reply) = replies.next() else { break };
        let reply = forbidden.unwrap_or(reply);
        // What knows no script that is sent whole is not asked again.
        if codec::is_unknown_script(&reply) && !codec::is_whole(&request.cmd) {
            let cmd = codec::eval(&request.cmd, request.script);
            unknown.push(Caller { request: AckRequest { cmd, ..request }, tell });
            continue;
        }
        let (tell_count, count) = oneshot::channel();
        if tell.send(Ok((reply, count))).is_ok() {
            waiting.push(tell_count);
        }
    }
    let counted = match counted {
        Some(outcome) => noted(node, outcome),
        None => count(node, own, is_counted, replicas).await,
    };
    let end = counted.as_ref().map(drop).map_err(Fault::clone);
    let count = counted.and_then(|reply| number(reply, node));
    waiting.into_iter().for_each(|waiting| drop(waiting.send(count.clone())));
    (unknown, end)
}

fn pipeline_of(batch: &[Caller]) -> redis::Pipeline {
    let mut scripts = redis::Pipeline::new();
    for Caller { request, .. } in batch {
        if request.asking {
            scripts.cmd("ASKING");
        }
        scripts.add_command(request.cmd.clone());
    }
    scripts
}

/// How many replicas have what was written over this link.
fn question(replicas: Replicas) -> Cmd {
    let mut question = redis::cmd("WAIT");
    question.arg(replicas.wanted).arg(whole_ms(replicas.within));
    question
}

/// What the scripts answer, which does not wait for replicas. The first poll sends both, one behind the other.
async fn replies(
    node: &Node,
    own: &Own,
    mut scripts_run: Pin<&mut impl Future<Output = RedisResult<Vec<Value>>>>,
    mut is_counted: Pin<&mut impl Future<Output = RedisResult<Value>>>,
    counted: &mut Option<RedisResult<Value>>,
) -> Result<Vec<Value>, Fault> {
    let mut is_gone = pin!(own.link.gone());
    // Among those who wait over the other link: whoever looks for a server that stands still looks there.
    let mut wait = own.beside.waiting().until(Instant::now() + node.command_timeout);
    let outcome = poll_fn(|cx| {
        let replies = scripts_run.as_mut().poll(cx);
        if counted.is_none()
            && let Poll::Ready(outcome) = is_counted.as_mut().poll(cx)
        {
            *counted = Some(outcome);
        }
        if let Poll::Ready(outcome) = replies {
            return Poll::Ready(Ok(outcome));
        }
        if is_gone.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(node.gone(&own.beside)));
        }
        wait.poll(cx).map(|over| match over {
            Over::Late => Err(faults::timeout(node.command_timeout, true)),
            Over::Gone => Err(node.gone(&own.beside)),
        })
    });
    noted(node, outcome.await?)
}

/// How many replicas they are, when they are as many as were wanted or the time for it is over.
async fn count(
    node: &Node,
    own: &Own,
    is_counted: Pin<&mut impl Future<Output = RedisResult<Value>>>,
    replicas: Replicas,
) -> Result<Value, Fault> {
    let within = replicas.within + node.command_timeout;
    tokio::select! {
        biased;
        outcome = is_counted => noted(node, outcome),
        () = own.link.gone() => Err(node.gone(&own.beside)),
        () = own.beside.gone() => Err(node.gone(&own.beside)),
        () = sleep(within) => Err(faults::timeout(within, true)),
    }
}

fn number(reply: Value, node: &Node) -> Result<u32, Fault> {
    match codec::value(reply, node.secrets())? {
        backend::Value::Int(count) => Ok(u32::try_from(count).unwrap_or(0)),
        other => Err(Fault::unexpected("WAIT", &other)),
    }
}

fn noted<T>(node: &Node, outcome: RedisResult<T>) -> Result<T, Fault> {
    match outcome {
        Ok(reply) => {
            if let Some(acks) = node.acks.get() {
                acks.answers.note();
            }
            Ok(reply)
        }
        Err(error) => Err(faults::failed(&error, true, node.secrets())),
    }
}
