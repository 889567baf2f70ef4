//! Commands on hashes.

use super::{
    arguments,
    database::{Answer, Database},
    errors::{self, NO_HASH_INTEGER, OVERFLOW},
    numbers,
    reply::Reply,
    value::{Container, Hash},
};

pub(super) fn hset(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(set_all(db, words, "hset")?))
}

pub(super) fn hmset(db: &mut Database, words: &[&[u8]]) -> Answer {
    set_all(db, words, "hmset")?;
    Ok(Reply::ok())
}

/// How many fields are new.
fn set_all(db: &mut Database, words: &[&[u8]], command: &str) -> Result<usize, errors::ErrorText> {
    let pairs = words[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(errors::arity(command));
    }
    db.keys.edit(words[1], |hash: &mut Hash| pairs.filter(|pair| hash.set(pair[0], pair[1].to_vec())).count())
}

pub(super) fn hsetnx(db: &mut Database, words: &[&[u8]]) -> Answer {
    db.keys.edit(words[1], |hash: &mut Hash| {
        let free = hash.value(words[2]).is_none();
        if free {
            hash.set(words[2], words[3].to_vec());
        }
        Reply::Int(free.into())
    })
}

pub(super) fn hget(db: &mut Database, words: &[&[u8]]) -> Answer {
    let hash = db.keys.container::<Hash>(words[1])?;
    Ok(Reply::bulk(hash.and_then(|hash| hash.value(words[2]))))
}

pub(super) fn hmget(db: &mut Database, words: &[&[u8]]) -> Answer {
    let hash = db.keys.container::<Hash>(words[1])?;
    let value = |field: &&[u8]| Reply::bulk(hash.and_then(|hash| hash.value(field)));
    Ok(Reply::Array(words[2..].iter().map(value).collect()))
}

pub(super) fn hexists(db: &mut Database, words: &[&[u8]]) -> Answer {
    let hash = db.keys.container::<Hash>(words[1])?;
    Ok(Reply::Int(hash.is_some_and(|hash| hash.value(words[2]).is_some()).into()))
}

pub(super) fn hlen(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.keys.container(words[1])?.map_or(0, Hash::len)))
}

pub(super) fn hgetall(db: &mut Database, words: &[&[u8]]) -> Answer {
    let hash = db.keys.container::<Hash>(words[1])?;
    Ok(Reply::bulks(hash.into_iter().flat_map(Hash::iter).flat_map(|(field, value)| [field, value])))
}

pub(super) fn hkeys(db: &mut Database, words: &[&[u8]]) -> Answer {
    let hash = db.keys.container::<Hash>(words[1])?;
    Ok(Reply::bulks(hash.into_iter().flat_map(Hash::iter).map(|(field, _)| field)))
}

pub(super) fn hvals(db: &mut Database, words: &[&[u8]]) -> Answer {
    let hash = db.keys.container::<Hash>(words[1])?;
    Ok(Reply::bulks(hash.into_iter().flat_map(Hash::iter).map(|(_, value)| value)))
}

pub(super) fn hdel(db: &mut Database, words: &[&[u8]]) -> Answer {
    let removed = |hash: &mut Hash| {
        // An emptied hash is gone, and with it what would be removed twice.
        words[2..].iter().filter(|field| !hash.is_empty() && hash.remove(field)).count()
    };
    Ok(Reply::count(db.keys.edit(words[1], removed)?))
}

pub(super) fn hincrby(db: &mut Database, words: &[&[u8]]) -> Answer {
    let by = arguments::integer(words[3])?;
    db.keys.edit(words[1], |hash: &mut Hash| {
        let old = hash.value(words[2]).map_or(Some(0), numbers::integer).ok_or(NO_HASH_INTEGER)?;
        let new = old.checked_add(by).ok_or(OVERFLOW)?;
        hash.set(words[2], new.to_string().into_bytes());
        Ok(Reply::Int(new))
    })?
}
