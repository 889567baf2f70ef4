//! The program `relatch`, as a shell calls it, on real servers.

#[cfg(target_os = "linux")]
mod ending;
mod flock;
#[allow(dead_code, reason = "it is made for many tests more")]
mod harness;
mod losing;
mod once;
mod program;
mod running;
#[cfg(target_os = "linux")]
mod terminal;
mod wrong;
