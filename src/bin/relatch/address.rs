//! Where the server is: which of the places where that may be said counts.

use std::{ffi::OsString, fs::File, io::Read, path::PathBuf};

/// Without a word about it.
const DEFAULT: &str = "redis://127.0.0.1:6379";

/// So many bytes of a file are read: no address is longer, and some files never end.
const LONGEST: u64 = 64 * 1024;

/// Where the address is to be found.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Here(String),
    File(PathBuf),
}

/// What was said about it on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) url: Option<OsString>,
    pub(crate) file: Option<PathBuf>,
}

/// The address of the server; otherwise one line about why there is none.
pub(crate) fn find(given: Given, variable: impl Fn(&str) -> Option<OsString>) -> Result<String, String> {
    match place(given, variable)? {
        Place::Here(url) => Ok(url),
        Place::File(path) => read(&path),
    }
}

/// The command line goes before the variables, and an address before a file. What is empty was not said.
fn place(given: Given, variable: impl Fn(&str) -> Option<OsString>) -> Result<Place, String> {
    if let Some(url) = given.url {
        return text(url, "--url").map(Place::Here);
    }
    if let Some(path) = given.file {
        return Ok(Place::File(path));
    }
    let said = |name| variable(name).filter(|it| !it.is_empty());
    if let Some(url) = said("RELATCH_URL") {
        return text(url, "RELATCH_URL").map(Place::Here);
    }
    Ok(said("RELATCH_URL_FILE").map_or_else(|| Place::Here(DEFAULT.to_owned()), |path| Place::File(path.into())))
}

/// What it is may be a secret, so it is not repeated.
fn text(it: OsString, what: &str) -> Result<String, String> {
    it.into_string().map_err(|_| format!("{what} is no text in UTF-8"))
}

fn read(path: &PathBuf) -> Result<String, String> {
    let shown = path.display();
    let mut all = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut all))
        .map_err(|error| format!("cannot read the address from {shown}: {error}"))?;
    // Some editors mark a text with this, and do not show it.
    let mut lines = all.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next()) {
        (Some(url), None) => Ok(url.to_owned()),
        (None, _) => Err(format!("there is no address in {shown}")),
        (Some(_), Some(_)) => Err(format!("{shown} has more than one line: an address alone is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    #[test]
    fn the_command_line_goes_before_the_variables_and_an_address_before_a_file() {
        const BOTH: &[(&str, &str)] = &[("RELATCH_URL", "redis://a"), ("RELATCH_URL_FILE", "/b")];
        let url = Given { url: Some("redis://c".into()), ..Given::default() };
        let file = Given { file: Some("/d".into()), ..Given::default() };
        assert_eq!(place(url, with(BOTH)), Ok(Place::Here("redis://c".into())));
        assert_eq!(place(file, with(BOTH)), Ok(Place::File("/d".into())));
        assert_eq!(place(Given::default(), with(BOTH)), Ok(Place::Here("redis://a".into())));
        assert_eq!(place(Given::default(), with(&BOTH[1..])), Ok(Place::File("/b".into())));
        assert_eq!(place(Given::default(), with(&[])), Ok(Place::Here(DEFAULT.into())));
        assert_eq!(place(Given::default(), with(&[("RELATCH_URL", "")])), Ok(Place::Here(DEFAULT.into())));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let why = read(&"/no/such/file".into()).expect_err("it is not there");
        assert!(why.starts_with("cannot read the address from /no/such/file: No such file"), "{why}");
    }
}
