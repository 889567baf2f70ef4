//! What a process of the storm writes down, line by line, and how it is read back. It judges nothing.
//!
//! Every line is one write to a file that is only appended to, so what a killed process wrote is whole.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    str::{FromStr, SplitWhitespace},
    time::Duration,
};

/// One line: when, which section of which task, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The shared monotonic clock; before the thing that the line tells of was done, unless the line says otherwise.
    pub(crate) at: Duration,
    pub(crate) task: u64,
    pub(crate) section: u64,
    pub(crate) event: Event,
}

/// What a section does. Numbers are drawn once in a process: what is asked has one, and a guard has that of its
/// acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Something was called that must end.
    Asked { number: u64, what: What, name: usize, within: Option<Duration> },
    /// It ended; `at` is afterwards.
    Ended { number: u64, answer: String },
    /// The hold was believed in at some instant between `at` and `seen`.
    Held { guard: u64, seen: Duration },
    /// The counter was raised from this; `sure` if the hold was still believed in afterwards.
    Counted { guard: u64, from: u64, sure: bool },
}

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum What {
    /// An acquisition, whose end is `granted` if it is granted.
    Lock,
    Unlock,
    /// The unlock of a detached hold, which may be forgotten when its loss is long ago.
    UnlockDetached,
    Extend,
    /// The loss of a hold that is believed in no more.
    Told,
    /// A question to the server.
    Look,
    Force,
}

/// The end of an acquisition that gave a guard.
pub(crate) const GRANTED: &str = "granted";
/// The end of whatever was dropped before it answered.
pub(crate) const DROPPED: &str = "dropped";

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.at.as_nanos(), self.task, self.section)?;
        match &self.event {
            Event::Asked { number, what, name, within } => {
                write!(f, "asked {number} {what:?} {name} ")?;
                match within {
                    None => f.write_str("-"),
                    Some(within) => write!(f, "{}", within.as_nanos()),
                }
            }
            Event::Ended { number, answer } => write!(f, "ended {number} {answer}"),
            Event::Held { guard, seen } => write!(f, "held {guard} {}", seen.as_nanos()),
            Event::Counted { guard, from, sure } => write!(f, "counted {guard} {from} {sure}"),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        parse(&mut words).filter(|_| words.next().is_none()).ok_or_else(|| format!("no line of a log: {line:?}"))
    }
}

fn parse(words: &mut SplitWhitespace<'_>) -> Option<Line> {
    let (at, task, section) = (time(words)?, number(words)?, number(words)?);
    let event = match words.next()? {
        "asked" => Event::Asked {
            number: number(words)?,
            what: what(words.next()?)?,
            name: number(words)?,
            within: match words.next()? {
                "-" => None,
                nanos => Some(Duration::from_nanos(nanos.parse().ok()?)),
            },
        },
        "ended" => Event::Ended { number: number(words)?, answer: words.next()?.to_owned() },
        "held" => Event::Held { guard: number(words)?, seen: time(words)? },
        "counted" => Event::Counted { guard: number(words)?, from: number(words)?, sure: number(words)? },
        _ => return None,
    };
    Some(Line { at, task, section, event })
}

fn what(word: &str) -> Option<What> {
    use What::{Extend, Force, Lock, Look, Told, Unlock, UnlockDetached};
    [Lock, Unlock, UnlockDetached, Extend, Told, Look, Force].into_iter().find(|what| format!("{what:?}") == word)
}

fn number<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn time(words: &mut SplitWhitespace<'_>) -> Option<Duration> {
    number(words).map(Duration::from_nanos)
}

/// The file that one process writes.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).expect("the log opens"))
    }

    pub(crate) fn note(&self, line: &Line) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).expect("the log takes a line");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_as_it_was_written() {
        let events = [
            Event::Asked { number: 5, what: What::Lock, name: 2, within: None },
            Event::Asked { number: 6, what: What::UnlockDetached, name: 0, within: Some(Duration::from_nanos(17)) },
            Event::Ended { number: 5, answer: GRANTED.to_owned() },
            Event::Held { guard: 5, seen: Duration::from_nanos(20) },
            Event::Counted { guard: 5, from: 41, sure: true },
        ];
        for event in events {
            let line = Line { at: Duration::from_nanos(9), task: 3, section: 4, event };
            assert_eq!(line.to_string().parse(), Ok(line));
        }
    }

    #[test]
    fn half_a_line_is_refused() {
        assert!("9 3 4 held 5".parse::<Line>().is_err());
        assert!("9 3 4 held 5 20 more".parse::<Line>().is_err());
    }
}
