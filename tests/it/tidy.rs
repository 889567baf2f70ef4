//! The shape of the code, checked as text: which layer may name what, and what every file has. Formatting, function
//! length and unused code are the compiler's and clippy's.
//!
//! Each check is a function from a path and a text to complaints; it is also shown a text that it must complain about,
//! since a check that never bites looks just like tidy code.

mod readme;
mod rooms;
mod rust;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::rust::{Line, before_tests, code, words};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// No file is longer than this before its tests.
const LONGEST_FILE: usize = 400;

/// The same where it is decided what happens to a name, and where that is done.
const LONGEST_FILE_OF_A_NAME: usize = 300;

/// Commands of the server that a lock has to do with. In capitals they are no English words.
const COMMANDS: &[&str] = &[
    "AUTH",
    "DEL",
    "EVAL",
    "EVALSHA",
    "EXISTS",
    "EXPIRE",
    "GET",
    "HDEL",
    "HELLO",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HINCRBY",
    "HSET",
    "INCR",
    "INFO",
    "PEXPIRE",
    "PING",
    "PTTL",
    "PUBLISH",
    "PUBSUB",
    "SCRIPT",
    "SET",
    "SPUBLISH",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "TIME",
    "UNSUBSCRIBE",
    "WAIT",
];

/// What the primitives are called. The engine's own words (lock, hold, queue) are not among them.
const PRIMITIVES: &[&str] = &[
    "countdown",
    "fair",
    "fenced",
    "latch",
    "multilock",
    "periodicjob",
    "readwrite",
    "redlock",
    "reentrant",
    "rwlock",
    "tokenlock",
];

/// What one check has to say about one file.
type Check = fn(&str, &str) -> Vec<String>;

#[test]
fn only_the_redis_backend_names_the_driver() {
    bites(driver, "src/engine/wake.rs", "use redis::Client;");
    bites(driver, "src/engine/wake.rs", "let client: &::redis::Client;");
    bites(driver, "src/client.rs", "pub use redis;");
    bites(driver, "src/lib.rs", "fn client() -> redis::Client {}");
    spares(driver, "src/lib.rs", "pub use redis;");
    spares(driver, "src/backend/redis/mod.rs", "use redis::Client;");
    spares(driver, "src/client.rs", "use crate::backend::redis::Options; // not redis::Client\n\"redis://a\"");
    everywhere("src", "rs", driver);
}

#[test]
fn a_primitive_has_no_loop_no_waiting_and_no_task_of_its_own() {
    for code in [
        "loop {",
        "while busy {",
        "for attempt in 0..3 {",
        "sleep(pause).await",
        "tokio::select! {",
        "tokio::spawn(renew)",
        "backend.subscribe(channel)",
    ] {
        bites(mechanism, "src/locks/fair.rs", code);
    }
    spares(mechanism, "src/locks/fair.rs", "impl Protocol for Fair {\n    for key in keys {\n// loop");
    spares(mechanism, "src/engine/acquire.rs", "loop {");
    everywhere("src", "rs", mechanism);
}

#[test]
fn the_engine_names_no_primitive() {
    bites(primitive, "src/engine/acquire.rs", "Kind::Fair => {}");
    bites(primitive, "src/engine/acquire.rs", "use crate::locks::reentrant::ReentrantLock;");
    bites(primitive, "src/engine/acquire.rs", "fn read_write() {}");
    spares(primitive, "src/engine/acquire.rs", "let queue = lock.queue(); // as fair as it gets");
    spares(primitive, "src/engine/acquire.rs", "#[cfg(test)]\nmod tests {\n    use reentrant;\n}");
    spares(primitive, "src/engine/tests/fake.rs", "use reentrant;");
    spares(primitive, "src/locks/fair.rs", "struct FairLock;");
    everywhere("src", "rs", primitive);
}

#[test]
fn commands_and_keys_are_spelt_only_below_the_engine() {
    bites(wire, "src/engine/release.rs", "call(\"HINCRBY\")");
    bites(wire, "src/client.rs", "call(\"publish\")");
    bites(wire, "src/locks/fair.rs", "format!(\"redisson_lock_queue:{name}\")");
    bites(wire, "src/locks/fair.rs", "format!(\"{{{name}}}:queue\")");
    spares(wire, "src/keys.rs", "format!(\"redisson_lock_queue:{name}\")");
    spares(wire, "src/backend/redis/mod.rs", "cmd(\"EVALSHA\")");
    spares(wire, "src/engine/acquire.rs", "info!(\"wait\"); // PUBLISH\nerror(\"the lock {name} is set\")");
    everywhere("src", "rs", wire);
}

#[test]
fn no_script_builds_a_key() {
    bites(built_key, "lua/fair/acquire.lua", "redis.call('del', KEYS[1] .. ':queue')");
    bites(built_key, "lua/fair/acquire.lua", "local lock = KEYS[1]\nredis.call('del', 'queue:' .. lock)");
    bites(built_key, "lua/fair/acquire.lua", "redis.call('del', 'redisson_lock_queue:a')");
    spares(built_key, "lua/fair/acquire.lua", "local lock = KEYS[1] -- never lock .. x\nlocal id = a .. ':' .. locks");
    spares(built_key, "lua/lib/call.lua", "local function call(...) return redis.call(KEYS[1], ...) end");
    everywhere("lua", "lua", built_key);
}

#[test]
fn the_command_line_uses_what_a_user_can_use() {
    bites(private, "src/bin/relatch/main.rs", "#[path = \"../../engine/mod.rs\"]\nmod engine;");
    bites(private, "src/bin/relatch/run.rs", "include!(\"../../keys.rs\");");
    spares(private, "src/bin/relatch/run.rs", "use relatch::Client; use crate::args::Args; // include!(that)");
    spares(private, "src/client.rs", "#[path = \"a.rs\"]\nmod a;");
    everywhere("src", "rs", private);
}

#[test]
fn no_file_is_too_long() {
    let long = "line\n".repeat(LONGEST_FILE + 1);
    bites(length, "src/a.rs", &long);
    spares(length, "src/a.rs", &format!("line\n#[cfg(test)]\nmod tests {{\n{long}}}"));
    bites(length, "src/a.rs", &format!("#[cfg(test)]\nmod tests;\n{long}"));
    let shorter = "line\n".repeat(LONGEST_FILE_OF_A_NAME + 1);
    for path in ["src/state/name.rs", "src/state/parts/hold.rs", "src/engine/guard.rs"] {
        bites(length, path, &shorter);
    }
    for path in ["src/locks/mutex.rs", "src/engine/tests/loss.rs", "src/state/explore/world.rs"] {
        spares(length, path, &shorter);
    }
    everywhere("src", "rs", length);
    everywhere("lua", "lua", length);
    everywhere("tests/it/harness", "rs", length);
}

#[test]
fn the_library_neither_panics_lightly_nor_prints() {
    bites(manners, "src/engine/hold.rs", "let hold = holds.get(name).unwrap();");
    bites(manners, "src/engine/hold.rs", "eprintln!(\"lost\");");
    bites(manners, "src/engine/hold.rs", "todo!()");
    bites(manners, "src/bin/relatch.rs", "todo!()");
    spares(manners, "src/bin/relatch.rs", "println!(\"locked\");");
    spares(
        manners,
        "src/engine/hold.rs",
        "lock.unwrap_or_else(f); // .unwrap()\n#[cfg(test)]\nmod tests {\na.unwrap()",
    );
    everywhere("src", "rs", manners);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    bites(opening, "src/a.rs", "use std::fmt;\n//! Late.");
    bites(opening, "lua/fair/acquire.lua", "local lock = KEYS[1]");
    spares(opening, "src/a.rs", "//! Names of locks.");
    spares(opening, "lua/fair/acquire.lua", "-- Takes the lock.");
    everywhere("src", "rs", opening);
    everywhere("tests", "rs", opening);
    everywhere("lua", "lua", opening);
}

#[test]
fn nothing_speaks_of_the_place_where_it_was_written() {
    // Put together here, so that this file does not complain about itself.
    for words in [&["/ho", "me/a"], &["/wo", "rk/a"], &["/tmp/w", "t/a"], &["iss", "ue 7"], &["see iss", "ue #7"]] {
        bites(workplace, "src/a.rs", &words.concat());
    }
    spares(workplace, "src/a.rs", "// an issue of trust, see issues\n/tmp/a, https://host/homework/1");
    for (folder, ending) in [("src", "rs"), ("tests", "rs"), ("tests", "sh"), ("lua", "lua"), ("lua", "md")] {
        everywhere(folder, ending, workplace);
    }
    for ending in ["java", "xml", "json", "md", "py", "txt", "go", "mod", "js"] {
        everywhere("tests", ending, workplace);
    }
    for (folder, ending) in [("examples", "rs"), ("benches", "rs"), (".ci", ""), (".", "md"), (".", "toml")] {
        everywhere(folder, ending, workplace);
    }
}

#[test]
fn things_have_the_names_that_the_field_gives_them() {
    // Put together here, so that this file does not complain about itself.
    for words in [
        ["struct He", "ir;"],
        ["let old_he", "ir = 1;"],
        ["// the tel", "lers are"],
        ["mod err", "and;"],
        ["self.ea", "r"],
    ] {
        bites(fancy, "src/a.rs", &words.concat());
    }
    spares(fancy, "src/a.rs", "their tell, an error and a storyteller: fn of_their_own() {}");
    for (folder, ending) in [("src", "rs"), ("tests", "rs"), ("lua", "lua"), ("examples", "rs"), ("benches", "rs")] {
        everywhere(folder, ending, fancy);
    }
    everywhere(".", "md", fancy);
}

#[test]
fn an_empty_array_is_no_fault_to_an_old_shell() {
    bites(array, "tests/run.sh", "left=()\nrun \"${left[@]}\"");
    bites(array, "tests/run.sh", "local -a left=() more\nrun \"${left[*]}\"");
    spares(array, "tests/run.sh", "left=()\nrun ${left[@]+\"${left[@]}\"}\n[ ${#left[@]} = 0 ]");
    spares(array, "tests/run.sh", "all=(a b)\nrun \"${all[@]}\"\n# \"${left[@]}\" of left=()");
    everywhere("tests", "sh", array);
}

fn driver(path: &str, text: &str) -> Vec<String> {
    if path.starts_with("src/backend/redis") {
        return Vec::new();
    }
    let in_path = |before: &str| {
        let before = before.strip_suffix("::").unwrap_or(before);
        before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    };
    let names_it = |line: &Line| {
        line.code.match_indices("redis::").any(|(at, _)| !in_path(&line.code[..at]))
            || line.words().zip(line.words().skip(1)).any(|two| two == ("use", "redis"))
    };
    let re_exports = |line: &Line| path == "src/lib.rs" && line.code.trim() == "pub use redis;";
    in_code(path, text, "names the driver", |line| names_it(line) && !re_exports(line))
}

fn mechanism(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/locks/") {
        return Vec::new();
    }
    let forbidden = ["loop", "while", "sleep", "sleep_until", "select", "spawn", "subscribe", "Subscription"];
    let retries = |code: &str| {
        code.trim().starts_with("for ") && ["..", "attempt", "retr", "tries"].iter().any(|it| code.contains(it))
    };
    in_code(path, text, "waits, repeats or runs by itself, which is the engine's", |line| {
        retries(&line.code) || line.words().any(|word| forbidden.contains(&word))
    })
}

fn primitive(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/engine/") {
        return Vec::new();
    }
    // Alone, or as the start of a type's name.
    let is_one = |word: &str| {
        let word = word.replace('_', "").to_lowercase();
        let rests = PRIMITIVES.iter().filter_map(|name| word.strip_prefix(name));
        rests.into_iter().any(|rest| ["", "lock", "latch", "protocol"].contains(&rest))
    };
    in_code(path, text, "names a primitive", |line| line.words().any(is_one))
}

fn wire(path: &str, text: &str) -> Vec<String> {
    if path.starts_with("src/backend/") || matches!(path, "src/keys.rs" | "src/script.rs") {
        return Vec::new();
    }
    // Short ones are English in small letters.
    let small = |literal: &str| COMMANDS.iter().any(|command| command.len() > 6 && command.to_lowercase() == literal);
    let spelt = |literal: &String| {
        let command = literal.split_whitespace().any(|word| COMMANDS.contains(&word));
        command || small(literal) || literal.contains("redisson_") || literal.contains("{{{")
    };
    in_code(path, text, "spells a command or builds a key", |line| line.literals.iter().any(spelt))
}

fn built_key(_: &str, text: &str) -> Vec<String> {
    let code = |line: &str| line.split("--").next().unwrap_or_default().replace("...", "");
    let bound = |line: &str| {
        let (name, value) = line.trim().strip_prefix("local ")?.split_once('=')?;
        value.trim().starts_with("KEYS[").then(|| name.trim().to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(|line| bound(&code(line))).collect();
    let is_key = |word: Option<&str>| word.is_some_and(|word| word == "KEYS" || names.iter().any(|name| name == word));
    let builds = |line: &str| {
        let line = code(line);
        let sides: Vec<&str> = line.split("..").map(str::trim).collect();
        let joins_a_key = sides.windows(2).any(|sides| {
            let before = sides[0].trim_end_matches(|c: char| c == ']' || c.is_ascii_digit()).trim_end_matches('[');
            is_key(words(before).last().filter(|word| before.ends_with(word)))
                || is_key(words(sides[1]).next().filter(|word| sides[1].starts_with(word)))
        });
        joins_a_key || line.contains("redisson_")
    };
    in_text(text, "builds a key, and keys are declared", builds)
}

/// A program is a crate of its own, which the compiler keeps out of the library, unless it compiles a part of that anew.
fn private(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/bin/") {
        return Vec::new();
    }
    let reaches_in = |line: &Line| ["#[path", "include!"].iter().any(|it| line.code.contains(it));
    in_code(path, text, "uses more than the public surface", reaches_in)
}

fn length(path: &str, text: &str) -> Vec<String> {
    let of_a_name = ["src/state/", "src/engine/"].iter().any(|room| path.starts_with(room));
    let apart = ["/tests/", "/explore/"].iter().any(|folder| path.contains(folder));
    let longest = if of_a_name && !apart { LONGEST_FILE_OF_A_NAME } else { LONGEST_FILE };
    let lines = before_tests(text).count();
    let complaint = format!("{lines} lines before its tests, {longest} are allowed");
    (lines > longest).then_some(complaint).into_iter().collect()
}

fn manners(path: &str, text: &str) -> Vec<String> {
    let may_print = path.starts_with("src/bin/");
    let rude: &[&str] = if may_print {
        &["todo!", "unimplemented!", "dbg!"]
    } else {
        &["todo!", "unimplemented!", "dbg!", "print!", "println!", ".unwrap()"]
    };
    in_code(path, text, "unwraps, prints or is unfinished", |line| rude.iter().any(|it| line.code.contains(it)))
}

fn opening(path: &str, text: &str) -> Vec<String> {
    let wanted = if path.ends_with(".lua") { "-- " } else { "//! " };
    let complaint = format!("does not open with `{wanted}` and what it is for");
    (!text.starts_with(wanted)).then_some(complaint).into_iter().collect()
}

fn workplace(_: &str, text: &str) -> Vec<String> {
    let places = [["/ho", "me/"], ["/ro", "ot/"], ["/Us", "ers/"], ["/wo", "rk/"], ["/tmp/w", "t"], ["../sha", "red"]];
    // The start of an absolute path, and not a part of somebody's address.
    let names_a_place = |line: &str, place: &str| {
        line.match_indices(place).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric()))
    };
    let numbers_an_issue = |line: &str| {
        let line = line.to_lowercase();
        let rests = line.match_indices("issue ").map(|(at, word)| &line[at + word.len()..]);
        rests.into_iter().any(|rest| rest.trim_start_matches('#').starts_with(|c: char| c.is_ascii_digit()))
    };
    in_text(text, "speaks of the place where it was written", |line| {
        places.iter().any(|place| names_a_place(line, &place.concat())) || numbers_an_issue(line)
    })
}

/// A successor, one who tells, and work without a task: what is meant is said.
fn fancy(_: &str, text: &str) -> Vec<String> {
    let fancy = [["ea", "r"], ["he", "ir"], ["tel", "ler"], ["err", "and"]].map(|halves| halves.concat());
    let is_fancy = |word: &str| {
        let word = word.to_lowercase();
        fancy.iter().any(|name| word.strip_suffix('s').unwrap_or(&word) == name)
    };
    in_text(text, "has a name that nobody else gives to it", |line| {
        line.split(|letter: char| !letter.is_alphabetic()).any(is_fancy)
    })
}

/// Before bash 4.4, under `set -u`, one that is empty is one that was never set.
fn array(_: &str, text: &str) -> Vec<String> {
    let code = |line: &str| line.split(" #").next().filter(|code| !code.starts_with('#')).map(str::to_owned);
    let code: Vec<String> = text.lines().map(|line| code(line).unwrap_or_default()).collect();
    let starts_empty = |word: &str| word.strip_suffix("=()").map(str::to_owned);
    let empty: Vec<String> =
        code.iter().flat_map(|line| line.split_whitespace().filter_map(starts_empty).collect::<Vec<_>>()).collect();
    let bare = |line: &str| {
        empty.iter().any(|name| {
            let guarded = line.replace(&format!("${{{name}[@]+\"${{{name}[@]}}\"}}"), "");
            guarded.contains(&format!("${{{name}[@]}}")) || guarded.contains(&format!("${{{name}[*]}}"))
        })
    };
    in_text(&code.join("\n"), "expands an array that may be empty", bare)
}

fn in_code(path: &str, text: &str, complaint: &str, is_wrong: impl Fn(&Line) -> bool) -> Vec<String> {
    let wrong = code(path, text).into_iter().filter(is_wrong);
    wrong.map(|line| format!("line {}: {complaint}", line.number)).collect()
}

fn in_text(text: &str, complaint: &str, is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    let wrong = text.lines().enumerate().filter(|(_, line)| is_wrong(line));
    wrong.map(|(before, _)| format!("line {}: {complaint}", before + 1)).collect()
}

/// Runs a check over every file of a folder; a folder that is not there has none.
#[track_caller]
fn everywhere(folder: &str, ending: &str, check: Check) {
    let mut files = Vec::new();
    collect(&Path::new(ROOT).join(folder), folder != ".", &mut files);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.extension().unwrap_or_default() == ending) {
        let text = fs::read_to_string(file).expect("a source file can be read");
        let path = file.strip_prefix(ROOT).expect("the file is below the root").to_string_lossy();
        found.extend(check(&path, &text).into_iter().map(|complaint| format!("{path}: {complaint}")));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn collect(folder: &Path, deep: bool, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    for path in entries {
        if path.is_file() {
            files.push(path);
        } else if deep {
            collect(&path, deep, files);
        }
    }
}

#[track_caller]
fn bites(check: Check, path: &str, text: &str) {
    assert!(!check(path, text).is_empty(), "no complaint about {path}: {text}");
}

#[track_caller]
fn spares(check: Check, path: &str, text: &str) {
    assert_eq!(check(path, text), Vec::<String>::new());
}
