//! Which sentinels there are: those that were named, and those that they name. Decides only, and asks nobody.

use std::sync::Arc;

use super::views::ServerAddr;
use crate::backend::Fault;

/// Every sentinel that is asked.
#[derive(Debug)]
pub(super) struct Roster(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    at: ServerAddr,
    /// By the user; the others come and go.
    named: bool,
    /// Its own name for itself, as far as it is known: one sentinel may be reached by two addresses.
    id: Option<Arc<str>>,
    state: State,
    /// Whom it named last.
    others: Vec<Other>,
}

#[derive(Debug)]
enum State {
    Asked,
    Answered,
    /// It knows nothing of the master.
    Ignorant,
    Failed(Fault),
}

/// A sentinel as another one names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Other {
    pub(super) id: Option<Arc<str>>,
    pub(super) at: ServerAddr,
}

/// Whom to ask from now on, and whom no more.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) come: Vec<ServerAddr>,
    pub(super) gone: Vec<ServerAddr>,
}

impl Roster {
    pub(super) fn of(named: impl IntoIterator<Item = ServerAddr>) -> Self {
        let mut roster = Self(Vec::new());
        for at in named {
            if roster.entry(&at).is_none() {
                roster.0.push(Entry { at, named: true, id: None, state: State::Asked, others: Vec::new() });
            }
        }
        roster
    }

    pub(super) fn is_known(&self, at: &ServerAddr) -> bool {
        self.0.iter().any(|entry| entry.at == *at)
    }

    /// The sentinel there is this one, names these others, and knows a master or not.
    pub(super) fn answered(
        &mut self,
        at: &ServerAddr,
        id: Option<Arc<str>>,
        others: Vec<Other>,
        knows: bool,
    ) -> Changes {
        let Some(entry) = self.entry(at) else { return Changes::default() };
        entry.state = if knows { State::Answered } else { State::Ignorant };
        // Who is not told his name has it from the others.
        entry.id = id.or_else(|| entry.id.take());
        entry.others = others;
        self.tidied()
    }

    /// The sentinel there does not answer.
    pub(super) fn failed(&mut self, at: &ServerAddr, fault: Fault) -> Changes {
        let Some(entry) = self.entry(at) else { return Changes::default() };
        entry.state = State::Failed(fault);
        self.tidied()
    }

    /// Under which name the sentinel there counts.
    pub(super) fn key(&self, at: &ServerAddr) -> Arc<str> {
        let id = self.0.iter().find(|entry| entry.at == *at).and_then(|entry| entry.id.clone());
        id.unwrap_or_else(|| at.to_string().into())
    }

    /// How many there are, each counted once.
    pub(super) fn known(&self) -> usize {
        self.counted(|_| true)
    }

    /// Whether most of those that are known have answered, whatever they said.
    pub(super) fn most_have_answered(&self) -> bool {
        2 * self.counted(|entry| matches!(entry.state, State::Answered | State::Ignorant)) > self.known()
    }

    /// Whether nobody's answer is still to come.
    pub(super) fn all_are_heard(&self) -> bool {
        !self.0.iter().any(|entry| matches!(entry.state, State::Asked))
    }

    pub(super) fn anybody_answers(&self) -> bool {
        self.0.iter().any(Entry::answers)
    }

    pub(super) fn anybody_is_ignorant(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry.state, State::Ignorant))
    }

    /// Whether one that answers counts under this name.
    pub(super) fn answers(&self, key: &str) -> bool {
        self.0.iter().any(|entry| entry.answers() && *self.key(&entry.at) == *key)
    }

    /// Who did not answer and why, or has not answered yet.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&ServerAddr, Option<&Fault>)> {
        self.0.iter().filter_map(|entry| match &entry.state {
            State::Failed(fault) => Some((&entry.at, Some(fault))),
            State::Asked => Some((&entry.at, None)),
            State::Answered | State::Ignorant => None,
        })
    }

    fn entry(&mut self, at: &ServerAddr) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.at == *at)
    }

    fn counted(&self, counts: impl Fn(&Entry) -> bool) -> usize {
        let mut keys: Vec<_> = self.0.iter().filter(|entry| counts(entry)).map(|entry| self.key(&entry.at)).collect();
        keys.sort();
        keys.dedup();
        keys.len()
    }

    /// Whom the others name is asked, too, unless somebody who answers is known to be him. Whom the user did not name goes when he
    /// does not answer and those who do name him no more, or turns out to be one that is asked at another address.
    fn tidied(&mut self) -> Changes {
        let answering = || self.0.iter().filter(|entry| entry.answers());
        let listed: Vec<Other> = answering().flat_map(|entry| entry.others.iter().cloned()).collect();
        // Where nobody answers they may be all that is left when somebody does again.
        let anybody_answers = self.anybody_answers();
        let stays = |(number, entry): (usize, &Entry)| {
            let is_lost = anybody_answers && matches!(entry.state, State::Failed(_));
            let is_named = || listed.iter().any(|other| other.at == entry.at);
            entry.named || !(is_lost && !is_named() || self.is_another(number, entry))
        };
        let stay: Vec<bool> = self.0.iter().enumerate().map(stays).collect();
        let mut changes = Changes::default();
        let mut stay = stay.into_iter();
        self.0.retain(|entry| {
            let stays = stay.next().unwrap_or(true);
            if !stays {
                changes.gone.push(entry.at.clone());
            }
            stays
        });
        for Other { id, at } in listed {
            let is_asked = |entry: &Entry| entry.at == at || entry.answers() && id.is_some() && entry.id == id;
            if !self.0.iter().any(is_asked) {
                changes.come.push(at.clone());
                self.0.push(Entry { at, named: false, id, state: State::Asked, others: Vec::new() });
            }
        }
        changes
    }

    /// Whether another one that answers is the same sentinel, and goes before.
    fn is_another(&self, number: usize, entry: &Entry) -> bool {
        entry.id.is_some()
            && self.0.iter().enumerate().any(|(other, twin)| {
                let goes_before = twin.named || !entry.answers() || other < number;
                other != number && twin.answers() && twin.id == entry.id && goes_before
            })
    }
}

impl Entry {
    fn answers(&self) -> bool {
        matches!(self.state, State::Answered | State::Ignorant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::FaultKind;

    fn at(name: &str) -> ServerAddr {
        ServerAddr { host: name.into(), port: 1 }
    }

    fn named(names: &[&str]) -> Roster {
        Roster::of(names.iter().map(|name| at(name)))
    }

    /// By their addresses, which are their ids too, in capitals.
    fn others(names: &[&str]) -> Vec<Other> {
        names.iter().map(|name| Other { id: Some(name.to_uppercase().into()), at: at(name) }).collect()
    }

    fn answers(roster: &mut Roster, name: &str, id: &str, all: &[&str]) -> (Vec<ServerAddr>, Vec<ServerAddr>) {
        let changes = roster.answered(&at(name), Some(id.into()), others(all), true);
        (changes.come, changes.gone)
    }

    fn fails(roster: &mut Roster, name: &str) -> Vec<ServerAddr> {
        roster.failed(&at(name), Fault::of(FaultKind::Dropped, false, "no")).gone
    }

    #[test]
    fn whom_the_others_name_is_asked_too_and_once() {
        let mut roster = named(&["a", "b", "a"]);
        assert_eq!(roster.known(), 2);
        assert_eq!(answers(&mut roster, "a", "A", &["b", "c"]), (vec![at("c")], vec![]));
        assert_eq!(answers(&mut roster, "b", "B", &["a", "c"]), (vec![], vec![]));
        assert_eq!(roster.known(), 3);
        assert!(roster.most_have_answered() && !roster.all_are_heard());
    }

    #[test]
    fn one_that_nobody_names_any_more_goes_when_it_does_not_answer() {
        let mut roster = named(&["a"]);
        answers(&mut roster, "a", "A", &["b"]);
        answers(&mut roster, "b", "B", &["a"]);
        assert_eq!(fails(&mut roster, "b"), [], "it is named");
        assert_eq!(answers(&mut roster, "a", "A", &[]), (vec![], vec![at("b")]));
        answers(&mut roster, "a", "A", &["b"]);
        answers(&mut roster, "b", "B", &["a"]);
        assert_eq!(answers(&mut roster, "a", "A", &[]), (vec![], vec![]), "it answers");
        assert_eq!(fails(&mut roster, "b"), [at("b")]);
        assert!(!roster.is_known(&at("b")));
        assert_eq!(fails(&mut roster, "a"), [], "the user named it");
    }

    #[test]
    fn while_nobody_answers_all_are_asked_again() {
        let mut roster = named(&["a"]);
        answers(&mut roster, "a", "A", &["b", "c"]);
        answers(&mut roster, "b", "B", &["a", "c"]);
        for name in ["a", "b", "c"] {
            assert_eq!(fails(&mut roster, name), []);
        }
        assert_eq!(answers(&mut roster, "b", "B", &[]).1, [at("c")]);
        assert_eq!(roster.known(), 2);
    }

    #[test]
    fn one_sentinel_at_two_addresses_counts_once_and_the_named_one_stays() {
        let mut roster = named(&["name", "b"]);
        assert_eq!(answers(&mut roster, "b", "B", &["a"]).0, [at("a")], "it might be another one");
        assert_eq!(roster.known(), 3);
        answers(&mut roster, "a", "A", &["b"]);
        assert_eq!(answers(&mut roster, "name", "A", &["b"]), (vec![], vec![at("a")]));
        assert_eq!((roster.known(), &*roster.key(&at("name"))), (2, "A"));
        assert_eq!(answers(&mut roster, "b", "B", &["a"]), (vec![], vec![]));
        // Two that are named both stay.
        let mut roster = named(&["one", "two"]);
        answers(&mut roster, "one", "A", &[]);
        assert_eq!((answers(&mut roster, "two", "A", &[]), roster.known()), ((vec![], vec![]), 1));
        assert_eq!(fails(&mut roster, "one"), []);
        assert!(roster.answers("A"));
        fails(&mut roster, "two");
        assert!(!roster.answers("A"));
    }

    #[test]
    fn one_that_moves_is_asked_where_it_is_now() {
        let mut roster = named(&["a"]);
        answers(&mut roster, "a", "A", &["b"]);
        answers(&mut roster, "b", "B", &[]);
        fails(&mut roster, "b");
        let moved = vec![Other { id: Some("B".into()), at: at("elsewhere") }];
        let changes = roster.answered(&at("a"), Some("A".into()), moved, true);
        assert_eq!(changes, Changes { come: vec![at("elsewhere")], gone: vec![at("b")] });
    }

    #[test]
    fn who_knows_no_such_master_has_answered() {
        let mut roster = named(&["a", "b"]);
        roster.answered(&at("a"), None, vec![], false);
        assert!(roster.anybody_is_ignorant() && roster.anybody_answers() && !roster.all_are_heard());
        fails(&mut roster, "b");
        assert!(roster.all_are_heard());
        let failures: Vec<_> = roster.failures().map(|(at, why)| (at.clone(), why.is_some())).collect();
        assert_eq!(failures, [(at("b"), true)]);
    }
}
