//! Decides everything about one name in one process: `(event, env) -> effects`.
//!
//! Nothing here is async, takes a lock, or knows a runtime, a clock, a socket or chance. What it hands through it never looks at:
//! whoever waits for an answer, and what the guards of one owner share, which is made of the former ([`Share`]). So whatever a
//! name can do is a value that a test compares, and all that it can ever do can be searched.
//!
//! # The states of a name
//!
//! ```text
//!                ask                       granted
//!    nobody ───────────────▶ contender ───────────────▶ hold ◀─────────────────┐
//!       ▲                     │  ▲                      │ │ ▲ passed on        │
//!       │ given up, dropped,  │  │ the next of the      │ │ │ to the next      │ moved
//!       │ settled, failed     │  │ queue                │ └─┘                  │
//!       ├─────────────────────┘  │                      │ handed over          │
//!       │                        │                      ├──────────▶ handing over
//!       │                        │                      │                │
//!       │                        │    lost, or released │                │ gone, or undone
//!       └────────────────────────┴──────────────────────┴────────────────┘
//! ```
//!
//! A name has one tenant at a time. Beside it stand, each by itself: the *queue* of those of this process who wait; *lost holds*
//! that still have guards; *releases* that were decided and are not answered; *old copies* of acquires that may run late; the
//! *slice* and the cool-down of this process; the *subscription* with its wake flag; *forced releases* on their way.
//!
//! | tenant | who may be next | |
//! | --- | --- | --- |
//! | nobody | a contender | whoever asks first |
//! | contender | a hold, nobody, another contender | granted; over; over while somebody is queued |
//! | hold | the same hold for another owner | a pass: nothing is sent |
//! | hold | handing over | what a pass cannot do, while the slice lasts |
//! | hold | a contender, nobody | released or lost, with or without a queue |
//! | handing over | a hold, a contender, nobody | moved; gone or undone, with or without a successor |
//!
//! Never: a hold after a hold of another number without a contender or a hand-over between them; a contender while one of this
//! process holds; a number that was released, as anything but something to be released again.
//!
//! # What happens
//!
//! An [`Event`] comes to [`Name::on`](name::Name::on). What is over by now is over first; then the event's own file decides; then
//! comes what follows from any event, always in one order: the queue's head contends if nobody holds or tries, who sleeps
//! wakes, a gate opens, the newest count leaves, a renewal leaves, the subscription of nobody ends, the timer is set. Each
//! step leaves [`Effect`]s in order. In debug builds all of `check.rs` must be true then.
//!
//! | event | decided in |
//! | --- | --- |
//! | `Ask` | `admit.rs`: `attempt.rs`, `nest.rs`, or the queue |
//! | `Here` | `missed.rs` |
//! | `Dropped`, `Unlock` | `undo.rs`: whatever the id stands for |
//! | `Noted`, `Shown`, `Detached`, `Heard`, `NewEra` | `on.rs` |
//! | `Recount` | `nest.rs` |
//! | `Extend`, `Settle` | `extend.rs` |
//! | `RenewAlong` | `renewal.rs` |
//! | `Answered` | the file that sent the command |
//! | `Granting` | `attempt.rs` |
//! | `Force` | `force.rs` |
//! | `Ending`, `Closed` | `close.rs` |
//! | `Tick` | each file looks at what is due |
//!
//! Besides there are questions that are answered at once: [`leaves`](name::Name::leaves), whether a command is still
//! wanted at the moment of sending; [`take`](name::Name::take), by one to whom a hold was offered;
//! [`attach`](name::Name::attach) and [`unlockable`](name::Name::unlockable), by an owner that gave its guard up;
//! [`give_away`](name::Name::give_away), by one that gives its hold to whoever knows its number. Whoever sends
//! renewals of many names together is told with each what it [`Raises`], and asks [`wants`](name::Name::wants) whether its hold is
//! over, and [`renews_by`](name::Name::renews_by) whether it would go along.
//!
//! # Where is it?
//!
//! | question | file |
//! | --- | --- |
//! | the door of all events, and what follows from any | `on.rs` |
//! | what must always be true; what tests and the explorer ask | `check.rs`, `asked.rs` |
//! | what can happen, what is wanted, what the world looks like | `event.rs`, `wish.rs`, `env.rs` |
//! | what is to be done, and the one place where all of it goes through | `effect.rs`, `cx.rs` |
//! | what is sent, and what comes back, and by which numbers | `command.rs`, `id.rs` |
//! | everything that a name is, and what may be asked of it | `name.rs`, only to be read `look.rs` |
//! | its parts, each by itself | `parts/` |
//! | who may enter, who waits | `admit.rs` |
//! | a try, and what its answer means | `attempt.rs` |
//! | where a busy answer decides to sleep, and what wakes it | `sleep.rs` |
//! | a vote that nobody won | `split.rs` |
//! | how long somebody waits or rests, and what he is told then | `patience.rs` |
//! | where a dropped future is undone | `undo.rs` |
//! | what becomes of turns that nobody takes | `missed.rs` |
//! | nested acquisitions, and the count on the server | `nest.rs` |
//! | the end of a hold: pass, hand over or release | `end.rs` |
//! | where a slice ends | `end.rs`, by what `parts/slice.rs` knows |
//! | what others have then | `parts/turns.rs` |
//! | a hand-over, and its undoing | `hand_over.rs` |
//! | the loss of a hold | `loss.rs` |
//! | a hold that is somebody else's from now on | `give_away.rs` |
//! | the end of a client | `close.rs` |
//! | releases: repetition, and their order before tries | `release.rs` |
//! | renewals; a longer lease, or other terms; a forced release | `renewal.rs`, `extend.rs`, `force.rs` |
//! | may a copy of a command still run, and what if it does | `parts/copies.rs`, `parts/old_copies.rs` |
//! | time: instants, margins, what a lease is asked for | `deadline.rs` |
//! | the rules, in words | `README.md`, which is below |
//!
//! # One word for each question
//!
//! | word | the question |
//! | --- | --- |
//! | [`Answer`], [`Fault`] | what came back for a command |
//! | [`Told`] | what somebody hears who waits; [`Failure`]: why it is an error |
//! | [`End`] | how a hold ended for its owner; [`Cause`]: why it was lost |
//! | `Tenant` | who has the name |
//! | `Stage` | how far the contender, or an old copy, has come |
//! | `Turn` | whether this process keeps the name at the end of a hold |
//! | [`Grants`] | what makes a grant count |
//! | `Gate` | whether this process may try |
//! | `Lost` | which copies of a command nobody will answer |
//! | `Remains` | what may be on the server of a lost hold |
//! | `Client` | whether anybody is still let in |
//! | [`Beyond`] | what becomes of an extension that would reach too far |
//! | [`Shape`] | how a primitive differs from the plain lock |
#![doc = include_str!("README.md")]

mod admit;
#[cfg(any(test, relatch_explore))]
mod asked;
mod attempt;
mod check;
mod close;
mod command;
mod cx;
mod deadline;
mod effect;
mod end;
mod env;
mod event;
mod extend;
mod force;
mod give_away;
mod hand_over;
mod id;
mod look;
mod loss;
mod missed;
mod name;
mod nest;
mod on;
mod parts;
mod patience;
mod release;
mod renewal;
mod sleep;
mod split;
mod undo;
mod wish;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::parts::old_copies::WATCHED;
pub(crate) use self::{
    command::{Answer, Command, Fault, FaultKind, KeptBy, Note, Published, Raises, Verb},
    deadline::{Instant, LeaseRequest, Margin},
    effect::{Cause, Effect, End, Failure, Log, LogEvent, Share, Told},
    env::{Chance, Env, Expired, Grants, Publishes, Server, Settings, Shape, Succession},
    event::{Beyond, Event, Heard},
    id::{CommandId, Era, HoldNumber, Id, Link, Owner},
    name::{Name, Unlockable},
    parts::{contender::TryPlace, hold::Hold, list::ThinVec},
    wish::{Lease, Patience, Wish},
};
