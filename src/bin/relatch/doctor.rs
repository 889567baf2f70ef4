//! `relatch doctor`: whether a deployment is fit to be a server of locks.

use futures_util::StreamExt;
use relatch::{
    Client, Error, RefusedKind,
    operate::{Finding, Found, Kind, Severity},
};
use serde_json::json;

use crate::{
    Failure,
    args::{Doctor, Server},
    connect,
    say::{self, Printed},
};

/// The worst finding is a warning.
const WARNED: u8 = 1;
/// It is an error.
const UNFIT: u8 = 2;

/// Tells what it finds, and says with which status to end.
pub(crate) async fn run(server: &Server, doctor: Doctor) -> Result<u8, Failure> {
    let client = connect::builder(server)?.connect().await?;
    let told = tell(&client, &doctor).await;
    client.close().await;
    told
}

async fn tell(client: &Client, doctor: &Doctor) -> Result<u8, Failure> {
    let findings = client.diagnose().await?;
    let mut worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
    for finding in &findings {
        let text = if doctor.json { in_json(finding) } else { in_words(finding, say::in_colour()) };
        if say::out(&text)? == Printed::Unread {
            return Ok(of(worst));
        }
    }
    if doctor.scan {
        let mut search = client.find_without_ttl("*");
        while let Some(found) = search.next().await {
            let (severity, text) = match found {
                Ok(found) => of_key(&found, doctor.json, say::in_colour()),
                Err(error @ Error::Invalid { .. }) => return Err(error.into()),
                // Another server may be willing.
                Err(error) => {
                    let severity = match error {
                        Error::Refused { kind: RefusedKind::Permission, .. } => Severity::Notice,
                        _ => Severity::Error,
                    };
                    (severity, not_searched(&error, severity, doctor.json, say::in_colour()))
                }
            };
            worst = worst.max(severity);
            if say::out(&text)? == Printed::Unread {
                break;
            }
        }
    }
    Ok(of(worst))
}

/// Keys that could not be looked at.
fn not_searched(error: &Error, severity: Severity, in_json: bool, colour: bool) -> String {
    let text = say::one_line(&format!("not all keys were looked at: {}", say::chain(error)));
    let (may_happen, to_do) = ("a lock without a TTL is not found", "let this user do SCAN, and ask again");
    if in_json {
        let finding = json!({
            "severity": severity.code(), "subject": "keys", "code": "keys.not_searched", "server": null, "key": null,
            "found": text, "may_happen": may_happen, "to_do": to_do,
        });
        return format!("{}\n", say::json(&finding));
    }
    words(severity, &format!("keys.not_searched: {text}"), may_happen, to_do, colour)
}

fn of(worst: Severity) -> u8 {
    match worst {
        Severity::Ok | Severity::Notice => 0,
        Severity::Warning => WARNED,
        _ => UNFIT,
    }
}

fn in_json(finding: &Finding) -> String {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let finding = json!({
        "severity": finding.severity.code(),
        "subject": finding.subject.code(),
        "code": finding.code,
        "server": finding.server,
        "key": null,
        "found": finding.found,
        "may_happen": text(&finding.may_happen),
        "to_do": text(&finding.to_do),
    });
    format!("{}\n", say::json(&finding))
}

fn in_words(finding: &Finding, colour: bool) -> String {
    let server = finding.server.as_ref().map(|server| format!(" ({server})")).unwrap_or_default();
    words(
        finding.severity,
        &format!("{}{server}: {}", finding.code, finding.found),
        &finding.may_happen,
        &finding.to_do,
        colour,
    )
}

const FOREVER: &str = "if its holder is gone, the lock is never free again";
const TAKE_AWAY: &str = "find the holder; if there is none any more, `relatch force-unlock` frees it";

const STAYS: &str = "nobody is kept out by it, but it stays on the server for good";
const DELETE: &str = "the next attempt gives it a TTL; if there will be none, delete its key";

/// A key that looks like a lock, or is a job's record, and has no TTL. An attempt at a job ends by what the record says, all the same.
fn of_key(found: &Found, in_json: bool, colour: bool) -> (Severity, String) {
    let (severity, may_happen, to_do, nobody) = match found.kind {
        Kind::Job => (Severity::Notice, STAYS, DELETE, ", and nobody is at it".to_owned()),
        _ => (Severity::Warning, FOREVER, TAKE_AWAY, ", held by nobody".to_owned()),
    };
    let by = found.holders.first().map_or(nobody, |holder| match found.kind {
        Kind::Job => format!(", and {} is at it", holder.id),
        _ => format!(", held by {}", holder.id),
    });
    let text = format!("{} {} has no TTL{by}", found.kind, say::name(&found.name));
    if in_json {
        let finding = json!({
            "severity": severity.code(), "subject": "keys", "code": "keys.without_ttl", "server": null,
            "key": &*found.name, "found": text, "may_happen": may_happen, "to_do": to_do,
        });
        return (severity, format!("{}\n", say::json(&finding)));
    }
    (severity, words(severity, &format!("keys.without_ttl: {text}"), may_happen, to_do, colour))
}

fn words(severity: Severity, found: &str, may_happen: &str, to_do: &str, colour: bool) -> String {
    let paint = match severity {
        _ if !colour => "",
        Severity::Ok => "\x1b[32m",
        Severity::Notice => "\x1b[36m",
        Severity::Warning => "\x1b[33m",
        _ => "\x1b[31m",
    };
    let end = if paint.is_empty() { "" } else { "\x1b[0m" };
    let mut text = format!("{paint}{:<8}{end}{}\n", severity.code(), say::one_line(found));
    for (what, more) in [("may happen", may_happen), ("to do", to_do)] {
        if !more.is_empty() {
            text.push_str(&format!("        {what}: {}\n", say::one_line(more)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let statuses = [Severity::Ok, Severity::Notice, Severity::Warning, Severity::Error].map(of);
        assert_eq!(statuses, [0, 0, WARNED, UNFIT]);
    }

    #[test]
    fn a_finding_has_colours_only_where_they_are_wanted() {
        assert_eq!(words(Severity::Ok, "a\nb", "", "", false), "ok      a b\n");
        let coloured = words(Severity::Error, "a", "b", "c", true);
        assert_eq!(coloured, "\x1b[31merror   \x1b[0ma\n        may happen: b\n        to do: c\n");
    }
}
