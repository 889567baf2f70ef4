//! Where the sentinels have the master, and which of them counts: the latest configuration does. Decides only, and asks nobody.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

/// Long enough for every sentinel that lives to hear of a failover from the others, or to be told otherwise.
const ANEW: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ServerAddr {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

/// Where a sentinel has the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// Grows with each failover: whoever says more knows of a later one.
    pub(super) epoch: u64,
    pub(super) at: ServerAddr,
}

/// What each sentinel that answers said last, and what was made of it.
#[derive(Debug, Default)]
pub(super) struct Views {
    said: BTreeMap<Arc<str>, View>,
    followed: Option<View>,
    /// Since when nobody that answers has heard of what is followed.
    behind_since: Option<Instant>,
}

impl Views {
    pub(super) fn note(&mut self, sentinel: Arc<str>, view: View) {
        self.said.insert(sentinel, view);
    }

    /// It does not answer any more, or knows nothing of the master.
    pub(super) fn forget(&mut self, sentinel: &str) {
        self.said.remove(sentinel);
    }

    /// Where the master is, if that is somewhere else than at the last call. So many sentinels are `known`, whether they answer
    /// or not.
    ///
    /// One that knows of a later failover outweighs all others. Of one configuration there is one master, but who is asked in
    /// the moment of a change may put the new one to the old number, and whoever sets sentinels up by hand may give one number
    /// to two: then most of those that are known have to agree.
    ///
    /// What is older than what was followed already counts for nothing: an isolated sentinel says such things, with the old
    /// master on its side. Only where most of those that are known agree, and nobody that answers has heard of the later one
    /// for [`ANEW`], their count began anew: who is set up again without what he knew begins at zero.
    pub(super) fn decide(&mut self, known: usize, now: Instant) -> Option<ServerAddr> {
        let latest = self.said.values().map(|view| view.epoch).max();
        let followed = self.followed.as_ref();
        let is_behind = latest.is_some_and(|latest| followed.is_some_and(|followed| latest < followed.epoch));
        let behind_since = if is_behind { Some(self.behind_since.unwrap_or(now)) } else { None };
        self.behind_since = behind_since;
        let epoch = latest?;
        let mut votes: BTreeMap<&ServerAddr, usize> = BTreeMap::new();
        for view in self.said.values().filter(|view| view.epoch == epoch) {
            *votes.entry(&view.at).or_default() += 1;
        }
        let (at, votes) = votes.into_iter().max_by_key(|(_, votes)| *votes)?;
        let most = 2 * votes > known;
        let counts = match (followed, behind_since) {
            (_, Some(since)) => most && now.saturating_duration_since(since) >= ANEW,
            (Some(followed), None) if followed.epoch == epoch => most,
            _ => true,
        };
        let moves = counts && followed.is_none_or(|followed| followed.at != *at);
        let at = at.clone();
        if counts {
            self.followed = Some(View { epoch, at: at.clone() });
            self.behind_since = None;
        }
        moves.then_some(at)
    }
}

impl fmt::Display for ServerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three sentinels, and what each of them says, one a second: its epoch, and the master's port.
    fn decided(steps: &[(&str, Option<(u64, u16)>)]) -> Vec<Option<u16>> {
        let (mut views, mut now) = (Views::default(), Instant::now());
        let step = |(sentinel, said): &(&str, Option<(u64, u16)>)| {
            now += Duration::from_secs(1);
            match said {
                Some((epoch, port)) => views.note((*sentinel).into(), View { epoch: *epoch, at: at(*port) }),
                None => views.forget(sentinel),
            }
            views.decide(3, now).map(|place| place.port)
        };
        steps.iter().map(step).collect()
    }

    fn at(port: u16) -> ServerAddr {
        ServerAddr { host: "h".into(), port }
    }

    #[test]
    fn the_first_word_counts_and_the_same_one_again_changes_nothing() {
        assert_eq!(decided(&[("a", Some((3, 1))), ("a", Some((3, 1))), ("b", Some((3, 1)))]), [Some(1), None, None]);
    }

    #[test]
    fn one_that_knows_of_a_later_failover_outweighs_all_others() {
        let steps = [("a", Some((3, 1))), ("b", Some((3, 1))), ("c", Some((4, 2))), ("a", Some((3, 1)))];
        assert_eq!(decided(&steps), [Some(1), None, Some(2), None]);
    }

    #[test]
    fn nobody_goes_back_to_an_older_configuration_whoever_says_so() {
        // The one that knew is silent, and the two others never heard of it.
        let steps = [
            ("c", Some((4, 2))),
            ("a", Some((3, 1))),
            ("b", Some((3, 1))),
            ("c", None),
            ("a", Some((3, 1))),
            ("a", Some((5, 1))),
        ];
        assert_eq!(decided(&steps), [Some(2), None, None, None, None, Some(1)]);
    }

    #[test]
    fn sentinels_that_were_all_set_up_anew_are_believed_when_most_of_them_have_said_so_for_long_enough() {
        let (first, old, new) = (("a", Some((7, 1))), ("a", Some((0, 2))), ("b", Some((0, 2))));
        let heard = |first: &[_], then: &[_], times: usize| -> Vec<Option<u16>> {
            let steps: Vec<_> = first.iter().chain(then.iter().cycle().take(times)).copied().collect();
            decided(&steps).split_off(first.len())
        };
        let moved = heard(&[first, old], &[new, old], 11);
        assert_eq!(moved.iter().position(Option::is_some), Some(9), "{moved:?}");
        assert_eq!(moved[9], Some(2));
        // One alone never is, nor are two that do not agree, nor any while another one knows better.
        assert!(heard(&[first], &[old], 30).iter().all(Option::is_none));
        assert!(heard(&[first, old], &[("b", Some((0, 3))), old], 30).iter().all(Option::is_none));
        assert!(heard(&[("c", Some((7, 1)))], &[new, old], 30).iter().all(Option::is_none));
        // Whoever is silent in between says nothing.
        let silence = [new, old, new, ("a", None), ("b", None)];
        assert!(heard(&[first, old], &silence, 30).iter().all(Option::is_none));
    }

    #[test]
    fn of_one_configuration_most_of_those_that_are_known_have_to_name_another_master() {
        let steps = [("a", Some((3, 1))), ("b", Some((3, 2))), ("a", None), ("c", Some((3, 2))), ("a", Some((3, 1)))];
        assert_eq!(decided(&steps), [Some(1), None, None, Some(2), None]);
    }

    #[test]
    fn a_later_configuration_with_the_same_master_moves_nobody_and_counts() {
        let steps = [("a", Some((3, 1))), ("a", Some((5, 1))), ("b", Some((4, 2))), ("b", Some((6, 2)))];
        assert_eq!(decided(&steps), [Some(1), None, None, Some(2)]);
    }

    #[test]
    fn nothing_is_decided_where_nobody_says_anything() {
        assert_eq!(decided(&[("a", None), ("a", Some((1, 1))), ("a", None)]), [None, Some(1), None]);
    }
}
