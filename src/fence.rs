//! Fencing tokens: what keeps a holder that was paused past its lease from writing late.
//!
//! A [`FencedLock`](crate::FencedLock) gives each holder a token that is greater than all before
//! ([`LockGuard::fence`](crate::LockGuard::fence)). It goes along with every write, and what is written to keeps the rule:
//!
//! > **Take a write only if its token is not less than the greatest that was taken before, and keep the greatest.**
//!
//! Not less, since one holder may write more than once. Both halves must be one step: two writers must not look at the old token
//! at once. For a value in this process there is [`Newest`], for one in Redis [`LUA`], for a row of a database the statements
//! of [`guide::fencing`](crate::guide::fencing).
//!
//! A token is a `u64` that the server counts from 1. It fits into a signed 64-bit column. Languages whose numbers are
//! doubles compare it as text: the longer one is greater, and of two of one length the one that sorts last.

use std::sync::atomic::{AtomicU64, Ordering};

/// The rule for a value in Redis: a Lua function `admits(newest, token)` to put before a script of one's own. `newest` is the key
/// where the greatest token is kept, beside what it guards and declared as that script's; `token` is text.
///
/// It answers `true` and keeps the token, or `false`: then the script must write nothing.
///
/// # Examples
///
/// ```
/// let write = format!(
///     "{}
///     if not admits(KEYS[2], ARGV[2]) then return 0 end
///     redis.call('SET', KEYS[1], ARGV[1])
///     return 1",
///     relatch::fence::LUA
/// );
/// // EVAL write 2 {balance:17} {balance:17}:fence 250 <guard.fence()>
/// ```
pub const LUA: &str = include_str!("fence/admits.lua");

/// The rule for a value in this process: the greatest token that it took.
///
/// # Examples
///
/// ```
/// let newest = relatch::fence::Newest::new();
/// assert!(newest.admits(33)); // a holder, which is paused
/// assert!(newest.admits(34)); // the next one
/// assert!(!newest.admits(33)); // the first one wakes up
/// assert!(newest.admits(34));
/// ```
#[derive(Debug, Default)]
pub struct Newest(AtomicU64);

impl Newest {
    /// Nothing was taken yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether a write with this token may be taken; if so, the token is kept. Who writes must have what is written to itself from
    /// before this is asked until it is written: two writers with different tokens may both be admitted, one after the other.
    #[must_use = "a write that is not admitted must not be made"]
    pub fn admits(&self, token: u64) -> bool {
        self.0.fetch_max(token, Ordering::SeqCst) <= token
    }
}
