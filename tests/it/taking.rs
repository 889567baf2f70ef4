//! Whoever takes one lock after the other while servers fail, and what each holder must have been told afterwards.

use std::time::{Duration, Instant};

use relatch::{Client, Error, LockGuard, LostCause};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::harness::{deployment::Deployment, lag::Lag};

/// What must come comes within this.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// After the first link to another master every holder is told within this, up to ten thousand, and of more within the other.
pub(crate) const TOLD: Duration = Duration::from_millis(1500);
const ALL_TOLD: Duration = Duration::from_secs(5);
/// So much longer than the servers themselves a client takes at most.
const BEHIND: Duration = Duration::from_secs(1);
/// One lock is taken after the other, so far apart that servers and test have time for what else they do: a rate, nobody waits for
/// anything in it.
const PACE: Duration = Duration::from_millis(5);
/// So many locks are taken before a blow.
const SEVERAL: usize = 30;

/// A new name of those that are looked at.
pub(crate) type Naming = fn() -> String;

/// How often each blow is struck: `RELATCH_FAILOVERS` says more than once.
pub(crate) fn rounds() -> usize {
    std::env::var("RELATCH_FAILOVERS").map_or(1, |rounds| rounds.parse().expect("a number"))
}

/// How many holds are lost in one failover: `RELATCH_LOST_HOLDS` says more than a few.
pub(crate) fn lost_holds() -> usize {
    std::env::var("RELATCH_LOST_HOLDS").map_or(200, |holds| holds.parse().expect("a number"))
}

/// Takes one new lock after the other, for as long as nobody stops it.
pub(crate) struct Taker {
    taking: JoinHandle<Vec<(Instant, LockGuard)>>,
    latest: watch::Receiver<Latest>,
    stop: watch::Sender<bool>,
}

/// How many were taken, and when the last one was.
type Latest = Option<(usize, Instant)>;

impl Taker {
    pub(crate) fn start(client: &Client, name: Naming) -> Self {
        let ((stop, stopped), (tell, latest)) = (watch::channel(false), watch::channel(None));
        let client = client.clone();
        let taking = async move {
            let mut taken = Vec::new();
            while !*stopped.borrow() {
                match client.mutex(name()).try_lock().lease(SOON * 6).wait(SOON).await {
                    Ok(guard) => {
                        taken.push((Instant::now(), guard.expect("nobody else has it")));
                        tell.send_replace(taken.last().map(|(at, _)| (taken.len(), *at)));
                    }
                    Err(error) => assert!(error.is_transient(), "{error:?}"),
                }
                sleep(PACE).await;
            }
            taken
        };
        Self { taking: tokio::spawn(taking), latest, stop }
    }

    /// It has taken several.
    pub(crate) async fn takes_several(&mut self) {
        self.goes_on(|taken, _| taken >= SEVERAL).await;
    }

    /// It has taken one since.
    pub(crate) async fn takes_after(&mut self, instant: Instant) {
        self.goes_on(|_, last| last > instant).await;
    }

    async fn goes_on(&mut self, until: impl Fn(usize, Instant) -> bool) {
        let taken = self.latest.wait_for(|latest| latest.is_some_and(|(taken, last)| until(taken, last)));
        timeout(SOON, taken).await.expect("it goes on").expect("no panic");
    }

    pub(crate) async fn stop(self) -> Vec<(Instant, LockGuard)> {
        self.stop.send(true).expect("it takes until it is stopped");
        self.taking.await.expect("no panic")
    }
}

/// Something is answered by whoever is the master now.
async fn is_linked(client: &Client, name: Naming) {
    let entered = client.mutex(name()).try_lock().wait(SOON).await.expect("it heals");
    entered.expect("nobody else has it").unlock().await.expect("it is held");
}

/// What every holder believes is what the master has. The others have been told: how many they are.
pub(crate) async fn all_is_told(
    deployment: &Deployment,
    master: &str,
    client: &Client,
    guards: &[LockGuard],
    name: Naming,
) -> usize {
    is_linked(client, name).await;
    let (linked, lag) = (Instant::now(), Lag::watch());
    let mut holders = redis::pipe();
    for guard in guards {
        holders.hkeys(guard.name());
    }
    let there: Vec<Vec<String>> = holders.query(&mut deployment.connection(master)).expect("HKEYS answers");
    let id = client.id().to_string();
    let is_ours = |fields: &Vec<String>| fields.iter().any(|field| field.starts_with(&id));
    let lost: Vec<_> =
        guards.iter().zip(&there).filter(|(_, fields)| !is_ours(fields)).map(|(guard, _)| guard).collect();
    for guard in &lost {
        let told = timeout(SOON, guard.lost()).await.expect("it is told long before its lease ends");
        assert!(matches!(told, Error::Lost { cause: LostCause::Gone, .. }), "{told:?}");
    }
    let told = linked.elapsed();
    println!("{} of {} lost, and told within {told:?}", lost.len(), guards.len());
    let bound = lag.added_to(if guards.len() <= 10_000 { TOLD } else { ALL_TOLD });
    assert!(told < bound, "{told:?}, where it was {bound:?} at most");
    // As long as it may take until the last of them is asked for: that nobody else is told only the end of that time shows.
    sleep(bound.saturating_sub(linked.elapsed())).await;
    assert_eq!(guards.iter().filter(|guard| !guard.is_held()).count(), lost.len(), "nobody else was told so");
    lost.len()
}

/// The first lock that was taken after `blow` came no later than the servers made possible, and the machine since then.
#[track_caller]
pub(crate) fn was_soon<T>(taken: &[(Instant, T)], blow: Instant, switched: Instant, lag: Lag) {
    let first = taken.iter().map(|(at, _)| *at).find(|at| *at > switched).expect("one after the failover");
    let (gap, theirs) = (first - blow, switched - blow);
    let bound = theirs + lag.added_to(BEHIND);
    assert!(gap < bound, "the servers took {theirs:?}, and then it took until {gap:?}");
    println!("a gap of {gap:?}, of which {theirs:?} were the servers'");
}
