//! Tells the library's sources that proptest is here, and the compiler that they know more features than this member has.

fn main() {
    println!("cargo::rustc-cfg=relatch_proptest");
    println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
    println!("cargo::rerun-if-changed=build.rs");
}
