//! Random steps of two clients at one key.

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
    sample::Index,
};

use crate::{
    explore::server::TICK,
    state::{HoldNumber, Note, Verb},
};

pub(super) const CLIENTS: usize = 2;

/// So many numbers each client has.
const NUMBERS: u64 = 3;

/// The longest lease, in ticks.
const LONGEST: u32 = 4;

/// One thing to do on both servers.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Ask(Who, Verb),
    /// One of the commands that ran runs again.
    Again(Index),
    /// A client begins to listen, or ends it.
    Listen(usize),
    /// Next to nothing is left of a tick, and then nothing.
    AlmostTick,
    Tick,
}

/// Whose command it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// Of the hold that the key has, or this one where it has none.
    Holder(HoldNumber),
    Hold(HoldNumber),
}

impl Who {
    pub(super) fn number(self, holder: Option<u64>) -> HoldNumber {
        match self {
            Self::Holder(otherwise) => holder.map_or(otherwise, HoldNumber),
            Self::Hold(number) => number,
        }
    }
}

/// Whose number it is.
pub(super) fn client_of(number: HoldNumber) -> usize {
    (number.0 / NUMBERS) as usize
}

/// A hold is only moved to another one of its client: nobody asks for anything else.
pub(super) fn of_one_client(from: HoldNumber, verb: Verb) -> Verb {
    let Verb::HandOver { to, lease } = verb else { return verb };
    let first = from.0 - from.0 % NUMBERS;
    let to = first + (from.0 % NUMBERS + 1 + to.0 % (NUMBERS - 1)) % NUMBERS;
    Verb::HandOver { to: HoldNumber(to), lease }
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        14 => (who(), verb()).prop_map(|(who, verb)| Step::Ask(who, verb)),
        3 => any::<Index>().prop_map(Step::Again),
        2 => (0..CLIENTS).prop_map(Step::Listen),
        1 => Just(Step::AlmostTick),
        3 => Just(Step::Tick),
    ];
    vec(step, 1..40)
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![3 => number().prop_map(Who::Holder), 2 => number().prop_map(Who::Hold)]
}

fn number() -> impl Strategy<Value = HoldNumber> {
    (0..CLIENTS as u64 * NUMBERS).prop_map(HoldNumber)
}

fn verb() -> impl Strategy<Value = Verb> {
    let lease = || (1..=LONGEST).prop_map(|ticks| ticks * TICK);
    prop_oneof![
        4 => lease().prop_map(|lease| Verb::Acquire { lease, holds: 1 }),
        2 => (lease(), 2..4u32).prop_map(|(lease, holds)| Verb::Acquire { lease, holds }),
        2 => Just(Verb::Release { holds: 0, note: Note::Unused }),
        2 => (1..3u32).prop_map(|holds| Verb::Release { holds, note: Note::Unused }),
        3 => (number(), lease()).prop_map(|(to, lease)| Verb::HandOver { to, lease }),
        2 => lease().prop_map(|lease| Verb::Renew { lease }),
        1 => Just(Verb::Force),
    ]
}
