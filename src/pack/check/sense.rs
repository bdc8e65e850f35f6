//! Whether the keys of a whole rule make sense together. What has no effect, what can never be met and what
//! cannot be done where the rule reads is an error: a rule is never silently inactive.
//!
//! Works on [`Rule`]s, so that rules made in code and overridden rules are judged like those in files. Each
//! fault names the key it is about.

use regex_syntax::hir::{Hir, HirKind};

use super::condition::{path, triggers};
use super::fault::Fault;
use super::pattern::FORM;
use super::{option, scope};
use crate::limits::Limits;
use crate::matcher::pattern;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::nearest;
use crate::rule::{
    Action, Allowance, Bound, Capture, Case, Channel, Condition, DoomLoop, Named, Partial, Pattern,
    Region, Repeat, Repetition, Retry, Rule, Script, Status, UnknownName, Within,
};
use crate::view::fold::Folds;

/// A fault and the key it is about; an empty path is the rule as a whole.
pub(super) type Found = (&'static str, Fault);

/// Everything that makes no sense in `rule`.
pub(super) fn faults(rule: &Rule, limits: &Limits) -> Vec<Found> {
    let mut found = Vec::new();
    trigger(&rule.condition, &mut found);
    if !found.is_empty() {
        return found;
    }
    windows(&rule.condition, &mut found);
    distances(&rule.condition, &mut found);
    look_around(rule, limits, &mut found);
    any_only(&rule.condition, &mut found);
    capture(&rule.condition, limits, &mut found);
    detectors(rule, &mut found);
    patterns(rule, &mut found);
    scopes(rule, &mut found);
    action(rule, &mut found);
    options(rule, &mut found);
    bounds(rule, &mut found);
    cases(rule, &mut found);
    found
}

fn no_effect(path: &'static str, why: &str, help: &str) -> Found {
    let message = format!("`{path}` has no effect: {why}");
    (path, Fault::new(&code::NO_EFFECT, message).with_help(help))
}

fn contradiction(path: &'static str, why: impl Into<String>, help: &str) -> Found {
    (path, Fault::new(&code::CONTRADICTION, why).with_help(help))
}

/// Exactly one thing breaks a rule.
fn trigger(condition: &Condition, found: &mut Vec<Found>) {
    match triggers(condition)[..] {
        [_] => {}
        [] if condition.none.is_empty() => {
            let message = "`match` holds nothing that could break the rule";
            found.push((
                "match",
                Fault::new(&code::NO_TRIGGER, message).with_help(FORM),
            ));
        }
        [] => {
            let message =
                "`match` has `none` alone: it says what saves a text, not what breaks the rule";
            found.push((
                "match",
                Fault::new(&code::NO_TRIGGER, message).with_help(FORM),
            ));
        }
        [first, second, ..] => found.push(contradiction(
            path(second),
            format!("`{second}` stands beside `{first}`: one thing breaks a rule"),
            "write two rules, one for each; alternatives of patterns all go into `any`",
        )),
    }
}

fn windows(condition: &Condition, found: &mut Vec<Found>) {
    for (list, name, patterns) in [
        ("match.all", "all", &condition.all),
        ("match.sequence", "sequence", &condition.sequence),
    ] {
        if patterns.len() == 1 {
            let why = format!("`{name}` has one entry: that is `any`");
            found.push(contradiction(
                list,
                why,
                "write `match.any`, or add what must match besides",
            ));
        }
    }
    let Some(within) = condition.within else {
        return;
    };
    let is_used =
        !condition.all.is_empty() || !condition.sequence.is_empty() || !condition.none.is_empty();
    if !is_used {
        found.push(no_effect(
            "match.within",
            "nothing here is looked for in a window",
            "it is for `all`, `sequence` and `none`; remove it",
        ));
    }
    if within == Within::Message && !condition.none.is_empty() {
        found.push(contradiction(
            "match.within",
            "`none` looks beside the match, in the same text; `message = true` spans texts",
            "write `part = true`, or a number of lines or characters",
        ));
    }
    if matches!(within, Within::Lines(0) | Within::Chars(0)) {
        found.push(zero("match.within"));
    }
}

fn zero(path: &'static str) -> Found {
    let message = format!("`{path}` is 0, which nothing can meet");
    (
        path,
        Fault::new(&code::BAD_VALUE, message).with_help("write 1 or more, or leave it out"),
    )
}

/// Lines and characters are counted in the text that a pattern sees: patterns that see different texts are at no
/// distance from each other.
fn distances(condition: &Condition, found: &mut Vec<Found>) {
    let is_spread = !condition.all.is_empty() || !condition.sequence.is_empty();
    let within = match condition.within {
        Some(within) => within,
        None if is_spread || condition.none.is_empty() => return,
        None => Within::Lines(1),
    };
    if !matches!(within, Within::Lines(_) | Within::Chars(_)) {
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
    // Alternatives of `any` alone are at no distance that counts.
    if let Some(other) = patterns.find(is_other)
        && (is_spread || !condition.none.is_empty())
    {
        let why = format!(
            "patterns {} and {} see different texts, so no number of lines or characters lies between them",
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

/// Patterns that look around are confirmed one by one, at their ends: nothing that needs whole matches goes with
/// them.
fn look_around(rule: &Rule, limits: &Limits, found: &mut Vec<Found>) {
    let Some(why) = wants_whole_matches(rule) else {
        return;
    };
    let mut patterns = rule.condition.patterns();
    if let Some(written) =
        patterns.find(|written| pattern::looks_around(&written.to_regex(), limits))
    {
        let message = format!(
            "pattern {} looks around or refers back, which does not go with `{why}`",
            quote(&written.text)
        );
        let help = "such patterns stand in `match.any` alone; `match.none` often says what look-around was for";
        found.push((
            "match",
            Fault::new(&code::LOOK_AROUND, message).with_help(help),
        ));
    }
}

/// The key because of which it takes more than where a match ends, if there is one.
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

/// What is said of the one match of `any`.
fn any_only(condition: &Condition, found: &mut Vec<Found>) {
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
                "it is about the matches of `any`, and there is no `any`",
                "remove it, or write `any`",
            ));
        }
    }
    if condition.first.is_some() && condition.last.is_some() {
        found.push(contradiction(
            "match.last",
            "`first` and `last` exclude each other but in texts shorter than both",
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
    if condition.count.is_some_and(|count| count.times == 0) {
        found.push(zero("match.count"));
    }
}

fn capture(condition: &Condition, limits: &Limits, found: &mut Vec<Found>) {
    let Some(Capture {
        group,
        entropy,
        random,
        not_in,
    }) = &condition.capture
    else {
        return;
    };
    if entropy.is_none() && !random && not_in.is_empty() {
        found.push(no_effect(
            "match.capture",
            "it asks for nothing",
            "add `entropy = 3.5` or `not-in = [\"…\"]`",
        ));
    }
    let Some(group) = group else {
        return;
    };
    for written in &condition.any {
        let groups = groups(written, limits);
        if !groups.contains(group) {
            let message = format!(
                "pattern {} has no group {}",
                quote(&written.text),
                quote(group)
            );
            let help = format!("it has: {}", groups.join(", "));
            found.push((
                "match.capture",
                Fault::new(&code::CAPTURE_GROUP, message).with_help(help),
            ));
        }
    }
}

/// The numbers and names of the groups of a pattern.
fn groups(written: &Pattern, limits: &Limits) -> Vec<String> {
    let mut groups = vec!["0".to_owned()];
    let Ok(hir) = pattern::parse(&written.to_regex(), limits) else {
        return groups;
    };
    let mut left: Vec<&Hir> = vec![&hir];
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

fn unknown_names(names: &UnknownName, rule: &Rule, found: &mut Vec<Found>) {
    if !rule.args.is_empty() {
        found.push(no_effect(
            "args",
            "unknown names are looked for in what an edit adds, whatever its arguments are called",
            "remove it, and narrow the rule by `tools` and `paths`",
        ));
    }
    let reads_calls = rule.on.contains(&Channel::ToolInput);
    if names.is_of(Named::Tool) && !reads_calls {
        found.push(no_effect(
            "match.unknown-name.of",
            "`tool` is about calls of tools, and the rule is not on `tool-input`",
            "add `tool-input` to `on`",
        ));
    }
    if names.is_of(Named::File) && reads_calls && rule.on.len() == 1 {
        found.push(no_effect(
            "match.unknown-name.of",
            "`file` is about code spans of text, and the rule is on `tool-input` alone",
            "add `text` to `on`",
        ));
    }
}

fn detectors(rule: &Rule, found: &mut Vec<Found>) {
    let condition = &rule.condition;
    let kind = triggers(condition)[0];
    let is_pattern = ["any", "all", "sequence"].contains(&kind);
    if !is_pattern && !condition.none.is_empty() {
        let why = format!("`{kind}` is not a match that something could stand beside");
        found.push(no_effect("match.none", &why, "remove it"));
    }
    if let Some(repetition) = &condition.repetition {
        circles(repetition, rule, found);
    }
    if let Some(names) = &condition.unknown_name {
        unknown_names(names, rule, found);
    }
    if let Some(limit) = &condition.limit {
        bound(limit, rule, found);
    }
    if let Some(script) = &condition.script {
        expected(script, found);
    }
    if let Some(ast) = &condition.ast {
        let faults = super::ast::faults(ast).into_iter();
        found.extend(faults.map(|fault| ("match.ast", fault)));
    }
    if let Some(doom) = &condition.doom_loop {
        doom_loop(doom, rule, found);
    }
}

/// Scripts and languages that `script` takes for right.
fn expected(script: &Script, found: &mut Vec<Found>) {
    if script.expect.is_empty() {
        found.push(contradiction(
            "match.script",
            "`script` expects nothing",
            "write `match.script = { expect = [\"latin\"] }`",
        ));
    }
    let unknown = |name: &&String| !Script::NAMES.contains(&name.as_str());
    if let Some(name) = script.expect.iter().find(unknown) {
        let message = format!("{} is not a value of `expect`", quote(name));
        let fault = Fault::new(&code::BAD_VALUE, message);
        let fault = fault.with_help(nearest::help(name, &Script::NAMES));
        found.push(("match.script", fault));
    }
}

/// Loops that `repetition` looks for.
fn circles(repetition: &Repetition, rule: &Rule, found: &mut Vec<Found>) {
    if repetition.turns.is_some() && rule.on == [Channel::ToolInput] {
        found.push(no_effect(
            "match.repetition",
            "`turns` compares replies, and the rule reads tool input alone",
            "`doom-loop` compares calls; or add \"text\" to `on`",
        ));
    }
    if repetition.turns.is_some_and(|turns| turns < 2) {
        found.push(contradiction(
            "match.repetition",
            "`repetition` over fewer than two `turns`",
            "such as `{ turns = 3 }`",
        ));
    }
    let (shortest, longest) = repetition.unit_chars;
    if shortest == 0 || longest < shortest || repetition.times < 2 {
        found.push(contradiction(
            "match.repetition",
            "`repetition` needs `1 <= shortest <= longest` and at least two times",
            "such as `{ unit-chars = [20, 400], times = 4 }`",
        ));
    }
}

/// Calls that `doom-loop` looks for.
fn doom_loop(doom: &DoomLoop, rule: &Rule, found: &mut Vec<Found>) {
    if !rule.on.contains(&Channel::ToolInput) {
        found.push(no_effect(
            "match.doom-loop",
            "`on` does not name `tool-input`",
            "add \"tool-input\" to `on`",
        ));
    }
    if doom.times < 2 {
        found.push(contradiction(
            "match.doom-loop",
            "`doom-loop` needs at least two times",
            "such as `{ times = 3 }`",
        ));
    }
}

fn bound(limit: &Bound, rule: &Rule, found: &mut Vec<Found>) {
    let Bound {
        bytes,
        lines,
        deltas,
        tokens,
        millis,
        stall_millis,
    } = *limit;
    let all = [bytes, lines, deltas, tokens, millis, stall_millis];
    if all.iter().all(Option::is_none) {
        found.push(contradiction(
            "match.limit",
            "`limit` bounds nothing",
            "write `match.limit = { bytes = 100000 }`",
        ));
    }
    if all.contains(&Some(0)) {
        found.push(zero("match.limit"));
    }
    let needs_stream = deltas.or(millis).or(stall_millis).is_some();
    if needs_stream && !reads_stream(rule) {
        let why = "no channel in `on` arrives in deltas";
        found.push(no_effect(
            "match.limit",
            why,
            "name `text`, `reasoning` or `tool-input` in `on`",
        ));
    }
}

fn reads_stream(rule: &Rule) -> bool {
    rule.on
        .iter()
        .any(|channel| Channel::STREAMED.contains(channel))
}

fn patterns(rule: &Rule, found: &mut Vec<Found>) {
    let condition = &rule.condition;
    for (key, patterns) in [
        ("match.any", &condition.any),
        ("match.all", &condition.all),
        ("match.sequence", &condition.sequence),
        ("match.none", &condition.none),
    ] {
        for written in patterns {
            pattern_scope(key, written, rule, found);
        }
    }
}

fn pattern_scope(key: &'static str, written: &Pattern, rule: &Rule, found: &mut Vec<Found>) {
    if !rule.on.contains(&Channel::ToolInput) {
        beside_calls(key, written, found);
    }
    edits(key, written, rule, found);
    if let Some((one, other)) = disjoint(&written.region) {
        found.push(contradiction(
            key,
            format!("nothing is both `{}` and `{}`", one.name(), other.name()),
            "a list of regions is where all of them are at once; for one or the other write two patterns",
        ));
    }
    let missing = written
        .fold
        .iter()
        .find(|fold| Folds::named(fold.name()).is_none());
    if let Some(fold) = missing {
        let message = format!(
            "the fold `{}` needs the feature `unicode`, which this build of ttsr does not have",
            fold.name()
        );
        let fault = Fault::new(&code::MISSING_FEATURE, message);
        found.push((
            key,
            fault.with_help("build with `--features unicode`, or leave the fold out"),
        ));
    }
    if has_twice(&written.fold) || has_twice(&written.region) {
        found.push(contradiction(
            key,
            "a region or a fold is named twice",
            "name it once",
        ));
    }
}

/// What only tool calls have, in a rule that does not read them.
fn beside_calls(key: &'static str, written: &Pattern, found: &mut Vec<Found>) {
    let pattern = quote(&written.text);
    let mut unreachable = |wants: &str, help: &str| {
        let message = format!("pattern {pattern} {wants}: `on` does not name `tool-input`");
        let fault = Fault::new(&code::UNREACHABLE_SCOPE, message);
        found.push((key, fault.with_help(help)));
    };
    if written.arg.is_some() {
        unreachable("has `arg`", "add \"tool-input\" to `on`, or remove `arg`");
    }
    if written.region.contains(&Region::File) {
        unreachable(
            "looks in files",
            "add \"tool-input\" to `on`, or leave out the region `file`",
        );
    }
}

/// Regions that a tool call has besides those of a shell are found by the names of its arguments, several of
/// them together: `args` could not choose among those.
fn edits(key: &'static str, written: &Pattern, rule: &Rule, found: &mut Vec<Found>) {
    let is_call = rule.on.contains(&Channel::ToolInput);
    let region = written.region.first().filter(|_| is_call);
    let Some(region) = region.filter(|_| !written.region.contains(&Region::Shell)) else {
        return;
    };
    let narrowed = match written.arg {
        Some(_) => Some("arg"),
        None => (!rule.args.is_empty()).then_some("args"),
    };
    if let Some(narrowed) = narrowed {
        let message = format!(
            "`{narrowed}` does not go with the region `{}` of tool calls: what an edit adds, removes and leaves is found in all its arguments",
            region.name()
        );
        let help = format!(
            "remove `{narrowed}`, and narrow the rule by `tools` and `paths`; or remove the region"
        );
        found.push((key, Fault::new(&code::NO_EFFECT, message).with_help(help)));
    }
    let is_markdown = |region: &&Region| {
        matches!(
            region,
            Region::Prose
                | Region::Code
                | Region::CodeIn(_)
                | Region::InlineCode
                | Region::Quote
                | Region::Heading
        )
    };
    if let (Some(region), [Channel::ToolInput]) =
        (written.region.iter().find(is_markdown), &rule.on[..])
    {
        let message = format!("tool calls have no region `{}`", region.name());
        let help = "name `text` or `reasoning` in `on`, or take `added`, `file`, `shell`, `comment`, `string` or `code-only`";
        found.push((
            key,
            Fault::new(&code::UNREACHABLE_SCOPE, message).with_help(help),
        ));
    }
}

fn has_twice<T: PartialEq>(list: &[T]) -> bool {
    list.iter()
        .enumerate()
        .any(|(index, one)| list[..index].contains(one))
}

/// Two regions of the list that never overlap.
fn disjoint(regions: &[Region]) -> Option<(&Region, &Region)> {
    let after = |index: usize| regions[index + 1..].iter();
    let pairs = regions.iter().enumerate();
    let mut pairs = pairs.flat_map(|(index, one)| after(index).map(move |other| (one, other)));
    pairs.find(|(one, other)| {
        let is_one_language =
            is_code(one) && is_code(other) && [one, other].contains(&&&Region::Code);
        one != other && group(one).is_some() && group(one) == group(other) && !is_one_language
    })
}

fn is_code(region: &Region) -> bool {
    matches!(region, Region::Code | Region::CodeIn(_))
}

/// Regions of the same group exclude each other.
fn group(region: &Region) -> Option<u8> {
    match region {
        Region::Code | Region::CodeIn(_) | Region::Prose | Region::InlineCode | Region::Heading => {
            Some(0)
        }
        Region::Added | Region::Removed => Some(1),
        Region::Comment | Region::String | Region::CodeOnly => Some(2),
        Region::Quote | Region::File | Region::Shell => None,
    }
}

fn scopes(rule: &Rule, found: &mut Vec<Found>) {
    for (key, entries) in [
        ("tools", &rule.tools),
        ("args", &rule.args),
        ("paths", &rule.paths),
    ] {
        if !entries.is_empty() && !scope::is_reachable(key, &rule.on) {
            found.push((key, scope::unreachable(key)));
        }
    }
}

/// Whether the action can be done where the rule reads.
fn action(rule: &Rule, found: &mut Vec<Found>) {
    let name = rule.action.name();
    let mut refuse = |channel: Channel, help: &str| {
        let message = format!("action `{name}` cannot be done on `{}`", channel.name());
        found.push((
            "action",
            Fault::new(&code::ACTION_CHANNEL, message).with_help(help),
        ));
    };
    for channel in &rule.on {
        let is_streamed = Channel::STREAMED.contains(channel);
        match rule.action {
            Action::Redact if !is_streamed => {
                refuse(
                    *channel,
                    "it takes text out of a stream: name `text`, `reasoning` or `tool-input` in `on`",
                );
            }
            Action::Consult if *channel != Channel::ToolInput => {
                refuse(
                    *channel,
                    "it asks before a tool call runs: write `on = [\"tool-input\"]`",
                );
            }
            action if action.is_for_whole_text() && is_streamed => {
                refuse(
                    *channel,
                    "it is for texts that come whole: `tool-output`, `user-input` or `error` in `on`",
                );
            }
            _ => {}
        }
    }
    let condition = &rule.condition;
    let has_span = !condition.any.is_empty() || condition.leak || condition.unknown_name.is_some();
    if rule.action == Action::Redact && !has_span {
        let kind = triggers(condition)[0];
        found.push(contradiction(
            "action",
            format!("`redact` needs one text to take out; `{kind}` has none"),
            "use `any`, or another action",
        ));
    }
}

/// Options of actions that the rule does not take.
fn options(rule: &Rule, found: &mut Vec<Found>) {
    let is = |action| rule.action == action;
    let of = |key: &'static str, action: &str| {
        no_effect(
            key,
            &format!("it belongs to the action `{action}`"),
            &format!("write `action = \"{action}\"`, or remove `{key}`"),
        )
    };
    if rule.retry != Retry::default() && !is(Action::Retry) {
        found.push(of("retry", "retry"));
    }
    if rule.partial != Partial::default() && !is(Action::Retry) {
        found.push(of("partial", "retry"));
    }
    if rule.replacement.is_some() && !is(Action::Redact) {
        found.push(of("replacement", "redact"));
    }
    if rule.consult.is_some() && !is(Action::Consult) {
        found.push(of("consult", "consult"));
    }
    if rule.header.is_some() && !is(Action::SetHeader) {
        found.push(of("header", "set-header"));
    }
    needs(rule, found);
    let has_candidates = triggers(&rule.condition)
        .iter()
        .any(|kind| ["any", "all", "sequence", "leak"].contains(kind));
    if rule.hold && !reads_stream(rule) {
        found.push(no_effect(
            "hold",
            "what comes whole does not leak",
            "remove it",
        ));
    } else if rule.hold && !has_candidates {
        found.push(no_effect(
            "hold",
            "there is no text that could be held",
            "it is for patterns; remove it",
        ));
    }
    if rule.replaced_by.is_some() && rule.status != Status::Deprecated {
        found.push(no_effect(
            "replaced-by",
            "the rule is not deprecated",
            "add `status = \"deprecated\"`",
        ));
    }
}

/// Options that an action cannot do without.
fn needs(rule: &Rule, found: &mut Vec<Found>) {
    let mut missing = |path: &'static str, help: &str| {
        let message = format!("action `{}` needs `{path}`", rule.action.name());
        found.push((
            "action",
            Fault::new(&code::MISSING_KEY, message).with_help(help),
        ));
    };
    if rule.action == Action::Consult
        && rule
            .consult
            .as_ref()
            .is_none_or(|consult| consult.prompt.is_empty())
    {
        missing("consult.prompt", "write `consult = { prompt = \"…\" }`");
    }
    let is_whole =
        |header: &crate::rule::Header| !header.name.is_empty() && !header.value.is_empty();
    if rule.action == Action::SetHeader && !rule.header.as_ref().is_some_and(is_whole) {
        missing(
            "header",
            "write `header = { name = \"x-route\", value = \"careful\" }`",
        );
    }
}

/// Bounds that rules made in code may have and rules in files cannot.
fn bounds(rule: &Rule, found: &mut Vec<Found>) {
    if rule
        .retry
        .then
        .is_some_and(|then| !crate::pack::schema::THEN.contains(&then))
    {
        found.push(contradiction(
            "retry.then",
            "`then` cannot be this action",
            "`observe`, `warn`, `inject`, `handoff` or `abort`",
        ));
    }
    let Repeat {
        cooldown_turns,
        per_turn,
        per_session,
    } = rule.repeat.unwrap_or_default();
    let Allowance {
        per_turn: allowed,
        per_session: in_all,
    } = rule.allowance;
    for (number, key) in [
        (cooldown_turns, "repeat.cooldown-turns"),
        (per_turn, "repeat.per-turn"),
        (per_session, "repeat.per-session"),
        (allowed, "allowance.per-turn"),
        (in_all, "allowance.per-session"),
    ] {
        if number == Some(0) {
            found.push(zero(key));
        }
    }
    if let Some(header) = &rule.header {
        let faults = [
            option::header_name(&header.name),
            option::header_value(&header.value),
        ];
        found.extend(faults.into_iter().flatten().map(|fault| ("header", fault)));
    }
}

/// What a case expects, the rule must be able to do.
fn cases(rule: &Rule, found: &mut Vec<Found>) {
    for case in &rule.cases {
        let Case {
            channel,
            expect: Some(expected),
            ..
        } = case
        else {
            continue;
        };
        if !rule.on.contains(channel) {
            let why = format!(
                "a case expects something on `{}`, which the rule does not read",
                channel.name()
            );
            found.push(contradiction(
                "case",
                why,
                "write `expect = \"nothing\"`, or add the channel to `on`",
            ));
        }
        if *expected != rule.action && super::draft::then(rule) != Some(*expected) {
            let why = format!(
                "a case expects `{}`, the rule does `{}`",
                expected.name(),
                rule.action.name()
            );
            found.push(contradiction(
                "case",
                why,
                "write what the rule does, or `nothing`",
            ));
        }
    }
}
