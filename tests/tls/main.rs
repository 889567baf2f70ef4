//! TLS, live. A program of its own, and a small one: it is built anew for each TLS library.
#![cfg(any(feature = "rustls", feature = "native-tls"))]

#[allow(dead_code, reason = "it is made for many tests more")]
#[path = "../it/harness/apart.rs"]
mod harness;
mod live;
