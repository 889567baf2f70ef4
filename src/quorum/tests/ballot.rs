//! How votes are counted: all that up to five masters may say.

use std::time::Duration;

use crate::{
    quorum::ballot::{Fresh, Settled, Word, changed, ended, fresh, majority, nested},
    state::KeptBy,
};

const MOST_MASTERS: usize = 5;

const NEVER_LEFT: Word = Word::Nothing { may_have_run: false };
const SILENT: Word = Word::Nothing { may_have_run: true };
const FOR_EVER: Word = Word::Busy { retry_in: None };

const fn busy(secs: u64) -> Word {
    Word::Busy { retry_in: Some(Duration::from_secs(secs)) }
}

/// All that counts differently.
const ALL: [Word; 9] = [Word::Open, Word::Yes, Word::Young, busy(1), busy(3), FOR_EVER, Word::Gone, SILENT, NEVER_LEFT];

type Question = fn(&[Word]) -> Option<Settled>;

/// All questions but that for a fresh hold.
const OTHERS: [Question; 3] = [nested, ended, changed];

/// All words of so many masters.
fn vectors(masters: usize) -> impl Iterator<Item = Vec<Word>> {
    let count = ALL.len().pow(masters as u32);
    (0..count).map(move |number| (0..masters).map(|at| ALL[number / ALL.len().pow(at as u32) % ALL.len()]).collect())
}

/// The same of up to five.
fn all_vectors() -> impl Iterator<Item = Vec<Word>> {
    (1..=MOST_MASTERS).flat_map(vectors)
}

/// What the words may be once one more master was heard, or is waited for no longer.
fn one_more(words: &[Word]) -> impl Iterator<Item = Vec<Word>> + '_ {
    let open = (0..words.len()).filter(|at| words[*at] == Word::Open);
    open.flat_map(move |at| {
        ALL[1..].iter().map(move |word| {
            let mut heard = words.to_vec();
            heard[at] = *word;
            heard
        })
    })
}

fn count(words: &[Word], word: Word) -> usize {
    words.iter().filter(|it| **it == word).count()
}

/// Those that said yes and counted, one bit each.
fn yes(words: &[Word]) -> u32 {
    let bits = words.iter().enumerate().map(|(at, word)| u32::from(*word == Word::Yes) << at);
    bits.sum()
}

fn split(secs: Option<u64>, kept_by: KeptBy) -> Option<Fresh> {
    Some(Fresh::Split { retry_in: secs.map(Duration::from_secs), kept_by })
}

#[test]
fn a_majority_is_more_than_half_of_those_that_are_configured() {
    let majorities: Vec<usize> = (1..=7).map(majority).collect();
    assert_eq!(majorities, [1, 2, 2, 3, 3, 4, 4]);
}

#[test]
fn a_verdict_is_the_same_in_whatever_order_masters_are_given() {
    let place = |word: &Word| ALL.iter().position(|it| it == word);
    for words in all_vectors() {
        let mut sorted = words.clone();
        sorted.sort_by_key(place);
        assert_eq!(fresh(&words), fresh(&sorted), "{words:?}");
        for question in OTHERS {
            assert_eq!(question(&words), question(&sorted), "{words:?}");
        }
    }
}

/// Whoever won has a majority of masters that said yes, and any two of these share one. So of two whom no master gave both a yes one
/// at most has won, whether by an acquire or by a renewal.
#[test]
fn no_two_win_whom_no_master_said_yes_to_both() {
    for masters in 1..=MOST_MASTERS {
        let mut winners = vec![false; 1 << masters];
        for words in vectors(masters) {
            if fresh(&words) == Some(Fresh::Won) || changed(&words) == Some(Settled::Done) {
                winners[yes(&words) as usize] = true;
            }
        }
        let winners: Vec<usize> = (0..winners.len()).filter(|at| winners[*at]).collect();
        for one in &winners {
            assert!(winners.iter().all(|other| one & other != 0), "{masters} masters, {one:b} of {winners:?}");
        }
    }
}

#[test]
fn a_fresh_hold_is_won_by_a_majority_of_all_that_say_yes_and_by_nothing_else() {
    for words in all_vectors() {
        let enough = count(&words, Word::Yes) >= majority(words.len());
        assert_eq!(fresh(&words) == Some(Fresh::Won), enough, "{words:?}");
    }
}

#[test]
fn once_all_were_heard_every_question_is_decided() {
    for words in all_vectors().filter(|words| !words.contains(&Word::Open)) {
        assert!(fresh(&words).is_some(), "{words:?}");
        assert!(OTHERS.iter().all(|question| question(&words).is_some()), "{words:?}");
    }
}

/// A verdict is told once, when it is reached. What is heard later turns none into its opposite; a split may turn out to be one of
/// which too few said anything.
#[test]
fn what_is_heard_later_takes_no_verdict_back() {
    for words in all_vectors() {
        for more in one_more(&words) {
            let (before, after) = (fresh(&words), fresh(&more));
            let holds = match before {
                None => true,
                Some(Fresh::Won | Fresh::TooFew) => after == before,
                Some(Fresh::Busy { .. }) => false,
                Some(Fresh::Split { .. }) => matches!(after, Some(Fresh::Split { .. } | Fresh::TooFew)),
            };
            assert!(holds, "{words:?} is {before:?}, {more:?} is {after:?}");
            for question in OTHERS {
                let (before, after) = (question(&words), question(&more));
                assert!(before.is_none() || after == before, "{words:?} is {before:?}, {more:?} is {after:?}");
            }
        }
    }
}

/// Besides, where nothing was granted the last words are waited for: they tell whether anything is left anywhere.
#[test]
fn a_fresh_hold_is_undecided_while_a_majority_may_come() {
    for words in all_vectors() {
        let (open, yes) = (count(&words, Word::Open), count(&words, Word::Yes));
        let q = majority(words.len());
        if yes < q && yes + open >= q {
            assert_eq!(fresh(&words), None, "{words:?}");
        } else if fresh(&words).is_none() {
            assert!(open > 0 && yes + count(&words, Word::Young) == 0, "{words:?}");
        }
    }
}

#[test]
fn busy_says_that_nothing_was_left_anywhere() {
    let leaves = |word: &Word| matches!(word, Word::Open | Word::Yes | Word::Young) || *word == SILENT;
    for words in all_vectors() {
        if let Some(Fresh::Busy { .. }) = fresh(&words) {
            assert!(!words.iter().any(leaves), "{words:?}");
        }
    }
}

#[test]
fn too_few_says_that_so_many_gave_no_word_that_a_majority_of_the_others_cannot_be() {
    let counts_not = |word: &&Word| matches!(word, Word::Young | Word::Gone | Word::Nothing { .. });
    for words in all_vectors() {
        let few = words.iter().filter(counts_not).count() > words.len() - majority(words.len());
        assert_eq!(fresh(&words) == Some(Fresh::TooFew), few, "{words:?}");
    }
}

#[test]
fn a_fresh_hold_is_decided_by_these_words() {
    use Word::{Gone, Open, Yes, Young};
    let busy_for = |secs| Some(Fresh::Busy { retry_in: Some(Duration::from_secs(secs)) });
    let (contenders, holder) = (KeptBy::Contenders, KeptBy::Holder);
    let rows: &[(&[Word], Option<Fresh>)] = &[
        (&[Yes], Some(Fresh::Won)),
        (&[busy(3)], busy_for(3)),
        (&[Yes, Open], None),
        (&[Yes, Yes], Some(Fresh::Won)),
        (&[Yes, busy(3)], split(Some(3), contenders)),
        (&[Yes, NEVER_LEFT], Some(Fresh::TooFew)),
        (&[Open, Open, Open], None),
        (&[Yes, Yes, Open], Some(Fresh::Won)),
        (&[Yes, Open, SILENT], None),
        (&[Yes, Young, Open], None),
        (&[Yes, Young, busy(3)], split(Some(3), contenders)),
        (&[Young, Young, Open], Some(Fresh::TooFew)),
        (&[Yes, busy(3), SILENT], split(Some(3), contenders)),
        (&[Yes, SILENT, SILENT], Some(Fresh::TooFew)),
        (&[busy(3), busy(1), Open], None),
        (&[busy(3), busy(1), busy(1)], busy_for(1)),
        (&[busy(3), busy(1), NEVER_LEFT], busy_for(3)),
        (&[busy(3), busy(1), SILENT], split(Some(3), holder)),
        (&[busy(3), busy(1), Young], split(Some(3), holder)),
        (&[busy(3), busy(1), Gone], busy_for(3)),
        (&[FOR_EVER, FOR_EVER, busy(1)], Some(Fresh::Busy { retry_in: None })),
        (&[Yes, Yes, busy(3), busy(1), Open], None),
        (&[Yes, Yes, busy(3), busy(1), busy(1)], split(Some(1), contenders)),
        (&[Yes, busy(3), busy(1), busy(2), Open], split(Some(2), contenders)),
    ];
    for (words, verdict) in rows {
        assert_eq!(fresh(words), *verdict, "{words:?}");
    }
}

/// By then so many more may be free as a majority lacks.
#[test]
fn a_busy_majority_is_asked_again_when_as_many_leases_are_over_as_it_lacks() {
    for words in all_vectors() {
        let Some(Fresh::Busy { retry_in } | Fresh::Split { retry_in, .. }) = fresh(&words) else { continue };
        let wanted = majority(words.len()) - count(&words, Word::Yes);
        let free_by = |at: Duration| {
            let over = |word: &&Word| matches!(word, Word::Busy { retry_in: Some(ttl) } if *ttl <= at);
            words.iter().filter(over).count()
        };
        let busy = words.iter().filter(|word| matches!(word, Word::Busy { .. })).count();
        // Where fewer are busy than it lacks all of them are waited for.
        let wanted = wanted.min(busy);
        match retry_in {
            Some(at) => {
                assert!(free_by(at) >= wanted, "{words:?}: {at:?} is too early");
                assert!(at.is_zero() || free_by(at - Duration::from_millis(1)) < wanted, "{words:?}: {at:?} is late");
            }
            None => assert!(busy == 0 || free_by(Duration::MAX) < wanted, "{words:?} has an end"),
        }
    }
}

#[test]
fn other_questions_are_decided_by_these_words() {
    use Word::{Gone, Open, Yes, Young};
    let (done, gone, few) = (Some(Settled::Done), Some(Settled::Gone), Some(Settled::TooFew));
    type Row<'a> = (&'a [Word], [Option<Settled>; 3]);
    // One more of a hold; its end; less of it, or a longer lease.
    let rows: &[Row<'_>] = &[
        (&[Yes], [done, done, done]),
        (&[Gone], [gone, gone, gone]),
        (&[SILENT], [few, few, few]),
        (&[Yes, Open, Open], [None, None, None]),
        (&[Yes, Yes, Open], [done, done, done]),
        (&[Yes, Young, Open], [done, None, None]),
        (&[Gone, Gone, Open], [gone, gone, gone]),
        (&[Gone, FOR_EVER, Yes], [gone, gone, gone]),
        (&[Yes, Gone, Open], [None, None, None]),
        (&[Yes, Gone, SILENT], [few, done, few]),
        (&[Yes, SILENT, SILENT], [few, done, few]),
        (&[Open, SILENT, SILENT], [None, None, few]),
        (&[Gone, SILENT, SILENT], [few, few, few]),
        (&[Yes, Gone], [gone, done, few]),
        (&[Yes, Open, Gone, Gone, Gone], [gone, gone, gone]),
        (&[Yes, Yes, SILENT, Gone, Gone], [few, done, few]),
    ];
    for (words, settled) in rows {
        assert_eq!(OTHERS.map(|question| question(words)), *settled, "{words:?}");
    }
}
