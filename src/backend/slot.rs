//! Which slot of a cluster a key is in: a number, by its hash tag.

/// A cluster has so many.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key or of a channel: of what stands between its first `{` and the next `}`, if anything does, else of all
/// of it.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

fn tag(key: &[u8]) -> &[u8] {
    let between = || {
        let inside = &key[key.iter().position(|byte| *byte == b'{')? + 1..];
        inside.get(..inside.iter().position(|byte| *byte == b'}')?)
    };
    between().filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// The polynomial of XMODEM, as the specification of clusters has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let at = usize::from((crc >> 8) as u8 ^ byte);
        (crc << 8) ^ TABLE[at]
    })
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = ((at as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let rows: [(&str, u16); 6] = [
            ("foo", 12_182),
            ("bar", 5061),
            ("somekey", 11_058),
            ("foo{hash_tag}", 2515),
            ("", 0),
            ("bar{hash_tag}", 2515),
        ];
        for (key, expected) in rows {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn the_tag_is_what_stands_between_the_first_braces_unless_that_is_nothing() {
        let rows = [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("}foo{bar}", "bar"),
            ("", ""),
            ("{", "{"),
            ("{}", "{}"),
        ];
        for (key, expected) in rows {
            assert_eq!(tag(key.as_bytes()), expected.as_bytes(), "{key}");
        }
    }
}
