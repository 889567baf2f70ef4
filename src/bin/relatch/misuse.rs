//! Wrong calls: one line for each, which says what to write instead.

use std::{env, ffi::OsString};

use clap::{CommandFactory, error::ErrorKind};

use crate::args::{Cli, Flock};

/// What clap found wrong with it, in one line; `None` where it was asked for help or for the version.
pub(crate) fn line(error: &clap::Error, called: impl IntoIterator<Item = OsString>) -> Option<String> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Some("a command is missing: see `relatch --help`".to_owned())
        }
        _ => Some(condensed(&error.render().to_string(), &command_of(called))),
    }
}

/// `relatch`, or `relatch run`: whose help says more.
fn command_of(called: impl IntoIterator<Item = OsString>) -> String {
    let known = |word: &OsString| Cli::command().get_subcommands().any(|command| word == command.get_name());
    match called.into_iter().find(known) {
        Some(word) => format!("relatch {}", word.to_string_lossy()),
        None => "relatch".to_owned(),
    }
}

/// Of several lines all that comes before the usage.
fn condensed(rendered: &str, command: &str) -> String {
    let is_over = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more information");
    let lines: Vec<_> = rendered.lines().map(str::trim).take_while(|line| !is_over(line)).collect();
    let text = lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    format!("{}; see `{command} --help`", text.strip_prefix("error: ").unwrap_or(&text))
}

/// What the library calls wrong, as it is written here.
pub(crate) fn as_written(what: &str) -> &str {
    match what {
        "watchdog_timeout" => "--lease",
        "max_hold" => "--max-hold",
        "period" => "--every",
        "offset" => "--offset",
        "start_within" => "--start-within",
        "max_attempts" => "--attempts",
        "holder" => "--holder",
        "pattern" => "--pattern",
        "name" => "the name",
        "url" => "the server's address",
        other => other,
    }
}

/// What is to be run, and under which name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) name: String,
    pub(crate) command: Vec<OsString>,
}

/// What an option of flock's means that has no counterpart.
pub(crate) fn refused(flock: &Flock) -> Option<&'static str> {
    if flock.shared {
        return Some("-s: there is no shared lock; leave -s out, and one runs at a time");
    }
    if flock.unlock {
        return Some("-u: a lock ends with its command; write `relatch run NAME COMMAND`, and nothing to unlock it");
    }
    if flock.no_fork {
        return Some("-F: relatch stays to renew the lock; leave -F out, the command ends with relatch all the same");
    }
    if flock.early_command.is_some() {
        return Some("-c comes after the name: write `relatch run NAME -c 'COMMAND'`");
    }
    None
}

/// Name and command of `NAME [--] COMMAND…`, or of `NAME -c STRING` for the shell.
pub(crate) fn words(words: Vec<OsString>) -> Result<Words, String> {
    split(words, || env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into()))
}

fn split(words: Vec<OsString>, shell: impl FnOnce() -> OsString) -> Result<Words, String> {
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_default();
    let name = name.into_string().map_err(|_| "the lock's name is no text in UTF-8".to_owned())?;
    let mut command: Vec<_> = words.collect();
    match command.first().and_then(|first| first.to_str()) {
        Some("-c" | "--command") => {
            let [_, string] = <[OsString; 2]>::try_from(command)
                .map_err(|_| "-c takes one string, and nothing after it: write -c 'COMMAND ARGUMENTS'".to_owned())?;
            return Ok(Words { name, command: vec![shell(), "-c".into(), string] });
        }
        Some("--") => drop(command.remove(0)),
        _ => {}
    }
    match command.first() {
        Some(first) if first.is_empty() => Err("the command is empty".to_owned()),
        Some(_) => Ok(Words { name, command }),
        None if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!(
            "{name}: a descriptor cannot be locked, the lock ends with a command; write `relatch run NAME COMMAND`, or \
             `relatch run NAME -c 'COMMANDS'` for what stands between ( and )"
        )),
        None => Err("the command is missing: write `NAME COMMAND ARGUMENTS`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn said(words: &[&str]) -> String {
        let error = Cli::try_parse_from(words).expect_err("it is wrong");
        line(&error, words.iter().map(Into::into)).expect("it is wrong")
    }

    fn split(of: &[&str]) -> Result<Words, String> {
        super::split(of.iter().map(Into::into).collect(), || "/bin/sh".into())
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        assert_eq!(
            said(&["relatch", "run", "--nope", "a"]),
            "unexpected argument '--nope' found tip: to pass '--nope' as a value, use '-- --nope'; see `relatch run --help`"
        );
        assert_eq!(
            said(&["relatch", "run", "--lease", "10", "a", "b"]),
            "invalid value '10' for '--lease <DURATION>': a duration needs a unit, such as 10s or 10m; see `relatch run --help`"
        );
        assert_eq!(said(&["relatch"]), "a command is missing: see `relatch --help`");
        let missing = said(&["relatch", "run"]);
        assert!(missing.starts_with("the following required arguments were not provided"), "{missing}");
        for words in
            [&["relatch", "rum"][..], &["relatch", "run", "-n", "-w", "1", "a"], &["relatch", "run", "-E", "300", "a"]]
        {
            assert!(!said(words).contains('\n'));
        }
    }

    #[test]
    fn a_name_is_followed_by_a_command_or_by_a_string_for_the_shell() {
        let ran = |name: &str, command: &[&str]| {
            Ok(Words { name: name.into(), command: command.iter().map(Into::into).collect() })
        };
        assert_eq!(split(&["a", "b", "-c", "d"]), ran("a", &["b", "-c", "d"]));
        assert_eq!(split(&["a", "--", "b", "--", "c"]), ran("a", &["b", "--", "c"]));
        assert_eq!(split(&["a", "-c", "b c"]), ran("a", &["/bin/sh", "-c", "b c"]));
        assert_eq!(split(&["9", "b"]), ran("9", &["b"]));
    }

    #[test]
    fn a_command_that_is_none_says_what_to_write() {
        for (of, says) in [
            (&["9"][..], "descriptor"),
            (&["a"], "missing"),
            (&["a", "--"], "missing"),
            (&["a", ""], "empty"),
            (&["a", "-c"], "one string"),
            (&["a", "-c", "b", "c"], "one string"),
        ] {
            assert!(split(of).is_err_and(|why| why.contains(says)), "{of:?}");
        }
    }
}
