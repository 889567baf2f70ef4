//! Lines with `flock` as they stand in crontabs and scripts: they work with the program's name changed, or say what to write.

use crate::{
    harness::{Server, unique_name},
    program::{Came, Folder, PROGRAM, done, shell},
};

/// Runs a line in which `flock` is our program.
fn ours(folder: &Folder, line: &str) -> Came {
    let line =
        line.replace(" LOCK", &format!(" /run/{}.lock", unique_name())).replace("flock ", &format!("{PROGRAM} run "));
    done(shell(&line).current_dir(folder.path()).env("RELATCH_URL", Server::shared().url()))
}

#[test]
fn lines_work_with_the_programs_name_changed() {
    let folder = Folder::new();
    std::fs::write(folder.at("artisan"), "").expect("it is written");
    for (line, out) in [
        ("flock -n LOCK -c 'cd /tmp && echo a'", "a\n"),
        ("flock -xn LOCK -c \"echo b\"", "b\n"),
        ("/usr/bin/env flock -w 60 LOCK echo c --archive --delete", "c --archive --delete\n"),
        ("flock --nonblock --conflict-exit-code 0 LOCK echo d", "d\n"),
        ("flock -n -E 0 LOCK echo e >> log 2>&1; cat log", "e\n"),
        ("flock -w0 LOCK echo f || echo busy", "f\n"),
        ("flock --timeout=5 --exclusive LOCK -- echo g", "g\n"),
        ("flock -o LOCK echo h -n", "h -n\n"),
        ("flock -en LOCK sh -c 'echo i \"$0\" \"$1\"' x y", "i x y\n"),
        ("nice -n 19 flock -n LOCK nice echo j", "j\n"),
        ("flock -w 0.5 LOCK --command 'echo k | tr k l'", "l\n"),
        ("export FLOCKER; [ \"${FLOCKER}\" != x ] && FLOCKER=x flock -en LOCK sh -c 'echo m $FLOCKER'", "m x\n"),
    ] {
        let came = ours(&folder, line);
        assert_eq!((came.status, &*came.out, &*came.err), (Some(0), out, ""), "{line}");
    }
}

#[test]
fn a_line_that_waits_finds_the_lock_held_as_flock_does() {
    let folder = Folder::new();
    let held = "flock LOCK sh -c '";
    for (line, status) in [("flock -n LOCK true", 75), ("flock -n -E 1 LOCK true", 1), ("flock -w 0.1 LOCK true", 75)] {
        let came = ours(&folder, &format!("{held}{line}'"));
        assert_eq!(came.status, Some(status), "{line}");
    }
}

#[test]
fn lines_that_cannot_work_say_what_to_write() {
    let folder = Folder::new();
    for (line, says) in [
        (
            "( flock -n 9 || exit 1; echo in ) 9>lock",
            "9: a descriptor cannot be locked, the lock ends with a command; write `relatch run NAME COMMAND`, or `relatch run NAME -c 'COMMANDS'` for what stands between ( and )",
        ),
        (
            "exec 9>lock; flock -n 9 || exit $?",
            "9: a descriptor cannot be locked, the lock ends with a command; write `relatch run NAME COMMAND`, or `relatch run NAME -c 'COMMANDS'` for what stands between ( and )",
        ),
        ("flock -s LOCK cat /etc/hostname", "-s: there is no shared lock; leave -s out, and one runs at a time"),
        (
            "flock --shared -w 3 LOCK cat /etc/hostname",
            "-s: there is no shared lock; leave -s out, and one runs at a time",
        ),
        ("flock -u 9", "-u: a lock ends with its command; write `relatch run NAME COMMAND`, and nothing to unlock it"),
        (
            "flock -F -n LOCK echo in",
            "-F: relatch stays to renew the lock; leave -F out, the command ends with relatch all the same",
        ),
        ("flock -n -c 'echo in' LOCK", "-c comes after the name: write `relatch run NAME -c 'COMMAND'`"),
        ("flock -n LOCK", "the command is missing: write `NAME COMMAND ARGUMENTS`"),
    ] {
        let came = ours(&folder, line);
        assert_eq!(came.out, "", "{line}");
        let (status, said) = came.with_a_line();
        assert_eq!(said, says, "{line}");
        assert!(status == 64 || line.contains("|| exit 1"), "{line}: {status}");
    }
}
