//! A world as a number. Numbers that were drawn are called by the order in which they are met, so that two worlds that differ
//! only in how often something was drawn are one.

use std::hash::{Hash, Hasher};

use super::world::DRAWN;

/// An odd number without a pattern: each value is folded in by a product with it, both halves of which count.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// So many drawn numbers have a name of their own. One beyond keeps its number: then two worlds that are one may count as two.
const NAMES: usize = 64;

/// Kept apart from numbers that were not drawn.
const NAMED: u64 = 1 << 62;

struct Print {
    hash: u64,
    met: [u64; NAMES],
    count: usize,
}

impl Print {
    fn mix(&mut self, value: u64) {
        let product = u128::from(self.hash.rotate_left(23) ^ value) * u128::from(FACTOR);
        self.hash = (product as u64) ^ ((product >> 64) as u64) ^ value.rotate_left(32);
    }

    fn name(&mut self, drawn: u64) -> u64 {
        if let Some(at) = self.met[..self.count].iter().position(|met| *met == drawn) {
            return NAMED | at as u64;
        }
        if self.count == NAMES {
            return drawn;
        }
        self.met[self.count] = drawn;
        self.count += 1;
        NAMED | (self.count - 1) as u64
    }
}

impl Hasher for Print {
    fn finish(&self) -> u64 {
        let folded = u128::from(self.hash ^ FACTOR) * u128::from(FACTOR.rotate_left(17) | 1);
        (folded as u64) ^ ((folded >> 64) as u64)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let value = if value & DRAWN == 0 { value } else { self.name(value) };
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}

/// Never zero: that is an empty place among those that were met.
pub(crate) fn fingerprint(world: &impl Hash) -> u64 {
    let mut print = Print { hash: FACTOR, met: [0; NAMES], count: 0 };
    world.hash(&mut print);
    print.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{config::Config, process::Run, step::Step, world::World},
        *,
    };

    /// The world after these steps, of processes that drew so much before.
    fn print(steps: &[Step], drawn: u64) -> u64 {
        let config = Config::default();
        let mut world = World::new(&config);
        (0..world.processes.len()).for_each(|at| world.process(at).drawn = drawn);
        let mut run = Run::new(&config);
        let last = steps.iter().fold(world, |world, step| world.after(*step, &mut run));
        fingerprint(&last)
    }

    #[test]
    fn how_often_something_was_drawn_makes_no_other_world() {
        let steps = [Step::Ask(0, 0), Step::Run(0), Step::Answer(0), Step::Ask(1, 0)];
        assert_eq!(print(&steps, 0), print(&steps, 77));
    }

    #[test]
    fn which_number_stands_where_makes_another_world() {
        let granted = [Step::Ask(0, 0), Step::Run(0)];
        assert_ne!(print(&granted, 0), print(&[Step::Ask(1, 0), Step::Run(1)], 0));
        assert_ne!(print(&granted, 0), print(&granted[..1], 0));
    }
}
