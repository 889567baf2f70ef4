//! All subscriptions of a client, over one connection that is opened when the first is wanted. Keeps no message.

mod channels;
mod requests;
pub(super) mod subscriber;

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};

pub(super) use self::requests::Verb;
use self::{
    channels::Channels,
    requests::Requests,
    subscriber::{Sink, Subscriber},
};
use super::{
    faults,
    link::Cause,
    node::Node,
    options::Clients,
    outage::{Outage, Part},
};
use crate::{
    backend::{
        Listener, Publish, Subscription,
        backoff::{self, Backoff},
    },
    chance::Chance,
};

/// Takes subscriptions from any thread and hands them to the one task that serves them.
pub(super) struct PubSub {
    /// Unbounded, so that neither subscribing nor dropping a subscription ever waits. It holds at most two orders for
    /// each subscription that lives.
    orders: mpsc::UnboundedSender<Order>,
    next_id: AtomicU64,
}

impl PubSub {
    /// Beside the command link of this node, and for as long as that.
    pub(super) fn start(node: &Arc<Node>, kind: Publish) -> Self {
        let (sender, orders) = mpsc::unbounded_channel();
        let channels = Channels::new(node.secrets.clone(), Arc::clone(&node.said));
        let (node, elsewhere, changes) = (Arc::clone(node), node.elsewhere.subscribe(), node.aim.changes());
        let runtime = node.runtime.clone();
        runtime.spawn(async move {
            let backoff = Backoff::default();
            let (node, outage, command_timeout) = (&*node, &node.outage, node.command_timeout);
            let server = Server { node, kind, changes, command_timeout, orders, channels, backoff, outage, elsewhere };
            node.closed.run_until_cancelled(server.serve()).await;
        });
        Self { orders: sender, next_id: AtomicU64::new(0) }
    }

    pub(super) fn subscribe(&self, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        // Once the task is gone nobody listens any more, and there is nothing to undo.
        let _ = self.orders.send(Order::Join { channel: channel.clone(), id, listener });
        let orders = self.orders.clone();
        Subscription::new(move || {
            let _ = orders.send(Order::Leave { channel, id });
        })
    }
}

enum Order {
    Join { channel: Arc<str>, id: u64, listener: Arc<dyn Listener> },
    Leave { channel: Arc<str>, id: u64 },
}

/// The task behind all subscriptions.
struct Server<'a> {
    node: &'a Node,
    kind: Publish,
    changes: watch::Receiver<Arc<Clients>>,
    command_timeout: Duration,
    orders: mpsc::UnboundedReceiver<Order>,
    channels: Channels,
    backoff: Backoff,
    outage: &'a Outage,
    /// A link that was opened before this leads to another server than the commands' link.
    elsewhere: watch::Receiver<Instant>,
}

/// The backend is gone: nobody can order anything any more.
struct Abandoned;

impl Server<'_> {
    async fn serve(mut self) {
        while let Ok((tried, (sink, subscriber))) = self.open().await {
            let opened = Instant::now();
            let served = self.serve_link(sink, subscriber, tried).await;
            self.channels.interrupt();
            let Ok(cause) = served else { return };
            // Who has the names by now, others know.
            self.node.aim.missed();
            // The server is there, and gets another link at once.
            if cause != Cause::Moved {
                self.lost(cause);
            }
            // Not at its first answer: a link that is cut each time it has confirmed a channel would be opened in a loop.
            if opened.elapsed() > backoff::CAP {
                self.backoff.reset();
            }
        }
    }

    /// A connection, once somebody wants to listen, and since when it was tried for.
    async fn open(&mut self) -> Result<(Instant, (Sink, Subscriber)), Abandoned> {
        loop {
            while self.channels.is_empty() {
                self.outage.back(Part::Subscriptions);
                let order = self.orders.recv().await.ok_or(Abandoned)?;
                self.channels.apply(order);
            }
            let pause = self.backoff.pause(&Chance::System);
            let (aim, within, kind) = (&self.node.aim, self.command_timeout, self.kind);
            let mut attempt = pin!(async move {
                sleep(pause).await;
                let (tried, clients) = (Instant::now(), aim.now());
                let opened = timeout(within, subscriber::open(&clients, kind)).await;
                opened.map(|opened| match opened {
                    Ok(opened) => Ok((tried, opened)),
                    Err(error) => Err(faults::unconnected(&error, &clients)),
                })
            });
            while !self.channels.is_empty() {
                tokio::select! {
                    order = self.orders.recv() => {
                        self.channels.apply(order.ok_or(Abandoned)?);
                    }
                    attempt = attempt.as_mut() => match attempt {
                        Ok(Ok(opened)) => {
                            self.outage.back(Part::Subscriptions);
                            return Ok(opened);
                        }
                        Ok(Err(fault)) => {
                            tracing::debug!(error = %fault.source, "no subscription link");
                            self.lost(Cause::Cut);
                            break;
                        }
                        Err(_) => {
                            tracing::debug!("no subscription link in time");
                            self.lost(Cause::Silent);
                            break;
                        }
                    },
                    Ok(()) = self.changes.changed() => {
                        self.backoff.reset();
                        break;
                    }
                }
            }
        }
    }

    /// There is no link, which is nothing where none is wanted.
    fn lost(&self, cause: Cause) {
        match self.channels.is_empty() {
            true => self.outage.back(Part::Subscriptions),
            false => self.outage.lost(Part::Subscriptions, cause),
        }
    }

    /// Serves one connection until it ends: why it did.
    async fn serve_link(&mut self, sink: Sink, mut subscriber: Subscriber, tried: Instant) -> Result<Cause, Abandoned> {
        let mut requests = Requests::new(sink, self.command_timeout);
        self.channels.connected(&mut requests);
        let mut beat = interval(self.command_timeout);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        loop {
            if self.channels.moved() {
                // Who has them by now, others know.
                self.node.aim.missed();
            }
            tokio::select! {
                order = self.orders.recv() => {
                    let channel = self.channels.apply(order.ok_or(Abandoned)?);
                    self.channels.reconcile(&channel, &mut requests);
                }
                Some(answer) = requests.next() => {
                    // What was said before it is heard before it, and while it was asked.
                    while let Some(push) = subscriber.now() {
                        if !self.channels.hear(&push, true) {
                            return Ok(Cause::Moved);
                        }
                    }
                    if let Err(cause) = self.channels.answered(answer, &mut requests) {
                        tracing::debug!(?cause, "the subscription link is over");
                        return Ok(cause);
                    }
                }
                push = subscriber.next() => match push {
                    Some(push) if self.channels.hear(&push, requests.any()) => {}
                    Some(_) => return Ok(Cause::Moved),
                    None => {
                        tracing::debug!("the subscription link is over");
                        return Ok(Cause::Cut);
                    }
                },
                Ok(before) = self.elsewhere.wait_for(|before| tried < *before) => {
                    drop(before);
                    tracing::debug!("the subscription link leads to another server");
                    return Ok(Cause::Elsewhere);
                }
                () = until(self.channels.ask_again_at()) => self.channels.ask_again(&mut requests),
                () = until(self.channels.moved_again_at()) => self.channels.ask_for_moved(&mut requests),
                // A link that only ever listens would never find out that nobody speaks any more.
                // One at a time: answers belong to requests by their order, so a ping that is always followed by another would
                // never be missed where one answer was lost.
                _ = beat.tick(), if !self.channels.is_empty() && !requests.pings() => requests.send(Verb::Ping, None),
            }
        }
    }
}

/// For ever, if there is no such time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::backend::{
        Heard, Line,
        redis::{
            standalone::connect,
            testing::{Server, eventually, name, options},
        },
    };

    /// Remembers what it heard.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Listener for Recorder {
        fn hear(&self, heard: Heard<'_>) {
            self.0.lock().unwrap().push(match heard {
                Heard::Message(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => format!("{other:?}"),
            });
        }
    }

    impl Recorder {
        fn heard(&self) -> Vec<String> {
            self.0.lock().unwrap().clone()
        }

        async fn hears(&self, words: &[&str]) {
            eventually(&format!("{words:?} is heard"), || self.heard().len() >= words.len()).await;
            assert_eq!(self.heard(), words);
        }
    }

    fn channels(server: &Server) -> Vec<String> {
        let mut channels: Vec<String> = server.ask(&["PUBSUB", "CHANNELS"]);
        channels.sort();
        channels
    }

    #[tokio::test]
    async fn listeners_hear_the_confirmation_and_every_message() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        let (one, two, other) =
            (Arc::new(Recorder::default()), Arc::new(Recorder::default()), Arc::new(Recorder::default()));
        let first = backend.subscribe("", name("a"), one.clone());
        let _other = backend.subscribe("", name("b"), other.clone());
        one.hears(&["Subscribed"]).await;
        let _second = backend.subscribe("", name("a"), two.clone());
        two.hears(&["Subscribed"]).await;
        other.hears(&["Subscribed"]).await;
        let reached: i64 = server.ask(&["PUBLISH", "a", "0"]);
        assert_eq!(reached, 1);
        one.hears(&["Subscribed", "0"]).await;
        two.hears(&["Subscribed", "0"]).await;
        drop(first);
        let _: () = server.ask(&["PUBLISH", "a", "1"]);
        two.hears(&["Subscribed", "0", "1"]).await;
        one.hears(&["Subscribed", "0"]).await;
        other.hears(&["Subscribed"]).await;
    }

    #[tokio::test]
    async fn nothing_stays_subscribed_and_nothing_is_opened_before_it_is_wanted() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        let clients = |kind: &str| -> String { server.ask(&["CLIENT", "LIST", "TYPE", kind]) };
        assert_eq!(clients("pubsub"), "");
        let subscriptions: Vec<_> =
            (0..50).map(|n| backend.subscribe("", name(&format!("c{n}")), Arc::new(Recorder::default()))).collect();
        eventually("all are subscribed", || channels(&server).len() == 50).await;
        assert_eq!(clients("pubsub").lines().count(), 1);
        drop(subscriptions);
        eventually("none is subscribed", || channels(&server).is_empty()).await;
    }

    #[tokio::test]
    async fn leaving_and_coming_back_at_once_ends_subscribed() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        for _ in 0..50 {
            let first = Arc::new(Recorder::default());
            let subscription = backend.subscribe("", name("a"), first.clone());
            first.hears(&["Subscribed"]).await;
            drop(subscription);
            tokio::task::yield_now().await;
            let second = Arc::new(Recorder::default());
            let subscription = backend.subscribe("", name("a"), second.clone());
            second.hears(&["Subscribed"]).await;
            let reached: i64 = server.ask(&["PUBLISH", "a", "0"]);
            assert_eq!(reached, 1);
            second.hears(&["Subscribed", "0"]).await;
            drop(subscription);
        }
        eventually("none is subscribed", || channels(&server).is_empty()).await;
    }

    #[tokio::test]
    async fn a_killed_link_is_replaced_and_every_channel_comes_back() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        let (one, two) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
        let _one = backend.subscribe("", name("a"), one.clone());
        let _two = backend.subscribe("", name("b"), two.clone());
        one.hears(&["Subscribed"]).await;
        two.hears(&["Subscribed"]).await;
        let killed: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert_eq!(killed, 1);
        one.hears(&["Subscribed", "Interrupted", "Subscribed"]).await;
        two.hears(&["Subscribed", "Interrupted", "Subscribed"]).await;
        let _: () = server.ask(&["PUBLISH", "a", "0"]);
        one.hears(&["Subscribed", "Interrupted", "Subscribed", "0"]).await;
        assert_eq!(backend.link(""), 1);
    }

    #[tokio::test]
    async fn a_link_that_is_cut_each_time_it_has_confirmed_is_opened_with_growing_pauses() {
        let server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        let recorder = Arc::new(Recorder::default());
        let _subscription = backend.subscribe("", name("a"), recorder.clone());
        let end = Instant::now() + Duration::from_secs(2);
        let mut cuts = 0;
        while Instant::now() < end {
            cuts += server.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            sleep(Duration::from_millis(1)).await;
        }
        // The bounds of the pauses, 10 ms and doubling, add up to this time with eight; half of each is drawn on average.
        assert!((3..60).contains(&cuts), "{cuts} links in two seconds");
        eventually("it is subscribed in the end", || channels(&server) == ["a"]).await;
    }

    #[tokio::test]
    async fn a_restarted_server_is_listened_to_again() {
        let mut server = Server::start();
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        let recorder = Arc::new(Recorder::default());
        let subscription = backend.subscribe("", name("a"), recorder.clone());
        recorder.hears(&["Subscribed"]).await;
        server.kill();
        recorder.hears(&["Subscribed", "Interrupted"]).await;
        let late = Arc::new(Recorder::default());
        let _late = backend.subscribe("", name("b"), late.clone());
        drop(subscription);
        server.restart();
        late.hears(&["Subscribed"]).await;
        assert_eq!(channels(&server), ["b"]);
        recorder.hears(&["Subscribed", "Interrupted"]).await;
    }

    #[tokio::test]
    async fn a_silent_link_is_found_and_replaced() {
        let server = Server::start();
        let backend = connect(&server.target(), options(300)).await.unwrap();
        let recorder = Arc::new(Recorder::default());
        let _subscription = backend.subscribe("", name("a"), recorder.clone());
        recorder.hears(&["Subscribed"]).await;
        server.freeze();
        recorder.hears(&["Subscribed", "Interrupted"]).await;
        server.thaw();
        recorder.hears(&["Subscribed", "Interrupted", "Subscribed"]).await;
    }

    #[tokio::test]
    async fn a_live_link_stays_however_long_nobody_speaks() {
        let server = Server::start();
        let backend = connect(&server.target(), options(100)).await.unwrap();
        let recorder = Arc::new(Recorder::default());
        let _subscription = backend.subscribe("", name("a"), recorder.clone());
        sleep(Duration::from_millis(600)).await;
        recorder.hears(&["Subscribed"]).await;
        let pings: String = server.ask(&["INFO", "commandstats"]);
        assert!(pings.contains("cmdstat_ping"));
    }

    #[tokio::test]
    async fn a_refused_channel_is_told_once_and_the_others_live_on() {
        let server = Server::start();
        for rules in
            ["ACL SETUSER alice on >pw +@all ~* resetchannels &open", "ACL SETUSER bob on >pw +@all -subscribe ~* &*"]
        {
            let _: () = server.ask(&rules.split(' ').collect::<Vec<_>>());
        }
        let asked = || -> String { server.ask(&["INFO", "commandstats"]) };
        for (user, open) in [("alice", "Subscribed"), ("bob", "Refused")] {
            let target = format!("{}?user={user}&pass=pw", server.url());
            let target = crate::backend::redis::address::Target::parse(&target).unwrap();
            let backend = connect(&target, options(100)).await.unwrap();
            let (one, two) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
            let _one = backend.subscribe("", name("shut"), one.clone());
            one.hears(&["Refused"]).await;
            let _two = backend.subscribe("", name("open"), two.clone());
            two.hears(&[open]).await;
            sleep(Duration::from_millis(400)).await;
            one.hears(&["Refused"]).await;
            let late = Arc::new(Recorder::default());
            let _late = backend.subscribe("", name("shut"), late.clone());
            late.hears(&["Refused"]).await;
        }
        let stats = asked();
        let subscribe = stats.lines().find(|line| line.starts_with("cmdstat_subscribe")).unwrap();
        assert!(subscribe.contains("calls=1,") && subscribe.contains("rejected_calls=2,"), "{subscribe}");
    }

    #[tokio::test]
    async fn a_right_that_is_granted_later_is_noticed_and_asked_for_rarely() {
        // The command itself, and the channels.
        for (rights, granted) in [("-subscribe ~* &*", "+subscribe"), ("~* resetchannels", "&*")] {
            let server = Server::start();
            let user = |rights: &str| {
                let words = format!("ACL SETUSER ann on >pw +@all {rights}");
                let _: () = server.ask(&words.split(' ').collect::<Vec<_>>());
            };
            user(rights);
            let target = format!("{}?user=ann&pass=pw", server.url());
            let target = crate::backend::redis::address::Target::parse(&target).unwrap();
            let backend = connect(&target, options(300)).await.unwrap();
            let (one, two) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
            let _one = backend.subscribe("", name("a"), one.clone());
            let _two = backend.subscribe("", name("b"), two.clone());
            one.hears(&["Refused"]).await;
            two.hears(&["Refused"]).await;
            // Long enough for a request or two, and too short for a third.
            sleep(Duration::from_millis(2200)).await;
            let stats: String = server.ask(&["INFO", "commandstats"]);
            let line = stats.lines().find(|line| line.starts_with("cmdstat_subscribe")).unwrap();
            let refused: u32 =
                line.split("rejected_calls=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
            assert!((2..=4).contains(&refused), "{line}");
            assert_eq!((one.heard().len(), two.heard().len()), (1, 1), "nobody hears of it");
            user(granted);
            one.hears(&["Refused", "Subscribed"]).await;
            two.hears(&["Refused", "Subscribed"]).await;
            let late = Arc::new(Recorder::default());
            let _late = backend.subscribe("", name("c"), late.clone());
            late.hears(&["Subscribed"]).await;
        }
    }

    #[tokio::test]
    async fn a_subscription_may_come_and_go_outside_of_the_runtime_and_after_the_end() {
        let server = Server::start();
        let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = alive();
        let backend = Arc::new(connect(&server.target(), options(3000)).await.unwrap());
        let recorder = Arc::new(Recorder::default());
        let subscribe = {
            let (backend, recorder) = (backend.clone(), recorder.clone());
            move || backend.subscribe("", name("a"), recorder)
        };
        let subscription = std::thread::spawn(subscribe).join().unwrap();
        recorder.hears(&["Subscribed"]).await;
        backend.close();
        eventually("no task is left", || alive() == before).await;
        std::thread::spawn(move || drop(subscription)).join().unwrap();
        drop(backend.subscribe("", name("b"), recorder.clone()));
        recorder.hears(&["Subscribed"]).await;
    }
}
