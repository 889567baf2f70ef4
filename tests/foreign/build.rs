//! Tells the library's sources that proptest is here, and the compiler that they know more features than this member has.
//! Makes modules of the examples whose `main` a test can call.

use std::{env, fmt::Write, fs, path::Path};

fn main() {
    println!("cargo::rustc-cfg=relatch_proptest");
    println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={EXAMPLES}");
    let to = env::var_os("OUT_DIR").expect("cargo says where to");
    fs::write(Path::new(&to).join("examples.rs"), examples()).expect("that folder can be written to");
}

const EXAMPLES: &str = "../../examples";

/// Needs arguments, and is for benchmarks.
const NO_EXAMPLE: &str = "bench_peer";

fn examples() -> String {
    let mut paths: Vec<_> =
        fs::read_dir(EXAMPLES).expect("there are examples").map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let (mut modules, mut list) = (String::new(), String::new());
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let name = path.file_stem().expect("a name").to_string_lossy();
        if name == NO_EXAMPLE {
            continue;
        }
        let source = fs::read_to_string(path).expect("it can be read");
        // What is said of a whole file stands before everything else, which here it does not.
        let code: Vec<_> = source.lines().filter(|line| !line.starts_with("//!")).collect();
        let run = "pub(super) fn run() -> Result<(), String> { main().map_err(|error| error.to_string()) }";
        let _ = write!(modules, "mod {name} {{\n{}\n{run}\n}}\n\n", code.join("\n"));
        let _ = writeln!(list, "    (\"{name}\", {name}::run),");
    }
    format!("{modules}type Main = fn() -> Result<(), String>;\n\nconst EXAMPLES: &[(&str, Main)] = &[\n{list}];\n")
}
