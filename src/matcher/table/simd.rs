//! What the processor does with many bytes at once: where windows of four bytes may begin.
//!
//! Which of its abilities are used is a [`Level`], found out once, and forced in tests.

/// What the processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// What every processor can: no windows are looked for.
    Portable,
    /// AVX-512 with byte permutations (`vbmi`).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The most that this processor can do.
    pub(crate) fn best() -> Level {
        #[cfg(target_arch = "x86_64")]
        if super::short::has_avx512() {
            return Level::Avx512;
        }
        Level::Portable
    }
}

/// Bytes of a window.
pub(crate) const WIDTH: usize = 4;

/// Sets of bytes at each place of a window, eight at a time: bit `i` of `group[place][slot(byte)]` says
/// whether set `i` has the byte.
pub(crate) type Group = [[u8; 64]; WIDTH];

/// What a window must look like to be a candidate.
#[derive(Debug)]
pub(crate) enum Probe {
    /// Two of its bytes, by place.
    Pair([(usize, u8); 2]),
    /// Every place in the same set of some group; at most four groups.
    Groups(Box<[Group]>),
}

/// The slot of a byte: letters of both cases share theirs.
pub(crate) fn slot(byte: u8) -> usize {
    usize::from(byte & 0x1F | byte >> 1 & 0x20)
}

/// Window starts that are probed at once.
pub(crate) const SPAN: usize = 64 * BLOCKS;
const BLOCKS: usize = 16;

/// Which window starts are candidates, a bit each.
pub(crate) type Marks = [u64; BLOCKS];

impl Probe {
    /// Marks the candidates among the first `starts` places of `text`, at most [`SPAN`], and every byte
    /// there that is not ASCII. The text goes on for a window beyond them. Says whether there are any;
    /// `None` if the processor cannot do it.
    pub(crate) fn mark(
        &self,
        level: Level,
        text: &[u8],
        starts: usize,
        marks: &mut Marks,
    ) -> Option<bool> {
        assert!(starts <= SPAN && starts + WIDTH - 1 <= text.len());
        if let Probe::Pair(pair) = self {
            assert!(pair.iter().all(|&(place, _)| place < WIDTH));
        }
        match (level, self) {
            (Level::Portable, _) => None,
            // SAFETY: the level is `Avx512` only where the processor has these features.
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, Probe::Pair(pair)) => {
                Some(unsafe { avx512::pair(*pair, text, starts, marks) })
            }
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, Probe::Groups(groups)) => Some(unsafe {
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

    use super::{Group, Marks, WIDTH};

    /// Sixty-four bytes of `text` from `at`, as many as are among the first `starts` window starts; zeros
    /// for the others.
    ///
    /// # Safety
    /// `present` has no bit of a byte beyond the text.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(text: &[u8], at: usize, place: usize, present: u64) -> __m512i {
        debug_assert!(at + place + 64 - present.leading_zeros() as usize <= text.len());
        // SAFETY: bytes without a bit are not read, and the others are in the text: the caller's promise.
        // PERF: as for `groups` below.
        unsafe { _mm512_maskz_loadu_epi8(present, text.as_ptr().add(at + place).cast()) }
    }

    /// Calls `mark` for each block of window starts with those that there are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn each(starts: usize, marks: &mut Marks, mark: impl Fn(usize, u64) -> u64) -> bool {
        let mut any = 0;
        for (block, marks) in marks.iter_mut().enumerate() {
            let at = 64 * block;
            if at >= starts {
                break;
            }
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
        marks: &mut Marks,
    ) -> bool {
        let byte = |(_, byte): (usize, u8)| _mm512_set1_epi8(byte as i8);
        let (one, two) = (byte(first), byte(second));
        each(starts, marks, |at, present| {
            // SAFETY: `each` gives bits of the first `starts` places only, the places of the pair are in a
            // window, and the text goes on for a window behind the last start: `Probe::mark` asserts both.
            let load = |place: usize| unsafe { load(text, at, place, present) };
            let found = _mm512_cmpeq_epi8_mask(load(first.0), one);
            let found = _mm512_mask_cmpeq_epi8_mask(found, load(second.0), two);
            found & present | _mm512_movepi8_mask(load(0))
        })
    }

    // PERF: bytes tested one at a time run at the speed of lanes: 1.0 GB/s at 10 rules, against 7.9 here
    // (`cargo bench --bench versus -- 10`, 64 KB).
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn groups<const COUNT: usize>(
        groups: &[Group],
        text: &[u8],
        starts: usize,
        marks: &mut Marks,
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
                // SAFETY: as in `pair`; there are as many slots as places in a window.
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
    use crate::testing::{Random, skip};

    /// Whether a place is a candidate, by the definition.
    fn is_candidate(probe: &Probe, text: &[u8], at: usize) -> bool {
        let window = &text[at..at + WIDTH];
        let fits = match probe {
            Probe::Pair(pair) => pair.iter().all(|&(place, byte)| window[place] == byte),
            Probe::Groups(groups) => groups.iter().any(|group| {
                let sets = window.iter().zip(group).map(|(&byte, set)| set[slot(byte)]);
                sets.fold(u8::MAX, |all, set| all & set) != 0
            }),
        };
        fits || !window[0].is_ascii()
    }

    #[test]
    fn candidates_are_those_of_the_definition() {
        if Level::best() == Level::Portable {
            return skip::test("this processor has no AVX-512, so nothing is probed");
        }
        let mut random = Random::new(9);
        let mut probes = vec![
            Probe::Pair([(0, b'a'), (2, b'q')]),
            Probe::Pair([(1, b'a'), (3, b'z')]),
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
            probes.push(Probe::Groups(groups.into_boxed_slice()));
        }
        // Bytes that are not ASCII and share their slots with those that are looked for.
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
                let any = probe.mark(Level::best(), &text, starts, &mut marks);
                let expected: Vec<usize> = (0..starts)
                    .filter(|&at| is_candidate(probe, &text, at))
                    .collect();
                let found = (0..SPAN).filter(|at| marks[at / 64] >> (at % 64) & 1 == 1);
                assert_eq!(found.collect::<Vec<_>>(), expected, "{probe:?}");
                assert_eq!(any, Some(!expected.is_empty()));
                assert_eq!(probe.mark(Level::Portable, &text, starts, &mut marks), None);
            }
        }
    }
}
