//! Builds of a copy only what a hunt needs, in one target folder for all mutants: what does not change is compiled once.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::copy::{Copy, ROOT};

/// The explorer, or why it does not compile.
pub(crate) fn explorer(copy: &Copy) -> io::Result<Result<PathBuf, String>> {
    let built = cargo(copy, &["build", "--package", "explore"])?;
    Ok(built.status.success().then(|| target().join("mutants/explore")).ok_or_else(|| complaint(&built)))
}

/// A test of this package, or why it does not compile.
pub(crate) fn test(copy: &Copy, name: &str) -> io::Result<Result<PathBuf, String>> {
    let built = cargo(copy, &["test", "--no-run", "--package", "mutants", "--test", name])?;
    let said = String::from_utf8_lossy(&built.stderr);
    Ok(executable(&said).filter(|_| built.status.success()).ok_or_else(|| complaint(&built)))
}

/// Cargo says where it has put a test: `Executable tests/a.rs (target/…/a-0123456789abcdef)`.
fn executable(said: &str) -> Option<PathBuf> {
    let line = said.lines().find(|line| line.trim_start().starts_with("Executable "))?;
    Some(PathBuf::from(line.rsplit_once('(')?.1.trim_end().trim_end_matches(')')))
}

fn cargo(copy: &Copy, args: &[&str]) -> io::Result<Output> {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        .args(["--profile", "mutants", "--color", "never"])
        .current_dir(&copy.folder)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_INCREMENTAL", "1")
        // What nobody uses without a rule is no error.
        .env_remove("RUSTFLAGS")
        .output()
}

/// That of the repository: what else is built there is of other profiles. The next time what does not change is here already.
fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from);
    std::path::absolute(&target).unwrap_or(target)
}

fn complaint(built: &Output) -> String {
    let said = String::from_utf8_lossy(&built.stderr);
    let error = said.find("error").map_or(&*said, |at| &said[at..]);
    let words: Vec<&str> = error.split_whitespace().take(40).collect();
    format!("does not compile: {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_what_cargo_says() {
        let said = "    Finished `mutants` profile\n  Executable tests/a.rs (/tmp/target (1)/a-0123)\n";
        let found = executable(said);
        assert_eq!(found, executable("  Executable tests/a.rs (/tmp/target (1)/a-0123)"));
        assert_eq!(executable("  Executable tests/a.rs (/tmp/target/a-0123)"), Some("/tmp/target/a-0123".into()));
        assert_eq!(executable("nothing"), None);
    }
}
