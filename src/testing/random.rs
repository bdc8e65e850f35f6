//! A seeded random generator, and the scale of randomized tests. Integration tests include this file as source, so that
//! it exists once.
#![allow(dead_code, reason = "each who takes it in uses some of it")]

/// Returns the number of cases to run: `full`, scaled by the percentage in `TTSR_TEST_SCALE` if it is set.
pub(crate) fn scale(full: usize) -> usize {
    let percent = std::env::var("TTSR_TEST_SCALE").ok();
    let percent = percent.and_then(|text| text.parse().ok());
    (full * percent.unwrap_or(100) / 100).max(1)
}

/// A small seeded generator (SplitMix64), so that every failure can be reproduced.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
