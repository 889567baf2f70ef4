//! `relatch run` where nothing goes wrong: the command is run as it stands, and its status is ours.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};

use crate::{
    harness::{Server, eventually, unique_name},
    program::{Folder, PROGRAM, Running, SOON, done, processes_with, relatch, runs, shell},
};

/// A run under a fresh name on the server of all tests.
fn run(options: &[&str], name: &str, command: &[&str]) -> std::process::Command {
    let url = Server::shared().url();
    let words = ["--url", &url, "run"].into_iter().chain(options.iter().copied()).chain([name]);
    relatch(words.chain(command.iter().copied()))
}

fn environment(out: &str) -> BTreeMap<&str, &str> {
    out.lines().filter_map(|line| line.split_once('=')).collect()
}

#[test]
fn the_status_of_the_command_is_ours() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)]
    {
        assert_eq!(done(&mut run(&[], &unique_name(), &["sh", "-c", script])).in_silence(), status, "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_be_run_126() {
    let folder = Folder::new();
    fs::write(folder.at("text"), "no program").expect("it is written");
    let text = folder.at("text").display().to_string();
    fs::write(folder.at("script"), "#!/no/such/interpreter\n").expect("it is written");
    fs::set_permissions(folder.at("script"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let script = folder.at("script").display().to_string();
    for (command, status, says) in [
        ("no-such-command-at-all", 127, "command \"no-such-command-at-all\" not found".to_owned()),
        (&*text, 126, format!("command \"{text}\" cannot be run: Permission denied (os error 13)")),
        (&*script, 126, format!("command \"{script}\" cannot be run: what its first line names is not there")),
        ("/", 126, "command \"/\" cannot be run: Permission denied (os error 13)".to_owned()),
    ] {
        let name = unique_name();
        assert_eq!(done(&mut run(&[], &name, &[command])).with_a_line(), (status, says));
        assert_eq!(done(&mut run(&["-n"], &name, &["true"])).in_silence(), 0, "the lock is free again");
    }
}

#[test]
fn a_command_without_a_slash_is_looked_for_where_the_path_says_alone() {
    let (here, path) = (Folder::new(), Folder::new());
    for (folder, name) in [(&here, "report"), (&path, "no-report")] {
        fs::write(folder.at(name), "#!/no/such/interpreter\n").expect("it is written");
        fs::set_permissions(folder.at(name), fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let around = env::var("PATH").expect("it is text");
    for (command, status, says) in [
        ("report", 127, "command \"report\" not found"),
        ("./report", 126, "command \"./report\" cannot be run: what its first line names is not there"),
        ("no-report", 126, "command \"no-report\" cannot be run: what its first line names is not there"),
    ] {
        let mut call = run(&[], &unique_name(), &[command]);
        call.current_dir(here.path()).env("PATH", format!("{}:{around}", path.path().display()));
        assert_eq!(done(&mut call).with_a_line(), (status, says.to_owned()));
    }
}

#[test]
fn what_goes_in_and_comes_out_is_untouched() {
    let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let mut command = run(&[], &unique_name(), &["sh", "-c", "cat; echo on the side >&2"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let expected = sent.clone();
    let writer = thread::spawn(move || stdin.write_all(&sent).expect("it is read"));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    assert!(output.status.success());
    assert!(output.stdout == expected, "{} bytes came", output.stdout.len());
    assert_eq!(output.stderr, b"on the side\n");
}

#[test]
fn arguments_are_bytes() {
    let all: Vec<u8> = (1..=255).collect();
    let words = [OsStr::new("printf"), OsStr::new("%s|"), OsStr::from_bytes(&all), OsStr::new(""), OsStr::new("--")];
    let mut command = run(&[], &unique_name(), &[]);
    let output = command.args(words).output().expect("it starts");
    assert_eq!(output.stdout, [&all[..], b"||--|"].concat());
}

#[test]
fn a_command_knows_its_lock_by_its_environment() {
    let (server, name, folder) = (Server::shared(), unique_name(), Folder::new());
    let script = "env > env.new && mv env.new env; read line";
    let mut command = run(&["--fenced"], &name, &["sh", "-c", script]);
    let mut child = command.current_dir(folder.path()).stdin(Stdio::piped()).spawn().expect("it starts");
    eventually(SOON, || folder.at("env").exists());
    let out = fs::read_to_string(folder.at("env")).expect("it is text");
    let told = environment(&out);
    assert_eq!(told["RELATCH_LOCK"], name);
    assert_eq!(told["RELATCH_FENCE"], "1");
    assert_eq!(server.hash(&name).into_keys().collect::<Vec<_>>(), [told["RELATCH_HOLDER"]]);
    assert!(!out.contains(server.socket().to_str().expect("it is text")), "no address was told: {out}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").code().is_some());
}

#[test]
fn an_inner_command_is_told_of_its_own_lock_alone_and_of_the_address_if_it_was_there_before() {
    let (outer, inner) = (unique_name(), unique_name());
    let url = Server::shared().url();
    let words = ["run", "--fenced", &outer, PROGRAM, "run", &inner, "env"];
    let came = done(relatch(words).env("RELATCH_URL", &url));
    let told = environment(&came.out);
    assert_eq!((told["RELATCH_LOCK"], told["RELATCH_URL"]), (&*inner, &*url));
    assert!(!told.contains_key("RELATCH_FENCE"), "that is the outer one's: {told:?}");
}

#[test]
fn an_address_in_a_file_serves_and_a_prefix_goes_before_the_name() {
    let (server, name, folder) = (Server::shared(), unique_name(), Folder::new());
    fs::write(folder.at("url"), format!("{}\n", server.url())).expect("it is written");
    let file = folder.at("url").display().to_string();
    let script = "echo x > began; read line";
    let words = ["run", "--url-file", &file, "--prefix", "app:", &name, "sh", "-c", script];
    let mut child = relatch(words).current_dir(folder.path()).stdin(Stdio::piped()).spawn().expect("it starts");
    folder.read("began");
    assert_eq!(server.hash(&format!("app:{name}")).len(), 1);
    let mut other = relatch(["run", "-nq", &name, "true"]);
    other.env("RELATCH_URL_FILE", &file).env("RELATCH_PREFIX", "app:");
    assert_eq!(done(&mut other).in_silence(), 75);
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

#[test]
fn a_command_needs_no_environment_no_input_and_no_home() {
    let url = Server::shared().url();
    let came = done(relatch(["--url", &url, "run", &unique_name(), "/usr/bin/env"]).env_clear());
    let told: Vec<_> = environment(&came.out).into_keys().collect();
    assert_eq!((came.status, &told[..], &*came.err), (Some(0), &["RELATCH_HOLDER", "RELATCH_LOCK"][..], ""));
    let text = format!("exec '{PROGRAM}' --url '{url}' run '{}' sh -c 'echo here' <&-", unique_name());
    let came = done(&mut shell(&text));
    assert_eq!((came.status, &*came.out, &*came.err), (Some(0), "here\n", ""));
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).expect("it is ours");
    let mut command = run(&[], &unique_name(), &["true"]);
    assert_eq!(done(command.env("HOME", folder.path()).current_dir(folder.path())).in_silence(), 0);
    assert_eq!(fs::read_dir(folder.path()).expect("it can be read").count(), 0, "nothing is written, even by root");
}

#[test]
fn whoever_finds_the_lock_held_waits_as_long_as_told() {
    let (name, folder) = (unique_name(), Folder::new());
    let mut holder = run(&[], &name, &["sh", "-c", "echo x > began; read line"]);
    let mut holder = holder.current_dir(folder.path()).stdin(Stdio::piped()).spawn().expect("it starts");
    folder.read("began");
    let line = format!("lock \"{name}\" is held by somebody else");
    assert_eq!(done(&mut run(&["-n"], &name, &["true"])).with_a_line(), (75, line.clone()));
    assert_eq!(done(&mut run(&["-nE", "0"], &name, &["true"])).with_a_line(), (0, line));
    assert_eq!(done(&mut run(&["-n", "-q"], &name, &["true"])).in_silence(), 75);
    let began = Instant::now();
    assert_eq!(done(&mut run(&["-q", "-w", "0.3"], &name, &["true"])).in_silence(), 75);
    assert!(began.elapsed() >= Duration::from_millis(300));
    let waiting = [&["-w", "1m"][..], &[]].map(|wait| Running::start(&mut run(wait, &name, &["echo", "in"])));
    let channel = format!("redisson_lock__channel:{{{name}}}");
    eventually(SOON, || Server::shared().listeners(&channel) == 2);
    drop(holder.stdin.take());
    for running in waiting {
        let came = running.came();
        assert_eq!((came.status, &*came.out, &*came.err), (Some(0), "in\n", ""));
    }
    holder.wait().expect("it ends");
}

#[test]
fn a_thousand_runs_leave_nothing() {
    const RUNS: usize = 1000;
    let (server, name) = (Server::own(), unique_name());
    let (url, next) = (server.url(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= RUNS {
                        break;
                    }
                    let name = format!("{name}-{}", number % 50);
                    assert_eq!(done(&mut relatch(["--url", &url, "run", &name, "true"])).in_silence(), 0);
                }
            });
        }
    });
    assert_eq!(processes_with(&name), Vec::<String>::new());
    assert_eq!(server.keys(), Vec::<String>::new());
    let clients =
        || -> String { redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("it answers") };
    eventually(SOON, || !clients().contains("name=relatch:"));
}

#[test]
fn a_grandchild_in_the_background_outlives_the_lock() {
    let (name, folder) = (unique_name(), Folder::new());
    let script = "sleep 60 >/dev/null 2>&1 </dev/null & echo $! > pid";
    let came = done(run(&[], &name, &["sh", "-c", script]).current_dir(folder.path()));
    assert_eq!(came.in_silence(), 0);
    let grandchild = folder.pid("pid");
    assert_eq!(done(&mut run(&["-n"], &name, &["true"])).in_silence(), 0);
    assert!(runs(grandchild));
    kill_process(grandchild, Signal::KILL).expect("it runs");
}

#[test]
fn a_shell_runs_a_string() {
    let name = unique_name();
    let came = done(run(&[], &name, &["-c", "echo \"$0\" one && exit 3"]).env_remove("SHELL"));
    assert_eq!((came.status, &*came.out), (Some(3), "/bin/sh one\n"));
    let came = done(run(&[], &name, &["-c", "two"]).env("SHELL", "/bin/echo"));
    assert_eq!((came.status, &*came.out), (Some(0), "-c two\n"));
    let words: Vec<OsString> = ["a", "-c", "b", "c"].map(Into::into).into();
    let (status, line) = done(&mut relatch([OsString::from("run")].into_iter().chain(words))).with_a_line();
    assert_eq!((status, &*line), (64, "-c takes one string, and nothing after it: write -c 'COMMAND ARGUMENTS'"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_has_the_descriptors_and_the_signals_that_it_would_have_without_us() {
    let folder = Folder::new();
    let url = Server::shared().url();
    // Each looks at itself: a shell between two commands may be doing something about it.
    for look in ["ls /proc/self/fd", "grep -E 'Sig(Blk|Ign)' /proc/self/status", "sh -c 'echo more >&9; echo it'"] {
        let with = |before: &str| {
            let came = done(shell(&format!("exec 9>>more; exec {before} {look}")).current_dir(folder.path()));
            assert_eq!((came.status, &*came.err), (Some(0), ""), "{look}");
            came.out
        };
        assert_eq!(with(&format!("'{PROGRAM}' --url '{url}' run '{}'", unique_name())), with(""), "{look}");
    }
    assert_eq!(fs::read_to_string(folder.at("more")).expect("it is text"), "more\nmore\n");
}
