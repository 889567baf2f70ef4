//! A table that is drawn anew every second, for a terminal. Ctrl-C ends it.

use std::time::{Duration, Instant};

use relatch::Client;
use rustix::{stdio::stdout, termios::tcgetwinsize};
use tokio::time::sleep;

use super::{Wanted, look, rows::Rows};
use crate::{Failure, say};

const EVERY: Duration = Duration::from_secs(1);
/// Lines of a terminal that does not say how many it has.
const LINES: usize = 24;

/// Until nobody looks any more.
pub(super) async fn forever(client: &Client, wanted: &Wanted) -> Result<bool, Failure> {
    loop {
        let began = Instant::now();
        // The header, the line below all, and the cursor's.
        let room = lines().saturating_sub(3).max(1);
        let (mut rows, mut is_more) = (Rows::default(), false);
        look(client, wanted, |seen| {
            is_more = rows.len() >= room;
            if !is_more {
                rows.add(&seen);
            }
            !is_more
        })
        .await?;
        let below = if is_more { "more than there is room for" } else { "that is all" };
        if !say::out(&frame(&rows.take(), below)) {
            return Ok(true);
        }
        // A search that takes long is not to fill the server's time.
        sleep(EVERY.max(began.elapsed())).await;
    }
}

/// From the upper left corner on; what was there before is gone.
fn frame(table: &str, below: &str) -> String {
    let lines: String = table.lines().map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[H{lines}\x1b[K\n({below}; Ctrl-C ends)\x1b[J\n")
}

fn lines() -> usize {
    tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(LINES)
}
