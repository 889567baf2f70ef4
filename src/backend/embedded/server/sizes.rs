//! What keys and parts of values cost besides their own bytes, about.

/// What a key costs besides its bytes and its value.
pub(super) const KEY: usize = 96;

/// What a container costs for each of its parts.
pub(super) const PART: usize = 48;
