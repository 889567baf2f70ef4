//! What a server is that is asked in the older protocol, where it does not say so by itself; and what one can that runs no scripts.

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::{aside::Aside, codec, info, options::Clients};
use crate::backend::{Deletes, Scripting};

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

/// What one can do that runs no scripts. Versions lie on forks, so it is asked for the commands, and asked again where a connection ended
/// before the answer: that one failed says nothing of the server, and what comes of this stands for as long as the client lives.
/// `has_none`: it does not know what scripts are, rather than letting nobody call any, which its own words say best.
pub(super) async fn compares(clients: &Clients, deadline: Instant, has_none: bool) -> Scripting {
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        match commands_for_values(clients, deadline).await {
            Some(Ok(Some(deletes))) => return Scripting::Compares(deletes),
            Some(Ok(None)) if has_none => return Scripting::Neither,
            Some(Err(NotTold)) if has_none => return Scripting::NotTold,
            Some(_) => return Scripting::Denied,
            None => {}
        }
    }
    if has_none { Scripting::NotTold } else { Scripting::Denied }
}

/// It answers, and not what was asked.
struct NotTold;

/// By which command it deletes a key while it has a value. `None`: there was no answer.
async fn commands_for_values(clients: &Clients, deadline: Instant) -> Option<Result<Option<Deletes>, NotTold>> {
    let mut aside = Aside::open(clients, deadline).await?;
    let answer = aside.ask(redis::cmd("COMMAND").arg("INFO").arg("DELIFEQ").arg("DELEX")).await?;
    let Value::Array(known) = answer else { return Some(Err(NotTold)) };
    let knows = |at: usize| matches!(known.get(at), Some(Value::Array(it)) if !it.is_empty());
    Some(Ok(match [knows(0), knows(1)] {
        [true, _] => Some(Deletes::IfEq),
        [_, true] => Some(Deletes::Ex),
        _ => None,
    }))
}
