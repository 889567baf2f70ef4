//! Judges the records of a storm: no two believed holds overlap, what the server lost is told in time, everybody who
//! waits is answered, and the counter is exact. It only reads.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    time::Duration,
};

use super::record::{Fact, Section};

/// What is known of a run besides the records.
#[derive(Debug, Default)]
pub(crate) struct Circumstances {
    /// The longest lease of any hold: what the server lost is told within it.
    pub(crate) longest_lease: Duration,
    /// How much later than its bound a wait may end on a busy machine.
    pub(crate) slack: Duration,
    /// How long a process may pass a hold on from task to task before it asks the server again: its slice, and what a
    /// busy machine needs to wake the last of them.
    pub(crate) passing: Duration,
    /// When the server lost everything: from before its end until it was back.
    pub(crate) restarts: Vec<(Duration, Duration)>,
    /// When a process stood still.
    pub(crate) frozen: Vec<(u32, Duration, Duration)>,
    /// Incarnations that were killed: what they began need not end.
    pub(crate) killed: HashSet<(u32, u32)>,
}

impl Circumstances {
    /// How long a process stood still between two instants.
    fn stood_still(&self, process: u32, from: Duration, until: Duration) -> Duration {
        let still = self.frozen.iter().filter(|frozen| frozen.0 == process);
        still.map(|(_, began, ended)| until.min(*ended).saturating_sub(from.max(*began))).sum()
    }
}

/// One acquisition as its process saw it.
#[derive(Clone, Debug, Default)]
struct Story {
    name: usize,
    asked: Duration,
    wait: Option<Duration>,
    /// The first and the last instant at which it is known to have been believed.
    believed: Option<(Duration, Duration)>,
    counted: Option<Count>,
    lost: Option<Duration>,
    over: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    saw: u64,
    place: u64,
    /// It was believed afterwards, so also when it counted.
    sure: bool,
}

/// A forced release: its name, from before the call until after its answer.
type Force = (usize, Duration, Duration);

/// The whole run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    stories: BTreeMap<Section, Story>,
    forces: Vec<Force>,
    faults: Vec<String>,
    /// How acquisitions ended, and what was lost by which cause, counted.
    pub(crate) tally: BTreeMap<String, u64>,
}

impl Run {
    /// Takes one line of a record in.
    pub(crate) fn take(&mut self, section: Section, fact: &Fact) {
        if let Fact::Forced { name, from, until } = *fact {
            self.forces.push((name, from, until));
            *self.tally.entry("forced".to_owned()).or_default() += 1;
            return;
        }
        let story = self.stories.entry(section).or_default();
        match fact {
            Fact::Asked { name, at, wait } => (story.name, story.asked, story.wait) = (*name, *at, *wait),
            Fact::Entered { at } => story.believed = Some((*at, *at)),
            Fact::Held { at } => {
                if let Some(lost) = story.lost {
                    self.faults.push(format!("{section:?} was lost at {lost:?} and held again at {at:?}"));
                }
                match story.believed.as_mut() {
                    Some((_, last)) => *last = (*last).max(*at),
                    None => self.faults.push(format!("{section:?} held before it entered, at {at:?}")),
                }
                if let Some(count) = &mut story.counted {
                    count.sure = true;
                }
            }
            Fact::Counted { saw, place } => {
                story.counted = Some(Count { saw: *saw, place: *place, sure: false });
                *self.tally.entry("counted".to_owned()).or_default() += 1;
            }
            Fact::Lost { at, cause } => {
                story.lost = Some(*at);
                *self.tally.entry(format!("lost: {cause}")).or_default() += 1;
            }
            Fact::Over { at, how } => {
                story.over = Some(*at);
                *self.tally.entry(how.clone()).or_default() += 1;
            }
            Fact::Leaving { .. } | Fact::Forced { .. } => {}
        }
    }

    /// Everything that is wrong, each with what is known of it. `counters` are the entries of each name's counter.
    pub(crate) fn faults(&self, counters: &[Vec<Section>], circumstances: &Circumstances) -> Vec<String> {
        let mut faults = self.faults.clone();
        self.judge_overlaps(circumstances, &mut faults);
        self.judge_losses(circumstances, &mut faults);
        self.judge_waits(circumstances, &mut faults);
        for (name, entries) in counters.iter().enumerate() {
            self.judge_counter(name, entries, circumstances, &mut faults);
        }
        faults
    }

    fn judge_overlaps(&self, circumstances: &Circumstances, faults: &mut Vec<String>) {
        let mut by_name: HashMap<usize, Vec<(Duration, Duration, Section)>> = HashMap::new();
        for (section, story) in &self.stories {
            if let Some((first, last)) = story.believed {
                by_name.entry(story.name).or_default().push((first, last, *section));
            }
        }
        for (name, mut beliefs) in by_name {
            beliefs.sort();
            // Those that may still reach into a later one.
            let mut open: Vec<(Duration, Duration, Section)> = Vec::new();
            for later in beliefs {
                open.retain(|earlier| earlier.1 > later.0);
                for earlier in &open {
                    if !self.explained(name, earlier, &later, circumstances) {
                        let about = self.excerpt(name, later.0, circumstances);
                        faults.push(format!("both believed at {:?}: {earlier:?} and {later:?}\n{about}", later.0));
                    }
                }
                open.push(later);
            }
        }
    }

    /// Whether the server itself lost the earlier hold, and the earlier holder was told in time.
    fn explained(
        &self,
        name: usize,
        earlier: &(Duration, Duration, Section),
        later: &(Duration, Duration, Section),
        circumstances: &Circumstances,
    ) -> bool {
        let together = earlier.1.min(later.1);
        let lease = circumstances.longest_lease;
        // The hold was there when it was lost, or was passed on by somebody who did not know yet.
        let before = |until: Duration| {
            let late = circumstances.passing + circumstances.stood_still(earlier.2.process, until, earlier.0);
            earlier.0 <= until + late
        };
        let restarted =
            |(from, until): &(Duration, Duration)| before(*until) && later.0 >= *from && together <= *until + lease;
        // A forced release may be under way for long, but whoever enters after it entered after it ran.
        let forced = |force: &Force| force.0 == name && before(force.2) && later.0 >= force.1;
        circumstances.restarts.iter().any(restarted) || (self.forces.iter().any(forced) && together <= later.0 + lease)
    }

    /// A hold that the server lost with everything else is told within its lease.
    fn judge_losses(&self, circumstances: &Circumstances, faults: &mut Vec<String>) {
        for (section, story) in &self.stories {
            let Some((first, last)) = story.believed else { continue };
            for (from, until) in &circumstances.restarts {
                // Entered on the word of the server that was there before.
                if first < *from && last > *until + circumstances.longest_lease {
                    let about = self.excerpt(story.name, last, circumstances);
                    faults.push(format!(
                        "{section:?} believed for {:?} after the server came back empty\n{about}",
                        last - *until
                    ));
                }
            }
        }
    }

    fn judge_waits(&self, circumstances: &Circumstances, faults: &mut Vec<String>) {
        for (section, story) in &self.stories {
            if circumstances.killed.contains(&(section.process, section.incarnation)) {
                continue;
            }
            let Some(over) = story.over else {
                faults.push(format!("{section:?} never ended: {story:?}"));
                continue;
            };
            let (Some(wait), None) = (story.wait, story.believed) else { continue };
            let bound = story.asked + wait + circumstances.slack;
            let frozen = circumstances.stood_still(section.process, story.asked, over);
            if over > bound + frozen {
                faults.push(format!("{section:?} waited for {:?} instead of {wait:?}: {story:?}", over - story.asked));
            }
        }
    }

    /// Sections that believed while they counted are alone between what they saw and what they wrote.
    fn judge_counter(&self, name: usize, entries: &[Section], circumstances: &Circumstances, faults: &mut Vec<String>) {
        let mut seen = HashSet::new();
        for (place, section) in entries.iter().enumerate() {
            if !seen.insert(section) {
                faults.push(format!("{section:?} counted twice"));
            }
            let Some(count) = self.stories.get(section).and_then(|story| story.counted) else {
                // It was killed between the entry and the line about it.
                if !circumstances.killed.contains(&(section.process, section.incarnation)) {
                    faults.push(format!("{section:?} counted and did not say so"));
                }
                continue;
            };
            if count.place != place as u64 {
                faults.push(format!("{section:?} believes its entry to be {} and it is {place}", count.place));
            }
            if !count.sure {
                continue;
            }
            let Some(between) = usize::try_from(count.saw).ok().and_then(|saw| entries.get(saw..place)) else {
                faults.push(format!("{section:?} saw {} entries before its own, which is {place}", count.saw));
                continue;
            };
            for other in between {
                // Who no longer believed, or stood still between its last look and its entry, had no lock to guard it.
                if self.surely_counted_together(name, section, other, circumstances) {
                    let at = self.stories[section].believed.map_or(Duration::ZERO, |(_, last)| last);
                    let about = self.excerpt(name, at, circumstances);
                    faults.push(format!("{other:?} counted inside {section:?}, and both believed\n{about}"));
                }
            }
        }
        let told = self.stories.iter().filter(|(_, story)| story.name == name && story.counted.is_some());
        for (section, _) in told {
            if !seen.contains(section) {
                faults.push(format!("the count of {section:?} is lost"));
            }
        }
    }

    fn surely_counted_together(
        &self,
        name: usize,
        one: &Section,
        other: &Section,
        circumstances: &Circumstances,
    ) -> bool {
        let sure = |section: &Section| {
            let story = self.stories.get(section)?;
            let (first, last) = story.believed.filter(|_| story.counted.is_some_and(|count| count.sure))?;
            Some((first, last, *section))
        };
        let (Some(one), Some(other)) = (sure(one), sure(other)) else { return false };
        let (earlier, later) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        !self.explained(name, &earlier, &later, circumstances)
    }

    /// What happened around an instant to one name.
    fn excerpt(&self, name: usize, at: Duration, circumstances: &Circumstances) -> String {
        let mut text = String::new();
        let near = |time: Duration| time.abs_diff(at) < Duration::from_millis(100);
        let mut lines: Vec<(Duration, String)> = Vec::new();
        for (section, story) in &self.stories {
            let Some((when, last)) = story.believed else { continue };
            if story.name == name && (near(when) || near(last)) {
                let Section { process, incarnation, number } = section;
                let Story { asked, wait, believed, lost, over, .. } = story;
                lines.push((
                    when,
                    format!("{process}.{incarnation} #{number}: asked {asked:?} (wait {wait:?}), believed {believed:?}, lost {lost:?}, over {over:?}"),
                ));
            }
        }
        let restarts = circumstances.restarts.iter().filter(|restart| near(restart.0));
        lines.extend(restarts.map(|(from, until)| (*from, format!("the server is restarted empty, until {until:?}"))));
        let frozen = circumstances.frozen.iter().filter(|frozen| near(frozen.1));
        lines.extend(frozen.map(|(process, from, until)| (*from, format!("{process} stands still until {until:?}"))));
        let forced = self.forces.iter().filter(|force| force.0 == name && near(force.1));
        lines.extend(forced.map(|(_, from, until)| (*from, format!("forced, until {until:?}"))));
        lines.sort();
        for (time, line) in lines {
            let _ = writeln!(text, "    {time:?}  {line}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn section(process: u32, number: u32) -> Section {
        Section { process, incarnation: 0, number }
    }

    fn circumstances() -> Circumstances {
        Circumstances { longest_lease: 100 * MS, slack: 10 * MS, ..Circumstances::default() }
    }

    /// Asked, entered, held and over, at these milliseconds.
    fn hold(run: &mut Run, section: Section, entered: u32, last: u32) {
        run.take(section, &Fact::Asked { name: 0, at: entered * MS, wait: None });
        run.take(section, &Fact::Entered { at: entered * MS });
        run.take(section, &Fact::Held { at: last * MS });
        run.take(section, &Fact::Over { at: last * MS, how: "released".to_owned() });
    }

    #[test]
    fn two_that_believe_at_the_same_time_are_found_unless_the_server_lost_the_first() {
        let (a, b) = (section(0, 1), section(1, 1));
        let mut run = Run::default();
        hold(&mut run, a, 10, 50);
        hold(&mut run, b, 50, 60);
        assert_eq!(run.faults(&[], &circumstances()), Vec::<String>::new(), "one after the other");

        let mut run = Run::default();
        hold(&mut run, a, 10, 55);
        hold(&mut run, b, 50, 60);
        let faults = run.faults(&[], &circumstances());
        assert!(faults.len() == 1 && faults[0].starts_with("both believed at 50ms"), "{faults:?}");

        let lost = Circumstances { restarts: vec![(20 * MS, 30 * MS)], ..circumstances() };
        assert_eq!(run.faults(&[], &lost), Vec::<String>::new(), "within a lease of the restart");
        let before = Circumstances { restarts: vec![(51 * MS, 52 * MS)], ..circumstances() };
        assert_eq!(run.faults(&[], &before).len(), 1, "the restart came after both had entered");
        run.take(section(2, 1), &Fact::Forced { name: 0, from: 40 * MS, until: 45 * MS });
        assert_eq!(run.faults(&[], &circumstances()), Vec::<String>::new(), "forced away");
    }

    #[test]
    fn a_hold_that_was_lost_is_passed_on_for_no_longer_than_a_slice() {
        for (passing, frozen, faults) in [(0, 0, 1), (5, 0, 0), (0, 5, 0), (2, 2, 1)] {
            let mut run = Run::default();
            hold(&mut run, section(0, 1), 50, 70);
            hold(&mut run, section(1, 1), 60, 80);
            run.take(section(2, 1), &Fact::Forced { name: 0, from: 40 * MS, until: 45 * MS });
            let frozen = vec![(0, 45 * MS, (45 + frozen) * MS)];
            let circumstances = Circumstances { passing: passing * MS, frozen, ..circumstances() };
            assert_eq!(run.faults(&[], &circumstances).len(), faults, "{passing} ms, {circumstances:?}");
        }
    }

    #[test]
    fn an_overlap_of_a_hold_that_the_server_lost_ends_within_a_lease() {
        let mut run = Run::default();
        hold(&mut run, section(0, 1), 10, 200);
        hold(&mut run, section(1, 1), 50, 200);
        let lost = Circumstances { restarts: vec![(20 * MS, 30 * MS)], ..circumstances() };
        let faults = run.faults(&[], &lost);
        assert!(faults.iter().any(|fault| fault.contains("after the server came back empty")), "{faults:?}");
        assert!(faults.iter().any(|fault| fault.starts_with("both believed")), "{faults:?}");
    }

    #[test]
    fn who_was_lost_and_believes_again_is_found() {
        let mut run = Run::default();
        hold(&mut run, section(0, 1), 10, 20);
        run.take(section(0, 1), &Fact::Lost { at: 30 * MS, cause: "expired".to_owned() });
        run.take(section(0, 1), &Fact::Held { at: 31 * MS });
        assert!(run.faults(&[], &circumstances())[0].contains("held again"));
    }

    #[test]
    fn who_waits_too_long_or_for_ever_is_found_unless_it_stood_still_or_was_killed() {
        let mut run = Run::default();
        run.take(section(0, 1), &Fact::Asked { name: 0, at: 10 * MS, wait: Some(20 * MS) });
        assert!(run.faults(&[], &circumstances())[0].contains("never ended"));
        let killed = Circumstances { killed: HashSet::from([(0, 0)]), ..circumstances() };
        assert_eq!(run.faults(&[], &killed), Vec::<String>::new());
        run.take(section(0, 1), &Fact::Over { at: 41 * MS, how: "busy".to_owned() });
        assert!(run.faults(&[], &circumstances())[0].contains("instead of 20ms"));
        let frozen = Circumstances { frozen: vec![(0, 30 * MS, 31 * MS)], ..circumstances() };
        assert_eq!(run.faults(&[], &frozen), Vec::<String>::new());
    }

    #[test]
    fn a_count_inside_anothers_section_is_found_and_a_late_one_of_a_lost_hold_is_not() {
        let (a, b) = (section(0, 1), section(1, 1));
        let count = |run: &mut Run, section, saw, place, sure: bool| {
            run.take(section, &Fact::Counted { saw, place });
            if sure {
                let at = run.stories[&section].believed.expect("it entered").1;
                run.take(section, &Fact::Held { at });
            }
        };
        let mut run = Run::default();
        hold(&mut run, a, 10, 20);
        hold(&mut run, b, 30, 40);
        count(&mut run, a, 0, 0, true);
        count(&mut run, b, 1, 1, true);
        assert_eq!(run.faults(&[vec![a, b]], &circumstances()), Vec::<String>::new());
        assert!(run.faults(&[vec![b]], &circumstances()).iter().any(|fault| fault.contains("is lost")));
        assert!(run.faults(&[vec![a, b, a]], &circumstances()).iter().any(|fault| fault.contains("twice")));

        // The second saw nothing of the first, and both were sure.
        for (sure, faults) in [(true, 1), (false, 0)] {
            let mut run = Run::default();
            hold(&mut run, a, 10, 20);
            hold(&mut run, b, 30, 40);
            count(&mut run, a, 0, 0, sure);
            count(&mut run, b, 0, 1, true);
            assert_eq!(run.faults(&[vec![a, b]], &circumstances()).len(), faults);
        }
    }
}
