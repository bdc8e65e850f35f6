//! A rule as it takes effect, in the words of the rule language.

use serde_json::{Map, Value, json};
use toml_edit::{Array, InlineTable};
use ttsr::rule::{Case, Condition, PatternKind, Region, Repeat, Within};
use ttsr::{Action, Channel, Pattern, Rule};

/// Every key that a rule may have, with what holds for this one; null where nothing does.
pub(crate) fn keys(rule: &Rule) -> Map<String, Value> {
    let cases: Vec<Value> = rule.cases.iter().map(case).collect();
    let keys = json!({
        "description": rule.description,
        "why": rule.why,
        "instead": rule.instead,
        "docs": rule.docs,
        "tags": rule.tags,
        "status": rule.status.name(),
        "replaced-by": rule.replaced_by,
        "severity": rule.severity.name(),
        "on": rule.on,
        "tools": rule.tools,
        "args": rule.args,
        "paths": rule.paths,
        "agents": rule.agents,
        "models": rule.models,
        "providers": rule.providers,
        "match": condition(&rule.condition),
        "action": rule.action,
        "mode": rule.mode.name(),
        "partial": rule.partial.name(),
        "retry": {
            "max": rule.retry.max,
            "model": rule.retry.model,
            "temperature": rule.retry.temperature.map(thousandths),
            "then": rule.retry.then,
        },
        "repeat": rule.repeat.as_ref().map(repeat),
        "allowance": {
            "per-turn": rule.allowance.per_turn,
            "per-session": rule.allowance.per_session,
        },
        "hold": rule.hold,
        "replacement": rule.replacement,
        "consult": rule.consult.as_ref().map(|consult| json!({
            "prompt": consult.prompt,
            "model": consult.model,
            "timeout": thousandths_of(consult.timeout_millis),
            "tools": consult.tools,
            "block-on-failure": consult.blocks_on_failure,
        })),
        "header": rule.header.as_ref().map(|header| json!({
            "name": header.name,
            "value": header.value,
        })),
        "message": rule.message,
        "priority": rule.priority,
        "examples": { "match": rule.examples.matching, "no-match": rule.examples.not_matching },
        "case": cases,
    });
    match keys {
        Value::Object(keys) => keys,
        _ => Map::new(),
    }
}

/// The order in which a reader meets the keys.
const ORDER: [&str; 30] = [
    "description",
    "why",
    "instead",
    "docs",
    "tags",
    "status",
    "replaced-by",
    "severity",
    "action",
    "mode",
    "priority",
    "on",
    "tools",
    "args",
    "paths",
    "agents",
    "models",
    "providers",
    "match",
    "message",
    "partial",
    "retry",
    "repeat",
    "allowance",
    "hold",
    "replacement",
    "consult",
    "header",
    "examples",
    "case",
];

/// What was written, what lists and defaults made of it, as a table of a rule file. What has no effect is left
/// out.
pub(crate) fn toml(rule: &Rule) -> String {
    let unsaid = keys(&Rule::new("", Vec::new()));
    let keys = keys(rule);
    let id = rule.id.rsplit('/').next().unwrap_or_default();
    let mut out = format!("[rule.{id}]\n");
    for name in ORDER {
        let always = ["description", "severity", "action", "on"].contains(&name);
        if let Some(value) = keys.get(name)
            && (always || unsaid.get(name) != Some(value))
            && (rule.action == Action::Retry || !["retry", "partial"].contains(&name))
        {
            lines(name, value, &mut out);
        }
    }
    out
}

/// A line a key; tables below a key are dotted.
fn lines(name: &str, value: &Value, out: &mut String) {
    // Rules nest their tables no deeper than the language does.
    if let Value::Object(keys) = value {
        for (key, value) in keys {
            lines(&format!("{name}.{key}"), value, out);
        }
    } else if let Some(value) = toml_value(value) {
        out.push_str(&format!("{name} = {}\n", value.to_string().trim()));
    }
}

/// None for what says nothing.
fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null | Value::Bool(false) => return None,
        Value::Bool(true) => true.into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(entries) if entries.is_empty() => return None,
        Value::Array(entries) => entries
            .iter()
            .filter_map(toml_value)
            .collect::<Array>()
            .into(),
        Value::Object(keys) => {
            let keys = keys
                .iter()
                .filter_map(|(key, value)| Some((key.as_str(), toml_value(value)?)));
            keys.collect::<InlineTable>().into()
        }
    })
}

fn condition(condition: &Condition) -> Value {
    let list = |patterns: &[Pattern]| patterns.iter().map(pattern).collect::<Vec<Value>>();
    let capture = condition.capture.as_ref().map(|capture| {
        json!({
            "group": capture.group.as_deref().map(group),
            "entropy": capture.entropy.map(thousandths),
            "random": capture.random,
            "not-in": capture.not_in,
        })
    });
    let limit = condition.limit.map(|limit| {
        json!({
            "bytes": limit.bytes,
            "lines": limit.lines,
            "deltas": limit.deltas,
            "tokens": limit.tokens,
            "seconds": limit.millis.map(thousandths_of),
            "stall": limit.stall_millis.map(thousandths_of),
        })
    });
    json!({
        "any": list(&condition.any),
        "all": list(&condition.all),
        "sequence": list(&condition.sequence),
        "none": list(&condition.none),
        "within": condition.within.map(within),
        "first": condition.first,
        "last": condition.last,
        "line": condition.line,
        "count": condition.count.map(|count| count.times),
        "per": condition.count.map(|count| count.per.name()),
        "capture": capture,
        "repetition": condition.repetition.map(|it| json!({
            "unit-chars": [it.unit_chars.0, it.unit_chars.1],
            "times": it.times,
            "near": it.near,
            "turns": it.turns,
        })),
        "leak": condition.leak,
        "limit": limit,
        "script": condition.script.as_ref().map(|script| json!({ "expect": script.expect })),
        "unknown-name": condition.unknown_name.as_ref().map(|it| json!({
            "known": it.known,
            "of": it.of.iter().map(|named| named.name()).collect::<Vec<_>>(),
        })),
        "ast": condition.ast.as_ref().map(|ast| json!({
            "languages": ast.languages,
            "any": ast.any,
            "inside": ast.inside,
            "not": ast.not,
        })),
        "doom-loop": condition.doom_loop.map(|it| json!({
            "times": it.times,
            "differing": it.differing,
        })),
    })
}

fn pattern(pattern: &Pattern) -> Value {
    let regions: Vec<String> = pattern.region.iter().map(Region::name).collect();
    let folds: Vec<&str> = pattern.fold.iter().map(|fold| fold.name()).collect();
    json!({
        kind(pattern): pattern.text,
        "region": regions,
        "fold": folds,
        "arg": pattern.arg,
    })
}

/// What a pattern is called.
pub(crate) fn kind(pattern: &Pattern) -> &'static str {
    match pattern.kind {
        PatternKind::Literal => "literal",
        PatternKind::Word => "word",
        _ => "regex",
    }
}

fn within(within: Within) -> Value {
    match within {
        Within::Lines(lines) => json!({ "lines": lines }),
        Within::Chars(chars) => json!({ "chars": chars }),
        Within::Message => json!({ "message": true }),
        _ => json!({ "part": true }),
    }
}

fn repeat(repeat: &Repeat) -> Value {
    json!({
        "cooldown-turns": repeat.cooldown_turns,
        "per-turn": repeat.per_turn,
        "per-session": repeat.per_session,
    })
}

fn case(case: &Case) -> Value {
    let text = match case.channel {
        Channel::Reasoning => "reasoning",
        Channel::ToolInput => "input",
        _ => "text",
    };
    json!({
        text: case.text,
        "tool": case.tool,
        "path": case.path,
        "expect": case.expect.map_or("nothing", Action::name),
        "by-byte": case.by_byte,
    })
}

/// A group is known by its number or by its name.
fn group(name: &str) -> Value {
    name.parse::<u32>()
        .map_or_else(|_| name.into(), Value::from)
}

fn thousandths(number: u32) -> f64 {
    f64::from(number) / 1000.0
}

/// Seconds, whole where they can be.
fn thousandths_of(millis: u64) -> Value {
    match millis % 1000 {
        0 => (millis / 1000).into(),
        _ => (millis as f64 / 1000.0).into(),
    }
}

#[cfg(test)]
mod tests {
    use ttsr::Pack;

    use super::*;

    /// The rules of `pack` written out, and read again.
    fn again(pack: &Pack) -> Vec<Rule> {
        let written = |rule: &Rule| {
            let (name, _) = rule.id.rsplit_once('/').unwrap();
            let text = format!("schema = 1\npack.name = \"{name}\"\n{}", toml(rule));
            let read = Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            read.rules()[0].clone()
        };
        pack.rules().iter().map(written).collect()
    }

    #[test]
    fn a_rule_written_out_is_the_same_rule() {
        let names = Pack::builtins();
        let builtin = names.fold(Pack::builder(), |builder, name| builder.builtin(name));
        let builtin = builtin.build().unwrap();
        let written = builtin.rules().iter().map(|rule| {
            let mut rule = rule.clone();
            if rule.action != Action::Retry {
                // A default of the pack that has no effect here is not written.
                rule.partial = ttsr::Partial::default();
            }
            rule
        });
        assert!(again(&builtin).into_iter().eq(written));
        // Every rule of the guide: one of each kind that the language has.
        let guide = include_str!("../../../docs/rules.md");
        let blocks = guide.split("```toml\n").skip(1);
        let blocks = blocks.filter_map(|block| block.split("```").next());
        let rules = blocks.filter(|block| block.starts_with("[rule."));
        let mut count = 0;
        for text in rules {
            let text = format!("schema = 1\npack.name = \"guide\"\n{text}");
            // What asks for a feature that is off, or for another rule, is read elsewhere.
            let Ok(pack) = Pack::from_toml(&text) else {
                continue;
            };
            assert_eq!(again(&pack), pack.rules(), "{text}");
            count += pack.rules().len();
        }
        assert!(count > 10, "only {count} rules of the guide were read");
    }
}
