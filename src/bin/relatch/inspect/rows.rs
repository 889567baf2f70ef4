//! What was seen, for people: a table, in pieces whose columns stand below each other.

use comfy_table::{ColumnConstraint, Table, Width, presets};
use relatch::{
    JobRecord,
    operate::{Found, Holder},
};

use super::Seen;
use crate::{duration, say};

const HEADER: [&str; 7] = ["NAME", "KIND", "HOLDER", "LABEL", "COUNT", "FREE IN", "LISTENERS"];
/// So many rows are in memory at a time.
const PIECE: usize = 200;
/// So many characters of a name are shown.
const LONGEST: usize = 200;

/// Rows that are not shown yet.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<[String; HEADER.len()]>,
    widths: Vec<u16>,
}

impl Rows {
    pub(super) fn add(&mut self, seen: &Seen) {
        match seen {
            Seen::Free(name) => {
                let [name, dash] = [plain(name), "-".to_owned()];
                self.rows.push([name, "free".to_owned(), dash.clone(), dash.clone(), dash.clone(), dash.clone(), dash]);
            }
            Seen::Found(found) if found.holders.is_empty() => self.rows.push(row(found, None)),
            Seen::Found(found) => self.rows.extend(found.holders.iter().map(|holder| row(found, Some(holder)))),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_enough(&self) -> bool {
        self.rows.len() >= PIECE
    }

    /// Whether there never was any.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.widths.is_empty()
    }

    /// Those that are not shown yet, below a header if they are the first.
    pub(super) fn take(&mut self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        if self.widths.is_empty() {
            table.add_row(HEADER);
        }
        table.add_rows(self.rows.drain(..));
        let known = self.widths.clone().into_iter().map(Some).chain(std::iter::repeat(None));
        for (column, width) in table.column_iter_mut().zip(known) {
            column.set_padding((0, 2));
            if let Some(width) = width {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            }
        }
        let widths = table.column_max_content_widths();
        let known = self.widths.iter().copied().chain(std::iter::repeat(0));
        self.widths = widths.into_iter().zip(known).map(|(new, old)| new.saturating_add(2).max(old)).collect();
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

fn row(found: &Found, holder: Option<&Holder>) -> [String; HEADER.len()] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let free_in = match (&found.job, found.ttl) {
        (Some(job), _) => of_job(job),
        (None, Some(ttl)) => duration::shown(ttl),
        (None, None) => "never, it has no TTL".to_owned(),
    };
    [
        plain(&found.name),
        found.kind.code().to_owned(),
        or_dash(holder.map(|holder| holder.id.to_string())),
        or_dash(holder.and_then(|holder| holder.label.as_deref()).map(plain)),
        or_dash(holder.map(|holder| holder.count.to_string())),
        free_in,
        or_dash(found.listeners.map(|count| count.to_string())),
    ]
}

/// How a job stands, where a lock says when it is free.
fn of_job(job: &JobRecord) -> String {
    match (&job.running, &job.success) {
        (Some(running), _) => format!("{}, attempt {}", duration::shown(running.remaining_lease), job.attempts),
        (None, Some(success)) => format!("now, done {}", say::time(success.at)),
        // The only ones were given back.
        (None, None) if job.attempts == 0 => "now".to_owned(),
        (None, None) => format!("now, failed, attempt {}", job.attempts),
    }
}

/// With nothing in it that a terminal would obey, and cut where nobody reads on. Quotes stay, so that a name can be copied.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for (count, letter) in text.chars().enumerate() {
        match letter {
            _ if count == LONGEST => {
                shown.push('…');
                break;
            }
            '"' | '\'' | '\\' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_one_header_and_their_columns_stand_below_each_other() {
        let mut rows = Rows::default();
        assert!(rows.is_empty());
        rows.add(&Seen::Free("a-long-name\u{1b}".into()));
        let first = rows.take();
        rows.add(&Seen::Free("b".into()));
        let second = rows.take();
        assert!(!rows.is_empty());
        let lines: Vec<_> = first.lines().collect();
        assert!(lines[0].starts_with("NAME") && lines.len() == 2, "{first}");
        assert!(lines[1].starts_with(r"a-long-name\u{1b}  free"), "{first}");
        let column = |line: &str| line.find("free");
        assert_eq!(column(&second), column(lines[1]));
        assert_eq!(rows.take(), "");
    }
}
