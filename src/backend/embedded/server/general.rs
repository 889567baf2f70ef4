//! Commands that are about no key: the server itself, all keys at once, channels.

use super::{
    database::{Answer, Database},
    errors::{self, SYNTAX},
    reply::Reply,
};
use crate::glob;

pub(super) fn ping(_: &mut Database, words: &[&[u8]]) -> Answer {
    match words {
        [_] => Ok(Reply::Status("PONG".to_owned())),
        [_, message] => Ok(Reply::Bulk(message.to_vec())),
        _ => Err(errors::arity("ping")),
    }
}

pub(super) fn echo(_: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::Bulk(words[1].to_vec()))
}

pub(super) fn time(db: &mut Database, _: &[&[u8]]) -> Answer {
    let seconds = db.now.as_secs().to_string();
    let microseconds = db.now.subsec_micros().to_string();
    Ok(Reply::Array(vec![Reply::Bulk(seconds.into_bytes()), Reply::Bulk(microseconds.into_bytes())]))
}

pub(super) fn dbsize(db: &mut Database, _: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.keys.len()))
}

pub(super) fn keys(db: &mut Database, words: &[&[u8]]) -> Answer {
    let keys = db.keys.keys();
    Ok(Reply::bulks(keys.into_iter().filter(|key| glob::matches(words[1], key))))
}

pub(super) fn flush(db: &mut Database, words: &[&[u8]]) -> Answer {
    let how = |word: &[u8]| word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync");
    match words {
        [_] => {}
        [_, word] if how(word) => {}
        _ => return Err(SYNTAX),
    }
    db.keys.clear();
    Ok(Reply::ok())
}

pub(super) fn publish(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.publish(words[1], words[2], false)))
}

pub(super) fn spublish(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.publish(words[1], words[2], true)))
}
