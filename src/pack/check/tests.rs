//! Checks over every key of the table of keys.

use crate::pack::schema::{self, Key, Keys, Shape};
use crate::{LoadError, Pack};

/// Where a key stands: the header of its table, and what stands before its path there.
#[derive(Clone, Copy, Debug)]
struct Context {
    header: &'static str,
    prefix: &'static str,
    is_rule: bool,
}

const CONTEXTS: [(Keys, Context); 6] = [
    (schema::PACK, context("", "pack.", false)),
    (schema::DEFAULTS, context("", "defaults.", false)),
    (schema::RULE, context("[rule.r]\n", "", true)),
    (
        schema::OVERRIDE,
        context("[override.'p/other']\n", "", false),
    ),
    (
        schema::APPEND,
        context("[override.'p/other']\n", "append.", false),
    ),
    (schema::ALLOW, context("[[allow]]\n", "", false)),
];

const fn context(header: &'static str, prefix: &'static str, is_rule: bool) -> Context {
    Context {
        header,
        prefix,
        is_rule,
    }
}

/// The keys below `keys` that hold several texts.
fn lists_of_texts(keys: Keys) -> Vec<&'static Key> {
    let mut found = Vec::new();
    for key in keys {
        match key.shape {
            Shape::Texts | Shape::ListOf(_) | Shape::OneOrMore(_) | Shape::NamedTexts => {
                found.push(key);
            }
            Shape::Table(inner) | Shape::Tables(inner) if !key.path.starts_with("append") => {
                found.extend(lists_of_texts(inner));
            }
            _ => {}
        }
    }
    found
}

/// Two entries that the key takes.
fn entries(key: &Key) -> Vec<String> {
    let own: [&str; 2] = match (key.shape, key.path) {
        (Shape::ListOf(names), "on") => [&*names()[0].clone().leak(), "tool-input"],
        (_, "grants") => ["inject", "retry"],
        (Shape::ListOf(names), _) => return names().into_iter().take(2).collect(),
        // Some regions exclude each other.
        (Shape::OneOrMore(names), _) => return names().into_iter().take(1).collect(),
        (_, "extends") => ["std/secrets", "lang/rust"],
        (_, "allow.rules") => ["p/*", "p/r"],
        (_, "examples.match" | "examples.no-match") => ["x y", "x z"],
        _ => ["aa", "bb"],
    };
    own.map(str::to_owned).to_vec()
}

/// The other keys that the key at `path` needs, so that it means something.
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
        _ => ANY,
    }
}

/// A file in which the key has that value; `None` where it cannot stand there.
fn file(at: Context, key: &Key, value: &str) -> Option<String> {
    let Context {
        header,
        prefix,
        is_rule,
    } = at;
    let path = key.path.strip_prefix("allow.").unwrap_or(key.path);
    let written = match path.strip_prefix("pattern.") {
        Some(name) => format!("{prefix}match.any = [{{ literal = 'x', {name} = {value} }}]\n"),
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
    Pack::builder().toml("p.toml", text).without_clock().build()
}

/// In every key that takes several texts, `@list` stands for its entries, or is an error at its place.
#[test]
fn a_list_is_filled_in_or_refused_in_every_key_that_takes_texts() {
    let (mut filled, mut refused) = (Vec::new(), Vec::new());
    let mut failures = Vec::new();
    for (keys, at) in CONTEXTS {
        for key in lists_of_texts(keys) {
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
            let name = format!("{}{}{}", at.header.trim(), at.prefix, key.path);
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
    // Only texts that begin with `@` and are no list's name are what they say.
    let java = "schema = 1\npack.name = 'p'\n[lists]\nlisted = ['a']\n[rule.r]\ndescription = 'd'\n\
                match.any = [{ literal = '@Override' }]\nexamples.match = ['@Override']\n";
    assert_eq!(
        load(java).unwrap().rules()[0].examples.matching,
        ["@Override"]
    );
}
