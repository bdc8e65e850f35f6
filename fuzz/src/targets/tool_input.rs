//! Tool input is matched decoded: where serde_json reads an object, a literal hits if and only if some
//! value of the object holds it; and whatever the input is, the hits are the same under every cut.

use std::sync::LazyLock;

use serde_json::Value;
use ttsr::{Channel, Hit, Pack, PartId, Pattern, Rule};

const NEEDLE: &str = "rm";

static PACK: LazyLock<Pack> = LazyLock::new(|| {
    let mut rule = Rule::new("fuzz/p", vec![Pattern::literal(NEEDLE.to_owned())]);
    rule.description = "fuzzed".to_owned();
    rule.on = vec![Channel::ToolInput];
    let pack = Pack::builder().rule(rule).build();
    pack.expect("the rule is right")
});

/// Holds what this module says against one input.
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
        // Of a duplicate key serde_json keeps the last value only, so it can say no too often.
        assert!(
            !holds(&value) || !whole.is_empty(),
            "a value that holds it was missed"
        );
    }
}

fn holds(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(NEEDLE),
        Value::Array(values) => values.iter().any(holds),
        Value::Object(values) => values.values().any(holds),
        _ => false,
    }
}
