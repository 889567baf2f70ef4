//! The name of a lock, as its user gave it. What is made of it on the server is decided elsewhere.

use std::{fmt, ops::Deref, sync::Arc};

use crate::error::{Error, Result};

/// The longest name, in bytes: far below what a server takes, so that a mistake is told apart from a name.
const LONGEST: usize = 65_536;

/// The longest part of a name that a message shows, in characters.
const SHOWN: usize = 100;

/// A valid name. Two names are the same only if every byte is: nothing is trimmed, folded or normalised.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name(Arc<str>);

impl Name {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        match name.len() {
            0 => Err(Error::invalid("name", "must not be empty: give each lock a name of 1 to 65536 bytes")),
            1..=LONGEST => Ok(Self(name.into())),
            bytes => {
                let why = format!("must be at most {LONGEST} bytes, is {bytes}: {}", Shown(name));
                Err(Error::invalid("name", why))
            }
        }
    }

    pub(crate) fn as_arc(&self) -> &Arc<str> {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Shown(self), f)
    }
}

/// A name as messages and events show it: quoted, with control characters escaped, and cut when it is long.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The same for a field of an event, which whoever writes the log quotes if it must: no quotes around it.
pub(crate) struct Field<'a>(pub(crate) &'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{}…", self.0[..end].escape_debug()),
            None => self.0.escape_debug().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn takes_any_text_of_a_sane_length_as_it_is() {
        let longest = "x".repeat(LONGEST);
        for text in ["a", " ", "\0", "a\nb", "{tag}:x", "orders:*", "Straße", "🔒", longest.as_str()] {
            let name = Name::parse(text).unwrap();
            assert_eq!(&*name, text);
            assert_eq!(&**name.as_arc(), text);
        }
    }

    #[test]
    fn refuses_the_empty_and_the_overlong_and_says_why() {
        let empty = Name::parse("").unwrap_err();
        assert_eq!(empty.to_string(), "name: must not be empty: give each lock a name of 1 to 65536 bytes");
        let long = Name::parse(&"x".repeat(LONGEST + 1)).unwrap_err();
        assert!(long.to_string().starts_with("name: must be at most 65536 bytes, is 65537: \"xxx"), "{long}");
        assert!(long.to_string().len() < 200);
        // The limit counts bytes: half as many two-byte characters and one more.
        assert!(Name::parse(&"é".repeat(LONGEST / 2)).is_ok());
        assert!(Name::parse(&"é".repeat(LONGEST / 2 + 1)).is_err());
    }

    #[test]
    fn distinct_texts_stay_distinct() {
        // Composed and decomposed, cased, padded, with a byte that C would stop at.
        let texts = ["é", "e\u{301}", "E\u{301}", "a", "A", "a ", " a", "a\0", "a\0b", "ａ"];
        let names: HashSet<_> = texts.iter().map(|text| Name::parse(text).unwrap()).collect();
        assert_eq!(names.len(), texts.len());
        assert_eq!(Name::parse("a").unwrap(), Name::parse("a").unwrap());
    }

    #[test]
    fn shows_itself_escaped_and_short() {
        assert_eq!(format!("{:?}", Name::parse("a\0\n\"").unwrap()), r#""a\0\n\"""#);
        let exact = "é".repeat(SHOWN);
        assert_eq!(Shown(&exact).to_string(), format!("\"{exact}\""));
        assert_eq!(Shown(&format!("{exact}!")).to_string(), format!("\"{exact}\"…"));
        assert_eq!(Field("orders:5 é").to_string(), "orders:5 é");
        assert_eq!(Field("a\0\n\"\u{1b}[2J").to_string(), r#"a\0\n\"\u{1b}[2J"#);
        assert_eq!(Field(&format!("{exact}!")).to_string(), format!("{exact}…"));
    }
}
