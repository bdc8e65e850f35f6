//! Folding: maps characters that a pattern does not distinguish to one form.
//!
//! The steps are applied in this order, each only if it is requested: `invisible` characters are removed; text is
//! decomposed (`nfkc`: compatibility, `confusables`: canonical); `case` is folded; `confusables` are replaced by their
//! prototypes, and `case` is folded again, because some prototypes are capitals; the result is composed. ASCII
//! characters are their own prototypes, so an ASCII pattern reads folded text like plain text. Bytes that are not UTF-8
//! are passed through.
//!
//! This module knows no pattern. Patterns are folded with [`fold_text`] when they are loaded.

mod map;
#[cfg(test)]
mod tests;
#[cfg(feature = "unicode")]
mod unicode;

use std::ops::BitOr;

use super::chunk::{Chunk, ChunkBuffer, OffsetMap};

/// The most characters that are buffered until the next boundary. A base character with more marks is folded in
/// segments of this length, each by itself, and [counted](FoldView::overlong).
pub const WAITING: usize = 33;

/// A set of folding steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FoldSet(u8);

impl FoldSet {
    /// Simple case folding to lower case, the equivalence of `(?i)`.
    pub const CASE: FoldSet = FoldSet(1);
    /// Removes the characters of [`map::INVISIBLE`].
    pub(crate) const INVISIBLE: FoldSet = FoldSet(1 << 1);
    /// Normalization form KC.
    #[cfg(feature = "unicode")]
    pub(crate) const NFKC: FoldSet = FoldSet(1 << 2);
    /// Replaces characters by their prototypes of UTS 39, composed, except for ASCII: otherwise `m` would become `rn`
    /// and `1` would become `l`, and no pattern that contains one of them would match.
    #[cfg(feature = "unicode")]
    pub(crate) const CONFUSABLES: FoldSet = FoldSet(1 << 3);

    /// Returns the step with this name, or `None` if it is unknown or requires the feature `unicode`.
    pub fn from_name(name: &str) -> Option<FoldSet> {
        match name {
            "case" => Some(FoldSet::CASE),
            "invisible" => Some(FoldSet::INVISIBLE),
            #[cfg(feature = "unicode")]
            "nfkc" => Some(FoldSet::NFKC),
            #[cfg(feature = "unicode")]
            "confusables" => Some(FoldSet::CONFUSABLES),
            _ => None,
        }
    }

    /// Returns true if no step is in the set.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if every step of `other` is in the set.
    #[inline]
    pub fn contains(self, other: FoldSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the set without [`FoldSet::CASE`].
    #[inline]
    pub fn without_case(self) -> FoldSet {
        FoldSet(self.0 & !FoldSet::CASE.0)
    }

    /// Returns true if the fold of a character depends on its neighbours.
    #[inline]
    fn normalise(self) -> bool {
        self.0 & !(FoldSet::CASE | FoldSet::INVISIBLE).0 != 0
    }
}

impl BitOr for FoldSet {
    type Output = FoldSet;
    #[inline]
    fn bitor(self, other: FoldSet) -> FoldSet {
        FoldSet(self.0 | other.0)
    }
}

/// Returns the fold of a whole text, such as a literal or a word of a pattern.
pub fn fold_text(folds: FoldSet, text: &str) -> String {
    let seen = |char: &char| !folds.contains(FoldSet::INVISIBLE) || !map::is_invisible(*char);
    let chars = text.chars().filter(seen);
    #[cfg(feature = "unicode")]
    if folds.normalise() {
        return unicode::fold(folds, chars);
    }
    chars.map(|char| lower_if(folds, char)).collect()
}

#[inline]
fn lower_if(folds: FoldSet, char: char) -> char {
    if folds.contains(FoldSet::CASE) {
        map::lower(char)
    } else {
        char
    }
}

/// Returns true if a fold boundary precedes the character: it is folded the same whatever precedes it.
#[inline]
pub fn has_boundary_before(folds: FoldSet, char: char) -> bool {
    #[cfg(feature = "unicode")]
    return !folds.normalise() || unicode::has_boundary_before(folds, char);
    // Without the feature no fold depends on neighbours.
    #[cfg(not(feature = "unicode"))]
    {
        let _ = (folds, char);
        true
    }
}

/// Folds the chunks of a haystack, with the same result as folding the whole haystack at once.
///
/// A character that does not change keeps its offsets, and so does ASCII whose case is folded. A changed character
/// replaces the characters it came from. A normalizing fold buffers the characters that the next one can still change:
/// the last character with its marks, at most [`WAITING`] characters.
#[derive(Clone, Debug)]
pub struct FoldView {
    folds: FoldSet,
    /// The first bytes of an incomplete character.
    partial: ChunkBuffer,
    /// The characters that the next one can change.
    waiting: ChunkBuffer,
    waiting_chars: usize,
    lowered: Vec<u8>,
    overlong: u64,
}

impl FoldView {
    /// Creates a view of one haystack.
    pub fn new(folds: FoldSet) -> FoldView {
        FoldView {
            folds,
            partial: ChunkBuffer::default(),
            waiting: ChunkBuffer::default(),
            waiting_chars: 0,
            lowered: Vec::new(),
            overlong: 0,
        }
    }

    /// Returns the number of times that [`WAITING`] characters were exceeded.
    #[inline]
    pub fn overlong(&self) -> u64 {
        self.overlong
    }

    /// Returns the offset in the part at which the buffered text starts.
    #[inline]
    pub fn pending_from(&self) -> Option<u64> {
        let first = self.waiting.chunk_at(0).or(self.partial.chunk_at(0));
        first.map(|chunk| chunk.start(0))
    }

    /// Folds the next chunk of the haystack.
    pub fn push(&mut self, chunk: Chunk<'_>, out: &mut impl FnMut(Chunk<'_>)) {
        let mut at = 0;
        while at < chunk.bytes.len() {
            let rest = chunk.slice(at..chunk.bytes.len());
            at += match ascii_run(rest.bytes) {
                0 => self.wide(rest, out),
                run => {
                    self.ascii(rest.slice(0..run), out);
                    run
                }
            };
        }
    }

    /// Ends the haystack, which is certain at `decided`, and emits the buffers.
    pub fn finish(&mut self, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        self.emit_broken(self.partial.bytes().len(), decided, out);
        self.flush(decided, out);
    }

    /// Folds ASCII. Only its last character can be changed by the following text.
    fn ascii(&mut self, run: Chunk<'_>, out: &mut impl FnMut(Chunk<'_>)) {
        self.emit_broken(self.partial.bytes().len(), run.decided(0), out);
        if !self.folds.normalise() {
            return self.emit_ascii(run, out);
        }
        self.flush(run.decided(0), out);
        let last = run.bytes.len() - 1;
        if last > 0 {
            self.emit_late(run, last, out);
        }
        self.waiting.push(run.slice(last..last + 1));
        self.waiting_chars = 1;
    }

    /// Emits the bytes of a run before the last, each certain with the byte after it.
    fn emit_late(&mut self, run: Chunk<'_>, last: usize, out: &mut impl FnMut(Chunk<'_>)) {
        match run.offsets {
            OffsetMap::Verbatim(at) => {
                let offsets = OffsetMap::Late(at);
                self.emit_ascii(
                    Chunk {
                        offsets,
                        ..run.slice(0..last)
                    },
                    out,
                );
            }
            OffsetMap::Replacement { .. } => self.emit_ascii(run.slice(0..last), out),
            OffsetMap::Late(_) | OffsetMap::Words(_) => {
                for index in 0..last {
                    let byte = run.slice(index..index + 1);
                    self.emit_ascii(byte.decided_no_earlier(run.decided(index + 1)), out);
                }
            }
        }
    }

    /// Emits ASCII, case-folded if requested. It keeps its offsets byte for byte.
    fn emit_ascii(&mut self, run: Chunk<'_>, out: &mut impl FnMut(Chunk<'_>)) {
        if !self.folds.contains(FoldSet::CASE) {
            return out(run);
        }
        self.lowered.clear();
        self.lowered.extend_from_slice(run.bytes);
        self.lowered.make_ascii_lowercase();
        out(Chunk {
            bytes: &self.lowered,
            ..run
        });
    }

    /// Consumes the first character of `rest`, which is not ASCII, or one byte of it if it is incomplete or invalid.
    fn wide(&mut self, rest: Chunk<'_>, out: &mut impl FnMut(Chunk<'_>)) -> usize {
        if self.partial.is_empty()
            && let Some(char) = first_char(rest.bytes)
        {
            let chunk = rest.slice(0..char.len_utf8());
            self.char(char, std::iter::once(chunk), out);
            return chunk.bytes.len();
        }
        self.partial.push(rest.slice(0..1));
        self.complete_char(rest.decided(0), out);
        1
    }

    /// Consumes the incomplete character if it is complete now or cannot be completed.
    fn complete_char(&mut self, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        loop {
            match std::str::from_utf8(self.partial.bytes()) {
                Ok(text) => {
                    let Some(char) = text.chars().next() else {
                        return;
                    };
                    let mut held = std::mem::take(&mut self.partial);
                    self.char(char, held.chunks(0..char.len_utf8()), out);
                    held.clear();
                    self.partial = held;
                    return;
                }
                Err(error) => match error.error_len() {
                    None => return,
                    // The byte that ends an invalid sequence can start the next character.
                    Some(len) => self.emit_broken(len, decided, out),
                },
            }
        }
    }

    /// Emits the first `len` bytes of a character that cannot be completed.
    fn emit_broken(&mut self, len: usize, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        if len == 0 {
            return;
        }
        self.flush(decided, out);
        let held = std::mem::take(&mut self.partial);
        held.chunks(0..len)
            .for_each(|chunk| out(chunk.decided_no_earlier(decided)));
        held.chunks(len..held.bytes().len())
            .for_each(|chunk| self.partial.push(chunk));
    }

    fn char<'p>(
        &mut self,
        char: char,
        chunks: impl Iterator<Item = Chunk<'p>> + Clone,
        out: &mut impl FnMut(Chunk<'_>),
    ) {
        if self.folds.contains(FoldSet::INVISIBLE) && map::is_invisible(char) {
            return;
        }
        let decided = chunks
            .clone()
            .map(|chunk| chunk.decided(chunk.bytes.len() - 1))
            .max();
        let decided = decided.expect("a character has at least one byte");
        if !self.folds.normalise() {
            let mut utf8 = [0; 4];
            let folded = lower_if(self.folds, char).encode_utf8(&mut utf8);
            let was = char.encode_utf8(&mut [0; 4]) == folded;
            return replace(chunks, (!was).then_some(folded), decided, out);
        }
        let anew = has_boundary_before(self.folds, char);
        if anew || self.waiting_chars == WAITING {
            self.overlong += u64::from(!anew);
            self.flush(decided, out);
        }
        chunks.for_each(|chunk| self.waiting.push(chunk));
        self.waiting_chars += 1;
    }

    /// Folds and emits the buffered characters.
    fn flush(&mut self, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let all = 0..waiting.bytes().len();
        if let [_] = waiting.bytes() {
            waiting
                .chunks(all)
                .for_each(|chunk| self.emit_ascii(chunk.decided_no_earlier(decided), out));
        } else {
            let text = std::str::from_utf8(waiting.bytes()).expect("only whole characters wait");
            let folded = fold_text(self.folds, text);
            let changed = (folded != text).then_some(folded.as_str());
            replace(waiting.chunks(all), changed, decided, out);
        }
        waiting.clear();
        self.waiting = waiting;
        self.waiting_chars = 0;
    }
}

/// Emits the chunks, or their replacement.
fn replace<'p>(
    chunks: impl Iterator<Item = Chunk<'p>> + Clone,
    by: Option<&str>,
    decided: u64,
    out: &mut impl FnMut(Chunk<'_>),
) {
    let Some(folded) = by else {
        return chunks.for_each(|chunk| out(chunk.decided_no_earlier(decided)));
    };
    let start = chunks.clone().map(|chunk| chunk.start(0)).min();
    let end = chunks.map(|chunk| chunk.end(chunk.bytes.len() - 1)).max();
    if let (Some(start), Some(end)) = (start, end) {
        out(Chunk::replacement(folded.as_bytes(), start..end, decided));
    }
}

/// Returns the first character of the bytes, if it is complete.
#[inline]
fn first_char(bytes: &[u8]) -> Option<char> {
    let len = match bytes.first()? {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    std::str::from_utf8(bytes.get(..len)?).ok()?.chars().next()
}

/// Returns the number of leading ASCII bytes.
#[inline]
fn ascii_run(bytes: &[u8]) -> usize {
    let blocks = bytes
        .chunks_exact(32)
        .take_while(|block| block.is_ascii())
        .count()
        * 32;
    let rest = &bytes[blocks..];
    blocks + rest.iter().take_while(|byte| byte.is_ascii()).count()
}
