//! A real server, through the `redis` driver: the only place that names it. Knows no lock.
//!
//! | file | job |
//! | --- | --- |
//! | `address` | where servers are: URLs of every scheme, and the driver's own clients |
//! | `options` | how links and their sockets are set up |
//! | `connect` | which backend an address wants |
//! | `standalone` | the seam: one node and its subscriptions |
//! | `cluster` | the seam for many nodes |
//! | `sentinel` | the same wherever sentinels say that the master is |
//! | `aim` | where a node's server is, and that it moved |
//! | `node` | one server: commands over one link |
//! | `keeper` | the link's replacement, and what each server says of itself |
//! | `memory` | since when the server behind the link remembers |
//! | `aside` | what is asked over a connection of its own |
//! | `info` | how a server's answer about itself is read |
//! | `outage` | says that a server is away, and that it is back |
//! | `said` | what is said once a client |
//! | `acks` | scripts whose writes replicas are to have, over a link of their own |
//! | `many` | the same for many commands in one pipeline |
//! | `current` | which link is the current one, and who sends first where there is none |
//! | `command` | what one command carries on its way |
//! | `spare` | commands that are over, whose memory the next ones get |
//! | `task` | a command that goes on without its caller's polls |
//! | `asked` | one server as whoever looks at all of them sees it |
//! | `link` | one connection, and how its end is noticed |
//! | `rights` | what a user must be allowed, by the versions of the servers |
//! | `naming` | how connections are called in the server's list |
//! | `identity` | what a server is that does not say so |
//! | `waiting` | who is woken when a command's time is over, or its link is |
//! | `pubsub` | all subscriptions, over a connection of their own |
//! | `codec` | calls to commands, replies to values |
//! | `faults`, `words` | errors to faults; what a server's words of refusal mean |
//! | `secrets` | what is never shown of them |

mod acks;
mod address;
mod aim;
mod aside;
#[cfg(feature = "operate")]
mod asked;
mod cluster;
mod codec;
mod command;
mod connect;
mod current;
mod faults;
mod identity;
mod info;
mod keeper;
mod link;
mod many;
mod memory;
mod naming;
mod node;
mod options;
mod outage;
mod pubsub;
mod rights;
mod said;
mod secrets;
mod sentinel;
mod spare;
mod standalone;
mod task;
mod waiting;
pub(super) mod words;

#[cfg(test)]
pub(in crate::backend) mod testing;

/// What a user hands us as their own client object.
pub(crate) use ::redis::Client as DriverClient;
pub(crate) use address::{Address, Unshown};
#[cfg(feature = "operate")]
pub(crate) use codec::digest;
pub(crate) use connect::connect;
pub(crate) use options::Options;
pub use options::{RespVersion, ShardedPubSub};
