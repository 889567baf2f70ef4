//! Says that a server is away, and that it is back: once each, however many links there are and however often one is tried
//! for. It opens none.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    sync::watch::{self, Receiver, error::RecvError},
    time::{Instant, timeout, timeout_at},
};

use super::link::Cause;
use crate::backend::backoff;

/// A server that takes all links away takes them in one moment: which of them is noticed first says nothing.
const TOGETHER: Duration = Duration::from_millis(100);

/// So long after the link for commands the one for subscriptions may come: later than that it is away by itself.
const APART: Duration = Duration::from_secs(5);

/// Which links there are, as far as they are wanted.
pub(super) struct Outage {
    links: watch::Sender<Links>,
    /// One was told whose end was not.
    is_told: AtomicBool,
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Commands,
    Subscriptions,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    commands: Times,
    subscriptions: Times,
}

/// When links of one kind went and came.
#[derive(Clone, Copy, Debug)]
struct Times {
    is_there: bool,
    /// How many were lost so far, when the last of these was, and why.
    lost: u64,
    at: Instant,
    cause: Cause,
    /// When the last one came back.
    back: Instant,
}

impl Links {
    /// None was lost so far.
    fn all() -> Self {
        let now = Instant::now();
        let there = Times { is_there: true, lost: 0, at: now, cause: Cause::Cut, back: now };
        Self { commands: there, subscriptions: there }
    }

    fn part(&mut self, part: Part) -> &mut Times {
        match part {
            Part::Commands => &mut self.commands,
            Part::Subscriptions => &mut self.subscriptions,
        }
    }

    fn lost(&self) -> u64 {
        self.commands.lost + self.subscriptions.lost
    }

    /// When all will have lasted: a link that does not last belongs to the same outage.
    fn last_at(&self) -> Option<Instant> {
        let all = self.commands.is_there && self.subscriptions.is_there;
        all.then(|| self.commands.back.max(self.subscriptions.back) + backoff::CAP)
    }

    /// When the server will be back, whatever becomes of subscriptions.
    fn server_lasts_at(&self) -> Option<Instant> {
        // One that comes just before that may last.
        let apart = if self.subscriptions.is_there { APART + backoff::CAP } else { APART };
        let alone = self.commands.is_there.then(|| self.commands.back + apart);
        [self.last_at(), alone].into_iter().flatten().min()
    }
}

impl Outage {
    pub(super) fn none() -> Self {
        Self { links: watch::Sender::new(Links::all()), is_told: AtomicBool::new(false) }
    }

    /// A link is over, or does not come.
    pub(super) fn lost(&self, part: Part, cause: Cause) {
        self.links.send_if_modified(|links| {
            let times = links.part(part);
            let lost = std::mem::replace(&mut times.is_there, false);
            if lost {
                *times = Times { lost: times.lost + 1, at: Instant::now(), cause, ..*times };
            }
            lost
        });
    }

    /// A link is there, or is wanted no more.
    pub(super) fn back(&self, part: Part) {
        self.links.send_if_modified(|links| {
            let times = links.part(part);
            let back = !std::mem::replace(&mut times.is_there, true);
            if back {
                times.back = Instant::now();
            }
            back
        });
    }

    /// Says it, for as long as it is polled. `server` is told whenever something is said.
    pub(super) async fn tell(&self, server: &str) {
        let mut links = self.links.subscribe();
        let mut told = Links::all();
        while let Ok(over) = next(&mut links, server, told, &self.is_told).await {
            told = over;
        }
    }

    /// Nobody waits for the server any more, and says it no more either.
    pub(super) fn end(&self, server: &str) {
        if self.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!(server, "other nodes have what the server had; it is not waited for any more");
        }
    }
}

/// From one outage's beginning to its end: what there is by then. Whatever was lost by `told` is told.
async fn next(
    links: &mut Receiver<Links>,
    server: &str,
    told: Links,
    is_told: &AtomicBool,
) -> Result<Links, RecvError> {
    links.wait_for(|links| links.lost() > told.lost()).await?;
    let (mut lost, mut alone_since) = (told.commands.lost, None);
    // Elapsed or not: what there is then counts.
    let _ = timeout(TOGETHER, links.wait_for(|links| links.commands.lost > lost)).await;
    let mut now = *links.borrow();
    loop {
        if now.commands.lost == lost {
            let since = *alone_since.get_or_insert_with(|| {
                let cause = now.subscriptions.cause;
                is_told.store(true, Ordering::Relaxed);
                tracing::warn!(
                    server,
                    ?cause,
                    "the link for subscriptions is lost; waiting for locks by polling until it is back"
                );
                now.subscriptions.at
            });
            let server_is_lost = |links: &Links| (links.commands.lost > lost).then_some(links.commands.at);
            now = at_the_time(links, |links| server_is_lost(links).or_else(|| links.last_at())).await?;
            if now.commands.lost == lost {
                is_told.store(false, Ordering::Relaxed);
                tracing::info!(
                    server,
                    away_ms = ms(now.subscriptions.back - since),
                    "the link for subscriptions is back"
                );
                return Ok(now);
            }
        }
        let (since, cause) = (now.commands.at, now.commands.cause);
        is_told.store(true, Ordering::Relaxed);
        tracing::warn!(server, ?cause, "the link to the server is lost; connecting again until it is back");
        now = at_the_time(links, Links::server_lasts_at).await?;
        is_told.store(false, Ordering::Relaxed);
        tracing::info!(server, away_ms = ms(now.commands.back - since), "the server is back");
        if now.subscriptions.is_there {
            return Ok(now);
        }
        lost = now.commands.lost;
    }
}

/// Comes back when it is the time that the links name; each change of theirs may name another.
async fn at_the_time(
    links: &mut Receiver<Links>,
    time: impl Fn(&Links) -> Option<Instant>,
) -> Result<Links, RecvError> {
    loop {
        let now = *links.borrow_and_update();
        match time(&now) {
            None => links.changed().await?,
            Some(time) => match timeout_at(time, links.changed()).await {
                Ok(changed) => changed?,
                Err(_) => return Ok(now),
            },
        }
    }
}

fn ms(away: Duration) -> u64 {
    u64::try_from(away.as_millis()).unwrap_or(u64::MAX)
}
