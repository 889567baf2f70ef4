//! A primitive as the engine sees it, on the fake server.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    fake::{Track, World},
    fate::{Sent, Verb},
    server::{Server, channel},
};
use crate::{
    backend::{Acknowledged, Dispatch, Fault, Pending, Replicas, Reply},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Renewal, RenewalGroup, Sight},
    lease::whole_ms,
};

/// A lock on the server above.
pub(super) struct FakeLock {
    world: Arc<World>,
    name: Arc<str>,
    channel: Arc<str>,
    passes: bool,
    shard: u64,
}

impl FakeLock {
    /// Whether its holds may be passed on without a word to the server, and where its renewals go.
    pub(super) fn on(world: &Arc<World>, name: &str, passes: bool, shard: u64) -> Arc<dyn Protocol> {
        Arc::new(Self { world: Arc::clone(world), name: Arc::from(name), channel: channel(name), passes, shard })
    }

    fn sent(&self, verb: Verb, numbers: Vec<u64>, holds: u32, lease: Duration) -> Sent {
        Sent { verb, keys: vec![Arc::clone(&self.name)], numbers, holds, lease, at: Instant::now() }
    }

    fn send<T: Send + 'static>(
        &self,
        sent: Sent,
        dispatch: Option<&Arc<Dispatch>>,
        run: impl Fn(&mut Server, &Arc<str>) -> T + Send + Sync + 'static,
    ) -> Pending<Result<T, Fault>> {
        let key = Arc::clone(&self.name);
        self.world.send(sent, self.world.command_timeout, dispatch, move |server| run(server, &key))
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

    fn channel(&self) -> Arc<str> {
        Arc::clone(&self.channel)
    }

    fn passes(&self) -> bool {
        self.passes
    }

    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let lease = sendable(lease);
        let sent = self.sent(Verb::Acquire, vec![number.0], holds, lease);
        Reply::Told(self.send(sent, Some(dispatch), move |server, key| server.acquire(key, number.0, lease, holds)))
    }

    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        let (lease, key, within) = (sendable(lease), Arc::clone(&self.name), self.world.command_timeout);
        let sent = self.sent(Verb::Acquire, vec![number.0], 1, lease);
        let attempt = self
            .world
            .send_by(Track::Own, sent, within, Some(dispatch), move |server| server.acquire(&key, number.0, lease, 1));
        let world = Arc::clone(&self.world);
        let acknowledged: Acknowledged = Box::pin(async move {
            sleep(replicas.within).await;
            Ok(world.server(|server| server.replicas))
        });
        Box::pin(async move { Ok((attempt.await?, acknowledged)) })
    }

    fn release(&self, number: HoldNumber, holds: u32, _: Note) -> Reply<Letting> {
        let sent = self.sent(Verb::Release, vec![number.0], holds, Duration::ZERO);
        Reply::Told(self.send(sent, None, move |server, key| server.release(key, number.0, holds)))
    }

    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>> {
        let lease = sendable(lease);
        let sent = self.sent(Verb::HandOver, vec![from.0, to.0], 1, lease);
        self.send(sent, None, move |server, key| server.hand_over(key, from.0, to.0, lease))
    }

    fn renewal_group(&self) -> RenewalGroup {
        RenewalGroup("fake", self.shard)
    }

    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        let holds: Vec<(Arc<str>, _)> = holds.iter().map(|(key, number)| (Arc::from(*key), *number)).collect();
        let lease = sendable(lease);
        let numbers = holds.iter().map(|(_, number)| number.0).collect();
        let keys = holds.iter().map(|(key, _)| Arc::clone(key)).collect();
        let sent = Sent { keys, ..self.sent(Verb::Renew, numbers, 0, lease) };
        let asked = holds.len();
        let answers = self.world.send(sent, within, Some(dispatch), move |server| {
            let renew = |(key, number): &(Arc<str>, HoldNumber)| match server.failing.get(key) {
                Some(kind) => Err(Fault::of(*kind, false, "the test wants it")),
                None => Ok(server.renew(key, number.0, lease)),
            };
            holds.iter().map(renew).collect::<Vec<_>>()
        });
        Box::pin(async move {
            match answers.await {
                Ok(answers) => answers,
                Err(fault) => vec![Err(fault); asked],
            }
        })
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        self.send(self.sent(Verb::Inspect, Vec::new(), 0, Duration::ZERO), None, Server::sight)
    }

    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>> {
        let numbers: Vec<u64> = seen.ours.iter().map(|number| number.0).collect();
        let seen: Vec<Option<u64>> = match numbers.is_empty() {
            true => vec![None],
            false => numbers.iter().copied().map(Some).collect(),
        };
        self.send(self.sent(Verb::ForceRelease, numbers, 0, Duration::ZERO), None, move |server, key| {
            server.force_release(key, &seen)
        })
    }
}
