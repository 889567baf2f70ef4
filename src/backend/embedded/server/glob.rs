//! Patterns of names: `*`, `?`, `[a-c]`, `[^a]`, `\*`.

/// Whether the whole text is one that the pattern means. Takes time by the product of both, never more.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
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
}
