//! The matcher: bytes in, pattern ids and offsets out. It knows nothing of rules or TOML.
//!
//! `pattern` parses and refuses; `simplify` makes a pattern smaller without moving its first end;
//! `tree` shares common beginnings; `alphabet`, `look` and `nfa` make the automaton. `lazy` steps it
//! through the `table` that all streams share (long deltas in `lanes`), while `build` adds the states that are met. `decode`
//! turns bytes into symbols. `span` finds where a match began. `around` and `confirm` are for patterns with look-around (feature
//! `lookaround`): the automaton finds where they may end, and `confirm` decides.

mod alphabet;
#[cfg(feature = "lookaround")]
pub(crate) mod around;
mod build;
#[cfg(feature = "lookaround")]
pub(crate) mod confirm;
pub(crate) mod decode;
mod filter;
mod lanes;
mod lazy;
mod look;
mod nfa;
pub(crate) mod pattern;
mod simplify;
mod span;
mod table;
mod tree;

use regex_syntax::hir::Hir;

use alphabet::Space;
pub(crate) use alphabet::{CLASSES, TooManyClasses};
pub use lazy::AutomatonSize;
use lazy::Lazy;
use nfa::Nfa;
pub(crate) use span::Span;
pub(crate) use table::SHORT;

/// A pattern became certain to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Index of the pattern.
    pub(crate) pattern: u32,
    /// Index of the pushed byte that made it certain.
    pub(crate) at: usize,
    /// Number of bytes between the end of the match and the end of that byte.
    pub(crate) back: usize,
}

/// Several patterns, compiled: immutable but for the append-only tables that all cursors share.
///
/// Each pattern is reported at least at the earliest end of a match, as soon as it is certain; and
/// it may be reported again at later ends.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// Patterns that match whole characters: nearly all, or none.
    chars: Union,
    /// Patterns that can match single bytes of characters.
    bytes: Option<Box<Union>>,
}

/// An automaton and which patterns it holds.
#[derive(Debug)]
struct Union {
    lazy: Lazy,
    patterns: Box<[u32]>,
}

/// The matching state of one haystack.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    chars: lazy::Cursor,
    bytes: Option<Box<lazy::Cursor>>,
}

impl Matcher {
    /// Compiles patterns that [`pattern::parse`] has accepted; each automaton may take `table_bytes`.
    ///
    /// # Errors
    /// The patterns tell too many characters apart.
    pub(crate) fn new(patterns: &[Hir], table_bytes: usize) -> Result<Matcher, TooManyClasses> {
        Matcher::with_every_end(patterns, table_bytes, &[])
    }

    /// The same, but of the patterns marked in `every_end` every end of a match is reported.
    pub(crate) fn with_every_end(
        patterns: &[Hir],
        table_bytes: usize,
        every_end: &[bool],
    ) -> Result<Matcher, TooManyClasses> {
        let (bytes, chars): (Vec<usize>, Vec<usize>) =
            (0..patterns.len()).partition(|&index| nfa::needs_bytes(&patterns[index]));
        let simplified = |&index: &usize| match every_end.get(index) {
            Some(true) => simplify::simplify_front(&patterns[index]),
            _ => simplify::simplify(&patterns[index]),
        };
        let union = |space, members: Vec<usize>| {
            let simplified = members.iter().map(simplified).collect();
            Union::new(space, simplified, &members, table_bytes)
        };
        let has_bytes = !bytes.is_empty();
        Ok(Matcher {
            chars: union(Space::Chars, chars)?,
            bytes: match has_bytes {
                true => Some(Box::new(union(Space::Bytes, bytes)?)),
                false => None,
            },
        })
    }

    /// A cursor at the start of a haystack.
    #[inline]
    pub(crate) fn start(&self) -> Cursor {
        let bytes = self.bytes.as_ref();
        Cursor {
            chars: self.chars.lazy.start(),
            bytes: bytes.map(|union| Box::new(union.lazy.start())),
        }
    }

    /// Takes the cursor to the start of another haystack.
    pub(crate) fn restart(&self, cursor: &mut Cursor) {
        self.each(cursor, |union, cursor| union.lazy.restart(cursor));
    }

    /// Steps the bytes, each once, and gives what becomes certain. The order is that of `at` within
    /// the patterns that match whole characters, and then within those that match bytes.
    #[inline]
    pub(crate) fn push(&self, cursor: &mut Cursor, bytes: &[u8], mut on: impl FnMut(Event)) {
        self.each(cursor, |union, cursor| {
            union
                .lazy
                .push(cursor, bytes, &mut |event| on(union.event(event)));
        });
    }

    /// The fast path for a delta of at most [`SHORT`] bytes that brings nothing special: steps it and
    /// gives its bytes padded with zeros, or does nothing.
    #[inline(always)]
    pub(crate) fn push_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if self.bytes.is_some() {
            return None;
        }
        self.chars.lazy.push_short(&mut cursor.chars, bytes)
    }

    /// Ends a run of bytes: what follows cannot complete a character that began in it.
    pub(crate) fn flush(&self, cursor: &mut Cursor, mut on: impl FnMut(Event)) {
        self.each(cursor, |union, cursor| {
            union
                .lazy
                .flush(cursor, &mut |event| on(union.event(event)));
        });
    }

    /// Ends the haystack; `Event::at` is 0 and `Event::back` counts from its end.
    pub(crate) fn finish(&self, cursor: &mut Cursor, mut on: impl FnMut(Event)) {
        self.each(cursor, |union, cursor| {
            union
                .lazy
                .finish(cursor, &mut |event| on(union.event(event)));
        });
    }

    /// Cuts long deltas into other tiles than usual.
    #[cfg(test)]
    fn set_tile(&mut self, tile: lanes::Tile) {
        self.chars.lazy.set_tile(tile);
        self.bytes
            .iter_mut()
            .for_each(|union| union.lazy.set_tile(tile));
    }

    /// Filters deltas of at least that many bytes, whatever it costs; or none.
    #[cfg(test)]
    fn set_filtered(&mut self, least: usize, level: table::simd::Level) {
        self.chars.lazy.set_filtered(least, level);
        self.bytes
            .iter_mut()
            .for_each(|union| union.lazy.set_filtered(least, level));
    }

    /// Whether deltas can be filtered.
    #[cfg(test)]
    fn has_filter(&self) -> bool {
        self.chars.lazy.has_filter()
    }

    /// Sizes of the automata in use.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = AutomatonSize> {
        let chars = Some(&self.chars).filter(|union| !union.patterns.is_empty());
        let unions = chars.into_iter().chain(self.bytes.as_deref());
        unions.map(|union| union.lazy.size())
    }

    /// Number of bytes of this haystack that belong to no character.
    pub(crate) fn invalid_bytes(cursor: &Cursor) -> u64 {
        // Both read the same bytes.
        cursor.chars.invalid_bytes().into()
    }

    #[inline(always)]
    fn each(&self, cursor: &mut Cursor, mut on: impl FnMut(&Union, &mut lazy::Cursor)) {
        on(&self.chars, &mut cursor.chars);
        if let (Some(union), Some(cursor)) = (&self.bytes, &mut cursor.bytes) {
            on(union, cursor);
        }
    }
}

impl Union {
    fn new(
        space: Space,
        patterns: Vec<Hir>,
        members: &[usize],
        table_bytes: usize,
    ) -> Result<Union, TooManyClasses> {
        // Without patterns there is nothing to build, and nothing to reserve memory for.
        let budget = if members.is_empty() { 0 } else { table_bytes };
        Ok(Union {
            lazy: Lazy::new(Nfa::new(space, &patterns)?, budget),
            patterns: members.iter().map(|&index| index as u32).collect(),
        })
    }

    #[inline]
    fn event(&self, event: Event) -> Event {
        Event {
            pattern: self.patterns[event.pattern as usize],
            ..event
        }
    }
}

#[cfg(test)]
mod tests;
