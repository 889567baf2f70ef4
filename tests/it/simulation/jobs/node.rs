//! One process of a fleet: it asks by a schedule, or by a timer of its own that is early or late, and what its work does is drawn.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use relatch::{CancellationToken, Client, EmbeddedStore, Error, JobContext, Outcome, PeriodicJob, Result};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Mix, NAME,
    ledger::{AtWork, Ledger, Said, State},
};
use crate::harness::random::Random;

/// Where a future of a node is polled and then not, for so long at most.
const LONGEST_PARKED: u64 = 1_500;

/// How a node comes to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// The library's own timer.
    Scheduled,
    /// A timer of its own, whose clock is apart from the others'.
    Timed,
    /// Again and again.
    Restless,
}

pub(super) struct Node {
    pub(super) client: Client,
    pub(super) habit: Habit,
    pub(super) number: u64,
    pub(super) stop: CancellationToken,
    /// Whoever runs its work is dropped, or nobody is told any more.
    pub(super) dropped: Arc<AtomicBool>,
    pub(super) task: Option<JoinHandle<Result<()>>>,
}

/// What all tasks of a node know.
#[derive(Clone)]
struct Ship {
    ledger: Arc<Ledger>,
    store: EmbeddedStore,
    client: Client,
    mix: Mix,
    stop: CancellationToken,
    dropped: Arc<AtomicBool>,
    storm: Arc<AtomicBool>,
}

impl Node {
    pub(super) fn new(client: Client, habit: Habit, number: u64) -> Self {
        let (stop, dropped) = (CancellationToken::new(), Arc::default());
        Self { client, habit, number, stop, dropped, task: None }
    }

    /// It sets out, perhaps not for the first time.
    pub(super) fn goes(
        &mut self,
        ledger: &Arc<Ledger>,
        store: &EmbeddedStore,
        mix: Mix,
        storm: &Arc<AtomicBool>,
        random: &mut Random,
    ) {
        let (ledger, store, storm) = (Arc::clone(ledger), store.clone(), Arc::clone(storm));
        (self.stop, self.dropped) = (CancellationToken::new(), Arc::default());
        let (client, stop, dropped) = (self.client.clone(), self.stop.clone(), Arc::clone(&self.dropped));
        let ship = Ship { ledger, store, client, mix, stop, dropped, storm };
        let random = Random::new(random.next(), &[]);
        self.task = Some(match self.habit {
            Habit::Scheduled => tokio::spawn(ship.follows_schedule(random)),
            Habit::Timed => tokio::spawn(ship.follows_its_clock(random)),
            Habit::Restless => tokio::spawn(ship.never_rests(random)),
        });
    }
}

impl Ship {
    fn job(&self) -> PeriodicJob {
        self.mix.job(&self.client)
    }

    async fn follows_schedule(self, mut random: Random) -> Result<()> {
        let parks = random.once_in_a_while(self.mix.parked);
        let (job, stop, ship) = (self.job(), self.stop.clone(), self.clone());
        let mut works = random.clone();
        let work = move |ctx: JobContext| {
            let (ship, random) = (ship.clone(), Random::new(works.next(), &[]));
            let at_work = ship.ledger.begins(ship.client.id(), ctx.clone(), [&ship.dropped; 2]);
            if ship.stop.is_cancelled() {
                ship.ledger.complain("work begins on a node that is to stop", format!("{ctx:?}"));
            }
            async move { ship.works(ctx, at_work, random).await }
        };
        // Who is not polled for a while is not bound to come in time.
        if !parks {
            let now = self.ledger.now();
            self.ledger.up_to_date().reach.follows(self.client.id(), now);
        }
        let scheduled = job.schedule(stop, work);
        if parks { self.by_halves(scheduled, &mut random).await } else { scheduled.await }
    }

    /// As a future that somebody polls for a while, and then not.
    async fn by_halves<F: Future>(&self, future: F, random: &mut Random) -> F::Output {
        let mut future = pin!(future);
        loop {
            if let Ok(output) = timeout(random.millis(1, 2_000), &mut future).await {
                return output;
            }
            if self.storm.load(Ordering::Relaxed) {
                sleep(random.millis(1, LONGEST_PARKED)).await;
            }
        }
    }

    async fn follows_its_clock(self, mut random: Random) -> Result<()> {
        let terms = self.ledger.terms;
        let mut next = Instant::now() + random.millis(0, u64::try_from(terms.every.as_millis()).expect("short"));
        while !self.rests_until(next).await {
            next += terms.every;
            if self.asks(&mut random).await == Asked::Closed {
                break;
            }
        }
        Ok(())
    }

    async fn never_rests(self, mut random: Random) -> Result<()> {
        let longest = u64::try_from(self.ledger.terms.every.as_millis() / 2).expect("short");
        while !self.rests_until(Instant::now() + random.millis(1, longest)).await {
            if self.asks(&mut random).await == Asked::Closed {
                break;
            }
        }
        Ok(())
    }

    /// Whether it is to stop by then.
    async fn rests_until(&self, next: Instant) -> bool {
        self.stop.run_until_cancelled(sleep_until(next)).await.is_none()
    }

    async fn asks(&self, random: &mut Random) -> Asked {
        let storm = self.storm.load(Ordering::Relaxed);
        if storm && random.once_in_a_while(self.mix.reset) {
            self.ledger.tell("reset".to_owned());
            drop(self.job().reset().await);
        }
        self.aims(random);
        // What it did, if it began: its number, and one more.
        let (did, dropped) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let inner = Random::new(random.next(), &[]);
        let work = |ctx: JobContext| {
            let at_work = self.ledger.begins(self.client.id(), ctx.clone(), [&self.dropped, &dropped]);
            did.store(at_work.number() + 1, Ordering::Relaxed);
            self.works(ctx, at_work, inner)
        };
        let job = self.job();
        let run = job.run(work);
        let answer = match random.below(1_000) {
            draw if draw < self.mix.dropped => {
                let (polls, limit) = (random.below(8), random.millis(0, 60));
                dropped.store(true, Ordering::Relaxed);
                timeout(limit, after_polls(run, polls)).await.ok().flatten()
            }
            draw if draw < self.mix.dropped + self.mix.parked => Some(self.by_halves(run, random).await),
            _ => Some(run.await),
        };
        let Some(answer) = answer else { return Asked::Answered };
        let closed = matches!(answer, Err(Error::Closed)) || self.client.is_closed();
        let did = did.load(Ordering::Relaxed).checked_sub(1);
        self.ledger.answered(said(answer), did);
        if closed { Asked::Closed } else { Asked::Answered }
    }

    async fn works(&self, ctx: JobContext, at_work: AtWork, mut random: Random) -> std::result::Result<(), ()> {
        let length = match random.below(1_000) {
            draw if draw < self.mix.beyond => self.ledger.terms.every.mul_f64(random.below(1_500) as f64 / 1_000.0),
            draw if draw < 300 => self.ledger.terms.lease.mul_f64(random.below(3_000) as f64 / 1_000.0),
            _ => random.millis(0, 40),
        };
        let stop = ctx.cancellation();
        drop(ctx);
        let is_whole = stop.run_until_cancelled(sleep(length)).await.is_some();
        if self.storm.load(Ordering::Relaxed) && random.once_in_a_while(self.mix.leaps) {
            // Its lease is over at the server, which it does not know.
            let by = self.ledger.terms.lease + random.millis(0, 200);
            self.ledger.steps(true, by);
            self.ledger.tell(format!("the clock leaps by {by:?} beneath some work"));
            self.store.set_clock_forward(by);
        }
        self.aims(&mut random);
        let fails = random.once_in_a_while(self.mix.fails) || !is_whole;
        at_work.ends(if fails { State::Failed } else { State::Done });
        if fails { Err(()) } else { Ok(()) }
    }

    /// Something may befall what this client sends next.
    fn aims(&self, random: &mut Random) {
        if !self.storm.load(Ordering::Relaxed) || !random.once_in_a_while(self.mix.aimed) {
            return;
        }
        let (store, client) = (&self.store, &self.client);
        let later = random.millis(0, u64::try_from(self.ledger.terms.every.as_millis()).expect("short") * 3 / 2);
        let kind = match random.below(8) {
            0 => store.drop_next_request(client).map(|()| "lost request"),
            1 | 2 => store.drop_next_reply(client).map(|()| "lost reply"),
            3..6 => store.duplicate_next(client, later).map(|()| "copy"),
            6 => store.duplicate_next(client, later).and_then(|()| store.drop_next_request(client)).map(|()| "held up"),
            _ => store.cut(client).map(|()| "cut"),
        };
        if let Ok(kind) = kind {
            self.ledger.tell(format!("{kind}, aimed at {}", client.id()));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Answered,
    Closed,
}

fn said(answer: Result<Outcome<(), ()>>) -> Said {
    match answer {
        Ok(Outcome::Ran(())) => Said::Ran,
        Ok(Outcome::Failed { .. }) => Said::Failed,
        Ok(Outcome::Lost { .. }) => Said::Lost,
        Ok(Outcome::Unrecorded(..)) => Said::Unrecorded,
        Ok(_) => Said::NotHere,
        Err(error) => Said::Fault(error),
    }
}

/// A future's output, unless it is polled so many times in vain.
async fn after_polls<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

impl Mix {
    pub(super) fn job(&self, client: &Client) -> PeriodicJob {
        let terms = self.terms;
        let job = client.periodic_job(NAME, terms.every).offset(terms.offset).start_within(terms.within);
        let job = job.max_attempts(u32::try_from(terms.max_attempts).expect("few"));
        match self.fixed {
            Some(lease) => job.attempt_lease(lease),
            None => job,
        }
    }
}

/// So long may work go on, where nothing ends it.
pub(super) fn longest_work(mix: &Mix) -> Duration {
    mix.terms.every * 3 / 2 + mix.terms.lease * 3
}
