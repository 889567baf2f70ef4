//! Counts votes: what a question is decided by, once enough masters have said something. It asks nobody and waits for nothing.
//!
//! `n` masters are configured, `q = n / 2 + 1` of them are a majority: of those that are configured, never of those that answered.
//! Two that answer in a hurry could make two majorities of one that is silent.
//!
//! | question | is won by | is lost by | all were heard, or are waited for no longer |
//! | --- | --- | --- | --- |
//! | a fresh hold | `q` yes | so many others that `q` yes cannot come | |
//! | one more of a hold | `q` yes | more than `n − q` that know of no such hold | a fault: the hold stands |
//! | the end of a hold | `q` done | `q` that know of no such hold | done, where anybody has done it; else a fault |
//! | less of a hold | `q` done | the same | a fault |
//! | a longer lease | `q` yes | the same | a fault: the deadline stands |
//! | an end by force | `q` done | the same | done, where anybody has done it; else a fault |
//!
//! A fresh hold that is lost is *busy* where every master said so and nothing is left behind; *split* where something may be; and a
//! fault where more than `n − q` masters gave no word that counts: nobody could have it.

use std::time::Duration;

use crate::state::KeptBy;

/// So many of these masters are a majority.
pub(crate) fn majority(masters: usize) -> usize {
    masters / 2 + 1
}

/// What one master said, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    /// Nothing yet.
    Open,
    /// Yes; of an end: done.
    Yes,
    /// Yes, and it may have forgotten what it said to somebody else. It counts for nothing, and is undone.
    Young,
    /// Somebody else has it, for so long unless it is renewed; `None` where the key has no TTL.
    Busy { retry_in: Option<Duration> },
    /// It knows of no such hold.
    Gone,
    /// Nothing that counts, and nothing is waited for any longer.
    Nothing { may_have_run: bool },
}

/// What became of the question for a fresh hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fresh {
    Won,
    /// Nothing is left anywhere.
    Busy {
        retry_in: Option<Duration>,
    },
    /// No majority, and something may be left of what was asked for.
    Split {
        retry_in: Option<Duration>,
        kept_by: KeptBy,
    },
    /// Too few masters said anything that counts.
    TooFew,
}

/// What became of any other question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Settled {
    /// A majority did what was asked for; of an end, anybody.
    Done,
    /// A majority of it is not there any more.
    Gone,
    /// Too few masters said anything that counts.
    TooFew,
}

/// The words of one round, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    open: usize,
    yes: usize,
    young: usize,
    busy: usize,
    gone: usize,
    nothing: usize,
    /// One of those that said nothing may have done it.
    may_have_run: bool,
}

impl Count {
    fn of(words: &[Word]) -> Self {
        let mut count = Self::default();
        for word in words {
            match *word {
                Word::Open => count.open += 1,
                Word::Yes => count.yes += 1,
                Word::Young => count.young += 1,
                Word::Busy { .. } => count.busy += 1,
                Word::Gone => count.gone += 1,
                Word::Nothing { may_have_run } => {
                    count.nothing += 1;
                    count.may_have_run |= may_have_run;
                }
            }
        }
        count
    }

    /// Those that know of no such hold: somebody else has the key, or nobody.
    fn missing(&self) -> usize {
        self.gone + self.busy
    }
}

/// Whether something of what was asked for may be where this was said: an end has to be told there.
pub(crate) fn may_have(word: Word) -> bool {
    match word {
        Word::Open | Word::Yes | Word::Young => true,
        Word::Nothing { may_have_run } => may_have_run,
        Word::Busy { .. } | Word::Gone => false,
    }
}

/// For how much longer the yes of a master counts for nothing that remembers what it was told for so long: what it has forgotten
/// may be somebody's until then.
pub(crate) fn young_for(remembers: Duration, quarantine: Duration) -> Option<Duration> {
    quarantine.checked_sub(remembers).filter(|left| !left.is_zero())
}

/// Which masters are asked for a hold anew that was renewed just now, by what they said to that.
pub(crate) fn mends(words: &[Word]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().filter(|(_, word)| **word == Word::Gone).map(|(at, _)| at)
}

/// The question for a fresh hold. `None` while it is open.
pub(crate) fn fresh(words: &[Word]) -> Option<Fresh> {
    let (count, q) = (Count::of(words), majority(words.len()));
    if count.yes >= q {
        return Some(Fresh::Won);
    }
    if count.yes + count.open >= q {
        return None;
    }
    // Without so many nobody can have it.
    if count.nothing + count.young + count.gone > words.len() - q {
        return Some(Fresh::TooFew);
    }
    let ours = count.yes + count.young;
    // Nothing was granted that others wait for: what the last ones say tells whether anything is left.
    if ours == 0 && count.open > 0 {
        return None;
    }
    let retry_in = retry_in(words, q - count.yes);
    if ours == 0 && count.open == 0 && !count.may_have_run {
        return Some(Fresh::Busy { retry_in });
    }
    // Where we got a vote others may have got one, too. One of a master that is young is no vote, and nobody contends for it.
    let kept_by = if count.yes == 0 && (ours == 0 || count.busy >= q) { KeptBy::Holder } else { KeptBy::Contenders };
    Some(Fresh::Split { retry_in, kept_by })
}

/// When so many of those that are busy may be free.
fn retry_in(words: &[Word], wanted: usize) -> Option<Duration> {
    let ttl =
        |word: &Word| if let Word::Busy { retry_in } = *word { Some(retry_in.unwrap_or(Duration::MAX)) } else { None };
    let mut ttls: Vec<Duration> = words.iter().filter_map(ttl).collect();
    ttls.sort_unstable();
    ttls.get(wanted.saturating_sub(1)).or(ttls.last()).copied().filter(|ttl| *ttl < Duration::MAX)
}

/// Whether one more was counted. A master that is young leans on what it wrote itself.
pub(crate) fn nested(words: &[Word]) -> Option<Settled> {
    let (count, q) = (Count::of(words), majority(words.len()));
    if count.yes + count.young >= q {
        return Some(Settled::Done);
    }
    if count.missing() > words.len() - q {
        return Some(Settled::Gone);
    }
    (count.open == 0).then_some(Settled::TooFew)
}

/// Whether a hold ended.
pub(crate) fn ended(words: &[Word]) -> Option<Settled> {
    let (count, q) = (Count::of(words), majority(words.len()));
    if count.yes >= q {
        return Some(Settled::Done);
    }
    if count.missing() >= q {
        return Some(Settled::Gone);
    }
    (count.open == 0).then_some(if count.yes > 0 { Settled::Done } else { Settled::TooFew })
}

/// Whether a hold has less, or lasts for longer.
pub(crate) fn changed(words: &[Word]) -> Option<Settled> {
    let (count, q) = (Count::of(words), majority(words.len()));
    if count.yes >= q {
        return Some(Settled::Done);
    }
    if count.missing() >= q {
        return Some(Settled::Gone);
    }
    (count.open == 0 || count.yes + count.open < q && count.missing() + count.open < q).then_some(Settled::TooFew)
}
