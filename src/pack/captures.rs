//! The texts that named groups of a rule's patterns capture in a whole text, for `{{ capture.NAME }}` in its message.
//!
//! The regular expressions are built with the pack, so that nothing can fail when a text is read. Streamed text is not
//! kept, so only texts that come whole have captures.

use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;

use super::message;
use crate::rule::{Pattern, PatternKind, Rule};

/// Captured texts by name. Runs of white space are replaced by one space.
pub(crate) type CapturedTexts = Vec<(String, String)>;

/// The patterns from which a rule's message takes captures.
#[derive(Debug)]
pub(crate) struct Captures {
    regexes: Box<[Regex]>,
    names: Box<[String]>,
}

/// Returns the pattern as it is searched for captures. The result is `None` if the pattern is not a regular expression
/// on the unchanged text.
pub(super) fn regex(pattern: &Pattern) -> Option<Result<Regex, Box<meta::BuildError>>> {
    let is_plain =
        pattern.kind == PatternKind::Regex && pattern.region.is_empty() && pattern.fold.is_empty();
    let syntax = syntax::Config::new().utf8(false);
    let config = Regex::config().utf8_empty(false);
    is_plain.then(|| {
        Regex::builder()
            .configure(config)
            .syntax(syntax)
            .build(&pattern.text)
            .map_err(Box::new)
    })
}

/// Returns the names of the groups of a regular expression.
pub(super) fn group_names(regex: &Regex) -> Vec<String> {
    let names = regex.group_info().all_names();
    names
        .filter_map(|(_, _, name)| name.map(str::to_owned))
        .collect()
}

impl Captures {
    /// Returns the patterns of a checked rule whose message names a capture, or `None` for other rules.
    pub(super) fn from_rule(rule: &Rule) -> Option<Captures> {
        let names = message::captures(rule.message.as_deref()?);
        if names.is_empty() {
            return None;
        }
        let regexes = rule.condition.any.iter().filter_map(regex);
        Some(Captures {
            regexes: regexes.filter_map(Result::ok).collect(),
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

    fn captured(patterns: &[&str], text: &str, end: u64) -> CapturedTexts {
        let patterns = patterns.iter().map(|regex| Pattern::regex(*regex));
        let mut rule = Rule::new("p/r", patterns.collect());
        rule.message = Some("{{ capture.list }}{{ capture.more }}".into());
        Captures::from_rule(&rule).unwrap().at(text.as_bytes(), end)
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
        assert!(Captures::from_rule(&rule).is_none());
        rule.message = Some("{{ match.text }}".into());
        assert!(Captures::from_rule(&rule).is_none());
    }
}
