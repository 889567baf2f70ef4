//! Commands on sorted sets. Ranges by name are not among them.

use super::{
    arguments,
    database::{Answer, Database},
    errors::{ErrorText, NO_INTEGER, NOT_A_NUMBER, SYNTAX},
    numbers,
    reply::Reply,
    sorted_set::{Scores, SortedSet},
};

fn score(score: f64) -> Reply {
    Reply::Bulk(numbers::text(score).into_bytes())
}

pub(super) fn zadd(db: &mut Database, words: &[&[u8]]) -> Answer {
    let (options, pairs) = Adding::of(&words[2..])?;
    let pairs: Vec<(f64, &[u8])> = pairs
        .chunks_exact(2)
        .map(|pair| Ok((arguments::float(pair[0])?, pair[1])))
        .collect::<Result<_, ErrorText>>()?;
    add(db, words[1], &options, &pairs)
}

pub(super) fn zincrby(db: &mut Database, words: &[&[u8]]) -> Answer {
    let by = arguments::float(words[2])?;
    add(db, words[1], &Adding { increment: true, ..Adding::default() }, &[(by, words[3])])
}

/// The options of an addition. Those that can be asked together all have to hold.
#[derive(Default)]
struct Adding {
    missing: bool,
    there: bool,
    higher: bool,
    lower: bool,
    changed: bool,
    increment: bool,
}

/// What became of one member.
enum Added {
    New(f64),
    Changed(f64),
    Same(f64),
    /// Its options were against it.
    Not,
}

impl Adding {
    fn of<'a, 'b>(mut words: &'b [&'a [u8]]) -> Result<(Self, &'b [&'a [u8]]), ErrorText> {
        let mut asked = Self::default();
        while let [word, rest @ ..] = words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => asked.missing = true,
                b"xx" => asked.there = true,
                b"gt" => asked.higher = true,
                b"lt" => asked.lower = true,
                b"ch" => asked.changed = true,
                b"incr" => asked.increment = true,
                _ => break,
            }
            words = rest;
        }
        if words.is_empty() || !words.len().is_multiple_of(2) {
            return Err(SYNTAX);
        }
        if asked.missing && asked.there {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if [asked.higher, asked.lower, asked.missing].into_iter().filter(|asked| *asked).count() > 1 {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if asked.increment && words.len() > 2 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok((asked, words))
    }

    fn one(&self, sorted: &mut SortedSet, score: f64, member: &[u8]) -> Result<Added, ErrorText> {
        let Some(old) = sorted.score(member) else {
            if self.there {
                return Ok(Added::Not);
            }
            sorted.set(member, score);
            return Ok(Added::New(score));
        };
        if self.missing {
            return Ok(Added::Not);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            return Err(NOT_A_NUMBER);
        }
        if (self.lower && score >= old) || (self.higher && score <= old) {
            return Ok(Added::Not);
        }
        if score == old {
            return Ok(Added::Same(score));
        }
        sorted.set(member, score);
        Ok(Added::Changed(score))
    }
}

fn add(db: &mut Database, key: &[u8], options: &Adding, pairs: &[(f64, &[u8])]) -> Answer {
    db.keys.edit(key, |sorted: &mut SortedSet| {
        let (mut counted, mut last) = (0, Reply::Nil);
        for (given, member) in pairs {
            match options.one(sorted, *given, member)? {
                Added::New(now) => {
                    counted += 1;
                    last = score(now);
                }
                Added::Changed(now) => {
                    counted += usize::from(options.changed);
                    last = score(now);
                }
                Added::Same(now) => last = score(now),
                Added::Not => {}
            }
        }
        Ok(if options.increment { last } else { Reply::count(counted) })
    })?
}

pub(super) fn zrem(db: &mut Database, words: &[&[u8]]) -> Answer {
    let removed = |sorted: &mut SortedSet| words[2..].iter().filter(|member| sorted.remove(member)).count();
    Ok(Reply::count(db.keys.edit(words[1], removed)?))
}

pub(super) fn zscore(db: &mut Database, words: &[&[u8]]) -> Answer {
    let sorted = db.keys.container::<SortedSet>(words[1])?;
    Ok(sorted.and_then(|sorted| sorted.score(words[2])).map_or(Reply::Nil, score))
}

pub(super) fn zrank(db: &mut Database, words: &[&[u8]]) -> Answer {
    let sorted = db.keys.container::<SortedSet>(words[1])?;
    Ok(sorted.and_then(|sorted| sorted.rank(words[2])).map_or(Reply::Nil, Reply::count))
}

pub(super) fn zcard(db: &mut Database, words: &[&[u8]]) -> Answer {
    Ok(Reply::count(db.keys.container(words[1])?.map_or(0, SortedSet::len)))
}

pub(super) fn zcount(db: &mut Database, words: &[&[u8]]) -> Answer {
    let scores = arguments::scores(words[2], words[3])?;
    let sorted = db.keys.container::<SortedSet>(words[1])?;
    Ok(Reply::count(sorted.map_or(0, |sorted| sorted.within(scores).count())))
}

pub(super) fn zremrangebyscore(db: &mut Database, words: &[&[u8]]) -> Answer {
    let scores = arguments::scores(words[2], words[3])?;
    remove(db, words[1], |sorted| sorted.within(scores).map(|(member, _)| member.to_vec()).collect())
}

pub(super) fn zremrangebyrank(db: &mut Database, words: &[&[u8]]) -> Answer {
    let places = arguments::places(words[2], words[3])?;
    remove(db, words[1], |sorted| {
        let places = places.of(sorted.len());
        sorted.iter().skip(places.start).take(places.len()).map(|(member, _)| member.to_vec()).collect()
    })
}

fn remove(db: &mut Database, key: &[u8], which: impl FnOnce(&SortedSet) -> Vec<Vec<u8>>) -> Answer {
    db.keys.edit(key, |sorted: &mut SortedSet| {
        let members = which(sorted);
        Reply::count(members.iter().filter(|member| sorted.remove(member)).count())
    })
}

pub(super) fn zpopmin(db: &mut Database, words: &[&[u8]]) -> Answer {
    let many = match words {
        [_, _] => 1,
        [_, _, count] => arguments::count(count)?,
        _ => return Err(SYNTAX),
    };
    db.keys.edit(words[1], |sorted: &mut SortedSet| {
        let popped: Vec<_> = sorted.iter().take(many).map(|(member, score)| (member.to_vec(), score)).collect();
        popped.iter().for_each(|(member, _)| {
            sorted.remove(member);
        });
        pairs(popped.iter().map(|(member, score)| (member.as_slice(), *score)), Scored::With)
    })
}

/// Whether a range is told with its scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scored {
    With,
    Without,
}

fn pairs<'a>(members: impl Iterator<Item = (&'a [u8], f64)>, scored: Scored) -> Reply {
    let mut parts = Vec::new();
    for (member, its_score) in members {
        parts.push(Reply::Bulk(member.to_vec()));
        if scored == Scored::With {
            parts.push(score(its_score));
        }
    }
    Reply::Array(parts)
}

pub(super) fn zrange(db: &mut Database, words: &[&[u8]]) -> Answer {
    let range = Range::of(words, Range::default())?;
    if !range.by_score && range.limit.is_some_and(|(_, most)| most != -1) {
        let words = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(words.into());
    }
    if range.by_score {
        return by_score(db, words, &range);
    }
    let places = arguments::places(words[2], words[3])?;
    let Some(sorted) = db.keys.container::<SortedSet>(words[1])? else { return Ok(Reply::Array(Vec::new())) };
    let places = places.of(sorted.len());
    let (skipped, taken) = (places.start, places.len());
    Ok(if range.backwards {
        pairs(sorted.iter().rev().skip(skipped).take(taken), range.scored)
    } else {
        pairs(sorted.iter().skip(skipped).take(taken), range.scored)
    })
}

pub(super) fn zrangebyscore(db: &mut Database, words: &[&[u8]]) -> Answer {
    let range = Range::of(words, Range { by_score: true, fixed: true, ..Range::default() })?;
    by_score(db, words, &range)
}

/// The options of a range.
struct Range {
    by_score: bool,
    backwards: bool,
    scored: Scored,
    /// How many to leave out, and how many to tell.
    limit: Option<(i64, i64)>,
    /// The command says what it ranges by, not its options.
    fixed: bool,
}

impl Default for Range {
    fn default() -> Self {
        Self { by_score: false, backwards: false, scored: Scored::Without, limit: None, fixed: false }
    }
}

impl Range {
    fn of(words: &[&[u8]], mut range: Self) -> Result<Self, ErrorText> {
        let mut words = words[4..].iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"withscores" => range.scored = Scored::With,
                b"limit" => {
                    let (Some(skipped), Some(most)) = (words.next(), words.next()) else { return Err(SYNTAX) };
                    let integer = |word| numbers::integer(word).ok_or(NO_INTEGER);
                    range.limit = Some((integer(skipped)?, integer(most)?));
                }
                b"byscore" if !range.fixed && !range.by_score => range.by_score = true,
                b"rev" if !range.fixed && !range.backwards => range.backwards = true,
                b"bylex" if !range.fixed => return Err("ERR BYLEX is not supported".into()),
                _ => return Err(SYNTAX),
            }
        }
        Ok(range)
    }
}

fn by_score(db: &mut Database, words: &[&[u8]], range: &Range) -> Answer {
    let (least, most) = if range.backwards { (words[3], words[2]) } else { (words[2], words[3]) };
    let scores: Scores = arguments::scores(least, most)?;
    let Some(sorted) = db.keys.container::<SortedSet>(words[1])? else { return Ok(Reply::Array(Vec::new())) };
    // Leaving out fewer than none leaves out all; telling fewer than none tells all.
    let (skipped, taken) = range.limit.unwrap_or((0, -1));
    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    let members = sorted.within(scores);
    Ok(if range.backwards {
        pairs(members.rev().skip(skipped).take(taken), range.scored)
    } else {
        pairs(members.skip(skipped).take(taken), range.scored)
    })
}
