//! One script as it is asked for, and the value that is answered: free of any driver. It sends nothing.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use super::Dispatch;
use crate::script::Script;

/// One script with its keys and arguments, borrowed: a backend encodes it before it returns.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [Arg<'a>],
    /// Asked before each sending; the calls of one pipeline leave together or not at all.
    pub(crate) dispatch: Option<&'a Arc<Dispatch>>,
    pub(crate) polled: Polled,
}

/// Who polls for the answer to a command, and so what the time until it is seen says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// A task of ours, at once: that is how far the server is.
    ByUs,
    /// A caller, who may look much later.
    ByCaller,
}

/// An argument as it goes to the server.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    Text(&'a str),
    /// Text as its bytes, for what was built of text a moment ago.
    Bytes(&'a [u8]),
    Int(i64),
}

/// A reply, free of any driver.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    /// An array of nothing but numbers, as most scripts answer: a few need no memory of their own.
    Numbers(SmallVec<[i64; 4]>),
    /// Any other array.
    Array(Vec<Value>),
}

impl Value {
    /// An array of these parts, if there are any and each is a number.
    pub(super) fn of_numbers<P>(parts: &[P], number: impl Fn(&P) -> Option<i64>) -> Option<Self> {
        if parts.is_empty() { None } else { parts.iter().map(number).collect::<Option<_>>().map(Self::Numbers) }
    }

    /// The numbers of an array of numbers; none of anything else.
    pub(crate) fn numbers(&self) -> &[i64] {
        if let Self::Numbers(numbers) = self { numbers } else { &[] }
    }
}

/// Kinds and lengths only: whoever answered may repeat a credential, as a text or as numbers.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("Nil"),
            Self::Int(_) => f.write_str("Int"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Numbers(numbers) => write!(f, "Numbers({})", numbers.len()),
            Self::Array(parts) => f.debug_list().entries(parts).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_shown_by_its_kind_and_its_length() {
        let numbers = Value::Numbers(b"s3cret".iter().map(|byte| i64::from(*byte)).collect());
        let parts = Value::Array(vec![Value::Nil, Value::Bytes(b"s3cret\xff".to_vec()), Value::Array(Vec::new())]);
        let rows = [(Value::Int(1234), "Int"), (numbers, "Numbers(6)"), (parts, "[Nil, Bytes(7), []]")];
        for (value, shown) in rows {
            assert_eq!(format!("{value:?}"), shown);
        }
    }
}
