//! Calls as the driver's commands, the driver's replies as the seam's values. Sends nothing.

use std::{borrow::Cow, ptr};

use redis::Cmd;

use super::{faults, secrets::Secrets, spare::Spared};
use crate::{
    backend::{Arg, Call, Fault, Value},
    script::{CATALOGUE, Script, Word},
};

/// The SHA-1 of every script, made once.
pub(super) struct Hashes(Vec<(&'static Script, String)>);

impl Hashes {
    pub(super) fn of_catalogue() -> Self {
        Self(CATALOGUE.iter().map(|script| (*script, sha1(script))).collect())
    }

    fn of(&self, script: &'static Script) -> Cow<'_, str> {
        // A handful of entries: walking them is faster than hashing a key.
        match self.0.iter().find(|(known, _)| ptr::eq(*known, script)) {
            Some((_, hash)) => Cow::Borrowed(hash),
            None => Cow::Owned(sha1(script)),
        }
    }
}

/// The call: by the script's hash, or word for word where it is no script.
pub(super) fn command(hashes: &Hashes, call: &Call<'_>) -> Spared {
    let (args, bytes) = room(call);
    let mut cmd = Spared::with_room(args, bytes);
    write(&mut cmd, hashes, call);
    cmd
}

/// The same as one of a pipeline, which goes with it.
pub(super) fn command_of_many(hashes: &Hashes, call: &Call<'_>) -> Cmd {
    let (args, bytes) = room(call);
    let mut cmd = Cmd::with_capacity(args, bytes);
    write(&mut cmd, hashes, call);
    cmd
}

/// How many arguments the command has, and room for their bytes.
fn room(call: &Call<'_>) -> (usize, usize) {
    let texts = call.args.iter().map(|arg| match arg {
        Arg::Text(text) => text.len(),
        Arg::Bytes(bytes) => bytes.len(),
        Arg::Int(_) => 20,
    });
    let bytes = 64 + call.keys.iter().map(|key| key.len()).chain(texts).sum::<usize>();
    (call.script.words.len().max(3 + call.keys.len() + call.args.len()), bytes)
}

fn write(cmd: &mut Cmd, hashes: &Hashes, call: &Call<'_>) {
    debug_assert!(call.script.takes(call.keys.len(), call.args.len()), "{} declares other inputs", call.script.path);
    for word in call.script.words {
        match *word {
            Word::Is(word) => add(cmd, Arg::Text(word)),
            Word::Key => call.keys.iter().take(1).for_each(|key| add(cmd, Arg::Text(key))),
            Word::Arg(at) => call.args.iter().skip(at).take(1).for_each(|arg| add(cmd, *arg)),
        }
    }
    if call.script.words.is_empty() {
        cmd.arg("EVALSHA").arg(&*hashes.of(call.script)).arg(call.keys.len());
        for key in call.keys {
            cmd.arg(*key);
        }
        call.args.iter().for_each(|arg| add(cmd, *arg));
    }
}

fn add(cmd: &mut Cmd, arg: Arg<'_>) {
    match arg {
        Arg::Text(text) => cmd.arg(text),
        Arg::Bytes(bytes) => cmd.arg(bytes),
        Arg::Int(int) => cmd.arg(int),
    };
}

/// The same call by the script's source, for a server that does not know the hash.
pub(super) fn eval(evalsha: &Cmd, script: &Script) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg("EVAL").arg(script.source);
    for arg in evalsha.args_iter().skip(2) {
        if let redis::Arg::Simple(bytes) = arg {
            cmd.arg(bytes);
        }
    }
    cmd
}

/// Whether the server will not.
pub(super) fn is_refusal(reply: &redis::Value) -> bool {
    matches!(reply, redis::Value::ServerError(_))
}

/// Whether the server did not know the script's hash.
pub(super) fn is_unknown_script(reply: &redis::Value) -> bool {
    matches!(reply, redis::Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// Whether keys of two slots were too many for one call.
pub(super) fn is_of_two_slots(reply: &redis::Value) -> bool {
    matches!(reply, redis::Value::ServerError(error) if error.code() == "CROSSSLOT")
}

/// In which mode a server is that was greeted.
pub(super) fn mode(greeting: &redis::Value) -> Option<&str> {
    pairs(greeting).find(|(what, _)| text(what) == Some("mode")).and_then(|(_, mode)| text(mode))
}

/// What a server is to others that was greeted, or asked for its role.
pub(super) fn role(reply: &redis::Value) -> Option<&str> {
    if let redis::Value::Array(parts) = reply
        && let Some(role @ ("master" | "slave")) = parts.first().and_then(text)
    {
        return Some(role);
    }
    pairs(reply).find(|(what, _)| text(what) == Some("role")).and_then(|(_, role)| text(role))
}

/// A map, in whichever protocol it was answered.
pub(super) fn pairs(reply: &redis::Value) -> impl Iterator<Item = (&redis::Value, &redis::Value)> {
    let (map, list) = match reply {
        redis::Value::Map(pairs) => (&pairs[..], &[][..]),
        redis::Value::Array(list) => (&[][..], &list[..]),
        _ => (&[][..], &[][..]),
    };
    map.iter().map(|(key, value)| (key, value)).chain(list.chunks_exact(2).map(|pair| (&pair[0], &pair[1])))
}

pub(super) fn text(reply: &redis::Value) -> Option<&str> {
    match reply {
        redis::Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        redis::Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// The first key of a call.
pub(super) fn key(cmd: &Cmd) -> Option<&[u8]> {
    argument(cmd, first_key(cmd))
}

/// The keys of a call; of a script that takes any number of them, the first.
pub(super) fn keys<'a>(cmd: &'a Cmd, script: &Script) -> Vec<&'a [u8]> {
    (first_key(cmd)..).take(script.keys.len()).filter_map(|at| argument(cmd, at)).collect()
}

/// Where it stands: behind a script and the number of its keys, or behind a command's name.
fn first_key(cmd: &Cmd) -> usize {
    if is_script(cmd) { 3 } else { 1 }
}

fn is_script(cmd: &Cmd) -> bool {
    matches!(argument(cmd, 0), Some(b"EVALSHA" | b"EVAL"))
}

/// Whether the script itself is sent, and not its hash.
pub(super) fn is_whole(cmd: &Cmd) -> bool {
    argument(cmd, 0) == Some(b"EVAL")
}

/// The command by which the script of a call publishes, and the channel, if it does.
pub(super) fn publication<'a>(cmd: &'a Cmd, script: &Script) -> Option<(&'a [u8], &'a [u8])> {
    if !is_script(cmd) {
        return None;
    }
    let keys: usize = std::str::from_utf8(argument(cmd, 2)?).ok()?.parse().ok()?;
    let named = |name: &str| script.args.iter().position(|declared| declared.trim_end_matches('?') == name);
    let given = |name| argument(cmd, 3 + keys + named(name)?);
    Some((given("publish")?, given("channel")?))
}

fn argument(cmd: &Cmd, at: usize) -> Option<&[u8]> {
    match cmd.args_iter().nth(at)? {
        redis::Arg::Simple(bytes) => Some(bytes),
        _ => None,
    }
}

/// A question for what stands at the key of a call.
pub(super) fn type_of_key(call: &Cmd) -> Option<Cmd> {
    let key = key(call)?;
    let mut cmd = Cmd::new();
    cmd.arg("TYPE").arg(key);
    Some(cmd)
}

/// The answer to it; `None` where nothing stands there any more. Whoever answers may repeat a credential: only what is known
/// is told.
pub(super) fn type_there(reply: &redis::Value) -> Option<&'static str> {
    match text(reply)? {
        "none" => None,
        "string" => Some("a string, as a lock of another library is"),
        "list" => Some("a list"),
        "set" => Some("a set"),
        "zset" => Some("a sorted set"),
        "hash" => Some("a hash"),
        "stream" => Some("a stream"),
        _ => Some("something else"),
    }
}

/// A reply as the seam has it.
pub(super) fn value(reply: redis::Value, secrets: &Secrets) -> Result<Value, Fault> {
    match reply {
        redis::Value::ServerError(error) => Err(faults::refused(&error, secrets)),
        other => inner_value(other, secrets),
    }
}

fn inner_value(reply: redis::Value, secrets: &Secrets) -> Result<Value, Fault> {
    match reply {
        redis::Value::Nil => Ok(Value::Nil),
        redis::Value::Int(int) => Ok(Value::Int(int)),
        redis::Value::BulkString(bytes) => Ok(Value::Bytes(bytes)),
        redis::Value::SimpleString(text) => Ok(Value::Bytes(text.into_bytes())),
        redis::Value::Okay => Ok(Value::Bytes(b"OK".to_vec())),
        redis::Value::Array(parts) => match Value::of_numbers(&parts, number) {
            Some(numbers) => Ok(numbers),
            None => {
                let parts = parts.into_iter().map(|part| inner_value(part, secrets));
                parts.collect::<Result<_, _>>().map(Value::Array)
            }
        },
        redis::Value::ServerError(error) => Err(faults::refused_within(&error, secrets)),
        other => Err(faults::unexpected(&other)),
    }
}

fn number(part: &redis::Value) -> Option<i64> {
    if let redis::Value::Int(int) = part { Some(*int) } else { None }
}

/// The SHA-1 of some bytes, in hexadecimal; of what is no text, that of its digits.
#[cfg(feature = "operate")]
pub(crate) fn digest(bytes: &[u8]) -> String {
    let hash = |text: &str| redis::Script::new(text).get_hash().to_owned();
    let digits = || bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    std::str::from_utf8(bytes).map_or_else(|_| hash(&digits()), hash)
}

fn sha1(script: &Script) -> String {
    redis::Script::new(script.source).get_hash().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{FaultKind, Polled},
        script::commands,
    };

    static ECHO: Script = Script {
        path: "echo",
        source: "return {KEYS[1], ARGV[1]}",
        words: &[],
        keys: &["key"],
        args: &["text", "number"],
        answer: "{key, text}",
    };

    fn words(cmd: &Cmd) -> Vec<String> {
        cmd.args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => "?".to_owned(),
            })
            .collect()
    }

    fn reply(bytes: &[u8]) -> redis::Value {
        redis::parse_redis_value(bytes).unwrap()
    }

    #[test]
    fn a_call_is_sent_by_hash_and_again_by_source() {
        let call = Call {
            script: &ECHO,
            keys: &["lock"],
            args: &[Arg::Text("a b"), Arg::Int(-7)],
            dispatch: None,
            polled: Polled::ByCaller,
        };
        let by_hash = command(&Hashes(vec![(&ECHO, "abc".to_owned())]), &call);
        assert_eq!(words(&by_hash), ["EVALSHA", "abc", "1", "lock", "a b", "-7"]);
        assert_eq!(words(&eval(&by_hash, &ECHO)), ["EVAL", ECHO.source, "1", "lock", "a b", "-7"]);
    }

    #[test]
    fn a_script_outside_the_catalogue_has_its_hash_all_the_same() {
        let call = Call {
            script: &ECHO,
            keys: &["lock"],
            args: &[Arg::Text(""), Arg::Int(0)],
            dispatch: None,
            polled: Polled::ByCaller,
        };
        assert_eq!(words(&command(&Hashes(Vec::new()), &call))[1].len(), 40);
    }

    #[test]
    fn a_command_is_sent_word_for_word_and_its_key_is_found() {
        let token = b"17";
        let call = Call {
            script: &commands::SET_NX,
            keys: &["lock"],
            args: &[Arg::Bytes(token), Arg::Int(30)],
            dispatch: None,
            polled: Polled::ByCaller,
        };
        let cmd = command_of_many(&Hashes(Vec::new()), &call);
        assert_eq!(words(&cmd), ["SET", "lock", "17", "NX", "PX", "30"]);
        assert_eq!((key(&cmd), keys(&cmd, call.script)), (Some(&b"lock"[..]), vec![&b"lock"[..]]));
        assert_eq!(publication(&cmd, call.script), None);
    }

    #[test]
    fn replies_become_values() {
        for (bytes, expected) in [
            (&b":42\r\n"[..], Value::Int(42)),
            (b"$-1\r\n", Value::Nil),
            (b"_\r\n", Value::Nil),
            (b"$2\r\n\x00\xff\r\n", Value::Bytes(vec![0, 0xff])),
            (b"+OK\r\n", Value::Bytes(b"OK".to_vec())),
            (b"+PONG\r\n", Value::Bytes(b"PONG".to_vec())),
            (b"*5\r\n:1\r\n:-2\r\n:3\r\n:4\r\n:5\r\n", Value::Numbers([1, -2, 3, 4, 5].into_iter().collect())),
            (b"*0\r\n", Value::Array(Vec::new())),
            (b"*2\r\n:1\r\n*1\r\n$-1\r\n", Value::Array(vec![Value::Int(1), Value::Array(vec![Value::Nil])])),
        ] {
            assert_eq!(value(reply(bytes), &Secrets::default()).unwrap(), expected);
        }
    }

    #[test]
    fn an_error_inside_an_array_and_a_strange_type_are_faults() {
        let fault = value(reply(b"*2\r\n:1\r\n-ERR broken\r\n"), &Secrets::default()).unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Other, true));
        assert_eq!(fault.source.to_string(), "ERR broken");
        let fault = value(reply(b",1.5\r\n"), &Secrets::default()).unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Unexpected, true));
    }

    #[test]
    fn of_a_type_only_what_is_known_is_told() {
        let rows = [("none", None), ("list", Some("a list")), ("s3cret", Some("something else"))];
        for (kind, told) in rows {
            assert_eq!(type_there(&redis::Value::SimpleString(kind.to_owned())), told);
        }
    }
}
