//! What others are to have of a name after the turn of this process: how long they are waited for, and whom it lets go first.
//! When a turn is over is decided in `slice.rs`.

use std::time::Duration;

use super::super::{deadline::Instant, env::Settings};

/// Whoever needs more than a slice for so many round trips is far: giving the key up and coming back takes two, and what is
/// left of the slice is for whatever else takes time.
const FAR: u32 = 4;

/// Who hears a message goes later by this part of a slice for each process whose turn comes first, and by no more than a
/// moment: a try is sooner answered than a timer is set.
const STEP: u32 = 10;
const LONGEST_STEP: Duration = Duration::from_millis(1);

/// Whoever had the lock for long can wait for longer: by this part of that, for the others' tries to come.
const PART: u32 = 32;

/// What others are given while some of them do not come, and with it what this process takes, grows no further than this. Whoever
/// is not farther than this from the server gets the lock in the end, whatever chance does.
pub(crate) const LONGEST: Duration = Duration::from_millis(500);

/// What others are given grows by this part of this process's own turn at first, and then twice as much each time. Not by all of it
/// at once: whoever came and went before it listened is missed, too, but once, and whoever is far time and again.
const BEGINS: u32 = 8;

/// Where all came, what was added falls by this part of itself, less than it grows: messages can be counted, those who sent them
/// cannot, and whoever has the lock twice before another one comes is taken for two.
const FALLS: u32 = 8;

/// After its turn a process that is far neither tries nor listens for so many round trips, for each that listens: while it
/// asks, everybody nearer stands still for longer than a turn of theirs takes. However far it is, it does not rest for longer
/// than this: what it measured may be true no more, and while it rests nobody need be there.
const RESTS: u32 = 4;
pub(crate) const LONGEST_REST: Duration = Duration::from_millis(2_400);

/// What the turns of a process are measured by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// A slice, as it was asked for.
    pub(crate) slice: Duration,
    /// How long others are waited for at least.
    pub(crate) cool_down: Duration,
    /// Its round trip, if it is far.
    pub(crate) far: Option<Duration>,
}

impl Timing {
    /// A slice of no length makes nobody far.
    pub(crate) fn of(settings: &Settings, round_trip: Duration) -> Self {
        let &Settings { slice, cool_down, .. } = settings;
        let far = (!slice.is_zero() && slice < round_trip * FAR).then_some(round_trip);
        Self { slice, cool_down, far }
    }
}

/// What others are to have of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Others {
    round: Option<Round>,
    /// How long this process had the lock before.
    had: Duration,
    /// By so much longer than usual they are waited for.
    longer: Duration,
}

/// The turns of others since that of this process was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round {
    since: Instant,
    /// How many others listened then, as far as they go first.
    others: u32,
    /// How many of them let go since.
    turns: u32,
    /// When the last of them did.
    last_release: Option<Instant>,
}

impl Others {
    /// The turn of this process is over after it had the lock for so long, and so many others were told.
    pub(crate) fn turn_ended(&mut self, now: Instant, others: u32, had: Duration) {
        self.had = had;
        self.round = Some(Round { since: now, others, turns: 0, last_release: None });
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard(&mut self, now: Instant, timing: Timing) {
        let listens = self.listens_at(timing);
        if let Some(round) = self.round.as_mut().filter(|_| listens.is_some_and(|at| at <= now)) {
            // More than listened are not counted.
            round.turns = (round.turns + 1).min(round.others);
            round.last_release = Some(now);
        }
    }

    /// This process has the lock again, and the round is over. Whether anything is to be remembered of it.
    pub(crate) fn taken(&mut self, now: Instant, timing: Timing) -> bool {
        let goes = self.goes_after(timing).or(self.come_by(timing).map(|(_, at)| at));
        if let Some((round, listens)) = self.round.zip(self.listens_at(timing)) {
            if round.missing(listens, timing) == 0 {
                let less = self.longer - self.longer / FALLS;
                self.longer = if less < LONGEST_STEP { Duration::ZERO } else { less };
            } else if goes.is_some_and(|at| at <= now) {
                let more = self.longer.max(timing.slice.max(self.had) / BEGINS);
                self.longer = (self.longer + more).min(LONGEST);
            }
        }
        self.round = None;
        !self.longer.is_zero()
    }

    /// How much longer than usual a process that is near keeps the name.
    pub(crate) fn longer(&self) -> Duration {
        self.longer
    }

    fn part(&self) -> Duration {
        (self.had / PART).min(LONGEST / (PART / 2))
    }

    /// What one of these spans is for this process now. Whoever is near gives no more than it had itself; whoever is far, and
    /// keeps the name no longer for it, than twice what it had and rested.
    fn given(&self, span: Duration, timing: Timing) -> Duration {
        let (part, most) = match self.rest(timing) {
            Some(rest) => (Duration::ZERO, ((self.had + rest) * 2).min(LONGEST)),
            None => (self.part(), self.had.min(LONGEST)),
        };
        (span.max(part) + self.longer).min(most).max(span)
    }

    /// How long a process that is far lets the others alone.
    fn rest(&self, timing: Timing) -> Option<Duration> {
        Some((timing.far? * RESTS * self.round?.others).min(LONGEST_REST))
    }

    /// Until when it does: from then on it listens.
    pub(crate) fn listens_at(&self, timing: Timing) -> Option<Instant> {
        Some(self.round?.since + self.rest(timing).unwrap_or_default())
    }

    /// Until when those who were told are waited for if none of them is heard: at least, and at most.
    pub(crate) fn come_by(&self, timing: Timing) -> Option<(Instant, Instant)> {
        let (listens, usual) = (self.listens_at(timing)?, timing.far.map_or(timing.cool_down, |_| Duration::ZERO));
        Some((listens + usual, listens + self.given(usual, timing)))
    }

    /// When it is this process's turn to try, after what it was told last.
    pub(crate) fn goes_after(&self, timing: Timing) -> Option<Instant> {
        let (round, listens) = (self.round?, self.listens_at(timing)?);
        let last = round.last_release?;
        let steps = (timing.slice / STEP).min(LONGEST_STEP) * round.first(listens, timing.slice);
        Some(last + if round.missing(listens, timing) > 0 { self.given(steps, timing) } else { steps })
    }
}

impl Round {
    /// How many of those that were told go before this process, which listens since then. One that frees the lock and takes
    /// it back in its slice is heard over and over, so each of several is taken to have a slice's time: to the nearest one, since
    /// a process that has little time itself learns late that it may listen, and of a turn that is over.
    fn first(&self, listens: Instant, slice: Duration) -> u32 {
        let lasted = self.last_release.map_or(Duration::ZERO, |last| last - listens);
        let several = self.others > 1 && !slice.is_zero();
        let turns = if several { lasted.div_duration_f64(slice).round() as u32 } else { u32::MAX };
        self.others.saturating_sub(self.turns.min(turns))
    }

    /// How many of them did not come. Whoever is near hears all of them, and need not take short turns for none.
    fn missing(&self, listens: Instant, timing: Timing) -> u32 {
        match timing.far {
            Some(_) => self.first(listens, timing.slice),
            None => self.others.saturating_sub(self.turns),
        }
    }
}
