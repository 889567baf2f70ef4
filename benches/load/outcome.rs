//! What a load saw: counts, waits, gaps, and the line that tells them.

use std::time::{Duration, Instant};

use super::check::Check;

/// What one task saw.
#[derive(Default)]
pub(super) struct Seen {
    /// Those that count.
    sections: u64,
    /// Those before and after, too.
    all_sections: u64,
    waits: Vec<Duration>,
    gaps: Vec<Duration>,
    inside: Duration,
    errors: u64,
    stuck: bool,
    asked: Option<Instant>,
}

impl Seen {
    pub(super) fn waits_since(&mut self, asked: Instant) {
        self.asked = Some(asked);
    }

    /// A section outside the window.
    pub(super) fn warmed_up(&mut self) {
        self.asked = None;
        self.all_sections += 1;
    }

    /// A section that began after the end does not count; how long it waited does.
    pub(super) fn section(&mut self, wait: Duration, inside: Duration, gap: Option<Duration>, counts: bool) {
        self.warmed_up();
        self.waits.push(wait);
        if counts {
            self.sections += 1;
            self.inside += inside;
            self.gaps.extend(gap);
        }
    }

    /// Gives how many there were.
    pub(super) fn failed(&mut self) -> u64 {
        self.errors += 1;
        self.errors
    }

    /// The wait so far is a wait.
    pub(super) fn gave_up(&mut self) {
        self.stuck = true;
        self.waits.extend(self.asked.map(|asked| asked.elapsed()));
    }
}

/// What all tasks saw.
pub(super) struct Outcome {
    sections: u64,
    all_sections: u64,
    span: Duration,
    /// From the shortest to the longest, as the gaps.
    waits: Vec<Duration>,
    gaps: Vec<Duration>,
    inside: Duration,
    /// The least served task's sections to the most served one's.
    fairness: f64,
    violations: u64,
    errors: u64,
    stuck: usize,
}

impl Outcome {
    pub(super) fn of(tasks: Vec<Seen>, check: &Check, span: Duration) -> Self {
        let served = || tasks.iter().map(|task| task.sections);
        let (least, most) = (served().min().unwrap_or(0), served().max().unwrap_or(0));
        let mut outcome = Self {
            sections: served().sum(),
            all_sections: tasks.iter().map(|task| task.all_sections).sum(),
            span,
            waits: Vec::new(),
            gaps: Vec::new(),
            inside: tasks.iter().map(|task| task.inside).sum(),
            fairness: if most == 0 { 0.0 } else { least as f64 / most as f64 },
            violations: check.violations(),
            errors: tasks.iter().map(|task| task.errors).sum(),
            stuck: tasks.iter().filter(|task| task.stuck).count(),
        };
        for task in tasks {
            outcome.waits.extend(task.waits);
            outcome.gaps.extend(task.gaps);
        }
        outcome.waits.sort_unstable();
        outcome.gaps.sort_unstable();
        outcome
    }

    /// The fields of a line of JSON, without what says which library and load it was.
    pub(super) fn fields(&self) -> String {
        let secs = self.span.as_secs_f64();
        let wait = |fraction| micros(quantile(&self.waits, fraction));
        let inside = self.inside.as_secs_f64() * 1e6 / self.sections.max(1) as f64;
        let mean_gap = self.gaps.iter().sum::<Duration>().as_secs_f64() * 1e6 / self.gaps.len().max(1) as f64;
        format!(
            "\"ops\":{},\"secs\":{secs},\"ops_per_s\":{:.1},\"p50_us\":{:.2},\"p99_us\":{:.2},\"p999_us\":{:.2},\
             \"max_wait_us\":{:.2},\"fair_ratio\":{:.4},\"violations\":{},\"errors\":{},\"stuck\":{},\"hold_us\":{inside:.1},\
             \"gap_p50_us\":{:.2},\"gap_mean_us\":{mean_gap:.2},\"all_ops\":{}",
            self.sections,
            self.sections as f64 / secs,
            wait(0.5),
            wait(0.99),
            wait(0.999),
            wait(1.0),
            self.fairness,
            self.violations,
            self.errors,
            self.stuck,
            micros(quantile(&self.gaps, 0.5)),
            self.all_sections,
        )
    }
}

/// The sample that this fraction of the sorted ones does not exceed; zero without any.
fn quantile(sorted: &[Duration], fraction: f64) -> Duration {
    let at = (sorted.len() as f64 * fraction) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}
