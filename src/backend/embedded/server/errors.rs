//! What the server says when it refuses. Who refuses when is the commands' business.

use std::borrow::Cow;

/// A refusal: the words after the `-` of an error.
pub(super) type ErrorText = Cow<'static, str>;

pub(super) const WRONG_TYPE: ErrorText =
    Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value");
pub(super) const NO_INTEGER: ErrorText = Cow::Borrowed("ERR value is not an integer or out of range");
pub(super) const NO_FLOAT: ErrorText = Cow::Borrowed("ERR value is not a valid float");
pub(super) const NO_BOUND: ErrorText = Cow::Borrowed("ERR min or max is not a float");
pub(super) const NO_HASH_INTEGER: ErrorText = Cow::Borrowed("ERR hash value is not an integer");
pub(super) const NOT_A_NUMBER: ErrorText = Cow::Borrowed("ERR resulting score is not a number (NaN)");
pub(super) const OVERFLOW: ErrorText = Cow::Borrowed("ERR increment or decrement would overflow");
pub(super) const NEGATION: ErrorText = Cow::Borrowed("ERR decrement would overflow");
pub(super) const NOT_POSITIVE: ErrorText = Cow::Borrowed("ERR value is out of range, must be positive");
pub(super) const SYNTAX: ErrorText = Cow::Borrowed("ERR syntax error");
pub(super) const NO_KEY: ErrorText = Cow::Borrowed("ERR no such key");
pub(super) const OUT_OF_RANGE: ErrorText = Cow::Borrowed("ERR index out of range");
pub(super) const OUT_OF_MEMORY: ErrorText = Cow::Borrowed("OOM command not allowed when used memory > 'maxmemory'.");
pub(super) const NO_SCRIPT: ErrorText = Cow::Borrowed("NOSCRIPT No matching script. Please use EVAL.");

pub(super) fn expire_time(command: &str) -> ErrorText {
    format!("ERR invalid expire time in '{command}' command").into()
}

pub(super) fn arity(command: &str) -> ErrorText {
    format!("ERR wrong number of arguments for '{command}' command").into()
}

/// Names the command and what came with it, no more than 128 bytes of each.
pub(super) fn unknown_command(words: &[&[u8]]) -> ErrorText {
    const MOST: usize = 128;
    let (command, args) = words.split_first().map_or((&b""[..], words), |(command, args)| (*command, args));
    let mut shown = Vec::new();
    for arg in args {
        if shown.len() >= MOST {
            break;
        }
        let part = &c_string(arg)[..c_string(arg).len().min(MOST - shown.len())];
        shown.push(b'\'');
        shown.extend_from_slice(part);
        shown.extend_from_slice(b"' ");
    }
    let command = c_string(command);
    let command = line(&command[..command.len().min(MOST)]);
    format!("ERR unknown command '{command}', with args beginning with: {}", line(&shown)).into()
}

/// Up to the first zero byte, as the server's language takes a text.
pub(super) fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The same for an error, which does not end with a line's end.
pub(super) fn error_line(bytes: &[u8]) -> String {
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    line(&bytes[..bytes.iter().rposition(|byte| !ends(byte)).map_or(0, |last| last + 1)])
}

/// What fits into one line of the protocol.
pub(super) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(['\r', '\n'], " ")
}
