//! What a release left.

/// What a release left.
///
/// # Examples
///
/// ```
/// use relatch::Released;
///
/// fn times_held(left: Released) -> u32 {
///     match left {
///         Released::StillHeld(times) => times,
///         _ => 0,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The hold is over: the lock is free, or somebody else of this client has it now.
    Freed,
    /// The owner still holds it so many times.
    StillHeld(u32),
    /// The hold had run out before the release came, nobody has the lock now, and nothing was left to free. Only a
    /// [`TokenLock`](crate::TokenLock) answers so: elsewhere a hold that ran out is [`Error::Lost`](crate::Error::Lost).
    AlreadyExpired,
}
