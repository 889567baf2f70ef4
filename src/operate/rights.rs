//! What a server lets this user do: scripts, channels, and each command that locks need. It is tried where that changes nothing, and
//! asked for where the server knows without it being done.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Finding, Looker, Severity, Subject,
    check::{finding, unchecked},
};
use crate::{
    backend::{Fault, FaultKind, Scripting, Server, Value, questions},
    keys,
};

/// What was found out of a deed.
enum Allowed {
    Yes,
    /// The command is not, with any key.
    No,
    /// It is, but not with this key or channel.
    NotHere,
    Unknown,
}

impl Looker {
    pub(super) async fn rights(&self, server: &Arc<dyn Server>) -> Vec<Finding> {
        let key = keys::probe_key(self.scope.prefix());
        let scripts =
            self.ask(server, vec![questions::no_script(&key)]).await.ok().and_then(|mut answers| answers.pop());
        let channel = keys::lock_channel(&key).to_string();
        let (listened, asked) = (Arc::clone(server), channel);
        let listening = Box::pin(async move { Ok(listened.listen(&asked).await) });
        let listens = self.engine.looked(&Arc::from(""), listening).await.ok();
        let scripts = scripts.map(|answer| self.scripts(&allowed(&answer)));
        let listens = listens.map(|listens| listening_told(&allowed(&listens)));
        scripts.into_iter().chain(listens).chain(self.commands(server, &key).await).collect()
    }

    fn scripts(&self, allowed: &Allowed) -> Finding {
        let subject = Subject::Scripts;
        match (self.scope.backend().scripting(), allowed) {
            (Scripting::Compares(_), _) => finding(
                Severity::Warning,
                subject,
                "scripts.without",
                "no scripts run there for this user, and a key can be deleted while it has a value".into(),
                "token locks work, and no others do",
                "let it run scripts, if there are to be other locks, and give the user the rights `+eval +evalsha`",
            ),
            (_, Allowed::Yes | Allowed::NotHere) => {
                finding(Severity::Ok, subject, "scripts.run", "it runs scripts".into(), "", "")
            }
            (_, Allowed::No) => finding(
                Severity::Error,
                subject,
                "scripts.denied",
                "this user may run no scripts".into(),
                "no lock can be had",
                "give the user the rights `+eval +evalsha`; what else it needs says required_acl",
            ),
            (_, Allowed::Unknown) => finding(
                Severity::Notice,
                subject,
                "scripts.unchecked",
                "whether it runs scripts could not be checked".into(),
                "it is not known",
                "look at the other findings",
            ),
        }
    }

    /// Each command, by the server's word if it may be asked, and else as far as it can be tried.
    async fn commands(&self, server: &Arc<dyn Server>, key: &str) -> Option<Finding> {
        let deeds = questions::deeds(key, self.scope.backend().publish_kind());
        let user = self.said(server, questions::whoami()).await;
        let user = user.as_ref().and_then(questions::text).unwrap_or_default();
        let asked = deeds.iter().map(|(_, question, _)| questions::dry_run(user, question)).collect();
        let told = self.ask(server, asked).await.ok()?;
        let answers: Vec<Allowed> = if told.iter().all(Result::is_ok) && !user.is_empty() {
            told.iter().map(|answer| answer.as_ref().map_or(Allowed::Unknown, dry)).collect()
        } else {
            let harmless = deeds.iter().filter(|(.., is_harmless)| *is_harmless);
            let asked = harmless.map(|(_, question, _)| question.clone()).collect();
            let mut tried = self.ask(server, asked).await.ok()?.into_iter();
            let tried = |is_harmless: bool| is_harmless.then(|| tried.next()).flatten();
            let answer = |answer: Option<_>| answer.as_ref().map_or(Allowed::Unknown, allowed);
            deeds.iter().map(|(.., is_harmless)| *is_harmless).map(tried).map(answer).collect()
        };
        let of = |which: fn(&Allowed) -> bool| {
            let them = deeds.iter().zip(&answers).filter(|(_, allowed)| which(allowed)).map(|((name, ..), _)| *name);
            let them: BTreeSet<_> = them.collect();
            them.into_iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ")
        };
        let denied = of(|allowed| matches!(allowed, Allowed::No));
        let (elsewhere, unknown) = (of(|it| matches!(it, Allowed::NotHere)), of(|it| matches!(it, Allowed::Unknown)));
        let subject = Subject::Rights;
        Some(if !denied.is_empty() {
            let found = format!("this user lacks {denied}");
            let to_do = "give the user what required_acl says";
            finding(
                Severity::Error,
                subject,
                "rights.denied",
                found,
                "locks fail, some of them when they are released",
                to_do,
            )
        } else if !elsewhere.is_empty() {
            let found = "this user may not touch what a lock with this prefix would have".to_owned();
            let may_happen = "locks fail, unless the user's keys and channels are those of some names alone";
            let to_do = "compare the user's keys and channels with what required_acl says";
            finding(Severity::Notice, subject, "rights.keys", found, may_happen, to_do)
        } else if !unknown.is_empty() {
            unchecked(
                subject,
                "rights.unchecked",
                &format!("whether this user has {unknown}"),
                "+acl|whoami +acl|dryrun",
            )
        } else {
            finding(Severity::Ok, subject, "rights.all", "this user has all rights that locks need".into(), "", "")
        })
    }
}

fn listening_told(allowed: &Allowed) -> Finding {
    let subject = Subject::PubSub;
    match allowed {
        Allowed::Yes | Allowed::NotHere => {
            finding(Severity::Ok, subject, "pubsub.allowed", "this user may listen to channels".into(), "", "")
        }
        Allowed::No => finding(
            Severity::Warning,
            subject,
            "pubsub.denied",
            "this user may not listen to channels".into(),
            "whoever waits for a lock is not told of its release, and asks again every now and then",
            "give the user what required_acl says",
        ),
        Allowed::Unknown => finding(
            Severity::Notice,
            subject,
            "pubsub.unchecked",
            "whether this user may listen to channels could not be checked".into(),
            "it is not known",
            "look at the other findings",
        ),
    }
}

/// What an answer to the deed itself says of it: whoever is refused for anything else was let in.
fn allowed<T>(answer: &Result<T, Fault>) -> Allowed {
    match answer {
        Ok(_) => Allowed::Yes,
        Err(fault) if fault.kind == FaultKind::Permission => denied(&fault.source.to_string()),
        Err(fault) if fault.kind == FaultKind::ScriptDisabled => Allowed::No,
        Err(fault) if questions::is_no_script(fault) || questions::is_elsewhere(fault) => Allowed::Yes,
        Err(_) => Allowed::Unknown,
    }
}

/// What the server says that does not do it.
fn dry(answer: &Value) -> Allowed {
    match questions::text(answer) {
        Some("OK") => Allowed::Yes,
        Some(words) => denied(words),
        None => Allowed::Unknown,
    }
}

fn denied(words: &str) -> Allowed {
    let words = words.to_lowercase();
    if words.contains(" key") || words.contains(" channel") { Allowed::NotHere } else { Allowed::No }
}
