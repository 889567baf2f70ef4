//! What was seen, for programs. The guide lists the fields: what stands here stays.

use std::time::{Duration, SystemTime};

use relatch::{JobAttempt, JobRecord, JobSuccess, operate::Holder};
use serde_json::{Value, json};

use super::Seen;

/// One object.
pub(super) fn of(seen: &Seen) -> Value {
    match seen {
        Seen::Free(name) => json!({
            "name": &**name, "kind": null, "held": false, "holders": [], "listeners": null, "ttl_ms": null, "fence": null,
            "job": null,
        }),
        Seen::Found(found) => json!({
            "name": &*found.name,
            "kind": found.kind.code(),
            "held": !found.holders.is_empty(),
            "holders": found.holders.iter().map(holder).collect::<Vec<_>>(),
            "listeners": found.listeners,
            "ttl_ms": found.ttl.map(ms),
            "fence": found.fence,
            "job": found.job.as_ref().map(job),
        }),
    }
}

fn holder(holder: &Holder) -> Value {
    json!({
        "id": holder.id.to_string(),
        "client_id": holder.id.client_id().map(|id| id.to_string()),
        "hold": holder.id.hold(),
        "count": holder.count,
        "label": holder.label,
    })
}

fn job(job: &JobRecord) -> Value {
    let attempt = |it: &JobAttempt| {
        json!({
            "client_id": it.client_id, "hold": number(&it.hold_id), "since_ms": since_1970(it.since),
            "remaining_lease_ms": ms(it.remaining_lease),
        })
    };
    let success =
        |it: &JobSuccess| json!({ "client_id": it.client_id, "hold": number(&it.hold_id), "at_ms": since_1970(it.at) });
    json!({
        "period_ms": since_1970(job.period),
        "attempts": job.attempts,
        "running": job.running.as_ref().map(attempt),
        "success": job.success.as_ref().map(success),
        "last_success_ms": job.last_success.map(since_1970),
    })
}

fn number(hold: &str) -> Option<u64> {
    hold.parse().ok()
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn since_1970(time: SystemTime) -> u64 {
    ms(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_holds_has_all_fields_too() {
        let free = of(&Seen::Free("a\n".into())).to_string();
        let fields = r#"{"fence":null,"held":false,"holders":[],"job":null,"kind":null,"listeners":null,"name":"a\n","ttl_ms":null}"#;
        assert_eq!(free, fields);
    }
}
