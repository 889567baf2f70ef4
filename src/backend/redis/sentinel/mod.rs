//! Whichever server some sentinels have for the master, as the seam wants it: a standalone server, and after a failover another
//! one.
//!
//! | file | job |
//! | --- | --- |
//! | `views` | where the sentinels have the master, and which of them counts |
//! | `roster` | which sentinels there are, those too that nobody named |
//! | `ask` | one sentinel: what it is asked, and what it says by itself |
//! | `follow` | all of them at once, and the node that is turned to where they say |

mod ask;
mod follow;
mod roster;
mod views;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use self::{follow::Follower, views::ServerAddr};
use super::{
    address::Sentinels,
    aim::{Aim, RefreshTrigger},
    faults,
    link::Link,
    node,
    options::{Clients, Options},
    standalone::Standalone,
};
use crate::{
    backend::{Fault, backoff::Backoff},
    chance::Chance,
};

/// Connects within the command timeout, and makes sure that there is a master that can be worked with. From then on it is
/// followed wherever it goes, until the backend is closed.
pub(super) async fn connect(sentinels: &Sentinels, options: Options<'_>) -> Result<Standalone, Fault> {
    let (started, closed, missed) = (Instant::now(), CancellationToken::new(), RefreshTrigger::new());
    let end = started + options.command_timeout;
    let mut follower = Follower::start(sentinels, options, &closed, missed.clone())?;
    let found = follower.find(end).await?;
    let (link, clients) = first_link(&mut follower, found, &closed, &missed, end).await?;
    let aim = Aim::first_at(clients, format!("the master of the sentinels' \"{}\"", sentinels.master), missed);
    let node = node::start(link, aim, options, started, closed).await?;
    let versions = follower.versions();
    node.runtime.spawn(follower.follow(node.clone()));
    Ok(Standalone::on(node, Some(versions)))
}

/// To where the master is, or will be by then: a failover may be under way.
async fn first_link(
    follower: &mut Follower,
    mut place: ServerAddr,
    closed: &CancellationToken,
    missed: &RefreshTrigger,
    end: Instant,
) -> Result<(Link, Clients), Fault> {
    let (mut backoff, mut why) = (Backoff::default(), None);
    loop {
        let clients = follower.clients_at(&place)?;
        let (pause, within) = (backoff.pause(&Chance::System), follower.within());
        let opened = async {
            sleep(pause).await;
            Link::open(&clients, closed, within).await
        };
        tokio::select! {
            biased;
            () = sleep_until(end) => return Err(why.unwrap_or_else(|| faults::too_slow(within, &clients))),
            moved = follower.moved() => {
                place = moved;
                backoff.reset();
            }
            opened = opened => match opened {
                Ok(link) => return Ok((link, clients)),
                Err(fault) if !fault.kind.heals() => return Err(fault),
                Err(fault) => {
                    why = Some(fault);
                    missed.happened();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
