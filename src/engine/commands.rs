//! The commands that change a hold's count: they go one at a time, for the sake of their answers. Each runs by itself, whoever
//! polls the call that it is for: one that is neither polled nor dropped holds nobody up for longer than its answer takes.

use std::{sync::Arc, thread::LocalKey};

use futures_util::future::{Either, select};
use tokio::{
    pin,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

use super::{inline::Inline, registry::Place};
use crate::spare::{Boxes, Reused};

/// The turn of a command. Whoever stood in line for as long as a command may take goes without.
pub(super) async fn one_at_a_time(place: &Place, commands: Option<Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
    timeout(place.engine.settings().command_timeout, commands?.acquire_owned()).await.ok()?.ok()
}

/// Runs a command in its turn. It ends when its answer is not waited for any more. `kind`: who keeps the boxes of such commands.
pub(super) fn in_turn<T: Send + 'static>(
    place: &Place,
    kind: &'static LocalKey<Boxes<()>>,
    commands: Arc<Semaphore>,
    command: impl Future<Output = T> + Send + 'static,
) -> oneshot::Receiver<T> {
    let (mut answer, answered) = oneshot::channel();
    let at_hand = Arc::clone(&commands).try_acquire_owned().ok();
    let (engine, stands_in_line) = (Arc::clone(&place.engine), at_hand.is_none());
    let place = place.clone();
    let work = Reused::new(kind, async move {
        let in_turn = async move {
            let _turn = match at_hand {
                Some(turn) => Some(turn),
                None => one_at_a_time(&place, Some(commands)).await,
            };
            command.await
        };
        let output = {
            let unwanted = answer.closed();
            pin!(unwanted, in_turn);
            match select(unwanted, in_turn).await {
                Either::Left(_) => return,
                Either::Right((output, _)) => output,
            }
        };
        // The turn is over by now.
        drop(answer.send(output));
    });
    // One that has its turn at hand is woken by its answer alone. The others wake each other, and each needs a task for that.
    if stands_in_line {
        engine.spawn(Box::pin(work))
    } else {
        Inline::start(&engine, work)
    }
    answered
}
