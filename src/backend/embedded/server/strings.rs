//! Commands on strings, and on the integers that they may be.

use super::{
    arguments::{self, Unit},
    database::{Answer, Database},
    errors::{ErrorText, NEGATION, NO_INTEGER, OVERFLOW, SYNTAX, expire_time},
    keyspace::Life,
    numbers,
    reply::Reply,
    value::Value,
};

pub(super) fn get(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::bulk(db.keys.text(words[1])?))
}

pub(super) fn strlen(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.keys.text(words[1])?.map_or(0, <[u8]>::len)))
}

pub(super) fn getdel(db: &mut Database, words: &[&[u8]]) -> Answer {
    let old = get(db, words)?;
    db.keys.take(words[1]);
    Ok(old)
}

pub(super) fn getset(db: &mut Database, words: &[&[u8]]) -> Answer {
    let old = get(db, words)?;
    db.keys.put(words[1], Value::Text(words[2].to_vec()), Life::Endless);
    Ok(old)
}

pub(super) fn setnx(db: &mut Database, words: &[&[u8]]) -> Answer {
    let free = db.keys.value(words[1]).is_none();
    if free {
        db.keys.put(words[1], Value::Text(words[2].to_vec()), Life::Endless);
    }
    Ok(Reply::Int(free.into()))
}

pub(super) fn append(db: &mut Database, words: &[&[u8]]) -> Answer {
    let mut text = db.keys.text(words[1])?.unwrap_or_default().to_vec();
    text.extend_from_slice(words[2]);
    let length = text.len();
    db.keys.put(words[1], Value::Text(text), Life::Kept);
    Ok(Reply::count(length))
}

pub(super) fn incr(db: &mut Database, words: &[&[u8]]) -> Answer {
    add(db, words[1], 1)
}

pub(super) fn decr(db: &mut Database, words: &[&[u8]]) -> Answer {
    add(db, words[1], -1)
}

pub(super) fn incrby(db: &mut Database, words: &[&[u8]]) -> Answer {
    add(db, words[1], arguments::integer(words[2])?)
}

pub(super) fn decrby(db: &mut Database, words: &[&[u8]]) -> Answer {
    add(db, words[1], arguments::integer(words[2])?.checked_neg().ok_or(NEGATION)?)
}

fn add(db: &mut Database, key: &[u8], by: i64) -> Answer {
    let old = db.keys.text(key)?.map_or(Some(0), numbers::integer).ok_or(NO_INTEGER)?;
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    db.keys.put(key, Value::Text(new.to_string().into_bytes()), Life::Kept);
    Ok(Reply::Int(new))
}

pub(super) fn set(db: &mut Database, words: &[&[u8]]) -> Answer {
    let options = Options::of(&words[3..])?;
    let life = options.life(db.keys.now())?;
    let old = if options.old { Some(get(db, words)?) } else { None };
    let there = db.keys.value(words[1]).is_some();
    let may = match options.only {
        Only::Always => true,
        Only::Missing => !there,
        Only::There => there,
    };
    if may {
        db.keys.put(words[1], Value::Text(words[2].to_vec()), life);
    }
    Ok(old.unwrap_or_else(|| if may { Reply::ok() } else { Reply::Nil }))
}

/// When a key is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    Always,
    Missing,
    There,
}

/// How a key's end is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends<'a> {
    Never,
    AsBefore,
    In { count: &'a [u8], milliseconds: i64 },
    At { count: &'a [u8], milliseconds: i64 },
}

/// The words after key and value.
struct Options<'a> {
    only: Only,
    old: bool,
    ends: Ends<'a>,
}

impl<'a> Options<'a> {
    fn of(words: &[&'a [u8]]) -> Result<Self, ErrorText> {
        let mut options = Self { only: Only::Always, old: false, ends: Ends::Never };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" if options.only != Only::There => options.only = Only::Missing,
                b"xx" if options.only != Only::Missing => options.only = Only::There,
                b"get" => options.old = true,
                b"keepttl" if matches!(options.ends, Ends::Never | Ends::AsBefore) => options.ends = Ends::AsBefore,
                name @ (b"ex" | b"px" | b"exat" | b"pxat") => {
                    let count: &[u8] = words.next().ok_or(SYNTAX)?;
                    let milliseconds = if name.starts_with(b"p") { 1 } else { 1000 };
                    let ends = if name.ends_with(b"at") {
                        Ends::At { count, milliseconds }
                    } else {
                        Ends::In { count, milliseconds }
                    };
                    options.end(ends)?;
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }

    /// The same way of saying it may come twice: the last one counts.
    fn end(&mut self, ends: Ends<'a>) -> Result<(), ErrorText> {
        let again = match (self.ends, ends) {
            (Ends::Never, _) => true,
            (Ends::In { milliseconds: old, .. }, Ends::In { milliseconds: new, .. })
            | (Ends::At { milliseconds: old, .. }, Ends::At { milliseconds: new, .. }) => old == new,
            _ => false,
        };
        self.ends = ends;
        if again { Ok(()) } else { Err(SYNTAX) }
    }

    fn life(&self, now: i64) -> Result<Life, ErrorText> {
        let (count, milliseconds, from) = match self.ends {
            Ends::Never => return Ok(Life::Endless),
            Ends::AsBefore => return Ok(Life::Kept),
            Ends::In { count, milliseconds } => (count, milliseconds, now),
            Ends::At { count, milliseconds } => (count, milliseconds, 0),
        };
        let count = arguments::integer(count)?;
        if count <= 0 {
            return Err(expire_time("set"));
        }
        Unit { milliseconds, from, command: "set" }.end(count).map(Life::Until)
    }
}
