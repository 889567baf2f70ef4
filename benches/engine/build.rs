//! Tells the library's sources that they are compiled for this bench, and the compiler that they know more features than this
//! member has.

fn main() {
    println!("cargo::rustc-cfg=relatch_engine_bench");
    println!("cargo::rustc-check-cfg=cfg(feature, values(any()))");
    println!("cargo::rerun-if-changed=build.rs");
}
