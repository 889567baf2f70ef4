//! Wrong calls, and servers that do not serve: one clear line, the right status, no panic and no password.

use std::{fs, net::TcpListener, os::unix::ffi::OsStrExt, thread};

use crate::{
    harness::{Server, unique_name},
    program::{Folder, done, relatch},
};

/// In no line.
const SECRET: &str = "pa55word";

#[track_caller]
fn fails(arguments: &[&str], status: i32, says: &str) {
    let came = done(&mut relatch(arguments));
    assert_eq!(came.out, "", "{arguments:?}");
    let (was, line) = came.with_a_line();
    assert_eq!(was, status, "{arguments:?}: {line}");
    assert!(line.contains(says), "{arguments:?}: {line}");
    assert!(!line.contains(SECRET), "{arguments:?}: {line}");
    assert!(!line.contains("panicked"), "{line}");
}

#[test]
fn a_wrong_call_is_told_in_one_line() {
    for (arguments, says) in [
        (&[][..], "a command is missing"),
        (&["rum"], "unrecognized subcommand 'rum'"),
        (&["run"], "required arguments were not provided"),
        (&["run", "--nope", "a", "b"], "unexpected argument '--nope'"),
        (&["run", "-n", "-w", "1s", "a", "b"], "cannot be used with"),
        (&["run", "-E", "300", "a", "b"], "300 is not in 0..=255"),
        (&["run", "-E", "busy", "a", "b"], "invalid digit"),
        (&["run", "--lease", "10", "a", "b"], "a duration needs a unit, such as 10s or 10m"),
        (&["run", "--lease", "soon", "a", "b"], "a duration is a number and a unit"),
        (
            &["run", "--grace", "-1s", "a", "b"],
            "a duration is a number and a unit, such as 500ms, 30s or 1h; see `relatch run --help`",
        ),
        (&["run", "-w", "-1", "a", "b"], "a wait is a number of seconds"),
        (&["run", "--max-hold", "1s", "--on-loss", "ignore", "a", "b"], "leave out one of them"),
        (&["run", "-w", "nan", "a", "b"], "a wait is a number of seconds"),
        (&["run", "--on-loss", "shrug", "a", "b"], "[possible values: term, kill, ignore]"),
        (&["run", "--lease", "1ms", "a", "b"], "--lease: must be from 100ms"),
        (&["run", "a", ""], "the command is empty"),
        (&["run", "", "b"], "the name: "),
        (&["once", "a", "b"], "--every <DURATION>"),
        (&["once", "--every", "1500ms", "a", "b"], "--every: "),
        (&["once", "--every", "1h", "--offset", "2h", "a", "b"], "--offset: "),
        (&["once", "--every", "1h", "--attempts", "0", "a", "b"], "--attempts: "),
        (&["completions", "cmd"], "invalid value 'cmd'"),
        (&["__child"], "this is not for people"),
        (&["__child", "x", "background", "true"], "this is not for people"),
    ] {
        let url = Server::shared().url();
        let server = if arguments.is_empty() { vec![] } else { vec!["--url", &*url] };
        let server = if arguments.first() == Some(&"__child") { vec![] } else { server };
        fails(&[&server[..], arguments].concat(), 64, says);
    }
}

#[test]
fn an_address_that_is_none_is_told_without_its_password() {
    for (url, says) in [
        (&*format!("http://me:{SECRET}@host/"), "its scheme is none of redis://"),
        (&*format!("redis://:{SECRET}@host:port/"), "the server's address: "),
        (&*format!("redis://:{SECRET}@host:6379/none"), "the server's address: "),
        (&*format!("redis-sentinel://:{SECRET}@host/"), "master"),
        (&*format!("redis-sentinel://host/?sentinel_password={SECRET}"), "master"),
        ("", "the server's address: "),
        ("localhost", "the server's address: "),
    ] {
        fails(&["--url", url, "run", "a", "true"], 64, says);
        fails(&["--url", url, "once", "--every", "1h", "a", "true"], 64, says);
    }
    let spaced = format!("redis://u:x {SECRET}@host/");
    fails(&[&spaced], 64, "unrecognized subcommand");
    fails(&["run", "-w", &spaced, "a", "b"], 64, "a duration is a number and a unit");
    let misplaced = format!("redis://:{SECRET}@host/");
    fails(&["run", "--nope", &misplaced], 64, "unexpected argument '--nope'");
    fails(&[&misplaced, "run", "a", "b"], 64, "unrecognized subcommand");
    fails(&["--url", "redis://a", "--url-file", "b", "run", "a", "b"], 64, "cannot be used with");
}

#[test]
fn an_address_that_cannot_be_read_is_told() {
    let folder = Folder::new();
    let file = |name: &str, text: &[u8]| {
        fs::write(folder.at(name), text).expect("it is written");
        folder.at(name).display().to_string()
    };
    let [empty, two, binary] = [
        file("empty", b"\n"),
        file("two", format!("redis://:{SECRET}@a\nredis://b\n").as_bytes()),
        file("binary", &[0xff, 0xfe]),
    ];
    let folder_itself = folder.path().display().to_string();
    for (path, says) in [
        ("/no/such/file", "No such file or directory"),
        (&*folder_itself, "Is a directory"),
        (&*empty, "there is no address in"),
        (&*two, "more than one line"),
        (&*binary, "UTF-8"),
        ("/dev/zero", "the server's address: "),
    ] {
        fails(&["--url-file", path, "run", "a", "true"], 64, says);
    }
    let bytes = std::ffi::OsStr::from_bytes(&[0xff]);
    for variable in ["RELATCH_URL", "RELATCH_PREFIX"] {
        let came = done(relatch(["run", "a", "true"]).env(variable, bytes));
        assert_eq!(came.with_a_line(), (64, format!("{variable} is no text in UTF-8")));
    }
}

#[test]
fn a_server_that_does_not_serve_is_69_and_nothing_is_run() {
    let (locked, name, folder) = (Server::builder().tcp().password(SECRET).start(), unique_name(), Folder::new());
    let talkative = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = talkative.local_addr().expect("it has one").port();
    thread::spawn(move || {
        for stream in talkative.incoming().filter_map(Result::ok) {
            drop(std::io::Write::write_all(&mut &stream, b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let ran = folder.at("ran").display().to_string();
    for (url, says) in [
        ("redis://127.0.0.1:1/".to_owned(), "127.0.0.1:1: Connection refused"),
        (format!("redis://:not-{SECRET}@127.0.0.1:{}/", locked.port()), "password"),
        (format!("redis://127.0.0.1:{}/", locked.port()), "password"),
        (format!("redis://127.0.0.1:{port}/"), "could not connect"),
        ("redis://no-such-host.invalid/".to_owned(), "could not connect"),
        ("redis+unix:///no/such/socket".to_owned(), "No such file"),
    ] {
        fails(&["--url", &url, "run", &name, "touch", &ran], 69, says);
        fails(&["--url", &url, "once", "--every", "1h", &name, "touch", &ran], 69, says);
    }
    assert!(!folder.at("ran").exists());
}

#[test]
fn a_key_that_is_no_lock_is_told() {
    let (server, name) = (Server::shared(), unique_name());
    let mut connection = server.connection();
    let of_a_job = format!("relatch_job:{{{name}}}");
    let _: () = redis::Commands::set(&mut connection, &name, "text").expect("it is taken");
    let _: () = redis::Commands::rpush(&mut connection, &of_a_job, "text").expect("it is taken");
    let (url, holder) = (server.url(), "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42");
    let no_lock = "the key holds something that is not a lock";
    for (words, says) in [
        (&["run", &*name, "true"][..], "WRONGTYPE, the key holds a string, as a lock of another library is"),
        (&["run", &*of_a_job, "true"], "WRONGTYPE, the key holds a list"),
        (&["once", "--every", "1h", &name, "true"], "WRONGTYPE, the key holds a list"),
        (&["inspect", &*of_a_job], "the key holds neither a hash nor a string"),
        (&["inspect", "--json", &of_a_job], "the key holds neither a hash nor a string"),
        (&["force-unlock", &*of_a_job, "--holder", holder, "-y"], "the key holds neither a hash nor a string"),
    ] {
        let words = [&["--url", &*url], words].concat();
        let line = format!("{no_lock}: {says}");
        fails(&words, 69, &line);
        let (_, said) = done(&mut relatch(&words)).with_a_line();
        assert!(said.ends_with(&line), "nothing is said of scripts: {said}");
        let job = format!("the server refused to acquire job \"{name}\": ");
        assert_eq!(words.contains(&"once"), said.starts_with(&job), "it is called what it is: {said}");
    }
}

#[test]
fn each_command_has_help_with_an_example() {
    for command in [&["run"][..], &["once"], &["inspect"], &["force-unlock"], &["doctor"], &["completions"], &[]] {
        let came = done(&mut relatch([command, &["--help"]].concat()));
        assert_eq!((came.status, &*came.err), (Some(0), ""));
        assert!(came.out.contains("Example") && came.out.contains("relatch "), "{}", came.out);
        assert!(!came.out.contains('\u{1b}'), "no colours where there is no terminal: {}", came.out);
    }
    assert!(done(&mut relatch(["--version"])).out.starts_with("relatch "));
}

#[test]
fn each_shell_has_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let came = done(&mut relatch(["completions", shell]));
        assert_eq!((came.status, &*came.err), (Some(0), ""));
        assert!(came.out.contains("relatch") && came.out.contains("max-hold"), "{shell}");
        assert!(!came.out.contains("__child"), "{shell}");
    }
}

#[test]
fn whoever_stops_reading_is_no_fault() {
    let server = Server::own();
    let mut connection = server.connection();
    // More than a pipe has room for.
    for number in 0..500 {
        let name = format!("{}:{number}", "x".repeat(400));
        let field = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42";
        let _: () = redis::Commands::hset(&mut connection, name, field, 1).expect("taken");
    }
    for words in ["--json --pattern '*'", "--pattern '*'"] {
        let program = crate::program::PROGRAM;
        let url = server.url();
        let text = format!("'{program}' --url '{url}' inspect {words} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}");
        let came = done(std::process::Command::new("bash").args(["-c", &text]));
        assert_eq!((&*came.out, &*came.err), ("0\n", ""), "{words}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_written_is_told() {
    let url = Server::shared().url();
    for words in
        [&["completions", "bash"][..], &["inspect", "a"], &["inspect", "--json", "a"], &["doctor"], &["--help"]]
    {
        let mut command = relatch(["--url", &url].iter().copied().chain(words.iter().copied()));
        let full = fs::File::options().write(true).open("/dev/full").expect("it is there");
        let output = command.stdout(full).output().expect("it starts");
        let (status, line) = crate::program::Came::of(output).with_a_line();
        assert_eq!(
            (status, &*line),
            (71, "cannot write the output: No space left on device (os error 28)"),
            "{words:?}"
        );
    }
}

#[test]
fn a_name_drives_no_terminal_by_way_of_json() {
    let url = Server::shared().url();
    let came = done(&mut relatch(["--url", &url, "inspect", "--json", "a\u{9b}31mb"]));
    assert_eq!(came.status, Some(0));
    assert!(came.out.contains(r#""name":"a\u009b31mb""#), "{came:?}");
}
