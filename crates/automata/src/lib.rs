//! A streaming multi-pattern automaton: bytes go in, pattern ids and offsets come out. It knows nothing of
//! rules or TOML.
//!
//! # Example: two patterns in two deltas
//! ```
//! use ttsr_automata::pattern::parse;
//! use ttsr_automata::{MatchEvent, Matcher, PatternId, PatternLimits};
//!
//! let limits = PatternLimits::default();
//! let patterns = [parse("unwrap", &limits).unwrap(), parse(r"panic\b", &limits).unwrap()];
//! let matcher = Matcher::new(&patterns, 1 << 20).unwrap();
//! let (mut cursor, mut events) = (matcher.start(), Vec::new());
//! matcher.push(&mut cursor, b"x.unw", |event| events.push(event));
//! assert_eq!(events, []);
//! matcher.push(&mut cursor, b"rap() or panic", |event| events.push(event));
//! // `unwrap` ends with byte 2 of the second delta. The `\b` after `panic` is still undecided.
//! assert_eq!(events, [MatchEvent { pattern: PatternId(0), at: 2, back: 0 }]);
//! matcher.finish(&mut cursor, |event| events.push(event));
//! // The end of the haystack decides it.
//! assert_eq!(events[1], MatchEvent { pattern: PatternId(1), at: 0, back: 0 });
//! ```
//!
//! # How a pattern set becomes a report
//!
//! 1. `pattern` parses a pattern, estimates its size and refuses it if it is too large; `simplify` drops what
//!    cannot move the end of its first match; `split` finds the wide gap that it is cut at.
//! 2. `partition` decides which patterns share an automaton (`partition::profile` measures them on a sample).
//! 3. `alphabet`, `look`, `prefix_tree` and `nfa` compile the patterns of an automaton to a Thompson NFA over
//!    equivalence classes of symbols.
//! 4. `lazy_dfa::search` chooses a strategy for a delta, steps it through the `table`, which all cursors share, and
//!    reports. `lazy_dfa::step` steps and activates suffixes, and asks for unbuilt states; `determinize` computes the
//!    state that `cache` then adds to the table. The accelerators are `lazy_dfa::short_input` with
//!    `table::short_input`, `lazy_dfa::prefiltered` with `prefilter`, and `lazy_dfa::speculative`. `lazy_dfa::product`
//!    steps the states of several matchers at once.
//! 5. When the table is full, `lazy_dfa::fallback` simulates the NFA (`bit_nfa`) until the cursor meets a state of
//!    the table again, or `generations` replaces the table.
//!
//! `utf8` decodes bytes to symbols, `report` encodes what a state reports, `suffix` holds what a cursor carries besides one
//! state, `single_match` stops patterns that match nearly any text after their first match, `hash` identifies states and
//! classes, and `pike` finds full matches and the start of a match. `encoding` stores syntax trees as bytes. With the
//! feature `lookaround`, `lookaround::approximate` over-approximates a pattern with look-around by a regular one and
//! `lookaround::verify` verifies its matches.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | symbol | a decoded character, or a byte that belongs to none |
//! | column | the equivalence class of a symbol: an index into a row of the table |
//! | row | the transitions of one state; *full* with a cell for each column, *sparse* with three |
//! | start closure | the NFA states in the epsilon closure of the start of every pattern |
//! | idle | no partial match: the state set is the start closure and nothing else |
//! | report | pattern ids that a state reports on entry: *now* for certain, *late* if the last symbol decided them |
//! | cut, suffix | a pattern with a wide gap is cut before it; the NFA after the cut is its suffix |
//! | special state | a state that reports, is unbuilt or has a sparse row: the search loop leaves its fast path |
//! | generation | one table in a sequence: a full table is replaced by the next generation |

#![warn(missing_docs)]

mod alphabet;
mod bit_nfa;
mod cache;
mod determinize;
pub mod encoding;
mod generations;
mod hash;
mod lazy_dfa;
mod limits;
mod look;
#[cfg(feature = "lookaround")]
pub mod lookaround;
mod nfa;
mod partition;
pub mod pattern;
pub mod pike;
mod prefilter;
mod prefix_tree;
mod report;
mod simd;
mod simplify;
mod single_match;
mod split;
mod suffix;
mod sync;
mod table;
#[cfg(any(test, feature = "test-support"))]
#[doc(hidden)]
pub mod test_support;
pub mod utf8;

use std::borrow::Borrow;

use regex_syntax::hir::Hir;

use alphabet::SymbolSpace;
pub use alphabet::{MAX_CLASSES, TooManyClasses, fits_alphabet};
pub use lazy_dfa::{AutomatonSize, IdleRun, ShortStep, is_short, product};
use lazy_dfa::{LazyDfa, ShortPath};
pub use limits::PatternLimits;
use nfa::Nfa;
pub use partition::{AutomatonLayout, MatcherLayout};
use partition::{MIN_TO_PROFILE, Partition, PartitionPlan, SimplifiedPattern};
pub use report::PatternId;
use simd::SimdLevel;
pub use table::MAX_SHORT_LEN;
use table::sparse::SparseRows;
use table::{FIRST_BUDGET, TableConfig};

/// The most automata, besides the first, that the path for short input steps.
// A delta is stepped in all automata before any cursor moves, and the results are kept on the stack meanwhile.
const MAX_SHORT_AUTOMATA: usize = 8;

/// A match event: a pattern matches, and no further input can change that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchEvent {
    /// The pattern.
    pub pattern: PatternId,
    /// The index, in the pushed bytes, of the byte that made the match certain.
    pub at: usize,
    /// The number of bytes between the end of the match and the end of that byte.
    pub back: usize,
}

/// A compiled set of patterns. It is immutable except for the append-only tables that all cursors share.
///
/// Each pattern is reported at least at the earliest end of a match, at the first byte at which that end is
/// certain. It may be reported again at later ends.
///
/// # Panics
/// Every method with a cursor may panic, or report other matches, if another matcher made the cursor.
///
/// # Example: one matcher for several haystacks, and an assertion that the next byte decides
/// ```
/// use ttsr_automata::pattern::parse;
/// use ttsr_automata::{MatchEvent, Matcher, PatternId, PatternLimits};
///
/// let limits = PatternLimits::default();
/// let patterns = [parse("unwrap", &limits).unwrap(), parse(r"panic\b", &limits).unwrap()];
/// let matcher = Matcher::new(&patterns, 1 << 20).unwrap();
/// let (mut one, mut other, mut events) = (matcher.start(), matcher.start(), Vec::new());
/// matcher.push(&mut one, b"panic", |event| events.push(event));
/// matcher.push(&mut other, b"unwr", |event| events.push(event));
/// assert_eq!(events, []);
/// matcher.push(&mut one, b"!", |event| events.push(event));
/// // The match ends one byte before the byte that decides it.
/// assert_eq!(events, [MatchEvent { pattern: PatternId(1), at: 0, back: 1 }]);
/// matcher.push(&mut other, b"ap", |event| events.push(event));
/// assert_eq!(events[1], MatchEvent { pattern: PatternId(0), at: 1, back: 0 });
/// matcher.finish(&mut one, |event| panic!("{event:?}"));
/// ```
#[derive(Debug)]
pub struct Matcher {
    /// Patterns over whole characters: nearly all of them, or none.
    first: Automaton,
    /// The other automata: for patterns that would multiply the states of the first, and for patterns that
    /// can match single bytes of a character.
    more: Box<[Automaton]>,
    /// The length of the longest match of each pattern, in bytes. Empty unless full matches are needed.
    max_match_lens: Box<[Option<usize>]>,
}

/// One automaton and the patterns it searches for.
#[derive(Debug)]
struct Automaton {
    lazy: LazyDfa,
    // An automaton numbers its patterns from 0; this maps them to the numbers of the caller.
    patterns: Box<[PatternId]>,
}

/// The search state of one haystack: a linked list with an element for each automaton of the matcher.
// A list, because a link is one word and a boxed slice is two, and nearly every matcher has one automaton: its cursor is
// read without an indirection, and allocates nothing. A list is dropped recursively; `partition::max_automata` bounds it.
#[derive(Clone, Debug)]
pub struct Cursor {
    dfa: lazy_dfa::DfaCursor,
    /// The cursors of the automata that follow.
    next: Option<Box<Cursor>>,
}

impl Cursor {
    /// Returns the cursors of the automata in their order.
    fn cursors(&self) -> impl Iterator<Item = &lazy_dfa::DfaCursor> {
        std::iter::successors(Some(self), |cursor| cursor.next.as_deref()).map(|cursor| &cursor.dfa)
    }

    /// Returns the cursors of the automata in their order.
    #[inline(always)]
    fn cursors_mut(&mut self) -> impl Iterator<Item = &mut lazy_dfa::DfaCursor> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let Cursor { dfa, next } = rest.take()?;
            rest = next.as_deref_mut();
            Some(dfa)
        })
    }

    /// Steps a delta of 1 to [`MAX_SHORT_LEN`] bytes and copies the bytes to `padded_out`, padded with zeros. Declines if there are
    /// several automata, a suffix is live, the cursor is in the fallback, a character is incomplete, a state on the way
    /// is special, or `accepts` refuses the bytes. Returns false if it declined; then only `padded_out` has changed.
    ///
    /// # Example: `push` takes what the fast path declines
    /// ```
    /// use ttsr_automata::{Matcher, PatternLimits, MAX_SHORT_LEN, pattern};
    /// let matcher = Matcher::new(&[pattern::parse("rm -rf", &PatternLimits::default())?], 1 << 20)?;
    /// let mut cursor = matcher.start();
    /// let mut ends = Vec::new();
    /// for delta in [&b"rm "[..], b"-r", b"f /"] {
    ///     if !cursor.push_short(delta, &mut [0; MAX_SHORT_LEN], |_| true) {
    ///         matcher.push(&mut cursor, delta, |event| ends.push(event.at + 1));
    ///     }
    /// }
    /// assert_eq!(ends, [1], "the first byte of the last delta ends the match");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn push_short(
        &mut self,
        bytes: &[u8],
        padded_out: &mut [u8; MAX_SHORT_LEN],
        accepts: impl FnOnce(&[u8; MAX_SHORT_LEN]) -> bool,
    ) -> bool {
        // Several automata would have to agree before any of them moves. That is left to
        // `Matcher::push_short_with_suffixes`.
        self.next.is_none() && self.dfa.push_short(bytes, padded_out, accepts)
    }
}

impl Matcher {
    /// Compiles patterns that [`pattern::parse`] has accepted. `table_bytes` bounds the bytes of all tables together.
    ///
    /// # Errors
    /// The patterns distinguish more classes of characters than a table has columns.
    ///
    /// # Complexity
    /// Linear in the number of NFA states, and `O(n log n)` in the number `n` of ranges of all classes together. From 128
    /// patterns on they are also tried on a sample of constant length, together and, if that needs too many states,
    /// each of them alone. Besides these, only start states are built: the others are built when text needs them.
    pub fn new(
        patterns: &[impl Borrow<Hir>],
        table_bytes: usize,
    ) -> Result<Matcher, TooManyClasses> {
        Matcher::with_every_end(patterns, table_bytes, &[])
    }

    /// As [`new`](Self::new), but reports every end of a match of the patterns marked in `every_end`, which has an
    /// element for each pattern; patterns beyond its end are not marked.
    ///
    /// # Errors
    /// The patterns distinguish more classes of characters than a table has columns.
    ///
    /// # Example: every end of one pattern, the first end of another
    /// ```
    /// use ttsr_automata::{Matcher, PatternLimits, pattern};
    /// let parse = |text| pattern::parse(text, &PatternLimits::default());
    /// let matcher = Matcher::with_every_end(&[parse("a+")?, parse("b+")?], 1 << 20, &[true])?;
    /// let mut cursor = matcher.start();
    /// let mut ends = Vec::new();
    /// matcher.push(&mut cursor, b"aab", |event| ends.push((event.pattern.0, event.at + 1 - event.back)));
    /// assert_eq!(ends, [(0, 1), (0, 2), (1, 3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the size of the patterns after repetitions are unrolled. States are built when text first reaches them.
    pub fn with_every_end(
        patterns: &[impl Borrow<Hir>],
        table_bytes: usize,
        every_end: &[bool],
    ) -> Result<Matcher, TooManyClasses> {
        Matcher::planned(patterns, table_bytes, every_end, PartitionPlan::USUAL, None)
    }

    /// As [`with_every_end`](Self::with_every_end), with the [layout](Self::layout) of another matcher of these patterns,
    /// which saves planning. A layout that does not fit the patterns is not used.
    ///
    /// # Errors
    /// The patterns distinguish more classes of characters than a table has columns.
    ///
    /// # Example: planned once
    /// ```
    /// use ttsr_automata::{Matcher, PatternLimits, pattern};
    /// let patterns: Vec<_> = (0..200)
    ///     .map(|number| pattern::parse(&format!("word{number}x"), &PatternLimits::default()))
    ///     .collect::<Result<_, _>>()?;
    /// let planned = Matcher::new(&patterns, 1 << 20).unwrap();
    /// let layout = planned.layout().expect("many patterns are planned");
    /// let again = Matcher::with_layout(&patterns, 1 << 20, &[], &layout).unwrap();
    /// assert_eq!(again.layout(), Some(layout));
    /// # Ok::<(), pattern::PatternError>(())
    /// ```
    pub fn with_layout(
        patterns: &[impl Borrow<Hir>],
        table_bytes: usize,
        every_end: &[bool],
        layout: &MatcherLayout,
    ) -> Result<Matcher, TooManyClasses> {
        let plan = PartitionPlan::USUAL;
        Matcher::planned(patterns, table_bytes, every_end, plan, Some(layout))
    }

    /// Returns the automata with their patterns, or `None` if there are so few patterns that they are not planned.
    pub fn layout(&self) -> Option<MatcherLayout> {
        let count: usize = self.automata().map(|it| it.patterns.len()).sum();
        let layout = self.automata().map(|automaton| AutomatonLayout {
            patterns: automaton.patterns.to_vec(),
            is_single_match: automaton.lazy.is_single_match(),
        });
        (count >= MIN_TO_PROFILE).then(|| MatcherLayout {
            automata: layout.collect(),
        })
    }

    /// As [`with_every_end`](Self::with_every_end), with the patterns partitioned as `layout` or else `plan` says.
    pub(crate) fn planned(
        patterns: &[impl Borrow<Hir>],
        table_bytes: usize,
        every_end: &[bool],
        plan: PartitionPlan,
        layout: Option<&MatcherLayout>,
    ) -> Result<Matcher, TooManyClasses> {
        // A pattern whose every end counts keeps its back: trimming it there would remove all ends but the first.
        let simplified: Vec<SimplifiedPattern> = patterns
            .iter()
            .enumerate()
            .map(|(index, pattern)| match every_end.get(index) {
                Some(true) => SimplifiedPattern {
                    hir: simplify::simplify_front(pattern.borrow()),
                    wants_every_end: true,
                },
                _ => SimplifiedPattern {
                    hir: simplify::simplify(pattern.borrow()),
                    wants_every_end: false,
                },
            })
            .collect();
        // The budget is shared equally, because the size that each table will need depends on the text.
        let known = layout.and_then(|layout| plan.partition_as(&simplified, layout));
        let parts = match known {
            Some(parts) => parts,
            None => plan.partition(&simplified, table_bytes)?,
        };
        let config = plan.config(parts.len(), table_bytes);
        let automata = parts
            .into_iter()
            .map(|part| Automaton::new(part, &simplified, config));
        let mut automata = automata.collect::<Result<Vec<Automaton>, _>>()?.into_iter();
        // Without patterns there is still an automaton: it counts the invalid bytes of the haystack.
        let first = match automata.next() {
            Some(first) => first,
            None => Automaton::new(Partition::default(), &[], TableConfig::MINIMAL)?,
        };
        Ok(Matcher {
            first,
            more: automata.collect(),
            max_match_lens: Box::default(),
        })
    }

    /// Compiles a matcher for callers that need full matches: patterns are not simplified or cut, every end is
    /// reported, and [`is_idle`](Self::is_idle) tells where no partial match exists.
    ///
    /// # Errors
    /// The patterns distinguish more classes of characters than a table has columns.
    ///
    /// # Example: the text before an idle position is not needed any more
    /// ```
    /// use ttsr_automata::{Matcher, PatternLimits, pattern};
    /// let patterns = [pattern::parse("key=[0-9]+", &PatternLimits::default())?];
    /// let matcher = Matcher::for_full_matches(&patterns, 1 << 20)?;
    /// let mut cursor = matcher.start();
    /// matcher.push(&mut cursor, b"a word, and ke", |event| panic!("{event:?}"));
    /// assert!(!matcher.is_idle(&cursor), "`ke` may begin a match");
    /// matcher.push(&mut cursor, b"ttle", |event| panic!("{event:?}"));
    /// assert!(matcher.is_idle(&cursor));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the size of the patterns after repetitions are unrolled. States are built when text first reaches them.
    pub fn for_full_matches(
        patterns: &[impl Borrow<Hir>],
        table_bytes: usize,
    ) -> Result<Matcher, TooManyClasses> {
        let all = (0..patterns.len() as u32).map(PatternId);
        let (bytes, chars): (Vec<PatternId>, Vec<PatternId>) =
            all.partition(|pattern| nfa::needs_bytes(patterns[pattern.index()].borrow()));
        // One automaton for all patterns of a symbol space, not a partition: idleness is a property of all of them
        // together.
        let automaton = |space, members: Vec<PatternId>| {
            let own = members
                .iter()
                .map(|pattern| patterns[pattern.index()].borrow());
            // No pattern is cut: a partial match must be visible as long as it lasts.
            let nfa = Nfa::new(space, &own.collect::<Vec<&Hir>>(), None)?.with_distinct_starts();
            let config = TableConfig {
                budget: table_bytes,
                first_budget: FIRST_BUDGET,
                level: SimdLevel::best(),
                sparse: SparseRows::USUAL,
            };
            Ok(Automaton {
                lazy: LazyDfa::tracking_idle(nfa, config),
                patterns: members.into_boxed_slice(),
            })
        };
        // The first automaton is over characters even if it has no patterns, for the invalid bytes.
        let has_bytes = !bytes.is_empty();
        let more = has_bytes
            .then(|| automaton(SymbolSpace::Bytes, bytes))
            .transpose()?;
        let max_match_lens = patterns
            .iter()
            .map(|pattern| pattern.borrow().properties().maximum_len());
        Ok(Matcher {
            first: automaton(SymbolSpace::Chars, chars)?,
            more: more.into_iter().collect(),
            max_match_lens: max_match_lens.collect(),
        })
    }

    /// Returns the length of the longest match of a pattern in bytes, or `None` if there is no bound. Only for matchers made
    /// by [`for_full_matches`](Self::for_full_matches).
    ///
    /// # Example: bounded by its last repetition
    /// ```
    /// use ttsr_automata::{Matcher, PatternId, PatternLimits, pattern};
    /// let patterns = ["key=[0-9]{4,8}", "key=[0-9]+"];
    /// let patterns = patterns.map(|text| pattern::parse(text, &PatternLimits::default()).unwrap());
    /// let matcher = Matcher::for_full_matches(&patterns, 1 << 20)?;
    /// assert_eq!(matcher.max_match_len(PatternId(0)), Some(12));
    /// assert_eq!(matcher.max_match_len(PatternId(1)), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// There is no such pattern, or the matcher was made by another function.
    #[must_use]
    pub fn max_match_len(&self, pattern: PatternId) -> Option<usize> {
        self.max_match_lens[pattern.index()]
    }

    /// Steps whole characters up to the first special state. Only for matchers made by
    /// [`for_full_matches`](Self::for_full_matches).
    ///
    /// # Example: a run ends before a report
    /// ```
    /// use ttsr_automata::{Matcher, PatternLimits, pattern};
    /// let patterns = [pattern::parse("ab", &PatternLimits::default())?];
    /// let matcher = Matcher::for_full_matches(&patterns, 1 << 20)?;
    /// let mut cursor = matcher.start();
    /// matcher.push(&mut cursor, b"x ab", |_| {}); // builds the states
    /// let mut cursor = matcher.start();
    /// let run = matcher.run(&mut cursor, b"x ab");
    /// assert_eq!((run.stepped, run.idle_until), (3, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn run(&self, cursor: &mut Cursor, bytes: &[u8]) -> IdleRun {
        match self.more.is_empty() {
            true => self.first.lazy.run(&mut cursor.dfa, bytes),
            // Two automata are idle at different positions. An empty run makes the caller step the bytes with `push`.
            false => IdleRun::default(),
        }
    }

    /// Steps a delta of 1 to [`MAX_SHORT_LEN`] bytes without moving the cursor. Returns `None` if it declined: the delta is not
    /// short, a state on the way is special, a byte is not ASCII, a character is incomplete, the cursor is in the
    /// fallback, or there are several automata. A caller with several matchers steps all of them, and moves all cursors
    /// with [`accept_short`](Self::accept_short) if none declined. The step of a matcher made by
    /// [`for_full_matches`](Self::for_full_matches) also tells where the search was last idle.
    ///
    /// # Example: two matchers over one delta, both or none
    /// ```
    /// use ttsr_automata::{Matcher, PatternLimits, pattern};
    /// let matcher = |text| Matcher::new(&[pattern::parse(text, &PatternLimits::default()).unwrap()], 1 << 20).unwrap();
    /// let (one, other) = (matcher("panic"), matcher("unwrap"));
    /// let (mut first, mut second) = (one.start(), other.start());
    /// for (matcher, cursor) in [(&one, &mut first), (&other, &mut second)] {
    ///     matcher.push(cursor, b"no p", |event| panic!("{event:?}")); // builds the states
    ///     matcher.restart(cursor);
    /// }
    /// let steps = (one.try_step_short(&mut first, b"no p"), other.try_step_short(&mut second, b"no p"));
    /// let (Some(step), Some(other_step)) = steps else { panic!("both states are built") };
    /// one.accept_short(&mut first, b"no p", step);
    /// other.accept_short(&mut second, b"no p", other_step);
    /// let mut hits = 0;
    /// one.push(&mut first, b"anic", |_| hits += 1);
    /// assert_eq!(hits, 1);
    /// ```
    #[inline]
    pub fn try_step_short(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<ShortStep> {
        if !self.more.is_empty() || !is_short(bytes) {
            return None;
        }
        self.first.lazy.try_step_short(&mut cursor.dfa, bytes)
    }

    /// Moves the cursor over a delta that [`try_step_short`](Self::try_step_short) has stepped from where it is.
    ///
    /// # Panics
    /// If the step is of another cursor whose state is not in the table of this one. If that table has the state, the
    /// matches that follow are wrong.
    #[inline]
    pub fn accept_short(&self, cursor: &mut Cursor, bytes: &[u8], step: ShortStep) {
        let Automaton { lazy, .. } = &self.first;
        lazy.accept_short(&mut cursor.dfa, step, bytes.len());
    }

    /// Returns true if there is no partial match: no match that starts before this position can end after it.
    ///
    /// Only for matchers made by [`for_full_matches`](Self::for_full_matches), whose example shows it. Others cut patterns
    /// and step suffixes apart, so of them the result says nothing.
    #[inline]
    pub fn is_idle(&self, cursor: &Cursor) -> bool {
        self.automata()
            .zip(cursor.cursors())
            .all(|(automaton, cursor)| automaton.lazy.is_idle(cursor))
    }

    /// Returns a cursor at the start of a haystack.
    #[inline]
    pub fn start(&self) -> Cursor {
        let start = |automaton: &Automaton, next| Cursor {
            dfa: automaton.lazy.start(),
            next,
        };
        let more = self.more.iter();
        let next = more.rfold(None, |next, automaton| {
            Some(Box::new(start(automaton, next)))
        });
        start(&self.first, next)
    }

    /// Moves the cursor to the start of another haystack.
    #[inline]
    pub fn restart(&self, cursor: &mut Cursor) {
        self.each(cursor, |automaton, cursor| automaton.lazy.restart(cursor));
    }

    /// Moves the cursor to a position after `text` at which no match is in progress. Look-behind sees the end of `text`,
    /// before which the haystack may have more bytes.
    ///
    /// Only for matchers made by [`for_full_matches`](Self::for_full_matches). With others it is unspecified which matches
    /// are reported afterwards.
    pub fn restart_after(&self, cursor: &mut Cursor, text: &[u8]) {
        self.each(cursor, |automaton, cursor| {
            automaton.lazy.restart_after(cursor, text);
        });
    }

    /// Steps the bytes, each once, and calls `on` for each match that becomes certain. Events of one pattern come in
    /// the order of `at`; events of different patterns come in no order.
    ///
    /// # Complexity
    /// Linear in the number of bytes, for each automaton, once the states that the text needs are built. Building one is
    /// linear in the NFA states and transitions of its set. Where the table is full, or states are built about as often
    /// as they are used, each symbol costs a step of the NFA: at most one visit of each NFA state, mostly in words of 64
    /// states. Each live suffix is stepped as well, at most one for each cut. Memory is bounded by twice `table_bytes`.
    #[inline]
    pub fn push(&self, cursor: &mut Cursor, bytes: &[u8], mut on: impl FnMut(MatchEvent)) {
        if self.more.is_empty() {
            let Automaton { lazy, .. } = &self.first;
            return lazy.push(&mut cursor.dfa, bytes, ShortPath::Declined, &mut |event| {
                on(self.first.event(event));
            });
        }
        self.each(cursor, |automaton, cursor| {
            // A short delta that they declined together may be plain to this one.
            let Automaton { lazy, .. } = automaton;
            lazy.push(cursor, bytes, ShortPath::Untried, &mut |event| {
                on(automaton.event(event));
            });
        });
    }

    /// As [`Cursor::push_short`], for several automata, live suffixes and non-ASCII characters. Returns the bytes
    /// padded with zeros, or `None` if it declined; then the search is as it was.
    #[inline]
    pub fn push_short_with_suffixes(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
    ) -> Option<[u8; MAX_SHORT_LEN]> {
        if !self.more.is_empty() {
            return self.push_short_all(cursor, bytes);
        }
        self.first
            .lazy
            .push_short_with_suffixes(&mut cursor.dfa, bytes)
    }

    /// As [`push_short_with_suffixes`](Self::push_short_with_suffixes), for several automata: all of them accept the
    /// delta, or none steps it. Declines if the delta is not short ASCII, there are too many automata, or one of them
    /// declines.
    fn push_short_all(&self, cursor: &mut Cursor, bytes: &[u8]) -> Option<[u8; MAX_SHORT_LEN]> {
        // First step all automata without moving a cursor: if one declines, none may have moved.
        if !is_short(bytes) || !bytes.is_ascii() {
            return None;
        }
        let first = self.first.lazy.try_step_short(&mut cursor.dfa, bytes)?;
        let more = self.more.iter();
        let mut shorts = [first; MAX_SHORT_AUTOMATA];
        if more.len() > MAX_SHORT_AUTOMATA {
            return None;
        }
        let cursors = cursor.cursors_mut().skip(1);
        for ((automaton, cursor), short) in more.clone().zip(cursors).zip(&mut shorts) {
            if !cursor.is_exhausted() {
                *short = automaton.lazy.try_step_short(cursor, bytes)?;
            }
        }
        // All of them have accepted. From here on nothing can fail.
        let len = bytes.len();
        self.first.lazy.accept_short(&mut cursor.dfa, first, len);
        for ((automaton, cursor), short) in more.zip(cursor.cursors_mut().skip(1)).zip(&shorts) {
            if !cursor.is_exhausted() {
                automaton.lazy.accept_short(cursor, *short, len);
            }
        }
        Some(lazy_dfa::pad(bytes))
    }

    /// Ends a run of bytes: later bytes cannot complete a character that began in it.
    #[inline]
    pub fn flush(&self, cursor: &mut Cursor, mut on: impl FnMut(MatchEvent)) {
        self.each(cursor, |automaton, cursor| {
            automaton
                .lazy
                .flush(cursor, &mut |event| on(automaton.event(event)));
        });
    }

    /// Ends the haystack. In its events `at` is 0 and `back` counts from the end of the haystack.
    #[inline]
    pub fn finish(&self, cursor: &mut Cursor, mut on: impl FnMut(MatchEvent)) {
        self.each(cursor, |automaton, cursor| {
            automaton
                .lazy
                .finish(cursor, &mut |event| on(automaton.event(event)));
        });
    }

    /// Sets how long deltas are cut into tiles.
    #[cfg(any(test, feature = "test-support"))]
    pub(crate) fn set_tile(&mut self, tile: lazy_dfa::speculative::Tile) {
        self.first.lazy.set_tile(tile);
        self.more
            .iter_mut()
            .for_each(|automaton| automaton.lazy.set_tile(tile));
    }

    /// Forces the prefilter for deltas of at least `min_len` bytes, at the given SIMD level.
    #[cfg(any(test, feature = "test-support"))]
    pub(crate) fn set_prefiltered(&mut self, min_len: usize, level: SimdLevel) {
        self.first.lazy.set_prefiltered(min_len, level);
        self.more
            .iter_mut()
            .for_each(|automaton| automaton.lazy.set_prefiltered(min_len, level));
    }

    /// Returns the number of automata that have a prefilter.
    #[cfg(test)]
    fn filters(&self) -> usize {
        self.automata()
            .filter(|automaton| automaton.lazy.has_prefilter())
            .count()
    }

    /// Returns the sizes of the automata that have patterns.
    pub fn sizes(&self) -> impl Iterator<Item = AutomatonSize> {
        self.automata()
            .filter(|automaton| !automaton.patterns.is_empty())
            .map(|automaton| automaton.lazy.size())
    }

    /// Returns the number of bytes of this haystack that belong to no character.
    pub fn invalid_bytes(cursor: &Cursor) -> u64 {
        // Every automaton reads the same bytes.
        cursor.dfa.invalid_bytes().into()
    }

    /// Returns the automata in their order.
    fn automata(&self) -> impl Iterator<Item = &Automaton> {
        [&self.first].into_iter().chain(&self.more)
    }

    #[inline(always)]
    fn each(&self, cursor: &mut Cursor, mut on: impl FnMut(&Automaton, &mut lazy_dfa::DfaCursor)) {
        self.automata()
            .zip(cursor.cursors_mut())
            .for_each(|(automaton, cursor)| on(automaton, cursor));
    }
}

impl Automaton {
    fn new(
        part: Partition,
        simplified: &[SimplifiedPattern],
        config: TableConfig,
    ) -> Result<Automaton, TooManyClasses> {
        let (lazy, patterns) = part.into_automaton(simplified, config)?;
        Ok(Automaton { lazy, patterns })
    }

    #[inline]
    fn event(&self, event: MatchEvent) -> MatchEvent {
        MatchEvent {
            pattern: self.patterns[event.pattern.index()],
            ..event
        }
    }
}

/// The example of README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
