//! The Lua scripts alone, as tables on a real server: state before, call, reply, state after. No engine and no client.
//!
//! Every row runs four times: once; at once again, as a command does whose answer was lost; late, when the client has a
//! newer hold, which must not feel it; and by the script of the version before, which does the same to the lock.

mod job;

use redis::{Cmd, Connection, FromRedisValue, Value};

use crate::{harness::Server, rolling};

const LOCK: &str = "job";
const CHANNEL: &str = "redisson_lock__channel:{job}";
/// Of the fencing tokens.
const COUNTER: &str = "redisson_lock_token:{job}";

/// A hold that begins after everything that a row is about.
const LATER: &str = "me:9=1 ttl=80000";

/// A script and what it answers where only [`LATER`] is there.
struct Verb {
    name: &'static str,
    source: &'static str,
    keys: &'static [&'static str],
    later: &'static str,
    late: &'static str,
}

macro_rules! verb {
    ($name:literal, $late:literal) => {
        verb!("reentrant", $name, &[LOCK], LATER, $late)
    };
    (fenced $name:literal, $late:literal) => {
        verb!("fenced", $name, &[LOCK, COUNTER], "me:9=1 ttl=80000 fence=9", $late)
    };
    (token $name:literal, $late:literal) => {
        verb!("token", $name, &[LOCK], "string=me:9 ttl=80000", $late)
    };
    ($folder:literal, $name:literal, $keys:expr, $later:expr, $late:literal) => {
        Verb {
            name: concat!($folder, "/", $name),
            source: include_str!(concat!("../../lua/", $folder, "/", $name, ".lua")),
            keys: $keys,
            later: $later,
            late: $late,
        }
    };
}

static ACQUIRE: Verb = verb!("acquire", "{0, 80000, 0, 0}");
static RELEASE: Verb = verb!("release", "{-1, 0, -1}");
static RENEW: Verb = verb!("renew", "{-1}");
static HAND_OVER: Verb = verb!("hand_over", "{-1, -1}");
static FORCE_RELEASE: Verb = verb!("force_release", "{-1, -1}");
static INSPECT: Verb = verb!("inspect", "{80000, me:9, 1}");

static FENCED_ACQUIRE: Verb = verb!(fenced "acquire", "{0, 80000, 0, 0}");
static FENCED_HAND_OVER: Verb = verb!(fenced "hand_over", "{-1, 0, -1}");

static TOKEN_ACQUIRE: Verb = verb!(token "acquire", "{0, 80000, 0, 0}");
static TOKEN_RELEASE: Verb = verb!(token "release", "{-1, 0, -1}");
static TOKEN_RENEW: Verb = verb!(token "renew", "{-1}");
static TOKEN_HAND_OVER: Verb = verb!(token "hand_over", "{-1, -1}");
static TOKEN_INSPECT: Verb = verb!(token "inspect", "{80000, me:9}");

const TTLS: [i64; 3] = [20_000, 40_000, 80_000];

// A row of a table: state before | arguments | reply | state after | message | reply to the repetition | message of the version
// before. The last three may be left out: nothing was published; the same reply again; the same message. In the arguments `channel` stands for the lock's channel.
//
// States are `free`, `expired` (was a hold of `me:7`), `text` (no hash) or `field=count ttl=ms`, each with `fence=n` where tokens
// are counted, or `string=token ttl=ms`. A reply is a number, its parts in
// braces, or the code of an error. A time counts as one of [`TTLS`] while it is a little below it.

#[test]
fn acquire_sets_the_count_and_only_raises() {
    Bench::new().check(
        &ACQUIRE,
        "
        free               | me:7 40000   | 1                | me:7=1 ttl=40000
        expired            | me:7 40000   | 1                | me:7=1 ttl=40000
        free               | me:7 40000 1 | 1                | me:7=1 ttl=40000
        free               | me:7 40000 2 | {-1, 0, 0, 0}    | free
        expired            | me:7 40000 2 | {-1, 0, 0, 0}    | free
        me:7=1 ttl=20000   | me:7 40000   | 1                | me:7=1 ttl=40000
        me:7=1 ttl=20000   | me:7 40000 2 | 2                | me:7=2 ttl=40000
        me:7=1 ttl=80000   | me:7 40000 2 | 2                | me:7=2 ttl=80000
        me:7=1 ttl=20000   | me:7 40000 5 | 5                | me:7=5 ttl=40000
        me:7=3 ttl=80000   | me:7 40000 2 | 3                | me:7=3 ttl=80000
        me:7=3 ttl=20000   | me:7 40000   | 3                | me:7=3 ttl=40000
        me:7=1 ttl=none    | me:7 40000 2 | 2                | me:7=2 ttl=40000
        peer:1=1 ttl=20000 | me:7 40000   | {0, 20000, 0, 0} | peer:1=1 ttl=20000
        peer:1=4 ttl=80000 | me:7 40000 2 | {0, 80000, 0, 0} | peer:1=4 ttl=80000
        peer:1=1 ttl=none  | me:7 40000   | {0, -1, 0, 0}    | peer:1=1 ttl=none
        me:6=1 ttl=20000   | me:7 40000   | {0, 20000, 0, 0} | me:6=1 ttl=20000
        text               | me:7 40000   | WRONGTYPE        | text
        ",
    );
}

#[test]
fn release_sets_the_count_and_frees_at_zero() {
    Bench::new().check(
        &RELEASE,
        "
        me:7=1 ttl=20000   | me:7 PUBLISH channel   | 1           | free | 0 | {-1, 0, -1}
        me:7=3 ttl=20000   | me:7 PUBLISH channel   | 1           | free | 0 | {-1, 0, -1}
        me:7=1 ttl=none    | me:7 PUBLISH channel   | 1           | free | 0 | {-1, 0, -1}
        me:7=3 ttl=20000   | me:7 PUBLISH channel 0 | 1           | free | 0 | {-1, 0, -1}
        me:7=2 ttl=20000   | me:7 PUBLISH channel 1 | {1, 1, -1}  | me:7=1 ttl=20000
        me:7=5 ttl=80000   | me:7 PUBLISH channel 1 | {1, 1, -1}  | me:7=1 ttl=80000
        me:7=3 ttl=none    | me:7 PUBLISH channel 1 | {1, 1, -1}  | me:7=1 ttl=none
        me:7=1 ttl=20000   | me:7 PUBLISH channel 1 | {1, 1, -1}  | me:7=1 ttl=20000
        me:7=1 ttl=20000   | me:7 PUBLISH channel 2 | {1, 2, -1}  | me:7=1 ttl=20000
        free               | me:7 PUBLISH channel   | {-1, 0, -1} | free
        free               | me:7 PUBLISH channel 1 | {-1, 0, -1} | free
        expired            | me:7 PUBLISH channel   | {-1, 0, -1} | free
        peer:1=1 ttl=20000 | me:7 PUBLISH channel   | {-1, 0, -1} | peer:1=1 ttl=20000
        peer:1=2 ttl=none  | me:7 PUBLISH channel 1 | {-1, 0, -1} | peer:1=2 ttl=none
        me:8=1 ttl=20000   | me:7 PUBLISH channel   | {-1, 0, -1} | me:8=1 ttl=20000
        text               | me:7 PUBLISH channel   | WRONGTYPE   | text
        ",
    );
}

#[test]
fn hand_over_moves_the_hold_gives_it_its_own_lease_and_tells_that_it_got_shorter() {
    Bench::new().check(
        &HAND_OVER,
        "
        me:7=1 ttl=20000   | me:7 me:8 40000 PUBLISH channel | 1         | me:8=1 ttl=40000
        me:7=1 ttl=80000   | me:7 me:8 40000 PUBLISH channel | {1, 1}    | me:8=1 ttl=40000 | 0 | 1
        me:7=3 ttl=20000   | me:7 me:8 40000 PUBLISH channel | 1         | me:8=1 ttl=40000
        me:7=3 ttl=80000   | me:7 me:8 40000 PUBLISH channel | {1, 1}    | me:8=1 ttl=40000 | 0 | 1
        me:7=1 ttl=none    | me:7 me:8 40000 PUBLISH channel | {1, 1}    | me:8=1 ttl=40000 | 0 | 1
        me:8=1 ttl=20000   | me:7 me:8 40000 PUBLISH channel | 1         | me:8=1 ttl=40000
        me:8=1 ttl=80000   | me:7 me:8 40000 PUBLISH channel | 1         | me:8=1 ttl=80000
        me:8=2 ttl=none    | me:7 me:8 40000 PUBLISH channel | 1         | me:8=2 ttl=40000
        free               | me:7 me:8 40000 PUBLISH channel | {-1, -1}  | free
        expired            | me:7 me:8 40000 PUBLISH channel | {-1, -1}  | free
        peer:1=1 ttl=20000 | me:7 me:8 40000 PUBLISH channel | {-1, -1}  | peer:1=1 ttl=20000
        peer:1=1 ttl=none  | me:7 me:8 40000 PUBLISH channel | {-1, -1}  | peer:1=1 ttl=none
        text               | me:7 me:8 40000 PUBLISH channel | WRONGTYPE | text
        ",
    );
}

#[test]
fn a_fenced_acquire_draws_a_token_for_the_free_key_alone() {
    let bench = &mut Bench::new();
    bench.check(
        &FENCED_ACQUIRE,
        "
        free                       | me:7 40000   | {1, 0, 1, 1}     | me:7=1 ttl=40000 fence=1
        free fence=4               | me:7 40000   | {1, 0, 1, 5}     | me:7=1 ttl=40000 fence=5
        expired fence=4            | me:7 40000   | {1, 0, 1, 5}     | me:7=1 ttl=40000 fence=5
        free fence=4               | me:7 40000 2 | {-1, 0, 0, 0}    | free fence=4
        free                       | me:7 40000 2 | {-1, 0, 0, 0}    | free
        me:7=1 ttl=20000 fence=4   | me:7 40000   | {1, 0, 1, 4}     | me:7=1 ttl=40000 fence=4
        me:7=1 ttl=80000 fence=4   | me:7 40000 2 | {1, 0, 2, 4}     | me:7=2 ttl=80000 fence=4
        me:7=3 ttl=20000 fence=4   | me:7 40000 2 | {1, 0, 3, 4}     | me:7=3 ttl=40000 fence=4
        me:7=1 ttl=none fence=4    | me:7 40000   | {1, 0, 1, 4}     | me:7=1 ttl=40000 fence=4
        me:7=1 ttl=20000           | me:7 40000 2 | {1, 0, 2, 1}     | me:7=2 ttl=40000 fence=1
        peer:1=1 ttl=20000 fence=4 | me:7 40000   | {0, 20000, 0, 0} | peer:1=1 ttl=20000 fence=4
        peer:1=1 ttl=none          | me:7 40000 2 | {0, -1, 0, 0}    | peer:1=1 ttl=none
        text fence=4               | me:7 40000   | WRONGTYPE        | text fence=4
        free fence=none            | me:7 40000   | ERR              | free fence=none
        ",
    );
    // Where a number of Lua is not exact any more, and where the server's ends.
    bench.check(
        &FENCED_ACQUIRE,
        "
        free fence=9007199254740990             | me:7 40000   | {1, 0, 1, 9007199254740991}    | me:7=1 ttl=40000 fence=9007199254740991
        free fence=9007199254740991             | me:7 40000   | {1, 0, 1, 9007199254740992}    | me:7=1 ttl=40000 fence=9007199254740992
        free fence=9007199254740992             | me:7 40000   | {1, 0, 1, 9007199254740993}    | me:7=1 ttl=40000 fence=9007199254740993
        me:7=1 ttl=20000 fence=9007199254740993 | me:7 40000 2 | {1, 0, 2, 9007199254740993}    | me:7=2 ttl=40000 fence=9007199254740993
        free fence=9223372036854775806          | me:7 40000   | {1, 0, 1, 9223372036854775807} | me:7=1 ttl=40000 fence=9223372036854775807
        free fence=9223372036854775807          | me:7 40000   | ERR                            | free fence=9223372036854775807
        ",
    );
    bench.maxmemory = 1;
    bench.check(&FENCED_ACQUIRE, "free fence=4 | me:7 40000 | OOM | free fence=4");
    bench.check(&FENCED_ACQUIRE, "me:7=1 ttl=20000 fence=4 | me:7 40000 2 | OOM | me:7=1 ttl=20000 fence=4");
}

#[test]
fn a_fenced_hand_over_draws_the_next_token_once() {
    let bench = &mut Bench::new();
    let moves = "
        me:7=1 ttl=20000 fence=4   | me:7 me:8 40000 PUBLISH channel | {1, 5, -1}  | me:8=1 ttl=40000 fence=5
        me:7=3 ttl=80000 fence=4   | me:7 me:8 40000 PUBLISH channel | {1, 5, 1}   | me:8=1 ttl=40000 fence=5 | 0 | {1, 5, -1}
        me:7=1 ttl=none fence=4    | me:7 me:8 40000 PUBLISH channel | {1, 5, 1}   | me:8=1 ttl=40000 fence=5 | 0 | {1, 5, -1}
        me:7=1 ttl=20000           | me:7 me:8 40000 PUBLISH channel | {1, 1, -1}  | me:8=1 ttl=40000 fence=1
        me:8=1 ttl=20000 fence=5   | me:7 me:8 40000 PUBLISH channel | {1, 5, -1}  | me:8=1 ttl=40000 fence=5
        free fence=4               | me:7 me:8 40000 PUBLISH channel | {-1, 0, -1} | free fence=4
        expired fence=4            | me:7 me:8 40000 PUBLISH channel | {-1, 0, -1} | free fence=4
        peer:1=1 ttl=20000 fence=4 | me:7 me:8 40000 PUBLISH channel | {-1, 0, -1} | peer:1=1 ttl=20000 fence=4
        ";
    bench.check(&FENCED_HAND_OVER, moves);
    bench.check(
        &FENCED_HAND_OVER,
        "
        text fence=4                | me:7 me:8 40000 PUBLISH channel | WRONGTYPE | text fence=4
        me:7=1 ttl=20000 fence=none | me:7 me:8 40000 PUBLISH channel | ERR       | free fence=none | 0 | {-1, 0, -1}
        ",
    );
    bench.check(
        &FENCED_HAND_OVER,
        "
        me:7=1 ttl=20000 fence=9007199254740991    | me:7 me:8 40000 PUBLISH channel | {1, 9007199254740992, -1} | me:8=1 ttl=40000 fence=9007199254740992
        me:7=1 ttl=20000 fence=9007199254740992    | me:7 me:8 40000 PUBLISH channel | {1, 9007199254740993, -1} | me:8=1 ttl=40000 fence=9007199254740993
        me:8=1 ttl=20000 fence=9007199254740993    | me:7 me:8 40000 PUBLISH channel | {1, 9007199254740993, -1} | me:8=1 ttl=40000 fence=9007199254740993
        me:7=1 ttl=20000 fence=9223372036854775807 | me:7 me:8 40000 PUBLISH channel | ERR | free fence=9223372036854775807 | 0 | {-1, 0, -1}
        ",
    );
    bench.maxmemory = 1;
    bench.check(&FENCED_HAND_OVER, moves);
}

#[test]
fn what_is_refused_halfway_leaves_no_fenced_hold_behind_and_at_most_a_gap() {
    for (right, acquired, moved) in [
        ("incr", "free fence=4", "free fence=4"),
        ("hincrby", "free fence=5", "free fence=5"),
        ("pexpire", "free fence=5", "free fence=5"),
    ] {
        let bench = &mut Bench::new();
        bench.call_as(&format!("~* &* +@all -{right}"));
        bench.put(LOCK, "free fence=4");
        assert_eq!(bench.call(&FENCED_ACQUIRE, &[LOCK, COUNTER], &["me:7", "40000"]), "NOPERM");
        assert_eq!(bench.state(LOCK), acquired);
        bench.put(LOCK, "me:7=1 ttl=20000 fence=4");
        let args = ["me:7", "me:8", "40000", "PUBLISH", CHANNEL];
        assert_eq!(bench.call(&FENCED_HAND_OVER, &[LOCK, COUNTER], &args), "NOPERM");
        assert_eq!([bench.state(LOCK), bench.said()], [moved, "0"]);
    }
    let bench = &mut Bench::new();
    bench.call_as("~* &* +@all -get");
    bench.put(LOCK, "free fence=9007199254740992");
    assert_eq!(bench.call(&FENCED_ACQUIRE, &[LOCK, COUNTER], &["me:7", "40000"]), "NOPERM");
    assert_eq!(bench.state(LOCK), "free fence=9007199254740993");
    bench.put(LOCK, "me:7=1 ttl=20000 fence=9007199254740992");
    let args = ["me:7", "me:8", "40000", "PUBLISH", CHANNEL];
    assert_eq!(bench.call(&FENCED_HAND_OVER, &[LOCK, COUNTER], &args), "NOPERM");
    assert_eq!([bench.state(LOCK), bench.said()], ["free fence=9007199254740993".to_owned(), "0".to_owned()]);
}

#[test]
fn renew_only_lengthens() {
    Bench::new().check(
        &RENEW,
        "
        me:7=1 ttl=20000   | 40000 me:7 | 1    | me:7=1 ttl=40000
        me:7=3 ttl=20000   | 40000 me:7 | 1    | me:7=3 ttl=40000
        me:7=1 ttl=80000   | 40000 me:7 | 1    | me:7=1 ttl=80000
        me:7=1 ttl=none    | 40000 me:7 | 1    | me:7=1 ttl=40000
        free               | 40000 me:7 | {-1} | free
        expired            | 40000 me:7 | {-1} | free
        peer:1=1 ttl=20000 | 40000 me:7 | {-1} | peer:1=1 ttl=20000
        peer:1=1 ttl=none  | 40000 me:7 | {-1} | peer:1=1 ttl=none
        text               | 40000 me:7 | {-1} | text
        ",
    );
}

#[test]
fn force_release_frees_only_what_was_seen() {
    Bench::new().check(
        &FORCE_RELEASE,
        "
        peer:1=1 ttl=20000 | PUBLISH channel peer:1      | 1         | free | 0 | {-1, -1}
        peer:1=4 ttl=none  | PUBLISH channel peer:1      | 1         | free | 0 | {-1, -1}
        me:7=1 ttl=20000   | PUBLISH channel peer:1 me:7 | 1         | free | 0 | {-1, -1}
        peer:2=1 ttl=20000 | PUBLISH channel peer:1 me:7 | {-1, -1}  | peer:2=1 ttl=20000
        me:7=1 ttl=20000   | PUBLISH channel             | {-1, -1}  | me:7=1 ttl=20000
        free               | PUBLISH channel peer:1      | {-1, -1}  | free
        expired            | PUBLISH channel me:7        | {-1, -1}  | free
        text               | PUBLISH channel peer:1      | WRONGTYPE | text
        ",
    );
}

#[test]
fn inspect_tells_and_changes_nothing() {
    Bench::new().check(
        &INSPECT,
        "
        free              | | {-2}             | free
        expired           | | {-2}             | free
        me:7=1 ttl=20000  | | {20000, me:7, 1} | me:7=1 ttl=20000
        peer:1=3 ttl=none | | {-1, peer:1, 3}  | peer:1=3 ttl=none
        text              | | WRONGTYPE        | text
        ",
    );
}

// What a server without memory still does: deletes, times, and the rest of a script that has begun to write.
#[test]
fn out_of_memory_refuses_counts_but_neither_releases_nor_hand_overs_nor_renewals() {
    let bench = &mut Bench::new();
    bench.maxmemory = 1;
    bench.check(
        &ACQUIRE,
        "
        free               | me:7 40000   | OOM              | free
        me:7=1 ttl=20000   | me:7 40000 2 | OOM              | me:7=1 ttl=20000
        me:7=1 ttl=20000   | me:7 40000   | 1                | me:7=1 ttl=40000
        peer:1=1 ttl=20000 | me:7 40000   | {0, 20000, 0, 0} | peer:1=1 ttl=20000
        ",
    );
    bench.check(
        &RELEASE,
        "
        me:7=1 ttl=20000 | me:7 PUBLISH channel   | 1          | free | 0 | {-1, 0, -1}
        me:7=3 ttl=20000 | me:7 PUBLISH channel   | 1          | free | 0 | {-1, 0, -1}
        me:7=2 ttl=20000 | me:7 PUBLISH channel 1 | OOM        | me:7=2 ttl=20000
        me:7=1 ttl=20000 | me:7 PUBLISH channel 1 | {1, 1, -1} | me:7=1 ttl=20000
        ",
    );
    bench.check(
        &HAND_OVER,
        "
        me:7=1 ttl=20000 | me:7 me:8 40000 PUBLISH channel | 1        | me:8=1 ttl=40000
        me:7=3 ttl=80000 | me:7 me:8 40000 PUBLISH channel | {1, 1}   | me:8=1 ttl=40000 | 0 | 1
        me:8=1 ttl=20000 | me:7 me:8 40000 PUBLISH channel | 1        | me:8=1 ttl=40000
        free             | me:7 me:8 40000 PUBLISH channel | {-1, -1} | free
        ",
    );
    bench.check(&RENEW, "me:7=1 ttl=20000 | 40000 me:7 | 1 | me:7=1 ttl=40000");
    bench.check(&FORCE_RELEASE, "me:7=1 ttl=20000 | PUBLISH channel me:7 | 1 | free | 0 | {-1, -1}");
    bench.check(&INSPECT, "me:7=1 ttl=20000 | | {20000, me:7, 1} | me:7=1 ttl=20000");
}

#[test]
fn a_write_that_is_refused_halfway_leaves_no_hold_behind() {
    for rights in ["+@all -hincrby", "+@all -pexpire"] {
        let bench = &mut Bench::new();
        bench.call_as(&format!("~* &* {rights}"));
        bench.check(&ACQUIRE, "free | me:7 40000 | NOPERM | free");
        bench.check(&HAND_OVER, "me:7=1 ttl=20000 | me:7 me:8 40000 PUBLISH channel | NOPERM | free | 0 | {-1, -1} |");
    }
}

#[test]
fn a_message_that_is_refused_does_not_keep_the_lock() {
    let bench = &mut Bench::new();
    bench.call_as("~* resetchannels +@all");
    bench.check(&RELEASE, "me:7=1 ttl=20000 | me:7 PUBLISH channel | {1, 0, -1} | free | | {-1, 0, -1}");
    bench.check(&FORCE_RELEASE, "me:7=1 ttl=20000 | PUBLISH channel me:7 | {1, -1} | free | | {-1, -1}");
    bench.check(&HAND_OVER, "me:7=1 ttl=80000 | me:7 me:8 40000 PUBLISH channel | {1, -1} | me:8=1 ttl=40000 | | 1");
}

#[test]
fn few_rights_are_enough() {
    let bench = &mut Bench::new();
    bench.call_as(
        "~job &redisson_lock__channel:{job} -@all +eval +pttl +pexpire +hget +hexists +hgetall +hincrby +hdel +del +publish",
    );
    bench.check(&ACQUIRE, "free | me:7 40000 | 1 | me:7=1 ttl=40000");
    bench.check(&ACQUIRE, "me:7=1 ttl=20000 | me:7 40000 2 | 2 | me:7=2 ttl=40000");
    bench.check(&RELEASE, "me:7=2 ttl=20000 | me:7 PUBLISH channel 1 | {1, 1, -1} | me:7=1 ttl=20000");
    bench.check(&RELEASE, "me:7=1 ttl=20000 | me:7 PUBLISH channel | 1 | free | 0 | {-1, 0, -1}");
    bench.check(&HAND_OVER, "me:7=1 ttl=80000 | me:7 me:8 40000 PUBLISH channel | {1, 1} | me:8=1 ttl=40000 | 0 | 1");
    bench.check(&RENEW, "me:7=1 ttl=20000 | 40000 me:7 | 1 | me:7=1 ttl=40000");
    bench.check(&FORCE_RELEASE, "me:7=1 ttl=20000 | PUBLISH channel me:7 | 1 | free | 0 | {-1, -1}");
    bench.check(&INSPECT, "me:7=1 ttl=20000 | | {20000, me:7, 1} | me:7=1 ttl=20000");
}

#[test]
fn renew_answers_for_each_key_by_itself() {
    let bench = &mut Bench::new();
    let states = [
        ("a", "me:1=1 ttl=20000", "me:1=1 ttl=40000"),
        ("b", "free", "free"),
        ("c", "text", "text"),
        ("d", "peer:1=1 ttl=20000", "peer:1=1 ttl=20000"),
        ("e", "me:5=2 ttl=80000", "me:5=2 ttl=80000"),
    ];
    for (key, before, _) in states {
        bench.put(key, before);
    }
    let keys = states.map(|(key, ..)| key);
    for _ in 0..2 {
        let reply = bench.call(&RENEW, &keys, &["40000", "me:1", "me:2", "me:3", "me:4", "me:5"]);
        assert_eq!(reply, "{1, -1, -1, -1, 1}");
        for (key, _, after) in states {
            assert_eq!(bench.state(key), after, "{key}");
        }
    }
    assert_eq!(bench.call(&RENEW, &["a", "e"], &["40000", "me:1", "me:5"]), "1");
}

#[test]
fn a_sharded_release_reaches_only_those_who_listen_sharded() {
    let bench = &mut Bench::new();
    bench.check(&RELEASE, "me:7=1 ttl=20000 | me:7 SPUBLISH channel | 0 | free | | {-1, 0, -1}");
    bench.check(&FORCE_RELEASE, "me:7=1 ttl=20000 | SPUBLISH channel me:7 | 0 | free | | {-1, -1}");

    let listener = &mut bench.server.connection();
    listen(listener, "ssubscribe", CHANNEL);
    for (verb, args, reply) in [
        (&RELEASE, ["me:7", "SPUBLISH", CHANNEL].as_slice(), "1"),
        (&FORCE_RELEASE, ["SPUBLISH", CHANNEL, "me:7"].as_slice(), "1"),
    ] {
        bench.put(LOCK, "me:7=1 ttl=20000");
        assert_eq!(bench.call(verb, &[LOCK], args), reply);
        assert_eq!(frame(listener), ["smessage", CHANNEL, "0"]);
    }
}

#[test]
fn a_token_takes_the_free_key_and_keeps_what_it_has() {
    let bench = &mut Bench::new();
    bench.check(
        &TOKEN_ACQUIRE,
        "
        free                   | me:7 40000 | 1                | string=me:7 ttl=40000
        expired                | me:7 40000 | 1                | string=me:7 ttl=40000
        string=me:7 ttl=20000  | me:7 40000 | 1                | string=me:7 ttl=40000
        string=me:7 ttl=80000  | me:7 40000 | 1                | string=me:7 ttl=80000
        string=me:7 ttl=none   | me:7 40000 | 1                | string=me:7 ttl=40000
        string=me:7 ttl=none   | me:7 40000 20000 | 1          | string=me:7 ttl=40000
        string=me:6 ttl=20000  | me:7 40000 | {0, 20000, 0, 0} | string=me:6 ttl=20000
        string=peer ttl=20000  | me:7 40000 | {0, 20000, 0, 0} | string=peer ttl=20000
        string=peer ttl=none   | me:7 40000 | {0, -1, 0, 0}    | string=peer ttl=none
        string=peer ttl=80000  | me:7 40000 20000 | {0, 80000, 0, 0} | string=peer ttl=80000
        string=peer ttl=none   | me:7 40000 20000 | {0, 20000, 0, 1} | string=peer ttl=20000 | | {0, 20000, 0, 0}
        me:7=1 ttl=20000       | me:7 40000 | WRONGTYPE        | me:7=1 ttl=20000
        ",
    );
    bench.maxmemory = 1;
    bench.check(
        &TOKEN_ACQUIRE,
        "
        free                  | me:7 40000 | OOM              | free
        string=me:7 ttl=20000 | me:7 40000 | 1                | string=me:7 ttl=40000
        string=peer ttl=20000 | me:7 40000 | {0, 20000, 0, 0} | string=peer ttl=20000
        ",
    );
}

/// The first try: word for word what `SET_NX` of the catalogue is, of which nothing but the words is known here.
#[test]
fn the_plain_command_takes_the_free_key_alone_and_says_nothing_of_what_it_finds() {
    let bench = &mut Bench::new();
    let plain =
        |bench: &mut Bench| -> Option<String> { ask(&mut bench.caller, &["SET", LOCK, "me:7", "NX", "PX", "40000"]) };
    for before in ["free", "expired"] {
        bench.put(LOCK, before);
        assert_eq!((plain(bench).as_deref(), plain(bench)), (Some("OK"), None));
        assert_eq!(bench.state(LOCK), "string=me:7 ttl=40000");
    }
    for before in ["string=me:7 ttl=20000", "string=peer ttl=none", "me:7=1 ttl=20000"] {
        bench.put(LOCK, before);
        assert_eq!((plain(bench), bench.state(LOCK).as_str()), (None, before));
    }
    assert_eq!(bench.said(), "");
}

#[test]
fn a_release_deletes_the_key_of_its_token_alone_and_says_whether_anybody_has_it() {
    let bench = &mut Bench::new();
    bench.check(
        &TOKEN_RELEASE,
        "
        string=me:7 ttl=20000 | me:7 PUBLISH channel | 1           | free | 0 | {-2, 0, -1}
        string=me:7 ttl=none  | me:7 PUBLISH channel | 1           | free | 0 | {-2, 0, -1}
        string=me:7 ttl=20000 | me:7                 | 0           | free |   | {-2, 0, -1}
        free                  | me:7 PUBLISH channel | {-2, 0, -1} | free
        expired               | me:7 PUBLISH channel | {-2, 0, -1} | free
        string=me:8 ttl=20000 | me:7 PUBLISH channel | {-1, 0, -1} | string=me:8 ttl=20000
        string=peer ttl=none  | me:7                 | {-1, 0, -1} | string=peer ttl=none
        me:7=1 ttl=20000      | me:7 PUBLISH channel | WRONGTYPE   | me:7=1 ttl=20000
        ",
    );
    bench.check(&TOKEN_RELEASE, "string=me:7 ttl=20000 | me:7 SPUBLISH channel | 0 | free | | {-2, 0, -1}");
    bench.maxmemory = 1;
    bench.check(&TOKEN_RELEASE, "string=me:7 ttl=20000 | me:7 PUBLISH channel | 1 | free | 0 | {-2, 0, -1}");
    bench.maxmemory = 0;
    bench.call_as("~* resetchannels +@all");
    bench.check(&TOKEN_RELEASE, "string=me:7 ttl=20000 | me:7 PUBLISH channel | {1, 0, -1} | free | | {-2, 0, -1}");
}

#[test]
fn a_hand_over_moves_the_key_to_the_next_token_and_tells_that_it_got_shorter() {
    let bench = &mut Bench::new();
    let moves = "
        string=me:7 ttl=20000 | me:7 me:8 40000 PUBLISH channel | 1        | string=me:8 ttl=40000
        string=me:7 ttl=80000 | me:7 me:8 40000 PUBLISH channel | {1, 1}   | string=me:8 ttl=40000 | 0 | 1
        string=me:7 ttl=none  | me:7 me:8 40000 PUBLISH channel | {1, 1}   | string=me:8 ttl=40000 | 0 | 1
        string=me:7 ttl=80000 | me:7 me:8 40000                 | 1        | string=me:8 ttl=40000
        string=me:8 ttl=20000 | me:7 me:8 40000 PUBLISH channel | 1        | string=me:8 ttl=40000
        string=me:8 ttl=80000 | me:7 me:8 40000 PUBLISH channel | 1        | string=me:8 ttl=80000
        string=me:8 ttl=none  | me:7 me:8 40000 PUBLISH channel | 1        | string=me:8 ttl=40000
        free                  | me:7 me:8 40000 PUBLISH channel | {-2, -1} | free
        expired               | me:7 me:8 40000 PUBLISH channel | {-2, -1} | free
        string=peer ttl=20000 | me:7 me:8 40000 PUBLISH channel | {-1, -1} | string=peer ttl=20000
        string=peer ttl=none  | me:7 me:8 40000                 | {-1, -1} | string=peer ttl=none
        me:7=1 ttl=20000      | me:7 me:8 40000 PUBLISH channel | WRONGTYPE | me:7=1 ttl=20000
        ";
    bench.check(&TOKEN_HAND_OVER, moves);
    bench.maxmemory = 1;
    bench.check(&TOKEN_HAND_OVER, moves);
    bench.maxmemory = 0;
    bench.call_as("~* &* +@all -set");
    bench.check(
        &TOKEN_HAND_OVER,
        "string=me:7 ttl=80000 | me:7 me:8 40000 PUBLISH channel | NOPERM | string=me:7 ttl=40000",
    );
    bench.call_as("~* &* +@all -pexpire");
    bench.check(
        &TOKEN_HAND_OVER,
        "string=me:7 ttl=80000 | me:7 me:8 40000 PUBLISH channel | NOPERM | string=me:7 ttl=80000",
    );
}

#[test]
fn a_renewal_of_tokens_only_lengthens_and_answers_for_each_key_by_itself() {
    let bench = &mut Bench::new();
    bench.check(
        &TOKEN_RENEW,
        "
        string=me:7 ttl=20000 | 40000 me:7 | 1    | string=me:7 ttl=40000
        string=me:7 ttl=80000 | 40000 me:7 | 1    | string=me:7 ttl=80000
        string=me:7 ttl=none  | 40000 me:7 | 1    | string=me:7 ttl=40000
        string=me:7 ttl=20000 | -2 me:7    | 1    | string=me:7 ttl=20000
        string=me:7 ttl=none  | -2 me:7    | 1    | string=me:7 ttl=none
        free                  | 40000 me:7 | {-1} | free
        expired               | 40000 me:7 | {-1} | free
        string=me:8 ttl=20000 | 40000 me:7 | {-1} | string=me:8 ttl=20000
        string=peer ttl=none  | 40000 me:7 | {-1} | string=peer ttl=none
        me:7=1 ttl=20000      | 40000 me:7 | {-1} | me:7=1 ttl=20000
        ",
    );
    let states = [
        ("a", "string=me:1 ttl=20000", "string=me:1 ttl=40000"),
        ("b", "free", "free"),
        ("c", "me:3=1 ttl=20000", "me:3=1 ttl=20000"),
        ("d", "string=peer ttl=20000", "string=peer ttl=20000"),
        ("e", "string=me:5 ttl=80000", "string=me:5 ttl=80000"),
    ];
    states.iter().for_each(|(key, before, _)| bench.put(key, before));
    for _ in 0..2 {
        let reply =
            bench.call(&TOKEN_RENEW, &states.map(|(key, ..)| key), &["40000", "me:1", "me:2", "me:3", "me:4", "me:5"]);
        assert_eq!(reply, "{1, -1, -1, -1, 1}");
        states.iter().for_each(|(key, _, after)| assert_eq!(bench.state(key), *after, "{key}"));
    }
    assert_eq!(bench.call(&TOKEN_RENEW, &["a", "e"], &["40000", "me:1", "me:5"]), "1");
}

#[test]
fn a_look_at_a_token_changes_nothing_and_few_rights_are_enough_for_all_that_tokens_do() {
    let bench = &mut Bench::new();
    bench.call_as("~job &redisson_lock__channel:{job} -@all +eval +set +get +pttl +pexpire +del +publish");
    bench.check(
        &TOKEN_INSPECT,
        "
        free                  | | {-2}          | free
        expired               | | {-2}          | free
        string=me:7 ttl=20000 | | {20000, me:7} | string=me:7 ttl=20000
        string=peer ttl=none  | | {-1, peer}    | string=peer ttl=none
        me:7=1 ttl=20000      | | WRONGTYPE     | me:7=1 ttl=20000
        ",
    );
    bench.check(&TOKEN_ACQUIRE, "string=me:7 ttl=20000 | me:7 40000 | 1 | string=me:7 ttl=40000");
    bench.check(&TOKEN_RENEW, "string=me:7 ttl=20000 | 40000 me:7 | 1 | string=me:7 ttl=40000");
    bench.check(
        &TOKEN_HAND_OVER,
        "string=me:7 ttl=80000 | me:7 me:8 40000 PUBLISH channel | {1, 1} | string=me:8 ttl=40000 | 0 | 1",
    );
    bench.check(&TOKEN_RELEASE, "string=me:7 ttl=20000 | me:7 PUBLISH channel | 1 | free | 0 | {-2, 0, -1}");
}

/// A server with some keys that are nobody's business, and a listener on every channel.
struct Bench {
    caller: Connection,
    listener: Connection,
    admin: Connection,
    maxmemory: u64,
    server: Server,
}

impl Bench {
    fn new() -> Self {
        let server = Server::own();
        let (admin, caller, mut listener) = (server.connection(), server.connection(), server.connection());
        listen(&mut listener, "psubscribe", "*");
        let mut bench = Self { caller, listener, admin, maxmemory: 0, server };
        bench.put("job:near", "me:7=2 ttl=20000");
        bench.put("bystander", "text");
        bench
    }

    /// From now on the scripts are run by a user with these rights.
    fn call_as(&mut self, rights: &str) {
        let rules: Vec<&str> =
            ["ACL", "SETUSER", "limited", "on", "nopass"].into_iter().chain(rights.split(' ')).collect();
        ask::<()>(&mut self.admin, &rules);
        ask::<()>(&mut self.caller, &["AUTH", "limited", "any"]);
    }

    /// Runs every row four times: once; at once again; where only a later hold of the same client is left; and by the version
    /// before.
    fn check(&mut self, verb: &Verb, table: &str) {
        for row in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut cells = row.split('|').map(str::trim);
            let [before, args, reply, after] = [(); 4].map(|()| cells.next().expect("a row has four cells"));
            let (said, again) = (cells.next().unwrap_or_default(), cells.next().unwrap_or(reply));
            let said_before = cells.next().unwrap_or(said);
            let args: Vec<&str> =
                args.split_whitespace().map(|arg| if arg == "channel" { CHANNEL } else { arg }).collect();

            self.put(LOCK, before);
            self.run(verb, &args, [reply, after, said], row);
            self.run(verb, &args, [again, after, ""], &format!("{row}, again"));
            self.put(LOCK, verb.later);
            self.run(verb, &args, [verb.late, verb.later, ""], &format!("{row}, late"));
            if let Some((older, args)) = rolling::before(verb.name, &args) {
                self.put(LOCK, before);
                self.ask(older, &[LOCK], &args);
                assert_eq!([self.state(LOCK), self.said()], [after, said_before], "{row}, before");
            }
        }
    }

    fn run(&mut self, verb: &Verb, args: &[&str], wanted: [&str; 3], what: &str) {
        let others = self.others();
        let reply = self.call(verb, verb.keys, args);
        let found = [reply, self.state(LOCK), self.said()];
        assert_eq!(found, wanted, "{what}");
        assert_eq!(self.others(), others, "{what} touched another key");
    }

    fn call(&mut self, verb: &Verb, keys: &[&str], args: &[&str]) -> String {
        self.ask(verb.source, keys, args)
    }

    fn ask(&mut self, source: &str, keys: &[&str], args: &[&str]) -> String {
        let number = keys.len().to_string();
        let words = [&["EVAL", source, &number], keys, args].concat();
        self.limit_memory(self.maxmemory);
        let reply = command(&words).query::<Value>(&mut self.caller);
        self.limit_memory(0);
        match reply {
            Ok(Value::Array(parts)) => format!("{{{}}}", parts.iter().map(text).collect::<Vec<_>>().join(", ")),
            Ok(number) => text(&number),
            // Redis 7.0 and older give a refused right inside a script no code of its own.
            Err(error) if error.to_string().contains("can't run this command") => "NOPERM".to_owned(),
            Err(error) => error.code().unwrap_or_else(|| panic!("no answer of the server: {error}")).to_owned(),
        }
    }

    fn limit_memory(&mut self, bytes: u64) {
        ask::<()>(&mut self.admin, &["CONFIG", "SET", "maxmemory", &bytes.to_string()]);
    }

    fn put(&mut self, key: &str, state: &str) {
        let con = &mut self.admin;
        ask::<i64>(con, &["DEL", key]);
        let (state, fence) = state.split_once(" fence=").map_or((state, None), |(state, fence)| (state, Some(fence)));
        if key == LOCK {
            ask::<i64>(con, &["DEL", COUNTER]);
            fence.into_iter().for_each(|fence| ask(con, &["SET", COUNTER, fence]));
        }
        match state {
            "free" => {}
            "text" => ask(con, &["SET", key, "words", "PX", "20000"]),
            "expired" => {
                ask::<i64>(con, &["HSET", key, "me:7", "1"]);
                ask::<i64>(con, &["PEXPIRE", key, "1"]);
                let clock = |con: &mut Connection| {
                    let (seconds, micros): (u64, u64) = ask(con, &["TIME"]);
                    seconds * 1_000_000 + micros
                };
                let over = clock(con) + 2_000;
                while clock(con) < over {}
            }
            held => {
                for (field, value) in held.split(' ').map(|word| word.split_once('=').expect("a word is field=value")) {
                    match (field, value) {
                        ("ttl", "none") => {}
                        ("ttl", ms) => assert_eq!(ask::<i64>(con, &["PEXPIRE", key, ms]), 1),
                        ("string", token) => ask(con, &["SET", key, token]),
                        _ => assert_eq!(ask::<i64>(con, &["HSET", key, field, value]), 1),
                    }
                }
            }
        }
    }

    fn state(&mut self, key: &str) -> String {
        let fence = if key == LOCK { ask::<Option<String>>(&mut self.admin, &["GET", COUNTER]) } else { None };
        self.lock(key) + &fence.map_or_else(String::new, |fence| format!(" fence={fence}"))
    }

    fn lock(&mut self, key: &str) -> String {
        let con = &mut self.admin;
        let kind: String = ask(con, &["TYPE", key]);
        match kind.as_str() {
            "none" => "free".to_owned(),
            "string" => match ask::<String>(con, &["GET", key]).as_str() {
                "words" => "text".to_owned(),
                token => format!("string={token} ttl={}", shown_ttl(ask(con, &["PTTL", key]))),
            },
            _ => {
                let fields: Vec<(String, String)> = ask(con, &["HGETALL", key]);
                let ttl = shown_ttl(ask(con, &["PTTL", key]));
                let fields = fields.into_iter().map(|(field, count)| format!("{field}={count}"));
                fields.chain([format!("ttl={ttl}")]).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Every key but the lock and its counter, with its content and its TTL.
    fn others(&mut self) -> Vec<(String, Vec<u8>, i64)> {
        let con = &mut self.admin;
        let mut keys: Vec<String> = ask(con, &["KEYS", "*"]);
        keys.retain(|key| key != LOCK && key != COUNTER);
        keys.sort();
        let snapshot = |key: String| {
            let (content, ttl) = (ask(con, &["DUMP", &key]), ask(con, &["PTTL", &key]));
            (key, content, ttl_class(ttl))
        };
        keys.into_iter().map(snapshot).collect()
    }

    /// What was published since the last call of this; a message of our own marks the end.
    fn said(&mut self) -> String {
        ask::<i64>(&mut self.admin, &["PUBLISH", "end", ""]);
        let mut said = Vec::new();
        loop {
            match frame(&mut self.listener).as_slice() {
                [_, _, channel, _] if channel == "end" => return said.join(" "),
                [_, _, channel, message] if channel == CHANNEL => said.push(message.clone()),
                other => panic!("heard {other:?}"),
            }
        }
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

fn ask<T: FromRedisValue>(con: &mut Connection, words: &[&str]) -> T {
    command(words).query(con).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

fn listen(listener: &mut Connection, how: &str, channel: &str) {
    listener.send_packed_command(&command(&[how, channel]).get_packed_command()).expect("the server listens");
    assert_eq!(frame(listener), [how, channel, "1"]);
}

/// The next thing that a listening connection hears.
fn frame(listener: &mut Connection) -> Vec<String> {
    match listener.recv_response().expect("something is heard") {
        Value::Array(parts) => parts.iter().map(text).collect(),
        other => panic!("heard {other:?}"),
    }
}

fn text(part: &Value) -> String {
    match part {
        Value::Int(number) => ttl_class(*number).to_string(),
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).expect("replies are text"),
        other => panic!("neither a number nor text: {other:?}"),
    }
}

fn shown_ttl(ms: i64) -> String {
    match ttl_class(ms) {
        -1 => "none".to_owned(),
        ms => ms.to_string(),
    }
}

fn ttl_class(ms: i64) -> i64 {
    TTLS.into_iter().find(|ttl| (ttl - 10_000..=*ttl).contains(&ms)).unwrap_or(ms)
}
