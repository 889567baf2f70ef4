//! Takes one rule out of the state at a time, in a copy, and sees that a world misses it: `explore mutants [NAME…]`.
//!
//! What people read has no switch for this. A rule is taken out by a patch of text that must apply exactly once; the copy is
//! compiled without debug assertions, so that the promises find what is missing by themselves.

mod table;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What is compiled, apart from the rest of the repository.
const COMPILED: &[&str] = &["src/state", "tests/explore/src"];

/// A world that has found nothing by then does not count as one that finds it.
const SECS: u64 = 60;

/// A rule that is taken out.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// In `src/state/`.
    pub(crate) file: &'static str,
    /// Stands there exactly once.
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    /// One of these must complain.
    pub(crate) worlds: &'static [&'static str],
}

impl Mutant {
    /// The text without the rule.
    fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(self.old).count() {
            1 => Ok(text.replace(self.old, self.new)),
            count => Err(format!("{}: its text stands {count} times in {}, and should once", self.name, self.file)),
        }
    }
}

/// Prints who is found by what. Whether all of them are.
pub(crate) fn run(names: &[String]) -> io::Result<bool> {
    if let Some(unknown) = names.iter().find(|name| table::MUTANTS.iter().all(|it| it.name != *name)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no mutant {unknown:?}")));
    }
    let copy = Copy::new()?;
    let chosen = table::MUTANTS.iter().filter(|it| names.is_empty() || names.iter().any(|name| name == it.name));
    let mut missed = Vec::new();
    println!("| mutant | found by | how | s |\n| --- | --- | --- | --- |");
    for mutant in chosen {
        let began = Instant::now();
        let found = copy.mutated(mutant)?;
        let secs = began.elapsed().as_secs_f64();
        match found {
            Ok((world, how)) => println!("| {} | {world} | {how} | {secs:.1} |", mutant.name),
            Err(why) => {
                println!("| {} | NOBODY | {why} | {secs:.1} |", mutant.name);
                missed.push(mutant.name);
            }
        }
    }
    println!("\nmissed: {}", if missed.is_empty() { "none".to_owned() } else { missed.join(", ") });
    Ok(missed.is_empty())
}

/// What is compiled, in a folder that goes with this.
struct Copy {
    folder: PathBuf,
}

impl Copy {
    fn new() -> io::Result<Self> {
        let copy = Self { folder: std::env::temp_dir().join(format!("relatch-mutants-{}", std::process::id())) };
        for part in COMPILED {
            copy_folder(&Path::new(ROOT).join(part), &copy.folder.join(part))?;
        }
        Ok(copy)
    }

    /// The world that finds it, and how; or why none does.
    fn mutated(&self, mutant: &Mutant) -> io::Result<Result<(&'static str, String), String>> {
        let path = self.folder.join("src/state").join(mutant.file);
        let text = fs::read_to_string(&path)?;
        let changed = match mutant.apply(&text) {
            Ok(changed) => changed,
            Err(complaint) => return Ok(Err(complaint)),
        };
        fs::write(&path, changed)?;
        let found = self.build().map(|built| built.and_then(|()| self.explore(mutant)));
        fs::write(&path, text)?;
        found
    }

    fn build(&self) -> io::Result<Result<(), String>> {
        let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        // Most of the time is the compiler's: little optimisation, and what did not change is not compiled again.
        let flags = ["--edition", "2024", "-Copt-level=1", "-Awarnings", "--crate-name", "explore"];
        let out = Command::new(compiler)
            .args(flags)
            .arg(format!("-Cincremental={}", self.folder.join("cache").display()))
            .arg("-o")
            .arg(self.program())
            .arg(self.folder.join("tests/explore/src/main.rs"))
            .env("CARGO_MANIFEST_DIR", self.folder.join("tests/explore"))
            .output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        Ok(if out.status.success() { Ok(()) } else { Err(format!("does not compile: {}", one_line(&said))) })
    }

    fn program(&self) -> PathBuf {
        self.folder.join("explore")
    }

    fn explore(&self, mutant: &Mutant) -> Result<(&'static str, String), String> {
        let mut said = format!("no complaint in {}", mutant.worlds.join(", "));
        for world in mutant.worlds {
            match self.explore_world(world) {
                Ok(Some(how)) => return Ok((world, how)),
                Ok(None) => {}
                Err(error) => said = format!("{world}: {error}"),
            }
        }
        Err(said)
    }

    /// How it finds something.
    fn explore_world(&self, world: &str) -> io::Result<Option<String>> {
        let out = self.folder.join("said");
        let mut child = Command::new(self.program())
            .args([world, "--secs", &SECS.to_string()])
            .stdout(fs::File::create(&out)?)
            .stderr(Stdio::null())
            .spawn()?;
        // Without its rule the state may go on for ever in one step.
        let ended = ends_within(&mut child, Duration::from_secs(SECS * 2))?;
        let said = fs::read_to_string(&out)?;
        let row = said.lines().find(|line| line.starts_with(&format!("| {world} |"))).unwrap_or_default();
        let cell = row.split(" | ").find_map(|cell| cell.strip_prefix("BROKEN "));
        Ok(match (ended, cell) {
            (false, _) => Some("goes on for ever".to_owned()),
            (true, Some(how)) => Some(how.to_owned()),
            (true, None) => None,
        })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether it ends by itself: it is killed if it does not.
fn ends_within(child: &mut Child, time: Duration) -> io::Result<bool> {
    let began = Instant::now();
    while began.elapsed() < time {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() { copy_folder(&path, &target)? } else { fs::copy(&path, &target).map(drop)? }
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().take(40).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies_exactly_once() {
        let complaints: Vec<String> = table::MUTANTS
            .iter()
            .filter_map(|mutant| {
                let text = fs::read_to_string(Path::new(ROOT).join("src/state").join(mutant.file)).unwrap_or_default();
                mutant.apply(&text).err()
            })
            .collect();
        assert_eq!(complaints, Vec::<String>::new());
    }

    #[test]
    fn a_patch_that_applies_twice_or_never_is_none() {
        let mutant = Mutant { name: "it", file: "a.rs", old: "rule", new: "", worlds: &[] };
        assert_eq!(mutant.apply("the rule stands").as_deref(), Ok("the  stands"));
        assert!(mutant.apply("the rule is a rule").is_err());
        assert!(mutant.apply("no such thing").is_err());
    }

    #[test]
    fn every_mutant_has_a_name_of_its_own_and_worlds_that_there_are() {
        let worlds: Vec<&str> = crate::explore::all().iter().map(|named| named.id).collect();
        for (at, mutant) in table::MUTANTS.iter().enumerate() {
            assert!(table::MUTANTS[..at].iter().all(|other| other.name != mutant.name), "{} twice", mutant.name);
            assert!(!mutant.worlds.is_empty(), "{} is looked for nowhere", mutant.name);
            assert!(mutant.worlds.iter().all(|world| worlds.contains(world)), "{}: no such world", mutant.name);
        }
    }
}
