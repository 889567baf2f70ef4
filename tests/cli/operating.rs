//! `relatch inspect`, `force-unlock` and `doctor`: what an operator does about a lock that is stuck.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::Duration,
};

use redis::Commands;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    harness::{
        Server, eventually,
        proxy::{Action, Door, Event, Proxy, matching::command},
        unique_name,
    },
    program::{Came, Folder, PROGRAM, Running, SOON, done, relatch},
    screen::{INTERRUPT, Terminal},
};

fn call(server: &Server, words: &[&str]) -> Command {
    let url = server.url();
    relatch(["--url", &url].into_iter().chain(words.iter().copied()))
}

/// A run that holds a lock until it is dropped, and what its command was told.
struct Holder {
    running: Running,
    holder: String,
    pid: String,
}

impl Holder {
    fn of(server: &Server, name: &str) -> Self {
        let folder = Folder::new();
        let script = "echo $RELATCH_HOLDER > holder; exec sleep 60";
        let running = Running::start(call(server, &["run", name, "sh", "-c", script]).current_dir(folder.path()));
        let holder = folder.read("holder");
        let pid = running.pid().as_raw_nonzero().to_string();
        Self { running, holder, pid }
    }
}

/// Objects, a line each.
#[track_caller]
fn objects(came: &Came) -> Vec<Value> {
    assert_eq!(came.err, "", "{came:?}");
    came.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))).collect()
}

/// The words of the line that begins with this one.
fn row<'a>(came: &'a Came, name: &str) -> Vec<&'a str> {
    let line = came.out.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.unwrap_or_else(|| panic!("no {name}: {came:?}")).split_whitespace().collect()
}

#[test]
fn a_stuck_locks_holder_is_found_with_one_command_and_ended_with_another() {
    let (server, name) = (Server::shared(), unique_name());
    let holder = Holder::of(server, &name);
    let came = done(&mut call(server, &["inspect", &name]));
    assert_eq!((came.status, &*came.err), (Some(0), ""));
    assert!(came.out.starts_with("NAME"), "{}", came.out);
    let [shown, kind, id, label, holds, ..] = row(&came, &name)[..] else { panic!("{came:?}") };
    assert_eq!((shown, kind, id, holds), (&*name, "plain", &*holder.holder, "1"));
    assert!(label.ends_with(&format!(":{}", holder.pid)), "the process is named: {label}");
    let (status, line) = done(&mut call(server, &["force-unlock", &name, "--holder", id, "--yes"])).with_a_line();
    assert_eq!((status, line), (0, format!("\"{name}\": the hold {id} is ended")));
    assert_eq!(row(&done(&mut call(server, &["inspect", &name])), &name)[1], "free");
    let again = done(&mut call(server, &["force-unlock", &name, "--holder", id, "--yes"])).with_a_line();
    assert_eq!(again, (1, format!("\"{name}\": nothing was done, nobody holds it")));
    drop(holder.running);
}

#[test]
fn a_stuck_job_is_ended_and_called_no_lock() {
    let (server, name, folder) = (Server::shared(), unique_name(), Folder::new());
    let (script, url) = (["sh", "-c", "echo x > began; exec sleep 60"], server.url());
    let words = [&["--url", &*url, "once", "--every", "365days", "--lease", "3s", &name], &script[..]].concat();
    let stuck = Running::start(relatch(words).current_dir(folder.path()));
    folder.read("began");
    let came = done(&mut call(server, &["inspect", &name]));
    let id = row(&came, &name)[2];
    let force = || done(&mut call(server, &["force-unlock", &name, "--holder", id, "--yes"])).with_a_line();
    assert_eq!(force(), (0, format!("\"{name}\": the hold {id} is ended")));
    assert_eq!(force(), (1, format!("\"{name}\": nothing was done, nobody holds it")));
    let (status, line) = stuck.came().with_a_line();
    assert!(status == 76 && line.starts_with(&format!("job \"{name}\" was lost: ")), "{line}");
}

#[test]
fn nobody_elses_hold_is_ended() {
    let (server, name) = (Server::shared(), unique_name());
    let holder = Holder::of(server, &name);
    let other = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42";
    let came = done(&mut call(server, &["force-unlock", &name, "--holder", other, "-y"])).with_a_line();
    assert_eq!(came, (1, format!("\"{name}\": nothing was done, it is held by {} now", holder.holder)));
    let (status, line) = done(&mut call(server, &["force-unlock", &name, "--holder", &holder.holder])).with_a_line();
    assert_eq!((status, &*line), (64, "nobody is there to be asked: write --yes if you are sure"));
    let (status, line) = done(&mut call(server, &["force-unlock", &name, "--holder", "42", "-y"])).with_a_line();
    assert!(status == 64 && line.starts_with("--holder: must be `uuid:number`"), "{line}");
    assert_eq!(server.hash(&name).len(), 1);
}

#[test]
fn whoever_sits_at_a_terminal_is_asked() {
    let (server, name) = (Server::shared(), unique_name());
    let holder = Holder::of(server, &name);
    let url = server.url();
    let ask = format!("'{PROGRAM}' --url '{url}' force-unlock '{name}' --holder '{}'; echo status $?", holder.holder);
    for (answer, status) in [("\n", "status 1"), ("n\n", "status 1"), ("y\n", "status 0")] {
        let mut terminal = Terminal::with(&ask);
        eventually(SOON, || terminal.screen().contains("Do it? [y/N]"));
        assert_eq!(server.hash(&name).len(), 1);
        terminal.types(answer);
        terminal.shows(status);
        terminal.is_over();
    }
    assert_eq!(server.hash(&name).len(), 0);
}

#[test]
fn what_is_seen_is_told_to_programs_with_all_its_fields() {
    let (server, name) = (Server::shared(), unique_name());
    let holder = Holder::of(server, &name);
    let _: () =
        server.connection().hset(format!("{name}-stuck"), "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42", 3).expect("taken");
    let words = ["once", "--every", "365days", &name, "sh", "-c", "exit 3"];
    assert_eq!(done(&mut call(server, &words)).status, Some(3));
    let came =
        done(&mut call(server, &["inspect", "--json", &name, &format!("{name}-stuck"), &format!("{name}-free")]));
    assert_eq!(came.status, Some(0));
    let [lock, job, stuck, free] = &objects(&came)[..] else { panic!("{came:?}") };
    let fields = ["fence", "held", "holders", "job", "kind", "listeners", "name", "ttl_ms"];
    for object in [lock, job, stuck, free] {
        let named: Vec<_> = object.as_object().expect("it is one").keys().collect();
        assert_eq!(named, fields);
    }
    assert_eq!((&lock["name"], &lock["kind"], &lock["held"]), (&name.clone().into(), &"plain".into(), &true.into()));
    let held = &lock["holders"][0];
    assert_eq!((&held["id"], &held["count"]), (&holder.holder.clone().into(), &1.into()));
    let (client, hold) = holder.holder.split_once(':').expect("it is two");
    assert_eq!((&held["client_id"], held["hold"].to_string()), (&client.into(), hold.to_owned()));
    assert!(lock["ttl_ms"].as_u64().is_some_and(|ms| (1..=30_000).contains(&ms)), "{lock}");
    assert_eq!((&job["kind"], &job["held"], &job["job"]["attempts"]), (&"job".into(), &false.into(), &1.into()));
    assert_eq!((&job["job"]["running"], &job["job"]["success"]), (&Value::Null, &Value::Null));
    assert_eq!((&stuck["ttl_ms"], &stuck["holders"][0]["count"]), (&Value::Null, &3.into()));
    assert_eq!((&free["kind"], &free["held"]), (&Value::Null, &false.into()));
    drop(holder);
    server.delete(&format!("{name}-stuck"));
}

#[test]
fn a_search_finds_what_is_like_its_pattern_and_shows_names_as_they_may_be_shown() {
    let (server, name) = (Server::own(), unique_name());
    let mut connection = server.connection();
    let field = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42";
    for number in 0..300 {
        let _: () = connection.hset(format!("{name}:{number}"), field, 1).expect("taken");
    }
    let _: () = connection.hset("\u{1b}[31mred\n", field, 1).expect("taken");
    let _: () = connection.rpush("text", "no lock").expect("taken");
    let came = done(&mut call(&server, &["inspect", "--pattern", &format!("{name}:*")]));
    assert_eq!(came.out.lines().count(), 301, "one header, and each of them: {came:?}");
    assert_eq!(came.out.matches("NAME").count(), 1);
    let kinds: std::collections::BTreeSet<_> =
        came.out.lines().map(|line| line.find("plain").or(line.find("KIND"))).collect();
    assert_eq!(kinds.len(), 1, "columns stand below each other: {}", came.out);
    let came = done(&mut call(&server, &["inspect", "--pattern", "*red*"]));
    assert!(came.out.contains(r"\u{1b}[31mred\n") && !came.out.contains('\u{1b}'), "{}", came.out);
    let came = done(&mut call(&server, &["inspect", "--json", "--pattern", "*red*"]));
    assert_eq!(objects(&came)[0]["name"], "\u{1b}[31mred\n");
    let came = done(&mut call(&server, &["inspect", "--pattern", "nothing:*"]));
    assert_eq!(came.with_a_line(), (0, "nothing is held there".to_owned()));
    let (status, line) = done(&mut call(&server, &["inspect", "text"])).with_a_line();
    assert!(status == 69 && line.contains("holds something that is not a lock"), "{line}");
    let came = done(&mut call(&server, &["--prefix", &format!("{name}:"), "inspect", "7"]));
    assert_eq!(row(&came, "7")[1..3], ["plain", field]);
}

#[test]
fn a_table_is_drawn_again_and_again_until_an_interrupt() {
    let (server, name) = (Server::shared(), unique_name());
    let mut terminal = Terminal::with(&format!(
        "trap : INT; '{PROGRAM}' --url '{}' inspect --watch {name}; echo status $?",
        server.url()
    ));
    let shown =
        |screen: &str, word: &str| screen.lines().rev().any(|line| line.contains(&*name) && line.contains(word));
    eventually(SOON, || shown(&terminal.screen(), "free"));
    let holder = Holder::of(server, &name);
    eventually(SOON, || shown(&terminal.screen(), &holder.holder));
    terminal.types(INTERRUPT);
    terminal.shows("status 130");
    terminal.is_over();
}

/// 200 000 keys, of which these are locks that nobody lets go of.
const LOCKS: usize = 20_000;
const FILL: &str = "for i = 1, 200000 do
    if i <= tonumber(ARGV[1]) then redis.call('hset', 'lock:' .. i, '6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:' .. i, 1)
    elseif i % 2 == 0 then redis.call('set', 'text:' .. i, string.rep('it is no lock ', 20))
    else redis.call('rpush', 'list:' .. i, i) end
end";

/// Runs it to its end: its lines, and how much memory it had at most, in kB.
fn lines_and_memory(command: &mut Command) -> (usize, u64) {
    let folder = Folder::new();
    let out = fs::File::create(folder.at("out")).expect("there is room");
    let mut child = command.stdout(out).spawn().expect("it starts");
    let (mut most_kb, status) = (0, format!("/proc/{}/status", child.id()));
    while child.try_wait().expect("it can be asked").is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kb = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        most_kb = most_kb.max(kb.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    (fs::read_to_string(folder.at("out")).expect("it is text").lines().count(), most_kb)
}

/// How long a command took the server, by its name, in microseconds. Its longest one says as much of the machine's other work.
fn mean_micros(server: &Server) -> Vec<(String, f64)> {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("it answers");
    let mean = |line: &str| -> Option<(String, f64)> {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let micros = rest.split(',').find_map(|part| part.strip_prefix("usec_per_call="))?;
        Some((name.to_owned(), micros.parse().ok()?))
    };
    info.lines().filter_map(mean).collect()
}

#[test]
fn what_can_be_shown_is_shown_beside_what_cannot() {
    let (server, name) = (Server::own(), unique_name());
    let holder = Holder::of(&server, &name);
    let mut connection = server.connection();
    let _: () = connection.sadd("set", "member").expect("added");
    for words in [&["inspect", &*name, "set", "free"][..], &["inspect", "set", &name, "free"]] {
        let came = done(&mut call(&server, words));
        assert_eq!((row(&came, &name)[2], row(&came, "free")[1]), (&*holder.holder, "free"));
        let (status, line) = Came { out: String::new(), ..came }.with_a_line();
        assert!(status == 69 && line.contains("\"set\""), "{line}");
    }
    let _: () = connection.sadd(format!("relatch_job:{{{name}}}"), "member").expect("added");
    let came = done(&mut call(&server, &["inspect", &name]));
    assert_eq!((row(&came, &name)[2], came.status), (&*holder.holder, Some(69)), "{came:?}");
    let said =
        "the key holds something that is not a lock: the key holds something else where a job's record would be\n";
    assert!(came.err.ends_with(said) && came.err.lines().count() == 1, "{came:?}");
}

#[test]
fn a_watched_table_says_that_the_server_is_gone_and_is_there_again_with_it() {
    let server = Server::own();
    let url = server.url();
    let mut terminal = Terminal::with(&format!("'{PROGRAM}' --url '{url}' inspect --watch free; echo status $?"));
    eventually(SOON, || terminal.screen().contains("that is all"));
    server.freeze();
    eventually(SOON, || terminal.screen().contains("the server is unreachable"));
    assert!(!terminal.screen().contains("may have run"), "{}", terminal.screen());
    server.thaw();
    let shown = || terminal.screen().rfind("that is all") > terminal.screen().rfind("the server is unreachable");
    eventually(SOON, shown);
    terminal.types(INTERRUPT);
    terminal.is_over();
}

#[test]
fn a_name_of_any_length_is_shown_and_cut_where_nobody_reads_on() {
    let (server, long) = (Server::own(), "x".repeat(66_000));
    let field = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42";
    for name in [&*long, "it's \"quoted\" by \\"] {
        let _: () = server.connection().hset(name, field, 1).expect("taken");
    }
    let came = done(&mut call(&server, &["inspect", "--pattern", "*"]));
    assert_eq!((came.status, &*came.err), (Some(0), ""));
    assert!(came.out.lines().any(|line| line.contains("xxx…  plain") && line.len() < 500), "{}", came.out);
    assert!(came.out.contains("it's \"quoted\" by \\ "), "{}", came.out);
}

#[test]
fn a_search_that_is_refused_hides_no_finding() {
    let server = Server::own();
    let _: () = redis::cmd("ACL")
        .arg(&["SETUSER", "narrow", "on", ">word", "~*", "&*", "+@all", "-scan"])
        .query(&mut server.connection())
        .expect("it is taken");
    let url = server.url();
    let url = format!("{url}{}user=narrow&pass=word", if url.contains('?') { '&' } else { '?' });
    let came = done(&mut relatch(["--url", &url, "doctor", "--scan", "--json"]));
    let findings = objects(&came);
    let refused: Vec<_> = findings.iter().filter(|finding| finding["code"] == "keys.not_searched").collect();
    assert_eq!((refused.len(), &refused[0]["severity"]), (1, &"notice".into()), "{came:?}");
    let plain = done(&mut relatch(["--url", &url, "doctor"]));
    assert_eq!(came.status, plain.status, "the worst finding decides");
}

#[test]
fn colours_are_for_a_terminal_that_wants_them() {
    let server = Server::shared();
    for (before, coloured) in [("TERM=xterm", true), ("TERM=xterm NO_COLOR=1", false), ("TERM=dumb", false)] {
        for words in ["doctor", "run --help"] {
            let url = server.url();
            let mut terminal = Terminal::with(&format!("{before} '{PROGRAM}' --url '{url}' {words}; echo over"));
            terminal.shows("over");
            terminal.is_over();
            assert_eq!(terminal.screen().contains("\x1b["), coloured, "{before} {words}: {:?}", terminal.screen());
        }
    }
}

#[test]
fn two_hundred_thousand_keys_cost_little_memory_and_no_long_command() {
    let server = Server::own();
    let mut connection = server.connection();
    // One script makes them all, and a busy machine takes its time for that.
    connection.set_read_timeout(None).expect("a socket takes a timeout");
    let _: () = redis::Script::new(FILL).arg(LOCKS).invoke(&mut connection).expect("there is room");
    server.reset_counts();
    for words in [&["inspect", "--json", "--pattern", "*"][..], &["inspect", "--pattern", "*"], &["doctor", "--scan"]] {
        let (lines, most_kb) = lines_and_memory(&mut call(&server, words));
        println!("{words:?}: {lines} lines, {most_kb} kB at most");
        assert!(lines >= LOCKS, "{words:?}: {lines}");
        assert!((1..40_000).contains(&most_kb), "{words:?}: {most_kb} kB");
    }
    let means = mean_micros(&server);
    assert!(means.iter().any(|(name, _)| name == "scan"), "{means:?}");
    assert!(means.iter().all(|(_, micros)| *micros < 2_000.0), "{means:?}");

    // An interrupt ends them in the midst of it: nobody reads all that they say, so that they would not end by themselves.
    for words in [&["inspect", "--json", "--pattern", "*"][..], &["inspect", "--pattern", "*"], &["doctor", "--scan"]] {
        let mut child = call(&server, words).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::with_capacity(1, child.stdout.take().expect("it is piped")).lines();
        let is_of_a_lock = |line: &std::io::Result<String>| line.as_ref().expect("it is text").contains("lock:");
        assert!(lines.any(|line| is_of_a_lock(&line)), "{words:?}");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).expect("it runs");
        eventually(SOON, || child.try_wait().expect("it can be asked").is_some());
        assert_eq!(child.wait().expect("it has ended").signal(), Some(2), "{words:?}");
    }
}

#[test]
fn an_interrupt_ends_a_doctor_whom_the_server_does_not_answer() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let text = format!("trap : INT; '{PROGRAM}' --url '{}' doctor --scan; echo status $?", proxy.url());
    let interrupted = |wait: &dyn Fn()| {
        let mut terminal = Terminal::with(&text);
        wait();
        terminal.types(INTERRUPT);
        terminal.shows("status 130");
        terminal.is_over();
        assert!(!terminal.screen().contains("relatch: "), "{}", terminal.screen());
    };
    // One of its questions, and then none at all.
    for asked in ["INFO", "CONFIG", "SCAN"] {
        let question = proxy.rule(command(asked), Action::HoldReply);
        interrupted(&|| question.nth_blocking(1));
        question.remove();
    }
    proxy.clear_log();
    proxy.door(Door::Silent);
    let is_opened = || proxy.log().iter().any(|entry| matches!(entry.event, Event::Opened));
    interrupted(&|| eventually(SOON, is_opened));
}

#[test]
fn a_sound_server_is_told_to_be_one_and_the_status_goes_by_the_worst_finding() {
    let folder = Folder::new();
    let dir = format!("dir {}", folder.path().display());
    let sound = Server::builder().line("appendonly yes").line(&dir).start();
    let came = done(&mut call(&sound, &["doctor"]));
    assert_eq!((came.status, &*came.err), (Some(0), ""), "{}", came.out);
    assert!(came.out.lines().any(|line| line.starts_with("ok      scripts.run")), "{}", came.out);
    assert!(!came.out.contains('\u{1b}'), "{}", came.out);

    let unsound = Server::builder().line("maxmemory-policy allkeys-lru").line("maxmemory 64mb").start();
    let came = done(&mut call(&unsound, &["doctor", "--json"]));
    assert!(matches!(came.status, Some(1 | 2)), "{came:?}");
    let findings = objects(&came);
    for finding in &findings {
        let named: Vec<_> = finding.as_object().expect("it is one").keys().collect();
        assert_eq!(named, ["code", "found", "key", "may_happen", "server", "severity", "subject", "to_do"]);
    }
    let eviction = findings.iter().find(|finding| finding["subject"] == "eviction").expect("it is looked at");
    assert!(["warning", "error"].map(Value::from).contains(&eviction["severity"]), "{eviction}");
    assert!(eviction["to_do"].is_string() && eviction["may_happen"].is_string(), "{eviction}");
}

#[test]
fn keys_without_a_ttl_are_found_if_that_is_wanted() {
    let (server, name) = (Server::own(), unique_name());
    let field = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42";
    let _: () = server.connection().hset(&name, field, 1).expect("taken");
    let without = done(&mut call(&server, &["doctor"]));
    assert!(!without.out.contains(&*name), "{}", without.out);
    let came = done(&mut call(&server, &["doctor", "--scan", "--json"]));
    let findings = objects(&came);
    let found: Vec<_> = findings.iter().filter(|finding| finding["code"] == "keys.without_ttl").collect();
    assert_eq!(found.len(), 1, "{came:?}");
    assert_eq!((&found[0]["key"], came.status), (&name.clone().into(), Some(1)));
    let came = done(&mut call(&server, &["doctor", "--scan"]));
    assert!(
        came.out.contains(&format!("keys.without_ttl: plain lock \"{name}\" has no TTL, held by {field}")),
        "{}",
        came.out
    );
}

#[test]
fn a_jobs_record_without_a_ttl_keeps_nobody_out_and_is_no_warning() {
    let (server, name) = (Server::own(), unique_name());
    let words = ["once", "--every", "365days", &name, "true"];
    assert_eq!(done(&mut call(&server, &words)).status, Some(0));
    let _: bool = server.connection().persist(format!("relatch_job:{{{name}}}")).expect("it is there");
    let came = done(&mut call(&server, &["doctor", "--scan", "--json"]));
    let findings = objects(&came);
    let found: Vec<_> = findings.iter().filter(|finding| finding["code"] == "keys.without_ttl").collect();
    let [finding] = found[..] else { panic!("{came:?}") };
    assert_eq!((&finding["key"], &finding["severity"]), (&name.clone().into(), &"notice".into()));
    assert_eq!(finding["found"], format!("periodic job \"{name}\" has no TTL, and nobody is at it"));
    assert!(finding["may_happen"].as_str().is_some_and(|text| text.starts_with("nobody is kept out")), "{finding}");
    assert_eq!(came.status, done(&mut call(&server, &["doctor"])).status, "it is not the worst finding");
}

/// Something else wrote it: nobody could end that attempt.
#[test]
fn a_record_whose_attempt_is_no_holders_is_called_no_record() {
    let (server, name) = (Server::own(), unique_name());
    let record = [("start", "0"), ("attempts", "1"), ("run", "somebody"), ("until", "99999999999999"), ("since", "0")];
    let _: () = server.connection().hset_multiple(format!("relatch_job:{{{name}}}"), &record).expect("taken");
    let (status, line) = done(&mut call(&server, &["inspect", &name])).with_a_line();
    assert!(status == 69 && line.contains("a job's record that says who is at it in words of somebody else"), "{line}");
    let came = done(&mut call(&server, &["inspect", "--pattern", &name]));
    assert_eq!(came.with_a_line(), (0, "nothing is held there".to_owned()));
}

#[test]
fn who_holds_the_lock_and_who_is_at_the_job_of_its_name_are_both_told() {
    let (server, name) = (Server::shared(), unique_name());
    let (folder, stale) = (Folder::new(), "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42");
    let script = "echo > began; exec sleep 60";
    let once = ["once", "--every", "365days", &name, "sh", "-c", script];
    let running = Running::start(call(server, &once).current_dir(folder.path()));
    folder.read("began");
    let job = server.hash(&format!("relatch_job:{{{name}}}")).remove("run").expect("somebody is at it");
    let force = || done(&mut call(server, &["force-unlock", &name, "--holder", stale, "-y"])).with_a_line();
    let said = format!("\"{name}\": nothing was done, {job} is at the job of this name now");
    assert_eq!(force(), (1, said));
    let holder = Holder::of(server, &name);
    let lock = &holder.holder;
    let said = format!("\"{name}\": nothing was done, it is held by {lock} now, and {job} is at the job of this name");
    assert_eq!(force(), (1, said));
    drop(running);
}

#[test]
fn a_run_whose_lock_was_forced_away_ends_with_its_command() {
    let (server, name) = (Server::shared(), unique_name());
    let folder = Folder::new();
    let words = ["run", "--lease", "3s", &name, "sh", "-c", "echo $RELATCH_HOLDER > holder; exec sleep 60"];
    let running = Running::start(call(server, &words).current_dir(folder.path()));
    let holder = folder.read("holder");
    assert_eq!(done(&mut call(server, &["force-unlock", &name, "--holder", &holder, "-y"])).status, Some(0));
    let (status, line) = running.came().with_a_line();
    assert!(status == 76 && line.contains("was lost"), "{line}");
}
