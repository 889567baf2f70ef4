//! Commands on keys, whatever they hold: there or not, and for how long.

use super::{
    arguments::{self, Unit},
    database::{Answer, Database},
    errors::{self, ErrorText, NO_KEY},
    keyspace::Life,
    reply::Reply,
    value::Value,
};

pub(super) fn del(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(words[1..].iter().filter(|key| db.keys.take(key).is_some()).count()))
}

pub(super) fn exists(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(words[1..].iter().filter(|key| db.keys.value(key).is_some()).count()))
}

pub(super) fn kind(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::Status(db.keys.value(words[1]).map_or("none", Value::kind).to_owned()))
}

pub(super) fn rename(db: &mut Database, words: &[&[u8]]) -> Answer {
    let (value, life) = db.keys.take(words[1]).ok_or(NO_KEY)?;
    db.keys.put(words[2], value, life);
    Ok(Reply::ok())
}

pub(super) fn pttl(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::Int(remaining(db, words[1])))
}

pub(super) fn ttl(db: &mut Database, words: &[&[u8]]) -> Answer {
    let remaining = remaining(db, words[1]);
    Ok(Reply::Int(if remaining < 0 { remaining } else { remaining.saturating_add(500) / 1000 }))
}

/// In milliseconds; -1 for a key that has no end, -2 for none.
fn remaining(db: &mut Database, key: &[u8]) -> i64 {
    let now = db.keys.now();
    match db.keys.life(key) {
        None => -2,
        Some(Life::Until(end)) => end.saturating_sub(now).max(0),
        Some(Life::Endless | Life::Kept) => -1,
    }
}

pub(super) fn persist(db: &mut Database, words: &[&[u8]]) -> Answer {
    let ends = matches!(db.keys.life(words[1]), Some(Life::Until(_)));
    if ends {
        db.keys.set_life(words[1], None);
    }
    Ok(Reply::Int(ends.into()))
}

pub(super) fn expire(db: &mut Database, words: &[&[u8]]) -> Answer {
    let now = db.keys.now();
    set_end(db, words, &Unit { milliseconds: 1000, from: now, command: "expire" })
}

pub(super) fn pexpire(db: &mut Database, words: &[&[u8]]) -> Answer {
    let now = db.keys.now();
    set_end(db, words, &Unit { milliseconds: 1, from: now, command: "pexpire" })
}

pub(super) fn expireat(db: &mut Database, words: &[&[u8]]) -> Answer {
    set_end(db, words, &Unit { milliseconds: 1000, from: 0, command: "expireat" })
}

pub(super) fn pexpireat(db: &mut Database, words: &[&[u8]]) -> Answer {
    set_end(db, words, &Unit { milliseconds: 1, from: 0, command: "pexpireat" })
}

fn set_end(db: &mut Database, words: &[&[u8]], unit: &Unit<'_>) -> Answer {
    let condition = Condition::of(&words[3..])?;
    let end = unit.end(arguments::integer(words[2])?)?;
    let Some(life) = db.keys.life(words[1]) else { return Ok(Reply::Int(0)) };
    if !condition.holds(life, end) {
        return Ok(Reply::Int(0));
    }
    if end <= db.keys.now() {
        db.keys.take(words[1]);
    } else {
        db.keys.set_life(words[1], Some(end));
    }
    Ok(Reply::Int(1))
}

/// When a key's end may be set. Those that can be asked together all have to hold.
#[derive(Default)]
struct Condition {
    endless: bool,
    ending: bool,
    later: bool,
    sooner: bool,
}

impl Condition {
    fn of(words: &[&[u8]]) -> Result<Self, ErrorText> {
        let mut asked = Self::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => asked.endless = true,
                b"xx" => asked.ending = true,
                b"gt" => asked.later = true,
                b"lt" => asked.sooner = true,
                _ => {
                    return Err(format!("ERR Unsupported option {}", errors::error_line(errors::c_string(word))).into());
                }
            }
        }
        if asked.endless && (asked.ending || asked.later || asked.sooner) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if asked.later && asked.sooner {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(asked)
    }

    fn holds(&self, life: Life, end: i64) -> bool {
        match life {
            Life::Until(old) => !self.endless && (!self.later || end > old) && (!self.sooner || end < old),
            Life::Endless | Life::Kept => !self.ending && !self.later,
        }
    }
}
