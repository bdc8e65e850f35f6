//! Text that repeats one unit without end, from a single character to several paragraphs.
//!
//! 1. A *sample* is a position after a separator, or any position where the last `gap` bytes have none. A separator is a
//!    blank or a control character; if the limits leave time for it, only one that follows an odd byte. The last `gap + 1`
//!    bytes alone decide it, so a unit has its samples at the same places each time it occurs, and at least one in any
//!    `gap` bytes.
//! 2. A period is proposed at a sample if the last [`GRAM`] bytes occurred before another sample: the distance between
//!    the two occurrences.
//! 3. It is kept as long as every byte equals the byte one period before it. At most two periods are tracked at a time,
//!    because shorter ones come and go inside a unit.
//! 4. Once it has held for a whole unit and for `least_held` bytes, the text is scanned backwards to the start of the
//!    repetition. The start is therefore exact, wherever the period was proposed, and the cost of a byte is constant.
//!
//! A unit occurs at least three times before the limit. A period is proposed within `2 gap + 1` bytes after the second
//! occurrence begins, and has held for a unit before the limit, so samples delay no detection. Nor does `least_held`: it is
//! at most the number of bytes for which any period has held at its limit. It lets a caller keep text and have it read
//! later, because nothing is reported within as many bytes after a text in which no period is tracked.
//!
//! Text is copied to the window in blocks of up to 256 bytes before it is read, so at least the last
//! `WINDOW - 256` bytes are there at each position. A scan goes back no farther, however the text is cut.
//!
//! Memory: the last [`WINDOW`] bytes, up to 4 KiB for the positions of samples, and the ranges of code among the last
//! 4 KiB.

use std::collections::VecDeque;

use super::{Detection, Detector, OffsetIndex};
use crate::block_buffer::BlockBuffer;
use crate::chunk::Chunk;

/// The number of bytes of text that are kept for the backward scan.
pub const WINDOW: usize = 16 << 10;
/// The length of the longest unit that is detected, in bytes.
pub const UNIT_BYTES: usize = WINDOW / 4;
/// The most bytes that are copied to the window before they are read.
const BLOCK: usize = 256;
/// The number of bytes that must recur for their distance to be proposed.
pub const GRAM: usize = 16;
/// The most bytes between samples for the usual limits: at least 240 characters and three times. A text of
/// `max(3 d, 240)` bytes has room for two units of `d` bytes and `2 SPARSE_GAP + 1` bytes, whatever `d` is.
// PERF: half of the blanks of English follow an odd byte. With a sample after every blank, the detector takes a fourth more
// instructions for recorded text (`cargo bench --bench shipped`).
const SPARSE_GAP: usize = 36;
/// The most bytes that [`RepetitionDetector::read_quiet`] reads at once: a bit of a word for each.
const STRETCH: usize = 64;
/// The sizes of the table of samples: a length of text in bytes, and the slots up to that length.
const TABLES: [(u64, usize); 4] = [(256, 64), (1 << 10, 128), (4 << 10, 256), (u64::MAX, 512)];

/// The limits above which repetition is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepetitionLimits {
    /// The shortest and the longest unit, in characters. A shorter period counts as a multiple of itself.
    pub unit_chars: (usize, usize),
    /// The number of consecutive occurrences of the unit, at least 3.
    pub times: usize,
    /// The fewest characters of all occurrences together.
    pub chars: usize,
    /// The minimum of `times` for regular text: blanks, ruled lines, numbers, tables, code.
    pub regular_times: usize,
    /// The minimum of `chars` for regular text (see `regular_times`).
    pub regular_chars: usize,
}

impl Default for RepetitionLimits {
    fn default() -> RepetitionLimits {
        RepetitionLimits {
            unit_chars: (1, 2000),
            times: 4,
            chars: 240,
            regular_times: 40,
            regular_chars: 1200,
        }
    }
}

/// Detects the first repetition of a haystack.
#[derive(Clone, Debug)]
pub struct RepetitionDetector {
    limits: RepetitionLimits,
    /// The ranges of code among the last [`UNIT_BYTES`].
    code: VecDeque<CodeRegion>,
    /// The window: the byte at `index` is at `index` modulo [`WINDOW`].
    text: BlockBuffer,
    places: OffsetIndex,
    /// The number of bytes that have been copied to `text`.
    kept: u64,
    /// The number of bytes that have been read.
    len: u64,
    /// The most bytes between samples: [`SPARSE_GAP`], or [`GRAM`] if every blank is a separator.
    gap: usize,
    /// The number of bytes since the last separator.
    run: usize,
    /// A hash table of the grams before samples: the low bits of the positions of the last two samples in each slot; 0 for
    /// none. With one position, two grams of a unit that share a slot would replace each other for ever. A sample that is
    /// 64 KiB away or farther looks nearer than it is; it is proposed only if the gram occurs at that place, too.
    slots: Vec<[u16; 2]>,
    /// The length of text after which the table grows.
    grows_after: u64,
    periods: [Period; 2],
    /// The fewest bytes for which a period that is reported has held since it was proposed.
    least_held: usize,
    is_found: bool,
}

/// A range of code, in numbers of bytes read.
#[derive(Clone, Copy, Debug)]
struct CodeRegion {
    start: u64,
    /// `None` while the following chunks are code.
    end: Option<u64>,
    /// The number of bytes of code before it.
    before: u64,
}

/// A period that is tracked.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    /// The length of the period in bytes; 0 if the slot is free.
    distance: usize,
    /// The number of bytes for which it has held since it was proposed.
    held: usize,
    /// The start of the repetition, once it is known.
    start: u64,
    /// The length of the haystack at which the limit is exceeded, and the one for code.
    limit: u64,
    code_limit: u64,
}

impl RepetitionDetector {
    /// Creates a detector for one haystack.
    pub fn new(limits: RepetitionLimits) -> RepetitionDetector {
        RepetitionDetector {
            limits,
            code: VecDeque::new(),
            text: BlockBuffer::default(),
            places: OffsetIndex::default(),
            kept: 0,
            len: 0,
            gap: gap(&limits),
            run: 0,
            slots: Vec::new(),
            grows_after: 0,
            periods: [Period::default(); 2],
            least_held: least_held(&limits),
            is_found: false,
        }
    }

    /// Sets whether the following chunks are code. A unit that is code for the most part is regular.
    pub fn set_code(&mut self, code: bool) {
        let is_code = self.code.back().is_some_and(|range| range.end.is_none());
        match self.code.back_mut() {
            _ if code == is_code => {}
            Some(range) if is_code => range.end = Some(self.len),
            _ => {
                let before = self.code_before(self.len);
                self.code.push_back(CodeRegion {
                    start: self.len,
                    end: None,
                    before,
                });
            }
        }
        // One older range stays: it counts the code before it.
        let oldest = self.len.saturating_sub(UNIT_BYTES as u64);
        while self.code.get(1).is_some_and(|next| next.start <= oldest) {
            self.code.pop_front();
        }
    }

    /// Returns the number of bytes of code before `position`, one of the last [`UNIT_BYTES`].
    fn code_before(&self, position: u64) -> u64 {
        let after = self.code.partition_point(|range| range.start < position);
        after.checked_sub(1).map_or(0, |index| {
            let CodeRegion { start, end, before } = self.code[index];
            before + position.min(end.unwrap_or(position)) - start
        })
    }

    /// Returns a number of bytes that can follow without a detection, whatever they are.
    pub fn bytes_until_report(&self) -> usize {
        if self.is_found {
            return usize::MAX;
        }
        // A period that is proposed at the next byte must hold for as long before it can be reported.
        let most = self.least_held;
        let tracked = self.periods.iter().filter(|period| period.distance != 0);
        let quiet = tracked.map(|period| {
            let unknown = self
                .needed_held(period.distance)
                .saturating_sub(period.held);
            match unknown {
                // The start is known: the byte with which the text reaches the limit is reported.
                0 => period.limit.saturating_sub(self.len + 1).min(most as u64) as usize,
                _ => unknown - 1,
            }
        });
        quiet.fold(most, usize::min)
    }

    /// Returns the number of bytes for which a period must have held since it was proposed before it is reported.
    #[inline]
    fn needed_held(&self, distance: usize) -> usize {
        distance.max(self.least_held)
    }

    /// Returns the byte at `index`, one of the last [`WINDOW`] bytes.
    #[inline]
    fn byte(&self, index: u64) -> u8 {
        self.text.byte(index as usize & (WINDOW - 1))
    }

    /// Returns the index of the first byte that a scan may read.
    fn oldest(&self) -> u64 {
        self.len.saturating_sub((WINDOW - BLOCK) as u64)
    }

    /// Appends bytes to the window.
    fn keep(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            // WINDOW is a multiple of a block, at the end of which a write ends.
            let written = self.text.write(self.kept as usize & (WINDOW - 1), rest);
            self.kept += written as u64;
            rest = &rest[written..];
        }
    }

    /// Reads bytes that do nothing but continue the tracked periods and propose others. Returns their number: at most
    /// [`STRETCH`], up to the first one that proposes a period, and 0 if the next one must be [stepped](Self::step).
    #[inline]
    fn read_quiet(&mut self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..self.quiet_len(bytes.len().min(STRETCH))];
        let separators = separator_mask(bytes, self.byte_before());
        let (start, mut at) = (self.len, 0);
        let mut proposed = 0;
        while at < bytes.len() {
            // Samples are after a separator, or at every byte after `gap` bytes without one.
            let solid = (separators >> at).trailing_zeros() as usize;
            let dense = self.gap.saturating_sub(self.run).max(1);
            if solid.min(bytes.len() - at) >= dense {
                (at, self.run) = (at + dense, self.run + dense);
            } else if at + solid < bytes.len() {
                (at, self.run) = (at + solid + 1, 0);
            } else {
                self.run += bytes.len() - at;
                at = bytes.len();
                break;
            }
            self.len = start + at as u64;
            proposed = self.sample();
            if proposed != 0 && self.has_room_for(proposed) {
                break;
            }
        }
        self.len = start + at as u64;
        for period in self.periods.iter_mut().filter(|it| it.distance != 0) {
            period.held += at;
        }
        if proposed != 0 {
            self.propose(proposed);
        }
        at
    }

    /// Returns the number of the next `most` bytes, which are in the window, that continue every tracked period without a
    /// report and before its repetition is searched for its start.
    #[inline]
    fn quiet_len(&self, most: usize) -> usize {
        let tracked = self.periods.iter().filter(|period| period.distance != 0);
        tracked.fold(most, |most, period| {
            let quiet = match self.needed_held(period.distance) {
                needed if period.held < needed => needed - period.held - 1,
                // The byte with which the text reaches the limit is reported.
                _ => usize::try_from(period.limit.saturating_sub(self.len + 1)).unwrap_or(most),
            };
            self.common_len(period.distance, most.min(quiet))
        })
    }

    /// Returns the number of the next `most` bytes that equal the byte `distance` before them, up to the end of a block.
    #[inline]
    fn common_len(&self, distance: usize, most: usize) -> usize {
        let at = self.len as usize & (WINDOW - 1);
        let before = (self.len as usize).wrapping_sub(distance) & (WINDOW - 1);
        let (next, earlier) = (self.text.rest_of_block(at), self.text.rest_of_block(before));
        let len = most.min(next.len()).min(earlier.len());
        common_prefix_len(&next[..len], &earlier[..len])
    }

    /// Returns the byte before the next one, 0 at the start of the text. `None` if every blank is a separator.
    #[inline]
    fn byte_before(&self) -> Option<u8> {
        let before = || match self.len {
            0 => 0,
            len => self.byte(len - 1),
        };
        (self.gap > GRAM).then(before)
    }

    /// Reads a byte. Returns the start of the repeated text if this byte exceeds the limit.
    #[inline]
    fn step(&mut self, byte: u8) -> Option<u64> {
        let is_separator = byte <= b' ' && self.byte_before().is_none_or(|before| before & 1 == 1);
        self.len += 1;
        self.run = if is_separator { 0 } else { self.run + 1 };
        let is_sample = is_separator || self.run >= self.gap;
        let proposed = if is_sample { self.sample() } else { 0 };
        let mut hit = None;
        for at in 0..2 {
            if self.periods[at].distance != 0 {
                hit = hit.or(self.follow(at, byte));
            }
        }
        if hit.is_none() && proposed != 0 {
            self.propose(proposed);
        }
        hit
    }

    /// Records a sample at the end of the text. Returns the distance to the previous sample with the same gram; 0 if
    /// there is none.
    #[inline(always)]
    fn sample(&mut self) -> usize {
        if self.len < GRAM as u64 {
            return 0;
        }
        if self.len > self.grows_after {
            self.resize();
        }
        let gram = self.gram(self.len);
        let end = self.len as u16;
        // No gram lies before the start of the text.
        let farthest = (self.len - GRAM as u64).min(UNIT_BYTES as u64) as u16;
        let at = slot_of(gram, self.slots.len());
        let slot = &mut self.slots[at];
        let distances = slot.map(|sample| end.wrapping_sub(sample));
        // PERF: most slots hold samples that are too far away.
        if distances.iter().any(|distance| *distance <= farthest) {
            return self.sample_near(at, gram, distances, farthest);
        }
        slot[usize::from(distances[0] < distances[1])] = end;
        0
    }

    /// As [`sample`](Self::sample), where a sample in the slot is near enough.
    #[inline(never)]
    fn sample_near(&mut self, at: usize, gram: u128, distances: [u16; 2], farthest: u16) -> usize {
        let is_equal = |distance: &u16| {
            (1..=farthest).contains(distance) && self.gram(self.len - u64::from(*distance)) == gram
        };
        let equal = distances.iter().position(is_equal);
        let slot = &mut self.slots[at];
        slot[equal.unwrap_or(usize::from(distances[0] < distances[1]))] = self.len as u16;
        equal.map_or(0, |index| usize::from(distances[index]))
    }

    /// Returns the [`GRAM`] bytes that end at `end`, which are in the window.
    #[inline(always)]
    fn gram(&self, end: u64) -> u128 {
        let at = (end - GRAM as u64) as usize & (WINDOW - 1);
        match self.text.rest_of_block(at).first_chunk() {
            Some(gram) => u128::from_le_bytes(*gram),
            None => self.gram_around(end),
        }
    }

    /// As [`gram`](Self::gram), for a gram that begins at the end of a block.
    #[cold]
    fn gram_around(&self, end: u64) -> u128 {
        let bytes = std::array::from_fn(|index| self.byte(end - (GRAM - index) as u64));
        u128::from_le_bytes(bytes)
    }

    /// Makes the table of samples, or enlarges it: most texts are short and need few slots.
    // The text alone decides when the table grows and what is in it, so its cuts make no difference.
    #[cold]
    fn resize(&mut self) {
        let fitting = TABLES.iter().find(|(bytes, _)| self.len <= *bytes);
        let &(bytes, slots) = fitting.expect("the last table is for any length");
        self.grows_after = bytes;
        let known = std::mem::replace(&mut self.slots, vec![[0; 2]; slots]);
        for &end in known.as_flattened().iter().filter(|end| **end != 0) {
            // The table grows while the whole text is in the window.
            let at = slot_of(self.gram(end.into()), slots);
            let [one, other] = self.slots[at];
            // The later two of those that share a slot remain.
            if end > one.min(other) {
                self.slots[at][usize::from(one > other)] = end;
            }
        }
    }

    /// Returns true if a period can be tracked: another one than the first, as long as one is free.
    #[inline]
    fn has_room_for(&self, distance: usize) -> bool {
        let [first, second] = &self.periods;
        first.distance == 0 || first.distance != distance && second.distance == 0
    }

    fn propose(&mut self, distance: usize) {
        if self.has_room_for(distance) {
            // The first is free only if both are.
            let free = usize::from(self.periods[0].distance != 0);
            self.periods[free] = Period {
                distance,
                ..Period::default()
            };
        }
    }

    #[inline]
    fn follow(&mut self, at: usize, byte: u8) -> Option<u64> {
        let period = self.periods[at];
        if self.byte(self.len - 1 - period.distance as u64) != byte {
            self.periods[at] = Period::default();
            if at == 0 {
                self.periods.swap(0, 1);
                return self.follow_second(byte);
            }
            return None;
        }
        let held = period.held + 1;
        self.periods[at].held = held;
        let needed = self.needed_held(period.distance);
        if held == needed {
            self.look_back(at);
        }
        let period = self.periods[at];
        if held < needed || self.len < period.limit {
            return None;
        }
        // Decided here and not where the start was found, which depends on the sample that proposed the period.
        let distance = period.distance as u64;
        let code = self.code_before(self.len) - self.code_before(self.len - distance);
        let more_than_half = (2 * code).saturating_sub(distance);
        if more_than_half > 0 && self.len < period.code_limit {
            // With each byte at most one byte less of the unit is code.
            self.periods[at].limit = period.code_limit.min(self.len + more_than_half.div_ceil(2));
            return None;
        }
        Some(period.start + distance)
    }

    /// Steps the second period after it has become the first in the middle of a step.
    fn follow_second(&mut self, byte: u8) -> Option<u64> {
        match self.periods[0].distance {
            0 => None,
            _ => self.follow(0, byte),
        }
    }

    /// Finds the start of a period that has held for a whole unit, and the length at which it exceeds the limit.
    #[cold]
    fn look_back(&mut self, at: usize) {
        let distance = self.periods[at].distance as u64;
        let oldest = self.oldest();
        let mut from = self.len;
        while from > oldest + distance && self.byte(from - 1) == self.byte(from - 1 - distance) {
            from -= 1;
        }
        let start = from - distance;
        self.periods[at].start = start;
        let needed = self.needed(start, distance);
        let (text, code) = needed.unwrap_or((u64::MAX, u64::MAX));
        self.periods[at].limit = start.saturating_add(text);
        self.periods[at].code_limit = start.saturating_add(code);
    }

    /// Returns the number of bytes from `start` at which the limit is exceeded, and that for code. `None` for an unlimited
    /// repetition.
    fn needed(&self, start: u64, distance: u64) -> Option<(u64, u64)> {
        let unit: Vec<u8> = (self.len - distance..self.len)
            .map(|index| self.byte(index))
            .collect();
        let chars = unit
            .iter()
            .filter(|byte| !is_continuation(**byte))
            .count()
            .max(1);
        let (least, most) = self.limits.unit_chars;
        if chars > most || self.is_encoded_data(start, &unit) {
            return None;
        }
        let unit_chars = chars * least.div_ceil(chars).max(1);
        let limits = &self.limits;
        let bytes = |times: usize, all_chars: usize| {
            let wanted = (unit_chars * times).max(all_chars);
            (wanted * unit.len()).div_ceil(chars) as u64
        };
        let regular = bytes(limits.regular_times, limits.regular_chars);
        let usual = match is_regular(&unit) {
            true => regular,
            false => bytes(limits.times, limits.chars),
        };
        Some((usual, regular.max(usual)))
    }

    /// Returns true if the unit is surrounded by encoded data.
    fn is_encoded_data(&self, start: u64, unit: &[u8]) -> bool {
        const BEFORE: u64 = 16;
        if start < self.oldest() + BEFORE || !unit.iter().copied().all(is_encoded) {
            return false;
        }
        let before: Vec<u8> = (start - BEFORE..start)
            .map(|index| self.byte(index))
            .collect();
        let has = |kind: fn(&u8) -> bool| before.iter().any(kind);
        before.iter().copied().all(is_encoded)
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
    }
}

impl Detector for RepetitionDetector {
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        if self.is_found {
            return;
        }
        self.places.push(&chunk);
        let mut before = 0;
        for block in chunk.bytes.chunks(BLOCK) {
            self.keep(block);
            let mut index = 0;
            while let Some(&byte) = block.get(index) {
                let quiet = self.read_quiet(&block[index..]);
                if quiet > 0 {
                    index += quiet;
                    continue;
                }
                if let Some(start) = self.step(byte) {
                    self.is_found = true;
                    return found(Detection {
                        start: self.places.start(start),
                        end: chunk.end(before + index),
                        decided: chunk.decided(before + index),
                    });
                }
                index += 1;
            }
            before += block.len();
        }
        self.places.forget(self.len.saturating_sub(WINDOW as u64));
    }

    fn finish(&mut self, _: u64, _: &mut dyn FnMut(Detection)) {}
}

/// Returns the most bytes between samples.
fn gap(limits: &RepetitionLimits) -> usize {
    let usual = RepetitionLimits::default();
    let is_usual = limits.times.min(limits.regular_times) >= 3
        && limits.chars.min(limits.regular_chars) >= usual.chars;
    if is_usual { SPARSE_GAP } else { GRAM }
}

/// Returns the fewest bytes for which a period has held when its text reaches the limit.
///
/// A text with a unit of `d` bytes reaches the limit after `max(times d, chars)` bytes at the earliest, and its period is
/// proposed after at most `d + 2 gap + 1`. The difference is least where both terms of the maximum are equal. With fewer
/// than three times it may be less than a unit.
fn least_held(limits: &RepetitionLimits) -> usize {
    let chars = limits.chars.min(limits.regular_chars);
    match limits.times.min(limits.regular_times) {
        0..3 => GRAM,
        times => (chars - chars.div_ceil(times))
            .saturating_sub(2 * gap(limits) + 1)
            .max(GRAM),
    }
}

/// Returns a mask of the separators in at most [`STRETCH`] bytes: bit `n` stands for byte `n`. A separator is a blank or a
/// control character. With the byte `before`, it is one only if it follows an odd byte.
#[inline]
fn separator_mask(bytes: &[u8], before: Option<u8>) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    // The byte before the word.
    let mut carry = u64::from(before.unwrap_or(1));
    let mut in_word = |word: u64| {
        // The high bit of a byte is set if the byte is 0x21 or more. No sum carries into the next byte.
        let solid = ((word & (ONES * 0x7F)) + ONES * 0x5F) | word;
        let after_odd = match before {
            Some(_) => word << 8 | carry,
            None => ONES,
        };
        carry = word >> 56;
        // Moves the lowest bits to the highest byte.
        ((!solid >> 7 & after_odd & ONES).wrapping_mul(0x0102_0408_1020_4080)) >> 56
    };
    let mut words = bytes.chunks_exact(8);
    let mut mask = 0;
    let mut shift = 0;
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        mask |= in_word(word) << shift;
        shift += 8;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        // Padded with a byte that is no blank.
        let mut word = [b'x'; 8];
        word[..rest.len()].copy_from_slice(rest);
        mask |= in_word(u64::from_le_bytes(word)) << shift;
    }
    mask
}

/// Returns the number of leading bytes that are equal, of two texts of the same length.
#[inline]
fn common_prefix_len(one: &[u8], other: &[u8]) -> usize {
    let (ones, others) = (one.chunks_exact(8), other.chunks_exact(8));
    let rest = ones.remainder().iter().zip(others.remainder());
    let mut len = 0;
    for (one, other) in ones.zip(others) {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let differing = word(one) ^ word(other);
        if differing != 0 {
            return len + differing.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    len + rest.take_while(|(one, other)| one == other).count()
}

/// Returns the slot of a gram in a table of `slots`, a power of two.
#[inline(always)]
fn slot_of(gram: u128, slots: usize) -> usize {
    // The highest bits of a product depend on all bits of its factors.
    let low = (gram as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let high = ((gram >> 64) as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    ((low ^ high) >> 40) as usize & (slots - 1)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte)
}

/// Returns true if the unit is of a kind that repeats in normal text: blanks, rulers, numbers, rows of a table or of
/// code. The order of its bytes is irrelevant, because a unit can start anywhere.
pub(super) fn is_regular(unit: &[u8]) -> bool {
    let count = |is: &dyn Fn(u8) -> bool| unit.iter().filter(|byte| is(**byte)).count();
    let letters = count(&|byte| byte.is_ascii_alphabetic());
    let digits = count(&|byte| byte.is_ascii_digit());
    let ruling = count(&|byte| b"-=_*#~+.|:/\\<>^".contains(&byte) || is_drawn(byte));
    let blank = count(&|byte| byte.is_ascii_whitespace());
    let marks = count(&|byte| b"{}[]()|,;:\"'=<>\\/".contains(&byte));
    let hex = count(&|byte| byte.is_ascii_hexdigit() || byte == b'x');
    let is_ruled = letters + digits == 0 && ruling + blank == unit.len();
    let is_numeric = digits > 0 && letters + digits == hex;
    is_ruled || is_numeric || marks * 8 >= unit.len()
}

/// Returns true for the bytes of box-drawing and block characters (U+2500 to U+259F).
fn is_drawn(byte: u8) -> bool {
    byte == 0xE2 || (0x80..=0xBF).contains(&byte)
}
