//! What a server's words of refusal mean: one table, a row for each. It builds no fault and knows no driver.

use crate::backend::FaultKind;

/// What a refusal comes to. Whether it is worth another try is [`FaultKind::heals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) struct Meaning {
    pub(in crate::backend) kind: FaultKind,
    pub(in crate::backend) may_have_run: bool,
}

/// Reads a refusal, from its code to its last word.
pub(in crate::backend) fn meaning(words: &str) -> Meaning {
    let inside = raised_inside(words);
    let Some(row) = row(words) else { return Meaning { kind: FaultKind::Other, may_have_run: inside } };
    Meaning { kind: row.kind, may_have_run: inside && row.written == Written::Perhaps }
}

/// Whether only a replica says so.
pub(in crate::backend) fn are_of_a_replica(words: &str) -> bool {
    row(words).is_some_and(|row| matches!(row.says, Says::Code("READONLY" | "MASTERDOWN")))
}

/// What the refusal of a key's kind says of the key. The script that ran into it, which has a hash for a name, tells nobody more.
pub(in crate::backend) fn of_the_key(words: &str) -> &str {
    let words = words.find("WRONGTYPE").map_or(words, |at| &words[at..]);
    words.split(" script: ").next().unwrap_or(words)
}

fn row(words: &str) -> Option<&'static Row> {
    let code = words.split(' ').next().unwrap_or_default();
    // Before Redis 7 an error that a script ran into stands, with or without its sign, inside an ERR of the script's own.
    let nested = || words.split(' ').map(|word| word.trim_start_matches('-')).find_map(of_code);
    let with_code = of_code(code).or_else(|| if raised_inside(words) { nested() } else { None });
    with_code.or_else(|| {
        let words = words.to_lowercase();
        ROWS.iter().find(|row| matches!(row.says, Says::Words(part) if words.contains(part)))
    })
}

fn of_code(code: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| matches!(row.says, Says::Code(known) if known == code))
}

/// Whether a running script raised it. The script's chunk is named then, but for a refusal that the script itself handed
/// on: that is known by its words.
fn raised_inside(words: &str) -> bool {
    ["user_script", "The user executing the script", "ACL failure in script"].iter().any(|sign| words.contains(sign))
}

#[derive(Debug)]
struct Row {
    says: Says,
    kind: FaultKind,
    written: Written,
}

/// By what it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// The first word.
    Code(&'static str),
    /// What a refusal says that has no code of its own but ERR, in small letters.
    Words(&'static str),
}

/// What a script that ran into it had written before. A command that is refused as such has done nothing in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// The server refuses so only as long as the script has written nothing.
    Nothing,
    Perhaps,
}

const fn code(code: &'static str, kind: FaultKind, written: Written) -> Row {
    Row { says: Says::Code(code), kind, written }
}

const fn says(words: &'static str, kind: FaultKind, written: Written) -> Row {
    Row { says: Says::Words(words), kind, written }
}

const ROWS: &[Row] = {
    use FaultKind::{Credentials, Other, OutOfMemory, Permission, ReadOnly, ScriptDisabled, Unready, WrongType};
    use Written::{Nothing, Perhaps};
    &[
        // It cannot now.
        code("LOADING", Unready, Nothing),
        code("BUSY", Unready, Nothing),
        code("MASTERDOWN", Unready, Nothing),
        code("NOREPLICAS", Unready, Nothing),
        code("CLUSTERDOWN", Unready, Nothing),
        code("TRYAGAIN", Unready, Nothing),
        code("UNBLOCKED", Unready, Nothing),
        // Only a script that has written nothing can be stopped.
        // Of a key that ran out within the script, where its slot is half moved.
        says("attempted to access a non local key", Unready, Perhaps),
        says("script killed by user", Unready, Nothing),
        says("max number of clients reached", Unready, Nothing),
        says("max number of clients + cluster connections reached", Unready, Nothing),
        // It may not write.
        code("READONLY", ReadOnly, Nothing),
        code("MISCONF", ReadOnly, Nothing),
        // Another node would: whoever came here by this road is at the wrong address.
        code("MOVED", Other, Nothing),
        code("ASK", Other, Nothing),
        code("CROSSSLOT", Other, Nothing),
        // It does not let us.
        code("NOAUTH", Credentials, Nothing),
        code("WRONGPASS", Credentials, Nothing),
        says("invalid password", Credentials, Nothing),
        says("called without any password configured", Credentials, Nothing),
        code("DENIED", Permission, Nothing),
        code("NOPERM", Permission, Perhaps),
        // Until version 7.0, and from 7.2 on.
        says("the user executing the script can't", Permission, Perhaps),
        says("acl failure in script", Permission, Perhaps),
        // It will not, until somebody does something about it.
        code("WRONGTYPE", WrongType, Perhaps),
        code("OOM", OutOfMemory, Nothing),
        says("unknown command 'eval", ScriptDisabled, Nothing),
        says("unknown command `eval", ScriptDisabled, Nothing),
        // What none of our commands is answered with, if all is well.
        code("NOSCRIPT", Other, Nothing),
        code("UNKILLABLE", Other, Perhaps),
        code("NOTBUSY", Other, Nothing),
        code("EXECABORT", Other, Nothing),
        code("NOPROTO", Other, Nothing),
    ]
};

#[cfg(test)]
mod tests;
