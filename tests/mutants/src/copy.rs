//! A copy of the repository's sources, which goes with the command, and in which one rule at a time is missing.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::mutant::{By, Mutant};

/// No rule: in the copy a script is read when it is first run, so that a fault of one needs no compiler.
pub(crate) const SCRIPTS_ARE_READ: Mutant = Mutant {
    name: "scripts-are-read",
    fault: "none",
    file: "src/backend/embedded/server/lua/mod.rs",
    old: "self.cached(script.source.as_bytes())?",
    new: "self.cached(&std::fs::read(script.path).unwrap_or_else(|_| script.source.into()))?",
    by: By::Distances,
};

/// The repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub(crate) struct Copy {
    pub(crate) folder: PathBuf,
}

impl Copy {
    /// Of all that is tracked, or would be if it were added, as it stands now.
    pub(crate) fn new() -> io::Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(ROOT)
            .output()?;
        if !listed.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        let folder = std::env::temp_dir().join(format!("relatch-mutants-{}", std::process::id()));
        // It goes whatever happens from now on.
        let copy = Self { folder };
        for file in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let from = Path::new(ROOT).join(file);
            // One that was deleted is listed until that is committed.
            if from.is_file() {
                let to = copy.folder.join(file);
                fs::create_dir_all(to.parent().unwrap_or(&to))?;
                fs::copy(from, to)?;
            }
        }
        let path = copy.folder.join(SCRIPTS_ARE_READ.file);
        let changed = SCRIPTS_ARE_READ.apply(&fs::read_to_string(&path)?).map_err(io::Error::other)?;
        fs::write(&path, changed)?;
        Ok(copy)
    }

    /// What comes of it while the rule is missing. The text is as it was afterwards.
    pub(crate) fn mutated<T>(
        &self,
        mutant: &Mutant,
        hunt: impl FnOnce(&Self) -> io::Result<Result<T, String>>,
    ) -> io::Result<Result<T, String>> {
        let path = self.folder.join(mutant.file);
        let text = fs::read_to_string(&path)?;
        let changed = match mutant.apply(&text) {
            Ok(changed) => changed,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let written = fs::metadata(&path)?.modified()?;
        fs::write(&path, changed)?;
        let found = hunt(self);
        fs::write(&path, text)?;
        if mutant.is_of_script() {
            // Nothing was compiled from it meanwhile, and nothing needs to be.
            fs::File::options().append(true).open(&path)?.set_modified(written)?;
        }
        found
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
