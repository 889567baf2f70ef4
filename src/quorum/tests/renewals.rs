//! What a renewal of many holds comes to for each of them.

use std::{
    future::{Ready, poll_fn, ready},
    sync::Arc,
    time::Duration,
};

use tokio::runtime::Handle;

use super::nobody::Nobody;
use crate::{
    backend::{Fault, FaultKind},
    chance::Chance,
    engine::Renewal,
    quorum::{
        ballot::{Settled, Word},
        fleet::{Fleet, Terms},
        master::Master,
        renewal::{Answers, heard, of_one, said},
        round::Round,
    },
};

const SECOND: Duration = Duration::from_secs(1);

fn fault(kind: FaultKind) -> Fault {
    Fault::of(kind, false, "because")
}

/// Three masters, all of which answer the same.
async fn asked(answers: Answers) -> (Arc<Fleet>, Round<Ready<Result<Answers, Fault>>, Answers>) {
    let master = |at: u8| Master::new(Arc::new(Nobody(None)), at.to_string(), Arc::new(()));
    let terms = Terms { quarantine: SECOND, master_timeout: None, watchdog: SECOND, command_timeout: SECOND };
    let fleet = Fleet::new((0..3).map(master).collect(), terms, Handle::current(), Chance::default());
    let mut round = Round::new(SECOND, 3);
    fleet.masters.iter().for_each(|master| round.ask(master, ready(heard(answers.clone())), None));
    let word = |_: &Master, _: &Result<Answers, Fault>| Word::Nothing { may_have_run: true };
    poll_fn(|cx| round.poll(cx, word, |_| Some(Settled::TooFew))).await;
    (fleet, round)
}

#[tokio::test]
async fn what_most_masters_refuse_to_do_for_a_hold_is_refused_and_for_another_one_it_is_not() {
    let (fleet, round) = asked(vec![Err(fault(FaultKind::Permission)), Ok(Renewal::Renewed)]).await;
    let kind = |hold| fleet.too_few("a", &of_one(&round, hold), said).kind;
    assert_eq!((kind(0), kind(1)), (FaultKind::Permission, FaultKind::Unready));
    assert!(fleet.masters.iter().all(|master| !master.is_suspect()));
}

#[tokio::test]
async fn a_master_that_says_nothing_of_any_hold_is_suspect_and_is_said_to_be_silent() {
    let silent = || Err(fault(FaultKind::Timeout));
    let (fleet, round) = asked(vec![silent(), silent()]).await;
    assert_eq!(fleet.too_few("a", &of_one(&round, 1), said).kind, FaultKind::Timeout);
    assert!(fleet.masters.iter().all(|master| master.is_suspect()));
}
