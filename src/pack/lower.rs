//! Lowering: translates a pattern of a rule to the HIR that is matched.
//!
//! The check and the compiler both lower a pattern here, so the pattern that is accepted is the pattern that is
//! compiled. Additions such as `^` and `$` are made to the HIR, not to the text: they could change the meaning of the
//! text (`(?x)` with a comment) or make it exceed a limit.

use std::sync::Arc;

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

use crate::program::ViewKey;
use crate::rule::{Channel, Pattern, PatternKind};
use ttsr_automata::PatternLimits;
use ttsr_automata::pattern::{self, FoldError, PatternCache, PatternError};
use ttsr_views::fold::{FoldSet, fold_text, has_boundary_before};

/// Classes with at most this many characters are folded character by character. A larger class is a category or a
/// negation, such as `\p{L}` or `[^;]`, and already describes folded text.
const LISTED: usize = 256;

/// A class with more characters than this is assumed to match some folded text. Smaller classes are tested.
const TRIED: usize = 4096;

/// A lowered pattern.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) hir: Arc<Hir>,
    /// The regular expression that confirms each end, for a pattern with look-around or back-references; `hir` is then an
    /// over-approximation of it.
    #[cfg(feature = "lookaround")]
    pub(super) confirmed_by: Option<String>,
}

/// Lowers a pattern. If its text is folded, the pattern is folded in the same way.
pub(super) fn lower(pattern: &Pattern, patterns: &PatternCache) -> Result<Lowered, PatternError> {
    let folds = ViewKey::from_pattern(pattern, Channel::Text).folds;
    if pattern.kind == PatternKind::Regex {
        return regex(&pattern.text, folds, patterns);
    }
    let text = fold_text(folds, &pattern.text);
    if text.is_empty() && !pattern.text.is_empty() {
        return Err(PatternError::Fold(FoldError::Empty));
    }
    let literal = Hir::literal(text.into_bytes());
    // An empty word is refused later, because it is empty.
    let hir = match pattern.kind {
        PatternKind::Word => Hir::concat(vec![
            Hir::look(Look::WordStartHalfUnicode),
            literal,
            Hir::look(Look::WordEndHalfUnicode),
        ]),
        _ => literal,
    };
    Lowered::accept(Arc::new(hir), patterns.limits())
}

/// Returns the pattern restricted to a whole line.
pub(super) fn line(hir: &Hir) -> Hir {
    Hir::concat(vec![
        Hir::look(Look::StartCRLF),
        hir.clone(),
        Hir::look(Look::EndCRLF),
    ])
}

impl Lowered {
    /// Returns the regular expression that confirms each end, for a pattern with look-around or back-references.
    pub(super) fn confirmed_by(&self) -> Option<String> {
        #[cfg(feature = "lookaround")]
        return self.confirmed_by.clone();
        #[cfg(not(feature = "lookaround"))]
        None
    }

    /// Returns a pattern without look-around, if it keeps the limits.
    fn accept(hir: Arc<Hir>, limits: &PatternLimits) -> Result<Lowered, PatternError> {
        pattern::accept(&hir, limits)?;
        Ok(Lowered {
            hir,
            #[cfg(feature = "lookaround")]
            confirmed_by: None,
        })
    }
}

fn regex(text: &str, folds: FoldSet, patterns: &PatternCache) -> Result<Lowered, PatternError> {
    let limits = patterns.limits();
    // The unfolded text is parsed first, so that errors have positions in the text as written.
    let written = patterns.parse_syntax(text, false)?;
    if written.is_hull {
        return lower_lookaround(text, written.hir, folds, limits);
    }
    if folds.is_empty() {
        return Lowered::accept(written.hir, limits);
    }
    let hir = match folds.contains(FoldSet::CASE) {
        true => patterns.parse_syntax(text, true)?.hir,
        false => written.hir,
    };
    let folded = HirFolder { folds }
        .fold(&hir, false)
        .map_err(PatternError::Fold)?;
    let is_empty = |hir: &Hir| pattern::min_match_bytes(hir) == Some(0);
    if is_empty(&folded) && !is_empty(&hir) {
        return Err(PatternError::Fold(FoldError::Empty));
    }
    Lowered::accept(Arc::new(folded), limits)
}

/// Lowers a pattern with look-around: the case fold adds `(?i)`, and the other folds must not change its literals.
#[cfg(feature = "lookaround")]
fn lower_lookaround(
    text: &str,
    hull: Arc<Hir>,
    folds: FoldSet,
    limits: &PatternLimits,
) -> Result<Lowered, PatternError> {
    use ttsr_automata::lookaround::approximate;
    let literals = approximate::literals(text);
    let folded = |literal: &&String| fold_text(folds.without_case(), literal) != **literal;
    if let Some(literal) = literals.iter().find(folded) {
        let error = FoldError::Lookaround(literal.clone());
        return Err(PatternError::Fold(error));
    }
    let (text, hull) = match folds.contains(FoldSet::CASE) {
        true => {
            let text = format!("(?i){text}");
            // The limit applies to the text as written, without the four bytes of `(?i)`.
            let longer = PatternLimits {
                pattern_bytes: limits.pattern_bytes.saturating_add(4),
                ..*limits
            };
            let hull = pattern::parse_syntax(&text, false, &longer)?.hir;
            (text, hull)
        }
        false => (text.to_owned(), hull),
    };
    pattern::accept(&hull, limits)?;
    Ok(Lowered {
        hir: hull,
        confirmed_by: Some(text),
    })
}

#[cfg(not(feature = "lookaround"))]
fn lower_lookaround(
    _: &str,
    hull: Arc<Hir>,
    _: FoldSet,
    limits: &PatternLimits,
) -> Result<Lowered, PatternError> {
    Lowered::accept(hull, limits)
}

/// Folds the HIR of a regular expression.
struct HirFolder {
    folds: FoldSet,
}

/// The result of folding a class.
enum FoldedClass {
    /// All characters of the class fold to the same text as this one.
    Same(char),
    /// A class, or an alternation of texts.
    Several(Hir),
}

impl HirFolder {
    /// Folds `hir`. `follows` is true if another part of the pattern may match before it.
    fn fold(&self, hir: &Hir, follows: bool) -> Result<Hir, FoldError> {
        Ok(match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => hir.clone(),
            HirKind::Literal(_) | HirKind::Class(_) => {
                self.concat(std::slice::from_ref(hir), follows)?
            }
            HirKind::Capture(capture) => Hir::capture(Capture {
                sub: Box::new(self.fold(&capture.sub, follows)?),
                ..capture.clone()
            }),
            HirKind::Repetition(repetition) => {
                let repeats = repetition.max.is_none_or(|max| max > 1);
                let sub = self.fold(&repetition.sub, follows || repeats)?;
                match sub.kind() {
                    HirKind::Empty => sub,
                    _ => Hir::repetition(Repetition {
                        sub: Box::new(sub),
                        ..repetition.clone()
                    }),
                }
            }
            HirKind::Alternation(subs) => {
                let folded = subs.iter().map(|sub| self.fold(sub, follows));
                Hir::alternation(folded.collect::<Result<_, _>>()?)
            }
            HirKind::Concat(subs) => self.concat(subs, follows)?,
        })
    }

    /// Folds a concatenation. Adjacent characters are folded together, because a fold may join them.
    fn concat(&self, subs: &[Hir], mut follows: bool) -> Result<Hir, FoldError> {
        let mut out = Vec::with_capacity(subs.len());
        let mut run = String::new();
        for sub in subs {
            let folded = match sub.kind() {
                HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                    Ok(text) => {
                        run.push_str(text);
                        continue;
                    }
                    Err(_) => Hir::literal(self.fold_bytes(literal.0.to_vec())),
                },
                HirKind::Class(class) => match self.class(class)? {
                    FoldedClass::Same(char) => {
                        run.push(char);
                        continue;
                    }
                    FoldedClass::Several(hir) => hir,
                },
                _ => self.fold(sub, follows || !run.is_empty())?,
            };
            self.end_run(&mut run, follows, &mut out)?;
            follows |= !out.is_empty();
            follows |= !matches!(folded.kind(), HirKind::Look(_) | HirKind::Empty);
            out.push(folded);
        }
        self.end_run(&mut run, follows, &mut out)?;
        Ok(Hir::concat(out))
    }

    fn end_run(
        &self,
        run: &mut String,
        follows: bool,
        out: &mut Vec<Hir>,
    ) -> Result<(), FoldError> {
        let text = std::mem::take(run);
        let folded = fold_text(self.folds, &text);
        let first = folded.chars().next().filter(|_| follows);
        if first.is_some_and(|first| !has_boundary_before(self.folds, first)) {
            return Err(FoldError::Joins(text));
        }
        if !folded.is_empty() {
            out.push(Hir::literal(folded.into_bytes()));
        }
        Ok(())
    }

    fn class(&self, class: &Class) -> Result<FoldedClass, FoldError> {
        let class = match class {
            Class::Unicode(class) => class,
            Class::Bytes(class) => return Ok(self.class_of_bytes(class)),
        };
        if count(class) > LISTED {
            let is_folded = |char: char| self.fold_char(char).chars().eq([char]);
            return match count(class) > TRIED || chars(class).any(is_folded) {
                true => Ok(FoldedClass::Several(Hir::class(Class::Unicode(
                    class.clone(),
                )))),
                false => Err(FoldError::Class(
                    Hir::class(Class::Unicode(class.clone())).to_string(),
                )),
            };
        }
        let folded: Vec<(char, String)> = chars(class)
            .map(|char| (char, self.fold_char(char)))
            .collect();
        if let Some((char, first)) = folded.first()
            && folded.iter().all(|(_, text)| text == first)
        {
            return Ok(FoldedClass::Same(*char));
        }
        let mut single = ClassUnicode::empty();
        let mut several = Vec::new();
        for (_, text) in folded {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                // A class matches exactly one character; a character that folds to nothing must not make it optional.
                (None, _) => {}
                (Some(char), None) => single.push(ClassUnicodeRange::new(char, char)),
                _ => several.push(Hir::literal(text.into_bytes())),
            }
        }
        if !single.ranges().is_empty() || several.is_empty() {
            several.insert(0, Hir::class(Class::Unicode(single)));
        }
        Ok(FoldedClass::Several(Hir::alternation(several)))
    }

    /// Folds a class of bytes: bytes outside of ASCII are not characters, and in ASCII only the case is folded.
    fn class_of_bytes(&self, class: &ClassBytes) -> FoldedClass {
        let bytes = class.ranges().iter().flat_map(|r| r.start()..=r.end());
        let bytes = self.fold_bytes(bytes.collect());
        let ranges = bytes
            .into_iter()
            .map(|byte| ClassBytesRange::new(byte, byte));
        FoldedClass::Several(Hir::class(Class::Bytes(ClassBytes::new(ranges))))
    }

    fn fold_bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.folds.contains(FoldSet::CASE) {
            bytes.make_ascii_lowercase();
        }
        bytes
    }

    fn fold_char(&self, char: char) -> String {
        fold_text(self.folds, char.encode_utf8(&mut [0; 4]))
    }
}

fn chars(class: &ClassUnicode) -> impl Iterator<Item = char> + '_ {
    class.ranges().iter().flat_map(|r| r.start()..=r.end())
}

fn count(class: &ClassUnicode) -> usize {
    let len = |r: &ClassUnicodeRange| (u32::from(r.end()) - u32::from(r.start())) as usize + 1;
    class.ranges().iter().map(len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::rule::Fold;

    fn cache() -> PatternCache {
        PatternCache::new(Limits::default().pattern_limits())
    }

    fn lowered(text: &str, folds: &[Fold]) -> Result<String, PatternError> {
        let mut pattern = Pattern::regex(text);
        pattern.fold = folds.to_vec();
        lower(&pattern, &cache()).map(|lowered| lowered.hir.to_string())
    }

    fn same(text: &str, folds: &[Fold], want: &str) {
        let want = lowered(want, &[]).expect(want);
        assert_eq!(lowered(text, folds).expect(text), want, "{text}");
    }

    #[test]
    fn regular_expressions_are_folded_like_the_text() {
        use Fold::{Case, Invisible};
        for (text, folds, want) in [
            (r"DROP\s+TABLE", &[Case][..], r"drop\s+table"),
            ("[A-F]{2}", &[Case], "[a-f]{2}"),
            ("(?-i:ABC)", &[Case], "abc"),
            ("(?-u:[A-C])", &[Case], "(?-u:[a-c])"),
            ("a\u{200b}b", &[Invisible], "ab"),
            (r"a\x{200b}*b", &[Invisible], "ab"),
            (r"a[\x{200b}c-d]", &[Invisible], "a[cd]"),
            (r"[^;]+", &[Invisible], r"[^;]+"),
        ] {
            same(text, folds, want);
        }
        #[cfg(feature = "unicode")]
        for (text, folds, want) in [
            ("\u{FB01}x", &[Fold::Nfkc][..], "fix"),
            ("(?:\u{FB01}|[a\u{FF42}])x", &[Fold::Nfkc], "(?:fi|[ab])x"),
            ("E\\x{301}", &[Fold::Nfkc], "\u{C9}"),
            ("E\\x{301}", &[Case, Fold::Nfkc], "\u{E9}"),
            ("\u{430}b", &[Fold::Confusables], "ab"),
        ] {
            same(text, folds, want);
        }
    }

    #[test]
    fn a_pattern_that_folded_text_never_matches_is_refused() {
        use Fold::{Case, Invisible};
        let refused = |text: &str, folds: &[Fold]| lowered(text, folds).expect_err(text);
        let nothing = PatternError::Fold(FoldError::Empty);
        assert_eq!(refused("\u{200b}", &[Invisible]), nothing);
        assert_eq!(refused(r"foo|\x{200b}+", &[Invisible]), nothing);
        assert!(matches!(
            refused("a(?-i:[A-ZԱ-ՖႠ-ჅⰀ-Ⱟ𐐀-𐐧𐒰-𐓓Ѐ-Я𐲀-𐲲])", &[Case]),
            PatternError::Fold(FoldError::Class(_))
        ));
        #[cfg(feature = "unicode")]
        assert_eq!(
            refused(r"[ea]\x{301}", &[Fold::Nfkc]),
            PatternError::Fold(FoldError::Joins("\u{301}".to_owned()))
        );
        #[cfg(all(feature = "unicode", feature = "lookaround"))]
        assert_eq!(
            refused("a(?!\u{FB01})", &[Fold::Nfkc]),
            PatternError::Fold(FoldError::Lookaround("\u{FB01}".to_owned()))
        );
    }

    #[test]
    fn a_line_and_a_literal_are_as_long_as_they_are_written() {
        let limits = Limits::default();
        let nested = format!("{}x{}", "(".repeat(249), ")".repeat(249));
        let long = ".".repeat(limits.pattern_bytes);
        for pattern in [
            Pattern::regex("(?x)abc # a comment"),
            Pattern::regex(nested),
            Pattern::literal(long),
        ] {
            let hir = lower(&pattern, &cache()).map(|lowered| line(&lowered.hir));
            assert!(hir.is_ok(), "{hir:?}");
        }
    }
}
