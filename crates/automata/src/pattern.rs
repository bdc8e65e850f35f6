//! From the text of a pattern to a checked syntax tree, with an estimate of its cost.
//!
//! Nothing here does work proportional to what a pattern *expands* to: `(a{1000}){1000}` is refused
//! from its syntax tree of three nodes.

use std::ops::Range;

use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

use super::nfa::needs_bytes;
use crate::PatternLimits;

/// Why a pattern cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Longer than [`PatternLimits::pattern_bytes`].
    TooLong { bytes: usize, limit: usize },
    /// Not a regular expression; `span` counts bytes of its text.
    Syntax { message: String, span: Range<usize> },
    /// Look-around or a back-reference, which need the feature `lookaround`.
    LookAround {
        what: &'static str,
        span: Range<usize>,
    },
    /// Look-around or a back-reference that no bounded window can confirm; the span is empty where it
    /// is not known which part of the text it is.
    Around {
        fault: LookaroundFault,
        span: Range<usize>,
    },
    /// It matches the empty text, so it would hit everywhere.
    MatchesEmpty,
    /// Some of it can never match text that is folded.
    Folded(Unfolded),
    /// More than [`PatternLimits::rule_states`].
    TooBig { states: usize, limit: usize },
}

/// The largest number of characters that a pattern may look at beyond either end of its match.
pub const REACH: usize = 256;

/// The reason why a pattern with look-around or back-references cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookaroundFault {
    /// The text that decides about it has no bound.
    Unbounded(&'static str),
    /// It looks further than [`REACH`] characters.
    TooFar { side: &'static str, chars: usize },
    /// It has a construct without a known over-approximation.
    Unsupported(&'static str),
    /// It has a back-reference inside the group that the back-reference names.
    Recursive,
}

/// Why a pattern cannot be folded like the text that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfolded {
    /// Nothing is left of it.
    Nothing,
    /// None of these characters is in folded text.
    Class(String),
    /// This text begins with a character that folding joins with the one before it.
    Joins(String),
    /// This text is not its own fold, and stands in a pattern that looks around.
    Around(String),
}

/// Parses a regular expression as the `regex` crate would (Unicode on, arbitrary bytes allowed), and accepts it.
///
/// With the feature `lookaround`, a pattern that looks around or refers back gives its hull: a regular
/// expression that matches wherever the pattern does. `confirm` knows which patterns these are.
pub fn parse(text: &str, limits: &PatternLimits) -> Result<Hir, Refused> {
    accept(syntax(text, false, limits)?.hir, limits)
}

/// A regular expression that was parsed and is not accepted yet.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub hir: Hir,
    /// Whether `hir` is a hull, so that `confirm` has to decide.
    pub is_hull: bool,
}

/// Parses a regular expression, as `(?i)` where case is ignored.
pub fn syntax(text: &str, ignores_case: bool, limits: &PatternLimits) -> Result<Parsed, Refused> {
    if text.len() > limits.pattern_bytes {
        return Err(Refused::TooLong {
            bytes: text.len(),
            limit: limits.pattern_bytes,
        });
    }
    let parsed = regex_syntax::ParserBuilder::new()
        .utf8(false)
        .case_insensitive(ignores_case)
        .build()
        .parse(text);
    match parsed {
        Ok(hir) => Ok(Parsed {
            hir,
            is_hull: false,
        }),
        #[cfg(feature = "lookaround")]
        Err(error @ regex_syntax::Error::Parse(_)) => Ok(Parsed {
            hir: crate::lookaround::verify::hull(text, limits, syntax_error(&error))?,
            is_hull: true,
        }),
        Err(error) => Err(syntax_error(&error)),
    }
}

/// Accepts a pattern that needs some text to match, and no more states than the limit.
pub fn accept(hir: Hir, limits: &PatternLimits) -> Result<Hir, Refused> {
    if least_bytes(&hir) == Some(0) {
        return Err(Refused::MatchesEmpty);
    }
    let states = states(&hir);
    if states > limits.rule_states {
        return Err(Refused::TooBig {
            states,
            limit: limits.rule_states,
        });
    }
    Ok(hir)
}

/// Whether the pattern is one that can be matched, though not by an automaton alone.
pub fn looks_around(text: &str, limits: &PatternLimits) -> bool {
    let mut plain = regex_syntax::ParserBuilder::new();
    plain.utf8(false).build().parse(text).is_err() && parse(text, limits).is_ok()
}

/// Number of automaton states the tree needs, saturating: one a character class, or in a pattern that can match single
/// bytes of characters one for each byte of each sequence that encodes the class.
pub fn states(hir: &Hir) -> usize {
    states_in(hir, needs_bytes(hir))
}

fn states_in(hir: &Hir, takes_bytes: bool) -> usize {
    match hir.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) if takes_bytes => {
            let ranges = class.ranges().iter();
            let sequences = ranges.flat_map(|r| Utf8Sequences::new(r.start(), r.end()));
            sequences.map(|sequence| sequence.len()).sum::<usize>() + 1
        }
        HirKind::Class(_) | HirKind::Look(_) => 1,
        HirKind::Capture(capture) => states_in(&capture.sub, takes_bytes),
        HirKind::Concat(subs) => subs
            .iter()
            .map(|sub| states_in(sub, takes_bytes))
            .fold(0, usize::saturating_add),
        HirKind::Alternation(subs) => subs
            .iter()
            .map(|sub| states_in(sub, takes_bytes))
            .fold(1, usize::saturating_add),
        HirKind::Repetition(repetition) => {
            let copies = repetition.max.unwrap_or(repetition.min.max(1)) as usize;
            let optional = copies.saturating_sub(repetition.min as usize);
            states_in(&repetition.sub, takes_bytes)
                .saturating_mul(copies)
                .saturating_add(optional)
        }
    }
}

/// Bytes of the shortest match, or a lower bound of it, saturating; `None` if nothing matches.
///
/// What `Properties::minimum_len` says is not asked: it takes `[^\s\S]*`, which matches the empty text, for a pattern
/// that matches nothing, as what is repeated there does.
pub fn least_bytes(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(0),
        HirKind::Literal(literal) => Some(literal.0.len()),
        HirKind::Class(class) => class.minimum_len(),
        HirKind::Capture(capture) => least_bytes(&capture.sub),
        HirKind::Concat(subs) => subs.iter().try_fold(0, |least: usize, sub| {
            Some(least.saturating_add(least_bytes(sub)?))
        }),
        HirKind::Alternation(subs) => subs.iter().filter_map(least_bytes).min(),
        HirKind::Repetition(repetition) => match repetition.min {
            0 => Some(0),
            copies => Some(least_bytes(&repetition.sub)?.saturating_mul(copies as usize)),
        },
    }
}

pub(super) fn syntax_error(error: &regex_syntax::Error) -> Refused {
    use regex_syntax::ast::ErrorKind;
    let (message, span) = match error {
        regex_syntax::Error::Parse(error) => {
            let span = error.span().start.offset..error.span().end.offset;
            match error.kind() {
                ErrorKind::UnsupportedLookAround => {
                    return Refused::LookAround {
                        what: "look-around",
                        span,
                    };
                }
                ErrorKind::UnsupportedBackreference => {
                    return Refused::LookAround {
                        what: "a back-reference",
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
    Refused::Syntax { message, span }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Refused {
        parse(text, &PatternLimits::default()).expect_err(text)
    }

    #[test]
    fn hostile_patterns_are_refused_from_their_tree() {
        let limit = PatternLimits::default().rule_states;
        assert_eq!(
            refused("(a{1000}){1000}"),
            Refused::TooBig {
                states: 1_000_000,
                limit
            }
        );
        assert_eq!(refused("(?:){4294967295}"), Refused::MatchesEmpty);
        assert_eq!(refused(r"[\s\S]{0,10000}"), Refused::MatchesEmpty);
        assert!(matches!(
            refused(&"(".repeat(100_000)),
            Refused::TooLong { bytes: 100_000, .. }
        ));
        assert!(matches!(
            refused(&"(".repeat(10_000)),
            Refused::Syntax { .. }
        ));
    }

    #[test]
    fn what_can_match_nothing_makes_only_itself_impossible() {
        for (text, least) in [
            (r"ab?(?:cde|fg)\b", Some(3)),
            ("(a|é){3}x", Some(4)),
            (r"a[^\s\S]*b", Some(2)),
            (r"a(?:x|[^\s\S])b", Some(3)),
            (r"a[^\s\S]b", None),
            (r"a[^\s\S]{2,}", None),
        ] {
            let hir = parse(text, &PatternLimits::default()).expect(text);
            assert_eq!(least_bytes(&hir), least, "{text}");
        }
        for text in [r"[^\s\S]*", r"(?:[^\s\S]+)?", r"x*[^\s\S]*\b"] {
            assert_eq!(refused(text), Refused::MatchesEmpty, "{text}");
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
                Some(Refused::TooBig {
                    states: 6,
                    limit: 5,
                }),
            ),
            ("(abcd)e+", None),
            ("(abcd)e++", Some(Refused::TooLong { bytes: 9, limit: 8 })),
        ] {
            assert_eq!(parse(text, &limits).err(), refused, "{text}");
        }
    }

    #[cfg(feature = "lookaround")]
    #[test]
    fn what_cannot_be_compiled_is_refused_unless_there_is_a_better_reason() {
        let told = |text: &str| match refused(text) {
            Refused::Syntax { .. } => "does not compile",
            Refused::MatchesEmpty => "matches the empty text",
            Refused::TooBig { .. } => "is too big",
            other => panic!("{text}: {other:?}"),
        };
        for (text, reason) in [
            (r"(?!x)\w{500}", "does not compile"),
            (r"(?!x)(?:\w{500})?", "matches the empty text"),
            (r"(?!x)(?:\w{500}){200}", "is too big"),
        ] {
            assert_eq!(told(text), reason, "{text}");
        }
    }

    #[cfg(feature = "lookaround")]
    #[test]
    fn what_is_no_pattern_at_all_is_told_as_the_plain_parser_tells_it() {
        for (text, message, place) in [
            (r"a\y", "unrecognized escape sequence", r"\y"),
            (r"(?=a)\y", "Invalid escape: \\y", r"\"),
        ] {
            match refused(text) {
                Refused::Syntax {
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
            Refused::LookAround { what, .. } => what,
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
