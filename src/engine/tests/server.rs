//! A server that lives in memory and on tokio's clock: keys with a hold and a TTL, channels, and what the scripts do to
//! them. It knows no client but ours and "another one".

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{
    backend::{FaultKind, Heard, Listener},
    engine::{Attempt, Forced, HoldNumber, Letting, Moved, Published, Renewal, Sight},
};

/// How subscriptions fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Confirmed at once.
    Prompt,
    /// Confirmed when a test says so.
    ByHand,
    Refused,
}

pub(super) struct Server {
    keys: HashMap<Arc<str>, Key>,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) subscriptions_made: usize,
    pub(super) hearing: Hearing,
    /// Listeners of other processes.
    pub(super) others: u32,
    /// How long a message is on its way.
    pub(super) lag: Duration,
    /// Whether it can say how many a message reached.
    pub(super) counts: bool,
    /// So many replicas have everything.
    pub(super) replicas: u32,
    /// Keys whose renewals have no answer of their own, whatever becomes of those that go with them.
    pub(super) failing: HashMap<Arc<str>, FaultKind>,
    /// What is said to the next fresh acquires, whatever is there.
    pub(super) answers: VecDeque<Attempt>,
    /// Kept by every task of the server's and of the network's.
    running: Arc<()>,
}

#[derive(Debug)]
struct Key {
    /// `None` is another process.
    holder: Option<u64>,
    count: u32,
    expires: Instant,
}

pub(super) struct Subscriber {
    id: usize,
    channel: Arc<str>,
    listener: Arc<dyn Listener>,
    confirmed: bool,
}

pub(super) fn channel(key: &str) -> Arc<str> {
    Arc::from(format!("channel of {key}"))
}

impl Default for Server {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            subscribers: Vec::new(),
            subscriptions_made: 0,
            hearing: Hearing::Prompt,
            others: 0,
            lag: Duration::ZERO,
            counts: true,
            replicas: 0,
            failing: HashMap::new(),
            answers: VecDeque::new(),
            running: Arc::default(),
        }
    }
}

impl Server {
    pub(super) fn holder(&mut self, key: &str) -> Option<(Option<u64>, u32)> {
        self.live(key).map(|key| (key.holder, key.count))
    }

    pub(super) fn ttl(&mut self, key: &str) -> Duration {
        self.live(key).map_or(Duration::ZERO, |key| key.expires - Instant::now())
    }

    /// Another process takes the key, or goes on holding it.
    pub(super) fn other_takes(&mut self, key: &str, lease: Duration) {
        assert!(self.live(key).is_none_or(|key| key.holder.is_none()), "{key} is held by us");
        self.keys.insert(Arc::from(key), Key { holder: None, count: 1, expires: Instant::now() + lease });
    }

    /// Another process asks for the key; whether it has it now.
    pub(super) fn other_tries(&mut self, key: &str, lease: Duration) -> bool {
        let free = self.live(key).is_none();
        if free {
            self.other_takes(key, lease);
        }
        free
    }

    /// Another process takes the key, whoever has it: the server had lost it for a moment.
    pub(super) fn other_wrests(&mut self, key: &str, lease: Duration) {
        self.delete(key);
        self.other_takes(key, lease);
    }

    /// Another process frees the key, whoever has it, and says so.
    pub(super) fn other_frees(&mut self, key: &str) {
        self.keys.remove(key);
        self.publish(&channel(key));
    }

    /// A message that nothing happened for.
    pub(super) fn publish_only(&mut self, key: &str) {
        self.publish(&channel(key));
    }

    /// What made it last longer than this is lost.
    pub(super) fn forgets_extensions(&mut self, key: &str, lease: Duration) {
        if let Some(there) = self.live(key) {
            there.expires = there.expires.min(Instant::now() + lease);
        }
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.keys.remove(key);
    }

    pub(super) fn subscribe(&mut self, channel: Arc<str>, listener: Arc<dyn Listener>) -> usize {
        self.subscriptions_made += 1;
        let id = self.subscriptions_made;
        let confirmed = self.hearing == Hearing::Prompt;
        self.subscribers.push(Subscriber { id, channel, listener: Arc::clone(&listener), confirmed });
        let news = match self.hearing {
            Hearing::Prompt => Heard::Subscribed,
            Hearing::Refused => Heard::Refused,
            Hearing::ByHand => return id,
        };
        self.by_itself(async move { listener.hear(news) });
        id
    }

    pub(super) fn unsubscribe(&mut self, id: usize) {
        self.subscribers.retain(|subscriber| subscriber.id != id);
    }

    /// Every subscription is there from now on, or is not; who has to hear of it.
    pub(super) fn subscribed(&mut self, confirmed: bool) -> Vec<Arc<dyn Listener>> {
        self.subscribers.iter_mut().for_each(|subscriber| subscriber.confirmed = confirmed);
        self.subscribers.iter().map(|subscriber| Arc::clone(&subscriber.listener)).collect()
    }

    /// Something that the server or the network does by itself.
    pub(super) fn by_itself(&self, work: impl Future<Output = ()> + Send + 'static) {
        let running = Arc::clone(&self.running);
        tokio::spawn(async move {
            work.await;
            drop(running);
        });
    }

    /// How many of the tasks that are alive are the server's and the network's own.
    pub(super) fn tasks(&self) -> usize {
        Arc::strong_count(&self.running) - 1
    }

    fn live(&mut self, key: &str) -> Option<&mut Key> {
        let now = Instant::now();
        if self.keys.get(key).is_some_and(|key| key.expires <= now) {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    fn mine(&mut self, key: &str, number: u64) -> Option<&mut Key> {
        self.live(key).filter(|key| key.holder == Some(number))
    }

    fn publish(&mut self, channel: &Arc<str>) -> Published {
        let ours: Vec<_> = self
            .subscribers
            .iter()
            .filter(|subscriber| subscriber.confirmed && subscriber.channel == *channel)
            .map(|subscriber| Arc::clone(&subscriber.listener))
            .collect();
        let reached = self.others + u32::try_from(ours.len()).unwrap();
        if !ours.is_empty() {
            let lag = self.lag;
            self.by_itself(async move {
                if !lag.is_zero() {
                    sleep(lag).await;
                }
                ours.iter().for_each(|listener| listener.hear(Heard::Message(b"0")));
            });
        }
        if self.counts { Published::To(reached) } else { Published::Uncounted }
    }

    pub(super) fn acquire(&mut self, key: &Arc<str>, number: u64, lease: Duration, holds: u32) -> Attempt {
        let expires = Instant::now() + lease;
        if holds == 1
            && let Some(answer) = self.answers.pop_front()
        {
            return answer;
        }
        match self.live(key) {
            None if holds > 1 => Attempt::Gone,
            None => {
                self.keys.insert(Arc::clone(key), Key { holder: Some(number), count: 1, expires });
                Attempt::Granted { holds: 1, fence: None }
            }
            Some(there) if there.holder == Some(number) => {
                there.count = there.count.max(holds);
                there.expires = there.expires.max(expires);
                Attempt::Granted { holds: there.count, fence: None }
            }
            Some(there) => Attempt::Busy { retry_in: Some(there.expires - Instant::now()) },
        }
    }

    pub(super) fn release(&mut self, key: &Arc<str>, number: u64, holds: u32) -> Letting {
        let Some(there) = self.mine(key, number) else { return Letting::NotHeld };
        if holds == 0 {
            self.keys.remove(key);
            return Letting::Done { holds: 0, published: self.publish(&channel(key)) };
        }
        there.count = there.count.min(holds);
        Letting::Done { holds, published: Published::No }
    }

    pub(super) fn hand_over(&mut self, key: &Arc<str>, from: u64, to: u64, lease: Duration) -> Moved {
        let expires = Instant::now() + lease;
        if let Some(there) = self.mine(key, from) {
            let shorter = expires < there.expires;
            *there = Key { holder: Some(to), count: 1, expires };
            let published = if shorter { self.publish(&channel(key)) } else { Published::No };
            return Moved::Done { published, fence: None };
        }
        match self.mine(key, to) {
            Some(there) => {
                there.expires = there.expires.max(expires);
                Moved::Done { published: Published::No, fence: None }
            }
            None => Moved::Gone,
        }
    }

    pub(super) fn renew(&mut self, key: &Arc<str>, number: u64, lease: Duration) -> Renewal {
        let expires = Instant::now() + lease;
        match self.mine(key, number) {
            Some(there) => {
                there.expires = there.expires.max(expires);
                Renewal::Renewed
            }
            None => Renewal::Gone,
        }
    }

    pub(super) fn sight(&mut self, key: &Arc<str>) -> Option<Sight> {
        let now = Instant::now();
        self.live(key).map(|there| Sight {
            holders: vec![(there.holder.map_or_else(|| "other".to_owned(), |own| format!("own:{own}")), there.count)],
            remaining_lease: Some(there.expires - now),
            ours: there.holder.map(HoldNumber).into_iter().collect(),
        })
    }

    pub(super) fn force_release(&mut self, key: &Arc<str>, seen: &[Option<u64>]) -> Forced {
        if !self.live(key).is_some_and(|there| seen.contains(&there.holder)) {
            return Forced::Gone;
        }
        self.keys.remove(key);
        Forced::Done { published: self.publish(&channel(key)) }
    }
}
