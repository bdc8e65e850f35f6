//! The exact check of a candidate: an end that the automaton has found for the hull of a pattern with look-around.
//!
//! The check sees a window of the haystack: the text before the end as far as it is kept, and as many characters after
//! the end as can decide. There is a match if `fancy-regex` finds one that starts anywhere and ends exactly at that
//! end.
//!
//! Bytes that belong to no character are replaced by U+FFFD each. They can be next to a match, not in it. Next to them,
//! `\b` and the other word assertions hold only where they hold in the `regex` crate.
//!
//! # Invariants
//!
//! 1. The result for an end depends on the haystack and the limits, not on deltas: the window contains everything that
//!    can decide, or the result says that it does not.
//! 2. Nothing fails while text is read: every engine is compiled when the pattern is loaded.
//! 3. A candidate whose budget is spent is reported as such and never counts as no match.
//!
//! # Complexity
//!
//! First the hull runs backwards from the end, linear in the window, and finds the leftmost start that is possible.
//! Most candidates end there. The backtracking engine then starts at that position with a budget of
//! [`confirm_steps`](crate::PatternLimits::confirm_steps) steps.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};

use fancy_regex::{Regex, RegexBuilder, RegexInput};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::approximate::{self, LookaroundPattern};
use crate::PatternLimits;
use crate::pattern::{self, PatternError};
use crate::utf8::Utf8Decoder;

/// The largest size, in bytes, of a part of the pattern that `fancy-regex` compiles with `regex-automata`.
const MAX_DELEGATE_BYTES: usize = 8 << 20;

/// The largest number of instructions of a compiled pattern.
const MAX_PROGRAM: usize = 1 << 17;

/// The largest size of the engines of one pattern together: the size of the pattern ([`LookaroundPattern::size`]) times
/// their number.
const MAX_ENGINES_SIZE: usize = 1 << 21;

/// The compiled check of a pattern with look-around.
pub struct Verifier {
    text: Box<str>,
    /// The size of all engines together, at most [`MAX_ENGINES_SIZE`].
    size: usize,
    /// The number of characters after an end that can decide.
    ahead: usize,
    /// The number of characters before a start that can decide.
    behind: usize,
    starts: StartFinder,
    /// The engine for each number of characters between the end of the match and the end of the window, `0..=ahead`.
    /// `fancy-regex` searches for the leftmost match with any end. Anchoring the end by a look-ahead of fixed length
    /// makes it find a match with this end, so there is one engine for each distance.
    engines: Box<[Regex]>,
}

/// The result of the check of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// There is a match. This is its leftmost start, as an index of the window.
    Match(usize),
    /// There is no match.
    NoMatch,
    /// Undecided, because the window is too short. A match would start at this index or before it.
    WindowTooShort(usize),
    /// Undecided, because the budget is spent. A match would start at this index or after it.
    BudgetSpent(usize),
}

/// Returns the hull of a pattern that `regex-syntax` has refused, if candidates of the pattern can be verified.
///
/// # Errors
/// Returns `plain_error` if the pattern has neither look-around nor a back-reference, and another error if one of them needs
/// text without a bound, or if an engine exceeds the limits.
pub fn hull(
    text: &str,
    limits: &PatternLimits,
    plain_error: PatternError,
) -> Result<Hir, PatternError> {
    let lookaround = approximate::parse(text, limits, plain_error)?;
    let hull = lookaround.hull.clone();
    // A hull that is too large or matches the empty text is refused by the caller, so it is not compiled here.
    if pattern::min_match_bytes(&hull) != Some(0) && pattern::states(&hull) <= limits.rule_states {
        EndEngines::new(text, &lookaround, limits)?.check_largest()?;
        StartFinder::compile(&hull, limits)?;
    }
    Ok(hull)
}

impl Verifier {
    /// Compiles the check of a pattern with look-around or back-references.
    ///
    /// # Errors
    /// Returns an error if the pattern has neither, if one of them needs text without a bound, or if an engine exceeds the
    /// limits.
    ///
    /// # Example: a match that the text after it decides
    /// ```
    /// use ttsr_automata::lookaround::verify::{Verification, Verifier};
    /// use ttsr_automata::PatternLimits;
    ///
    /// let verifier = Verifier::compile(r"key(?!ring)", &PatternLimits::default())?;
    /// assert_eq!(verifier.ahead(), 4);
    /// assert_eq!(verifier.verify_end(b"a key her", true, 5), Verification::Match(2));
    /// assert_eq!(verifier.verify_end(b"a keyring", true, 5), Verification::NoMatch);
    /// # Ok::<(), ttsr_automata::pattern::PatternError>(())
    /// ```
    pub fn compile(text: &str, limits: &PatternLimits) -> Result<Verifier, PatternError> {
        let plain_error = PatternError::NeedsLookaround {
            construct: "look-around",
            span: 0..0,
        };
        let lookaround = approximate::parse(text, limits, plain_error)?;
        Verifier::new(text, lookaround, limits)
    }

    fn new(
        text: &str,
        lookaround: LookaroundPattern,
        limits: &PatternLimits,
    ) -> Result<Verifier, PatternError> {
        let ends = EndEngines::new(text, &lookaround, limits)?;
        let engines = (0..ends.count).map(|after| ends.compile(after));
        Ok(Verifier {
            text: text.into(),
            size: ends.size,
            ahead: lookaround.ahead,
            behind: lookaround.behind,
            starts: StartFinder::compile(&lookaround.hull, limits)?,
            engines: engines.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the size of all engines, in states: the size of the pattern for each of them.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of characters after an end that the window must contain, unless the haystack ends before.
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// Checks if a match ends at `end`. The window must continue for exactly [`ahead`](Self::ahead) characters after `end`,
    /// or to the end of the haystack. `is_whole` is true if the window starts where the haystack starts.
    ///
    /// # Panics
    /// If `end` is greater than the length of the window.
    pub fn verify_end(&self, window: &[u8], is_whole: bool, end: usize) -> Verification {
        // Without the characters before a start its assertions cannot be decided, so in a window that was cut the first
        // characters are context only.
        let first = if is_whole {
            0
        } else {
            self.first_decidable(window, end)
        };
        let (start, is_alive) = self.starts.leftmost(window, first, end);
        // If the hull is still alive at the first start that can be decided, a match may start before it.
        let none = if is_alive && !is_whole {
            Verification::WindowTooShort(start.unwrap_or(first))
        } else {
            Verification::NoMatch
        };
        let Some(start) = start else { return none };
        let text = decode_lossy(window);
        // Both indices are between characters, so the text before them is decoded the same with and without the rest.
        let [from, to] = [start, end].map(|at| decode_lossy(&window[..at]).len());
        // A longer rest than `ahead` violates the contract of this function. It is undecided then, never a wrong match.
        let Some(regex) = self.engines.get(text[to..].chars().count()) else {
            return Verification::BudgetSpent(start);
        };
        // The search sees the text before `from`: look-behind of the match may examine it.
        match regex.find_input(RegexInput::new(&*text).from_pos(from)) {
            // The hull matches from `start` to `end`, so that text is valid UTF-8 and distances are equal in both.
            Ok(Some(found)) => Verification::Match(start + (found.start() - from)),
            Ok(None) => none,
            Err(_) => Verification::BudgetSpent(start),
        }
    }

    /// Returns the first start with enough text before it to decide, in a window that was cut.
    fn first_decidable(&self, window: &[u8], end: usize) -> usize {
        // The cut may be inside a character. Its continuation bytes are not characters of the haystack.
        let is_cut = |byte: &&u8| **byte & 0xC0 == 0x80;
        let cut = window.iter().take(3).take_while(is_cut).count();
        let behind = nth_char_end(&window[cut.min(end)..end], self.behind).0;
        (cut + behind).min(end)
    }
}

/// The engines of one pattern: one for each distance, in characters, between the end of a match and the end of the
/// window. They differ in that number only.
struct EndEngines<'p> {
    text: &'p str,
    steps: usize,
    count: usize,
    /// The size of the pattern times `count`.
    size: usize,
}

impl EndEngines<'_> {
    fn new<'p>(
        text: &'p str,
        lookaround: &LookaroundPattern,
        limits: &PatternLimits,
    ) -> Result<EndEngines<'p>, PatternError> {
        let count = lookaround.ahead + 1;
        // Checked before anything is compiled: the product may be millions.
        let size = lookaround.size.saturating_mul(count);
        if size > MAX_ENGINES_SIZE {
            return Err(PatternError::TooBig {
                states: size,
                limit: MAX_ENGINES_SIZE,
            });
        }
        Ok(EndEngines {
            text,
            steps: limits.confirm_steps,
            count,
            size,
        })
    }

    /// Compiles the engine for the largest distance. It is the largest program, so if it is within the limits, all are.
    fn check_largest(&self) -> Result<(), PatternError> {
        self.compile(self.count - 1).map(drop)
    }

    /// Compiles the pattern so that it matches only if exactly `after` characters follow the end.
    fn compile(&self, after: usize) -> Result<Regex, PatternError> {
        let build = |text: &str| {
            RegexBuilder::new(text)
                .backtrack_limit(self.steps)
                .delegate_size_limit(MAX_DELEGATE_BYTES)
                .max_prog_size(MAX_PROGRAM)
                .build()
        };
        let text = self.text;
        let end = format!(r"(?=(?s:.){{{after}}}\z)");
        build(&format!("(?:{text}){end}"))
            .or_else(|error| {
                // In verbose mode, a comment at the end of the pattern would include the look-ahead. A newline ends it.
                build(&format!("(?:{text}\n){end}")).map_err(|_| error)
            })
            .map_err(|error| approximate::syntax_error(&error, text))
    }
}

/// Searches a complete haystack for a pattern with look-around or back-references.
pub struct LookaroundSearch {
    regex: Regex,
}

impl LookaroundSearch {
    /// The number of backtracking steps that the search for one match may take. It takes at least one for each
    /// character that it passes.
    const MAX_STEPS: usize = 10_000_000;

    /// Compiles the search of a pattern that [`pattern::parse`] has accepted. Returns `None` if it has no look-around.
    pub fn compile(text: &str) -> Option<LookaroundSearch> {
        if regex_syntax::ast::parse::Parser::new().parse(text).is_ok() {
            return None;
        }
        let regex = RegexBuilder::new(text)
            .backtrack_limit(LookaroundSearch::MAX_STEPS)
            .delegate_size_limit(MAX_DELEGATE_BYTES)
            .max_prog_size(MAX_PROGRAM)
            .build()
            .ok()?;
        Some(LookaroundSearch { regex })
    }

    /// Returns the matches that `fancy_regex::Regex::find_iter` finds, except those that contain bytes of no character,
    /// and true if these are all. If not, the search for the next match exceeded its steps.
    pub fn find_all(&self, haystack: &[u8]) -> (Vec<Range<usize>>, bool) {
        let text = decode_lossy(haystack);
        let mut found = Vec::new();
        let mut is_complete = true;
        for matched in self.regex.find_iter(&*text) {
            match matched {
                Ok(matched) => found.push(matched.range()),
                Err(_) => {
                    is_complete = false;
                    break;
                }
            }
        }
        if let Cow::Owned(_) = text {
            // Map indices back to the haystack: U+FFFD takes three bytes in the text and one in the haystack. `origin`
            // has the start of each valid chunk, in the decoded text and in the bytes. A match that leaves its chunk is
            // dropped.
            let mut passed = (0, 0);
            let mut chunks = haystack.utf8_chunks();
            let mut origin = Vec::new();
            for chunk in &mut chunks {
                let valid = chunk.valid().len();
                origin.push((passed, valid));
                passed.0 += valid + 3 * chunk.invalid().len();
                passed.1 += valid + chunk.invalid().len();
            }
            found = found
                .into_iter()
                .filter_map(|range| {
                    let after = origin.partition_point(|((text, _), _)| *text <= range.start);
                    let ((text, bytes), valid) = *origin.get(after.checked_sub(1)?)?;
                    (range.end <= text + valid)
                        .then(|| range.start - text + bytes..range.end - text + bytes)
                })
                .collect();
        }
        (found, is_complete)
    }
}

impl fmt::Debug for LookaroundSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookaroundSearch").finish_non_exhaustive()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("text", &self.text)
            .field("ahead", &self.ahead)
            .field("behind", &self.behind)
            .finish_non_exhaustive()
    }
}

/// Returns the end of the `count`th character of the bytes, and the number of characters up to there, which is smaller
/// than `count` if the bytes end before. A byte that belongs to no character counts as one.
pub fn nth_char_end(bytes: &[u8], count: usize) -> (usize, usize) {
    let mut decoder = Utf8Decoder::default();
    // The decoder of the automaton, so that both count the same characters.
    let (mut end, mut seen) = (0, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        if seen >= count {
            return (end, seen);
        }
        decoder.push(byte, |_, back| {
            if seen < count {
                (end, seen) = (at + 1 - back, seen + 1);
            }
        });
    }
    decoder.flush(|_, back| {
        if seen < count {
            (end, seen) = (bytes.len() - back, seen + 1);
        }
    });
    (end, seen)
}

/// Returns the bytes as text, with U+FFFD for each byte that belongs to no character.
fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            // Not `from_utf8_lossy`, which replaces several bytes by one character. Positions must stay computable.
            let mut text = String::with_capacity(bytes.len() + 16);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            Cow::Owned(text)
        }
    }
}

type NewCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// The hull as a reverse DFA: run backwards from an end, it finds the possible starts.
struct StartFinder {
    // A pool, because the check is shared by all threads and a lazy DFA needs a cache of its own for each search.
    dfa: DFA,
    caches: Pool<Cache, NewCache>,
}

impl StartFinder {
    fn compile(hull: &Hir, limits: &PatternLimits) -> Result<StartFinder, PatternError> {
        StartFinder::new(hull).ok_or_else(|| PatternError::TooBig {
            states: pattern::states(hull),
            limit: limits.rule_states,
        })
    }

    fn new(hull: &Hir) -> Option<StartFinder> {
        let nfa = thompson::Compiler::new()
            .configure(
                thompson::Config::new()
                    .reverse(true)
                    // Only the position of the start is needed.
                    .which_captures(thompson::WhichCaptures::None)
                    // A limit on memory: the size of the hull is only an estimate.
                    .nfa_size_limit(Some(64 << 20)),
            )
            // Assertions are dropped: the DFA does not support Unicode word boundaries, and more starts only cost time.
            .build_from_hir(&approximate::without_assertions(hull))
            .ok()?;
        let dfa = DFA::builder()
            .configure(
                DFA::config()
                    // Every start: the default would stop at the preferred match and could miss the leftmost start.
                    .match_kind(MatchKind::All)
                    // The cache may be small: it is cleared when it is full.
                    .skip_cache_capacity_check(true),
            )
            .build_from_nfa(nfa)
            .ok()?;
        let owner = dfa.clone();
        let caches = Pool::new(Box::new(move || owner.create_cache()) as NewCache);
        Some(StartFinder { dfa, caches })
    }

    /// Returns the leftmost start, not before `first`, of a match of the hull that ends at `end`, and true if a match
    /// could start before `first`.
    fn leftmost(&self, window: &[u8], first: usize, end: usize) -> (Option<usize>, bool) {
        // The DFA gives up only if it is configured to, and it is not. If it ever failed, every start would be
        // possible.
        self.search(window, first, end)
            .unwrap_or((Some(first), true))
    }

    fn search(&self, window: &[u8], first: usize, end: usize) -> Option<(Option<usize>, bool)> {
        // Returned to the pool when it is dropped, with the states that it has built.
        let mut cache = self.caches.get();
        let input = Input::new(window).range(first..end).anchored(Anchored::Yes);
        let mut state = self.dfa.start_state_reverse(&mut cache, &input).ok()?;
        // The leftmost start, because the backtracking engine tries later starts by itself.
        let mut start = None;
        for at in (first..end).rev() {
            state = self.dfa.next_state(&mut cache, state, window[at]).ok()?;
            if state.is_dead() {
                return Some((start, false));
            }
            // The DFA reports a match one byte late.
            if state.is_match() {
                start = Some(at + 1);
            }
        }
        // The byte before `first` is not read, so the delayed match is asked for explicitly.
        if self.dfa.next_eoi_state(&mut cache, state).ok()?.is_match() {
            start = Some(first);
        }
        Some((start, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every end of the pattern in the text, by checking all of them.
    fn ends(verifier: &Verifier, text: &str) -> Vec<usize> {
        let ends = (1..=text.len()).filter(|&end| text.is_char_boundary(end));
        ends.filter(|&end| {
            let window = end + nth_char_end(&text.as_bytes()[end..], verifier.ahead()).0;
            let window = &text.as_bytes()[..window];
            matches!(
                verifier.verify_end(window, true, end),
                Verification::Match(_)
            )
        })
        .collect()
    }

    #[test]
    fn every_distance_to_the_end_of_a_text_has_its_engine_once_it_is_loaded() {
        for (pattern, texts) in [
            (
                "ab(?!.{0,3}c)",
                &["ab", "abx", "abxx", "abxxx", "abxxxc"][..],
            ),
            ("é+(?=.{2}$)", &["é12", "éé1é"][..]),
        ] {
            let verifier = Verifier::compile(pattern, &PatternLimits::default()).expect(pattern);
            assert_eq!(verifier.engines.len(), verifier.ahead() + 1, "{pattern}");
            for text in texts {
                let found = ends(&verifier, text);
                assert_eq!(
                    !found.is_empty(),
                    *text != "abxxxc",
                    "{pattern} in {text}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn engines_that_are_too_large_together_are_refused_by_their_size() {
        let limits = PatternLimits::default();
        for pattern in [r"\w{1,50}(?=.{250}x)", r"\p{L}{1,60}(?=\p{L}{1,120}z)"] {
            let error = Verifier::compile(pattern, &limits).err();
            let is_size = |states| states > MAX_ENGINES_SIZE;
            assert!(
                matches!(error, Some(PatternError::TooBig { states, limit: MAX_ENGINES_SIZE }) if is_size(states)),
                "{pattern}: {error:?}"
            );
            assert_eq!(pattern::parse(pattern, &limits).err(), error, "{pattern}");
        }
        for pattern in ["foo(?=.{0,100}bar)", r"(?i)key(?!.{0,30}x)\s*=\s*\w{8,64}"] {
            let hull = pattern::parse(pattern, &limits);
            assert!(hull.is_ok(), "{pattern}: {hull:?}");
        }
    }
}
