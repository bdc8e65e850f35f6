//! The matcher: bytes in, pattern ids and offsets out. It knows nothing of rules or TOML.
//!
//! `pattern` parses and refuses; `simplify` makes a pattern smaller without moving its first end;
//! `gap` says where it is cut, and `plan` which patterns share an automaton; `tree` shares common
//! beginnings; `alphabet`, `look` and `nfa` make the automaton. `lazy` steps it through the `table` that
//! all streams share (long deltas in `lanes` or through a `filter`, what follows a cut in `tails`), while
//! `build` adds the states that are met, each known by its `code`, and `generations` says when a full table
//! is replaced; `hash` tells states, classes and samples apart. `decode` turns bytes into symbols. `pike`
//! finds whole matches, and where a match began. `around` and `confirm` are for patterns with look-around (feature
//! `lookaround`): the automaton finds where they may end, and `confirm` decides.

mod alphabet;
#[cfg(feature = "lookaround")]
pub(crate) mod around;
mod build;
mod code;
#[cfg(feature = "lookaround")]
pub(crate) mod confirm;
mod crowd;
pub(crate) mod decode;
mod filter;
#[cfg(test)]
mod forced;
pub(crate) mod gap;
mod generations;
mod hash;
pub(crate) mod lanes;
mod lazy;
mod live;
mod look;
#[cfg(feature = "lookaround")]
mod mended;
mod nfa;
mod once;
pub(crate) mod pattern;
pub(crate) mod pike;
pub(crate) mod plan;
mod sample;
mod simplify;
mod sync;
pub(crate) mod table;
mod tails;
mod tree;

use regex_syntax::hir::Hir;

use alphabet::Space;
pub(crate) use alphabet::{CLASSES, TooManyClasses};
pub use lazy::AutomatonSize;
use lazy::Lazy;
pub(crate) use lazy::Run;
pub(crate) use lazy::is_short;
use nfa::Nfa;
use plan::{Part, Plan, Simplified};
use table::Config;
pub(crate) use table::SHORT;
use table::narrow::Narrow;
use table::simd::Level;

/// Most automata besides the first that the fast path for short deltas takes.
const MOST_SHORT: usize = 8;

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
    first: Union,
    /// More of them, where all together would be too many states; and patterns that can match single
    /// bytes of characters.
    more: Box<[Union]>,
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
    first: lazy::Cursor,
    more: Option<Box<[lazy::Cursor]>>,
}

impl Cursor {
    /// The fast path for a delta of 1 to [`SHORT`] bytes that brings nothing special: steps it and copies it
    /// to `room`, with zeros behind it. Says whether it was that, and the caller agrees to what is in `room`; if
    /// not, nothing has happened but there.
    #[inline(always)]
    pub(crate) fn push_short(
        &mut self,
        bytes: &[u8],
        room: &mut [u8; SHORT],
        agrees: impl FnOnce(&[u8; SHORT]) -> bool,
    ) -> bool {
        self.more.is_none() && self.first.push_short(bytes, room, agrees)
    }
}

impl Matcher {
    /// Compiles patterns that [`pattern::parse`] has accepted; their tables may take `table_bytes`.
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
        Matcher::planned(patterns, table_bytes, every_end, Plan::USUAL)
    }

    /// The same, laid out as `plan` says.
    pub(crate) fn planned(
        patterns: &[Hir],
        table_bytes: usize,
        every_end: &[bool],
        plan: Plan,
    ) -> Result<Matcher, TooManyClasses> {
        let simplified: Vec<Simplified> = patterns
            .iter()
            .enumerate()
            .map(|(index, pattern)| match every_end.get(index) {
                Some(true) => Simplified {
                    hir: simplify::simplify_front(pattern),
                    wants_every_end: true,
                },
                _ => Simplified {
                    hir: simplify::simplify(pattern),
                    wants_every_end: false,
                },
            })
            .collect();
        let layout = plan.lay_out(&simplified, table_bytes)?;
        let config = plan.config(layout.len(), table_bytes);
        let unions = layout
            .into_iter()
            .map(|part| Union::new(part, &simplified, config));
        let mut unions = unions.collect::<Result<Vec<Union>, _>>()?.into_iter();
        let first = match unions.next() {
            Some(first) => first,
            None => Union::new(Part::default(), &[], Config::BARE)?,
        };
        Ok(Matcher {
            first,
            more: unions.collect(),
        })
    }

    /// For those who need whole matches: patterns are taken as written, every end is reported, and
    /// [`is_quiet`](Self::is_quiet) says where no match is in progress.
    ///
    /// # Errors
    /// The patterns tell too many characters apart.
    pub(crate) fn for_spans(
        patterns: &[Hir],
        table_bytes: usize,
    ) -> Result<Matcher, TooManyClasses> {
        let all = 0..patterns.len() as u32;
        let (bytes, chars): (Vec<u32>, Vec<u32>) =
            all.partition(|&index| nfa::needs_bytes(&patterns[index as usize]));
        let union = |space, members: Vec<u32>| {
            let own = members
                .iter()
                .map(|&index| patterns[index as usize].clone());
            // Nothing is cut: what is in progress must be seen as long as it is.
            let nfa = Nfa::new(space, &own.collect::<Vec<_>>(), None)?.layered();
            // Where no match is in progress is asked of every byte, so pairs of them are of no use.
            let config = Config {
                budget: table_bytes,
                level: Level::best(),
                wide_rows: 0,
                narrow: Narrow::USUAL,
            };
            Ok(Union {
                lazy: Lazy::new(nfa, config),
                patterns: members.into_boxed_slice(),
            })
        };
        let has_bytes = !bytes.is_empty();
        let more = has_bytes.then(|| union(Space::Bytes, bytes)).transpose()?;
        Ok(Matcher {
            first: union(Space::Chars, chars)?,
            more: more.into_iter().collect(),
        })
    }

    /// Steps ASCII bytes up to the first that brings something special: a report, a state that is not built.
    /// For matchers made [for spans](Self::for_spans).
    #[inline]
    pub(crate) fn run(&self, cursor: &mut Cursor, bytes: &[u8]) -> Run {
        match self.more.is_empty() {
            true => self.first.lazy.run(&mut cursor.first, bytes),
            false => Run::default(),
        }
    }

    /// As [`push_short`](Self::push_short), and says besides up to which of the bytes no match is in progress;
    /// 0 if there is one all the time. For matchers made [for spans](Self::for_spans).
    #[inline]
    pub(crate) fn push_marked(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
    ) -> Option<([u8; SHORT], usize)> {
        if !self.more.is_empty() {
            return None;
        }
        self.first.lazy.push_marked(&mut cursor.first, bytes)
    }

    /// Whether no match is in progress: nothing that begins here or earlier can still end behind here.
    /// For matchers made [for spans](Self::for_spans).
    pub(crate) fn is_quiet(&self, cursor: &Cursor) -> bool {
        let mut more = self.more.iter().zip(cursor.more.iter().flatten());
        self.first.lazy.is_quiet(&cursor.first)
            && more.all(|(union, cursor)| union.lazy.is_quiet(cursor))
    }

    /// A cursor at the start of a haystack.
    #[inline]
    pub(crate) fn start(&self) -> Cursor {
        let more = || self.more.iter().map(|union| union.lazy.start()).collect();
        Cursor {
            first: self.first.lazy.start(),
            more: (!self.more.is_empty()).then(more),
        }
    }

    /// Takes the cursor to the start of another haystack.
    pub(crate) fn restart(&self, cursor: &mut Cursor) {
        self.each(cursor, |union, cursor| union.lazy.restart(cursor));
    }

    /// Steps the bytes, each once, and gives what becomes certain. The order is that of `at` for each
    /// pattern, but not among patterns.
    #[inline]
    pub(crate) fn push(&self, cursor: &mut Cursor, bytes: &[u8], mut on: impl FnMut(Event)) {
        if self.more.is_empty() {
            let Matcher { first, .. } = self;
            return first.lazy.push(
                &mut cursor.first,
                bytes,
                &mut |event| on(first.event(event)),
            );
        }
        self.each(cursor, |union, cursor| {
            // What is special to one of them is not to the others.
            if !cursor.is_through() && union.lazy.push_short(cursor, bytes).is_none() {
                union
                    .lazy
                    .push(cursor, bytes, &mut |event| on(union.event(event)));
            }
        });
    }

    /// What [`Cursor::push_short`] does, also where patterns are spread over several automata, and where what
    /// follows a gap is awake; gives the bytes padded with zeros, or does nothing.
    pub(crate) fn push_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        if !self.more.is_empty() {
            return self.push_short_all(cursor, bytes);
        }
        self.first.lazy.push_short(&mut cursor.first, bytes)
    }

    /// The same for several automata: each looks first, and then they go on together.
    fn push_short_all(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; SHORT]> {
        let first = self.first.lazy.look_short(&mut cursor.first, bytes)?;
        let cursors = cursor.more.as_deref_mut()?;
        let mut shorts = [first; MOST_SHORT];
        if cursors.len() > MOST_SHORT {
            return None;
        }
        for ((union, cursor), short) in self.more.iter().zip(&mut *cursors).zip(&mut shorts) {
            if !cursor.is_through() {
                *short = union.lazy.look_short(cursor, bytes)?;
            }
        }
        self.first.lazy.take_short(&mut cursor.first, &first);
        for ((union, cursor), short) in self.more.iter().zip(cursors).zip(&shorts) {
            if !cursor.is_through() {
                union.lazy.take_short(cursor, short);
            }
        }
        Some(first.padded)
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
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "forced by tests and examples/collide.rs")
    )]
    pub(crate) fn set_tile(&mut self, tile: lanes::Tile) {
        self.first.lazy.set_tile(tile);
        self.more
            .iter_mut()
            .for_each(|union| union.lazy.set_tile(tile));
    }

    /// Filters deltas of at least that many bytes, whatever it costs; or none.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "forced by tests and examples/collide.rs")
    )]
    pub(crate) fn set_filtered(&mut self, least: usize, level: Level) {
        self.first.lazy.set_filtered(least, level);
        self.more
            .iter_mut()
            .for_each(|union| union.lazy.set_filtered(least, level));
    }

    /// Whether deltas can be filtered, and by how many of the automata.
    #[cfg(test)]
    fn filters(&self) -> usize {
        let unions = [&self.first].into_iter().chain(&self.more);
        unions.filter(|union| union.lazy.has_filter()).count()
    }

    /// Sizes of the automata in use.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = AutomatonSize> {
        let unions = [&self.first].into_iter().chain(&self.more);
        unions
            .filter(|union| !union.patterns.is_empty())
            .map(|union| union.lazy.size())
    }

    /// Number of bytes of this haystack that belong to no character.
    pub(crate) fn invalid_bytes(cursor: &Cursor) -> u64 {
        // All of them read the same bytes.
        cursor.first.invalid_bytes().into()
    }

    #[inline(always)]
    fn each(&self, cursor: &mut Cursor, mut on: impl FnMut(&Union, &mut lazy::Cursor)) {
        on(&self.first, &mut cursor.first);
        let more = cursor.more.iter_mut().flat_map(|more| more.iter_mut());
        self.more
            .iter()
            .zip(more)
            .for_each(|(union, cursor)| on(union, cursor));
    }
}

impl Union {
    fn new(part: Part, simplified: &[Simplified], config: Config) -> Result<Union, TooManyClasses> {
        let (lazy, patterns) = part.lazy(simplified, config)?;
        Ok(Union { lazy, patterns })
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
