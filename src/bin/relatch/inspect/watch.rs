//! A table that is drawn anew every second, for a terminal. Ctrl-C ends it.

use std::time::{Duration, Instant};

use relatch::Client;
use rustix::{stdio::stdout, termios::tcgetwinsize};
use tokio::time::sleep;

use super::{Wanted, look, rows::Rows};
use crate::{
    Failure,
    say::{self, Printed},
    status,
};

const EVERY: Duration = Duration::from_secs(1);
/// Lines of a terminal that does not say how many it has.
const LINES: usize = 24;

/// Until nobody looks any more. What cannot be seen is said below the table, and asked for again.
pub(super) async fn forever(client: &Client, wanted: &Wanted) -> Result<u8, Failure> {
    loop {
        let began = Instant::now();
        // The header, the line below all, and the cursor's.
        let room = lines().saturating_sub(3).max(1);
        let (mut rows, mut is_more, mut failed) = (Rows::default(), false, None);
        look(client, wanted, |seen| {
            match seen {
                Err(failure) if failure.status == status::MISUSE => return Err(failure),
                Err(failure) => failed = Some(failure.why),
                Ok(_) if rows.len() >= room => is_more = true,
                Ok(seen) => rows.add(&seen),
            }
            Ok(if is_more { Printed::Unread } else { Printed::All })
        })
        .await?;
        let below = match failed {
            Some(why) => say::one_line(&why),
            None if is_more => "more than there is room for".to_owned(),
            None => "that is all".to_owned(),
        };
        if say::out(&frame(&rows.take(), room, &below))? == Printed::Unread {
            return Ok(0);
        }
        // A search that takes long is not to fill the server's time.
        sleep(EVERY.max(began.elapsed())).await;
    }
}

/// From the upper left corner on; what was there before is gone. Lines that are too long end at the edge: wrapped, they would push
/// others out of sight.
fn frame(table: &str, room: usize, below: &str) -> String {
    let lines: String = table.lines().take(room + 1).map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[?7l\x1b[H{lines}\x1b[K\n(Ctrl-C ends; {below})\x1b[J\x1b[?7h\n")
}

fn lines() -> usize {
    tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_no_more_lines_than_there_is_room_for_and_none_that_wraps() {
        let shown = frame("head\na\nb\nc\n", 2, "that is all");
        assert_eq!(shown.lines().count(), 5, "the header, two rows, an empty line and the last one: {shown:?}");
        assert!(shown.starts_with("\x1b[?7l") && shown.ends_with("\x1b[?7h\n"), "{shown:?}");
    }
}
