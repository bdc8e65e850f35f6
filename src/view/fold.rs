//! Folding: text in which what only looks different is the same, piece by piece.
//!
//! The steps, in this order, whichever of them are asked for: `invisible` characters are left out; text
//! is decomposed (`nfkc`: by compatibility, `confusables`: canonically); `case` is lowered; `confusables`
//! become what they are taken for, and `case` is lowered again, because some of those are capitals; what
//! was decomposed is composed. ASCII characters are their own prototypes, so a pattern in ASCII reads
//! folded text as it reads plain text. Bytes that are not UTF-8 go through as they are.
//!
//! It knows no pattern. Patterns are folded with [`fold_text`] when they are loaded.

mod map;
#[cfg(test)]
mod tests;
#[cfg(feature = "unicode")]
mod unicode;

use std::ops::BitOr;

use super::chunk::{Chunk, ChunkBuffer, OffsetMap};

/// Most characters that wait for the next one that begins anew. A base with more marks than this is
/// folded in stretches of as many, each by itself, and [counted](Fold::overlong).
pub(crate) const WAITING: usize = 33;

/// Steps of folding, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FoldSet(u8);

impl FoldSet {
    /// What `(?i)` takes for the same is the same: simple case folding, in lower case.
    pub(crate) const CASE: FoldSet = FoldSet(1);
    /// Characters of [`map::INVISIBLE`] are not there.
    pub(crate) const INVISIBLE: FoldSet = FoldSet(1 << 1);
    /// Normalisation form KC.
    #[cfg(feature = "unicode")]
    pub(crate) const NFKC: FoldSet = FoldSet(1 << 2);
    /// Prototypes of UTS 39, composed, but ASCII is left alone: there, `m` would be `rn`, `1` would be
    /// `l`, and no pattern that holds one would match any more.
    #[cfg(feature = "unicode")]
    pub(crate) const CONFUSABLES: FoldSet = FoldSet(1 << 3);

    /// The step of that name; none if there is none, or not without the feature `unicode`.
    pub(crate) fn named(name: &str) -> Option<FoldSet> {
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

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are among these.
    pub(crate) fn contains(self, other: FoldSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// These but for the case.
    #[allow(
        dead_code,
        reason = "for patterns that look around, which are a feature"
    )]
    pub(crate) fn without_case(self) -> FoldSet {
        FoldSet(self.0 & !FoldSet::CASE.0)
    }

    /// Whether a character's fold depends on its neighbours.
    fn normalise(self) -> bool {
        self.0 & !(FoldSet::CASE | FoldSet::INVISIBLE).0 != 0
    }
}

impl BitOr for FoldSet {
    type Output = FoldSet;
    fn bitor(self, other: FoldSet) -> FoldSet {
        FoldSet(self.0 | other.0)
    }
}

/// The fold of a whole text: of a literal or a word when it is loaded.
pub(crate) fn fold_text(folds: FoldSet, text: &str) -> String {
    let seen = |char: &char| !folds.contains(FoldSet::INVISIBLE) || !map::is_invisible(*char);
    let chars = text.chars().filter(seen);
    #[cfg(feature = "unicode")]
    if folds.normalise() {
        return unicode::fold(folds, chars);
    }
    chars.map(|char| lower_if(folds, char)).collect()
}

fn lower_if(folds: FoldSet, char: char) -> char {
    if folds.contains(FoldSet::CASE) {
        map::lower(char)
    } else {
        char
    }
}

/// Whether the character is folded the same whatever stands before it.
pub(crate) fn has_boundary_before(folds: FoldSet, char: char) -> bool {
    #[cfg(feature = "unicode")]
    return !folds.normalise() || unicode::has_boundary_before(folds, char);
    // Without the feature no fold looks at neighbours.
    #[cfg(not(feature = "unicode"))]
    {
        let _ = (folds, char);
        true
    }
}

/// Pieces in, folded pieces out, as if the whole haystack had been folded at once.
///
/// What is not changed keeps its offsets, and so does ASCII that is lowered byte for byte; what is changed
/// stands in for the characters it came from. A normalising fold holds back what the next character may
/// still change: the last character, and its marks, at most [`WAITING`] characters.
#[derive(Clone, Debug)]
pub(crate) struct FoldView {
    folds: FoldSet,
    /// The first bytes of a character.
    partial: ChunkBuffer,
    /// Characters that the next one may change.
    waiting: ChunkBuffer,
    waiting_chars: usize,
    lowered: Vec<u8>,
    overlong: u64,
}

impl FoldView {
    pub(crate) fn new(folds: FoldSet) -> FoldView {
        FoldView {
            folds,
            partial: ChunkBuffer::default(),
            waiting: ChunkBuffer::default(),
            waiting_chars: 0,
            lowered: Vec::new(),
            overlong: 0,
        }
    }

    /// How often more than [`WAITING`] characters would have had to wait.
    pub(crate) fn overlong(&self) -> u64 {
        self.overlong
    }

    /// Where in the part the text begins that waits for the rest of a character, or for the next one.
    pub(crate) fn pending_from(&self) -> Option<u64> {
        let first = self.waiting.chunk_at(0).or(self.partial.chunk_at(0));
        first.map(|chunk| chunk.start(0))
    }

    /// Folds the next piece of the haystack.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, out: &mut impl FnMut(Chunk<'_>)) {
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

    /// The haystack ends, which is certain at `decided`: nothing waits any more.
    pub(crate) fn finish(&mut self, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        self.emit_broken(self.partial.bytes().len(), decided, out);
        self.flush(decided, out);
    }

    /// Takes some ASCII. No character of it is changed by what follows but the last.
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

    /// Hands on the bytes of a run before the last, each certain with the one behind it.
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
                    self.emit_ascii(byte.not_before(run.decided(index + 1)), out);
                }
            }
        }
    }

    /// Hands on ASCII, lowered if that is asked for: it keeps its place byte for byte.
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

    /// Takes the first character of `rest`, which is not ASCII, or a byte of it if it is cut or broken.
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

    /// Takes the bytes that wait for the rest of their character if they are one, or cannot become one.
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
                    // A byte that breaks a character may be the first of the next.
                    Some(len) => self.emit_broken(len, decided, out),
                },
            }
        }
    }

    /// Hands on the first `len` bytes that waited for the rest of a character which never came.
    fn emit_broken(&mut self, len: usize, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        if len == 0 {
            return;
        }
        self.flush(decided, out);
        let held = std::mem::take(&mut self.partial);
        held.chunks(0..len)
            .for_each(|chunk| out(chunk.not_before(decided)));
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

    /// Folds and hands on what waits, which nothing can change any more.
    fn flush(&mut self, decided: u64, out: &mut impl FnMut(Chunk<'_>)) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let all = 0..waiting.bytes().len();
        if let [_] = waiting.bytes() {
            waiting
                .chunks(all)
                .for_each(|chunk| self.emit_ascii(chunk.not_before(decided), out));
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

/// Hands on the pieces, or what stands for all of them.
fn replace<'p>(
    chunks: impl Iterator<Item = Chunk<'p>> + Clone,
    by: Option<&str>,
    decided: u64,
    out: &mut impl FnMut(Chunk<'_>),
) {
    let Some(folded) = by else {
        return chunks.for_each(|chunk| out(chunk.not_before(decided)));
    };
    let start = chunks.clone().map(|chunk| chunk.start(0)).min();
    let end = chunks.map(|chunk| chunk.end(chunk.bytes.len() - 1)).max();
    if let (Some(start), Some(end)) = (start, end) {
        out(Chunk::replacement(folded.as_bytes(), start, end, decided));
    }
}

/// The character that the bytes begin with, if it is there as a whole.
fn first_char(bytes: &[u8]) -> Option<char> {
    let len = match bytes.first()? {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return None,
    };
    std::str::from_utf8(bytes.get(..len)?).ok()?.chars().next()
}

/// How many bytes of ASCII come first.
fn ascii_run(bytes: &[u8]) -> usize {
    let blocks = bytes
        .chunks_exact(32)
        .take_while(|block| block.is_ascii())
        .count()
        * 32;
    let rest = &bytes[blocks..];
    blocks + rest.iter().take_while(|byte| byte.is_ascii()).count()
}
