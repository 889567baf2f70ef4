//! The public surface as text, against `tests/it/public_api.txt`. It says nothing about behaviour.
//!
//! `UPDATE_PUBLIC_API=1 cargo test -p foreign --test public_api` writes the file anew; its diff is the change of the surface.
//! Reading a surface takes rustdoc's JSON, which only a nightly toolchain can write: without one the test is left out.

use std::{
    env, fs,
    io::{Write, stderr},
    path::{Path, PathBuf},
    process::Command,
};

/// Features that may add names. TLS adds none and would only cost a build.
const FEATURES: &str = "cluster,sentinel,embedded,operate";

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_public_surface_is_the_one_that_was_agreed_on() {
    let surface = match surface() {
        Ok(surface) => surface,
        Err(LeftOut(why)) => {
            // Straight to the stream: what a passing test prints is not shown.
            return writeln!(stderr(), "left out: the public surface was not compared, {why}").expect("stderr is open");
        }
    };
    let agreed_on = Path::new(ROOT).join("tests/it/public_api.txt");
    if env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&agreed_on, surface).expect("public_api.txt is written");
        return;
    }
    let agreed = fs::read_to_string(&agreed_on).expect("public_api.txt is there");
    let changes = changes(&agreed, &surface);
    assert!(
        changes.is_empty(),
        "the public surface changed:\n{}\nwhere that is meant, run with UPDATE_PUBLIC_API=1 and commit the file",
        changes.join("\n"),
    );
}

#[test]
fn every_public_enum_may_get_further_cases() {
    let agreed = fs::read_to_string(Path::new(ROOT).join("tests/it/public_api.txt")).expect("public_api.txt is there");
    let enums: Vec<_> = agreed.lines().filter(|line| line.contains("pub enum ")).collect();
    assert!(enums.len() >= 9, "{enums:?}");
    let closed: Vec<_> = enums.into_iter().filter(|line| !line.starts_with("#[non_exhaustive] ")).collect();
    assert!(closed.is_empty(), "{closed:?}");
}

#[test]
fn a_changed_line_of_the_surface_is_shown_from_both_sides() {
    assert_eq!(changes("a\nb\n", "a\nb\n"), Vec::<String>::new());
    assert_eq!(changes("a\nb\n", "a\nc\n"), ["- b", "+ c"]);
}

/// Why there is nothing to compare.
struct LeftOut(String);

fn surface() -> Result<String, LeftOut> {
    let json = rustdoc_json()?;
    let surface = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        // A toolchain that writes another version of the format than the reader knows says nothing about the surface.
        .map_err(|error| LeftOut(format!("since this nightly's rustdoc cannot be read ({error}): try another one")))?;
    Ok(format!("{surface}"))
}

fn rustdoc_json() -> Result<PathBuf, LeftOut> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "-V"]).output();
    if !nightly.is_ok_and(|said| said.status.success()) {
        return Err(LeftOut("since no nightly toolchain is installed (rustup toolchain install nightly)".into()));
    }
    // A folder of its own: the outer cargo holds the lock of the usual one.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("public-api");
    let built = Command::new("rustup")
        .args(["run", "nightly", "cargo", "rustdoc", "--lib", "--features", FEATURES])
        .args(["--manifest-path", &format!("{ROOT}/Cargo.toml")])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTDOCFLAGS")
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "rustdoc failed:\n{}", String::from_utf8_lossy(&built.stderr));
    Ok(target.join("doc/relatch.json"))
}

fn changes(agreed: &str, surface: &str) -> Vec<String> {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    let gone = agreed.lines().filter(|line| lacks(surface, line)).map(|line| format!("- {line}"));
    let new = surface.lines().filter(|line| lacks(agreed, line)).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}
