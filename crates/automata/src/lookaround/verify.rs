//! The exact check of a pattern that looks around, at an end that the automaton has found.
//!
//! The text is a window: what precedes the end as far as it is kept, and as many characters behind it
//! as can decide. A match is one that `fancy-regex` finds from some start to exactly that end. Work is
//! bounded: starts are narrowed down by running the hull backwards, and what is left has a budget of
//! steps.
//!
//! Bytes that belong to no character are seen as U+FFFD each; they can stand beside a match, not in it.
//! Beside them, `\b` and its kin hold only where they hold in the `regex` crate too.

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

use super::approximate::{self, Around};
use crate::PatternLimits;
use crate::pattern::{self, Refused};
use crate::utf8::Utf8Decoder;

/// Most bytes of a part of the pattern that `fancy-regex` leaves to `regex-automata`, compiled.
const DELEGATE_BYTES: usize = 8 << 20;

/// Most instructions of a compiled pattern.
const PROGRAM: usize = 1 << 17;

/// Most that the engines of one pattern may be large, together: the size of the pattern
/// ([`Around::size`]) times their number.
const ENGINES: usize = 1 << 21;

/// A pattern that looks around, compiled to be checked at an end.
pub struct Confirm {
    text: Box<str>,
    /// Size of all engines together, at most [`ENGINES`].
    size: usize,
    /// Characters after an end that can decide.
    ahead: usize,
    /// Characters before a start that can decide.
    behind: usize,
    starts: Starts,
    /// By the number of characters between the end of the match and that of the text, `0..=ahead`.
    exact: Box<[Regex]>,
}

/// What the check of an end came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// A match; the leftmost start, as an index of the window.
    Match(usize),
    /// None.
    Nothing,
    /// Not decided, for the window is too short; a match would begin there or before.
    CutOff(usize),
    /// Not decided, for the budget is spent; a match would begin there or later.
    Spent(usize),
}

/// The hull of a pattern that `regex-syntax` has refused, if it can be confirmed.
pub fn hull(text: &str, limits: &PatternLimits, refused: Refused) -> Result<Hir, Refused> {
    let around = approximate::parse(text, limits, refused)?;
    let hull = around.hull.clone();
    // What is too big or matches the empty text is told by the caller, and not worth compiling.
    if pattern::least_bytes(&hull) != Some(0) && pattern::states(&hull) <= limits.rule_states {
        Ends::new(text, &around, limits)?.prove()?;
        Starts::of(&hull, limits)?;
    }
    Ok(hull)
}

impl Confirm {
    /// The check of a pattern that looks around or refers back.
    pub fn of(text: &str, limits: &PatternLimits) -> Result<Confirm, Refused> {
        let refused = Refused::LookAround {
            what: "look-around",
            span: 0..0,
        };
        let around = approximate::parse(text, limits, refused)?;
        Confirm::new(text, around, limits)
    }

    fn new(text: &str, around: Around, limits: &PatternLimits) -> Result<Confirm, Refused> {
        let ends = Ends::new(text, &around, limits)?;
        let exact = (0..ends.count).map(|after| ends.compile(after));
        Ok(Confirm {
            text: text.into(),
            size: ends.size,
            ahead: around.ahead,
            behind: around.behind,
            starts: Starts::of(&around.hull, limits)?,
            exact: exact.collect::<Result<_, _>>()?,
        })
    }

    /// Size of what is compiled, in states: the size of the pattern for each of its engines.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of characters after an end that must be there, unless the haystack has ended.
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// Checks for a match that ends at `end`. The window goes on for [`Confirm::ahead`] characters, or to
    /// the end of the haystack; `is_whole` says that the haystack begins with it.
    pub fn check(&self, window: &[u8], is_whole: bool, end: usize) -> Confirmed {
        let first = if is_whole { 0 } else { self.first(window, end) };
        let (start, is_alive) = self.starts.leftmost(window, first, end);
        let none = if is_alive && !is_whole {
            Confirmed::CutOff(start.unwrap_or(first))
        } else {
            Confirmed::Nothing
        };
        let Some(start) = start else { return none };
        let text = text(window);
        // Both stand between characters, so what precedes them is read alike with and without the rest.
        let [from, to] = [start, end].map(|at| self::text(&window[..at]).len());
        // A window that goes on for longer than `ahead` would be the caller's mistake.
        let Some(regex) = self.exact.get(text[to..].chars().count()) else {
            return Confirmed::Spent(start);
        };
        match regex.find_input(RegexInput::new(&*text).from_pos(from)) {
            Ok(Some(found)) => Confirmed::Match(start + (found.start() - from)),
            Ok(None) => none,
            Err(_) => Confirmed::Spent(start),
        }
    }

    /// The first start that has before it what can decide about it, in a window that is cut off.
    fn first(&self, window: &[u8], end: usize) -> usize {
        let is_cut = |byte: &&u8| **byte & 0xC0 == 0x80;
        let cut = window.iter().take(3).take_while(is_cut).count();
        let behind = nth_end(&window[cut.min(end)..end], self.behind).0;
        (cut + behind).min(end)
    }
}

/// The engines of one pattern: one for each distance, in characters, between the end of a match and the end of the
/// text. They differ in that number only.
struct Ends<'p> {
    text: &'p str,
    steps: usize,
    count: usize,
    /// The size of the pattern times `count`.
    size: usize,
}

impl Ends<'_> {
    fn new<'p>(
        text: &'p str,
        around: &Around,
        limits: &PatternLimits,
    ) -> Result<Ends<'p>, Refused> {
        let count = around.ahead + 1;
        let size = around.size.saturating_mul(count);
        if size > ENGINES {
            return Err(Refused::TooBig {
                states: size,
                limit: ENGINES,
            });
        }
        Ok(Ends {
            text,
            steps: limits.confirm_steps,
            count,
            size,
        })
    }

    /// Compiles the engine with the largest number. If it is within the limits, all are.
    fn prove(&self) -> Result<(), Refused> {
        self.compile(self.count - 1).map(drop)
    }

    /// Compiles the pattern so that it matches only at an end that is followed by `after` characters.
    fn compile(&self, after: usize) -> Result<Regex, Refused> {
        let build = |text: &str| {
            RegexBuilder::new(text)
                .backtrack_limit(self.steps)
                .delegate_size_limit(DELEGATE_BYTES)
                .max_prog_size(PROGRAM)
                .build()
        };
        let text = self.text;
        let end = format!(r"(?=(?s:.){{{after}}}\z)");
        build(&format!("(?:{text}){end}"))
            .or_else(|error| {
                // A comment at the end of the pattern swallows what follows it on the line.
                build(&format!("(?:{text}\n){end}")).map_err(|_| error)
            })
            .map_err(|error| approximate::syntax_error(&error, text))
    }
}

/// Searches a whole haystack for a pattern that looks around or refers back.
pub struct AroundSearch {
    regex: Regex,
}

impl AroundSearch {
    /// Steps of backtracking that one match may take. A search for the next match takes at least one for each
    /// character that it passes.
    const STEPS: usize = 10_000_000;

    /// The search of a pattern that [`pattern::parse`] has accepted; `None` if it does not look around.
    pub fn of(text: &str) -> Option<AroundSearch> {
        if regex_syntax::ast::parse::Parser::new().parse(text).is_ok() {
            return None;
        }
        let regex = RegexBuilder::new(text)
            .backtrack_limit(AroundSearch::STEPS)
            .delegate_size_limit(DELEGATE_BYTES)
            .max_prog_size(PROGRAM)
            .build()
            .ok()?;
        Some(AroundSearch { regex })
    }

    /// The matches that `fancy_regex::Regex::find_iter` gives, less those that hold bytes of no character, and whether
    /// these are all: if not, the search for the next one took too many steps.
    pub fn find_all(&self, haystack: &[u8]) -> (Vec<Range<usize>>, bool) {
        let text = text(haystack);
        let mut found = Vec::new();
        let mut are_all = true;
        for matched in self.regex.find_iter(&*text) {
            match matched {
                Ok(matched) => found.push(matched.range()),
                Err(_) => {
                    are_all = false;
                    break;
                }
            }
        }
        if let Cow::Owned(_) = text {
            // U+FFFD takes three bytes where the haystack has one.
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
        (found, are_all)
    }
}

impl fmt::Debug for AroundSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AroundSearch").finish_non_exhaustive()
    }
}

impl fmt::Debug for Confirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confirm")
            .field("text", &self.text)
            .field("ahead", &self.ahead)
            .field("behind", &self.behind)
            .finish_non_exhaustive()
    }
}

/// Where the `count`th character of the bytes ends, and how many there are up to there: fewer than
/// `count` where the bytes end before. A byte that belongs to no character counts as one.
pub fn nth_end(bytes: &[u8], count: usize) -> (usize, usize) {
    let mut decoder = Utf8Decoder::default();
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

/// The bytes with U+FFFD for each that belongs to no character.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
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

/// The hull, run backwards from an end: it tells where matches may begin.
struct Starts {
    dfa: DFA,
    caches: Pool<Cache, NewCache>,
}

impl Starts {
    fn of(hull: &Hir, limits: &PatternLimits) -> Result<Starts, Refused> {
        Starts::new(hull).ok_or_else(|| Refused::TooBig {
            states: pattern::states(hull),
            limit: limits.rule_states,
        })
    }

    fn new(hull: &Hir) -> Option<Starts> {
        let nfa = thompson::Compiler::new()
            .configure(
                thompson::Config::new()
                    .reverse(true)
                    .which_captures(thompson::WhichCaptures::None)
                    .nfa_size_limit(Some(64 << 20)),
            )
            .build_from_hir(&approximate::without_looks(hull))
            .ok()?;
        let dfa = DFA::builder()
            .configure(
                DFA::config()
                    .match_kind(MatchKind::All)
                    .skip_cache_capacity_check(true),
            )
            .build_from_nfa(nfa)
            .ok()?;
        let of = dfa.clone();
        let caches = Pool::new(Box::new(move || of.create_cache()) as NewCache);
        Some(Starts { dfa, caches })
    }

    /// The leftmost start, not before `first`, of a match of the hull that ends at `end`, and whether
    /// there could be one before `first`.
    fn leftmost(&self, window: &[u8], first: usize, end: usize) -> (Option<usize>, bool) {
        // The automaton fails only where it is told to give up, and it is not. If it ever did, every
        // start would be possible.
        self.search(window, first, end)
            .unwrap_or((Some(first), true))
    }

    fn search(&self, window: &[u8], first: usize, end: usize) -> Option<(Option<usize>, bool)> {
        let mut cache = self.caches.get();
        let input = Input::new(window).range(first..end).anchored(Anchored::Yes);
        let mut state = self.dfa.start_state_reverse(&mut cache, &input).ok()?;
        let mut start = None;
        for at in (first..end).rev() {
            state = self.dfa.next_state(&mut cache, state, window[at]).ok()?;
            if state.is_dead() {
                return Some((start, false));
            }
            // A match is told one byte late.
            if state.is_match() {
                start = Some(at + 1);
            }
        }
        if self.dfa.next_eoi_state(&mut cache, state).ok()?.is_match() {
            start = Some(first);
        }
        Some((start, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every end that the pattern has in the text, found by the check and by a search of all prefixes.
    fn ends(confirm: &Confirm, text: &str) -> Vec<usize> {
        let ends = (1..=text.len()).filter(|&end| text.is_char_boundary(end));
        ends.filter(|&end| {
            let window = end + nth_end(&text.as_bytes()[end..], confirm.ahead()).0;
            let window = &text.as_bytes()[..window];
            matches!(confirm.check(window, true, end), Confirmed::Match(_))
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
            let confirm = Confirm::of(pattern, &PatternLimits::default()).expect(pattern);
            assert_eq!(confirm.exact.len(), confirm.ahead() + 1, "{pattern}");
            for text in texts {
                let found = ends(&confirm, text);
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
            let told = Confirm::of(pattern, &limits).err();
            let is_size = |states| states > ENGINES;
            assert!(
                matches!(told, Some(Refused::TooBig { states, limit: ENGINES }) if is_size(states)),
                "{pattern}: {told:?}"
            );
            assert_eq!(pattern::parse(pattern, &limits).err(), told, "{pattern}");
        }
        for pattern in ["foo(?=.{0,100}bar)", r"(?i)key(?!.{0,30}x)\s*=\s*\w{8,64}"] {
            let hull = pattern::parse(pattern, &limits);
            assert!(hull.is_ok(), "{pattern}: {hull:?}");
        }
    }
}
