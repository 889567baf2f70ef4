//! Whether a hold was given to its owner, or tried for.

/// How its owner came by a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// Somebody of this process gave it away.
    Given,
    /// It tried for it, and did not come for it yet.
    Tried,
    /// The same, and it came.
    Taken,
}
