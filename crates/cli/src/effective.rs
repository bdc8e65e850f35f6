//! A complete rule, as a table of a rule file.

use toml_edit::{Array, InlineTable};
use ttsr::pack::language::{KeyValue, rule_keys};
use ttsr::rule::PatternKind;
use ttsr::{Pattern, Rule};

/// Returns every key that a rule may have, with its value in this rule, as JSON.
pub(crate) fn keys(rule: &Rule) -> serde_json::Map<String, serde_json::Value> {
    let keys = rule_keys(rule).into_iter();
    let keys = keys.map(|key| (key.name.to_owned(), serde_json::json!(key.value)));
    keys.collect()
}

/// The keys that are written even if they have their default.
const ALWAYS: [&str; 4] = ["description", "severity", "action", "on"];

/// Returns the rule as a table of a rule file: the keys that have an effect, with lists, defaults and overrides applied.
pub(crate) fn toml(rule: &Rule) -> String {
    let id = rule.id.rsplit('/').next().unwrap_or_default();
    let mut out = format!("[rule.{id}]\n");
    for key in rule_keys(rule) {
        if key.has_effect || ALWAYS.contains(&key.name) {
            write_lines(key.name, &key.value, &mut out);
        }
    }
    out
}

/// Appends a line for each key. The keys of a table are dotted.
fn write_lines(name: &str, value: &KeyValue, out: &mut String) {
    // Tables are nested no deeper than in the rule language.
    if let KeyValue::Table(keys) = value {
        for (key, value) in keys {
            write_lines(&format!("{name}.{key}"), value, out);
        }
    } else if let Some(value) = toml_value(value) {
        out.push_str(&format!("{name} = {}\n", value.to_string().trim()));
    }
}

/// Returns the value in TOML, or `None` for a value that is not written.
fn toml_value(value: &KeyValue) -> Option<toml_edit::Value> {
    Some(match value {
        KeyValue::Flag(true) => true.into(),
        KeyValue::Whole(number) => (*number).into(),
        KeyValue::Decimal(number) => (*number).into(),
        KeyValue::Text(text) => text.as_str().into(),
        KeyValue::List(entries) if !entries.is_empty() => {
            let entries = entries.iter().filter_map(toml_value);
            entries.collect::<Array>().into()
        }
        KeyValue::Table(keys) => {
            let keys = keys
                .iter()
                .filter_map(|(key, value)| Some((*key, toml_value(value)?)));
            keys.collect::<InlineTable>().into()
        }
        _ => return None,
    })
}

/// Returns the key that holds the text of the pattern.
pub(crate) fn kind(pattern: &Pattern) -> &'static str {
    match pattern.kind {
        PatternKind::Literal => "literal",
        PatternKind::Word => "word",
        PatternKind::Command => "command",
        _ => "regex",
    }
}

#[cfg(test)]
mod tests {
    use ttsr::{Action, Pack};

    use super::*;

    /// Returns the rules of `pack`, written out and read again.
    fn written_and_read(pack: &Pack) -> Vec<Rule> {
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
        let names = Pack::builtin_names();
        let builtin = names.fold(Pack::builder(), |builder, name| builder.builtin(name));
        let builtin = builtin.build().unwrap();
        let written = builtin.rules().iter().map(|rule| {
            let mut rule = rule.clone();
            if rule.action != Action::Retry {
                // A default of the pack that has no effect on this rule is not written.
                rule.partial = ttsr::Partial::default();
            }
            rule
        });
        assert!(written_and_read(&builtin).into_iter().eq(written));
        // Every rule of the guide: together they have every trigger of the language.
        let guide = include_str!("../../../docs/rules.md");
        let blocks = guide.split("```toml\n").skip(1);
        let blocks = blocks.filter_map(|block| block.split("```").next());
        let rules = blocks.filter(|block| block.starts_with("[rule."));
        let mut count = 0;
        for text in rules {
            let text = format!("schema = 1\npack.name = \"guide\"\n{text}");
            // Rules that need a feature that is off, or another rule, are read elsewhere.
            let Ok(pack) = Pack::from_toml(&text) else {
                continue;
            };
            assert_eq!(written_and_read(&pack), pack.rules(), "{text}");
            count += pack.rules().len();
        }
        assert!(count > 10, "only {count} rules of the guide were read");
    }
}
