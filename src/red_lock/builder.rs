//! The options of a `RedLock`, checked before anything is sent.

use std::{sync::Arc, time::Duration};

use super::RedLock;
use crate::{
    client::Client,
    engine::{Clock, Engine, Margin, Settings, Voted},
    error::{Error, Result},
    lease,
    locks::VotedScope,
    quorum::{Fleet, MOST, Master, QuorumLine, Terms},
};

/// What a holder gives up at the end of its lease, by default: for clocks that run at different rates.
const DRIFT: f64 = 0.01;
/// Clocks that differ by more are no clocks.
const GREATEST_DRIFT: f64 = 0.5;
/// And for whole milliseconds, at both ends.
const LEAST_MARGIN: Duration = Duration::from_millis(2);

/// Options of a [`RedLock`]. Every one is checked by [`RedLockBuilder::build`], before any I/O.
///
/// # Examples
///
/// ```no_run
/// # fn example(masters: [relatch::Client; 3]) -> relatch::Result<()> {
/// use std::time::Duration;
///
/// let red = relatch::RedLock::builder(masters)
///     .watchdog_timeout(Duration::from_secs(10))
///     .master_timeout(Duration::from_millis(50))
///     .build()?;
/// # drop(red);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct RedLockBuilder {
    clients: Vec<Client>,
    watchdog_timeout: Duration,
    unreachable_after: Duration,
    handover_slice: Duration,
    master_timeout: Option<Duration>,
    restart_quarantine: Option<Duration>,
    drift: f64,
}

impl RedLockBuilder {
    pub(super) fn over(clients: Vec<Client>) -> Self {
        Self {
            clients,
            watchdog_timeout: Duration::from_secs(30),
            unreachable_after: Duration::from_secs(9),
            handover_slice: Duration::from_millis(10),
            master_timeout: None,
            restart_quarantine: None,
            drift: DRIFT,
        }
    }

    /// The lease of a hold under the watchdog, renewed every third of it; 30 s by default, from 100 ms to 365 days.
    ///
    /// If the process dies, its locks are free within this time.
    pub fn watchdog_timeout(mut self, timeout: Duration) -> Self {
        self.watchdog_timeout = timeout;
        self
    }

    /// How long a vote that is still open waits for a master that says nothing; from 1 ms to 365 days, and never longer than the
    /// command timeout of its client. By default a twentieth of the lease, no less than 10 ms and no more than 500 ms, and four
    /// round trips where these are longer.
    ///
    /// It matters while the vote is open only: a silent master that is not needed holds nobody up. One that did not answer in time is
    /// waited for no longer than the others took, until it answers again.
    pub fn master_timeout(mut self, timeout: Duration) -> Self {
        self.master_timeout = Some(timeout);
        self
    }

    /// For how long a master counts for nothing that may have forgotten what it granted: since its process started, or since another
    /// server was seen to answer in its place. The watchdog timeout by default.
    ///
    /// It has to be at least as long as the longest lease that anybody takes on these masters: one that is shorter lets two in. So a
    /// fixed lease that is longer is [`Error::Invalid`]. Masters that are all started at once grant nothing for this long.
    /// Zero switches it off: that is for masters that forget nothing, with `appendfsync always`.
    ///
    /// Where a master refuses `INFO` each new link counts as a restart.
    pub fn restart_quarantine(mut self, quarantine: Duration) -> Self {
        self.restart_quarantine = Some(quarantine);
        self
    }

    /// By how much the clocks of the masters and of this process may run apart, as a part of the time; 0.01 by default, from 0 to
    /// 0.5. A holder gives up that part of its lease, and 2 ms, at the end.
    pub fn drift(mut self, ratio: f64) -> Self {
        self.drift = ratio;
        self
    }

    /// How long this process may keep a lock among its own tasks while others wait; 10 ms by default, 60 s at most. Zero: every
    /// release frees the lock.
    pub fn handover_slice(mut self, slice: Duration) -> Self {
        self.handover_slice = slice;
        self
    }

    /// How long a `lock()` without a wait puts up with masters of which no majority answers; 9 s by default, from 1 ms to 365 days.
    pub fn unreachable_after(mut self, after: Duration) -> Self {
        self.unreachable_after = after;
        self
    }

    /// Checks the options. No I/O.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the option that is out of bounds, and says so where the clients cannot be masters together: none, more
    /// than 64, one server twice (where `INFO` may be read), other prefixes, other runtimes, or with
    /// [`replica_acks`](crate::ClientBuilder::replica_acks).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(masters: [relatch::Client; 3]) -> relatch::Result<()> {
    /// let red = relatch::RedLock::builder(masters).build()?;
    /// # drop(red);
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(self) -> Result<RedLock> {
        let red = self.build_or_say();
        match &*red.scope {
            Ok(_) => Ok(red),
            Err(error) => Err(error.clone()),
        }
    }

    /// What is wrong is said at the first use.
    pub(super) fn build_or_say(self) -> RedLock {
        let checked = self.checked();
        let (settings, terms) = match &checked {
            Ok((settings, terms)) => (*settings, Some(*terms)),
            Err(_) => (Settings::default(), None),
        };
        let parts: Vec<_> = self.clients.iter().map(Client::parts).collect();
        let lines = parts.iter().map(|(_, scope)| Arc::clone(scope.backend()) as _).collect();
        let line = {
            // Its timers are to last as long as the masters' clients do, wherever this is called.
            let _entered = parts.first().and_then(|(engine, _)| Some(engine.runtime().ok()?.enter()));
            Arc::new(QuorumLine::new(lines))
        };
        let engine = match parts.first() {
            Some((engine, scope)) => {
                let chance = scope.chance().clone();
                Engine::start_beside(engine, chance.uuid(), line, settings, chance)
            }
            None => Engine::start(uuid::Uuid::nil(), line, settings, Clock::new(), crate::chance::Chance::default()),
        };
        let scope = checked.and_then(|_| {
            let scopes: Vec<_> = parts.iter().map(|(_, scope)| *scope).collect();
            let masters = self.clients.iter().enumerate().map(|(at, client)| {
                let backend = client.parts().1.backend();
                let name = backend.address().unwrap_or_else(|| format!("master {}", at + 1));
                Master::new(Arc::clone(backend), name, Arc::new(client.clone()))
            });
            let (Some(terms), Some((home, _))) = (terms, parts.first()) else { return Err(Error::Closed) };
            let fleet = Fleet::new(masters.collect(), terms, home.runtime()?.clone(), home.chance().clone());
            Ok(VotedScope::new(fleet, &scopes, engine.id()))
        });
        RedLock { engine, scope: Arc::new(scope) }
    }

    fn checked(&self) -> Result<(Settings, Terms)> {
        let watchdog_timeout = lease::watchdog(self.watchdog_timeout)?;
        let quarantine = match self.restart_quarantine {
            None => watchdog_timeout,
            Some(quarantine) => lease::quarantine(quarantine, watchdog_timeout)?,
        };
        let master_timeout =
            self.master_timeout.map(|timeout| lease::timeout("master_timeout", timeout)).transpose()?;
        if !(0.0..=GREATEST_DRIFT).contains(&self.drift) {
            return Err(Error::invalid("drift", format!("must be from 0 to {GREATEST_DRIFT}, not {}", self.drift)));
        }
        let unreachable_after = lease::timeout("unreachable_after", self.unreachable_after)?;
        let handover_slice = lease::slice(self.handover_slice)?;
        let command_timeout = self.masters()?;
        let longest_lease = if quarantine.is_zero() { Duration::MAX } else { quarantine };
        let settings = Settings {
            watchdog_timeout,
            command_timeout,
            unreachable_after,
            handover_slice,
            margin: Margin::new(self.drift, LEAST_MARGIN),
            replicas: None,
            voted: Some(Voted { longest_lease }),
        };
        Ok((settings, Terms { quarantine, master_timeout, watchdog: watchdog_timeout, command_timeout }))
    }

    /// Whether they can be masters together; the longest command timeout of one.
    fn masters(&self) -> Result<Duration> {
        let invalid = |why: &str| Err(Error::invalid("clients", why));
        let Some(first) = self.clients.first() else { return invalid("a vote needs at least one master") };
        if self.clients.len() > MOST {
            return Err(Error::invalid(
                "clients",
                format!("there are {} masters, and {MOST} at most", self.clients.len()),
            ));
        }
        let (home, scope) = first.parts();
        let mut longest = Duration::ZERO;
        for (at, client) in self.clients.iter().enumerate() {
            let (engine, of) = client.parts();
            if engine.runtime()?.id() != home.runtime()?.id() {
                return invalid(
                    "they live on different runtimes: connect all of them on one, and none with own_thread()",
                );
            }
            if of.prefix() != scope.prefix() {
                return invalid("they have different prefixes: a lock has one key at all masters");
            }
            if engine.settings().replicas.is_some() {
                return invalid("one of them has replica_acks: masters of a vote are not asked for their replicas");
            }
            if self.clients[..at].iter().any(|other| other.id() == client.id()) {
                return invalid("one of them was given twice: each master has one vote");
            }
            longest = longest.max(engine.settings().command_timeout);
        }
        if self.clients.len().is_multiple_of(2) {
            tracing::warn!(
                masters = self.clients.len(),
                "an even number of masters bears no more failures than one less"
            );
        }
        Ok(longest)
    }
}
