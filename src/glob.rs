//! Patterns of names: `*`, `?`, `[a-c]`, `[^a]`, `\*`.

/// Whether the whole text is one that the pattern means. Takes time by the product of both, never more.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut left) = (pattern, text);
    // Where to go on if this does not work out: after the last star, one byte later.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', after @ ..] = rest {
            rest = after;
            again = Some((after, left));
            continue;
        }
        let stepped = match left {
            [] if rest.is_empty() => return true,
            [] => None,
            [byte, others @ ..] => step(rest, *byte).map(|after| (after, others)),
        };
        (rest, left) = match (stepped, again) {
            (Some(next), _) => next,
            (None, Some((after, [_, later @ ..]))) => {
                again = Some((after, later));
                (after, later)
            }
            (None, _) => return false,
        };
    }
}

/// What remains of the pattern after one byte, if its first part means that byte.
fn step(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', after @ ..] => Some(after),
        [b'[', after @ ..] => set(after, byte),
        [b'\\', escaped, after @ ..] => (*escaped == byte).then_some(after),
        [plain, after @ ..] => (*plain == byte).then_some(after),
    }
}

/// The same for a set, without its opening bracket. One that is not closed ends with the pattern.
fn set(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (wanted, mut rest) = match pattern {
        [b'^', after @ ..] => (false, after),
        _ => (true, pattern),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', escaped, after @ ..] => {
                found |= *escaped == byte;
                after
            }
            [low, b'-', high, after @ ..] => {
                let (low, high) = (low.min(high), low.max(high));
                found |= (*low..=*high).contains(&byte);
                after
            }
            [plain, after @ ..] => {
                found |= *plain == byte;
                after
            }
        };
    }
    (found == wanted).then_some(rest)
}

/// What a pattern is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Itself, with a backslash before it or not.
    Byte(u8),
    /// `*`.
    Any,
    /// `?`, or a set in brackets.
    One,
}

/// The parts; `None` where the last one is not complete.
pub(crate) fn parts(mut pattern: &[u8]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    while let [first, after @ ..] = pattern {
        let (part, rest) = match (first, after) {
            (b'*', _) => (Part::Any, after),
            (b'?', _) => (Part::One, after),
            (b'[', _) => (Part::One, behind_set(after)?),
            (b'\\', [escaped, rest @ ..]) => (Part::Byte(*escaped), rest),
            (b'\\', []) => return None,
            (plain, _) => (Part::Byte(*plain), after),
        };
        parts.push(part);
        pattern = rest;
    }
    Some(parts)
}

/// What comes behind a set whose bracket is open.
fn behind_set(mut set: &[u8]) -> Option<&[u8]> {
    loop {
        set = match set {
            [] => return None,
            [b']', rest @ ..] => return Some(rest),
            [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
        };
    }
}

/// A pattern for this text alone. An access list takes no spaces: where there is one, any character may be.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '*' | '?' | '[' | ']' | '\\' => pattern.extend(['\\', char]),
            // One for each byte of it.
            blank if blank.is_whitespace() || blank.is_control() => pattern.extend((0..blank.len_utf8()).map(|_| '?')),
            plain => pattern.push(plain),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_says() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("a**b*", "axxbyy", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a", "ha", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"[\]]", "]", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_few() {
        assert!(!matches("a*".repeat(64).as_bytes(), &[b'a'; 63]));
    }

    #[test]
    fn a_pattern_has_parts_unless_its_last_one_is_not_complete() {
        use Part::{Any, Byte, One};
        for (pattern, expected) in [
            ("", Some(vec![])),
            ("a*?", Some(vec![Byte(b'a'), Any, One])),
            (r"\*[^a\]]{", Some(vec![Byte(b'*'), One, Byte(b'{')])),
            ("[a", None),
            (r"[a\]", None),
            ("a\\", None),
        ] {
            assert_eq!(parts(pattern.as_bytes()), expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_escaped_means_itself() {
        for text in ["a", r"a*b?c[d]e\f", "two words\n", "Schl\u{fc}ssel", "a\u{a0}b"] {
            let pattern = escaped(text);
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern}");
            assert!(!pattern.contains(char::is_whitespace) && parts(pattern.as_bytes()).is_some(), "{pattern}");
        }
        assert!(!matches(escaped("a*").as_bytes(), b"ab"));
    }
}
