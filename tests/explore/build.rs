//! Tells the state's sources that they are compiled for the explorer, which asks more of a name than the library does.

fn main() {
    println!("cargo::rustc-cfg=relatch_explore");
    println!("cargo::rerun-if-changed=build.rs");
}
