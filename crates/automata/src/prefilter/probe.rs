//! The vector probe of the prefilter: it finds the places where a window of four bytes may start.
#![allow(unsafe_code)] // vector loads: the reasons stand at each block

use super::super::simd::SimdLevel;

/// The bytes of a window that the probe compares.
pub(crate) const WIDTH: usize = 4;

/// Eight sets of bytes for each position of a window: bit `i` of `masks[position][slot(byte)]` is set if set `i`
/// contains the byte.
pub(crate) type BucketMasks = [[u8; 64]; WIDTH];

/// The condition that makes a place a candidate.
#[derive(Debug)]
pub(crate) enum WindowProbe {
    /// Two bytes of the window, by position.
    Pair([(usize, u8); 2]),
    /// Every position in the same set of one of at most four groups.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only vector instructions read the groups")
    )]
    Groups(Box<[BucketMasks]>),
}

/// Returns the slot of a byte. Both cases of a letter share one.
pub(crate) fn slot(byte: u8) -> usize {
    // Six bits, as many as one permutation of 64 bytes looks up. Bits 5 (the case of letters) and 7 are dropped; `mark`
    // finds the bytes with bit 7 by themselves.
    usize::from(byte & 0x1F | byte >> 1 & 0x20)
}

/// The number of places that are probed at once.
pub(crate) const SPAN: usize = 64 * BLOCKS;
const BLOCKS: usize = 16;

/// The candidates among the probed places, one bit each.
pub(crate) type CandidateBits = [u64; BLOCKS];

impl WindowProbe {
    /// Marks the candidates among the first `starts` places of `text`, at most [`SPAN`], and every byte there that is
    /// not ASCII. The text extends a window past them. Returns whether there are any; `None` if the processor lacks the
    /// instructions.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(
            unused_variables,
            reason = "without vector instructions nothing is marked"
        )
    )]
    pub(crate) fn mark(
        &self,
        level: SimdLevel,
        text: &[u8],
        starts: usize,
        marks: &mut CandidateBits,
    ) -> Option<bool> {
        assert!(starts <= SPAN && starts + WIDTH - 1 <= text.len());
        if let WindowProbe::Pair(pair) = self {
            assert!(pair.iter().all(|&(place, _)| place < WIDTH));
        }
        match (level, self) {
            (SimdLevel::Portable, _) => None,
            // SAFETY: the level is `Avx512` only if the processor supports the instruction sets of these functions.
            #[cfg(target_arch = "x86_64")]
            (SimdLevel::Avx512, WindowProbe::Pair(pair)) => {
                Some(unsafe { avx512::pair(*pair, text, starts, marks) })
            }
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            (SimdLevel::Avx512, WindowProbe::Groups(groups)) => Some(unsafe {
                match groups.len() {
                    1 => avx512::groups::<1>(groups, text, starts, marks),
                    2 => avx512::groups::<2>(groups, text, starts, marks),
                    _ => avx512::groups::<4>(groups, text, starts, marks),
                }
            }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_cmpeq_epi8_mask, _mm512_loadu_si512,
        _mm512_mask_cmpeq_epi8_mask, _mm512_maskz_loadu_epi8, _mm512_movepi8_mask, _mm512_or_si512,
        _mm512_permutexvar_epi8, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_srli_epi16,
        _mm512_test_epi8_mask,
    };

    use super::{BucketMasks, CandidateBits, WIDTH};

    /// Loads sixty-four bytes of `text` from `at + place`, zeros where `present` has no bit.
    ///
    /// # Safety
    /// `present` has no bit for a byte past the end of the text.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(text: &[u8], at: usize, place: usize, present: u64) -> __m512i {
        debug_assert!(at + place + 64 - present.leading_zeros() as usize <= text.len());
        // SAFETY: bytes without a bit are not read; the caller promises that the others are in the text.
        // PERF: as for `groups` below.
        unsafe { _mm512_maskz_loadu_epi8(present, text.as_ptr().add(at + place).cast()) }
    }

    /// Calls `mark` for each block of places, with the bits of the places that exist.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn each(starts: usize, marks: &mut CandidateBits, mark: impl Fn(usize, u64) -> u64) -> bool {
        let mut any = 0;
        for (block, marks) in marks.iter_mut().enumerate() {
            let at = 64 * block;
            if at >= starts {
                break;
            }
            // Between 1 and 64 places are left, so the shift is below 64.
            let present = u64::MAX >> (64 - (starts - at).min(64));
            *marks = mark(at, present);
            any |= *marks;
        }
        any != 0
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn pair(
        [first, second]: [(usize, u8); 2],
        text: &[u8],
        starts: usize,
        marks: &mut CandidateBits,
    ) -> bool {
        let byte = |(_, byte): (usize, u8)| _mm512_set1_epi8(byte as i8);
        let (one, two) = (byte(first), byte(second));
        each(starts, marks, |at, present| {
            // SAFETY: `each` sets bits of the first `starts` places only, the positions of the pair are in a window,
            // and the text extends a window past the last place: `WindowProbe::mark` asserts both.
            let load = |place: usize| unsafe { load(text, at, place, present) };
            let found = _mm512_cmpeq_epi8_mask(load(first.0), one);
            let found = _mm512_mask_cmpeq_epi8_mask(found, load(second.0), two);
            found & present | _mm512_movepi8_mask(load(0))
        })
    }

    // PERF: testing one byte at a time runs at the speed of lanes: 1.0 GB/s at 10 rules, against 7.9 here
    // (`cargo bench --bench versus -- 10`, 64 KB).
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn groups<const COUNT: usize>(
        groups: &[BucketMasks],
        text: &[u8],
        starts: usize,
        marks: &mut CandidateBits,
    ) -> bool {
        let mut tables = [[_mm512_setzero_si512(); WIDTH]; COUNT];
        for (tables, group) in tables.iter_mut().zip(groups) {
            for (table, slots) in tables.iter_mut().zip(group) {
                // SAFETY: the slots are 64 bytes. PERF: as above.
                *table = unsafe { _mm512_loadu_si512(slots.as_ptr().cast()) };
            }
        }
        let (low, high) = (_mm512_set1_epi8(0x1F), _mm512_set1_epi8(0x20));
        each(starts, marks, |at, present| {
            let mut found = _mm512_setzero_si512();
            let mut slots = [_mm512_setzero_si512(); WIDTH];
            let mut wide = 0;
            for (place, slots) in slots.iter_mut().enumerate() {
                // SAFETY: as in `pair`; there are as many slots as positions in a window.
                let bytes = unsafe { load(text, at, place, present) };
                if place == 0 {
                    wide = _mm512_movepi8_mask(bytes);
                }
                let upper = _mm512_and_si512(_mm512_srli_epi16::<1>(bytes), high);
                *slots = _mm512_or_si512(_mm512_and_si512(bytes, low), upper);
            }
            for tables in &tables {
                let of = |place: usize| _mm512_permutexvar_epi8(slots[place], tables[place]);
                let all = _mm512_and_si512(
                    _mm512_and_si512(of(0), of(1)),
                    _mm512_and_si512(of(2), of(3)),
                );
                found = _mm512_or_si512(found, all);
            }
            _mm512_test_epi8_mask(found, found) & present | wide
        })
    }
}

#[cfg(test)]
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod tests {
    use super::*;
    use ttsr_testing::{Random, skip};

    /// Returns whether a place is a candidate, by the definition.
    fn is_candidate(probe: &WindowProbe, text: &[u8], at: usize) -> bool {
        let window = &text[at..at + WIDTH];
        let fits = match probe {
            WindowProbe::Pair(pair) => pair.iter().all(|&(place, byte)| window[place] == byte),
            WindowProbe::Groups(groups) => groups.iter().any(|group| {
                let classes = window.iter().zip(group).map(|(&byte, set)| set[slot(byte)]);
                classes.fold(u8::MAX, |all, set| all & set) != 0
            }),
        };
        fits || !window[0].is_ascii()
    }

    #[test]
    fn candidates_are_those_of_the_definition() {
        if SimdLevel::best() == SimdLevel::Portable {
            return skip::test("this processor has no AVX-512, so nothing is probed");
        }
        let mut random = Random::new(9);
        let mut probes = vec![
            WindowProbe::Pair([(0, b'a'), (2, b'q')]),
            WindowProbe::Pair([(1, b'a'), (3, b'z')]),
        ];
        for count in [1, 2, 4] {
            let mut groups = vec![[[0; 64]; WIDTH]; count];
            for set in 0..8 * count {
                for slots in &mut groups[set / 8] {
                    for _ in 0..1 + random.below(3) {
                        let byte = b"azq "[random.below(4)];
                        slots[slot(byte)] |= 1 << (set % 8);
                    }
                }
            }
            probes.push(WindowProbe::Groups(groups.into_boxed_slice()));
        }
        // Non-ASCII bytes that share their slots with the searched ones.
        let bytes = b"azqAZQ xy\xE1\xFA\xF1\xA0\xC3";
        for round in 0..200 {
            let starts = [SPAN, 1, 63, 64, 65, 700][round % 6];
            let text = (0..starts + WIDTH - 1 + random.below(3)).map(|_| {
                let rare = random.one_in(1 + round % 9);
                if rare {
                    bytes[random.below(bytes.len())]
                } else {
                    b'.'
                }
            });
            let text: Vec<u8> = text.collect();
            for probe in &probes {
                let mut marks = [0; SPAN / 64];
                let any = probe.mark(SimdLevel::best(), &text, starts, &mut marks);
                let expected: Vec<usize> = (0..starts)
                    .filter(|&at| is_candidate(probe, &text, at))
                    .collect();
                let found = (0..SPAN).filter(|at| marks[at / 64] >> (at % 64) & 1 == 1);
                assert_eq!(found.collect::<Vec<_>>(), expected, "{probe:?}");
                assert_eq!(any, Some(!expected.is_empty()));
                assert_eq!(
                    probe.mark(SimdLevel::Portable, &text, starts, &mut marks),
                    None
                );
            }
        }
    }
}
