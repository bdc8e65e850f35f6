//! Parses a pattern to a checked syntax tree, with an estimate of its cost.
//!
//! No work is proportional to the *expansion* of a pattern: `(a{1000}){1000}` is refused from its syntax tree of three
//! nodes. A pattern that is accepted has at least one byte in every match and at most
//! [`rule_states`](PatternLimits::rule_states) states, so compiling it cannot run out of time or memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

use super::nfa::needs_bytes;
use crate::PatternLimits;

/// The error of a pattern that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It is longer than [`PatternLimits::pattern_bytes`].
    TooLong {
        /// The length of its text, in bytes.
        bytes: usize,
        /// The limit that it exceeds, in bytes.
        limit: usize,
    },
    /// It is not a regular expression.
    Syntax {
        /// The fault, in the words of the parser.
        message: String,
        /// The part of its text that is wrong, in bytes.
        span: Range<usize>,
    },
    /// It has look-around or a back-reference, which need the feature `lookaround`.
    NeedsLookaround {
        /// The name of the construct, for a message: `look-around` or `a back-reference`.
        construct: &'static str,
        /// The part of its text that is the construct, in bytes.
        span: Range<usize>,
    },
    /// It has look-around or a back-reference that cannot be verified in a bounded window.
    Lookaround {
        /// The reason.
        error: LookaroundError,
        /// The part of its text that is the reason, in bytes; empty if that is unknown.
        span: Range<usize>,
    },
    /// It matches the empty text, so it would match everywhere.
    MatchesEmpty,
    /// A part of it can never match folded text.
    Fold(FoldError),
    /// It has more states than [`PatternLimits::rule_states`].
    TooBig {
        /// The number of NFA states, as estimated by [`states`]; it saturates.
        states: usize,
        /// The limit that it exceeds, in states.
        limit: usize,
    },
}

impl std::error::Error for PatternError {}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::TooLong { bytes, limit } => {
                write!(f, "the pattern has {bytes} bytes, and the limit is {limit}")
            }
            PatternError::Syntax { message, .. } => {
                write!(f, "the pattern is not valid: {message}")
            }
            PatternError::NeedsLookaround { construct, .. } => {
                write!(
                    f,
                    "the pattern has {construct}, which needs the feature `lookaround`"
                )
            }
            PatternError::Lookaround { error, .. } => error.fmt(f),
            PatternError::MatchesEmpty => f.write_str("the pattern matches the empty text"),
            PatternError::Fold(error) => error.fmt(f),
            PatternError::TooBig { states, limit } => {
                write!(
                    f,
                    "the pattern needs {states} states, and the limit is {limit}"
                )
            }
        }
    }
}

impl std::error::Error for LookaroundError {}

impl fmt::Display for LookaroundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookaroundError::Unbounded(construct) => {
                write!(f, "the text that decides about {construct} has no bound")
            }
            LookaroundError::TooFar { side, chars } => {
                write!(
                    f,
                    "the pattern looks {chars} characters {side}, and the limit is {REACH}"
                )
            }
            LookaroundError::Unsupported(construct) => write!(f, "{construct} is not supported"),
            LookaroundError::Recursive => {
                f.write_str("a back-reference is inside the group that it names")
            }
        }
    }
}

impl std::error::Error for FoldError {}

impl fmt::Display for FoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoldError::Empty => f.write_str("folding removes every character of the pattern"),
            FoldError::Class(class) => {
                write!(f, "folded text has none of the characters of {class}")
            }
            FoldError::Joins(literal) => {
                write!(
                    f,
                    "folding joins the first character of {literal:?} with the one before it"
                )
            }
            FoldError::Lookaround(literal) => {
                write!(
                    f,
                    "{literal:?} differs from its fold, and a pattern with look-around cannot be folded"
                )
            }
        }
    }
}

/// The largest number of characters that a pattern may look at beyond either end of its match.
// It bounds the window that a stream keeps for each haystack, and the number of engines of a pattern.
pub const REACH: usize = 256;

/// The error of a pattern whose look-around or back-references cannot be verified in a bounded window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookaroundError {
    /// The text that decides about it has no bound.
    Unbounded(&'static str),
    /// It looks further than [`REACH`] characters.
    TooFar {
        /// The direction, for a message: `ahead` or `behind`.
        side: &'static str,
        /// The distance, in characters.
        chars: usize,
    },
    /// It has a construct without a known over-approximation.
    Unsupported(&'static str),
    /// It has a back-reference inside the group that the back-reference names.
    Recursive,
}

/// The error of a pattern that cannot be folded like the text that it is matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoldError {
    /// No character of it is left after folding.
    Empty,
    /// Folded text contains none of the characters of this class.
    Class(String),
    /// This literal begins with a character that folding joins with the one before it.
    Joins(String),
    /// This literal differs from its fold, and it is in a pattern with look-around, which cannot be folded.
    Lookaround(String),
}

/// Parses a regular expression with the syntax of the `regex` crate (Unicode on, arbitrary bytes allowed), and checks
/// it against the limits.
///
/// With the feature `lookaround`, a pattern with look-around or back-references is parsed to its hull: a regular
/// expression that matches wherever the pattern does. `lookaround::verify` decides its candidates.
///
/// # Errors
/// Those of [`parse_syntax`] and [`accept`].
///
/// # Example: a pattern, and two that are refused
/// ```
/// use ttsr_automata::PatternLimits;
/// use ttsr_automata::pattern::{PatternError, parse};
///
/// let limits = PatternLimits::default();
/// assert_eq!(parse("ab+", &limits)?.properties().minimum_len(), Some(2));
/// assert_eq!(parse("a*", &limits), Err(PatternError::MatchesEmpty));
/// assert!(matches!(parse("a(", &limits), Err(PatternError::Syntax { .. })));
/// # Ok::<(), PatternError>(())
/// ```
pub fn parse(text: &str, limits: &PatternLimits) -> Result<Hir, PatternError> {
    let hir = parse_syntax(text, false, limits)?.hir;
    accept(&hir, limits)?;
    Ok(Arc::unwrap_or_clone(hir))
}

/// A regular expression that was parsed and not checked against the limits yet.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The syntax tree, shared with the [`PatternCache`] that parsed it.
    pub hir: Arc<Hir>,
    /// True if `hir` is the hull of a pattern with look-around, so that each match must be verified.
    pub is_hull: bool,
}

/// Parses a regular expression, case-insensitively if `ignores_case`. Only the length of the text is checked.
///
/// # Errors
/// Returns an error if the text is longer than [`PatternLimits::pattern_bytes`] or is no regular expression. A pattern with
/// look-around or back-references is an error without the feature `lookaround`; with it, one is whose decision needs text
/// without a bound.
pub fn parse_syntax(
    text: &str,
    ignores_case: bool,
    limits: &PatternLimits,
) -> Result<Parsed, PatternError> {
    // The parser is linear in the text and bounds its nesting by itself, so this bounds its work.
    if text.len() > limits.pattern_bytes {
        return Err(PatternError::TooLong {
            bytes: text.len(),
            limit: limits.pattern_bytes,
        });
    }
    let parsed = regex_syntax::ParserBuilder::new()
        // Patterns may match bytes of no character: the haystack need not be valid UTF-8.
        .utf8(false)
        .case_insensitive(ignores_case)
        .build()
        .parse(text);
    match parsed {
        Ok(hir) => Ok(Parsed {
            hir: Arc::new(hir),
            is_hull: false,
        }),
        #[cfg(feature = "lookaround")]
        Err(error @ regex_syntax::Error::Parse(_)) => Ok(Parsed {
            // Only a syntax error can be due to look-around. A translation error, such as an unknown Unicode property,
            // is final.
            hir: Arc::new(crate::lookaround::verify::hull(
                text,
                limits,
                syntax_error(&error),
            )?),
            is_hull: true,
        }),
        Err(error) => Err(syntax_error(&error)),
    }
}

/// Accepts a pattern that does not match the empty text and has at most `rule_states` states.
///
/// # Errors
/// Returns an error if the pattern matches the empty text, or has more states than [`PatternLimits::rule_states`].
pub fn accept(hir: &Hir, limits: &PatternLimits) -> Result<(), PatternError> {
    if min_match_bytes(hir) == Some(0) {
        return Err(PatternError::MatchesEmpty);
    }
    // After the check for the empty text, because that is the more helpful message.
    let states = states(hir);
    if states > limits.rule_states {
        return Err(PatternError::TooBig {
            states,
            limit: limits.rule_states,
        });
    }
    Ok(())
}

/// The most bytes that the trees in a [`PatternCache`] take, about. Two bytes of a pattern may be a class of several
/// kilobytes, so the length of the patterns is no bound.
const CACHED_BYTES: usize = 64 << 20;

/// Parses each regular expression once: a load asks for the same text to check it, to lint it and to compile it.
#[derive(Debug)]
pub struct PatternCache {
    limits: PatternLimits,
    parsed: RefCell<ParsedPatterns>,
}

#[derive(Debug, Default)]
struct ParsedPatterns {
    /// By text, parsed case-sensitively and case-insensitively.
    by_text: [HashMap<Box<str>, Parsed>; 2],
    /// The sum of [`heap_bytes`] of the trees.
    bytes: usize,
}

impl PatternCache {
    /// Returns an empty cache for patterns with these limits.
    pub fn new(limits: PatternLimits) -> PatternCache {
        PatternCache {
            limits,
            parsed: RefCell::default(),
        }
    }

    /// Returns the limits that patterns are parsed with.
    pub fn limits(&self) -> &PatternLimits {
        &self.limits
    }

    /// Returns the result of [`parse_syntax`] for that text.
    ///
    /// # Errors
    /// Those of [`parse_syntax`].
    pub fn parse_syntax(&self, text: &str, ignores_case: bool) -> Result<Parsed, PatternError> {
        let ParsedPatterns { by_text, bytes } = &mut *self.parsed.borrow_mut();
        // Two maps instead of a key with a flag, so that the lookup borrows the text.
        let by_text = &mut by_text[usize::from(ignores_case)];
        if let Some(known) = by_text.get(text) {
            return Ok(known.clone());
        }
        let new = parse_syntax(text, ignores_case, &self.limits)?;
        let size = heap_bytes(&new.hir);
        // A tree that does not fit is parsed each time it is asked for. Loads of such packs are slow, and memory stays
        // bounded.
        if size <= CACHED_BYTES - *bytes {
            *bytes += size;
            by_text.insert(text.into(), new.clone());
        }
        Ok(new)
    }

    /// Returns the result of [`parse`] for that text, shared with later calls.
    ///
    /// # Errors
    /// Those of [`parse`].
    pub fn parse(&self, text: &str) -> Result<Arc<Hir>, PatternError> {
        let hir = self.parse_syntax(text, false)?.hir;
        accept(&hir, &self.limits)?;
        Ok(hir)
    }

    /// Returns true if the pattern is accepted and needs the engine for look-around.
    pub fn has_lookaround(&self, text: &str) -> bool {
        let parsed = self.parse_syntax(text, false);
        parsed.is_ok_and(|parsed| parsed.is_hull && accept(&parsed.hir, &self.limits).is_ok())
    }
}

/// Returns about the number of bytes that the tree takes.
pub(crate) fn heap_bytes(hir: &Hir) -> usize {
    let own = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => size_of_val(class.ranges()),
        HirKind::Class(Class::Bytes(class)) => size_of_val(class.ranges()),
        HirKind::Repetition(repetition) => heap_bytes(&repetition.sub),
        HirKind::Capture(capture) => heap_bytes(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs.iter().map(heap_bytes).sum(),
    };
    size_of::<Hir>() + own
}

/// Returns the number of automaton states that the tree needs, saturating. A character class is one state. In a pattern
/// that can match single bytes of characters it is one state for each byte of each sequence that encodes the class.
pub fn states(hir: &Hir) -> usize {
    states_in(hir, needs_bytes(hir))
}

fn states_in(hir: &Hir, over_bytes: bool) -> usize {
    match hir.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) if over_bytes => {
            let ranges = class.ranges().iter();
            // The same sequences that the NFA will have, so the estimate is exact for classes.
            let sequences = ranges.flat_map(|r| Utf8Sequences::new(r.start(), r.end()));
            sequences.map(|sequence| sequence.len()).sum::<usize>() + 1
        }
        // A class is one state over the alphabet, however many ranges it has.
        HirKind::Class(_) | HirKind::Look(_) => 1,
        HirKind::Capture(capture) => states_in(&capture.sub, over_bytes),
        HirKind::Concat(subs) => subs
            .iter()
            .map(|sub| states_in(sub, over_bytes))
            .fold(0, usize::saturating_add),
        HirKind::Alternation(subs) => subs
            .iter()
            // One more for the split.
            .map(|sub| states_in(sub, over_bytes))
            .fold(1, usize::saturating_add),
        HirKind::Repetition(repetition) => {
            // Each optional copy has a split. An unbounded repeat is a loop over its last required copy.
            let copies = repetition.max.unwrap_or(repetition.min.max(1)) as usize;
            // Saturating throughout: nested counts overflow easily, and any overflow is over the limit.
            let optional = copies.saturating_sub(repetition.min as usize);
            states_in(&repetition.sub, over_bytes)
                .saturating_mul(copies)
                .saturating_add(optional)
        }
    }
}

/// Returns a lower bound of the length of a match in bytes, saturating; `None` if the pattern matches nothing.
///
/// `Properties::minimum_len` is wrong for repetitions of the empty class: it reports no match for `[^\s\S]*`, which
/// matches the empty text.
pub fn min_match_bytes(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(0),
        HirKind::Literal(literal) => Some(literal.0.len()),
        HirKind::Class(class) => class.minimum_len(),
        HirKind::Capture(capture) => min_match_bytes(&capture.sub),
        // A sequence with an element that matches nothing matches nothing; an alternation needs one alternative that
        // matches.
        HirKind::Concat(subs) => subs.iter().try_fold(0, |least: usize, sub| {
            Some(least.saturating_add(min_match_bytes(sub)?))
        }),
        HirKind::Alternation(subs) => subs.iter().filter_map(min_match_bytes).min(),
        HirKind::Repetition(repetition) => match repetition.min {
            // Also if the body matches nothing: zero copies match the empty text.
            0 => Some(0),
            copies => Some(min_match_bytes(&repetition.sub)?.saturating_mul(copies as usize)),
        },
    }
}

pub(super) fn syntax_error(error: &regex_syntax::Error) -> PatternError {
    use regex_syntax::ast::ErrorKind;
    let (message, span) = match error {
        regex_syntax::Error::Parse(error) => {
            let span = error.span().start.offset..error.span().end.offset;
            match error.kind() {
                // Not a mistake of the author: these two are valid with the other engine.
                ErrorKind::UnsupportedLookAround => {
                    return PatternError::NeedsLookaround {
                        construct: "look-around",
                        span,
                    };
                }
                ErrorKind::UnsupportedBackreference => {
                    return PatternError::NeedsLookaround {
                        construct: "a back-reference",
                        span,
                    };
                }
                kind => (kind.to_string(), span),
            }
        }
        regex_syntax::Error::Translate(error) => (
            error.kind().to_string(),
            error.span().start.offset..error.span().end.offset,
        ),
        other => (other.to_string(), 0..0),
    };
    PatternError::Syntax { message, span }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> PatternError {
        parse(text, &PatternLimits::default()).expect_err(text)
    }

    #[test]
    fn the_trees_of_a_cache_take_bounded_memory() {
        let limits = PatternLimits {
            pattern_bytes: 1 << 20,
            ..PatternLimits::default()
        };
        let cache = PatternCache::new(limits);
        let patterns = (0..6).map(|index| format!("{index}{}", r"\w-".repeat(3_000)));
        for text in patterns.clone() {
            let parsed = cache.parse_syntax(&text, false).unwrap();
            assert!(heap_bytes(&parsed.hir) > 3_000 * 2_000);
        }
        let cached = cache.parsed.borrow();
        let kept = patterns.filter(|text| cached.by_text[0].contains_key(&**text));
        assert!((1..6).contains(&kept.count()));
        assert!(cached.bytes > CACHED_BYTES / 2 && cached.bytes <= CACHED_BYTES);
    }

    #[test]
    fn a_cached_pattern_is_the_parsed_one() {
        let limits = PatternLimits::default();
        let cache = PatternCache::new(limits);
        for text in [
            "a(b|c)",
            r"\w+(?i)K",
            "a*",
            "(",
            "a(?!b)",
            r"(a)\1",
            r"\p{Nothing}",
            "a",
        ] {
            for ignores_case in [false, true, false] {
                let parsed = parse_syntax(text, ignores_case, &limits);
                let cached = cache.parse_syntax(text, ignores_case);
                match (parsed, cached) {
                    (Ok(parsed), Ok(cached)) => {
                        assert_eq!((parsed.hir, parsed.is_hull), (cached.hir, cached.is_hull));
                    }
                    (parsed, cached) => assert_eq!(parsed.err(), cached.err(), "{text}"),
                }
            }
            let cached = cache.parse(text).map(Arc::unwrap_or_clone);
            assert_eq!(cached, parse(text, &limits), "{text}");
        }
        #[cfg(feature = "lookaround")]
        assert!(cache.has_lookaround("a(?!b)"));
        assert!(!cache.has_lookaround("a(?:b)"));
        // The first tree is kept, not built again.
        let [first, again] = [(); 2].map(|()| cache.parse("a(b|c)").expect("it is valid"));
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn a_cache_of_large_classes_is_bounded() {
        let cache = PatternCache::new(PatternLimits::default());
        let text = |count: usize| r"\w".repeat(count);
        for count in 2000..2020 {
            let parsed = cache.parse_syntax(&text(count), false);
            let classes = parsed.expect("it is valid").hir;
            assert_eq!(classes.properties().minimum_len(), Some(count));
        }
        let parsed = cache.parsed.borrow();
        assert!(parsed.bytes <= CACHED_BYTES);
        assert!((1..20).contains(&parsed.by_text[0].len()));
    }

    #[test]
    fn a_class_over_bytes_needs_a_state_for_each_byte_of_its_sequences() {
        let count = |text: &str| {
            let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
            states(&parser.parse(text).expect("it is valid"))
        };
        assert_eq!(count("x[é-ê]"), 2);
        // Two bytes, and the class.
        assert_eq!(count(r"(?-u:\xFF)[é-ê]"), 1 + 3);
    }

    #[test]
    fn hostile_patterns_are_refused_from_their_tree() {
        let limit = PatternLimits::default().rule_states;
        assert_eq!(
            refused("(a{1000}){1000}"),
            PatternError::TooBig {
                states: 1_000_000,
                limit
            }
        );
        assert_eq!(refused("(?:){4294967295}"), PatternError::MatchesEmpty);
        assert_eq!(refused(r"[\s\S]{0,10000}"), PatternError::MatchesEmpty);
        assert!(matches!(
            refused(&"(".repeat(100_000)),
            PatternError::TooLong { bytes: 100_000, .. }
        ));
        assert!(matches!(
            refused(&"(".repeat(10_000)),
            PatternError::Syntax { .. }
        ));
    }

    #[test]
    fn a_pattern_that_matches_nothing_makes_only_itself_impossible() {
        for (text, least) in [
            (r"ab?(?:cde|fg)\b", Some(3)),
            ("(a|é){3}x", Some(4)),
            (r"a[^\s\S]*b", Some(2)),
            (r"a(?:x|[^\s\S])b", Some(3)),
            (r"a[^\s\S]b", None),
            (r"a[^\s\S]{2,}", None),
        ] {
            let hir = parse(text, &PatternLimits::default()).expect(text);
            assert_eq!(min_match_bytes(&hir), least, "{text}");
        }
        for text in [r"[^\s\S]*", r"(?:[^\s\S]+)?", r"x*[^\s\S]*\b"] {
            assert_eq!(refused(text), PatternError::MatchesEmpty, "{text}");
        }
    }

    #[test]
    fn a_pattern_may_be_as_long_and_as_large_as_its_limit() {
        let limits = PatternLimits {
            pattern_bytes: 8,
            rule_states: 5,
            ..PatternLimits::default()
        };
        for (text, refused) in [
            (
                "(abcd)ef",
                Some(PatternError::TooBig {
                    states: 6,
                    limit: 5,
                }),
            ),
            ("(abcd)e+", None),
            (
                "(abcd)e++",
                Some(PatternError::TooLong { bytes: 9, limit: 8 }),
            ),
        ] {
            assert_eq!(parse(text, &limits).err(), refused, "{text}");
        }
    }

    #[cfg(feature = "lookaround")]
    #[test]
    fn a_pattern_that_cannot_be_compiled_is_refused_unless_there_is_a_better_reason() {
        let reason_of = |text: &str| match refused(text) {
            PatternError::Syntax { .. } => "does not compile",
            PatternError::MatchesEmpty => "matches the empty text",
            PatternError::TooBig { .. } => "is too big",
            other => panic!("{text}: {other:?}"),
        };
        for (text, reason) in [
            (r"(?!x)\w{500}", "does not compile"),
            (r"(?!x)(?:\w{500})?", "matches the empty text"),
            (r"(?!x)(?:\w{500}){200}", "is too big"),
        ] {
            assert_eq!(reason_of(text), reason, "{text}");
        }
    }

    #[cfg(feature = "lookaround")]
    #[test]
    fn a_syntax_error_is_reported_as_the_plain_parser_reports_it() {
        for (text, message, place) in [
            (r"a\y", "unrecognized escape sequence", r"\y"),
            (r"(?=a)\y", "Invalid escape: \\y", r"\"),
        ] {
            match refused(text) {
                PatternError::Syntax {
                    message: told,
                    span,
                } => {
                    assert_eq!((told.as_str(), &text[span]), (message, place), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[cfg(not(feature = "lookaround"))]
    #[test]
    fn look_around_needs_its_feature() {
        let what = |text| match refused(text) {
            PatternError::NeedsLookaround { construct, .. } => construct,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(what("a(?=b)"), "look-around");
        assert_eq!(what(r"(a)\1"), "a back-reference");
    }

    #[test]
    fn big_but_honest_patterns_load() {
        for text in ["a{5}{5}{5}{5}", r"\pL{1000}", "(a+)+$", "[01]*1[01]{20}"] {
            parse(text, &PatternLimits::default()).expect(text);
        }
    }
}
