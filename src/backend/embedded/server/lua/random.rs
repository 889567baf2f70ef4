//! Random numbers of scripts: the server's, but the same ones for every run, so that two simulations are alike.

use std::sync::atomic::{AtomicU64, Ordering};

use mlua::Lua;

use super::raised::Raised;

/// The linear congruence of `lrand48`, with 48 bits of state.
#[derive(Debug, Default)]
pub(super) struct Random(AtomicU64);

const MASK: u64 = (1 << 48) - 1;

impl Random {
    pub(super) fn seed(&self, seed: i32) {
        let seed = u64::from(seed.cast_unsigned());
        self.0.store((seed << 16 | 0x330e) & MASK, Ordering::Relaxed);
    }

    fn next(&self) -> u32 {
        let state = self.0.load(Ordering::Relaxed).wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & MASK;
        self.0.store(state, Ordering::Relaxed);
        u32::try_from(state >> 17).unwrap_or_default()
    }

    /// From zero to one without arguments, else an integer up to the one or between the two.
    pub(super) fn draw(&self, lua: &Lua, first: Option<f64>, second: Option<f64>) -> mlua::Result<f64> {
        const MOST: u32 = i32::MAX.cast_unsigned();
        let drawn = f64::from(self.next() % MOST) / f64::from(MOST);
        let (least, most) = match (first, second) {
            (None, _) => return Ok(drawn),
            (Some(most), None) => (1.0, most.trunc()),
            (Some(least), Some(most)) => (least.trunc(), most.trunc()),
        };
        if least > most {
            let argument = if second.is_some() { 2 } else { 1 };
            let text = format!("bad argument #{argument} to 'random' (interval is empty)");
            return Err(Raised::here(lua, &text));
        }
        Ok((drawn * (most - least + 1.0)).floor() + least)
    }
}
