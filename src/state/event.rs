//! What can happen to a name.

use std::time::Duration;

use super::{
    command::{Answer, Fault, Note},
    deadline::Instant,
    id::{CommandId, HoldNumber, Id, Owner},
    wish::{Lease, Wish},
};

/// Something happened. `W` is whoever waits for what comes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event<W> {
    /// Somebody wants the lock. Who was passed over asks again under the id that it had, and stands where it stood.
    Ask { id: Id, owner: Owner, wish: Wish, waiter: W },
    /// One that was called is there.
    Here { id: Id },
    /// Whatever this id stands for is not wanted any more: a future, a guard, or a grant that reached nobody.
    Dropped { id: Id },
    /// The same of a guard or a detached ticket, by somebody who waits for the answer.
    Unlock { id: Id, waiter: W },
    /// From now on this is what the hold's release says of it.
    Noted { id: Id, note: Note },
    /// The hold's name was told to somebody else, who may release it by that.
    Shown { id: Id },
    /// The guard was given up, the hold is kept.
    Detached { id: Id },
    /// The whole hold shall last at least so long from now.
    Extend { id: Id, lease: Duration, beyond: Beyond, waiter: W },
    /// It was taken on other terms, for others were missing: from then on these are true of it.
    Settle { id: Id, lease: Lease, max_hold: Option<Duration>, since: Instant },
    /// A step of a sending was answered, or will not be.
    Answered { command: CommandId, answer: Result<Answer, Fault> },
    /// An owner asks how often it still holds the lock, once the server knows.
    Recount { owner: Owner, waiter: W },
    /// The server granted it: what its answer waits for now is replicas.
    Granting { command: CommandId },
    /// Something came through the subscription.
    Heard(Heard),
    /// These holds were seen on the server, and are to be freed, whoever has them.
    Force { seen: Vec<HoldNumber>, waiter: W },
    /// Holds of other names are renewed now: one that is due by then may go along. It stands for the `Tick` that it comes before.
    RenewAlong { by: Instant },
    /// Another server may answer from now on, or the same one may have forgotten: `Env::era` is a new one.
    NewEra,
    /// The instant of the last `WakeAt` is over.
    Tick,
    /// The client is about to end: nobody is let in any more, and what is held is held as ever.
    Ending,
    /// The client ends.
    Closed,
}

/// What becomes of an extension that would reach beyond the `max_hold` of the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Beyond {
    /// It fails, and nothing is asked for.
    Refused,
    /// It ends there.
    Cut,
}

/// What a subscription brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Heard {
    /// Confirmed, also anew after an interruption.
    Subscribed,
    Interrupted,
    /// The server will not have it: poll.
    Refused,
    /// The lock was freed.
    Message,
}
