//! Who holds a lock, by the name that an operator can say again. It asks nobody.

use std::{fmt, str::FromStr, sync::Arc};

use uuid::Uuid;

use crate::{
    error::{Error, Result},
    name::Shown,
};

/// So many digits of a token's digest are told.
const DIGITS: usize = 16;

/// What stands before the digest of a token.
const TOKEN: &str = "token:";

/// What a holder is called, in a text that [`Client::force_unlock_held`](crate::Client::force_unlock_held) takes.
///
/// The holder of a plain or a fenced lock, and an attempt at a periodic job, is `uuid:number`: the client, and the number of its hold
/// (with Redisson the thread's id). The holder of a token lock is `token:` and 16 digits of the token's SHA-1: whoever reads a token
/// can release the lock, so it is not shown.
///
/// # Examples
///
/// ```
/// use relatch::operate::HolderId;
///
/// # fn main() -> relatch::Result<()> {
/// let id: HolderId = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42".parse()?;
/// assert_eq!(id.hold(), Some(42));
/// assert_eq!(id.to_string(), "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11:42");
/// assert!("42".parse::<HolderId>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    Hold(Uuid, u64),
    Token(Arc<str>),
}

impl HolderId {
    /// The client that holds: [`Client::id`](crate::Client::id), or that of a Redisson. `None` for a token.
    #[must_use]
    pub fn client_id(&self) -> Option<Uuid> {
        if let Repr::Hold(client, _) = self.0 { Some(client) } else { None }
    }

    /// The number of the hold within that client. `None` for a token.
    #[must_use]
    pub fn hold(&self) -> Option<u64> {
        if let Repr::Hold(_, number) = self.0 { Some(number) } else { None }
    }

    /// Whether it stands for a token, which belongs to no client that could be named.
    #[must_use]
    pub fn is_token(&self) -> bool {
        matches!(self.0, Repr::Token(_))
    }

    /// A field of a lock's hash, if it is one: in no other form than that in which it is written.
    pub(crate) fn of_field(field: &str) -> Option<Self> {
        let id: Self = field.parse().ok()?;
        (!id.is_token() && id.to_string() == field).then_some(id)
    }

    /// Of a token with this digest, in hexadecimal.
    pub(crate) fn of_token(digest: &str) -> Self {
        Self(Repr::Token(digest.chars().take(DIGITS).collect::<String>().into()))
    }
}

impl FromStr for HolderId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_digest = |digits: &str| digits.len() == DIGITS && digits.bytes().all(|it| it.is_ascii_hexdigit());
        if let Some(digits) = text.strip_prefix(TOKEN).filter(|digits| is_digest(digits)) {
            return Ok(Self(Repr::Token(digits.to_ascii_lowercase().into())));
        }
        let hold = text.split_once(':').and_then(|(client, number)| {
            let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
            let client = Uuid::try_parse(client).ok().filter(|_| client.len() == 36 && is_number)?;
            Some(Repr::Hold(client, number.parse().ok()?))
        });
        hold.map(Self).ok_or_else(|| {
            let why = format!(
                "must be `uuid:number` or `token:` and {DIGITS} digits, as a look shows it, is {}",
                Shown(text)
            );
            Error::invalid("holder", why)
        })
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Hold(client, number) => write!(f, "{client}:{number}"),
            Repr::Token(digits) => write!(f, "{TOKEN}{digits}"),
        }
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HolderId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_from_what_it_is_shown_as_and_from_nothing_else() {
        let client = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11";
        for text in [format!("{client}:0"), format!("{client}:18446744073709551615"), "token:0123456789abcdef".into()] {
            assert_eq!(text.parse::<HolderId>().unwrap().to_string(), text);
        }
        let strange = [
            "",
            "1",
            client,
            "token:",
            "token:0123456789abcdeg",
            "token:0123456789abcdef0",
            &format!("{client}:"),
            &format!("{client}:+1"),
            &format!("{client}:-1"),
            &format!("{client}:1:2"),
            &format!("{client}:18446744073709551616"),
            &format!("{{{client}}}:1"),
            "6d1f4c1e5b3c4d589b0a3f6f7f0d2f11:1",
        ];
        for text in strange {
            assert!(matches!(text.parse::<HolderId>(), Err(Error::Invalid { what: "holder", .. })), "{text}");
        }
    }

    #[test]
    fn a_field_that_is_written_otherwise_is_no_holder() {
        let client = "6d1f4c1e-5b3c-4d58-9b0a-3f6f7f0d2f11";
        assert!(HolderId::of_field(&format!("{client}:1")).is_some());
        for field in
            [&format!("{client}:01"), &format!("{}:1", client.to_uppercase()), "token:0123456789abcdef", "mode"]
        {
            assert!(HolderId::of_field(field).is_none(), "{field}");
        }
    }
}
