//! The token lock.
