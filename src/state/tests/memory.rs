//! What a name costs where there are very many.

use super::*;

/// There are as many as there are locks that somebody holds. What few of them ever have is behind a pointer.
#[test]
fn a_name_takes_no_more_than_256_bytes() {
    let bytes = size_of::<Name<u64, Box<u64>>>();
    assert!(bytes <= 256, "{bytes}");
}

/// They are pushed into a buffer that is kept: none of them is large.
#[test]
fn an_effect_takes_no_more_than_a_cache_line() {
    let bytes = size_of::<Effect<u64, Box<u64>>>();
    assert!(bytes <= 64, "{bytes}");
}
