//! What the command line asks for, and what is usual where it says nothing.

use std::time::Duration;

use crate::load::Result;

/// What is measured. Each has its file, or a function of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Serial,
    Nested,
    Fenced,
    Token,
    Drop,
    Distinct,
    Hot,
    Leased,
    Hold,
    Procs,
    HandOver,
    Renew,
    Waiters,
    Preheld,
    Elsewhere,
    Relinked,
    Topologies,
    Masters,
    Curve,
    Slices,
}

impl Case {
    pub(crate) fn name(self) -> &'static str {
        CASES.iter().find(|(_, case)| *case == self).map_or("", |(name, _)| name)
    }
}

/// The order of the table.
const CASES: &[(&str, Case)] = &[
    ("serial", Case::Serial),
    ("drop", Case::Drop),
    ("distinct", Case::Distinct),
    ("hot", Case::Hot),
    ("leased", Case::Leased),
    ("hold", Case::Hold),
    ("procs", Case::Procs),
    ("hand-over", Case::HandOver),
    ("renew", Case::Renew),
    ("waiters", Case::Waiters),
    ("preheld", Case::Preheld),
    ("relinked", Case::Relinked),
    ("nested", Case::Nested),
    ("fenced", Case::Fenced),
    ("token", Case::Token),
    ("topologies", Case::Topologies),
    ("masters", Case::Masters),
    ("elsewhere", Case::Elsewhere),
    ("curve", Case::Curve),
    ("slices", Case::Slices),
];

/// How long anything takes that is only to be seen working.
const MOMENT: Duration = Duration::from_millis(60);

pub(crate) struct Wishes {
    case: Option<Case>,
    tasks: Option<usize>,
    span: Option<Duration>,
    pub(crate) json: bool,
    /// Whether this is a benchmark, and not a test of one.
    pub(crate) measured: bool,
}

impl Wishes {
    pub(crate) fn read(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut wishes = Self { case: None, tasks: None, span: None, json: false, measured: false };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--bench" => wishes.measured = true,
                "--json" => wishes.json = true,
                "--case" => wishes.case = case(&value()?)?,
                "--tasks" => wishes.tasks = Some(value()?.parse::<usize>()?.max(1)),
                "--secs" => wishes.span = Some(Duration::try_from_secs_f64(value()?.parse()?)?),
                other => return Err(format!("{other} is unknown: --case, --tasks, --secs and --json are known").into()),
            }
        }
        Ok(wishes)
    }

    /// Those that were asked for, or all that the table needs.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let all = CASES.iter().map(|(_, case)| *case);
        match self.case {
            Some(case) => vec![case],
            // For a plot, and for the choice of a default; for nothing in the table.
            None => all.filter(|case| !matches!(case, Case::Curve | Case::Slices)).collect(),
        }
    }

    /// Whether other libraries are part of it.
    pub(crate) fn peers(&self) -> bool {
        let with_peers = [Case::Distinct, Case::Hot, Case::Hold, Case::Procs, Case::Curve];
        self.measured && self.cases().iter().any(|case| with_peers.contains(case))
    }

    /// How many tasks, names or holds: what was asked for, or what is usual for a benchmark or for a moment.
    pub(crate) fn tasks(&self, usual: usize, moment: usize) -> usize {
        self.tasks.unwrap_or(if self.measured { usual } else { moment })
    }

    /// How long each side is measured, all rounds together: what was asked for, or what is usual.
    pub(crate) fn span(&self, usual: Duration) -> Duration {
        self.span.unwrap_or(if self.measured { usual } else { MOMENT })
    }

    /// How many rounds it is measured in.
    pub(crate) fn rounds(&self, usual: u32) -> u32 {
        if self.measured { usual } else { 1 }
    }
}

/// None of them is the table: all.
fn case(name: &str) -> Result<Option<Case>> {
    if name == "table" {
        return Ok(None);
    }
    let found = CASES.iter().find(|(known, _)| *known == name);
    let names: Vec<_> = CASES.iter().map(|(name, _)| *name).collect();
    Ok(Some(found.ok_or_else(|| format!("no case is called {name}: table, {}", names.join(", ")))?.1))
}
