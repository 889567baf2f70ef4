//! The program of the other libraries, which is a crate of its own so that they are no part of this one's tree.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::load::Result;

/// Where it is, if it could be built.
pub(crate) struct Peers {
    pub(crate) program: Option<PathBuf>,
}

impl Peers {
    pub(crate) fn none() -> Self {
        Self { program: None }
    }

    /// Builds it with the cargo that started this. Without it their figures are missing, and the rest is measured.
    pub(crate) fn build() -> Self {
        match build() {
            Ok(program) => Self { program: Some(program) },
            Err(error) => {
                eprintln!("other libraries are left out: {error}");
                Self::none()
            }
        }
    }
}

fn build() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/Cargo.toml");
    if !manifest.exists() {
        return Err("the package does not have them; the repository has".into());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]).arg(manifest);
    let built = cargo.arg("--target-dir").arg(&target).status()?;
    if built.success() { Ok(target.join("release/peers")) } else { Err(format!("cargo build: {built}").into()) }
}
