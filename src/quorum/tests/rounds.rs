//! One question, from the first sending to the decision: who is waited for, and for how long.

use std::{
    future::{pending, poll_fn, ready},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::nobody::master;
use crate::{
    backend::{Dispatch, Fault, Pending, Way},
    quorum::{
        ballot::{self, Settled, Word},
        master::Master,
        round::Round,
    },
};

type Reply = Pending<Result<bool, Fault>>;

const MS: Duration = Duration::from_millis(1);
const WITHIN: Duration = Duration::from_millis(50);

fn says(yes: bool) -> Reply {
    Box::pin(ready(Ok(yes)))
}

fn later(yes: bool, after: Duration) -> Reply {
    Box::pin(async move {
        sleep(after).await;
        Ok(yes)
    })
}

fn silent() -> Reply {
    Box::pin(pending())
}

fn suspect() -> Arc<Master> {
    let suspect = master(None);
    suspect.was_silent();
    suspect
}

/// A round of these.
fn round(asked: impl IntoIterator<Item = (Arc<Master>, Reply)>) -> Round<Reply, bool> {
    let mut round = Round::new(WITHIN, 3);
    asked.into_iter().for_each(|(master, reply)| round.ask(&master, reply, None));
    round
}

/// What it comes to, and how long that takes.
async fn settles(round: &mut Round<Reply, bool>) -> (Settled, Duration) {
    let began = Instant::now();
    let word = |_: &Master, answer: &Result<bool, Fault>| match answer {
        Ok(true) => Word::Yes,
        Ok(false) => Word::Gone,
        Err(fault) => Word::Nothing { may_have_run: fault.may_have_run },
    };
    let settled = poll_fn(|cx| round.poll(cx, word, |round| ballot::changed(&round.words()))).await;
    (settled, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn it_is_decided_as_soon_as_a_majority_said_the_same() {
    for yes in [true, false] {
        let masters = [master(None), master(None), master(None)];
        let replies = [later(yes, MS), silent(), later(yes, 3 * MS)];
        let mut round = round(masters.iter().cloned().zip(replies));
        let settled = if yes { Settled::Done } else { Settled::Gone };
        assert_eq!(settles(&mut round).await, (settled, 3 * MS));
        assert!(round.asked[1].reply.is_some(), "whoever was not heard may be heard later");
        assert!(!masters[1].is_suspect(), "it was not waited for");
        let took: Vec<Duration> = round.asked.iter().map(|asked| asked.took).collect();
        assert_eq!(took, [MS, Duration::ZERO, 3 * MS]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_and_no_time_passes_before_it_is_polled() {
    let mut round = round([(master(None), later(true, 2 * MS)), (master(None), silent()), (master(None), silent())]);
    sleep(2 * WITHIN).await;
    assert_eq!(settles(&mut round).await, (Settled::TooFew, WITHIN));
    assert_eq!(round.asked[0].word, Word::Yes);
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_is_waited_for_so_long_and_suspect_then() {
    let masters = [master(None), master(None), master(None)];
    let mut round = round(masters.iter().cloned().zip([says(true), silent(), later(false, 60 * MS)]));
    assert_eq!(settles(&mut round).await, (Settled::TooFew, WITHIN));
    assert_eq!(round.words()[1..], [Word::Nothing { may_have_run: true }; 2]);
    assert_eq!(masters.each_ref().map(|master| master.is_suspect()), [false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn what_never_left_ran_nowhere_and_never_will() {
    let mut round = Round::new(WITHIN, 3);
    let [stays, leaves] = [(); 2].map(|()| Dispatch::new(|_| true));
    assert!(leaves.leaves(Way::default()));
    round.ask(&master(None), says(true), None);
    round.ask(&master(None), silent(), Some(Arc::clone(&stays)));
    round.ask(&master(None), silent(), Some(leaves));
    assert_eq!(settles(&mut round).await, (Settled::TooFew, WITHIN));
    let nothing = |may_have_run| Word::Nothing { may_have_run };
    assert_eq!(round.words()[..], [Word::Yes, nothing(false), nothing(true)]);
    assert!(!stays.leaves(Way::default()), "it was withdrawn");
    assert!(round.asked[1].reply.is_none() && round.asked[2].reply.is_some());
}

/// Two say different things, and the third is silent since long.
#[tokio::test(start_paused = true)]
async fn a_suspect_has_as_long_as_the_others_took_before_too_few_are_there() {
    let asked = [(master(None), later(true, 4 * MS)), (master(None), later(false, 5 * MS)), (suspect(), silent())];
    assert_eq!(settles(&mut round(asked)).await, (Settled::TooFew, 10 * MS));
    let asked = [(master(None), says(true)), (master(None), says(false)), (suspect(), silent())];
    assert_eq!(settles(&mut round(asked)).await, (Settled::TooFew, MS), "it has a moment at least");
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_answers_in_that_time_decides() {
    let back = suspect();
    let asked = [
        (master(None), later(true, 4 * MS)),
        (master(None), later(false, 5 * MS)),
        (Arc::clone(&back), later(true, 9 * MS)),
    ];
    assert_eq!(settles(&mut round(asked)).await, (Settled::Done, 9 * MS));
    assert!(!back.is_suspect());
}

#[tokio::test(start_paused = true)]
async fn where_all_are_suspect_they_are_waited_for_like_any_other() {
    let mut round =
        round([(suspect(), silent()), (suspect(), later(true, 40 * MS)), (suspect(), later(true, 45 * MS))]);
    assert_eq!(settles(&mut round).await, (Settled::Done, 45 * MS));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_not_asked_has_said_so_at_once() {
    let mut round = Round::new(WITHIN, 3);
    let none = Word::Nothing { may_have_run: false };
    round.skip(&master(None), none);
    round.skip(&master(None), none);
    round.ask(&master(None), later(true, 2 * MS), None);
    assert_eq!(settles(&mut round).await, (Settled::TooFew, Duration::ZERO));
}
