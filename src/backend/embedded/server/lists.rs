//! Commands on lists.

use super::{
    arguments,
    database::{Answer, Database},
    errors::{self, NO_KEY, OUT_OF_RANGE},
    reply::Reply,
    value::{End, List},
};

pub(super) fn lpush(db: &mut Database, words: &[&[u8]]) -> Answer {
    push(db, words, End::Left)
}

pub(super) fn rpush(db: &mut Database, words: &[&[u8]]) -> Answer {
    push(db, words, End::Right)
}

fn push(db: &mut Database, words: &[&[u8]], end: End) -> Answer {
    db.keys.edit(words[1], |list: &mut List| {
        words[2..].iter().for_each(|part| list.push(end, part.to_vec()));
        Reply::count(list.parts().len())
    })
}

pub(super) fn lpop(db: &mut Database, words: &[&[u8]]) -> Answer {
    pop(db, words, End::Left, "lpop")
}

pub(super) fn rpop(db: &mut Database, words: &[&[u8]]) -> Answer {
    pop(db, words, End::Right, "rpop")
}

fn pop(db: &mut Database, words: &[&[u8]], end: End, command: &str) -> Answer {
    let many = match words {
        [_, _] => None,
        [_, _, count] => Some(arguments::count(count)?),
        _ => return Err(errors::arity(command)),
    };
    if db.keys.container::<List>(words[1])?.is_none() {
        return Ok(Reply::Nil);
    }
    db.keys.edit(words[1], |list: &mut List| match many {
        None => list.pop(end).map_or(Reply::Nil, Reply::Bulk),
        Some(many) => {
            let many = many.min(list.parts().len());
            Reply::Array((0..many).filter_map(|_| list.pop(end)).map(Reply::Bulk).collect())
        }
    })
}

pub(super) fn llen(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.keys.container::<List>(words[1])?.map_or(0, |list| list.parts().len())))
}

pub(super) fn lindex(db: &mut Database, words: &[&[u8]]) -> Answer {
    let Some(list) = db.keys.container::<List>(words[1])? else { return Ok(Reply::Nil) };
    let place = arguments::place(words[2], list.parts().len())?;
    Ok(Reply::bulk(place.and_then(|place| list.parts().get(place)).map(Vec::as_slice)))
}

pub(super) fn lrange(db: &mut Database, words: &[&[u8]]) -> Answer {
    let places = arguments::places(words[2], words[3])?;
    let Some(list) = db.keys.container::<List>(words[1])? else { return Ok(Reply::Array(Vec::new())) };
    let places = places.of(list.parts().len());
    Ok(Reply::bulks(list.parts().range(places).map(Vec::as_slice)))
}

pub(super) fn lset(db: &mut Database, words: &[&[u8]]) -> Answer {
    let list = db.keys.container::<List>(words[1])?.ok_or(NO_KEY)?;
    let place = arguments::place(words[2], list.parts().len())?.ok_or(OUT_OF_RANGE)?;
    db.keys.edit(words[1], |list: &mut List| list.replace(place, words[3].to_vec()))?;
    Ok(Reply::ok())
}

/// Removes so many equal parts, from the right where the count is negative; all of them where it is zero.
pub(super) fn lrem(db: &mut Database, words: &[&[u8]]) -> Answer {
    let count = arguments::integer(words[2])?;
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let from = if count < 0 { End::Right } else { End::Left };
    let mut removed = 0;
    db.keys.edit(words[1], |list: &mut List| {
        list.retain(from, |part| {
            let goes = removed < most && part == words[3];
            removed += u64::from(goes);
            !goes
        });
    })?;
    Ok(Reply::Int(i64::try_from(removed).unwrap_or(i64::MAX)))
}

pub(super) fn ltrim(db: &mut Database, words: &[&[u8]]) -> Answer {
    let places = arguments::places(words[2], words[3])?;
    db.keys.edit(words[1], |list: &mut List| {
        let places = places.of(list.parts().len());
        let mut place = 0..;
        list.retain(End::Left, |_| place.next().is_some_and(|place: usize| places.contains(&place)));
    })?;
    Ok(Reply::ok())
}
