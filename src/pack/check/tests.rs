//! Checks of every row of the key tables.

use std::collections::BTreeSet;

use crate::pack::check::draft::{Draft, Place};
use crate::pack::schema::{self, KeyShape, KeyValue, Shape, TableKind, shapes};
use crate::{LoadError, Pack};

/// The table of a key: its header, and the prefix of the key's path in it.
#[derive(Clone, Copy, Debug)]
struct Context {
    header: &'static str,
    prefix: &'static str,
    is_rule: bool,
}

fn contexts() -> [(Vec<KeyShape>, Context); 6] {
    let of_rule = |kind| shapes(schema::RULE, kind);
    [
        (
            shapes(schema::PACK, TableKind::Rule),
            context("", "pack.", false),
        ),
        (
            of_rule(TableKind::Defaults),
            context("", "defaults.", false),
        ),
        (of_rule(TableKind::Rule), context("[rule.r]\n", "", true)),
        (
            of_rule(TableKind::Override),
            context("[override.'p/other']\n", "", false),
        ),
        (
            of_rule(TableKind::Append),
            context("[override.'p/other']\n", "append.", false),
        ),
        (
            shapes(schema::ALLOW, TableKind::Rule),
            context("[[allow]]\n", "", false),
        ),
    ]
}

const fn context(header: &'static str, prefix: &'static str, is_rule: bool) -> Context {
    Context {
        header,
        prefix,
        is_rule,
    }
}

/// Returns the keys, and the keys in their tables, that hold several texts.
fn lists_of_texts(keys: &[KeyShape]) -> Vec<&KeyShape> {
    let mut found = Vec::new();
    for key in keys {
        match &key.shape {
            Shape::Texts | Shape::ListOf(_) | Shape::OneOrMore(..) | Shape::NamedTexts => {
                found.push(key);
            }
            Shape::Table(inner) | Shape::Tables(inner) if !key.head.path.starts_with("append") => {
                found.extend(lists_of_texts(inner));
            }
            _ => {}
        }
    }
    found
}

/// Returns two valid entries of the key.
fn entries(key: &KeyShape) -> Vec<String> {
    let own: [&str; 2] = match (&key.shape, key.head.path) {
        (Shape::ListOf(names), "on") => [&names[0], "tool-input"],
        (_, "references") => ["https://a", "https://b"],
        (_, "grants") => ["inject", "retry"],
        (Shape::ListOf(names), _) => return names.iter().take(2).cloned().collect(),
        // Some regions exclude each other.
        (Shape::OneOrMore(names, _), _) => return names.iter().take(1).cloned().collect(),
        (_, "extends") => ["std/secrets", "lang/rust"],
        (_, "allow.rules") => ["p/*", "p/r"],
        (_, "examples.match" | "examples.no-match") => ["x y", "x z"],
        (_, "pattern.flags" | "pattern.no-flags") => ["-a", "--bb"],
        _ => ["aa", "bb"],
    };
    own.map(str::to_owned).to_vec()
}

/// Returns the other keys that the key at `path` needs to have an effect.
fn beside(path: &str) -> &'static str {
    const ANY: &str = "match.any = [{ literal = 'x' }]\n";
    match path {
        "match.script.expect" | "match.unknown-name.of" | "match.unknown-name.known" => "",
        "match.ast.languages" => "match.ast.any = ['x']\n",
        "match.ast.any" => "match.ast.languages = ['rust']\n",
        "match.ast.inside" | "match.ast.not" => {
            "match.ast.languages = ['rust']\nmatch.ast.any = ['x']\n"
        }
        "consult.tools" => {
            "on = ['tool-input']\naction = 'consult'\nconsult.prompt = 'p'\nmatch.any = [{ literal = 'x' }]\n"
        }
        "pattern.region" | "pattern.fold" => "",
        path if path.starts_with("pattern.") => "on = ['tool-input']\n",
        _ => ANY,
    }
}

/// Returns a file in which the key has that value, or `None` for a key of another table.
fn file(at: Context, key: &KeyShape, value: &str) -> Option<String> {
    let Context {
        header,
        prefix,
        is_rule,
    } = at;
    let path = key.head.path;
    let path = path.strip_prefix("allow.").unwrap_or(path);
    let written = match path.strip_prefix("pattern.") {
        Some(name @ ("region" | "fold")) => {
            format!("{prefix}match.any = [{{ literal = 'x', {name} = {value} }}]\n")
        }
        Some(name) => format!("{prefix}match.any = [{{ command = 'x', {name} = {value} }}]\n"),
        None => format!("{prefix}{path} = {value}\n"),
    };
    let mut more = String::new();
    if is_rule {
        more = format!("description = 'd'\n{}", beside(path));
    }
    if header.starts_with("[override") && prefix.is_empty() && path != "pattern.region" {
        // The override replaces what breaks the rule, where the key asks for that.
        more = beside(path).to_owned();
    }
    if header == "[[allow]]\n" {
        more = "reason = 'r'\n".to_owned();
        more += if path == "rules" {
            ""
        } else {
            "rules = ['p/r']\n"
        };
        more += if path == "rules" {
            "paths = ['a']\n"
        } else {
            ""
        };
    }
    let is_case = path.starts_with("case.");
    let rule = "[rule.r]\ndescription = 'd'\nmatch.any = [{ literal = 'x' }]\n";
    let rule = if is_rule { "" } else { rule };
    // An override changes a rule that is broken by the same kind of thing.
    let of_other = match path.split('.').nth(1) {
        Some("script") if path.starts_with("match.") => "match.script.expect = ['han']",
        Some("unknown-name") => "match.unknown-name.of = ['tool', 'file']",
        Some("ast") => "match.ast.languages = ['go']\nmatch.ast.any = ['x']",
        _ => "match.any = [{ literal = 'other' }]",
    };
    let other = format!("[rule.other]\ndescription = 'd'\n{of_other}\n");
    let top = if header.is_empty() { &*written } else { "" };
    let body = match header {
        "" => String::new(),
        _ => format!("{header}{more}{written}"),
    };
    (!is_case).then(|| {
        let list: Vec<String> = entries(key).iter().map(|it| format!("'{it}'")).collect();
        format!(
            "schema = 1\npack.name = 'p'\n{top}[lists]\nlisted = [{}]\n{rule}{other}{body}",
            list.join(", ")
        )
    })
}

fn load(text: &str) -> Result<Pack, LoadError> {
    Pack::builder().toml("p.toml", text).build()
}

/// In every key that takes several texts, `@list` is replaced by its entries, or is an error at its place.
#[test]
fn a_list_is_filled_in_or_refused_in_every_key_that_takes_texts() {
    let (mut filled, mut refused) = (Vec::new(), Vec::new());
    let mut failures = Vec::new();
    for (keys, at) in contexts() {
        for key in lists_of_texts(&keys) {
            let all: Vec<String> = entries(key).iter().map(|it| format!("'{it}'")).collect();
            let written = file(at, key, &format!("[{}]", all.join(", ")));
            let named = file(at, key, "['@listed']");
            let (Some(written), Some(named)) = (written, named) else {
                continue;
            };
            // Without the feature `ast` a rule with `match.ast` does not load.
            if cfg!(not(feature = "ast")) && written.contains("match.ast.") {
                continue;
            }
            let written = match load(&written) {
                Ok(pack) => pack,
                Err(error) => {
                    failures.push(format!("{error}\n{written}"));
                    continue;
                }
            };
            let name = format!("{}{}{}", at.header.trim(), at.prefix, key.head.path);
            match load(&named) {
                Ok(pack) => {
                    assert_eq!(pack.rules(), written.rules(), "{named}");
                    assert_eq!(pack.allows(), written.allows(), "{named}");
                    filled.push(name);
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(
                        told.contains("@listed") || told.contains("`listed`"),
                        "{told}"
                    );
                    refused.push(name);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let is_filled = |name: &&str| filled.iter().any(|it| it == *name);
    let scopes = [
        "tools",
        "args",
        "paths",
        "agents",
        "models",
        "providers",
        "tags",
    ];
    for key in scopes {
        for start in [
            "defaults.",
            "[rule.r]",
            "[override.'p/other']",
            "[override.'p/other']append.",
        ] {
            assert!(is_filled(&&*format!("{start}{key}")), "{start}{key}");
        }
    }
    for key in [
        "[rule.r]match.capture.not-in",
        "[rule.r]match.unknown-name.known",
        "[rule.r]consult.tools",
        "[[allow]]allow.rules",
        "[[allow]]allow.paths",
        "[[allow]]allow.tools",
        "[[allow]]allow.text",
    ] {
        assert!(is_filled(&key), "{key}");
    }
    for key in [
        "pack.extends",
        "pack.grants",
        "[rule.r]on",
        "[rule.r]examples.match",
        "[rule.r]match.region",
        "[rule.r]pattern.fold",
        "[rule.r]match.script.expect",
    ] {
        assert!(refused.iter().any(|it| it == key), "{key}: {refused:?}");
    }
    // A text that begins with `@` and is not the name of a list is kept as it is.
    let java = "schema = 1\npack.name = 'p'\n[lists]\nlisted = ['a']\n[rule.r]\ndescription = 'd'\n\
                match.any = [{ literal = '@Override' }]\nexamples.match = ['@Override']\n";
    assert_eq!(
        load(java).unwrap().rules()[0].examples.matching,
        ["@Override"]
    );
}

/// Returns the rows, and the rows in their tables.
fn all(keys: &[KeyShape]) -> Vec<&KeyShape> {
    let mut found = Vec::new();
    for key in keys {
        found.push(key);
        if let Shape::Table(inner) | Shape::Tables(inner) = &key.shape {
            found.extend(all(inner));
        }
    }
    found
}

#[test]
fn no_two_rows_have_the_same_path() {
    let rules = shapes(schema::RULE, TableKind::Rule);
    let mut seen = BTreeSet::new();
    for key in all(&rules) {
        // A pattern is an entry of four lists.
        let is_new = seen.insert(key.head.path);
        assert!(is_new || key.head.path.starts_with("pattern."));
    }
    assert!(seen.len() > 90, "only {} rows", seen.len());
}

#[test]
fn append_adds_to_lists_only() {
    let appended = shapes(schema::RULE, TableKind::Append);
    for key in all(&appended) {
        let is_list = matches!(
            key.shape,
            Shape::Texts | Shape::ListOf(_) | Shape::Tables(_) | Shape::Table(_)
        );
        assert!(is_list || key.head.path.contains("pattern.") || key.head.path.contains("case."));
    }
}

/// Looks for the value at `path` among the keys of `keys` and of their tables.
fn value_at(path: &str, keys: &[(&'static str, KeyValue)]) -> KeyValue {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = keys.iter().find(|(name, _)| *name == first);
    match value {
        Some((_, KeyValue::Table(inner))) if !rest.is_empty() => value_at(rest, inner),
        Some((_, value)) => value.clone(),
        None => KeyValue::Absent,
    }
}

/// Returns a rule with these keys.
fn draft_of(keys: &str, kind: TableKind) -> Draft {
    let mut draft = Draft::new("p/r".to_owned(), Place::default());
    let root = toml::de::DeTable::parse(keys).unwrap();
    let limits = crate::Limits::default();
    let context = super::LoadContext::new(&limits);
    let mut reader = super::RuleReader::new(keys, 0, &context, 0);
    let place = ("", 0..0);
    schema::read_table(
        schema::RULE,
        kind,
        root.get_ref(),
        place,
        &mut reader,
        &mut draft,
    );
    draft
}

#[test]
fn a_key_is_set_if_what_it_writes_says_something() {
    let mut set = 0;
    for keys in [
        "",
        "match = { unknown-name = { known = [] }, capture = {} }\n",
        "tools = ['bash']\nmatch = { unknown-name = { known = ['left-pad'] }, any = [{ word = 'x' }], count = 2 }\n",
    ] {
        let draft = draft_of(keys, TableKind::Rule);
        for key in schema::RULE.iter().chain(schema::MATCH) {
            let is_set = key.is_set(&draft);
            assert_eq!(is_set, key.value(&draft).is_some(), "{}", key.head.path);
            set += usize::from(is_set);
        }
    }
    assert!(set > 20, "{set} keys were set");
}

/// A default that the schema shows is the value that a rule has without the key.
#[test]
fn the_default_of_a_row_is_the_value_of_a_rule_without_it() {
    let implied = [
        ("match.count", KeyValue::Whole(1)),
        ("match.per", KeyValue::Text("part".to_owned())),
        ("match.unknown-name.of", KeyValue::texts(["package"])),
        ("replacement", KeyValue::Text("[redacted]".to_owned())),
    ];
    // A table that may be absent has its defaults once it is written.
    let tables = "match = { capture = {}, repetition = {}, doom-loop = {} }\nconsult = {}\n";
    let draft = draft_of(tables, TableKind::Override);
    let values = schema::values(schema::RULE, &draft);
    let mut compared = 0;
    for KeyShape { head, .. } in all(&shapes(schema::RULE, TableKind::Rule)) {
        if head.default.is_empty() {
            continue;
        }
        let written: toml::Table = toml::from_str(&format!("v = {}", head.default)).unwrap();
        let held = match implied.iter().find(|(path, _)| *path == head.path) {
            // These are implied where the key is absent.
            Some((_, implied)) => implied.clone(),
            None => value_at(head.path, &values),
        };
        let held = toml::Value::try_from(&held).unwrap();
        assert_eq!(written["v"], held, "{}", head.path);
        compared += 1;
    }
    assert!(compared > 10, "only {compared} defaults");
}
