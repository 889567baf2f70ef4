//! Which of the masters' confirmations and messages a quorum's listener is told. It has no clock: instants are given in.
//!
//! A release publishes on up to as many masters as there are, and is one wave of messages. Each master tells its releases in order,
//! so its message belongs to the first wave that it still owes; where it owes none a new wave begins.
//!
//! | a wave | is told | and then |
//! | --- | --- | --- |
//! | told by a quorum, or by all that listen | at once | what others say of it is swallowed |
//! | told by fewer | after the patience | the next one who tells it lets it be told once more |
//!
//! Why once more: a try that was woken by fewer than a quorum may have found the others still taken. And masters may tell another
//! release meanwhile, which would be swallowed by a wave that was a single vote's undo. So all that is ever swallowed is of those
//! that were not needed for a quorum: every release of a majority reaches a master that owes nothing, and is told.

use std::{collections::VecDeque, time::Duration};

use smallvec::SmallVec;
use tokio::time::Instant;

use super::ballot::majority;

/// The masters of one release may tell it so far apart at least and at most, whatever their round trips are.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(2);
const LONGEST_PATIENCE: Duration = Duration::from_millis(50);

/// A wave that was told is remembered for so many times its patience, and no shorter than this.
const REMEMBERED: u32 = 4;
const SHORTEST_MEMORY: Duration = Duration::from_millis(20);

/// So many waves are known at a time, then the first of them is told and forgotten.
const KNOWN: usize = 8;

/// What is heard of a master, and what a listener is told of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Subscribed,
    Message,
    Interrupted,
    Refused,
}

/// What a listener is told, in order.
pub(super) type Told = SmallVec<[News; 2]>;

/// How far a master's subscription is, and that of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Pending,
    Live,
    Refused,
}

/// What one listener hears of all masters.
#[derive(Debug)]
pub(super) struct Waves {
    masters: Vec<Stage>,
    /// As the listener knows it.
    all: Stage,
    waves: VecDeque<Wave>,
}

/// One release, as far as it was heard.
#[derive(Debug)]
struct Wave {
    masters: SmallVec<[Part; 8]>,
    patience: Duration,
    until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It did not listen when the wave began.
    None,
    Owes,
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// There is something to tell, then at the latest.
    Told(Instant),
    Forgotten(Instant),
}

/// How long after the first message of a release the others are waited for, by the usual round trips of the masters.
pub(super) fn patience(round_trips: impl Iterator<Item = Duration> + Clone) -> Duration {
    let longest = round_trips.clone().max().unwrap_or_default();
    let shortest = round_trips.min().unwrap_or_default();
    (longest - shortest).clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE)
}

impl Waves {
    pub(super) fn new(masters: usize) -> Self {
        Self { masters: vec![Stage::default(); masters], all: Stage::default(), waves: VecDeque::new() }
    }

    /// A master says something; the patience counts for a wave that begins with it.
    pub(super) fn hear(&mut self, master: usize, news: News, now: Instant, patience: Duration) -> Told {
        let mut told = self.due(now);
        match news {
            News::Message => self.message(master, now, patience, &mut told),
            News::Subscribed => self.enter(master, Stage::Live, &mut told),
            News::Interrupted => self.enter(master, Stage::Pending, &mut told),
            News::Refused => self.enter(master, Stage::Refused, &mut told),
        }
        self.tell_waves(now, &mut told);
        told
    }

    /// What is to be told by now, whoever else would tell it.
    pub(super) fn due(&mut self, now: Instant) -> Told {
        let mut told = Told::new();
        self.tell_waves(now, &mut told);
        self.waves.retain(|wave| !matches!(wave.until, Until::Forgotten(at) if at <= now));
        told
    }

    /// When something will be, if nothing is heard until then.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waves.iter().filter_map(Wave::due).min()
    }

    fn message(&mut self, master: usize, now: Instant, patience: Duration, told: &mut Told) {
        let quorum = self.quorum();
        let known = self.waves.iter().position(|wave| wave.masters[master] == Part::Owes);
        let at = known.unwrap_or_else(|| self.begin(now, patience, told));
        let wave = &mut self.waves[at];
        wave.masters[master] = Part::Told;
        if wave.told_by() <= quorum && wave.due().is_none() {
            wave.until = Until::Told(now + wave.patience);
        }
    }

    /// A release that nobody has told yet; its place.
    fn begin(&mut self, now: Instant, patience: Duration, told: &mut Told) -> usize {
        if self.waves.len() == KNOWN
            && let Some(first) = self.waves.pop_front()
        {
            told.extend(first.due().map(|_| News::Message));
        }
        let owes = |stage: &Stage| if *stage == Stage::Live { Part::Owes } else { Part::None };
        let masters = self.masters.iter().map(owes).collect();
        self.waves.push_back(Wave { masters, patience, until: Until::Told(now + patience) });
        self.waves.len() - 1
    }

    fn enter(&mut self, master: usize, stage: Stage, told: &mut Told) {
        self.masters[master] = stage;
        for wave in &mut self.waves {
            let part = &mut wave.masters[master];
            match (stage, *part, wave.until) {
                // It may hear the rest of what nobody was told of yet.
                (Stage::Live, Part::None, Until::Told(_)) => *part = Part::Owes,
                (Stage::Pending | Stage::Refused, Part::Owes, _) => *part = Part::None,
                _ => {}
            }
        }
        let (live, refused) = (self.count(Stage::Live), self.count(Stage::Refused));
        // Every majority has one of so many. They and a quorum that refuses are more than there are.
        let hears = live > self.masters.len() - self.quorum();
        let (all, news) = match self.all {
            _ if hears && stage == Stage::Live => (Stage::Live, News::Subscribed),
            Stage::Pending | Stage::Live if refused >= self.quorum() => (Stage::Refused, News::Refused),
            Stage::Live if !hears => (Stage::Pending, News::Interrupted),
            _ => return,
        };
        self.all = all;
        told.push(news);
    }

    /// Tells the waves that are complete or due.
    fn tell_waves(&mut self, now: Instant, told: &mut Told) {
        let quorum = self.quorum();
        for wave in &mut self.waves {
            let Some(due) = wave.due() else { continue };
            if due <= now || wave.is_complete(quorum) {
                told.push(News::Message);
                let memory =
                    if wave.owes() { (wave.patience * REMEMBERED).max(SHORTEST_MEMORY) } else { Duration::ZERO };
                wave.until = Until::Forgotten(now + memory);
            }
        }
    }

    fn quorum(&self) -> usize {
        majority(self.masters.len())
    }

    fn count(&self, stage: Stage) -> usize {
        self.masters.iter().filter(|known| **known == stage).count()
    }
}

impl Wave {
    fn due(&self) -> Option<Instant> {
        match self.until {
            Until::Told(due) => Some(due),
            Until::Forgotten(_) => None,
        }
    }

    fn is_complete(&self, quorum: usize) -> bool {
        self.told_by() >= quorum || !self.owes()
    }

    fn told_by(&self) -> usize {
        self.masters.iter().filter(|part| **part == Part::Told).count()
    }

    fn owes(&self) -> bool {
        self.masters.contains(&Part::Owes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const NOTHING: [News; 0] = [];

    fn all_live(masters: usize, now: Instant) -> Waves {
        let mut waves = Waves::new(masters);
        hear(&mut waves, now, News::Subscribed, &(0..masters).collect::<Vec<_>>());
        waves
    }

    /// What was told of each of these in turn.
    fn hear(waves: &mut Waves, now: Instant, news: News, masters: &[usize]) -> Vec<Vec<News>> {
        masters.iter().map(|master| waves.hear(*master, news, now, SHORTEST_PATIENCE).to_vec()).collect()
    }

    fn messages(told: &[Vec<News>]) -> usize {
        told.concat().iter().filter(|news| **news == News::Message).count()
    }

    fn orders(of: &[usize]) -> Vec<Vec<usize>> {
        if of.is_empty() {
            return vec![Vec::new()];
        }
        let first = |at: usize| {
            let rest: Vec<usize> = of.iter().copied().filter(|master| *master != of[at]).collect();
            orders(&rest).into_iter().map(move |rest| [vec![of[at]], rest].concat())
        };
        (0..of.len()).flat_map(first).collect()
    }

    fn subsets(masters: usize) -> impl Iterator<Item = Vec<usize>> {
        (1..1_usize << masters).map(move |bits| (0..masters).filter(|master| bits >> master & 1 == 1).collect())
    }

    /// Masters; so many confirmations until it is live, of all so many that are cut until it is not, so many that refuse.
    const COUNTS: [(usize, usize, usize, usize); 5] =
        [(1, 1, 1, 1), (2, 1, 2, 2), (3, 2, 2, 2), (4, 2, 3, 3), (5, 3, 3, 3)];

    #[test]
    fn it_listens_from_the_confirmation_on_by_which_every_majority_has_one_that_does() {
        let now = Instant::now();
        for (masters, live, cut, refused) in COUNTS {
            for order in orders(&(0..masters).collect::<Vec<_>>()) {
                let told = |waves: &mut Waves, news, from: usize, once: bool| {
                    for (at, told) in hear(waves, now, news, &order).iter().enumerate() {
                        let tells = if once { at + 1 == from } else { at + 1 >= from };
                        assert_eq!(told[..], [news][..usize::from(tells)], "{masters}: {order:?}, {at}, {news:?}");
                    }
                };
                let mut waves = Waves::new(masters);
                told(&mut waves, News::Subscribed, live, false);
                told(&mut waves, News::Interrupted, cut, true);
                told(&mut waves, News::Refused, refused, true);
                told(&mut waves, News::Subscribed, live, false);
                told(&mut waves, News::Subscribed, 1, false);
            }
        }
    }

    #[test]
    fn one_that_refuses_what_it_confirmed_is_one_less_that_listens() {
        let now = Instant::now();
        let mut waves = Waves::new(3);
        hear(&mut waves, now, News::Subscribed, &[0, 1]);
        assert_eq!(hear(&mut waves, now, News::Refused, &[0, 1]), [[News::Interrupted], [News::Refused]]);
        assert_eq!(
            hear(&mut waves, now, News::Interrupted, &[0, 1]),
            [NOTHING, NOTHING],
            "it is told by a confirmation"
        );
    }

    #[test]
    fn a_release_is_one_message_by_the_quorum_whatever_the_order_and_so_is_the_next_one() {
        let now = Instant::now();
        for (masters, ..) in COUNTS {
            let orders = orders(&(0..masters).collect::<Vec<_>>());
            for (first, second) in
                orders.iter().flat_map(|first| orders.iter().step_by(7).map(move |second| (first, second)))
            {
                let mut waves = all_live(masters, now);
                for order in [first, second] {
                    for (at, told) in hear(&mut waves, now, News::Message, order).iter().enumerate() {
                        let tells = at + 1 == majority(masters);
                        assert_eq!(told[..], [News::Message][..usize::from(tells)], "{first:?}, {second:?}: {at}");
                    }
                }
                assert_eq!(waves.next_due(), None);
            }
        }
    }

    #[test]
    fn releases_that_overtake_each_other_on_different_masters_are_told_one_by_one() {
        let now = Instant::now();
        let mut waves = all_live(3, now);
        let told = hear(&mut waves, now, News::Message, &[0, 0, 0, 1, 1, 1, 2, 2, 2]);
        let tells: Vec<usize> = told.iter().map(Vec::len).collect();
        assert_eq!(tells, [0, 0, 0, 1, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn what_fewer_than_a_quorum_tell_is_told_after_the_patience() {
        let now = Instant::now();
        let mut waves = all_live(5, now);
        assert_eq!(waves.hear(4, News::Message, now, 7 * MS)[..], NOTHING);
        assert_eq!(waves.hear(3, News::Message, now + MS, 9 * MS)[..], NOTHING, "counted from the first");
        assert_eq!(waves.next_due(), Some(now + 7 * MS));
        assert_eq!(waves.due(now + 6 * MS)[..], NOTHING);
        assert_eq!(waves.due(now + 7 * MS)[..], [News::Message]);
        assert_eq!((waves.due(now + 8 * MS).len(), waves.next_due()), (0, None));
        // The quorum is complete: a try that came too early is not the last one.
        assert_eq!(waves.hear(0, News::Message, now + 8 * MS, 7 * MS)[..], [News::Message]);
        let rest = now + 8 * MS + 4 * 7 * MS;
        assert_eq!(waves.hear(1, News::Message, rest - MS, 7 * MS)[..], NOTHING, "swallowed");
        assert_eq!(waves.next_due(), None);
        assert_eq!(waves.hear(2, News::Message, rest, 7 * MS)[..], NOTHING);
        assert_eq!(waves.next_due(), Some(rest + 7 * MS), "after so long it is another release");
    }

    #[test]
    fn a_short_patience_is_remembered_for_twenty_milliseconds() {
        let now = Instant::now();
        for (after, begins) in [(19, false), (20, true)] {
            let mut waves = all_live(3, now);
            hear(&mut waves, now, News::Message, &[0, 1]);
            hear(&mut waves, now + after * MS, News::Message, &[2]);
            assert_eq!(waves.next_due().is_some(), begins, "{after} ms");
        }
    }

    #[test]
    fn no_release_of_a_majority_is_swallowed_whatever_was_told_before_it() {
        let start = Instant::now();
        for masters in [1, 2, 3, 5] {
            for (first, second) in subsets(masters).flat_map(|one| subsets(masters).map(move |two| (one.clone(), two)))
            {
                for (release, pauses) in subsets(masters)
                    .filter(|release| release.len() == majority(masters))
                    .flat_map(|release| [[0, 0], [3, 0], [0, 3], [3, 3]].map(|pauses| (release.clone(), pauses)))
                {
                    let (mut waves, mut now) = (all_live(masters, start), start);
                    for (before, pause) in [&first, &second].into_iter().zip(pauses) {
                        hear(&mut waves, now, News::Message, before);
                        now += pause * MS;
                        waves.due(now);
                    }
                    let told = messages(&hear(&mut waves, now, News::Message, &release));
                    let late = waves.due(now + SHORTEST_PATIENCE).len();
                    assert!(told + late > 0, "{masters}: {first:?}, {second:?}, {pauses:?}, {release:?}");
                    assert_eq!(waves.next_due(), None);
                }
            }
        }
    }

    #[test]
    fn fewer_than_a_quorum_that_listen_are_waited_for_and_nobody_else() {
        let now = Instant::now();
        for (masters, live) in [(3, vec![0]), (5, vec![0, 3]), (5, vec![1])] {
            let mut waves = Waves::new(masters);
            hear(&mut waves, now, News::Subscribed, &live);
            for _ in 0..2 {
                let told = hear(&mut waves, now, News::Message, &live);
                assert!(told.iter().rev().skip(1).all(Vec::is_empty), "{told:?}");
                assert_eq!(told.last().map(|told| &told[..]), Some(&[News::Message][..]));
            }
        }
    }

    #[test]
    fn a_master_that_is_cut_owes_nothing_and_counts_again_once_it_is_back() {
        let now = Instant::now();
        let mut waves = all_live(5, now);
        assert_eq!(hear(&mut waves, now, News::Message, &[0, 1]), [NOTHING, NOTHING]);
        assert_eq!(hear(&mut waves, now, News::Interrupted, &[2, 3]), [NOTHING, NOTHING]);
        assert_eq!(
            hear(&mut waves, now, News::Interrupted, &[4]),
            [[News::Interrupted, News::Message]],
            "no one is left"
        );

        let mut waves = all_live(3, now);
        hear(&mut waves, now, News::Message, &[0, 1]);
        hear(&mut waves, now, News::Interrupted, &[2]);
        hear(&mut waves, now, News::Subscribed, &[2]);
        assert_eq!(hear(&mut waves, now, News::Message, &[2, 0]), [&NOTHING[..], &[News::Message]], "a new release");

        // It is back while a release is told.
        let mut waves = all_live(3, now);
        hear(&mut waves, now, News::Interrupted, &[2]);
        hear(&mut waves, now, News::Message, &[0]);
        hear(&mut waves, now, News::Subscribed, &[2]);
        assert_eq!(hear(&mut waves, now, News::Message, &[2, 1]), [&[News::Message][..], &NOTHING]);
    }

    #[test]
    fn a_master_that_tells_what_no_other_does_is_told_of_and_not_remembered() {
        let now = Instant::now();
        let mut waves = all_live(3, now);
        let told = messages(&hear(&mut waves, now, News::Message, &[0; 100]));
        assert_eq!((told, waves.waves.len()), (100 - KNOWN, KNOWN));
        assert_eq!(waves.due(now + SHORTEST_PATIENCE).len(), KNOWN);
        waves.due(now + SHORTEST_PATIENCE + SHORTEST_MEMORY);
        assert_eq!(waves.waves.len(), 0);
    }

    #[test]
    fn the_patience_is_what_the_masters_differ_by_within_bounds() {
        for (round_trips, ms) in
            [(&[][..], 2), (&[30][..], 2), (&[1, 2][..], 2), (&[1, 12, 5][..], 11), (&[1, 300][..], 50)]
        {
            assert_eq!(patience(round_trips.iter().map(|trip| *trip * MS)), ms * MS, "{round_trips:?}");
        }
    }
}
