//! The mutants of the periodic job.

use super::{Mutant, Rule, engine, lua};
use crate::script::job;

pub(super) static OF_JOBS: &[Mutant] = &[
    engine("begun-work-counts", Rule::BegunWorkCounts, "work that began and was dropped gives its attempt back"),
    engine(
        "watched-end-keeps-note",
        Rule::WatchedEndKeepsNote,
        "an end that had no answer is repeated as that of an attempt that never began",
    ),
    lua(
        "end-names-period",
        &job::RELEASE,
        "local nobodys = start_ms ~= '0' and start_ms ~= read[3]",
        "local nobodys = false",
        "an end counts for whatever period is on record",
    ),
    lua(
        "unused-is-given-back",
        &job::RELEASE,
        "if note == 'unused' or nobodys then",
        "if nobodys then",
        "an attempt that never began stays counted",
    ),
    lua(
        "late-success-counts",
        &job::RELEASE,
        "if read[1] ~= field then",
        "local clock = redis.call('TIME')\nif read[1] ~= field or\n  (tonumber(redis.call('HGET', job, 'until')) or 0) \
         <= clock[1] * 1000 + math.floor(clock[2] / 1000) then",
        "a success after the lease is refused though nobody else began",
    ),
    lua(
        "success-is-found-again",
        &job::RELEASE,
        "if note == 'success' and read[2] == field and read[3] == start_ms then",
        "if false then",
        "a success that is sent twice is told that it is lost",
    ),
    lua(
        "death-counts",
        &job::ACQUIRE,
        "attempt = attempt + 1\n",
        "if not (run and until_ms <= now_ms) then\n  attempt = attempt + 1\nend\n",
        "an attempt that died is not counted",
    ),
    lua(
        "begin-counts-once",
        &job::ACQUIRE,
        "if run == field then",
        "if false then",
        "a begin that runs twice is not known again",
    ),
    lua("done-is-done", &job::ACQUIRE, "if read[6] then", "if false then", "work that is done is begun again"),
    lua(
        "attempts-are-bounded",
        &job::ACQUIRE,
        "if attempt >= max_attempts then",
        "if attempt > max_attempts then",
        "a period has one attempt more than it may",
    ),
    lua(
        "older-work-holds-up",
        &job::ACQUIRE,
        "if run and until_ms > now_ms then",
        "if run and until_ms > now_ms and known_ms >= start_ms then",
        "a period begins while the work of the one before goes on",
    ),
    lua(
        "period-forgets-success",
        &job::ACQUIRE,
        "redis.call('HDEL', job, 'by', 'at')",
        "attempt = 1",
        "a new period has the success of the one before",
    ),
    lua(
        "renewal-of-own-attempt",
        &job::RENEW,
        "if read[1] == field then",
        "if read[1] then",
        "a renewal lengthens whatever attempt runs",
    ),
];
