//! A message that was published. It knows nobody who listens.

/// A message on its way to whoever listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::embedded) struct Published {
    pub(in crate::backend::embedded) channel: Vec<u8>,
    pub(in crate::backend::embedded) message: Vec<u8>,
    /// By SPUBLISH, which reaches other listeners than PUBLISH does.
    pub(in crate::backend::embedded) sharded: bool,
}
