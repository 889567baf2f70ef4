//! A real server asked for many things in one go, with a look at its clock around each.

use std::{io::Write, time::Duration};

use super::super::{
    super::{Published, Reply},
    real::{END, Real, bytes, encode},
};

/// What was answered to one command, and when it was before.
pub(super) struct Answered {
    pub(super) at: Duration,
    pub(super) reply: Reply,
}

impl Real {
    /// Runs commands in one pipeline, the clock before each and after the last.
    pub(super) fn run(&mut self, commands: &[Vec<Vec<u8>>]) -> (Vec<Answered>, Duration) {
        let mut sent = Vec::new();
        for command in commands {
            encode(&mut sent, &[b"TIME"]);
            encode(&mut sent, command);
        }
        encode(&mut sent, &[b"TIME"]);
        self.commands.0.get_mut().write_all(&sent).unwrap();
        let answered = commands
            .iter()
            .map(|_| {
                let at = time(&self.commands.reply());
                Answered { at, reply: self.commands.reply() }
            })
            .collect();
        (answered, time(&self.commands.reply()))
    }

    /// What was published since it was last asked.
    pub(super) fn all_published(&mut self) -> Vec<Published> {
        self.ask(&["PUBLISH", END, ""]);
        self.published()
    }
}

fn time(reply: &Reply) -> Duration {
    let Reply::Array(parts) = reply else { panic!("no time: {reply:?}") };
    let number = |part: &Reply| String::from_utf8_lossy(bytes(part)).parse::<u64>().unwrap();
    Duration::from_secs(number(&parts[0])) + Duration::from_micros(number(&parts[1]))
}
