//! Tool input is matched after decoding: if serde_json reads an object, a literal hits if and only if some string or key
//! of the object contains it, and only keys if the rule names `$keys`; and for any input the hits are the same under
//! every split.

use std::sync::LazyLock;

use serde_json::Value;
use ttsr::{Channel, Hit, Pack, PartId, Pattern, Rule};

const NEEDLE: &str = "rm";

/// A rule over keys and values, and one over keys alone.
static PACK: LazyLock<Pack> = LazyLock::new(|| {
    let rule = |id: &str, args: &[&str]| {
        let mut rule = Rule::new(id, vec![Pattern::literal(NEEDLE.to_owned())]);
        rule.description = "fuzzed".to_owned();
        rule.on = vec![Channel::ToolInput];
        rule.args = args.iter().map(|&arg| arg.to_owned()).collect();
        rule
    };
    let builder = Pack::builder().rule(rule("fuzz/all", &[]));
    let pack = builder.rule(rule("fuzz/keys", &["$keys"])).build();
    pack.expect("the rules are right")
});

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, text @ ..] = data else { return };
    let hits = |size: usize| -> Vec<Hit> {
        let mut stream = PACK.stream();
        stream.open(PartId(0), Channel::ToolInput);
        let mut hits = Vec::new();
        for delta in text.chunks(size) {
            hits.extend_from_slice(&stream.push(PartId(0), delta));
        }
        hits.extend_from_slice(&stream.close(PartId(0)));
        hits
    };
    let whole = hits(text.len().max(1));
    assert_eq!(hits(1), whole, "byte by byte");
    assert_eq!(hits(usize::from(*cuts) % 29 + 1), whole, "cut otherwise");
    if text.first() == Some(&b'{')
        && let Ok(value @ Value::Object(_)) = serde_json::from_slice(text)
    {
        let hit = |id: &str| {
            let rule = PACK.find(id).expect("the pack has the rule");
            whole.iter().any(|hit| hit.rule == rule)
        };
        // serde_json keeps only the last value of a duplicate key, so it may miss a hit.
        let (in_value, in_key) = (value_holds(&value), key_holds(&value));
        assert!(
            !(in_value || in_key) || hit("fuzz/all"),
            "a value or a key that holds it was missed"
        );
        assert!(
            !in_key || hit("fuzz/keys"),
            "a key that holds it was missed"
        );
        assert!(
            !hit("fuzz/keys") || hit("fuzz/all"),
            "a rule without `args` reads keys"
        );
    }
}

fn value_holds(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(NEEDLE),
        Value::Array(values) => values.iter().any(value_holds),
        Value::Object(values) => values.values().any(value_holds),
        _ => false,
    }
}

fn key_holds(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(key_holds),
        Value::Object(values) => {
            values.keys().any(|key| key.contains(NEEDLE)) || values.values().any(key_holds)
        }
        _ => false,
    }
}
