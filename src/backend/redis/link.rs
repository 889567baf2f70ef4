//! One connection for commands, and how its end is noticed. It is never mended, only replaced.

mod opening;

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::aio::MultiplexedConnection;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::opening::connect;
pub(super) use self::opening::refuses_hello;
use super::{
    codec, faults,
    identity::{self, NO_SCRIPT},
    info::Probed,
    naming::Named,
    options::Clients,
    rights::Version,
    waiting::Waiting,
};
use crate::backend::{Fault, FaultKind, Scripting};

/// So many keys are asked for where a server does not say what it is. Each of several nodes that stand behind a proxy, which
/// hides what else they would say, lacks one of them, unless chance has it otherwise: of two nodes one in 256 times, of three
/// hardly ever.
const KEYS: usize = 8;

/// One connection, and all that is known of its health.
pub(super) struct Link {
    connection: Named,
    /// Which link of its node this is, once it is the current one.
    number: AtomicU64,
    /// Cancelled when the link is over: commands under way end at once rather than at their own deadlines.
    gone: CancellationToken,
    cause: OnceLock<Cause>,
    /// What a replica said.
    refusal: OnceLock<Fault>,
    suspicion: Suspicion,
    /// The commands that are under way.
    waiting: Waiting,
    /// Pings that were answered: the link lives, whatever becomes of scripts.
    pongs: Answers,
    /// Whether the driver tells when the connection is cut.
    tells: bool,
    /// Keys of two slots were refused in one call.
    parts_slots: AtomicBool,
}

/// A link that is looked after. When it is not any more, nobody waits for its answers in vain.
pub(super) struct Kept(pub(super) Arc<Link>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.waiting.end();
    }
}

/// Why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Cut by the other side, or by the system.
    Cut,
    /// An answer did not come for a whole command timeout. Others may: but answers have no names and belong to commands by
    /// their order, which is in doubt from then on.
    Silent,
    /// The server answers, and cannot serve yet.
    Unready,
    /// The server is a replica, and was a master perhaps.
    Demoted,
    /// Another server is the master now.
    Elsewhere,
    /// Another node of the cluster has something that was listened to here: whose answers are whose is in doubt.
    Moved,
}

impl Link {
    /// Connects. `parent` ends the link, too.
    pub(super) async fn open(clients: &Clients, parent: &CancellationToken, within: Duration) -> Result<Self, Fault> {
        let opened = async {
            let link = connect(clients, parent).await.map_err(|error| faults::unconnected(&error, clients))?;
            if clients.of_a_master {
                link.find_master(clients).await?;
            }
            Ok(link)
        };
        timeout_at(Instant::now() + within, opened).await.unwrap_or_else(|_| Err(faults::too_slow(within, clients)))
    }

    /// The server has to be a master by its own words. The greeting needs no right; who says nothing of it there, and may not be
    /// asked otherwise, is taken for one.
    async fn find_master(&self, clients: &Clients) -> Result<(), Fault> {
        let mut question = redis::pipe();
        question.cmd("HELLO").cmd("ROLE");
        let replies = self.connection().send_packed_commands(&question, 0, question.len()).await;
        let replies = replies.map_err(|error| faults::unconnected(&error, clients))?;
        match replies.iter().find_map(codec::role) {
            None | Some("master") => Ok(()),
            Some(_) => Err(faults::no_master(clients)),
        }
    }

    /// A handle to send on.
    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.get()
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// It becomes the current one.
    pub(super) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Those who wait for an answer: woken when their time is over, or the link is.
    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Comes back when the link is over.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Why the link is over; cut, if nobody said.
    pub(super) fn cause(&self) -> Cause {
        self.cause.get().copied().unwrap_or(Cause::Cut)
    }

    /// Gives the link up.
    pub(super) fn end(&self, cause: Cause) {
        // The first cause counts: what follows is its consequence.
        let _ = self.cause.set(cause);
        self.gone.cancel();
    }

    /// Gives the link up for what only a replica says.
    pub(super) fn demote(&self, refusal: Fault) {
        let _ = self.refusal.set(refusal);
        self.end(Cause::Demoted);
    }

    pub(super) fn refusal(&self) -> Option<&Fault> {
        self.refusal.get()
    }

    /// Keys of two slots do not go into one call: there is a cluster behind what looks like one server.
    pub(super) fn parts_slots(&self) {
        self.parts_slots.store(true, Ordering::Relaxed);
    }

    /// Whether they may, as far as is known.
    pub(super) fn joins_slots(&self) -> bool {
        !self.parts_slots.load(Ordering::Relaxed)
    }

    /// When it was last seen to live: its opening counts.
    pub(super) fn last_pong(&self) -> Instant {
        self.pongs.last()
    }

    /// A command that was sent at `sent` will not be waited for any longer.
    pub(super) fn unanswered(&self, sent: Instant, command_timeout: Duration) {
        if sent.elapsed() >= command_timeout {
            self.end(Cause::Silent);
        } else {
            self.suspicion.raise(sent);
        }
    }

    /// Finds out who is there, with a key such as a lock may have. What keeps every command from being run is told here;
    /// what keeps scripts from it, or this key, is told by the first script that meets it. Comes back with its version, where it
    /// says that.
    pub(super) async fn probe(&self, key: &str, within: Duration, clients: &Clients) -> Result<Probed, Fault> {
        let (secrets, mut probe) = (&clients.secrets, redis::pipe());
        // The greeting needs no right, and whoever knows it says what he is. Who knows no other greeting need not know this
        // one: a node of a cluster is told there by what it has not got, and by what it refuses.
        let keys = if self.tells { 1 } else { KEYS };
        for n in 0..keys {
            let key = if n == 0 { Cow::Borrowed(key) } else { Cow::Owned(format!("{key}:{n}")) };
            probe.cmd("EVALSHA").arg(NO_SCRIPT).arg(1).arg(&*key);
        }
        probe.add_command(if self.tells { redis::cmd("HELLO") } else { identity::of_two_slots(key) });
        let mut connection = self.connection();
        let deadline = Instant::now() + within;
        let mut replies = match timeout_at(deadline, connection.send_packed_commands(&probe, 0, probe.len())).await {
            Ok(replies) => replies.map_err(|error| faults::failed(&error, false, secrets))?,
            Err(_) => return Err(faults::timeout(within, false)),
        };
        let last = replies.split_off(keys.min(replies.len()));
        match last.first().and_then(codec::mode) {
            Some("cluster") => return Err(faults::one_of_a_cluster()),
            Some("sentinel") => return Err(faults::sentinel()),
            _ => {}
        }
        let faults: Vec<Fault> = replies.into_iter().filter_map(|reply| codec::value(reply, secrets).err()).collect();
        let leaves_open = !self.tells && identity::leaves_open(last.first());
        if faults.iter().any(faults::is_of_a_cluster)
            || leaves_open && identity::is_of_a_cluster(clients, deadline).await
        {
            return Err(faults::one_of_a_cluster());
        }
        let knows_no_script = faults.iter().any(|fault| fault.kind == FaultKind::ScriptDisabled);
        if !self.tells && knows_no_script && identity::is_a_sentinel(clients, deadline).await {
            return Err(faults::sentinel());
        }
        let counts = |fault: &Fault| fault.kind.heals() || fault.kind == FaultKind::Credentials;
        let scripting = match faults.iter().any(faults::denies_scripts) {
            true => identity::compares(clients, deadline, knows_no_script).await,
            false => Scripting::Runs,
        };
        let version = last.first().and_then(Version::of);
        faults.into_iter().find(counts).map_or(Ok(Probed { version, scripting }), Err)
    }

    /// Looks after the link until it is over, and after those who wait for its answers.
    pub(super) async fn tend(&self, answers: &Answers, command_timeout: Duration) {
        tokio::select! {
            biased;
            () = self.watch(answers, command_timeout) => {}
            _ = self.waiting.watch() => {}
        }
    }

    /// Watches until the link is over. Whoever drops a command early leaves nobody waiting for its answer, so a link
    /// could be silent unnoticed; a ping settles it, unless some other answer comes first.
    async fn watch(&self, answers: &Answers, command_timeout: Duration) {
        while !self.is_gone() {
            tokio::select! {
                biased;
                () = self.gone() => {}
                since = self.suspicion.raised() => self.settle(since, answers, command_timeout).await,
                () = sleep(command_timeout), if !self.tells => {
                    self.settle(Instant::now(), answers, command_timeout).await;
                }
            }
        }
    }

    async fn settle(&self, since: Instant, answers: &Answers, command_timeout: Duration) {
        tokio::select! {
            biased;
            () = self.gone() => return,
            () = sleep_until(since + command_timeout / 4) => {}
        }
        if answers.last().max(self.pongs.last()) > since {
            return;
        }
        let ping = redis::cmd("PING");
        let mut connection = self.connection();
        tokio::select! {
            biased;
            () = self.gone() => {}
            pong = timeout_at(since + command_timeout, connection.send_packed_command(&ping)) => match pong {
                Ok(Ok(_)) => {
                    self.pongs.note();
                }
                Ok(Err(_)) => self.end(Cause::Cut),
                Err(_) => self.end(Cause::Silent),
            }
        }
    }
}

impl Link {
    fn new(connection: Named, gone: CancellationToken, tells: bool) -> Self {
        let (number, cause, refusal) = (AtomicU64::new(0), OnceLock::new(), OnceLock::new());
        let (suspicion, waiting) = (Suspicion::default(), Waiting::default());
        let (pongs, parts_slots) = (Answers::new(), AtomicBool::new(false));
        Self { connection, number, gone, cause, refusal, suspicion, waiting, pongs, tells, parts_slots }
    }
}

/// The oldest command that was given up without an answer.
#[derive(Default)]
struct Suspicion {
    since: Mutex<Option<Instant>>,
    news: Notify,
}

impl Suspicion {
    fn raise(&self, since: Instant) {
        let mut oldest = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        *oldest = Some(oldest.map_or(since, |known| known.min(since)));
        drop(oldest);
        self.news.notify_one();
    }

    async fn raised(&self) -> Instant {
        loop {
            if let Some(since) = self.since.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return since;
            }
            self.news.notified().await;
        }
    }
}

/// When something was last answered: a script, over any of a server's links; a ping of one link; a request of one
/// subscription link.
pub(super) struct Answers {
    start: Instant,
    nanos: AtomicU64,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), nanos: AtomicU64::new(0) }
    }

    /// Something is answered at this moment, which is given back.
    pub(super) fn note(&self) -> Instant {
        let now = Instant::now();
        // None stands for no answer.
        let nanos = u64::try_from((now - self.start).as_nanos()).unwrap_or(u64::MAX).max(1);
        self.nanos.fetch_max(nanos, Ordering::Relaxed);
        now
    }

    /// The same, if there was any.
    pub(super) fn ever(&self) -> Option<Instant> {
        (self.nanos.load(Ordering::Relaxed) > 0).then(|| self.last())
    }

    /// Since its making, if there was none.
    pub(super) fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
