//! Figures, their bounds, and how they are printed: a case as it ends, and all bounds in a table at the end.

use std::time::Duration;

/// One figure of a case.
#[derive(Clone, Debug)]
struct Row {
    what: String,
    /// Nothing where it could not be measured.
    figure: Option<f64>,
    unit: Unit,
    bound: Option<Bound>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Count,
    /// Of one CPU.
    Percent,
    PerSecond,
    Ratio,
    Seconds,
}

/// What a figure must be, the limit itself included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// What a case found.
pub(crate) struct Findings {
    case: &'static str,
    tasks: usize,
    title: String,
    rows: Vec<Row>,
}

impl Findings {
    pub(crate) fn new(case: &'static str, tasks: usize, title: impl Into<String>) -> Self {
        Self { case, tasks, title: title.into(), rows: Vec::new() }
    }

    /// A figure that nothing is asked of.
    pub(crate) fn note(&mut self, what: impl Into<String>, unit: Unit, figure: f64) {
        self.rows.push(Row { what: what.into(), figure: Some(figure), unit, bound: None });
    }

    pub(crate) fn time(&mut self, what: impl Into<String>, figure: Duration) {
        self.note(what, Unit::Seconds, figure.as_secs_f64());
    }

    /// A figure that must keep a bound.
    pub(crate) fn bounded(&mut self, what: impl Into<String>, unit: Unit, figure: f64, bound: Bound) {
        self.maybe(what, unit, Some(figure), bound);
    }

    /// The same, where it may be that it could not be measured.
    pub(crate) fn maybe(&mut self, what: impl Into<String>, unit: Unit, figure: Option<f64>, bound: Bound) {
        self.rows.push(Row { what: what.into(), figure, unit, bound: Some(bound) });
    }

    /// Exclusion that was violated, and sections that ended in an error: neither is a matter of speed.
    pub(crate) fn sound(&mut self, violations: f64, errors: f64) {
        self.bounded(VIOLATIONS, Unit::Count, violations, Bound::AtMost(0.0));
        self.bounded(ERRORS, Unit::Count, errors, Bound::AtMost(0.0));
    }
}

const VIOLATIONS: &str = "violations of exclusion";
const ERRORS: &str = "errors";

/// All cases so far.
pub(crate) struct Report {
    json: bool,
    findings: Vec<Findings>,
    failed: Vec<String>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, findings: Vec::new(), failed: Vec::new() }
    }

    pub(crate) fn begins(&self, machine: &str) {
        if self.json {
            println!("{{\"machine\":\"{machine}\"}}");
        } else {
            println!("{machine}");
        }
    }

    /// Prints the case at once: the whole run takes minutes.
    pub(crate) fn add(&mut self, findings: Findings) {
        if !self.json {
            println!("\n{}: {}", findings.case, findings.title);
        }
        for row in &findings.rows {
            if self.json {
                println!("{}", json(&findings, row));
            } else {
                let verdict = row.bound.map(|bound| format!("{}: {}", asked(bound, row.unit), reached(row)));
                println!("  {:<58} {:>12}  {}", row.what, shown(row), verdict.unwrap_or_default());
            }
        }
        self.findings.push(findings);
    }

    /// A case that found nothing, and why.
    pub(crate) fn failed(&mut self, case: &str, error: &str) {
        eprintln!("\n{case} FAILED: {error}");
        self.failed.push(format!("{case} FAILED: {error}"));
    }

    /// Prints the table, and gives whether exclusion held and nothing failed.
    pub(crate) fn ends(&self, machine: &str) -> bool {
        let bounded = || {
            let rows = self.findings.iter().flat_map(|case| case.rows.iter().map(move |row| (case, row)));
            rows.filter(|(_, row)| row.bound.is_some())
        };
        let sum = |what| {
            bounded()
                .filter(|(_, row)| row.what == what)
                .filter_map(|(_, row)| row.figure)
                .fold(0.0, |sum, it| sum + it)
        };
        let (violations, errors) = (sum(VIOLATIONS), sum(ERRORS));
        if !self.json {
            println!("\n| case | what | figure | must be | reached |\n| --- | --- | ---: | ---: | --- |");
            let of_speed = || bounded().filter(|(_, row)| ![VIOLATIONS, ERRORS].contains(&row.what.as_str()));
            for (case, row) in of_speed() {
                let bound = row.bound.map(|bound| asked(bound, row.unit)).unwrap_or_default();
                println!("| {} | {} | {} | {bound} | {} |", case.name(), row.what, shown(row), reached(row));
            }
            let held = of_speed().filter(|(_, row)| holds(row) == Some(true)).count();
            println!(
                "\n{held} of {} reached. In all cases {violations} {VIOLATIONS}, {errors} {ERRORS}.",
                of_speed().count()
            );
            for failed in &self.failed {
                println!("{failed}");
            }
            println!("At the end: {machine}");
        }
        self.failed.is_empty() && violations == 0.0 && errors == 0.0
    }
}

impl Findings {
    fn name(&self) -> String {
        if self.tasks > 1 { format!("{} {}", self.case, self.tasks) } else { self.case.to_owned() }
    }
}

fn json(findings: &Findings, row: &Row) -> String {
    let or_null = |figure: Option<f64>| figure.map_or("null".to_owned(), |figure| figure.to_string());
    let limit = row.bound.map(|(Bound::AtLeast(limit) | Bound::AtMost(limit))| limit);
    let reached = holds(row).map_or("null".to_owned(), |it| it.to_string());
    format!(
        "{{\"case\":\"{}\",\"tasks\":{},\"what\":\"{}\",\"figure\":{},\"unit\":\"{:?}\",\"bound\":{},\"reached\":{reached}}}",
        findings.case,
        findings.tasks,
        row.what,
        or_null(row.figure),
        row.unit,
        or_null(limit),
    )
}

fn holds(row: &Row) -> Option<bool> {
    let figure = row.figure?;
    Some(match row.bound? {
        Bound::AtLeast(limit) => figure >= limit,
        Bound::AtMost(limit) => figure <= limit,
    })
}

fn reached(row: &Row) -> &'static str {
    match holds(row) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not measured",
    }
}

fn asked(bound: Bound, unit: Unit) -> String {
    match bound {
        Bound::AtLeast(limit) => format!("≥ {}", in_units(limit, unit)),
        Bound::AtMost(limit) => format!("≤ {}", in_units(limit, unit)),
    }
}

fn shown(row: &Row) -> String {
    row.figure.map_or_else(|| "–".to_owned(), |figure| in_units(figure, row.unit))
}

fn in_units(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{figure:.0} B"),
        Unit::Count if figure.fract() == 0.0 => format!("{figure:.0}"),
        Unit::Count => format!("{figure:.4}"),
        Unit::Percent => format!("{figure:.2} %"),
        Unit::PerSecond => format!("{figure:.0}/s"),
        Unit::Ratio => format!("{figure:.3}"),
        Unit::Seconds if figure < 1e-3 => format!("{:.1} µs", figure * 1e6),
        Unit::Seconds if figure < 1.0 => format!("{:.1} ms", figure * 1e3),
        Unit::Seconds => format!("{figure:.2} s"),
    }
}

/// The middle one; of an even number the upper of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median_of(samples: &mut [Duration]) -> Duration {
    quantile(samples, 0.5)
}

/// The sample that this fraction of all does not exceed. Sorts them.
pub(crate) fn quantile(samples: &mut [Duration], fraction: f64) -> Duration {
    samples.sort_unstable();
    let at = (samples.len() as f64 * fraction) as usize;
    samples.get(at.min(samples.len().saturating_sub(1))).copied().unwrap_or_default()
}
