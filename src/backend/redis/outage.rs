//! Says that a server is away, and that it is back: once each, however many links there are and however often one is tried
//! for. It opens none.

use std::time::Duration;

use tokio::{
    sync::watch::{self, Receiver, error::RecvError},
    time::{Instant, sleep_until, timeout},
};

use super::link::Cause;
use crate::backend::backoff;

/// A server that takes all links away takes them in one moment: which of them is noticed first says nothing.
const TOGETHER: Duration = Duration::from_millis(100);

/// Which links there are, as far as they are wanted.
pub(super) struct Outage(watch::Sender<Links>);

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Commands,
    Subscriptions,
}

#[derive(Clone, Debug)]
struct Links {
    /// Which are missing.
    commands: Option<Cause>,
    subscriptions: Option<Cause>,
    /// How many were lost so far, and when the last of these was.
    lost: u64,
    at: Instant,
    /// When the last one came back.
    back: Instant,
}

impl Links {
    fn part(&mut self, part: Part) -> &mut Option<Cause> {
        match part {
            Part::Commands => &mut self.commands,
            Part::Subscriptions => &mut self.subscriptions,
        }
    }

    fn are_there(&self) -> bool {
        self.commands.is_none() && self.subscriptions.is_none()
    }
}

impl Outage {
    pub(super) fn none() -> Self {
        let now = Instant::now();
        Self(watch::Sender::new(Links { commands: None, subscriptions: None, lost: 0, at: now, back: now }))
    }

    /// A link is over, or does not come.
    pub(super) fn lost(&self, part: Part, cause: Cause) {
        self.0.send_if_modified(|links| {
            if links.part(part).is_some() {
                return false;
            }
            *links.part(part) = Some(cause);
            links.lost += 1;
            links.at = Instant::now();
            true
        });
    }

    /// A link is there, or is wanted no more.
    pub(super) fn back(&self, part: Part) {
        self.0.send_if_modified(|links| {
            let back = links.part(part).take().is_some();
            if back {
                links.back = Instant::now();
            }
            back
        });
    }

    /// Says it, for as long as it is polled. `server` is told whenever something is said.
    pub(super) async fn tell(&self, server: &str) {
        let mut links = self.0.subscribe();
        let mut told = 0;
        while let Ok(over) = next(&mut links, server, told).await {
            told = over;
        }
    }
}

/// From one outage's beginning to its end. How many links were lost by then.
async fn next(links: &mut Receiver<Links>, server: &str, told: u64) -> Result<u64, RecvError> {
    let first = links.wait_for(|links| links.lost > told).await?.clone();
    let commands = match first.commands {
        Some(cause) => Some(cause),
        None => {
            let lost = links.wait_for(|links| links.commands.is_some());
            timeout(TOGETHER, lost).await.ok().and_then(|links| links.ok()?.commands)
        }
    };
    if let Some(cause) = commands {
        tracing::warn!(server, ?cause, "the link to the server is lost; connecting again until it is back");
    } else {
        let cause = first.subscriptions.unwrap_or(Cause::Cut);
        tracing::warn!(
            server,
            ?cause,
            "the link for subscriptions is lost; waiting for locks by polling until it is back"
        );
    }
    loop {
        let back = links.wait_for(Links::are_there).await?.clone();
        let again = links.wait_for(|links| links.lost > back.lost);
        // A link that does not last belongs to the same outage.
        tokio::select! {
            biased;
            again = again => drop(again?),
            () = sleep_until(back.back + backoff::CAP) => {
                let away_ms = u64::try_from((back.back - first.at).as_millis()).unwrap_or(u64::MAX);
                tracing::info!(server, away_ms, "the server is back");
                return Ok(back.lost);
            }
        }
    }
}
