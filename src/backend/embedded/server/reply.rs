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

impl Reply {
    pub(super) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(super) fn bulk(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::Nil, |bytes| Self::Bulk(bytes.to_vec()))
    }

    pub(super) fn bulks<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::Array(parts.map(|part| Self::Bulk(part.to_vec())).collect())
    }
}
