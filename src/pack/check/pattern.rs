//! The patterns of a rule: the entries of `any`, `all`, `sequence` and `none`.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{PatternText, Place};
use super::fault::Fault;
use super::{Walk, scope};
use crate::limits::Limits;
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::lower::lower;
use crate::pack::schema;
use crate::rule::{Fold, Pattern, PatternKind, Region, Rule};
use ttsr_automata::pattern::{self, Refused, Unfolded};

/// Work of a pattern, in steps of [`Limits::load_steps`]: it is parsed, and two bytes may be a large class.
const PATTERN_STEPS: usize = 1024;
const BYTE_STEPS: usize = 64;

const KINDS: [&str; 3] = ["literal", "word", "regex"];

/// What to write, in every help about the form of patterns.
pub(super) const FORM: &str =
    "write `match.any = [{ regex = '…' }]`, or `literal` or `word` instead of `regex`";

impl Walk<'_> {
    /// The patterns at `key` of `match`.
    pub(super) fn patterns(&mut self, conditions: &DeTable<'_>, key: &str) -> Vec<Pattern> {
        let Some(entries) = self.array(conditions, key) else {
            return Vec::new();
        };
        if entries.is_empty() {
            let fault = Fault::new(
                &code::EMPTY_VALUE,
                format!("`{key}` is empty: the rule could never be broken"),
            )
            .with_help(FORM);
            let span = conditions.get(key).map_or(0..0, Spanned::span);
            self.fault(fault, span);
        }
        let patterns = entries.iter().filter_map(|value| self.pattern(value, key));
        patterns.collect()
    }

    fn pattern(&mut self, value: &Spanned<DeValue<'_>>, list: &str) -> Option<Pattern> {
        let table = self.as_table(value, &format!("an entry of `{list}`"))?;
        self.known(table, "a pattern", schema::PATTERN);
        let region = self.regions(table);
        let fold = self.folds(table);
        let arg = self.string(table, "arg");
        if let Some(arg) = &arg
            && let Some(fault) = scope::fault("arg", arg.value)
        {
            self.fault_in(fault, arg);
        }
        let mut written = KINDS.iter().filter(|key| table.contains_key(**key));
        let (first, second) = (written.next(), written.next());
        if first.is_none() || second.is_some() {
            let found = if first.is_none() {
                "none"
            } else {
                "more than one"
            };
            let message = format!(
                "a pattern has exactly one of `literal`, `word`, `regex`; this has {found}"
            );
            let fault = Fault::new(&code::PATTERN_FORM, message).with_help(FORM);
            self.fault(fault, value.span());
            return None;
        }
        let key = first?;
        let text = self.string(table, key)?;
        let kind = match *key {
            "literal" => PatternKind::Literal,
            "word" => PatternKind::Word,
            _ => PatternKind::Regex,
        };
        let mut pattern = Pattern::new(kind, text.value.to_owned());
        pattern.region = region;
        pattern.fold = fold;
        pattern.arg = arg.map(|arg| arg.value.to_owned());
        self.spend(PATTERN_STEPS + BYTE_STEPS * text.value.len());
        if let Some(fault) = fault(&pattern, self.limits) {
            self.fault_in(fault, &text);
        }
        self.texts.push(PatternText {
            text: pattern.text.clone(),
            at: Place {
                file: self.file,
                span: text.span.clone(),
            },
            first: text.inner(self.text),
        });
        Some(pattern)
    }

    /// The regions at `region`, by their names.
    pub(super) fn regions(&mut self, table: &DeTable<'_>) -> Vec<Region> {
        let Some(texts) = self.one_or_more(table, "region") else {
            return Vec::new();
        };
        let mut names = schema::regions();
        names.push("code:<language>".to_owned());
        let regions = self.list_of(texts, "region", &names, Region::from_name);
        regions.unwrap_or_default()
    }

    /// The folds at `fold`, in the order of [`Fold::ALL`].
    pub(super) fn folds(&mut self, table: &DeTable<'_>) -> Vec<Fold> {
        let Some(texts) = self.one_or_more(table, "fold") else {
            return Vec::new();
        };
        let names = Fold::ALL.map(|fold| fold.name().to_owned());
        let folds = self.list_of(texts, "fold", &names, Fold::from_name);
        let mut folds = folds.unwrap_or_default();
        folds.sort_unstable();
        folds
    }
}

/// What is wrong with patterns that take their folds from `match.fold`, which was not known where they were read.
pub(super) fn late_faults<'r>(
    rule: &'r Rule,
    fold: &[Fold],
    limits: &Limits,
) -> Vec<(&'r str, Fault)> {
    let taken = |pattern: &&Pattern| !fold.is_empty() && pattern.fold == fold;
    let mut found = Vec::new();
    for pattern in rule.condition.patterns().filter(taken) {
        let mut plain = pattern.clone();
        plain.fold.clear();
        let fault = fault(pattern, limits);
        let is_new = |late: &Fault| self::fault(&plain, limits).as_ref() != Some(late);
        found.extend(fault.filter(is_new).map(|late| (&*pattern.text, late)));
    }
    found
}

/// What is wrong with a pattern, if something is.
pub(super) fn fault(pattern: &Pattern, limits: &Limits) -> Option<Fault> {
    // The length of what the author wrote counts, not that of the escaped form.
    if pattern.text.len() > limits.pattern_bytes {
        return Some(too_long(pattern.text.len(), limits.pattern_bytes));
    }
    let is_regex = pattern.kind == PatternKind::Regex;
    if let Some(at) = pattern.text.find('\u{8}').filter(|_| is_regex) {
        // It would be looked for, and never be there: the rule would be silent.
        let message = "this pattern holds a backspace character: between double quotes TOML reads `\\b` as one";
        let help =
            "write the pattern between single quotes: `regex = '\\b…'`; a backspace is `\\x08`";
        let fault = Fault::new(&code::REGEX, message).with_help(help);
        return Some(fault.within(Some(at..at + 1)));
    }
    match lower(pattern, limits) {
        Ok(lowered) if pattern::least_bytes(&lowered.hir).is_some() => None,
        Ok(_) => Some(
            Fault::new(
                &code::NEVER_MATCHES,
                "this pattern can match nothing at all",
            )
            .with_help("a class that excludes everything, such as `[^\\s\\S]`, is the usual cause")
            .within(Some(0..pattern.text.len())),
        ),
        Err(refused) => Some(refusal(refused, &pattern.text, is_regex)),
    }
}

fn too_long(bytes: usize, limit: usize) -> Fault {
    Fault::new(
        &code::PATTERN_TOO_LONG,
        format!("pattern is {bytes} bytes, limit is {limit}"),
    )
    .with_help("split it into several entries of `any`")
}

fn refusal(refused: Refused, text: &str, is_regex: bool) -> Fault {
    match refused {
        Refused::TooLong { bytes, limit } => too_long(bytes, limit),
        Refused::Syntax { message, span } => {
            let message = escape::all(&message);
            Fault::new(
                &code::REGEX,
                format!("this regular expression cannot be read: {message}"),
            )
            .within((is_regex && !span.is_empty()).then_some(span))
        }
        Refused::LookAround { what, span } => look_around(what, text, span),
        Refused::Around { fault, span } => around(&fault, text, span),
        Refused::MatchesEmpty if is_regex => Fault::new(
            &code::MATCHES_EMPTY,
            "this pattern matches the empty text, so it would hit everywhere",
        )
        .with_help(
            "ask for at least one character: `+` instead of `*`, text next to `^`, `$` or `\\b`",
        )
        .within(Some(0..text.len())),
        Refused::MatchesEmpty => Fault::new(
            &code::MATCHES_EMPTY,
            "this pattern is empty, so it would hit everywhere",
        ),
        Refused::Folded(why) => folded(why).within(Some(0..text.len())),
        Refused::TooBig { states, limit } => Fault::new(
            &code::PATTERN_TOO_BIG,
            format!("pattern needs {states} states, limit is {limit}"),
        )
        .with_help("lower the counts of its repetitions: nested counts multiply"),
    }
}

/// Why a pattern cannot be folded like the text that it reads.
fn folded(why: Unfolded) -> Fault {
    let (message, help) = match why {
        Unfolded::Nothing => (
            "nothing is left of this pattern once it is folded".to_owned(),
            "it needs a character that the folds of the rule keep",
        ),
        Unfolded::Class(class) => (
            format!(
                "this pattern has {}, and folded text has none of these characters",
                quote(&class)
            ),
            "write what folded text looks like, or leave out the fold",
        ),
        Unfolded::Joins(joined) => (
            format!(
                "in folded text {} is joined with the character before it, which is not one character in this pattern",
                quote(&joined)
            ),
            "write the joined characters, such as `[éá]` for `[ea]\\x{301}`",
        ),
        Unfolded::Around(literal) => (
            format!(
                "folded text does not have {}, and a pattern that looks around is not folded",
                quote(&literal)
            ),
            "write what folded text looks like, or leave out the fold",
        ),
    };
    Fault::new(&code::FOLD, message).with_help(help)
}

fn look_around(what: &str, text: &str, span: Range<usize>) -> Fault {
    let written = text.get(span.clone()).unwrap_or_default();
    let message = format!(
        "{} is {what}, which this engine does not have",
        quote(written)
    );
    let help = if what == "look-around" {
        "match the neighbour itself, as a class such as `(?:^|[^a-z])`, or use `\\b`, `^`, `$`: \
         patterns run in linear time and never look back"
    } else {
        "write out the alternatives, such as `'[^']*'|\"[^\"]*\"`: patterns run in linear time and \
         remember no text"
    };
    let help = format!("{help}; the feature `lookaround` of ttsr has it, at a price");
    Fault::new(&code::LOOK_AROUND, message)
        .with_help(help)
        .within(Some(span))
}

/// Why a pattern cannot be confirmed on a bounded window.
fn around(fault: &pattern::LookaroundFault, text: &str, span: Range<usize>) -> Fault {
    let written = text.get(span.clone()).filter(|written| !written.is_empty());
    let (message, help) = match fault {
        pattern::LookaroundFault::Unbounded(what) => (
            format!(
                "{} an unbounded {what}: to decide it could take all the text there is",
                written.map_or_else(|| "this pattern has".to_owned(), |written| quote(written) + " is")
            ),
            "bound what it repeats, such as `.{0,80}` instead of `.*`",
        ),
        pattern::LookaroundFault::TooFar { side, chars } => (
            format!(
                "this pattern looks {chars} characters {side}, limit is {}",
                pattern::REACH
            ),
            "lower the counts of the repetitions inside its look-around",
        ),
        pattern::LookaroundFault::Unsupported(what) => (
            format!("this pattern has {what}, which this engine does not have"),
            "look-ahead, look-behind, back-references and atomic groups are what there is",
        ),
        pattern::LookaroundFault::Recursive => (
            "this pattern has a back-reference inside the group that it refers to, or a long chain of them"
                .to_owned(),
            "refer to a group that is complete",
        ),
    };
    Fault::new(&code::LOOK_AROUND, message)
        .with_help(help)
        .within((!span.is_empty()).then_some(span))
}
