//! The keeper of a node's command link: replaces it whenever it ends, one attempt at a time, and hears what each server says
//! of itself. How a link's end is noticed is in `link.rs`.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::Cmd;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    aside::Aside,
    faults,
    info::{self, Info},
    link::{Cause, Kept, Link},
    node::Node,
    options::Clients,
    outage::Part,
};
use crate::{
    backend::{
        Fault,
        backoff::{self, Backoff},
    },
    chance::Chance,
};

/// Where no answer comes for so long although some are waited for, and for so many of the longest round trips, something may be
/// wrong.
const STALL: Duration = Duration::from_millis(200);
const ROUND_TRIPS: u32 = 3;

/// Keeps a node's link until the backend is closed. It leads to where the node aimed before all of these changes.
pub(super) async fn keep(node: CloseOnDrop, changes: watch::Receiver<Arc<Clients>>, first: Option<Kept>) {
    let node = &node.0;
    let mut keeper = Keeper { node, backoff: Backoff::default(), answered: false, asks_of_memory: true, before: None };
    node.closed.run_until_cancelled(keeper.replace(changes, first)).await;
}

struct Keeper<'a> {
    node: &'a Node,
    backoff: Backoff,
    /// Whether a question for what the server is was answered: then the next one may go over the link.
    answered: bool,
    /// Whether one that does not say so is asked for what it does when its memory is full.
    asks_of_memory: bool,
    /// What the last one that answered said, and when its link was over.
    before: Option<(Info, Option<Instant>)>,
}

impl Keeper<'_> {
    async fn replace(&mut self, mut aim: watch::Receiver<Arc<Clients>>, first: Option<Kept>) {
        let node = self.node;
        let mut link = match first {
            Some(first) => first,
            None => {
                let first = Kept(self.reopen(&mut aim).await);
                node.current.up(first.0.clone());
                node.outage.back(Part::Commands);
                first
            }
        };
        loop {
            let opened = Instant::now();
            self.tend(&link.0, &mut aim).await;
            if node.current.is_closed() {
                return;
            }
            let cause = link.0.cause();
            if cause == Cause::Demoted {
                node.known.memory.demoted();
            }
            node.current.down();
            node.outage.lost(Part::Commands, cause);
            if let Some((_, over)) = &mut self.before {
                over.get_or_insert_with(Instant::now);
            }
            if opened.elapsed() > backoff::CAP || cause == Cause::Elsewhere {
                self.backoff.reset();
            }
            node.aim.missed();
            // The old socket goes before a new one comes: what stood unsent in it must not arrive.
            drop(link);
            link = Kept(self.reopen(&mut aim).await);
            node.current.up(link.0.clone());
            node.outage.back(Part::Commands);
            if cause == Cause::Demoted {
                // Whoever listens there listens to a replica. Not before there is a link: by then the name may lead elsewhere.
                node.elsewhere.send_replace(Instant::now());
            }
        }
    }

    async fn reopen(&mut self, aim: &mut watch::Receiver<Arc<Clients>>) -> Arc<Link> {
        let node = self.node;
        loop {
            let pause = self.backoff.pause(&Chance::System);
            let clients = aim.borrow_and_update().clone();
            let asks = self.answered && node.known.memory.is_wanted();
            let asked = AtomicBool::new(false);
            let opened = async {
                sleep(pause).await;
                let link = Link::open(&clients, &node.closed, node.command_timeout).await?;
                node.known.memory.linked(link.last_pong());
                if asks {
                    asked.store(true, Ordering::Relaxed);
                    let info = self.answer(&link, &info_server()).await.ok_or_else(faults::no_link)?;
                    node.known.memory.told(&Info::of(&info));
                }
                Ok::<Link, Fault>(link)
            };
            tokio::select! {
                biased;
                // Who does not answer where it was holds nobody up.
                Ok(()) = aim.changed() => self.backoff.reset(),
                opened = opened => match opened {
                    Ok(link) => return Arc::new(link),
                    Err(fault) => {
                        tracing::debug!(error = %fault.source, "no command link");
                        node.current.failed(fault);
                        // It may have been the question that ended it: the next one is asked aside first.
                        self.answered &= !asked.load(Ordering::Relaxed);
                        // A node of a cluster is looked after for as long as it has no link.
                        if !node.is_of_cluster() {
                            node.aim.missed();
                        }
                    }
                }
            }
        }
    }

    /// Until the link is over.
    async fn tend(&mut self, link: &Link, aim: &mut watch::Receiver<Arc<Clients>>) {
        let node = self.node;
        tokio::select! {
            biased;
            Ok(()) = aim.changed() => link.end(Cause::Elsewhere),
            () = link.tend(&node.answers, node.command_timeout) => {}
            () = self.ask(link) => {}
            () = look_for_stalls(node, link) => {}
        }
    }

    /// Asks the server about itself: nobody waits for the answer.
    async fn ask(&mut self, link: &Link) {
        self.measure(link).await;
        self.hear(link).await;
        self.remember(link).await;
        pending().await
    }

    /// Since when the process behind this very link remembers: asked over it, once somebody wants to know. A link that comes in
    /// another's place has asked by then.
    async fn remember(&self, link: &Link) {
        let memory = &self.node.known.memory;
        memory.wanted().await;
        if memory.is_heard() {
            return;
        }
        let info = if self.answered { self.answer(link, &info_server()).await } else { None };
        info.map_or_else(|| memory.not_told(), |info| memory.told(&Info::of(&info)));
    }

    /// How far it is, where nothing has been asked of it yet.
    async fn measure(&self, link: &Link) {
        let (trips, asked) = (&self.node.round_trips, Instant::now());
        if trips.seen().is_none() && self.answer(link, &redis::cmd("PING")).await.is_some() {
            trips.note(asked.elapsed());
        }
    }

    /// Until there is no more to be heard. What something in the way has let through once goes over the link.
    async fn hear(&mut self, link: &Link) -> Option<()> {
        let info = redis::cmd("INFO");
        let mut aside = if self.answered { None } else { Some(self.aside().await?) };
        let reply = match &mut aside {
            Some(aside) => aside.ask(&info).await?,
            None => self.answer(link, &info).await?,
        };
        self.answered = true;
        self.denies(&reply);
        let info = Info::of(&reply);
        let tells_of_memory = info.tells_of_memory;
        self.heard(info);
        // Whoever may not ask the one may ask the other perhaps.
        if !tells_of_memory && std::mem::take(&mut self.asks_of_memory) {
            let mut aside = if let Some(aside) = aside { aside } else { self.aside().await? };
            let reply = aside.ask(redis::cmd("CONFIG").arg("GET").arg("maxmemory*")).await?;
            self.drops(info::evicts_by_configuration(&reply));
        }
        Some(())
    }

    fn denies(&self, reply: &redis::Value) {
        if let redis::Value::ServerError(error) = reply
            && error.code() == "NOPERM"
            && self.node.said.info_is_denied()
        {
            let node = self.node;
            tracing::debug!(
                server = %node.aim.now().address(),
                error = %faults::refused(error, node.secrets()).source,
                "the server denies INFO: nobody notices that it drops locks when it is full"
            );
        }
    }

    async fn aside(&self) -> Option<Aside> {
        Aside::open(&self.node.aim.now(), Instant::now() + self.node.command_timeout).await
    }

    async fn answer(&self, link: &Link, question: &Cmd) -> Option<redis::Value> {
        let mut connection = link.connection();
        timeout(self.node.command_timeout, connection.send_packed_command(question)).await.ok()?.ok()
    }

    /// By this policy, if by any.
    fn drops(&self, policy: Option<&'static str>) {
        let node = self.node;
        if let Some(policy) = policy.filter(|_| node.said.drops_locks()) {
            tracing::warn!(
                server = %node.aim.now().address(),
                policy,
                "a full server drops locks that are held: their keys have a TTL; set maxmemory-policy to noeviction"
            );
        }
    }

    fn heard(&mut self, info: Info) {
        let node = self.node;
        self.drops(info.evicts);
        node.known.heard(&info);
        node.routes().iter().for_each(|routes| routes.heard_version());
        if let Some((before, Some(over))) = &self.before
            && let (Some(before), Some(now)) = (&before.process, &info.process)
            && before.run_id != now.run_id
        {
            // A subscription link that outlived the other leads to a server that nobody's releases reach.
            node.elsewhere.send_replace(*over);
        }
        self.before = Some((info, None));
    }
}

fn info_server() -> Cmd {
    let mut info = redis::cmd("INFO");
    info.arg("server");
    info
}

/// Tells those who know of other nodes that this one may hang, long before anybody gives it up. It never comes back.
async fn look_for_stalls(node: &Node, link: &Link) {
    while node.is_of_cluster() {
        let usual = node.round_trips.seen().map_or(Duration::ZERO, |trip| trip.longest * ROUND_TRIPS);
        link.waiting().stall(&node.answers, usual.max(STALL)).await;
        node.stalls();
        sleep(STALL).await;
    }
    pending().await
}

/// Closes the backend when the runtime takes its keeper away: nobody would replace the link any more.
pub(super) struct CloseOnDrop(pub(super) Arc<Node>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
