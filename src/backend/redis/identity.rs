//! What a server is that is asked in the older protocol, where it does not say so by itself.

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::{aside::Aside, codec, info, options::Clients};

/// The hash of no script.
pub(super) const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// A call of no script, with two keys such as locks may have, in two slots: a node of a cluster refuses that for their sake,
/// whatever it serves.
pub(super) fn of_two_slots(key: &str) -> Cmd {
    // What stands in braces would be all that counts. What differs in the last letter alone is never in one slot.
    let root = if key.contains('{') { "relatch:probe" } else { key };
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(NO_SCRIPT).arg(2).arg(format!("{root}:1")).arg(format!("{root}:2"));
    cmd
}

/// Whether whoever answers so may be a node of a cluster: a proxy in front of several servers does, too, and whoever may not
/// have such keys is not told.
pub(super) fn leaves_open(reply: Option<&Value>) -> bool {
    matches!(reply, Some(Value::ServerError(error)) if matches!(error.code(), "CROSSSLOT" | "NOPERM"))
}

/// Asks one that leaves it open. `INFO` needs a right and the greeting a server of version 6: every cluster has one of them.
/// Whoever answers neither is taken for a proxy.
pub(super) async fn is_of_a_cluster(clients: &Clients, deadline: Instant) -> bool {
    let Some(mut aside) = Aside::open(clients, deadline).await else { return false };
    let Some(answer) = aside.ask(redis::cmd("INFO").arg("cluster")).await else { return false };
    if let Some(is_it) = info::is_of_a_cluster(&answer) {
        return is_it;
    }
    aside.ask(&redis::cmd("HELLO")).await.as_ref().and_then(codec::mode) == Some("cluster")
}

/// Whether one that knows no scripts is a sentinel. The greeting needs no right, and old ones do not know it.
pub(super) async fn is_a_sentinel(clients: &Clients, deadline: Instant) -> bool {
    let Some(mut aside) = Aside::open(clients, deadline).await else { return false };
    let Some(greeting) = aside.ask(&redis::cmd("HELLO")).await else { return false };
    if let Some(mode) = codec::mode(&greeting) {
        return mode == "sentinel";
    }
    aside.ask(&redis::cmd("INFO")).await.as_ref().and_then(info::is_a_sentinel) == Some(true)
}
