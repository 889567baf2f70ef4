//! An answer of the server, as RESP2 has it.

/// What a command answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::embedded) enum Reply {
    Nil,
    Int(i64),
    Status(String),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    /// The words after the `-`.
    Error(String),
}
