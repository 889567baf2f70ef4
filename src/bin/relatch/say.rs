//! What is said: one line each, with no secret in it. Where nobody reads it that is no error.

use std::{
    env,
    error::Error,
    io::{self, IsTerminal, Write, stderr, stdout},
    sync::{
        Condvar, LazyLock, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::{Failure, child::masks::as_if_in_front, status};

/// How many lines are not written yet.
static WAITING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());
/// The end waits so long for somebody who reads them.
const PATIENCE: Duration = Duration::from_secs(1);
/// What the library says of an answer that did not come. To a user of ours the command is another one.
const MAY_HAVE_RUN: &str = ", yet the command may have run";
/// Dates have four digits until then.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

/// One line for whoever called. It is written by a thread of its own: nobody may be there to read it, and the work waits for nobody.
pub(crate) fn line(text: &str) {
    static WRITER: LazyLock<Option<Sender<String>>> = LazyLock::new(|| {
        let (give, given) = mpsc::channel();
        thread::Builder::new().spawn(move || write_all(&given)).ok().map(|_| give)
    });
    let line = format!("relatch: {}\n", one_line(text));
    change_waiting(|count| count + 1);
    let unsent = match &*WRITER {
        Some(writer) => writer.send(line).err().map(|unsent| unsent.0),
        None => Some(line),
    };
    // The system gives no thread: better that we wait than that nobody hears.
    if let Some(line) = unsent {
        write(&line);
        change_waiting(|count| count - 1);
    }
}

fn write_all(lines: &Receiver<String>) {
    for line in lines {
        write(&line);
        change_waiting(|count| count - 1);
    }
}

fn write(line: &str) {
    // A terminal may stop whoever writes from behind.
    let _ = as_if_in_front(|| stderr().lock().write_all(line.as_bytes()));
}

fn change_waiting(by: impl FnOnce(usize) -> usize) {
    let (count, changed) = &WAITING;
    let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
    *count = by(*count);
    changed.notify_all();
}

/// Waits a moment for lines that are not written yet.
pub(crate) fn finish() {
    let (count, changed) = &WAITING;
    let count = count.lock().unwrap_or_else(PoisonError::into_inner);
    drop(changed.wait_timeout_while(count, PATIENCE, |count| *count > 0));
}

/// Whether more is to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    All,
    /// Nobody reads it any more, which is no fault.
    Unread,
}

/// What was asked for.
pub(crate) fn out(text: &str) -> Result<Printed, Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_or_else(not_written, |()| Ok(Printed::All))
}

/// What it means that something could not be printed.
pub(crate) fn not_written(error: io::Error) -> Result<Printed, Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Printed::Unread),
        _ => Err(Failure { why: format!("cannot write the output: {error}"), status: status::SYSTEM }),
    }
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
        let more = without_script(&source.to_string());
        // Some repeat what is behind them.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

/// The same, of what is called so in our lines. The library calls a job a lock, and what a server is asked to do a command.
pub(crate) fn chain_of(what: &str, error: &dyn Error) -> String {
    let text = chain(error).replace(MAY_HAVE_RUN, ", which may have been done all the same");
    match what.strip_prefix("job ") {
        Some(name) => text.replacen(&format!("lock {name}"), what, 1),
        None => text,
    }
}

/// What a server says without the script that ran into it, of which it tells a hash and a line. Before version 7.0 that stands in front.
fn without_script(text: &str) -> String {
    let is_of_number = |c: char| c.is_ascii_digit() || ": -".contains(c);
    if text.starts_with("ERR Error running script ") {
        return text.rsplit("user_script").next().unwrap_or(text).trim_start_matches(is_of_number).to_owned();
    }
    let Some((before, after)) = text.split_once(" script: ") else { return text.to_owned() };
    let behind =
        after.split_once(", on @user_script:").map(|(_, line)| line.trim_start_matches(|c: char| c.is_ascii_digit()));
    behind.map_or_else(|| text.to_owned(), |behind| format!("{before}{}", behind.strip_prefix('.').unwrap_or(behind)))
}

/// A name for a line: in quotes, and with nothing in it that a terminal would obey.
pub(crate) fn name(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// A time of a server, to the second. One that has no date, beyond the year 9999, is shown as it came.
pub(crate) fn time(time: SystemTime) -> String {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if since_1970 < YEAR_10000 {
        humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since_1970).to_string()
    } else {
        format!("{}ms after 1970", since_1970.as_millis())
    }
}

/// JSON in which there is nothing that a terminal would obey: by itself it lets some through.
pub(crate) fn json(value: &Value) -> String {
    let mut shown = String::new();
    for letter in value.to_string().chars() {
        match letter {
            // They stand in strings alone, and all of them have four digits.
            _ if letter.is_control() => shown.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => shown.push(letter),
        }
    }
    shown
}

/// Without line breaks, without what a terminal would obey, and without secrets.
pub(crate) fn one_line(text: &str) -> String {
    // Spaces in a line may be those of a name.
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text: String =
        lines.join(" ").replace('\t', " ").chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    without_secrets(&text)
}

/// What stands before the `@` of an address, or behind `pass=` and its like, is a secret.
fn without_secrets(text: &str) -> String {
    let text = without_users(text);
    let words: Vec<_> = text.split(' ').map(without_query).collect();
    words.join(" ")
}

/// A password that is not written as it has to be may have spaces: all up to the last `@` may be one.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("://");
        match part.rfind('@') {
            Some(at) => shown.extend(["***", &part[at..]]),
            None => shown.push_str(part),
        }
    }
    shown
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
            ("'redis://u:s3 cret@h' is none", "'redis://***@h' is none"),
            ("not redis://u:s3 cr:et@h, redis://a/", "not redis://***@h, redis://a/"),
            ("who? why", "who? why"),
        ] {
            assert_eq!(one_line(text), shown);
        }
    }

    #[test]
    fn a_server_is_repeated_without_the_script_that_ran_into_it() {
        for (text, shown) in [
            ("READONLY You can't write. script: 07f0690be6b7, on @user_script:86.", "READONLY You can't write."),
            (
                "READONLY No script: 07f0, on @user_script:86.; the link was given up",
                "READONLY No; the link was given up",
            ),
            (
                "ERR Error running script (call to f_ce1a): @user_script:1: @user_script: 1: -OOM not allowed",
                "OOM not allowed",
            ),
            ("ERR Error running script (call to f_18cb): @user_script:1: WRONGTYPE It is", "WRONGTYPE It is"),
            ("a script: of ours", "a script: of ours"),
        ] {
            assert_eq!(without_script(text), shown);
        }
    }

    #[test]
    fn a_time_that_has_no_date_is_shown_too() {
        let at = |secs| time(SystemTime::UNIX_EPOCH + Duration::from_secs(secs));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(253_402_300_799), "9999-12-31T23:59:59Z");
        assert_eq!(at(253_402_300_800), "253402300800000ms after 1970");
    }

    #[test]
    fn json_has_nothing_that_a_terminal_obeys() {
        let value = serde_json::json!({ "a": "\u{9b}31m\u{7f}\n\u{1b}é" });
        let shown = json(&value);
        assert_eq!(shown, r#"{"a":"\u009b31m\u007f\n\u001bé"}"#);
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("it is JSON"), value);
    }

    #[test]
    fn what_befalls_a_job_is_not_said_of_a_lock() {
        let error: io::Error =
            io::Error::other("could not release lock \"a\": it is away, yet the command may have run");
        let said = |what| chain_of(what, &error);
        assert_eq!(said("job \"a\""), "could not release job \"a\": it is away, which may have been done all the same");
        assert_eq!(
            said("lock \"a\""),
            "could not release lock \"a\": it is away, which may have been done all the same"
        );
    }

    #[test]
    fn whatever_is_said_is_one_line_that_no_terminal_obeys() {
        assert_eq!(one_line("a\n  b\u{1b}[31m\tc"), "a b\u{fffd}[31m c");
        assert_eq!(one_line("lock \"a  b\""), "lock \"a  b\"");
        assert_eq!(name("a\n\u{1b}\"b"), r#""a\n\u{1b}\"b""#);
    }
}
