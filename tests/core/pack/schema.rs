//! The schema and the reference of the rule language, against the loader.

use ttsr::{Action, Diagnostic, LoadError, Pack};

use super::HEADER;

/// The object at `key` of a schema.
fn at<'s>(schema: &'s serde_json::Value, key: &str) -> &'s serde_json::Value {
    let found = &schema["properties"][key];
    assert!(found.is_object(), "{key}");
    found
}

/// Every key below `schema`, as a piece of TOML around a value that no key takes.
fn keys_with_a_date(
    schema: &serde_json::Value,
    around: &dyn Fn(&str) -> String,
    found: &mut Vec<(String, String)>,
) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (key, value) in properties {
        let pieces = around(&format!("{key} = 12:00:00"));
        found.push((key.clone(), pieces));
        let inner = |text: &str| around(&format!("{key} = {{ {text} }}"));
        let entry = |text: &str| around(&format!("{key} = [{{ {text} }}]"));
        let named = |text: &str| around(&format!("{key}.\"demo/a\" = {{ {text} }}"));
        let id = |text: &str| around(&format!("{key}.a = {{ {text} }}"));
        keys_with_a_date(value, &inner, found);
        keys_with_a_date(&value["items"], &entry, found);
        if key == "override" {
            keys_with_a_date(&value["additionalProperties"], &named, found);
        } else {
            keys_with_a_date(&value["additionalProperties"], &id, found);
        }
    }
}

#[test]
fn every_key_of_the_schema_is_read_by_the_loader() {
    let schema: serde_json::Value = serde_json::from_str(&ttsr::pack::schema()).unwrap();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    let mut found = Vec::new();
    keys_with_a_date(&schema, &|text: &str| text.to_owned(), &mut found);
    assert!(found.len() > 200, "only {} keys", found.len());
    for (key, text) in found {
        // A key that nobody reads would take anything.
        let column = text.find(&format!("{key} = 12:00:00")).unwrap();
        let errors = Pack::from_toml(&text).expect_err(&text);
        let is_told = errors.diagnostics().iter().any(|problem| {
            let from = problem.column() as usize - 1;
            (column..column + key.len() + 12).contains(&from)
                && ["wrong-type", "bad-value", "unsupported-schema"].contains(&problem.code())
        });
        assert!(is_told, "{text}: {errors}");
    }
}

#[test]
fn the_schema_is_indented_by_depth() {
    let mut depth = 0;
    for line in ttsr::pack::schema().lines() {
        let text = line.trim_start();
        depth -= usize::from(text.starts_with(['}', ']']));
        assert_eq!(line.len() - text.len(), 2 * depth, "{line}");
        depth += usize::from(text.ends_with(['{', '[']));
    }
    assert_eq!(depth, 0);
}

#[test]
fn the_schema_names_values_defaults_and_bounds() {
    let schema: serde_json::Value = serde_json::from_str(&ttsr::pack::schema()).unwrap();
    let rule = &at(&schema, "rule")["additionalProperties"];
    assert_eq!(rule["additionalProperties"], false);
    assert_eq!(rule["required"][1], "match");
    assert_eq!(at(rule, "severity")["default"], "warning");
    assert_eq!(
        at(rule, "action")["enum"].as_array().unwrap().len(),
        Action::ALL.len()
    );
    assert_eq!(at(at(rule, "retry"), "max")["minimum"], 0);
    assert_eq!(at(at(rule, "retry"), "temperature")["maximum"], 2);
    assert_eq!(
        at(at(rule, "match"), "any")["items"]["additionalProperties"],
        false
    );
    // Taplo completes `any = [{ … }]` by these.
    let pattern = &at(at(rule, "match"), "any")["items"];
    assert_eq!(pattern["items"]["properties"], pattern["properties"]);
    let over = &at(&schema, "override")["additionalProperties"];
    assert!(at(at(over, "append"), "match")["properties"]["any"].is_object());
}

/// Each block of the reference is a whole rule file, or a rule without its head.
#[test]
fn every_example_of_the_reference_loads() {
    let text = include_str!("../../../docs/rules.md");
    let blocks: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 20, "only {} blocks", blocks.len());
    for block in blocks {
        let head = if block.contains("schema = 1") {
            ""
        } else {
            HEADER
        };
        let pack = Pack::from_toml(&format!("{head}{block}"));
        let has_all = cfg!(all(feature = "ast", feature = "unicode"));
        let lacks_feature = |error: &LoadError| {
            let mut codes = error.diagnostics().iter().map(Diagnostic::code);
            !has_all && codes.any(|code| code == "missing-feature")
        };
        if pack.as_ref().is_err_and(lacks_feature) {
            continue;
        }
        let pack = pack.unwrap_or_else(|error| panic!("{block}\n{error}"));
        assert!(!pack.rules().is_empty(), "{block}");
    }
    // Every key is explained.
    let schema = ttsr::pack::schema();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let mut keys = Vec::new();
    keys_with_a_date(&schema, &|text: &str| text.to_owned(), &mut keys);
    for (key, _) in keys {
        assert!(
            text.contains(&format!("`{key}`")) || text.contains(&format!(".{key}`")),
            "{key} is not explained"
        );
    }
}
