//! A sorted set: members by score, then by bytes. It knows no key and no command.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::sizes::PART;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SortedSet {
    scores: BTreeMap<Vec<u8>, f64>,
    order: BTreeSet<Place>,
    weight: usize,
}

/// Where a member stands. Scores are never NaN.
#[derive(Clone, Debug)]
struct Place {
    score: f64,
    member: Vec<u8>,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        // Not `total_cmp`: the two zeros are one score.
        let by_score = self.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| self.member.cmp(&other.member))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// Scores from `least` to `most`; an open end does not belong to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub(super) least: Edge,
    pub(super) most: Edge,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Edge {
    With(f64),
    Without(f64),
}

impl Scores {
    fn above_least(&self, score: f64) -> bool {
        match self.least {
            Edge::With(least) => score >= least,
            Edge::Without(least) => score > least,
        }
    }

    fn below_most(&self, score: f64) -> bool {
        match self.most {
            Edge::With(most) => score <= most,
            Edge::Without(most) => score < most,
        }
    }
}

impl SortedSet {
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    pub(super) fn set(&mut self, member: &[u8], score: f64) {
        // The server keeps small sets as text, and of the two zeros only one.
        let score = score + 0.0;
        match self.scores.insert(member.to_vec(), score) {
            Some(score) => {
                self.order.remove(&Place { score, member: member.to_vec() });
            }
            None => self.weight += 2 * (member.len() + PART),
        }
        self.order.insert(Place { score, member: member.to_vec() });
    }

    /// Whether the member was there.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.order.remove(&Place { score, member: member.to_vec() });
        self.weight -= 2 * (member.len() + PART);
        true
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.order.range(..Place { score, member: member.to_vec() }).count())
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(|place| (place.member.as_slice(), place.score))
    }

    pub(super) fn within(&self, scores: Scores) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        let score = match scores.least {
            Edge::With(score) | Edge::Without(score) => score,
        };
        let places: Vec<_> = self
            .order
            .range(Place { score, member: Vec::new() }..)
            .skip_while(|place| !scores.above_least(place.score))
            .take_while(|place| scores.below_most(place.score))
            .map(|place| (place.member.as_slice(), place.score))
            .collect();
        places.into_iter()
    }
}
