//! What answers count as, and what many of them come to.

use std::time::Duration;

use crate::{
    backend::{Fault, FaultKind},
    engine::{Attempt, Letting, Published, Renewal, Sight},
    quorum::{
        ballot::Word,
        words::{agreed, most, word_of_attempt, word_of_letting, word_of_renewal},
    },
};

const SEC: Duration = Duration::from_secs(1);

fn sight(holders: &[(&str, u32)], secs: Option<u32>) -> Sight {
    let holders = holders.iter().map(|(holder, holds)| ((*holder).to_owned(), *holds)).collect();
    Sight { holders, remaining_lease: secs.map(|secs| secs * SEC), ours: Vec::new() }
}

/// Who is agreed on by so many, with its count and the time.
fn named(said: &[Sight], q: usize) -> Option<(String, u32, Option<Duration>)> {
    let Sight { mut holders, remaining_lease, .. } = agreed(said.iter(), q)?;
    let (holder, holds) = holders.pop().expect("one is named");
    assert!(holders.is_empty(), "a majority names one");
    Some((holder, holds, remaining_lease))
}

#[test]
fn each_answer_counts_as_one_word() {
    let fault = |may_have_run| Fault::of(FaultKind::Timeout, may_have_run, "it is slow");
    assert_eq!(word_of_attempt(&Ok(Attempt::Granted { holds: 1, fence: None })), Word::Yes);
    assert_eq!(word_of_attempt(&Ok(Attempt::Busy { retry_in: Some(SEC) })), Word::Busy { retry_in: Some(SEC) });
    assert_eq!(word_of_attempt(&Ok(Attempt::Gone)), Word::Gone);
    assert_eq!(word_of_letting(&Ok(Letting::Done { holds: 0, published: Published::No })), Word::Yes);
    assert_eq!(word_of_letting(&Ok(Letting::NotHeld)), Word::Busy { retry_in: None });
    assert_eq!(word_of_letting(&Ok(Letting::Expired)), Word::Gone);
    assert_eq!(word_of_renewal(&Ok(Renewal::Renewed)), Word::Yes);
    assert_eq!(word_of_renewal(&Ok(Renewal::Gone)), Word::Gone);
    for may_have_run in [false, true] {
        assert_eq!(word_of_attempt(&Err(fault(may_have_run))), Word::Nothing { may_have_run });
        assert_eq!(word_of_letting(&Err(fault(may_have_run))), Word::Nothing { may_have_run });
        assert_eq!(word_of_renewal(&Err(fault(may_have_run))), Word::Nothing { may_have_run });
    }
}

#[test]
fn a_holder_is_agreed_on_whom_a_majority_names() {
    let (a, b) = (|secs| sight(&[("a", 1)], Some(secs)), |secs| sight(&[("b", 1)], Some(secs)));
    assert_eq!(named(&[], 2), None);
    assert_eq!(named(&[a(3)], 2), None);
    assert_eq!(named(&[a(3), b(3)], 2), None);
    assert_eq!(named(&[a(3), b(9), a(2)], 2), Some(("a".to_owned(), 1, Some(2 * SEC))));
    assert_eq!(named(&[a(3), a(9), b(3), a(5), b(1)], 3), Some(("a".to_owned(), 1, Some(3 * SEC))));
}

/// With one that ends sooner it has a majority still.
#[test]
fn a_holder_has_its_majority_for_as_long_as_so_many_leases_last() {
    let a = |secs| sight(&[("a", 1)], secs);
    let lasts = |all: &[Option<u32>], q| named(&all.iter().map(|secs| a(*secs)).collect::<Vec<_>>(), q).map(|it| it.2);
    assert_eq!(lasts(&[Some(9), Some(1), Some(5)], 2), Some(Some(5 * SEC)));
    assert_eq!(lasts(&[None, Some(1), Some(5)], 2), Some(Some(5 * SEC)));
    assert_eq!(lasts(&[None, Some(1), None], 2), Some(None));
    assert_eq!(lasts(&[Some(4), Some(1), Some(2), Some(5), Some(3)], 3), Some(Some(3 * SEC)));
}

#[test]
fn of_a_count_that_masters_know_differently_the_most_is_told() {
    let said = [sight(&[("a", 1)], Some(3)), sight(&[("a", 3)], Some(3)), sight(&[("a", 2)], Some(3))];
    assert_eq!(named(&said, 2).map(|it| it.1), Some(3));
}

#[test]
fn those_who_listen_are_as_many_as_the_most_that_one_master_counts() {
    use Published::{No, To, Uncounted};
    let rows: &[(&[Published], Published)] = &[
        (&[], No),
        (&[No, No], No),
        (&[No, To(2), To(3), To(1)], To(3)),
        (&[To(0), No], To(0)),
        (&[To(3), Uncounted, No], Uncounted),
    ];
    for (told, listen) in rows {
        assert_eq!(most(told.iter().copied()), *listen, "{told:?}");
        assert_eq!(most(told.iter().rev().copied()), *listen, "{told:?}");
    }
}
