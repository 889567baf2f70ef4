//! ErrorText of a command, read as what they stand for. It knows no command.

use super::{
    errors::{self, ErrorText, NO_BOUND, NO_FLOAT, NO_INTEGER, NOT_POSITIVE},
    numbers,
    sorted_set::{Edge, Scores},
};

pub(super) fn integer(word: &[u8]) -> Result<i64, ErrorText> {
    numbers::integer(word).ok_or(NO_INTEGER)
}

pub(super) fn float(word: &[u8]) -> Result<f64, ErrorText> {
    numbers::float(word).ok_or(NO_FLOAT)
}

/// How many, from zero.
pub(super) fn count(word: &[u8]) -> Result<usize, ErrorText> {
    numbers::integer(word).and_then(|count| usize::try_from(count).ok()).ok_or(NOT_POSITIVE)
}

pub(super) fn scores(least: &[u8], most: &[u8]) -> Result<Scores, ErrorText> {
    Ok(Scores { least: edge(least)?, most: edge(most)? })
}

fn edge(word: &[u8]) -> Result<Edge, ErrorText> {
    let edge = match word.strip_prefix(b"(") {
        Some(without) => numbers::bound(without).map(Edge::Without),
        None => numbers::bound(word).map(Edge::With),
    };
    edge.ok_or(NO_BOUND)
}

/// From a first to a last place, where a negative one counts from the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    first: i64,
    last: i64,
}

pub(super) fn places(first: &[u8], last: &[u8]) -> Result<Places, ErrorText> {
    Ok(Places { first: integer(first)?, last: integer(last)? })
}

impl Places {
    /// Which of so many that is.
    pub(super) fn of(self, len: usize) -> std::ops::Range<usize> {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let from_front = |place: i64| if place < 0 { place.saturating_add(len) } else { place };
        let first = from_front(self.first).max(0);
        let end = from_front(self.last).min(len - 1).saturating_add(1);
        if first >= end {
            return 0..0;
        }
        usize::try_from(first).unwrap_or_default()..usize::try_from(end).unwrap_or_default()
    }
}

/// The place of one of so many, if there is one.
pub(super) fn place(word: &[u8], len: usize) -> Result<Option<usize>, ErrorText> {
    let place = integer(word)?;
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let place = if place < 0 { place.saturating_add(len) } else { place };
    Ok(usize::try_from(place).ok().filter(|_| place < len))
}

/// How a command says when a key shall end.
pub(super) struct Unit<'a> {
    pub(super) milliseconds: i64,
    pub(super) from: i64,
    pub(super) command: &'a str,
}

impl Unit<'_> {
    /// When that is; the words where it is no time that the clock could show.
    pub(super) fn end(&self, count: i64) -> Result<i64, ErrorText> {
        let end = count.checked_mul(self.milliseconds).and_then(|duration| duration.checked_add(self.from));
        end.ok_or_else(|| errors::expire_time(self.command))
    }
}
