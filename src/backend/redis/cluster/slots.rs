//! Which slot a key is in, and which node has which slot: numbers, and nothing that connects.

/// A cluster has so many.
pub(super) const SLOTS: usize = 16_384;

/// The slot of a key or of a channel: of what stands between its first `{` and the next `}`, if anything does, else of all
/// of it.
pub(in crate::backend) fn slot(key: &[u8]) -> u16 {
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

/// Which node a slot is on, by its place; and for each slot what grows when its commands take another way.
pub(super) struct Slots {
    owners: Box<[u16]>,
    links: Box<[u64]>,
    eras: Box<[u64]>,
}

/// No node is known to have it.
pub(super) const NOBODY: u16 = u16::MAX;

impl Slots {
    pub(super) fn unknown() -> Self {
        let zeros = || vec![0; SLOTS].into_boxed_slice();
        Self { owners: vec![NOBODY; SLOTS].into_boxed_slice(), links: zeros(), eras: zeros() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<u16> {
        Some(self.owners[usize::from(slot)]).filter(|owner| *owner != NOBODY)
    }

    pub(super) fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// The last number that was drawn for the way to this slot.
    pub(super) fn link(&self, slot: u16) -> u64 {
        self.links[usize::from(slot)]
    }

    /// The last one that was drawn because another node has it.
    pub(super) fn era(&self, slot: u16) -> u64 {
        self.eras[usize::from(slot)]
    }

    /// What is sent from now on may overtake what was sent before.
    pub(super) fn rerouted(&mut self, slot: u16, number: u64) {
        self.links[usize::from(slot)] = number;
    }

    /// Another node has it. Whether that is news.
    pub(super) fn moved(&mut self, slot: u16, owner: u16, number: u64) -> bool {
        let news = self.owners[usize::from(slot)] != owner;
        if news {
            self.owners[usize::from(slot)] = owner;
            self.links[usize::from(slot)] = number;
            self.eras[usize::from(slot)] = number;
        }
        news
    }
}

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

    #[test]
    fn a_slots_numbers_grow_with_each_change_of_its_own_and_with_no_other() {
        let mut slots = Slots::unknown();
        assert_eq!((slots.owner(7), slots.link(7), slots.era(7)), (None, 0, 0));
        assert!(slots.moved(7, 2, 5) && !slots.moved(7, 2, 6));
        assert_eq!((slots.owner(7), slots.link(7), slots.era(7)), (Some(2), 5, 5));
        slots.rerouted(7, 8);
        assert_eq!((slots.owner(7), slots.link(7), slots.era(7)), (Some(2), 8, 5));
        assert!(slots.moved(7, 3, 9));
        assert_eq!((slots.link(7), slots.era(7)), (9, 9));
        assert_eq!((slots.owner(8), slots.link(8), slots.era(8)), (None, 0, 0));
    }
}
