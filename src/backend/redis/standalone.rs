//! One server behind one command link that is replaced when it ends. Knows scripts only as bytes to send; subscriptions
//! have a link of their own.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::FutureExt;
use redis::{Cmd, RedisResult};
use tokio::{
    runtime::Handle,
    task::unconstrained,
    time::{Instant, Sleep, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    codec::{self, Hashes},
    command::{Line, Timer, UnderWay, Way},
    current::{Current, Found, Turn},
    faults,
    link::{Answers, Cause, Kept, Link},
    many::pipeline_of,
    options::{Clients, Options, Target},
    pubsub::PubSub,
    spare::Spared,
    task::Task,
    waiting::{Over, Wait},
};
use crate::{
    backend::{
        self, Answer, Backend, Call, Fault, Listener, Pending, Subscription, Value,
        backoff::{self, Backoff},
        dispatch::Dispatches,
    },
    chance::Chance,
    script::Script,
};

/// A standalone server. Dropping it closes it.
pub(crate) struct Standalone {
    shared: Arc<Shared>,
    pubsub: PubSub,
}

/// Connects within the command timeout, and makes sure that the server lets us run scripts.
pub(crate) async fn connect(target: &Target, options: Options) -> Result<Standalone, Fault> {
    let within = options.command_timeout;
    let started = Instant::now();
    let clients = target.clients(options).map_err(|error| faults::failed(&error, false))?;
    let closed = CancellationToken::new();
    let link = Arc::new(Link::open(&clients, &closed, within).await?);
    link.probe(within.saturating_sub(started.elapsed())).await?;
    let runtime = Handle::current();
    let pubsub = PubSub::start(clients.resp2.clone(), within, &closed, &runtime);
    let shared = Arc::new(Shared {
        hashes: Hashes::of_catalogue(),
        clients,
        command_timeout: within,
        runtime: runtime.clone(),
        answers: Answers::new(),
        current: Arc::new(Current::new(link.clone())),
        closed,
    });
    runtime.spawn(keep(CloseOnDrop(shared.clone()), Kept(link)));
    Ok(Standalone { shared, pubsub })
}

impl Backend for Standalone {
    fn run(&self, call: &Call<'_>) -> Answer {
        let shared = self.shared.clone();
        let script = call.script;
        let cmd = codec::evalsha(&shared.hashes, call);
        let dispatches = Dispatches::of([call]);
        // Unconstrained: a spent task budget would make the first poll yield before it has sent.
        backend::answer(unconstrained(shared.run(cmd, script, dispatches)))
    }

    fn run_many(&self, calls: &[Call<'_>], within: Duration) -> Pending<Vec<Result<Value, Fault>>> {
        let shared = self.shared.clone();
        let scripts: Vec<_> = calls.iter().map(|call| call.script).collect();
        let pipeline = pipeline_of(calls.iter().map(|call| codec::evalsha_of_many(&shared.hashes, call)));
        let dispatches = Dispatches::of(calls);
        Box::pin(unconstrained(shared.run_many(pipeline, scripts, within, dispatches)))
    }

    fn subscribe(&self, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        self.pubsub.subscribe(channel, listener)
    }

    fn link(&self) -> u64 {
        self.shared.current.number()
    }

    fn last_answer(&self) -> Instant {
        self.shared.answers.last()
    }

    fn close(&self) {
        self.shared.close();
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        self.shared.close();
    }
}

pub(super) struct Shared {
    clients: Clients,
    pub(super) command_timeout: Duration,
    hashes: Hashes,
    /// Where the link's tasks and every timer live, whoever polls.
    pub(super) runtime: Handle,
    answers: Answers,
    current: Arc<Current>,
    closed: CancellationToken,
}

impl Shared {
    async fn run(
        self: Arc<Self>,
        cmd: Spared,
        script: &'static Script,
        dispatches: Dispatches,
    ) -> Result<Value, Fault> {
        let started = Instant::now();
        // What is rare is boxed, and what is not stands here in full: every command carries the room for it.
        let (link, mut turn) = match self.way()? {
            Way::Open(link, turn) => (link, turn),
            Way::Line(line) => return Box::pin(self.run_from_line(line, started, cmd, script, dispatches)).await,
        };
        let mut timer = Timer::started(started, self.command_timeout);
        let mut connection = link.connection();
        let mut send = pin!(connection.send_packed_command(&cmd));
        dispatches.leave()?;
        let mut under_way = UnderWay::new(&link, started, self.command_timeout);
        let mut wait = link.waiting().until(timer.deadline());
        let outcome = poll_fn(|cx| self.poll_answer(&link, send.as_mut(), &mut turn, timer, &mut wait, cx)).await?;
        under_way.over = true;
        let reply = self.noted(&link, outcome)?;
        if !codec::is_unknown_script(&reply) {
            return codec::value(reply);
        }
        Box::pin(self.run_by_source(&link, &cmd, script, &mut timer, &dispatches)).await
    }

    async fn run_from_line(
        self: Arc<Self>,
        line: Line,
        started: Instant,
        cmd: Spared,
        script: &'static Script,
        dispatches: Dispatches,
    ) -> Result<Value, Fault> {
        let runtime = self.runtime.clone();
        let task = async move {
            let mut timer = Timer::started(started, self.command_timeout);
            let (link, turn) = self.link(line, &mut timer).await?;
            let reply = self.sent(&link, &cmd, Some(turn), timer, &dispatches).await?;
            if !codec::is_unknown_script(&reply) {
                return codec::value(reply);
            }
            self.run_by_source(&link, &cmd, script, &mut timer, &dispatches).await
        };
        Task::spawn(&runtime, task).answer().await
    }

    /// The server does not know the script by its hash.
    async fn run_by_source(
        &self,
        link: &Link,
        cmd: &Cmd,
        script: &'static Script,
        timer: &mut Timer,
        dispatches: &Dispatches,
    ) -> Result<Value, Fault> {
        timer.sent = Instant::now();
        codec::value(self.sent(link, &codec::eval(cmd, script), None, *timer, dispatches).await?)
    }

    /// The answer to one command, which leaves in the first poll if it is still wanted.
    async fn sent(
        &self,
        link: &Link,
        cmd: &Cmd,
        turn: Option<Turn>,
        timer: Timer,
        dispatches: &Dispatches,
    ) -> Result<redis::Value, Fault> {
        let mut connection = link.connection();
        let send = pin!(connection.send_packed_command(cmd));
        dispatches.leave()?;
        self.answer(link, send, turn, timer).await
    }

    /// Looks for a link, or takes a place in the line for one: the first to be polled is the first to send.
    pub(super) fn way(&self) -> Result<Way, Fault> {
        let waiting = match self.current.find() {
            Found::Link(link) => return Ok(Way::Open(link, None)),
            Found::Closed => return Err(faults::closed(false)),
            Found::Nothing(waiting) => waiting,
        };
        let mut line: Line = Box::pin(waiting.turn());
        match (&mut line).now_or_never() {
            Some(found) => found.map(|(link, turn)| Way::Open(link, Some(turn))),
            None => Ok(Way::Line(line)),
        }
    }

    /// The link to send on, once it is this command's turn.
    pub(super) async fn link(&self, line: Line, timer: &mut Timer) -> Result<(Arc<Link>, Turn), Fault> {
        let deadline = timer.deadline();
        tokio::select! {
            biased;
            found = line => {
                timer.sent = Instant::now();
                found
            }
            () = self.sleep_until(deadline) => Err(self.current.fault()),
        }
    }

    /// Sends in the first poll and waits for the answer.
    pub(super) async fn answer<T>(
        &self,
        link: &Link,
        mut send: Pin<&mut impl Future<Output = RedisResult<T>>>,
        mut turn: Option<Turn>,
        timer: Timer,
    ) -> Result<T, Fault> {
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
        turn: &mut Option<Turn>,
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
    fn noted<T>(&self, link: &Link, outcome: RedisResult<T>) -> Result<T, Fault> {
        match outcome {
            Ok(reply) => {
                self.answers.note();
                Ok(reply)
            }
            Err(error) => {
                // Refusals are replies: an error means that the connection is no good.
                link.end(Cause::Cut);
                Err(faults::failed(&error, true))
            }
        }
    }

    fn gone(&self, link: &Link) -> Fault {
        // The token would not do: it is the last to know that it was cancelled.
        if self.current.is_closed() {
            return faults::closed(true);
        }
        match link.cause() {
            Cause::Cut => faults::dropped(),
            Cause::Silent => faults::silent(),
        }
    }

    /// A timer on our own runtime: the caller may have none.
    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let _entered = self.runtime.enter();
        sleep_until(deadline)
    }

    fn close(&self) {
        self.current.close();
        self.closed.cancel();
    }
}

/// Replaces the link whenever it ends, one attempt at a time, until the backend is closed.
async fn keep(shared: CloseOnDrop, first: Kept) {
    let shared = &shared.0;
    let mut backoff = Backoff::default();
    let mut link = first;
    let replacing = async {
        loop {
            let opened = Instant::now();
            link.0.tend(&shared.answers, shared.command_timeout).await;
            shared.current.down();
            tracing::debug!(cause = ?link.0.cause(), "the command link is over");
            if opened.elapsed() > backoff::CAP {
                backoff.reset();
            }
            // The old socket goes before a new one comes: what stood unsent in it must not arrive.
            drop(link);
            link = Kept(reopen(shared, &mut backoff).await);
            shared.current.up(link.0.clone());
        }
    };
    shared.closed.run_until_cancelled(replacing).await;
}

async fn reopen(shared: &Shared, backoff: &mut Backoff) -> Arc<Link> {
    loop {
        sleep(backoff.pause(&Chance::System)).await;
        match Link::open(&shared.clients, &shared.closed, shared.command_timeout).await {
            Ok(link) => return Arc::new(link),
            Err(fault) => {
                tracing::debug!(error = %fault.source, "no command link");
                shared.current.failed(fault);
            }
        }
    }
}

/// Closes the backend when the runtime takes its keeper away: nobody would replace the link any more.
struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        os::unix::net::UnixListener,
        sync::atomic::{AtomicBool, Ordering},
        task::Waker,
    };

    use super::*;
    use crate::backend::{
        Dispatch, FaultKind,
        redis::testing::{COUNT, Server, eventually, options},
    };

    const CALL: Call<'static> = Call { script: &COUNT, keys: &["n"], args: &[], dispatch: None };

    async fn refused(target: &Target, options: Options) -> Fault {
        let started = Instant::now();
        let fault = connect(target, options).await.map(|_| ()).unwrap_err();
        assert!(started.elapsed() < options.command_timeout + Duration::from_millis(500));
        assert!(!fault.may_have_run);
        fault
    }

    fn poll<F: Future + Unpin>(pending: &mut F) -> Poll<F::Output> {
        Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_script_runs_by_hash_and_heals_once_the_server_has_forgotten_it() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        for n in 1..4 {
            assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(n));
        }
        let _: () = server.ask(&["SCRIPT", "FLUSH"]);
        let many = backend.run_many(&[CALL; 3], Duration::from_secs(3)).await;
        let many: Vec<_> = many.into_iter().map(Result::unwrap).collect();
        assert_eq!(many, [Value::Int(4), Value::Int(5), Value::Int(6)]);
        assert_eq!(backend.link(), 1);
    }

    #[tokio::test]
    async fn a_pipeline_answers_one_by_one() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        let _: () = server.ask(&["SET", "text", "x"]);
        let wrong = Call { keys: &["text"], ..CALL };
        let many = backend.run_many(&[CALL, wrong, CALL], Duration::from_secs(3)).await;
        assert_eq!(many[0].as_ref().unwrap(), &Value::Int(1));
        assert!(many[1].is_err());
        assert_eq!(many[2].as_ref().unwrap(), &Value::Int(2));
        assert!(backend.run_many(&[], Duration::from_secs(3)).await.is_empty());
    }

    #[tokio::test]
    async fn connecting_fails_in_bounded_time_and_says_why() {
        let folder = Server::start();
        let path = folder.url();
        let nobody = Target::parse(&format!("{path}x")).unwrap();
        assert_eq!(refused(&nobody, options(500)).await.kind, FaultKind::Dropped);

        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        let tcp = Target::parse(&format!("redis://{address}")).unwrap();
        let named = |fault: Fault| {
            assert!(fault.source.to_string().starts_with(&address.to_string()), "{fault:?}");
            fault.kind
        };
        assert_eq!(named(refused(&tcp, options(300)).await), FaultKind::Timeout);
        drop(free);
        assert_eq!(named(refused(&tcp, options(500)).await), FaultKind::Dropped);

        let _silent = UnixListener::bind(format!("{}x", path.strip_prefix("redis+unix://").unwrap())).unwrap();
        assert_eq!(refused(&nobody, options(300)).await.kind, FaultKind::Timeout);
    }

    #[tokio::test]
    async fn connecting_tells_a_wrong_password_and_forbidden_scripts() {
        let server = Server::start();
        for rules in [
            "ACL SETUSER dave on >s3cret +@all -eval ~* &*",
            "ACL SETUSER alice on >s3cret +@all ~* &*",
            "ACL SETUSER bob on >s3cret +@all -evalsha ~* &*",
            "ACL SETUSER carol on >s3cret +@all -hello ~* &*",
        ] {
            let _: () = server.ask(&rules.split(' ').collect::<Vec<_>>());
        }
        let target =
            |user: &str, pass: &str| Target::parse(&format!("{}?user={user}&pass={pass}", server.url())).unwrap();
        for protocol in ["", "&protocol=resp2"] {
            let fault = refused(&target("alice", &format!("wr0ng{protocol}")), options(3000)).await;
            assert!(fault.kind == FaultKind::Permission && fault.source.to_string().contains("WRONGPASS"), "{fault:?}");
            assert!(!format!("{fault:?} {}", fault.source).contains("wr0ng"));
            let fault = refused(&target("bob", &format!("s3cret{protocol}")), options(3000)).await;
            assert_eq!(fault.kind, FaultKind::Permission, "{fault:?}");
            assert!(fault.source.to_string().contains("evalsha"));
            let fault = refused(&target("dave", &format!("s3cret{protocol}")), options(3000)).await;
            assert!(fault.kind == FaultKind::Permission && fault.source.to_string().contains("'eval'"), "{fault:?}");
            for user in ["alice", "carol"] {
                let target = target(user, &format!("s3cret{protocol}"));
                assert!(connect(&target, options(3000)).await.is_ok(), "{user}{protocol}");
            }
        }
        let server = Server::with(&["--rename-command", "EVALSHA", ""]);
        assert_eq!(refused(&server.target(), options(3000)).await.kind, FaultKind::ScriptDisabled);
        let server = Server::with(&["--rename-command", "EVAL", ""]);
        assert_eq!(refused(&server.target(), options(3000)).await.kind, FaultKind::ScriptDisabled);
        let server = Server::with(&["--rename-command", "HELLO", ""]);
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
    }

    #[tokio::test]
    async fn the_first_to_be_polled_is_the_first_to_send() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
        let mut pending: Vec<_> = (0..500).map(|_| backend.run(&CALL)).collect();
        // Polled backwards, awaited forwards.
        for future in pending.iter_mut().rev() {
            assert!(poll(future).is_pending());
        }
        for (at, future) in (0..500_i64).zip(pending) {
            assert_eq!(future.await.unwrap(), Value::Int(501 - at));
        }
    }

    #[tokio::test]
    async fn those_that_wait_for_a_link_send_in_the_order_in_which_they_came() {
        let server = Server::start();
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
        server.hide();
        eventually("the link is seen to be gone", || !backend.shared.current.seen().0).await;
        let mut waiting: Vec<_> = (0..100).map(|_| backend.run(&CALL)).collect();
        assert!(waiting.iter_mut().all(|future| poll(future).is_pending()));
        drop(waiting.remove(50));
        server.show();
        let joined: Vec<_> = waiting.into_iter().rev().map(tokio::spawn).collect();
        for (at, task) in (0..99_i64).zip(joined) {
            assert_eq!(task.await.unwrap().unwrap(), Value::Int(100 - at));
        }
        assert_eq!(backend.link(), 2);
        assert_eq!(backend.shared.current.seen(), (true, 0));
    }

    #[tokio::test]
    async fn what_is_not_wanted_when_a_link_comes_is_never_sent() {
        let server = Server::start();
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        server.hide();
        eventually("the link is seen to be gone", || !backend.shared.current.seen().0).await;
        let wanted = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&wanted);
        let pointless = Dispatch::new(move || asked.load(Ordering::Relaxed));
        let withdrawn = Dispatch::new(|| true);
        let calls = [&pointless, &withdrawn].map(|dispatch| Call { dispatch: Some(dispatch), ..CALL });
        let mut waiting: Vec<_> = calls.iter().map(|call| backend.run(call)).collect();
        let mut many = backend.run_many(&[CALL, calls[0]], Duration::from_secs(5));
        assert!(waiting.iter_mut().all(|future| poll(future).is_pending()) && poll(&mut many).is_pending());
        let last = backend.run(&CALL);
        wanted.store(false, Ordering::Relaxed);
        assert!(withdrawn.withdraw());
        server.show();
        assert_eq!(last.await.unwrap(), Value::Int(1), "nothing ran before it");
        for future in waiting {
            let fault = future.await.unwrap_err();
            assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Withdrawn, false));
        }
        assert!(many.await.into_iter().all(|answer| answer.unwrap_err().kind == FaultKind::Withdrawn));
        assert_eq!(backend.shared.current.seen(), (true, 0));
    }

    #[tokio::test]
    async fn what_waited_in_vain_for_a_link_never_left_and_what_was_sent_did() {
        let server = Server::start();
        let backend = connect(&server.target(), options(300)).await.unwrap();
        let sent = Dispatch::new(|| true);
        server.freeze();
        let mut under_way = backend.run(&Call { dispatch: Some(&sent), ..CALL });
        assert!(poll(&mut under_way).is_pending());
        assert!(!sent.withdraw() && under_way.await.unwrap_err().may_have_run);
        eventually("the link is given up", || !backend.shared.current.seen().0).await;
        let kept = Dispatch::new(|| true);
        let fault = backend.run(&Call { dispatch: Some(&kept), ..CALL }).await.unwrap_err();
        assert!(!fault.may_have_run && kept.withdraw());
    }

    #[tokio::test]
    async fn whoever_is_not_polled_holds_up_nobody() {
        let server = Server::start();
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
        server.hide();
        eventually("the link is seen to be gone", || !backend.shared.current.seen().0).await;
        let mut leaver = backend.run(&CALL);
        let mut parked = backend.run(&CALL);
        let mut parked_too = backend.run_many(&[CALL; 2], Duration::from_secs(5));
        assert!(poll(&mut leaver).is_pending());
        assert!(poll(&mut parked).is_pending());
        assert!(poll(&mut parked_too).is_pending());
        let last = backend.run(&CALL);
        drop(leaver);
        server.show();
        // Everybody before it was served, but for the one that left.
        assert_eq!(last.await.unwrap(), Value::Int(5));
        let answer = |reply: Result<Value, Fault>| reply.unwrap();
        assert_eq!(answer(parked.await), Value::Int(2));
        let many: Vec<_> = parked_too.await.into_iter().map(answer).collect();
        assert_eq!(many, [Value::Int(3), Value::Int(4)]);
        assert_eq!(server.ask::<i64>(&["GET", "n"]), 5);
        assert_eq!(backend.shared.current.seen(), (true, 0));
    }

    #[tokio::test]
    async fn the_deadline_of_a_parked_command_counts_from_its_first_poll() {
        let server = Server::start();
        let backend = connect(&server.target(), options(300)).await.unwrap();
        server.hide();
        eventually("the link is seen to be gone", || !backend.shared.current.seen().0).await;
        let started = Instant::now();
        let mut parked = backend.run(&CALL);
        assert!(poll(&mut parked).is_pending());
        eventually("it has left the line", || backend.shared.current.seen().1 == 0).await;
        assert!(started.elapsed() >= Duration::from_millis(290));
        server.show();
        let fault = parked.await.unwrap_err();
        assert!(!fault.may_have_run && fault.kind.heals());
        eventually("the link is replaced", || backend.link() == 2).await;
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
    }

    #[test]
    fn the_end_of_the_runtime_answers_those_that_wait_for_a_link() {
        let mut server = Server::start();
        let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (backend, mut parked) = first.block_on(async {
            let backend = connect(&server.target(), options(5000)).await.unwrap();
            server.kill();
            eventually("the link is gone", || !backend.shared.current.seen().0).await;
            let mut parked = backend.run(&CALL);
            assert!(poll(&mut parked).is_pending());
            (backend, parked)
        });
        drop(first);
        let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(second.block_on(&mut parked).unwrap_err().kind, FaultKind::Closed);
        drop(backend);
    }

    #[tokio::test]
    async fn an_idle_link_that_is_cut_is_replaced_before_anybody_asks() {
        for config in [&[][..], &["--rename-command", "HELLO", ""]] {
            let mut server = Server::with(config);
            let backend = connect(&server.target(), options(400)).await.unwrap();
            let before = backend.last_answer();
            server.kill();
            server.restart();
            eventually("the link is replaced", || backend.link() == 2).await;
            assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
            assert!(backend.last_answer() > before);
        }
    }

    #[tokio::test]
    async fn a_command_under_way_when_the_link_is_cut_may_have_run() {
        let mut server = Server::start();
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        server.freeze();
        let mut pending = backend.run(&CALL);
        assert!(poll(&mut pending).is_pending());
        server.kill();
        let fault = pending.await.unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Dropped, true));
    }

    #[tokio::test]
    async fn a_silent_link_times_out_once_for_all_and_is_replaced() {
        let server = Server::start();
        let backend = connect(&server.target(), options(300)).await.unwrap();
        server.freeze();
        let mut first = backend.run(&CALL);
        assert!(poll(&mut first).is_pending());
        sleep(Duration::from_millis(150)).await;
        let mut second = backend.run(&CALL);
        assert!(poll(&mut second).is_pending());
        let started = Instant::now();
        let (first, second) = tokio::join!(first, second);
        assert!(started.elapsed() < Duration::from_millis(250));
        for fault in [first.unwrap_err(), second.unwrap_err()] {
            assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Timeout, true));
        }
        // Nobody takes connections up: without a link nothing can have run.
        let started = Instant::now();
        let fault = backend.run(&CALL).await.unwrap_err();
        assert!(!fault.may_have_run && fault.kind.heals());
        assert!(started.elapsed() >= Duration::from_millis(290));
        assert!(started.elapsed() < Duration::from_millis(600));
        server.thaw();
        eventually("the link is replaced", || backend.link() > 1).await;
        assert!(backend.run(&CALL).await.is_ok());
    }

    #[tokio::test]
    async fn a_silent_link_is_found_though_everybody_left_early() {
        let server = Server::start();
        let backend = connect(&server.target(), options(400)).await.unwrap();
        assert!(backend.run(&CALL).await.is_ok());
        server.freeze();
        let mut pending = backend.run(&CALL);
        assert!(poll(&mut pending).is_pending());
        drop(pending);
        eventually("the link is given up", || !backend.shared.current.seen().0).await;
        server.thaw();
        eventually("the link is replaced", || backend.link() == 2).await;
    }

    #[tokio::test]
    async fn leaving_early_does_not_cost_a_link_that_lives() {
        let server = Server::start();
        let backend = connect(&server.target(), options(200)).await.unwrap();
        for _ in 0..10 {
            drop(tokio::time::timeout(Duration::ZERO, backend.run(&CALL)).await);
            let late = backend.run_many(&[CALL; 50], Duration::ZERO).await;
            assert_eq!(late.len(), 50);
            sleep(Duration::from_millis(60)).await;
        }
        assert_eq!(backend.link(), 1);
    }

    #[tokio::test]
    async fn closing_answers_everybody() {
        let server = Server::start();
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        server.freeze();
        let mut under_way = backend.run(&CALL);
        assert!(poll(&mut under_way).is_pending());
        backend.close();
        backend.close();
        let fault = under_way.await.unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Closed, true));
        let fault = backend.run(&CALL).await.unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Closed, false));
    }

    #[tokio::test]
    async fn closing_answers_those_that_wait_for_a_link_and_leaves_no_task() {
        let mut server = Server::start();
        let alive = || Handle::current().metrics().num_alive_tasks();
        let before = alive();
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        server.kill();
        eventually("the link is gone", || !backend.shared.current.seen().0).await;
        let mut waiting: Vec<_> = (0..3).map(|_| backend.run(&CALL)).collect();
        assert!(waiting.iter_mut().all(|future| poll(future).is_pending()));
        drop(backend);
        for future in waiting {
            assert_eq!(future.await.unwrap_err().kind, FaultKind::Closed);
        }
        eventually("no task is left", || alive() == before).await;
    }

    #[test]
    fn without_its_runtime_a_backend_answers_that_it_is_closed() {
        let server = Server::start();
        let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let backend = first.block_on(connect(&server.target(), options(5000))).unwrap();
        drop(first);
        let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let fault = second.block_on(backend.run(&CALL)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Closed);
    }
}
