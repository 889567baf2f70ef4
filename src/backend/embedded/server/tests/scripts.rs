//! Scripts that are not ours, beside a real server: what they find, what they may not do, and how their errors are told.

use std::time::{Duration, Instant};

use super::{
    super::{Reply, Server},
    NOW, ask, bulk,
    real::Real,
};
use crate::script::fenced;

/// Each runs with `text` holding a string, one key and one argument.
const SCRIPTS: &[&str] = &[
    "return {KEYS[1], ARGV[1], #KEYS, #ARGV}",
    "return ...",
    "return {1, 2, nil, 4}",
    "return {1, false, true, 3.99, -3.99, 'a', {ok = 'x'}, {err = 'E f'}, {}, {1, {2}}}",
    "return {1e300, -1e300, 0/0, 1e15, 9007199254740993}",
    "return {1, function() end, 3}",
    "return {err = 'x'}",
    "return {err = 'x y\\nz\\n'}",
    "return {ok = 'x y\\nz'}",
    "return {ok = 'a', err = 'b'}",
    "return {ok = 1}",
    "return setmetatable({7}, {__index = function() return 'never' end})",
    "local parts = {} for i = 1, 40 do parts[i] = i end return parts",
    "return 'a\\0b'",
    "x = 1",
    "return x",
    "KEYS = 1",
    "string.x = 1",
    "redis.call = 1",
    "rawset(_G, 'x', 1)",
    "return os",
    "return {type(string.format), type(table.concat), type(math.floor), type(cmath)}",
    "return ('abc'):upper()",
    "error('x')",
    "error('x', 0)",
    "error('x', 2)",
    "local function deep() error('deep', 2) end\ndeep()",
    "error({err = 'X y'})",
    "error(12)",
    "error(nil)",
    "error(true)",
    "assert(false)",
    "assert(nil, 'msg')",
    "local nothing = {} return nothing.a.b",
    "return 1 +",
    "\u{1b}Lua",
    "return select(2, loadstring('\\27Lua', 'name'))",
    "return redis.call('nosuch')",
    "return redis.call('get')",
    "return redis.call()",
    "return redis.call('get', {})",
    "return redis.call('get', nil)",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('incr', 'text')",
    "local a = 1\nreturn redis.call('hget', 'text', 'x')",
    "for i = 1, 3 do\n redis.call('hget', 'text') end",
    "local function read()\n return redis.call('hget', 'text', 'f') end\nreturn read()",
    "return redis.pcall('hget', 'text', 'f')",
    "return redis.pcall('nosuch').err",
    "return redis.pcall()",
    "local ok, error = pcall(redis.call, 'hget', 'text', 'f') return {tostring(ok), type(error), error}",
    "local ok, raised = pcall(redis.call, 'hget', 'text', 'f')\nerror(raised)",
    "local ok, raised = pcall(function() x = 1 end) return raised",
    "local ok, raised = pcall(error, {err = 'E own'}) return raised",
    "local ok, seen = xpcall(function() redis.call('hget', 'text', 'f') end, function(e) return e.err end) return seen",
    "local ok, seen = xpcall(function() error('q') end, function(e) return 'H' .. e end) return seen",
    "return {pcall(function() return 1, 2 end)}",
    "return redis.error_reply('abc')",
    "return redis.error_reply('My abc')",
    "return redis.error_reply('-My abc')",
    "return redis.error_reply('')",
    "return redis.error_reply()",
    "return redis.status_reply('fine')",
    "return redis.status_reply(1)",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex()",
    "return redis.log(redis.LOG_DEBUG, 'a')",
    "return redis.log(9, 'a')",
    "return redis.log(1)",
    "math.randomseed(7) return {math.random(1000), math.random(5, 8), math.random() * 1000000}",
    "return redis.call('set', 'n', 1e15) and redis.call('get', 'n')",
    "return redis.call('set', 'n', 0.1) and redis.call('get', 'n')",
    "return redis.call('set', 'n', 1e18) and redis.call('get', 'n')",
    "return redis.call('set', 'n', -7) and redis.call('incrby', 'n', 3)",
    "return redis.call('ping')",
    "return tostring(redis.call('get', 'none'))",
    "return redis.call('hgetall', 'none')",
    "return redis.call('set', 'x', 'y', 'bad')",
    "return redis.call('script', 'flush')",
    "return loadstring('return 5')()",
    "return loadstring('x = 5')()",
    "return tostring(loadstring('return +'))",
];

#[test]
fn scripts_of_anybody_end_as_on_a_real_server() {
    let (mut real, mut ours) = (Real::start("", &[]), Server::default());
    let differences: Vec<_> = SCRIPTS
        .iter()
        .filter_map(|script| {
            let words = ["EVAL", script, "1", "key", "argument"];
            real.ask(&["SET", "text", "a"]);
            ask(&mut ours, &["SET", "text", "a"]);
            let (real, ours) = (real.ask(&words), unnamed(ask(&mut ours, &words)));
            (real != ours).then(|| format!("{script}\n  real {real:?}\n  ours {ours:?}"))
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn tokens_beyond_the_numbers_of_lua_are_told_as_on_a_real_server() {
    let (mut real, mut ours) = (Real::start("", &[]), Server::default());
    let last = 1_i64 << 53;
    for counter in [1, last - 2, last - 1, last, last + 1, i64::MAX - 1, i64::MAX] {
        let counted = counter.to_string();
        let lock = ["EVAL", fenced::ACQUIRE.source, "2", "lock", "counter", "me:1", "30000"];
        let hand_over = ["EVAL", fenced::HAND_OVER.source, "2", "lock", "counter", "me:1", "me:2"];
        let hand_over = [&hand_over[..], &["30000", "PUBLISH", "freed"]].concat();
        let steps = [&["DEL", "lock"][..], &["SET", "counter", &counted], &lock, &lock, &hand_over, &hand_over];
        let answers = steps.map(|words| {
            let (real, ours) = (real.ask(words), ask(&mut ours, words));
            assert_eq!(real, ours, "{counter}");
            ours
        });
        let token = |part: &Reply| match part {
            Reply::Int(token) => token.to_string(),
            Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("no token: {other:?}"),
        };
        let told = answers[2..].iter().map(|answer| match answer {
            Reply::Array(parts) if parts.len() == 4 => token(&parts[3]),
            Reply::Array(parts) => token(&parts[1]),
            Reply::Error(words) => words[..3].to_owned(),
            other => panic!("no answer: {other:?}"),
        });
        let told: Vec<_> = told.collect();
        let wanted = |after: i64| counter.checked_add(after).map(|token| token.to_string());
        let [first, second] = [wanted(1), wanted(2)];
        let refused = || "ERR".to_owned();
        let moved = match (&first, second) {
            // Nothing is there to be moved.
            (None, _) => ["0".to_owned(), "0".to_owned()],
            (Some(_), None) => [refused(), "0".to_owned()],
            (Some(_), Some(second)) => [second.clone(), second],
        };
        let first = first.unwrap_or_else(refused);
        assert_eq!(told, [[first.clone(), first], moved].concat(), "{counter}");
    }
}

/// The store's own addition to the server's words: which command it does not know.
fn unnamed(reply: Reply) -> Reply {
    match reply {
        Reply::Error(words) => Reply::Error(words.replace(": 'nosuch'", "")),
        Reply::Bulk(bytes) => Reply::Bulk(String::from_utf8_lossy(&bytes).replace(": 'nosuch'", "").into_bytes()),
        other => other,
    }
}

#[test]
fn a_script_that_never_ends_is_stopped_also_where_it_catches_everything() {
    let mut server = Server::default();
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'nosuch') end",
    ] {
        let started = Instant::now();
        let Reply::Error(words) = ask(&mut server, &["EVAL", script, "0"]) else { panic!("it ended: {script}") };
        assert!(words.starts_with("ERR Script killed: it did not end script: "), "{words}");
        assert!(started.elapsed() < Duration::from_secs(60), "{script}");
        assert_eq!(ask(&mut server, &["EVAL", "for i = 1, 100000 do end return 1", "0"]), Reply::Int(1));
    }
}

#[test]
fn a_script_that_takes_all_memory_is_stopped_and_the_next_one_runs() {
    let mut server = Server::default();
    for script in [
        "local text = 'a' while true do text = text .. text end",
        "return string.rep('a', 1000000000)",
        "local parts = {} while true do parts[#parts + 1] = {} end",
    ] {
        let Reply::Error(words) = ask(&mut server, &["EVAL", script, "0"]) else { panic!("it ended: {script}") };
        assert!(words.contains("not enough memory"), "{words}");
        assert_eq!(ask(&mut server, &["EVAL", "return 'fine'", "0"]), bulk("fine"));
    }
}

#[test]
fn a_reply_without_an_end_is_cut_and_calls_without_an_end_are_an_error() {
    let mut server = Server::default();
    let mut reply = ask(&mut server, &["EVAL", "local t = {} t[1] = t return t", "0"]);
    while let Reply::Array(mut parts) = reply {
        reply = parts.remove(0);
    }
    assert_eq!(reply, Reply::Error("ERR reached lua stack limit".to_owned()));
    let wide = "local t = {1} for i = 1, 60 do t = {t, t} end return t";
    assert!(matches!(ask(&mut server, &["EVAL", wide, "0"]), Reply::Array(_)));
    let deep = "local function f() return 1 + f() end return f()";
    assert!(matches!(ask(&mut server, &["EVAL", deep, "0"]), Reply::Error(_)));
    assert_eq!(ask(&mut server, &["EVAL", "return 1", "0"]), Reply::Int(1));
}

#[test]
fn a_full_server_refuses_what_grows_and_a_script_only_before_its_first_write() {
    let mut server = Server::default();
    server.limit(1000);
    assert_eq!(ask(&mut server, &["SET", "large", &"a".repeat(2000)]), Reply::ok());
    let refused = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(ask(&mut server, &["SET", "small", ""]), Reply::Error(refused.to_owned()));
    assert_eq!(ask(&mut server, &["GET", "small"]), Reply::Nil);
    let grows = ["EVAL", "return redis.call('SET', 'small', '')", "0"];
    let Reply::Error(words) = ask(&mut server, &grows) else { panic!("not refused") };
    assert!(words.starts_with(&format!("{refused} script: ")), "{words}");
    // What wrote once is not left half done, however full it is.
    let frees_first = "redis.call('DEL', 'none') return redis.call('SET', 'small', '')";
    server.limit(1);
    assert_eq!(ask(&mut server, &["EVAL", frees_first, "0"]), Reply::ok());
    server.limit(1000);
    let unending = "redis.call('DEL', 'none') \
        for i = 1, 2000 do redis.call('SET', i, string.rep('a', 1048576)) end";
    let Reply::Error(words) = ask(&mut server, &["EVAL", unending, "0"]) else { panic!("not refused") };
    assert!(words.starts_with("ERR a script took all the memory"), "{words}");
    assert_eq!(ask(&mut server, &["FLUSHALL"]), Reply::ok());
    assert_eq!(ask(&mut server, &["SET", "large", &"a".repeat(2000)]), Reply::ok());
    assert_eq!(ask(&mut server, &["PEXPIRE", "large", "10"]), Reply::Int(1));
    let later = NOW + Duration::from_millis(11);
    assert_eq!(server.execute(later, &[b"SET", b"small", b"b"]), Reply::ok());
}

#[test]
fn a_script_is_known_by_its_name_until_all_are_forgotten() {
    let mut server = Server::default();
    let name = super::super::sha1::hex(b"return 1");
    let unknown = Reply::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
    assert_eq!(ask(&mut server, &["EVALSHA", &name, "0"]), unknown);
    assert_eq!(ask(&mut server, &["SCRIPT", "LOAD", "return 1"]), bulk(&name));
    assert_eq!(ask(&mut server, &["EVALSHA", &name.to_uppercase(), "0"]), Reply::Int(1));
    let known = Reply::Array(vec![Reply::Int(1), Reply::Int(0)]);
    assert_eq!(ask(&mut server, &["SCRIPT", "EXISTS", &name, "no name"]), known);
    assert_eq!(ask(&mut server, &["SCRIPT", "FLUSH"]), Reply::ok());
    assert_eq!(ask(&mut server, &["EVALSHA", &name, "0"]), unknown);
}
