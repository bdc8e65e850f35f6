//! The texts that named groups of a rule's patterns capture in a whole text, for `{{ capture.NAME }}` in its message.
//!
//! Streamed text is not kept, so only texts that come whole have captures. The regular expressions are built when a text is
//! first searched. That cannot fail: the check bounds their size.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, LazyLock};

use regex_automata::meta::{self, Regex};
use regex_syntax::hir::{Hir, HirKind};

use super::load_context::LoadContext;
use super::message;
use crate::rule::{Pattern, PatternKind, Rule};
use ttsr_automata::pattern;

/// Captured texts by name. Runs of white space are replaced by one space.
pub(crate) type CapturedTexts = Vec<(String, String)>;

/// The patterns from which a rule's message takes captures.
#[derive(Debug)]
pub(crate) struct Captures {
    regexes: LazyLock<Box<[Regex]>, BuildRegexes>,
    names: Box<[String]>,
}

type BuildRegexes = Box<dyn FnOnce() -> Box<[Regex]> + Send + UnwindSafe + RefUnwindSafe>;

/// The most bytes of a regular expression that is searched for captures.
const REGEX_BYTES: usize = 10 << 20;

/// A bound on the bytes of one state of a regular expression that is searched for captures. A class of non-ASCII
/// characters can take this many bytes.
const STATE_BYTES: usize = 256 << 10;

/// Returns the syntax tree of a pattern that is searched for captures: a regular expression on the unchanged text, without
/// look-around. Malformed patterns are reported elsewhere.
pub(super) fn hir(pattern: &Pattern, context: &LoadContext<'_>) -> Option<Arc<Hir>> {
    let is_plain =
        pattern.kind == PatternKind::Regex && pattern.region.is_empty() && pattern.fold.is_empty();
    let parsed = is_plain.then(|| context.patterns.parse_syntax(&pattern.text, false));
    let parsed = parsed?.ok().filter(|parsed| !parsed.is_hull)?;
    Some(parsed.hir)
}

fn build(hir: &Hir) -> Result<Regex, Box<meta::BuildError>> {
    let config = Regex::config().utf8_empty(false);
    let config = config.nfa_size_limit(Some(REGEX_BYTES));
    let mut builder = Regex::builder();
    let built = builder.configure(config).build_from_hir(hir);
    built.map_err(Box::new)
}

/// Returns the limit if the regular expression exceeds it.
pub(super) fn exceeded_bytes(hir: &Hir) -> Option<usize> {
    let surely_fits = pattern::states(hir).saturating_mul(STATE_BYTES) <= REGEX_BYTES;
    match surely_fits {
        true => None,
        false => build(hir).err()?.size_limit(),
    }
}

/// Adds the names of the groups.
pub(super) fn add_group_names(hir: &Hir, names: &mut Vec<String>) {
    match hir.kind() {
        HirKind::Capture(capture) => {
            names.extend(capture.name.as_deref().map(str::to_owned));
            add_group_names(&capture.sub, names);
        }
        HirKind::Repetition(repetition) => add_group_names(&repetition.sub, names),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => {
            subs.iter().for_each(|sub| add_group_names(sub, names));
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {}
    }
}

impl Captures {
    /// Returns the patterns of a checked rule whose message names a capture, or `None` for other rules.
    pub(super) fn from_rule(rule: &Rule, context: &LoadContext<'_>) -> Option<Captures> {
        let names = message::captures(rule.message.as_deref()?);
        if names.is_empty() {
            return None;
        }
        let hirs = rule.condition.any.iter();
        let hirs: Vec<Arc<Hir>> = hirs.filter_map(|pattern| hir(pattern, context)).collect();
        let regexes = move || hirs.iter().filter_map(|hir| build(hir).ok()).collect();
        Some(Captures {
            regexes: LazyLock::new(Box::new(regexes)),
            names: names.into(),
        })
    }

    /// Returns the captures of the match that belongs to a hit at `end`: of the matches that begin before `end` and end at or
    /// after it, the first one.
    pub(crate) fn at(&self, text: &[u8], end: u64) -> CapturedTexts {
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let found = self.regexes.iter().filter_map(|regex| {
            let mut all = regex.captures_iter(text);
            let captures = all.find(|it| it.get_match().is_some_and(|it| it.end() >= end))?;
            let start = captures.get_match()?.start();
            (start <= end).then_some((start, captures))
        });
        let Some((_, captures)) = found.min_by_key(|(start, _)| *start) else {
            return CapturedTexts::new();
        };
        let values = self.names.iter().filter_map(|name| {
            let span = captures.get_group_by_name(name)?;
            let value = String::from_utf8_lossy(&text[span.start..span.end]);
            let value: Vec<&str> = value.split_whitespace().collect();
            Some((name.clone(), value.join(" ")))
        });
        values.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn captured(patterns: &[&str], text: &str, end: u64) -> CapturedTexts {
        let patterns = patterns.iter().map(|regex| Pattern::regex(*regex));
        let mut rule = Rule::new("p/r", patterns.collect());
        rule.message = Some("{{ capture.list }}{{ capture.more }}".into());
        let limits = Limits::default();
        let captures = Captures::from_rule(&rule, &LoadContext::new(&limits)).unwrap();
        captures.at(text.as_bytes(), end)
    }

    #[test]
    fn captures_are_those_of_the_match_at_the_hit() {
        let pattern = r"bad(?:.*?has: (?<list>[^\n]+(?:\n- [^\n]*)*))?";
        let is = |text: &str, end, list: &str| {
            assert_eq!(
                captured(&[pattern], text, end),
                [("list".to_owned(), list.to_owned())],
                "{text}"
            );
        };
        is("a bad x; has: a,  b\nmore", 5, "a, b");
        is("bad has: \tx\n- y\n- z\nw", 3, "x - y - z");
        is("bad has: 1\nbad has: 2", 14, "2");
        assert_eq!(captured(&[pattern], "bad", 3), []);
        assert_eq!(captured(&[pattern], "good", 4), []);
    }

    #[test]
    fn of_several_patterns_the_one_that_begins_first_captures() {
        let found = captured(&["y(?<list>.)", "x(?<more>..)"], "xyz", 3);
        assert_eq!(found, [("more".to_owned(), "yz".to_owned())]);
    }

    #[test]
    fn a_message_without_captures_has_none() {
        let mut rule = Rule::new("p/r", vec![Pattern::regex("(?<list>a)")]);
        let limits = Limits::default();
        let context = LoadContext::new(&limits);
        assert!(Captures::from_rule(&rule, &context).is_none());
        rule.message = Some("{{ match.text }}".into());
        assert!(Captures::from_rule(&rule, &context).is_none());
    }

    #[test]
    fn an_expression_is_too_big_exactly_where_it_cannot_be_built() {
        let limits = Limits::default();
        let context = LoadContext::new(&limits);
        for (text, is_too_big) in [
            (r"(?<list>\w{40})", false),
            (r"(?<list>\w{41})", false),
            (r"(?<list>\w{2000})", true),
        ] {
            let hir = hir(&Pattern::regex(text), &context).unwrap();
            assert_eq!(
                exceeded_bytes(&hir),
                is_too_big.then_some(REGEX_BYTES),
                "{text}"
            );
            assert_eq!(build(&hir).is_err(), is_too_big, "{text}");
        }
    }
}
