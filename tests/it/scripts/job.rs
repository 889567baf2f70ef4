//! The scripts of periodic jobs as tables: the record before, call, reply, the record after. Every row runs three times: once; at once
//! again; and late, when the client has a newer attempt, which must not feel it.

use super::{Bench, CHANNEL, LOCK, ask};

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../../lua/job/", $name, ".lua"))
    };
}

const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;
/// A period, in whose sixth hour all of this happens.
const EVERY: i64 = 24 * HOUR;
/// How long a record is kept.
const KEEP: i64 = 2 * EVERY;
/// How far a time may be from what it is called.
const NEAR: i64 = 10 * SECOND;

/// An attempt that begins after everything that a row is about.
const LATER: &str = "start=P attempts=1 run=me:9 since=now until=+80 ttl=keep";

struct Jobs {
    bench: Bench,
    /// When the present period began.
    start: i64,
}

// A row: record before | arguments | reply | record after | message | reply to the repetition. The last two may be left out: nothing
// was published; the same reply again.
//
// A record is its fields and `ttl=`, `none`, or `text` (no hash). Times have names: `P` is when the period began, `O`, `N` and `F` when the
// one before it did, the next one, and one far ahead; `now`; `+40` is in 40 seconds, `-40` was 40 seconds ago; `keep` is two periods.
impl Jobs {
    fn new() -> Self {
        let mut bench = Bench::new();
        let start = now(&mut bench) - 6 * HOUR;
        Self { bench, start }
    }

    fn begins(&mut self, table: &str) {
        // Of one that is there: a period's one attempt, or another's lease.
        self.check(script!("acquire"), "{0, +80, 1, P, now, now, me:9}", table, |jobs, words| {
            let mut args = ["me:7", "40000", "EVERY", "OFFSET", "EVERY", "2", "KEEP"].map(str::to_owned);
            for word in words {
                match word.split_once('=') {
                    Some(("within", ms)) => ms.clone_into(&mut args[4]),
                    Some(("max", attempts)) => attempts.clone_into(&mut args[5]),
                    Some(("every", ms)) => ms.clone_into(&mut args[2]),
                    Some(("offset", ms)) => ms.clone_into(&mut args[3]),
                    _ => (*word).clone_into(&mut args[0]),
                }
            }
            let offset = jobs.start % EVERY;
            let value = |arg: String| match arg.as_str() {
                "EVERY" => EVERY.to_string(),
                "OFFSET" => offset.to_string(),
                "KEEP" => KEEP.to_string(),
                _ => arg,
            };
            args.map(value).into()
        });
    }

    fn ends(&mut self, table: &str) {
        self.check(script!("release"), "{-1, 0, -1}", table, |jobs, words| {
            let [field, note, start] = words else { panic!("{words:?}") };
            let start = if *start == "0" { 0 } else { jobs.time(start).expect("a time") };
            [field, note, &*start.to_string(), &KEEP.to_string(), "PUBLISH", CHANNEL].map(str::to_owned).into()
        });
    }

    fn renews(&mut self, table: &str) {
        self.check(script!("renew"), "{-1}", table, |_, words| words.iter().map(|word| (*word).to_owned()).collect());
    }

    fn is_forced(&mut self, table: &str) {
        self.check(script!("force_release"), "{-1, -1}", table, |_, words| {
            ["PUBLISH", CHANNEL].iter().chain(words).map(|word| (*word).to_owned()).collect()
        });
    }

    fn check(&mut self, source: &str, late: &str, table: &str, args: impl Fn(&Self, &[&str]) -> Vec<String>) {
        for row in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut cells = row.split('|').map(str::trim);
            let [before, words, reply, after] = [(); 4].map(|()| cells.next().expect("a row has four cells"));
            let (said, again) = (cells.next().unwrap_or_default(), cells.next().unwrap_or(reply));
            let args = args(self, &words.split_whitespace().collect::<Vec<_>>());
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.put(before);
            assert_eq!(self.run(source, &args), [reply, after, said], "{row}");
            assert_eq!(self.run(source, &args), [again, after, ""], "{row}, again");
            self.put(LATER);
            assert_eq!(self.run(source, &args), [late, LATER, ""], "{row}, late");
        }
    }

    fn run(&mut self, source: &str, args: &[&str]) -> [String; 3] {
        let others = self.bench.others();
        let words = [&["EVAL", source, "1", LOCK], args].concat();
        self.bench.limit_memory(self.bench.maxmemory);
        let reply = super::command(&words).query::<redis::Value>(&mut self.bench.caller);
        self.bench.limit_memory(0);
        let reply = match reply {
            Ok(redis::Value::Array(parts)) => {
                format!("{{{}}}", parts.iter().map(|part| self.part(part)).collect::<Vec<_>>().join(", "))
            }
            Ok(number) => self.part(&number),
            Err(error) if error.to_string().contains("can't run this command") => "NOPERM".to_owned(),
            Err(error) => error.code().expect("the server answers").to_owned(),
        };
        assert_eq!(self.bench.others(), others, "another key was touched");
        [reply, self.record(), self.bench.said()]
    }

    fn part(&mut self, part: &redis::Value) -> String {
        match part {
            redis::Value::Int(number) => self.name(*number),
            redis::Value::BulkString(bytes) => {
                let text = String::from_utf8(bytes.clone()).expect("replies are text");
                text.parse().map_or(text, |number| self.name(number))
            }
            other => panic!("neither a number nor text: {other:?}"),
        }
    }

    /// A time by its name.
    fn time(&self, name: &str) -> Option<i64> {
        let period = ["O", "P", "N"].iter().position(|period| *period == name);
        let period = period.map(|at| self.start + (i64::try_from(at).expect("few") - 1) * EVERY);
        period.or_else(|| (name == "F").then_some(self.start + 9 * EVERY))
    }

    fn put(&mut self, record: &str) {
        let now = now(&mut self.bench);
        ask::<i64>(&mut self.bench.admin, &["DEL", LOCK]);
        match record {
            "none" => return,
            "text" => return ask(&mut self.bench.admin, &["SET", LOCK, "words"]),
            _ => {}
        }
        for (field, value) in record.split(' ').map(|word| word.split_once('=').expect("a word is field=value")) {
            let seconds = value.strip_prefix(['+', '-']).and_then(|seconds| seconds.parse::<i64>().ok());
            let sign = if value.starts_with('-') { -1 } else { 1 };
            let time = match (value, seconds) {
                ("now", _) => Some(now),
                ("keep", _) => Some(KEEP),
                (_, Some(seconds)) if field == "ttl" => Some(seconds * SECOND),
                (_, Some(seconds)) => Some(now + sign * seconds * SECOND),
                _ => self.time(value),
            };
            let value = time.map_or(value.to_owned(), |time| time.to_string());
            match (field, value.as_str()) {
                ("ttl", "none") => {}
                ("ttl", ms) => assert_eq!(ask::<i64>(&mut self.bench.admin, &["PEXPIRE", LOCK, ms]), 1),
                (field, value) => assert_eq!(ask::<i64>(&mut self.bench.admin, &["HSET", LOCK, field, value]), 1),
            }
        }
    }

    fn record(&mut self) -> String {
        match ask::<String>(&mut self.bench.admin, &["TYPE", LOCK]).as_str() {
            "none" => return "none".to_owned(),
            "string" => return "text".to_owned(),
            _ => {}
        }
        let mut fields: Vec<(String, String)> = ask(&mut self.bench.admin, &["HGETALL", LOCK]);
        // In the order of the rows.
        let order = ["start", "attempts", "run", "since", "until", "by", "at", "last"];
        fields.sort_by_key(|(field, _)| order.iter().position(|known| known == field));
        let fields = fields.into_iter().map(|(field, value)| {
            let value = value.parse().map_or(value, |number| self.name(number));
            format!("{field}={value}")
        });
        let fields: Vec<String> = fields.collect();
        let ttl = ask::<i64>(&mut self.bench.admin, &["PTTL", LOCK]);
        let ttl = if ttl == -1 { "none".to_owned() } else { self.name(ttl) };
        fields.join(" ") + &format!(" ttl={ttl}")
    }

    /// What a number is called.
    fn name(&mut self, number: i64) -> String {
        if let Some(period) = ["O", "P", "N", "F"].into_iter().find(|name| self.time(name) == Some(number)) {
            return period.to_owned();
        }
        let is_near = |time: i64| (time - NEAR..=time).contains(&number);
        if is_near(KEEP) {
            return "keep".to_owned();
        }
        let now = now(&mut self.bench);
        for seconds in [20, 40, 80] {
            let ms = seconds * SECOND;
            if is_near(ms) || is_near(now + ms) {
                return format!("+{seconds}");
            }
            if is_near(now - ms) {
                return format!("-{seconds}");
            }
        }
        if is_near(now) { "now".to_owned() } else { number.to_string() }
    }
}

fn now(bench: &mut Bench) -> i64 {
    let (seconds, micros): (i64, i64) = ask(&mut bench.admin, &["TIME"]);
    seconds * 1000 + micros / 1000
}

#[test]
fn an_attempt_begins_once_a_period_and_says_why_it_does_not() {
    let jobs = &mut Jobs::new();
    jobs.begins(
        "
        none | me:7 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep
        start=O attempts=2 by=you:1 at=O last=O ttl=+80 | me:7 | {1, 0, 1, P, now, O} | start=P attempts=1 run=me:7 since=now until=+40 last=O ttl=keep
        start=O attempts=1 run=you:1 since=O until=-20 ttl=+80 | me:7 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=1 run=me:7 since=now until=+20 ttl=+80 | me:7 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=1 run=me:7 since=now until=+80 ttl=keep | me:7 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+80 ttl=keep
        start=O attempts=1 run=me:7 since=O until=-20 ttl=+80 | me:7 | {1, 0, 1, O, now, 0} | start=O attempts=1 run=me:7 since=O until=+40 ttl=keep
        start=P attempts=1 run=you:1 since=now until=+20 ttl=+80 | me:7 | {0, +20, 1, P, now, now, you:1} | start=P attempts=1 run=you:1 since=now until=+20 ttl=+80
        start=O attempts=2 run=you:1 since=O until=+20 ttl=+80 | me:7 | {0, +20, 2, O, now, O, you:1} | start=O attempts=2 run=you:1 since=O until=+20 ttl=+80
        start=P attempts=1 run=you:1 since=+40 until=+80 ttl=+80 | me:7 | {0, +40, 1, P, now, now, you:1} | start=P attempts=1 run=you:1 since=now until=+40 ttl=keep
        start=P attempts=1 run=me:7 since=+20 until=+40 ttl=keep | me:7 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=1 run=you:1 since=-40 until=-20 ttl=+80 | me:7 | {1, 0, 2, P, now, 0} | start=P attempts=2 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=2 run=you:1 since=-40 until=-20 ttl=+80 | me:7 | {3, 0, 2, P, now} | start=P attempts=2 run=you:1 since=-40 until=-20 ttl=+80
        start=P attempts=1 ttl=+80 | me:7 | {1, 0, 2, P, now, 0} | start=P attempts=2 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=1 ttl=none | me:7 | {1, 0, 2, P, now, 0} | start=P attempts=2 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=2 ttl=+80 | me:7 | {3, 0, 2, P, now} | start=P attempts=2 ttl=+80
        start=P attempts=2 ttl=+80 | me:7 max=3 | {1, 0, 3, P, now, 0} | start=P attempts=3 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=1 by=me:7 at=now last=P ttl=+80 | me:7 | {2, 0, 1, P, now, now, me:7} | start=P attempts=1 by=me:7 at=now last=P ttl=+80
        start=P attempts=2 by=you:1 at=-20 last=P ttl=+80 | me:7 | {2, 0, 2, P, now, -20, you:1} | start=P attempts=2 by=you:1 at=-20 last=P ttl=+80
        text | me:7 | WRONGTYPE | text
        ",
    );
}

#[test]
fn a_period_that_is_too_old_begins_nothing_and_a_clock_that_was_set_back_or_was_wrong_is_told_apart() {
    let jobs = &mut Jobs::new();
    jobs.begins(
        "
        none | me:7 within=1000 | {4, 0, 0, P, now} | none
        start=O attempts=2 ttl=+80 | me:7 within=1000 | {4, 0, 0, P, now} | start=O attempts=2 ttl=+80
        start=P attempts=1 ttl=+80 | me:7 within=1000 | {4, 0, 1, P, now} | start=P attempts=1 ttl=+80
        start=P attempts=1 by=you:1 at=now last=P ttl=+80 | me:7 within=1000 | {2, 0, 1, P, now, now, you:1} | start=P attempts=1 by=you:1 at=now last=P ttl=+80
        start=P attempts=1 run=me:7 since=now until=+20 ttl=keep | me:7 within=1000 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep
        start=N attempts=1 by=you:1 at=now last=N ttl=+80 | me:7 | {2, 0, 1, N, now, now, you:1} | start=N attempts=1 by=you:1 at=now last=N ttl=+80
        start=N attempts=2 ttl=+80 | me:7 | {3, 0, 2, N, now} | start=N attempts=2 ttl=+80
        start=N attempts=1 ttl=+80 | me:7 | {1, 0, 2, N, now, 0} | start=N attempts=2 run=me:7 since=now until=+40 ttl=keep
        start=F attempts=2 by=you:1 at=F last=F ttl=+80 | me:7 | {1, 0, 1, P, now, F} | start=P attempts=1 run=me:7 since=now until=+40 last=F ttl=keep
        ",
    );
}

#[test]
fn an_end_is_a_success_a_failure_or_nothing_and_names_its_period() {
    let jobs = &mut Jobs::new();
    let runs = "start=P attempts=1 run=me:7 since=now until=+20 ttl=+80";
    jobs.ends(&format!(
        "
        {runs} | me:7 success P | 1 | start=P attempts=1 by=me:7 at=now last=P ttl=keep | 0 | {{1, 0, -2}}
        {runs} | me:7 failure P | 1 | start=P attempts=1 ttl=keep | 0 | {{-1, 0, -1}}
        {runs} | me:7 unused 0 | 1 | start=P attempts=0 ttl=keep | 0 | {{-1, 0, -1}}
        start=P attempts=2 run=me:7 since=-40 until=-20 last=O ttl=none | me:7 success P | 1 | start=P attempts=2 by=me:7 at=now last=P ttl=keep | 0 | {{1, 0, -2}}
        {runs} | me:7 success O | {{-1, 0, 1}} | start=P attempts=0 ttl=keep | 0 | {{-1, 0, -1}}
        {runs} | me:7 failure O | 1 | start=P attempts=0 ttl=keep | 0 | {{-1, 0, -1}}
        start=O attempts=1 run=me:7 since=O until=+20 ttl=keep | me:7 success O | 1 | start=O attempts=1 by=me:7 at=now last=O ttl=keep | 0 | {{1, 0, -2}}
        start=P attempts=2 run=you:1 since=now until=+20 ttl=+80 | me:7 success P | {{-1, 0, -1}} | start=P attempts=2 run=you:1 since=now until=+20 ttl=+80
        start=P attempts=2 run=you:1 since=now until=+20 ttl=+80 | me:7 unused 0 | {{-1, 0, -1}} | start=P attempts=2 run=you:1 since=now until=+20 ttl=+80
        start=P attempts=1 by=me:7 at=now last=P ttl=+80 | me:7 success P | {{1, 0, -2}} | start=P attempts=1 by=me:7 at=now last=P ttl=+80
        start=P attempts=1 by=me:7 at=now last=P ttl=+80 | me:7 failure P | {{-1, 0, -1}} | start=P attempts=1 by=me:7 at=now last=P ttl=+80
        start=P attempts=1 by=me:7 at=now last=P ttl=+80 | me:7 success O | {{-1, 0, -1}} | start=P attempts=1 by=me:7 at=now last=P ttl=+80
        start=P attempts=1 by=you:1 at=now last=P ttl=+80 | me:7 success P | {{-1, 0, -1}} | start=P attempts=1 by=you:1 at=now last=P ttl=+80
        none | me:7 success P | {{-1, 0, -1}} | none
        none | me:7 unused 0 | {{-1, 0, -1}} | none
        text | me:7 success P | WRONGTYPE | text
        "
    ));
    jobs.bench.call_as("~* resetchannels +@all");
    jobs.ends(&format!(
        "
        {runs} | me:7 success P | {{1, 0, -1}} | start=P attempts=1 by=me:7 at=now last=P ttl=keep | | {{1, 0, -2}}
        {runs} | me:7 success O | {{-1, 0, -1}} | start=P attempts=0 ttl=keep
        "
    ));
}

#[test]
fn a_renewal_of_an_attempt_only_lengthens_and_answers_for_each_record() {
    let jobs = &mut Jobs::new();
    jobs.renews(
        "
        start=P attempts=1 run=me:7 since=now until=+20 ttl=keep | 40000 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep
        start=P attempts=1 run=me:7 since=now until=+20 ttl=+20 | 40000 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+40 ttl=+40
        start=P attempts=1 run=me:7 since=now until=+20 ttl=none | 40000 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+40 ttl=+40
        start=P attempts=1 run=me:7 since=now until=+80 ttl=keep | 40000 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+80 ttl=keep
        start=O attempts=1 run=me:7 since=O until=-20 ttl=keep | 40000 me:7 | 1 | start=O attempts=1 run=me:7 since=O until=+40 ttl=keep
        start=P attempts=1 run=me:7 since=now until=+20 ttl=+20 | -2 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+20 ttl=+20
        start=P attempts=1 run=me:7 since=now until=-20 ttl=none | -2 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=-20 ttl=none
        start=P attempts=1 run=you:1 since=now until=+20 ttl=keep | 40000 me:7 | {-1} | start=P attempts=1 run=you:1 since=now until=+20 ttl=keep
        start=P attempts=1 by=me:7 at=now last=P ttl=+80 | 40000 me:7 | {-1} | start=P attempts=1 by=me:7 at=now last=P ttl=+80
        none | 40000 me:7 | {-1} | none
        text | 40000 me:7 | {-1} | text
        ",
    );
    let bench = &mut jobs.bench;
    for (key, field, value) in [("a", "run", "me:1"), ("c", "run", "you:1"), ("d", "run", "me:4")] {
        ask::<i64>(&mut bench.admin, &["HSET", key, field, value, "until", "1"]);
    }
    ask::<()>(&mut bench.admin, &["SET", "b", "words"]);
    let args = ["40000", "me:1", "me:2", "me:3", "me:4"];
    for _ in 0..2 {
        assert_eq!(bench.ask(script!("renew"), &["a", "b", "c", "d"], &args), "{1, -1, -1, 1}");
    }
    assert_eq!(bench.ask(script!("renew"), &["a", "d"], &["40000", "me:1", "me:4"]), "1");
}

#[test]
fn a_forced_end_is_of_the_attempt_that_was_seen_alone_and_a_look_changes_nothing() {
    let jobs = &mut Jobs::new();
    jobs.is_forced(
        "
        start=P attempts=1 run=you:1 since=now until=+20 ttl=keep | you:1 | 1 | start=P attempts=1 ttl=keep | 0 | {-1, -1}
        start=P attempts=1 run=me:7 since=now until=+20 ttl=keep | you:1 me:7 | 1 | start=P attempts=1 ttl=keep | 0 | {-1, -1}
        start=P attempts=1 run=you:2 since=now until=+20 ttl=keep | you:1 | {-1, -1} | start=P attempts=1 run=you:2 since=now until=+20 ttl=keep
        start=P attempts=1 by=you:1 at=now last=P ttl=keep | you:1 | {-1, -1} | start=P attempts=1 by=you:1 at=now last=P ttl=keep
        none | you:1 | {-1, -1} | none
        text | you:1 | WRONGTYPE | text
        ",
    );
    let looks = [
        ("none", "{-2, now}"),
        ("start=P attempts=1 ttl=+40", "{+40, now, start, P, attempts, 1}"),
        ("start=P attempts=1 ttl=none", "{-1, now, start, P, attempts, 1}"),
        ("text", "WRONGTYPE"),
    ];
    for (record, reply) in looks {
        jobs.put(record);
        assert_eq!(jobs.run(script!("inspect"), &[]), [reply, record, ""]);
    }
}

// What a server without memory still does, and one that refuses a step in the middle: nothing is half done.
#[test]
fn what_is_refused_leaves_a_record_as_it_was_and_no_lack_of_memory_ends_an_attempt() {
    let jobs = &mut Jobs::new();
    let runs = "start=P attempts=1 run=me:7 since=now until=+20 ttl=+20";
    jobs.bench.maxmemory = 1;
    jobs.begins(
        "
        none | me:7 | OOM | none
        start=P attempts=1 ttl=+80 | me:7 | {1, 0, 2, P, now, 0} | start=P attempts=2 run=me:7 since=now until=+40 ttl=keep
        ",
    );
    jobs.renews(&format!("{runs} | 40000 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+40 ttl=+40"));
    jobs.ends(&format!(
        "
        {runs} | me:7 success P | 1 | start=P attempts=1 by=me:7 at=now last=P ttl=keep | 0 | {{1, 0, -2}}
        {runs} | me:7 failure P | 1 | start=P attempts=1 ttl=keep | 0 | {{-1, 0, -1}}
        {runs} | me:7 unused 0 | 1 | start=P attempts=0 ttl=keep | 0 | {{-1, 0, -1}}
        "
    ));
    for (right, begun, succeeded) in [
        ("hset", "none", "start=P attempts=1 run=me:7 since=now until=+20 ttl=keep"),
        ("pexpire", "none", runs),
        (
            "hdel",
            "start=P attempts=1 run=me:7 since=now until=+40 ttl=keep",
            "start=P attempts=1 run=me:7 since=now until=+20 by=me:7 at=now last=P ttl=keep",
        ),
    ] {
        let jobs = &mut Jobs::new();
        jobs.bench.call_as(&format!("~* &* +@all -{right}"));
        let begin = [
            "me:7",
            "40000",
            &EVERY.to_string(),
            &(jobs.start % EVERY).to_string(),
            &EVERY.to_string(),
            "2",
            &KEEP.to_string(),
        ];
        jobs.put("none");
        assert_eq!(jobs.run(script!("acquire"), &begin)[1], begun, "{right}");
        jobs.put(runs);
        let end = ["me:7", "success", &jobs.start.to_string(), &KEEP.to_string(), "PUBLISH", CHANNEL];
        let [reply, record, said] = jobs.run(script!("release"), &end);
        assert_eq!([&*reply, &*record, &*said], ["NOPERM", succeeded, ""], "{right}");
    }
}

#[test]
fn few_rights_are_enough_for_a_job() {
    let jobs = &mut Jobs::new();
    jobs.bench.call_as(
        "~job &redisson_lock__channel:{job} -@all +eval +time +pttl +pexpire +hget +hmget +hset +hdel +hincrby +hgetall +del +publish",
    );
    let runs = "start=P attempts=1 run=me:7 since=now until=+20 ttl=keep";
    jobs.begins("none | me:7 | {1, 0, 1, P, now, 0} | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep");
    jobs.begins("start=O attempts=1 by=you:1 at=O last=O ttl=keep | me:7 | {1, 0, 1, P, now, O} | start=P attempts=1 run=me:7 since=now until=+40 last=O ttl=keep");
    jobs.renews(&format!("{runs} | 40000 me:7 | 1 | start=P attempts=1 run=me:7 since=now until=+40 ttl=keep"));
    jobs.ends(&format!("{runs} | me:7 unused 0 | 1 | start=P attempts=0 ttl=keep | 0 | {{-1, 0, -1}}"));
    jobs.ends(&format!(
        "{runs} | me:7 success P | 1 | start=P attempts=1 by=me:7 at=now last=P ttl=keep | 0 | {{1, 0, -2}}"
    ));
    jobs.is_forced(&format!("{runs} | me:7 | 1 | start=P attempts=1 ttl=keep | 0 | {{-1, -1}}"));
}
