//! A seeded random generator, and the scale of randomized tests.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{ScopedJoinHandle, scope};

/// Returns the number of cases to run, out of `full`: a tenth, unless `TTSR_TEST_SCALE` names another percentage (CI: 60).
pub fn scale(full: usize) -> usize {
    let percent = std::env::var("TTSR_TEST_SCALE").ok();
    let percent = percent.and_then(|text| text.parse().ok());
    (full * percent.unwrap_or(10) / 100).max(1)
}

/// Runs `test` on four ranges that make up `0..cases`, on a thread each, and returns the results by range. For tests that
/// would run for long on one core at the end of their program.
///
/// # Panics
/// If one of the runs panics.
pub fn in_parts<T: Send>(cases: usize, test: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    const PARTS: usize = 4;
    let range = |part| cases * part / PARTS..cases * (part + 1) / PARTS;
    let test = &test;
    scope(|scope| {
        let spawn = |part| scope.spawn(move || test(range(part)));
        let running: Vec<_> = (0..PARTS).map(spawn).collect();
        let result =
            |part: ScopedJoinHandle<'_, T>| part.join().unwrap_or_else(|it| resume_unwind(it));
        running.into_iter().map(result).collect()
    })
}

/// A small seeded generator (SplitMix64), so that every failure can be reproduced.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator of numbers would be read by value"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns a number below `bound`, every second time.
    pub fn maybe(&mut self, bound: usize) -> Option<u32> {
        self.one_in(2).then(|| self.below(bound) as u32)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Returns some of the items, at most `most`, in a random order.
    pub fn list<T: Copy>(&mut self, of: &[T], most: usize) -> Vec<T> {
        let mut list: Vec<T> = of.to_vec();
        while list.len() > 1 + self.below(most) {
            list.swap_remove(self.below(list.len()));
        }
        list
    }
}
