//! The text by which a token lock is held. Whoever has it can extend and release the lock, so it is not shown.

use std::{fmt, str::FromStr, sync::Arc};

use crate::error::{Error, Result};

/// What a token lock is held by: the value of its key, which nobody else writes there.
///
/// Whoever has it, in this process or another, in Rust or not, can extend and release the lock:
/// [`TokenLock::resume`](crate::TokenLock::resume). It comes from [`LockGuard::token`](crate::LockGuard::token) or
/// [`LockGuard::into_token`](crate::LockGuard::into_token), or is the text that another library took the lock with. What
/// [`Debug`](fmt::Debug) shows does not give it away; [`as_ref`](AsRef::as_ref) is the text.
///
/// The tokens of one client begin alike and are counted on. Whoever reads one can build those of all other token locks of that client,
/// and release them.
///
/// # Examples
///
/// ```
/// # fn main() -> relatch::Result<()> {
/// let token: relatch::Token = "c0ffee".parse()?;
/// assert_eq!(token.as_ref(), "c0ffee");
/// assert_eq!(format!("{token:?}"), "Token(..)");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Arc<str>);

/// The longest that is taken: what is longer is no token.
const LONGEST: usize = 65_536;

impl Token {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.into())
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.len() {
            0 => Err(Error::invalid("token", "must not be empty: nobody holds a lock by nothing")),
            1..=LONGEST => Ok(Self::of(text)),
            length => Err(Error::invalid("token", format!("must have at most {LONGEST} bytes, has {length}"))),
        }
    }
}

impl AsRef<str> for Token {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_of_another_library_is_a_token_and_no_error_repeats_one() {
        for text in ["x", "YWJj+/==", "two words", &"x".repeat(LONGEST)] {
            let token: Token = text.parse().unwrap();
            assert_eq!((token.as_ref(), &*format!("{token:?}")), (text, "Token(..)"));
        }
        for text in ["", &"s3cret".repeat(LONGEST)] {
            let error = text.parse::<Token>().unwrap_err();
            assert!(matches!(error, Error::Invalid { what: "token", .. }) && !error.to_string().contains("s3cret"));
        }
    }
}
