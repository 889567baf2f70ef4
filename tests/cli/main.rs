//! The program `relatch`, as a shell calls it, on real servers.

#[cfg(target_os = "linux")]
mod container;
mod deployments;
#[cfg(target_os = "linux")]
mod ending;
mod flock;
#[cfg(target_os = "linux")]
mod guide;
#[allow(dead_code, reason = "it is made for many tests more")]
#[path = "../it/harness/apart.rs"]
mod harness;
mod losing;
mod once;
#[cfg(target_os = "linux")]
mod operating;
#[cfg(target_os = "linux")]
mod periods;
mod program;
mod running;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(target_os = "linux")]
mod terminal;
mod wrong;
