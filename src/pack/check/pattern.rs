//! The faults of a pattern: an entry of `any`, `all`, `sequence` or `none`.

use std::ops::Range;

use super::fault::Fault;
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::load_context::LoadContext;
use crate::pack::lower::lower;
use crate::rule::{Fold, Pattern, PatternKind, Rule};
use ttsr_automata::pattern::{self, FoldError, PatternError};

/// The cost of a pattern and of each of its bytes, in steps of [`Limits::load_steps`]: it is parsed, and two bytes may
/// be a large class.
const PATTERN_STEPS: usize = 1024;
const BYTE_STEPS: usize = 64;

/// The help about the form of patterns.
pub(in crate::pack) const FORM: &str =
    "write `match.any = [{ regex = '…' }]`, or `literal`, `word` or `command` instead of `regex`";

/// Returns the cost of loading a pattern with that text.
pub(in crate::pack) fn load_steps(text: &str) -> usize {
    PATTERN_STEPS + BYTE_STEPS * text.len()
}

/// Returns the faults of patterns that inherit `match.fold`, which is not known while they are read, with their texts.
pub(super) fn late_faults<'r>(
    rule: &'r Rule,
    fold: &[Fold],
    context: &LoadContext<'_>,
) -> Vec<(&'r str, Fault)> {
    let taken = |pattern: &&Pattern| !fold.is_empty() && pattern.fold == fold;
    let mut found = Vec::new();
    for pattern in rule.condition.patterns().filter(taken) {
        let mut plain = pattern.clone();
        plain.fold.clear();
        let fault = fault(pattern, context);
        let is_new = |late: &Fault| self::fault(&plain, context).as_ref() != Some(late);
        found.extend(fault.filter(is_new).map(|late| (&*pattern.text, late)));
        let fault = exception_fault(pattern, context);
        let is_new = |late: &Fault| exception_fault(&plain, context).as_ref() != Some(late);
        let written = pattern.unless.as_deref().unwrap_or_default();
        found.extend(fault.filter(is_new).map(|late| (written, late)));
    }
    found
}

/// Returns the fault of the exception of a pattern, its key `unless`.
pub(in crate::pack) fn exception_fault(
    pattern: &Pattern,
    context: &LoadContext<'_>,
) -> Option<Fault> {
    let exception = pattern.exception()?;
    if context.patterns.has_lookaround(&exception.text) {
        let message = "`unless` has no look-around or back-reference";
        let help = "write the alternatives, or use `\\b`, `^` or `$`";
        return Some(Fault::new(&code::LOOK_AROUND, message).with_help(help));
    }
    let found = fault(&exception, context)?;
    if found.code == &code::MATCHES_EMPTY {
        let message = "`unless` matches the empty text, so the pattern would never count";
        let help = "require at least one character: `+` instead of `*`";
        return Some(Fault::new(&code::MATCHES_EMPTY, message).with_help(help));
    }
    Some(found)
}

/// Returns the fault of a pattern.
pub(in crate::pack) fn fault(pattern: &Pattern, context: &LoadContext<'_>) -> Option<Fault> {
    // The limit applies to the length that the author wrote, not to that of the escaped form.
    if pattern.text.len() > context.limits.pattern_bytes {
        return Some(too_long(pattern.text.len(), context.limits.pattern_bytes));
    }
    let is_regex = pattern.kind == PatternKind::Regex;
    if let Some(fault) = backspace(&pattern.text).filter(|_| is_regex) {
        return Some(fault);
    }
    match lower(pattern, &context.patterns) {
        Ok(lowered) if pattern::min_match_bytes(&lowered.hir).is_some() => None,
        Ok(_) => Some(
            Fault::new(&code::NEVER_MATCHES, "this pattern can never match")
                .with_help(
                    "a class that excludes everything, such as `[^\\s\\S]`, is the usual cause",
                )
                .within(Some(0..pattern.text.len())),
        ),
        Err(error) => Some(pattern_fault(error, &pattern.text, is_regex)),
    }
}

/// Returns the fault of a piece of a regular expression, read as a whole expression. It may match the empty text.
pub(super) fn syntax_fault(text: &str, context: &LoadContext<'_>) -> Option<Fault> {
    let parsed = || context.patterns.parse_syntax(text, false);
    backspace(text).or_else(|| Some(pattern_fault(parsed().err()?, text, true)))
}

/// Returns the fault of a regular expression with a backspace character.
fn backspace(text: &str) -> Option<Fault> {
    let at = text.find('\u{8}')?;
    // The text does not contain the character that was meant, so the rule would never be broken.
    let message =
        "this pattern holds a backspace character: between double quotes TOML reads `\\b` as one";
    let help = "write the pattern between single quotes: `regex = '\\b…'`; a backspace is `\\x08`";
    let fault = Fault::new(&code::REGEX, message).with_help(help);
    Some(fault.within(Some(at..at + 1)))
}

fn too_long(bytes: usize, limit: usize) -> Fault {
    Fault::new(
        &code::PATTERN_TOO_LONG,
        format!("pattern is {bytes} bytes, limit is {limit}"),
    )
    .with_help("split it into several entries of `any`")
}

fn pattern_fault(error: PatternError, text: &str, is_regex: bool) -> Fault {
    match error {
        PatternError::TooLong { bytes, limit } => too_long(bytes, limit),
        PatternError::Syntax { message, span } => {
            let message = escape::all(&message);
            Fault::new(
                &code::REGEX,
                format!("this regular expression is not valid: {message}"),
            )
            .within((is_regex && !span.is_empty()).then_some(span))
        }
        PatternError::NeedsLookaround { construct, span } => {
            needs_lookaround(construct, text, span)
        }
        PatternError::Lookaround { error, span } => lookaround_fault(&error, text, span),
        PatternError::MatchesEmpty if is_regex => Fault::new(
            &code::MATCHES_EMPTY,
            "this pattern matches the empty text, so it would hit everywhere",
        )
        .with_help(
            "require at least one character: `+` instead of `*`, text next to `^`, `$` or `\\b`",
        )
        .within(Some(0..text.len())),
        PatternError::MatchesEmpty => Fault::new(
            &code::MATCHES_EMPTY,
            "this pattern is empty, so it would hit everywhere",
        ),
        PatternError::Fold(error) => fold_fault(error).within(Some(0..text.len())),
        PatternError::TooBig { states, limit } => Fault::new(
            &code::PATTERN_TOO_BIG,
            format!("pattern needs {states} states, limit is {limit}"),
        )
        .with_help("lower the counts of its repetitions: nested counts multiply"),
    }
}

/// Returns the fault of a pattern that cannot be folded as the text is.
fn fold_fault(error: FoldError) -> Fault {
    let (message, help) = match error {
        FoldError::Empty => (
            "folding removes every character of this pattern".to_owned(),
            "add a character that the folds of the rule keep",
        ),
        FoldError::Class(class) => (
            format!(
                "this pattern has {}, and folded text has none of these characters",
                quote(&class)
            ),
            "write the pattern in the form of folded text, or remove the fold",
        ),
        FoldError::Joins(joined) => (
            format!(
                "in folded text {} is joined with the character before it, which is not one character in this pattern",
                quote(&joined)
            ),
            "write the joined characters, such as `[éá]` for `[ea]\\x{301}`",
        ),
        FoldError::Lookaround(literal) => (
            format!(
                "folded text does not contain {}, and a pattern with look-around is not folded",
                quote(&literal)
            ),
            "write the pattern in the form of folded text, or remove the fold",
        ),
    };
    Fault::new(&code::FOLD, message).with_help(help)
}

fn needs_lookaround(construct: &str, text: &str, span: Range<usize>) -> Fault {
    let written = text.get(span.clone()).unwrap_or_default();
    let message = format!(
        "{} is {construct}, which this build does not support",
        quote(written)
    );
    let help = if construct == "look-around" {
        "match the neighbouring character, with a class such as `(?:^|[^a-z])`, or use `\\b`, `^` or `$`"
    } else {
        "write out the alternatives, such as `'[^']*'|\"[^\"]*\"`: patterns do not remember matched text"
    };
    let help = format!("{help}; the feature `lookaround` of ttsr supports it, at a higher cost");
    Fault::new(&code::LOOK_AROUND, message)
        .with_help(help)
        .within(Some(span))
}

/// Returns the fault of a look-around that cannot be decided in a bounded window.
fn lookaround_fault(error: &pattern::LookaroundError, text: &str, span: Range<usize>) -> Fault {
    let written = text.get(span.clone()).filter(|written| !written.is_empty());
    let (message, help) = match error {
        pattern::LookaroundError::Unbounded(what) => (
            format!(
                "{} an unbounded {what}: deciding it could need the whole text",
                written.map_or_else(|| "this pattern has".to_owned(), |written| quote(written) + " is")
            ),
            "limit the repetition, such as `.{0,80}` instead of `.*`",
        ),
        pattern::LookaroundError::TooFar { side, chars } => (
            format!(
                "this pattern looks {chars} characters {side}, limit is {}",
                pattern::REACH
            ),
            "lower the counts of the repetitions inside its look-around",
        ),
        pattern::LookaroundError::Unsupported(what) => (
            format!("this pattern has {what}, which is not supported"),
            "look-ahead, look-behind, back-references and atomic groups are supported",
        ),
        pattern::LookaroundError::Recursive => (
            "this pattern has a back-reference inside the group that it refers to, or a long chain of them"
                .to_owned(),
            "refer to a group that ends before the back-reference",
        ),
    };
    Fault::new(&code::LOOK_AROUND, message)
        .with_help(help)
        .within((!span.is_empty()).then_some(span))
}
