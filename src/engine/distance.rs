//! What follows from how far the server is: until when a try is waited for, how many may be under way, and which lease is
//! too short. Pure: it measures nothing and waits for nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Replicas, RoundTrip};

/// However near the server is, a try that is on its way when a wait ends may still be answered within this time.
pub(super) const GRACE: Duration = Duration::from_millis(15);

/// On a way that is in order an answer takes no longer than so many of the longest round trips.
const ROUND_TRIPS: u32 = 3;

/// No way is taken to have become longer than so many of these before any answer says so: a server that says nothing at all
/// would keep those who wait for it for a moment.
const FAR: Duration = Duration::from_millis(100);

/// Twice so many are in flight where the server is near.
pub(super) const TRIES: usize = 64;

/// More tries than where the server is near are under way from this distance on, in proportion to it, and no more than so many
/// of each half.
const NEAR: Duration = Duration::from_millis(10);
const MOST_TRIES: usize = 1024;

/// A lease that is shorter than so many round trips is too short for whatever its holder wants to do.
const LEASE: u32 = 4;

/// How far the server of a name is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distance {
    /// `None`: nothing was measured yet.
    round_trip: Option<RoundTrip>,
    command_timeout: Duration,
    /// Since when commands have left that nobody heard of again.
    unheard: Option<Instant>,
}

impl Distance {
    pub(super) fn new(round_trip: Option<RoundTrip>, command_timeout: Duration) -> Self {
        Self { round_trip, command_timeout, unheard: None }
    }

    /// The way may be longer than it was: commands that left since then are without an answer.
    pub(super) fn unheard_since(self, unheard: Option<Instant>) -> Self {
        Self { unheard, ..self }
    }

    /// How long an answer to what was asked at `asked` may take before a way counts as silent. Of one that nobody went yet
    /// nothing is known but that no command takes longer than its timeout; one on which answers were missing by then may
    /// have become as long as they had taken so far.
    pub(super) fn patience(self, asked: Instant) -> Duration {
        let missing = self.unheard.map(|since| asked.saturating_duration_since(since));
        // A link that was silent for longer is given up, and says nothing of the next one.
        let missing = missing.filter(|missing| *missing < self.command_timeout).unwrap_or_default();
        let known = self.round_trip.map(|trip| trip.longest.max(missing.min(FAR)).saturating_mul(ROUND_TRIPS));
        known.unwrap_or(self.command_timeout).min(self.command_timeout).max(GRACE)
    }

    /// How long an answer usually takes.
    pub(super) fn usual(self) -> Duration {
        self.round_trip.map_or(Duration::ZERO, |trip| trip.usual)
    }

    /// How far the server is: how long an answer takes that nothing holds up.
    pub(super) fn shortest(self) -> Duration {
        self.round_trip.map_or(Duration::ZERO, |trip| trip.shortest)
    }

    /// An answer has just come within this time: the way is no longer.
    pub(super) fn at_most(self, took: Duration) -> Self {
        let round_trip = self.round_trip.map(|trip| RoundTrip { shortest: trip.shortest.min(took), ..trip });
        Self { round_trip, ..self }
    }

    /// How many tries of each half may be under way.
    pub(super) fn tries(self) -> usize {
        let times = self.usual().as_micros() / NEAR.as_micros();
        usize::try_from(times).unwrap_or(usize::MAX).saturating_mul(TRIES).clamp(TRIES, MOST_TRIES)
    }

    /// Whether a lease leaves its holder too little time, by the way alone: what came late for once says nothing.
    pub(super) fn is_too_far_for(self, lease: Duration) -> bool {
        Self::is_far_for(lease, self.shortest())
    }

    /// Whether a lease would leave its holder too little time where an answer takes so long.
    pub(super) fn is_far_for(lease: Duration, took: Duration) -> bool {
        lease < took.saturating_mul(LEASE)
    }

    /// Why no answer came within a lease, and where replicas are to know of it no word of theirs.
    pub(super) fn of_late_answers(self, lease: Duration, replicas: Option<Replicas>) -> String {
        let why = format!("no answer within the lease of {lease:?} that it was for");
        if let Some(replicas) = replicas.filter(|replicas| lease <= replicas.told_within()) {
            let within = replicas.within;
            return format!(
                "{why}: replica_acks waits for replicas for up to {within:?}, and a lease should be longer"
            );
        }
        if !self.is_too_far_for(lease) {
            return why;
        }
        format!(
            "{why}: the server is {:?} away, and a lease should be {LEASE} round trips long or longer",
            self.shortest()
        )
    }

    /// Within which time a renewal is answered, or asked for again: two round trips at least.
    pub(super) fn renewal(self, lease: Duration) -> Duration {
        let two = self.round_trip.map_or(Duration::ZERO, |trip| trip.longest.saturating_mul(2));
        two.max(lease / 3).min(self.command_timeout)
    }

    /// Until when an answer to what was asked at `asked` is waited for by somebody whose wait ends at `until`: where the
    /// server answers at all, it comes by then.
    pub(super) fn cut_off(self, until: Instant, asked: Instant) -> Instant {
        (until.max(asked) + GRACE).max(asked + self.patience(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TIMEOUT: Duration = Duration::from_secs(3);

    fn at(longest: Option<Duration>) -> Distance {
        Distance::new(longest.map(|longest| RoundTrip { longest, ..RoundTrip::default() }), TIMEOUT)
    }

    #[test]
    fn whoever_is_near_waits_a_moment_longer_than_it_wants_and_whoever_is_far_for_its_answer() {
        let asked = Instant::now();
        for (longest, wait, over) in [
            (Duration::ZERO, 0, 15),
            (MS, 100, 115),
            (5 * MS, 0, 15),
            (20 * MS, 0, 60),
            (20 * MS, 100, 115),
            (200 * MS, 100, 600),
            (200 * MS, 5_000, 5_015),
        ] {
            assert_eq!(at(Some(longest)).cut_off(asked + MS * wait, asked), asked + MS * over, "{longest:?}, {wait}");
        }
        // A wait that was over before it was asked: the answer has its time all the same.
        assert_eq!(at(Some(200 * MS)).cut_off(asked, asked + 50 * MS), asked + 650 * MS);
    }

    #[test]
    fn where_answers_are_missing_the_way_may_be_as_long_as_they_took_so_far_up_to_a_bound() {
        let since = Instant::now();
        for (missing, longest, over) in
            [(0, 1, 15), (16, 1, 48), (64, 1, 192), (16, 100, 300), (2_000, 1, 300), (2_000, 200, 600)]
        {
            let (asked, near) = (since + MS * missing, at(Some(MS * longest)));
            let over = asked + MS * over;
            assert_eq!(near.unheard_since(Some(since)).cut_off(asked, asked), over, "{missing}, {longest}");
        }
        // By then its link is given up.
        let asked = since + TIMEOUT;
        assert_eq!(at(Some(MS)).unheard_since(Some(since)).cut_off(asked, asked), asked + GRACE);
    }

    #[test]
    fn as_many_tries_are_under_way_as_keep_the_same_number_answered_up_to_a_bound() {
        let tries =
            |ms: u32| Distance::new(Some(RoundTrip { usual: MS * ms, ..RoundTrip::default() }), TIMEOUT).tries();
        assert_eq!([0, 1, 10, 19, 20, 100, 160, 200, 60_000].map(tries), [64, 64, 64, 64, 128, 640, 1024, 1024, 1024]);
        assert_eq!(at(None).tries(), TRIES);
    }

    #[test]
    fn a_lease_of_four_round_trips_is_long_enough_and_a_shorter_one_is_named_with_the_way() {
        let trip = RoundTrip { shortest: 50 * MS, usual: 80 * MS, longest: 500 * MS };
        let far = Distance::new(Some(trip), TIMEOUT);
        assert!(far.is_too_far_for(199 * MS) && !far.is_too_far_for(200 * MS) && !at(None).is_too_far_for(MS));
        assert!(!far.at_most(49 * MS).is_too_far_for(199 * MS) && far.at_most(60 * MS).is_too_far_for(199 * MS));
        let why = far.of_late_answers(100 * MS, None);
        assert!(why.contains("100ms") && why.contains("50ms") && why.contains("4 round trips"), "{why}");
        assert!(!far.of_late_answers(200 * MS, None).contains("50ms"));
        // Replicas may take longer than the way.
        let within = |within| Some(Replicas { wanted: 1, within });
        let why = far.of_late_answers(100 * MS, within(300 * MS));
        assert!(why.contains("replica_acks") && why.contains("300ms") && !why.contains("50ms"), "{why}");
        assert!(!far.of_late_answers(300 * MS, within(100 * MS)).contains("replica_acks"));
    }

    #[test]
    fn a_renewal_has_a_third_of_its_lease_or_two_round_trips_and_never_more_than_a_command() {
        for (longest, lease, within) in
            [(1, 300, 100), (50, 300, 100), (100, 300, 200), (100, 30_000, 3000), (5_000, 30_000, 3000)]
        {
            assert_eq!(at(Some(MS * longest)).renewal(MS * lease), MS * within, "{longest}, {lease}");
        }
    }

    #[test]
    fn no_answer_is_waited_for_beyond_the_command_timeout_whatever_was_measured() {
        let asked = Instant::now();
        assert_eq!(at(None).cut_off(asked, asked), asked + TIMEOUT);
        assert_eq!(at(Some(10 * TIMEOUT)).cut_off(asked, asked), asked + TIMEOUT);
        assert_eq!(at(Some(Duration::MAX / 4)).patience(asked), TIMEOUT);
    }
}
