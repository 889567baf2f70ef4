//! What all names of one RedLock share: its masters, its terms, and which holds are alive.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    ballot::{Word, majority, may_have},
    identity::Identity,
    master::Master,
    report::{Said, Vote, Votes},
    round::{Asked, Each},
};
use crate::{
    backend::{Dispatch, Fault, FaultKind, RoundTrip},
    chance::Chance,
    engine::{HoldNumber, Protocol},
};

/// A master that says nothing is waited for so long, by default: this part of the lease, within these bounds.
const PART_OF_LEASE: u32 = 20;
const SHORTEST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// And no shorter than so many of the longest round trips that were measured.
const ROUND_TRIPS: u32 = 4;

/// So few numbers are not looked through for those that are over.
const MANY: usize = 1024;

/// Makes what a name is at one master. Which master is told by its place among all.
pub(crate) type Member = Arc<dyn Fn(usize, &str) -> Arc<dyn Protocol> + Send + Sync>;

/// What a RedLock was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// A master that may have forgotten what it was told counts for nothing for so long.
    pub(crate) quarantine: Duration,
    /// How long a master is waited for; `None`: by the lease and by the way.
    pub(crate) master_timeout: Option<Duration>,
    pub(crate) watchdog: Duration,
    pub(crate) command_timeout: Duration,
}

/// The masters of one RedLock, and what is known of its holds.
pub(crate) struct Fleet {
    pub(super) masters: Box<[Arc<Master>]>,
    pub(super) terms: Terms,
    /// Numbers that were voted on, and that were not released.
    live: DashMap<u64, Live>,
    /// With more of them those that are over are looked for.
    many: AtomicUsize,
    /// Where what nobody waits for goes on.
    home: Handle,
    pub(super) chance: Chance,
    pub(super) closed: CancellationToken,
    pub(super) identity: Identity,
}

/// How the vote for a number went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Won,
    /// What it got is about to be released.
    Lost,
}

/// A number that was voted on, until it is released.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) standing: Standing,
    /// Masters where its acquire never ran, and never will.
    pub(super) absent: Mask,
    /// Masters that its acquire may not have left for when it was won.
    pub(super) leaving: Vec<(usize, Arc<Dispatch>)>,
    /// Masters where a copy of its acquire may run late.
    pub(super) unclean: Mask,
    /// The longest that it was asked for with.
    pub(super) lease: Duration,
    /// Nobody believes in it any more from then on, unless it is renewed.
    pub(super) until: Instant,
}

/// Some of the masters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask(u64);

/// More masters than anybody has.
pub(crate) const MOST: usize = 64;

impl Mask {
    pub(super) fn with(self, master: usize) -> Self {
        Self(self.0 | 1 << master)
    }

    pub(super) fn without(self, master: usize) -> Self {
        Self(self.0 & !(1 << master))
    }

    pub(super) fn has(self, master: usize) -> bool {
        self.0 & 1 << master != 0
    }
}

impl Fleet {
    pub(crate) fn new(masters: Vec<Master>, terms: Terms, home: Handle, chance: Chance) -> Arc<Self> {
        let masters = masters.into_iter().map(Arc::new).collect();
        Arc::new(Self {
            masters,
            terms,
            live: DashMap::new(),
            many: AtomicUsize::new(MANY),
            home,
            chance,
            closed: CancellationToken::new(),
            identity: Identity::default(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.masters.len()
    }

    /// Its masters as people know them, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.masters.iter().map(|master| master.name.clone()).collect()
    }

    /// For how much longer the grants of this one count for nothing.
    pub(crate) fn young_for(&self, master: usize, key: &str) -> Option<Duration> {
        self.masters.get(master)?.young_for(key, self.terms.quarantine, Instant::now())
    }

    /// What is left of earlier questions is heard no more, and nothing is repeated.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// How long a master is waited for that says nothing.
    pub(super) fn patience(&self, key: &str, lease: Duration) -> Duration {
        let longest = |way: RoundTrip| way.longest;
        let way = self.masters.iter().filter_map(|master| master.backend.round_trip(key)).map(longest).max();
        let usual = || {
            let by_lease = (lease / PART_OF_LEASE).clamp(SHORTEST_WAIT, LONGEST_WAIT);
            by_lease.max(way.unwrap_or_default() * ROUND_TRIPS)
        };
        self.terms.master_timeout.unwrap_or_else(usual).min(self.terms.command_timeout)
    }

    /// Whether a majority gave it, and it was not released yet.
    pub(super) fn lives(&self, number: HoldNumber) -> bool {
        self.live.get(&number.0).is_some_and(|live| live.standing == Standing::Won)
    }

    pub(super) fn stands(&self, number: HoldNumber, live: Live) {
        self.live.insert(number.0, live);
        // A few are never released: holds that were given away by their token, or lost with nothing left.
        if self.live.len() > self.many.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.live.retain(|_, live| now < live.until + live.lease);
            self.many.store((2 * self.live.len()).max(MANY), Ordering::Relaxed);
        }
    }

    /// It lives for so long from now.
    pub(super) fn renewed(&self, number: HoldNumber, lease: Duration) {
        if let Some(mut live) = self.live.get_mut(&number.0) {
            (live.lease, live.until) = (live.lease.max(lease), live.until.max(Instant::now() + lease));
        }
    }

    /// A master where it never ran is asked for it after all.
    pub(super) fn asked_again(&self, number: HoldNumber, master: usize) {
        if let Some(mut live) = self.live.get_mut(&number.0) {
            live.absent = live.absent.without(master);
            // Behind its release it must not leave any more, and nothing is to say then that it never did.
            live.leaving.retain(|(at, dispatch)| {
                let stays = *at != master;
                if !stays {
                    dispatch.withdraw();
                }
                stays
            });
        }
    }

    /// It is over, and what has not left for it does not leave any more.
    pub(super) fn is_over(&self, number: HoldNumber) -> Option<(Duration, Mask)> {
        let live = self.over(number)?;
        live.leaving.iter().for_each(|(_, dispatch)| {
            dispatch.withdraw();
        });
        Some((live.lease, live.unclean))
    }

    /// It is over: what is known of it, unless it was over before.
    pub(super) fn over(&self, number: HoldNumber) -> Option<Live> {
        self.live.remove(&number.0).map(|(_, live)| live)
    }

    /// A copy of its acquire may run late. False if it is over: nobody will look.
    pub(super) fn is_unclean(&self, number: HoldNumber, master: usize) -> bool {
        let live = self.live.get_mut(&number.0);
        live.map(|mut live| live.unclean = live.unclean.with(master)).is_some()
    }

    /// Goes on in the background, until the RedLock is closed.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let closed = self.closed.clone();
        self.home.spawn(async move { closed.run_until_cancelled(work).await.unwrap_or_default() });
    }

    /// An answer that nobody waits for any more: it says whether the master is there, and `then` what is to be done about it.
    pub(super) fn hears_later<T: Send + 'static>(
        &self,
        master: usize,
        reply: impl Future<Output = Result<T, Fault>> + Send + 'static,
        then: impl FnOnce(Result<T, Fault>) + Send + 'static,
    ) {
        let master = Arc::clone(&self.masters[master]);
        let left = master.leaves_behind();
        self.spawn(async move {
            let answer = reply.await;
            master.said(&answer);
            drop(left);
            then(answer);
        });
    }

    /// Too few masters said anything that counts: what each of them said, as an error is told.
    pub(super) fn too_few<R, T>(&self, key: &str, asked: &[Asked<R, T>], said: impl Fn(&T) -> Option<Said>) -> Fault {
        let (n, now) = (self.masters.len(), Instant::now());
        let quarantine = self.terms.quarantine;
        let votes = asked.iter().map(|asked| {
            let master = &asked.master;
            let young = || master.young_for(key, quarantine, now).unwrap_or_default();
            let said = match &asked.answer {
                Some(Ok(_)) if asked.word == Word::Young => Said::Young { for_another: young() },
                Some(Ok(answer)) => said(answer).unwrap_or(Said::Gone),
                Some(Err(fault)) => Said::of(fault),
                None if asked.word == Word::Open => Said::NotWaitedFor,
                None => Said::Silent,
            };
            Vote { master: master.name.clone(), said, took: asked.took }
        });
        let votes = Votes { needed: majority(n), votes: votes.collect() };
        let faults: Each<&Fault> = asked.iter().filter_map(|asked| asked.answer.as_ref()?.as_ref().err()).collect();
        // A few that will not may be put right, one by one; where most will not, nobody could have it.
        let refused: Each<&&Fault> = faults.iter().filter(|fault| !fault.heals() && !ended(fault)).collect();
        let silent = asked.iter().all(|asked| match &asked.answer {
            Some(answer) => answer.as_ref().is_err_and(|fault| fault.is_silence() || ended(fault)),
            None => true,
        });
        let kind = match &refused[..] {
            [first, ..] if refused.len() > n - majority(n) => first.kind,
            _ if silent => FaultKind::Timeout,
            _ => FaultKind::Unready,
        };
        let may_have_run = asked.iter().any(|asked| match &asked.answer {
            Some(Err(fault)) => fault.may_have_run,
            Some(Ok(_)) => may_have(asked.word),
            None => asked.reply.is_some(),
        });
        Fault { source: Arc::new(votes), ..Fault::of(kind, may_have_run, "") }
    }
}

/// A client that is closed is a master that cannot be reached.
fn ended(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Closed | FaultKind::Withdrawn)
}

impl Said {
    pub(super) fn of(fault: &Fault) -> Self {
        match fault.kind {
            FaultKind::Timeout => Said::Silent,
            FaultKind::Dropped => Said::Unreachable(fault.source.to_string()),
            FaultKind::Closed | FaultKind::Withdrawn => Said::Unreachable("its client is closed".into()),
            _ => Said::Refused(fault.source.to_string()),
        }
    }
}
