//! Triggers that are not patterns: their channels and their bounds.

use super::{KeyFault, contradiction, no_effect, reads_stream, zero};
use crate::pack::check::ast;
use crate::pack::check::fault::Fault;
use crate::pack::diagnostic::code;
use crate::pack::did_you_mean;
use crate::pack::escape::quote;
use crate::pack::schema::KeyInfo;
use crate::rule::{Bound, Channel, DoomLoop, Named, Repetition, Rule, Script, UnknownName};

/// Reports the contradictions in the trigger of a rule, and in keys that do not go with it.
pub(super) fn faults(rule: &Rule, trigger: &KeyInfo, found: &mut Vec<KeyFault>) {
    let condition = &rule.condition;
    let kind = trigger.name();
    let is_pattern = ["any", "all", "sequence"].contains(&kind);
    if !is_pattern && !condition.none.is_empty() {
        let why = format!("`none` needs the match of a pattern, and `{kind}` is not a pattern");
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
        let faults = ast::faults(ast).into_iter();
        found.extend(faults.map(|fault| ("match.ast", fault)));
    }
    if let Some(doom) = &condition.doom_loop {
        doom_loop(doom, rule, found);
    }
}

fn unknown_names(names: &UnknownName, rule: &Rule, found: &mut Vec<KeyFault>) {
    if !rule.args.is_empty() {
        found.push(no_effect(
            "args",
            "unknown names are searched in the lines that an edit adds, in all its arguments",
            "remove it, and narrow the rule by `tools` and `paths`",
        ));
    }
    let reads_calls = rule.on.contains(&Channel::ToolInput);
    if names.checks(Named::Tool) && !reads_calls {
        found.push(no_effect(
            "match.unknown-name.of",
            "`tool` checks tool calls, and `on` does not name `tool-input`",
            "add `tool-input` to `on`",
        ));
    }
    if names.checks(Named::File) && reads_calls && rule.on.len() == 1 {
        found.push(no_effect(
            "match.unknown-name.of",
            "`file` checks code spans in text, and `on` names only `tool-input`",
            "add `text` to `on`",
        ));
    }
}

/// Reports a `script` without expectations, or with an unknown one.
fn expected(script: &Script, found: &mut Vec<KeyFault>) {
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
        let fault = fault.with_help(did_you_mean::help(name, &Script::NAMES));
        found.push(("match.script", fault));
    }
}

/// Reports a `repetition` with bounds that contradict each other.
fn circles(repetition: &Repetition, rule: &Rule, found: &mut Vec<KeyFault>) {
    if repetition.turns.is_some() && rule.on == [Channel::ToolInput] {
        found.push(no_effect(
            "match.repetition",
            "`turns` compares replies, and `on` names only `tool-input`",
            "use `doom-loop` to compare calls, or add \"text\" to `on`",
        ));
    }
    if repetition.turns.is_some_and(|turns| turns < 2) {
        found.push(contradiction(
            "match.repetition",
            "`turns` must be at least 2",
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

/// Reports a `doom-loop` without tool calls, or with too few of them.
fn doom_loop(doom: &DoomLoop, rule: &Rule, found: &mut Vec<KeyFault>) {
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

fn bound(limit: &Bound, rule: &Rule, found: &mut Vec<KeyFault>) {
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
            "`limit` sets no limit",
            "write `match.limit = { bytes = 100000 }`",
        ));
    }
    if all.contains(&Some(0)) {
        found.push(zero("match.limit"));
    }
    if !rule.args.is_empty() && bytes.or(lines).or(tokens).is_none() {
        found.push(no_effect(
            "args",
            "`deltas`, `seconds` and `stall` limit the call as a whole",
            "remove it, or limit `bytes`, `lines` or `tokens`",
        ));
    }
    let needs_stream = deltas.or(millis).or(stall_millis).is_some();
    if needs_stream && !reads_stream(rule) {
        let why = "no channel in `on` arrives in deltas";
        found.push(no_effect(
            "match.limit",
            why,
            "add `text`, `reasoning` or `tool-input` to `on`",
        ));
    }
}
