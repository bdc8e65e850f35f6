//! The table of keys as a JSON Schema, for editors: draft-07, which Taplo and Tombi read.
//!
//! Written by hand: it is two hundred keys of text, and the core has no JSON library.

use std::fmt::Write as _;

use super::{Key, Keys, Shape, TOP, regions};

/// The JSON Schema of a rule file.
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
    table(&mut out, 1, TOP, &["schema", "pack"]);
    out.push_str("}\n");
    out
}

fn line(out: &mut String, depth: usize, text: &str) {
    out.extend(std::iter::repeat_n("  ", depth));
    out.push_str(text);
    out.push('\n');
}

/// The members of the schema of a table, from `type` on.
fn table(out: &mut String, depth: usize, keys: Keys, required: &[&str]) {
    line(out, depth, "\"type\": \"object\",");
    line(out, depth, "\"additionalProperties\": false,");
    if !required.is_empty() {
        line(out, depth, &format!("\"required\": {},", list(required)));
    }
    line(
        out,
        depth,
        &format!("\"x-taplo\": {{ \"initKeys\": {} }},", list(required)),
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

/// `"name": {` and what is in it; the brace is closed by the caller.
fn property(out: &mut String, depth: usize, key: &Key) {
    line(out, depth, &format!("{}: {{", string(key.name())));
    line(
        out,
        depth + 1,
        &format!("\"description\": {},", string(key.about)),
    );
    if !key.default.is_empty() {
        line(out, depth + 1, &format!("\"default\": {},", key.default));
    }
    shape(out, depth + 1, key);
}

fn shape(out: &mut String, depth: usize, key: &Key) {
    let mut simple = |text: String| line(out, depth, &text);
    match key.shape {
        Shape::Schema => simple("\"const\": 1".into()),
        Shape::Text => simple("\"type\": \"string\"".into()),
        Shape::Flag => simple("\"type\": \"boolean\"".into()),
        Shape::Texts => simple("\"type\": \"array\", \"items\": { \"type\": \"string\" }".into()),
        Shape::OneOf(names) => simple(one_of(&names())),
        Shape::ListOf(names) => simple(list_of(&names())),
        Shape::OneOrMore(names) => {
            let names = one_or_more(&names());
            simple(format!(
                "\"anyOf\": [{{ {names} }}, {{ \"type\": \"array\", \"items\": {{ {names} }} }}]"
            ));
        }
        Shape::Whole(least, most) => simple(format!(
            "\"type\": \"integer\", \"minimum\": {least}, \"maximum\": {most}"
        )),
        Shape::Decimal(least, most) => simple(format!(
            "\"type\": \"number\", \"minimum\": {}, \"maximum\": {}",
            thousandths(least),
            thousandths(most)
        )),
        Shape::Pair(most) => simple(format!(
            "\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2, \
             \"items\": {{ \"type\": \"integer\", \"minimum\": 1, \"maximum\": {most} }}"
        )),
        // A TOML date is a string to JSON Schema.
        Shape::Date => simple("\"type\": \"string\", \"format\": \"date\"".into()),
        Shape::NamedTexts => simple(
            "\"type\": \"object\", \"additionalProperties\": \
             { \"type\": \"array\", \"items\": { \"type\": \"string\" } }"
                .into(),
        ),
        Shape::Table(keys) => table(out, depth, keys, required(key.path)),
        Shape::Tables(keys) => tables(out, depth, keys, required(key.path)),
        Shape::Named(keys) => {
            simple("\"type\": \"object\",".into());
            simple("\"additionalProperties\": {".into());
            table(out, depth + 1, keys, required(key.path));
            line(out, depth, "}");
        }
    }
}

fn tables(out: &mut String, depth: usize, keys: Keys, required: &[&str]) {
    line(out, depth, "\"type\": \"array\",");
    line(out, depth, "\"items\": {");
    // In `any = [{ … }]` Taplo 0.10 looks for keys one array deeper than they are, and completed nothing. On
    // a table the word means nothing.
    line(out, depth + 1, "\"items\": {");
    table(out, depth + 2, keys, required);
    line(out, depth + 1, "},");
    table(out, depth + 1, keys, required);
    line(out, depth, "}");
}

/// Keys that must be there.
fn required(path: &str) -> &'static [&'static str] {
    match path {
        "pack" => &["name"],
        "rule" => &["description", "match"],
        "allow" => &["rules", "reason"],
        "case" => &["expect"],
        _ => &[],
    }
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

/// Like [`one_of`]; regions have a form besides their names.
fn one_or_more(names: &[String]) -> String {
    if names == regions() {
        return format!(
            "\"anyOf\": [{{ {} }}, {{ \"type\": \"string\", \"pattern\": \"^code:.+\" }}]",
            one_of(names)
        );
    }
    one_of(names)
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
