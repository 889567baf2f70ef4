//! What the server must know of a job by all commands that ran there: each answer is compared with that.

use std::time::Duration;

use relatch::embedded::{Happening, Ran, Traced};

use super::Terms;

/// Milliseconds since 1970, by the server's clock.
pub(super) type Millis = u64;

/// A rule that is broken, and how.
pub(super) type Wrong = (&'static str, String);

/// The record, as it must be.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Grows with whatever the server forgets: only what happened in one era can be compared.
    pub(super) era: u32,
    pub(super) kept: Option<Kept>,
    /// The newest period that anybody ever began.
    newest_ms: Millis,
}

#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) start_ms: Millis,
    pub(super) attempts: u64,
    pub(super) run: Option<Run>,
    /// Whose success the period has.
    pub(super) done: Option<String>,
    expires_ms: Millis,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) field: String,
    since_ms: Millis,
    pub(super) until_ms: Millis,
}

/// What a command changed.
#[derive(Debug)]
pub(super) enum Fact {
    /// An attempt began that did not run before.
    Began { field: String, start_ms: Millis, attempt: u64 },
    /// The period has its success.
    Succeeded { field: String, start_ms: Millis },
    /// An attempt was ended by somebody else.
    Forced,
}

impl Record {
    /// The server has lost everything.
    pub(super) fn is_wiped(&mut self) {
        self.kept = None;
        self.era += 1;
    }

    /// Who is at it by the server.
    pub(super) fn running(&self, now_ms: Millis) -> Option<&Run> {
        self.kept.as_ref()?.run.as_ref().filter(|run| now_ms < run.until_ms)
    }

    pub(super) fn is_over(&self, now_ms: Millis) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.expires_ms <= now_ms)
    }

    /// Something happened at the server.
    pub(super) fn hears(&mut self, terms: &Terms, traced: &Traced, now_ms: Millis) -> Result<Option<Fact>, Wrong> {
        let Happening::Ran(ran) = &traced.what else { return Ok(None) };
        if self.is_over(now_ms) {
            self.kept = None;
        }
        let fact = match ran.script() {
            "lua/job/acquire.lua" => self.begins(terms, ran, now_ms),
            "lua/job/release.lua" => self.ends(ran, now_ms),
            "lua/job/renew.lua" => self.is_renewed(ran, now_ms),
            "lua/job/force_release.lua" => self.is_forced(ran),
            _ => Ok(None),
        };
        fact.map_err(|(rule, what)| (rule, format!("{what}: {ran}, where there is {:?}", self.kept)))
    }

    fn begins(&mut self, terms: &Terms, ran: &Ran, now_ms: Millis) -> Result<Option<Fact>, Wrong> {
        let (field, lease_ms) = (&ran.args()[0], number(&ran.args()[1]));
        let said: Vec<u64> = ran.numbers().map(i64::unsigned_abs).collect();
        let [status, left_ms, attempt, start_ms, said_ms, ..] = said[..] else {
            return Err(("an answer that cannot be", "too short".into()));
        };
        let present_ms = terms.present(now_ms);
        let wrong = |rule| Err((rule, String::new()));
        if said_ms != now_ms {
            return wrong("a clock that is not the server's");
        }
        let expires_ms = now_ms + terms.keep_ms().max(lease_ms);
        if let Some(run) = self.kept.as_mut().and_then(|kept| kept.run.as_mut()).filter(|run| now_ms < run.since_ms) {
            // The clock was set back beneath it.
            (run.since_ms, run.until_ms) = (now_ms, now_ms + run.until_ms - run.since_ms);
        }
        let running = self.running(now_ms).map(|run| run.field.clone());
        let kept = self.kept.as_mut();
        let (start, counted) = kept.as_ref().map_or((0, 0), |kept| (kept.start_ms, kept.attempts));
        let its_own = kept.as_ref().and_then(|kept| kept.run.as_ref()).is_some_and(|run| run.field == *field);
        // A period ahead of the clock stands, where that was set back across one boundary.
        let stands = present_ms <= start && start <= present_ms + terms.every_ms();
        let done = stands && kept.as_ref().is_some_and(|kept| kept.done.is_some());
        match status {
            1 if its_own => {
                let Some(kept) = kept else { return Ok(None) };
                let Some(run) = &mut kept.run else { return Ok(None) };
                if (attempt, start_ms) != (kept.attempts, kept.start_ms) {
                    return wrong("an attempt that begins again is another");
                }
                run.until_ms = run.until_ms.max(now_ms + lease_ms);
                kept.expires_ms = kept.expires_ms.max(expires_ms);
                return Ok(None);
            }
            _ if its_own => return wrong("who is at it is told something else"),
            0 if running.is_none() || left_ms == 0 => return wrong("a job is busy where nobody is at it"),
            0 => return Ok(None),
            _ if running.is_some() => return wrong("somebody is at it, and another is told something else"),
            2 if !done => return wrong("work is called done that nobody did"),
            _ if done && status != 2 => return wrong("done work is not called done"),
            3 if !stands || counted < terms.max_attempts => return wrong("attempts are called spent that are not"),
            4 if now_ms - start_ms <= terms.within_ms() => return wrong("it is called late too soon"),
            2..=4 => return Ok(None),
            _ => {}
        }
        let (start, counted) = if stands { (start, counted) } else { (present_ms, 0) };
        if start_ms != start {
            return wrong("a period begins at another time");
        }
        if attempt != counted + 1 {
            return wrong("attempts are counted wrongly");
        }
        if attempt > terms.max_attempts || now_ms.saturating_sub(start_ms) > terms.within_ms() {
            return wrong("an attempt begins that must not");
        }
        if start_ms < self.newest_ms || !stands && start_ms == self.newest_ms {
            // What is known of later periods is forgotten where the clock is far behind them, or the record ran out before that.
            self.era += 1;
        }
        self.newest_ms = start_ms;
        let (run, expired) = (Run { field: field.clone(), since_ms: now_ms, until_ms: now_ms + lease_ms }, 0);
        let expires_ms = expires_ms.max(self.kept.as_ref().map_or(expired, |kept| kept.expires_ms));
        self.kept = Some(Kept { start_ms, attempts: attempt, run: Some(run), done: None, expires_ms });
        Ok(Some(Fact::Began { field: field.clone(), start_ms, attempt }))
    }

    fn ends(&mut self, ran: &Ran, now_ms: Millis) -> Result<Option<Fact>, Wrong> {
        let [field, note, named, keep_ms, ..] = ran.args() else { return Ok(None) };
        let (named_ms, keep_ms) = (number(named), number(keep_ms));
        let wrong = |rule| Err((rule, String::new()));
        let (status, told) = {
            let said: Vec<i64> = ran.numbers().collect();
            if let [status, _, told] = said[..] { (status, told) } else { (1, said.first().copied().unwrap_or(-1)) }
        };
        let kept = self.kept.as_mut().filter(|kept| kept.run.as_ref().is_some_and(|run| run.field == *field));
        let Some(kept) = kept else {
            let again = self.kept.as_ref().is_some_and(|kept| {
                note == "success" && kept.done.as_ref() == Some(field) && kept.start_ms == named_ms
            });
            return match (again, status, told) {
                (true, 1, -2) | (false, -1, _) => Ok(None),
                (true, ..) => wrong("a success that is on record is not found"),
                (false, ..) => wrong("an end is taken of what does not run"),
            };
        };
        kept.run = None;
        kept.expires_ms = kept.expires_ms.max(now_ms + keep_ms);
        // What an old copy began runs for nobody.
        let nobodys = named_ms != 0 && named_ms != kept.start_ms;
        if nobodys || note == "unused" {
            kept.attempts -= 1;
        }
        let start_ms = kept.start_ms;
        match (&**note, nobodys, status) {
            ("success", true, -1) | ("failure" | "unused", _, 1) => Ok(None),
            ("success", false, 1) => {
                kept.done = Some(field.clone());
                Ok(Some(Fact::Succeeded { field: field.clone(), start_ms }))
            }
            ("success", true, _) => wrong("a success counts for another period"),
            _ => wrong("an end is refused though nobody else has begun"),
        }
    }

    fn is_renewed(&mut self, ran: &Ran, now_ms: Millis) -> Result<Option<Fact>, Wrong> {
        let lease_ms = number(&ran.args()[0]);
        let statuses: Vec<i64> = ran.numbers().collect();
        let alone = statuses == [1];
        for (at, field) in ran.args()[1..].iter().enumerate() {
            let found = alone || statuses.get(at) == Some(&1);
            let run = self.kept.as_mut().and_then(|kept| kept.run.as_mut().filter(|run| run.field == *field));
            match (run, found) {
                (Some(run), true) if lease_ms > 0 => run.until_ms = run.until_ms.max(now_ms + lease_ms),
                (Some(_), true) | (None, false) => {}
                _ => return Err(("a renewal finds what is not there, or not what is", field.clone())),
            }
            if let (true, Some(kept)) = (found && lease_ms > 0, &mut self.kept) {
                kept.expires_ms = kept.expires_ms.max(now_ms + lease_ms);
            }
        }
        Ok(None)
    }

    fn is_forced(&mut self, ran: &Ran) -> Result<Option<Fact>, Wrong> {
        let kept = self.kept.as_mut();
        let seen = |run: &Run| ran.args()[2..].contains(&run.field);
        let run = kept.and_then(|kept| kept.run.take_if(|run| seen(run)));
        let done = !ran.numbers().eq([-1, -1]);
        match (run, done) {
            (Some(_), true) => Ok(Some(Fact::Forced)),
            (None, false) => Ok(None),
            _ => Err(("a forced end is of another attempt", String::new())),
        }
    }
}

/// Zero where it is no time.
fn number(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

pub(super) fn millis(time: Duration) -> Millis {
    u64::try_from(time.as_millis()).expect("not that late")
}
