//! The key tables as a JSON Schema, for editors: draft-07, which Taplo and Tombi read.
//!
//! The text is written without a JSON library, which the core does not depend on.

use std::fmt::Write as _;

use super::{KeyShape, Shape, TOP, TableKind, shapes};

/// Returns the JSON Schema of a rule file.
pub(in crate::pack) fn schema() -> String {
    let mut out = String::from("{\n");
    line(
        &mut out,
        1,
        "\"$schema\": \"http://json-schema.org/draft-07/schema#\",",
    );
    line(
        &mut out,
        1,
        "\"$id\": \"https://ttsr.dev/schema/ttsr-pack-1.json\",",
    );
    line(&mut out, 1, "\"title\": \"ttsr rule file\",");
    table(&mut out, 1, &shapes(TOP, TableKind::Rule));
    out.push_str("}\n");
    out
}

fn line(out: &mut String, depth: usize, text: &str) {
    out.extend(std::iter::repeat_n("  ", depth));
    out.push_str(text);
    out.push('\n');
}

/// Writes the members of the schema of a table, from `type` on.
fn table(out: &mut String, depth: usize, keys: &[KeyShape]) {
    let required = keys.iter().filter(|key| !key.head.required.is_empty());
    let required: Vec<&str> = required.map(|key| key.head.name()).collect();
    line(out, depth, "\"type\": \"object\",");
    line(out, depth, "\"additionalProperties\": false,");
    if !required.is_empty() {
        line(out, depth, &format!("\"required\": {},", list(&required)));
    }
    line(
        out,
        depth,
        &format!("\"x-taplo\": {{ \"initKeys\": {} }},", list(&required)),
    );
    line(out, depth, "\"x-tombi-table-keys-order\": \"schema\",");
    line(out, depth, "\"properties\": {");
    for (index, key) in keys.iter().enumerate() {
        property(out, depth + 1, key);
        let comma = if index + 1 < keys.len() { "}," } else { "}" };
        line(out, depth + 1, comma);
    }
    line(out, depth, "}");
}

/// Writes `"name": {` and the members of the key's schema; the caller writes the closing brace.
fn property(out: &mut String, depth: usize, key: &KeyShape) {
    line(out, depth, &format!("{}: {{", string(key.head.name())));
    line(
        out,
        depth + 1,
        &format!("\"description\": {},", string(key.head.about)),
    );
    if !key.head.default.is_empty() {
        line(
            out,
            depth + 1,
            &format!("\"default\": {},", key.head.default),
        );
    }
    shape(out, depth + 1, key);
}

fn shape(out: &mut String, depth: usize, key: &KeyShape) {
    let mut simple = |text: String| line(out, depth, &text);
    match &key.shape {
        Shape::Schema => simple("\"const\": 1".into()),
        Shape::Text => simple("\"type\": \"string\"".into()),
        Shape::Flag => simple("\"type\": \"boolean\"".into()),
        Shape::Texts => simple("\"type\": \"array\", \"items\": { \"type\": \"string\" }".into()),
        Shape::OneOf(names) => simple(one_of(names)),
        Shape::ListOf(names) => simple(list_of(names)),
        Shape::OneOrMore(names, pattern) => {
            let names = one_or_more(names, *pattern);
            simple(format!(
                "\"anyOf\": [{{ {names} }}, {{ \"type\": \"array\", \"items\": {{ {names} }} }}]"
            ));
        }
        Shape::Whole(least, most) => simple(format!(
            "\"type\": \"integer\", \"minimum\": {least}, \"maximum\": {most}"
        )),
        Shape::Thousandths(least, most) => simple(format!(
            "\"type\": \"number\", \"minimum\": {}, \"maximum\": {}",
            thousandths(*least),
            thousandths(*most)
        )),
        Shape::Pair(most) => simple(format!(
            "\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2, \
             \"items\": {{ \"type\": \"integer\", \"minimum\": 1, \"maximum\": {most} }}"
        )),
        // A TOML date is a string to JSON Schema.
        Shape::Date => simple("\"type\": \"string\", \"format\": \"date\"".into()),
        Shape::NamedText => simple(
            "\"type\": \"object\", \"additionalProperties\": { \"type\": \"string\" }".into(),
        ),
        Shape::NamedTexts => simple(
            "\"type\": \"object\", \"additionalProperties\": \
             { \"type\": \"array\", \"items\": { \"type\": \"string\" } }"
                .into(),
        ),
        Shape::Table(keys) => table(out, depth, keys),
        Shape::Tables(keys) => tables(out, depth, keys),
        Shape::NamedTables(keys) => {
            simple("\"type\": \"object\",".into());
            simple("\"additionalProperties\": {".into());
            table(out, depth + 1, keys);
            line(out, depth, "}");
        }
    }
}

fn tables(out: &mut String, depth: usize, keys: &[KeyShape]) {
    line(out, depth, "\"type\": \"array\",");
    line(out, depth, "\"items\": {");
    // In `any = [{ … }]` Taplo 0.10 looks for keys one array deeper than they are, and would complete nothing.
    // `items` has no meaning in the schema of a table.
    line(out, depth + 1, "\"items\": {");
    table(out, depth + 2, keys);
    line(out, depth + 1, "},");
    table(out, depth + 1, keys);
    line(out, depth, "}");
}

fn one_of(names: &[String]) -> String {
    format!("\"type\": \"string\", \"enum\": {}", list(names))
}

fn list_of(names: &[String]) -> String {
    format!(
        "\"type\": \"array\", \"uniqueItems\": true, \"items\": {{ {} }}",
        one_of(names)
    )
}

/// Like [`one_of`], with a pattern for other names.
fn one_or_more(names: &[String], pattern: Option<&str>) -> String {
    let names = one_of(names);
    match pattern {
        Some(pattern) => format!(
            "\"anyOf\": [{{ {names} }}, {{ \"type\": \"string\", \"pattern\": {} }}]",
            string(pattern)
        ),
        None => names,
    }
}

fn thousandths(number: u32) -> String {
    let text = format!("{}.{:03}", number / 1000, number % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(|name| string(name.as_ref())).collect();
    format!("[{}]", names.join(", "))
}

fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes all");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
