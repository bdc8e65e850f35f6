//! The condition of a rule: exactly one trigger, windows that can be met, distances that have a meaning.

use regex_syntax::hir::{Hir, HirKind};

use super::{KeyFault, contradiction, no_effect, patterns, zero};
use crate::pack::check::fault::Fault;
use crate::pack::check::pattern::FORM;
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::load_context::LoadContext;
use crate::pack::schema::KeyInfo;
use crate::rule::{Action, Capture, Condition, Pattern, PatternKind, Region, Rule, Within};
use ttsr_views::glob::{Glob, GlobOptions};

/// The largest number of entries of `match.capture.not-in`. The rules of gitleaks have a list of 1,446.
const NOT_IN_ENTRIES: usize = 16_384;

/// Reports a condition that does not have exactly one trigger.
pub(super) fn trigger(condition: &Condition, triggers: &[&KeyInfo], found: &mut Vec<KeyFault>) {
    match *triggers {
        [_] => {}
        [] if condition.none.is_empty() => {
            let message = "`match` has no condition that could break the rule";
            found.push((
                "match",
                Fault::new(&code::NO_TRIGGER, message).with_help(FORM),
            ));
        }
        [] => {
            let message =
                "`match` has only `none`, which lists exceptions: nothing could break the rule";
            found.push((
                "match",
                Fault::new(&code::NO_TRIGGER, message).with_help(FORM),
            ));
        }
        [first, second, ..] => found.push(contradiction(
            second.path,
            format!(
                "`{}` and `{}` are both set: a rule has only one of them",
                second.name(),
                first.name()
            ),
            "write two rules; alternative patterns go into one `any`",
        )),
    }
}

/// Reports the contradictions in the condition of a rule.
pub(super) fn faults(rule: &Rule, context: &LoadContext<'_>, found: &mut Vec<KeyFault>) {
    single_entries(&rule.condition, found);
    windows(&rule.condition, found);
    distances(&rule.condition, found);
    look_around(rule, context, found);
    any_only(&rule.condition, found);
    capture(&rule.condition, found);
    capture_group(&rule.condition, context, found);
}

/// Reports lists of patterns with one entry that mean the same as `any`.
pub(super) fn single_entries(condition: &Condition, found: &mut Vec<KeyFault>) {
    for (list, name, patterns) in [
        ("match.all", "all", &condition.all),
        ("match.sequence", "sequence", &condition.sequence),
    ] {
        if patterns.len() == 1 {
            let why = format!("`{name}` with one entry is the same as `any`");
            found.push(contradiction(
                list,
                why,
                "write `match.any`, or add a second pattern",
            ));
        }
    }
}

fn windows(condition: &Condition, found: &mut Vec<KeyFault>) {
    let Some(within) = condition.within else {
        return;
    };
    let is_used =
        !condition.all.is_empty() || !condition.sequence.is_empty() || !condition.none.is_empty();
    if !is_used {
        found.push(no_effect(
            "match.within",
            "no condition of this rule uses a window",
            "it applies to `all`, `sequence` and `none` only; remove it",
        ));
    }
    if within == Within::Message && !condition.none.is_empty() {
        found.push(contradiction(
            "match.within",
            "`none` searches the text around the match, and `message = true` spans several texts",
            "write `part = true`, or a number of lines or characters",
        ));
    }
    if matches!(within, Within::Lines(0) | Within::Chars(0)) {
        found.push(zero("match.within"));
    }
}

/// Reports windows between patterns that see different texts. Lines and characters are counted in the text that a pattern
/// sees, so such patterns have no distance.
fn distances(condition: &Condition, found: &mut Vec<KeyFault>) {
    let is_spread = !condition.all.is_empty() || !condition.sequence.is_empty();
    let within = match condition.within {
        Some(within) => within,
        None if is_spread || condition.none.is_empty() => return,
        None => Within::Lines(1),
    };
    if !matches!(within, Within::Lines(_) | Within::Chars(_)) {
        return;
    }
    if condition.has_commands() {
        found.push(contradiction(
            "match.within",
            "a command has no distance in lines or characters to another pattern",
            "write `match.within = { part = true }`",
        ));
        return;
    }
    if let Some((one, other)) = in_two_arguments(condition) {
        let why = format!(
            "patterns {} and {} are searched in different arguments, so there is no distance in lines or characters between them",
            quote(&one.text),
            quote(&other.text)
        );
        let help = "write `match.within = { part = true }`, or the same `arg` in both";
        found.push(contradiction("match.within", why, help));
        return;
    }
    let mut patterns = condition.patterns();
    let Some(first) = patterns.next() else {
        return;
    };
    let sees = |pattern: &Pattern| {
        let mut regions: Vec<String> = pattern.region.iter().map(Region::name).collect();
        regions.sort_unstable();
        (regions, pattern.fold.clone())
    };
    let is_other = |other: &&Pattern| sees(other) != sees(first);
    // The distance between alternatives of `any` does not matter.
    if let Some(other) = patterns.find(is_other)
        && (is_spread || !condition.none.is_empty())
    {
        let why = format!(
            "patterns {} and {} search different texts, so there is no distance in lines or characters between them",
            quote(&first.text),
            quote(&other.text)
        );
        found.push(contradiction(
            "match.within",
            why,
            "give all patterns of the rule the same `region` and `fold`, or write `match.within = { part = true }`",
        ));
    }
}

/// Returns two patterns of `all` or `sequence` that are searched in different arguments. Each argument is a text.
fn in_two_arguments(condition: &Condition) -> Option<(&Pattern, &Pattern)> {
    let are_apart = |one: &Pattern, other: &Pattern| {
        let args = one.arg.as_deref().zip(other.arg.as_deref());
        args.is_some_and(|(one, other)| patterns::are_apart(one, other))
    };
    [&condition.all, &condition.sequence]
        .into_iter()
        .find_map(|list| {
            let (first, rest) = list.split_first()?;
            let other = rest.iter().find(|other| are_apart(first, other))?;
            Some((first, other))
        })
}

/// Reports patterns with look-around in conditions that need full matches. Such a pattern is verified by itself, at the
/// end of its match.
fn look_around(rule: &Rule, context: &LoadContext<'_>, found: &mut Vec<KeyFault>) {
    let Some(why) = wants_whole_matches(rule) else {
        return;
    };
    let mut patterns = rule.condition.patterns();
    if let Some(written) = patterns.find(|written| context.has_lookaround(written)) {
        let message = format!(
            "pattern {} has look-around or a back-reference, which cannot be combined with `{why}`",
            quote(&written.text)
        );
        let help = "such patterns are allowed in `match.any` alone; `match.none` can often replace look-around";
        found.push((
            "match",
            Fault::new(&code::LOOK_AROUND, message).with_help(help),
        ));
    }
}

/// Returns the key that makes the condition need full matches instead of their ends, if there is one.
fn wants_whole_matches(rule: &Rule) -> Option<&'static str> {
    let condition = &rule.condition;
    let reasons = [
        (!condition.all.is_empty(), "all"),
        (!condition.sequence.is_empty(), "sequence"),
        (!condition.none.is_empty(), "none"),
        (condition.first.is_some(), "first"),
        (condition.last.is_some(), "last"),
        (condition.line, "line"),
        (condition.count.is_some(), "count"),
        (condition.capture.is_some(), "capture"),
        (rule.action == Action::Redact, "redact"),
        (rule.hold, "hold"),
    ];
    reasons
        .into_iter()
        .find_map(|(is_there, why)| is_there.then_some(why))
}

/// Reports keys on the matches of `any` in a rule without `any`, and bounds that exclude each other.
fn any_only(condition: &Condition, found: &mut Vec<KeyFault>) {
    let given = [
        (condition.first.is_some(), "match.first"),
        (condition.last.is_some(), "match.last"),
        (condition.line, "match.line"),
        (condition.count.is_some(), "match.count"),
        (condition.capture.is_some(), "match.capture"),
    ];
    if condition.any.is_empty() {
        for (_, key) in given.into_iter().filter(|(is_there, _)| *is_there) {
            found.push(no_effect(
                key,
                "it restricts the matches of `any`, and there is no `any`",
                "remove it, or write `any`",
            ));
        }
    }
    let is_command = |pattern: &Pattern| pattern.kind == PatternKind::Command;
    if condition.any.iter().any(is_command) {
        // A count applies to commands as well.
        let of_text = given.into_iter().filter(|(_, key)| *key != "match.count");
        for (_, key) in of_text.filter(|(is_there, _)| *is_there) {
            found.push(no_effect(
                key,
                "it restricts the text of a match, and a command is read as words",
                "remove it, or write two rules",
            ));
        }
    }
    if condition.first.is_some() && condition.last.is_some() {
        found.push(contradiction(
            "match.last",
            "`first` and `last` can both hold only in a text that is shorter than their sum",
            "keep one of the two, or write two rules",
        ));
    }
    for (number, key) in [
        (condition.first, "match.first"),
        (condition.last, "match.last"),
    ] {
        if number == Some(0) {
            found.push(zero(key));
        }
    }
    first_too_short(condition, found);
    if condition.count.is_some_and(|count| count.times == 0) {
        found.push(zero("match.count"));
    }
}

/// Reports `match.first` that is shorter than every pattern. Only exact texts have a length that their text tells.
fn first_too_short(condition: &Condition, found: &mut Vec<KeyFault>) {
    let Some(first) = condition.first.filter(|first| *first > 0) else {
        return;
    };
    let is_longer = |pattern: &Pattern| {
        let is_exact = matches!(pattern.kind, PatternKind::Literal | PatternKind::Word);
        let chars = pattern.text.chars().count();
        is_exact && pattern.fold.is_empty() && chars as u64 > u64::from(first)
    };
    if !condition.any.is_empty() && condition.any.iter().all(is_longer) {
        let why = format!("no pattern fits into the first {first} characters");
        found.push(contradiction("match.first", why, "raise it"));
    }
}

fn capture(condition: &Condition, found: &mut Vec<KeyFault>) {
    let Some(Capture {
        group: _,
        entropy,
        random,
        checksum,
        not_in,
    }) = &condition.capture
    else {
        return;
    };
    if entropy.is_none() && !random && checksum.is_none() && not_in.is_empty() {
        found.push(no_effect(
            "match.capture",
            "it sets no condition",
            "add `entropy = 3.5`, `checksum = \"luhn\"` or `not-in = [\"…\"]`",
        ));
    }
    if not_in.len() > NOT_IN_ENTRIES {
        let message = format!("`not-in` has more than {NOT_IN_ENTRIES} entries");
        let fault = Fault::new(&code::SCOPE_TOO_LONG, message);
        found.push((
            "match.capture.not-in",
            fault.with_help("use `*` and `?` instead of single texts"),
        ));
    }
    // A text of stars alone matches every capture.
    let excludes_all = |text: &&String| !text.is_empty() && text.chars().all(|c| c == '*');
    if not_in.iter().any(|text| excludes_all(&text)) {
        found.push(contradiction(
            "match.capture.not-in",
            "`*` is every text, so no match would count",
            "name the texts that are not meant, such as `*example*`",
        ));
    }
    for text in not_in {
        if let Err(error) = Glob::new(text, GlobOptions::default()) {
            let message = format!("glob {}: {}", quote(text), escape::all(&error.to_string()));
            found.push(("match.capture.not-in", Fault::new(&code::GLOB, message)));
        }
    }
}

/// Reports a group of `capture` that a pattern does not have.
pub(super) fn capture_group(
    condition: &Condition,
    context: &LoadContext<'_>,
    found: &mut Vec<KeyFault>,
) {
    let capture = condition.capture.as_ref();
    let Some(group) = capture.and_then(|capture| capture.group.as_ref()) else {
        return;
    };
    for written in &condition.any {
        let groups = groups(written, context);
        if !groups.contains(group) {
            let message = format!(
                "pattern {} has no group {}",
                quote(&written.text),
                quote(group)
            );
            let help = format!("its groups: {}", groups.join(", "));
            found.push((
                "match.capture",
                Fault::new(&code::CAPTURE_GROUP, message).with_help(help),
            ));
        }
    }
}

/// Returns the numbers and names of the groups of a pattern.
fn groups(written: &Pattern, context: &LoadContext<'_>) -> Vec<String> {
    let mut groups = vec!["0".to_owned()];
    let Ok(hir) = context.patterns.parse(&written.to_regex()) else {
        return groups;
    };
    let mut left: Vec<&Hir> = vec![&*hir];
    while let Some(hir) = left.pop() {
        match hir.kind() {
            HirKind::Capture(capture) => {
                groups.push(capture.index.to_string());
                groups.extend(capture.name.as_ref().map(ToString::to_string));
                left.push(&capture.sub);
            }
            HirKind::Repetition(repetition) => left.push(&repetition.sub),
            HirKind::Concat(subs) | HirKind::Alternation(subs) => left.extend(subs),
            _ => {}
        }
    }
    groups.sort();
    groups.dedup();
    groups
}
