//! What is said: one line each, with no secret in it. Where nobody reads it that is no error.

use std::{
    env,
    error::Error,
    io::{IsTerminal, Write, stderr, stdout},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::child::masks::as_if_in_front;

/// How many lines are being said beside the work.
static BESIDE: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
/// For so long the end waits for those.
const PATIENCE: Duration = Duration::from_secs(1);

/// One line for whoever called.
pub(crate) fn line(text: &str) {
    let line = format!("relatch: {}\n", one_line(text));
    // Nobody may be there to read it, and a terminal may stop whoever writes from behind.
    let _ = as_if_in_front(|| stderr().lock().write_all(line.as_bytes()));
}

/// The same for whoever has no time to wait until somebody reads it.
pub(crate) fn beside(text: String) {
    let (count, ended) = &BESIDE;
    let change = |by: fn(usize) -> usize| {
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = by(*count);
    };
    change(|count| count + 1);
    let said = move || {
        line(&text);
        let mut count = BESIDE.0.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        ended.notify_all();
    };
    if thread::Builder::new().spawn(said).is_err() {
        change(|count| count - 1);
    }
}

/// Waits a moment for lines that are still being said.
pub(crate) fn finish() {
    let (count, ended) = &BESIDE;
    let count = count.lock().unwrap_or_else(PoisonError::into_inner);
    drop(ended.wait_timeout_while(count, PATIENCE, |count| *count > 0));
}

/// What was asked for. `false` once nobody reads it any more.
pub(crate) fn out(text: &str) -> bool {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Whether whoever reads it is at a terminal.
pub(crate) fn to_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether colours are wanted there, and known: `NO_COLOR` says no, whatever it says.
pub(crate) fn in_colour() -> bool {
    let said = |name: &str| env::var_os(name).filter(|it| !it.is_empty());
    to_terminal() && said("NO_COLOR").is_none() && said("TERM").is_some_and(|it| it != "dumb")
}

/// An error with all that is behind it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        // Some repeat what is behind them.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

/// A name for a line: in quotes, and with nothing in it that a terminal would obey.
pub(crate) fn name(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// Without line breaks, without what a terminal would obey, and without secrets.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    without_secrets(&text)
}

/// What stands before the `@` of an address, or behind `pass=` and its like, is a secret.
fn without_secrets(text: &str) -> String {
    let words: Vec<_> = text.split(' ').map(|word| without_query(&without_user(word))).collect();
    words.join(" ")
}

fn without_user(word: &str) -> String {
    match word.split_once("://") {
        Some((scheme, rest)) => match rest.rfind('@') {
            Some(at) => format!("{scheme}://***{}", &rest[at..]),
            None => word.to_owned(),
        },
        None => word.to_owned(),
    }
}

fn without_query(word: &str) -> String {
    let Some((before, query)) = word.split_once('?') else { return word.to_owned() };
    let shown = |part: &str| match part.split_once('=') {
        Some((key, _)) if key.contains("pass") => format!("{key}=***"),
        _ => part.to_owned(),
    };
    let parts: Vec<_> = query.split('&').map(shown).collect();
    format!("{before}?{}", parts.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (text, shown) in [
            ("cannot use redis://me:s3c@ret@host/0 here", "cannot use redis://***@host/0 here"),
            ("redis+unix:///sock?pass=s3cret&db=1", "redis+unix:///sock?pass=***&db=1"),
            ("redis-sentinel://a,b#m?sentinel_password=s3cret", "redis-sentinel://a,b#m?sentinel_password=***"),
            ("who? why", "who? why"),
        ] {
            assert_eq!(one_line(text), shown);
        }
    }

    #[test]
    fn whatever_is_said_is_one_line_that_no_terminal_obeys() {
        assert_eq!(one_line("a\nb\u{1b}[31m  c"), "a b\u{fffd}[31m c");
        assert_eq!(name("a\n\u{1b}\"b"), r#""a\n\u{1b}\"b""#);
    }
}
