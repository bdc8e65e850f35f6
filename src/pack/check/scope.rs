//! The scope of a rule: `on`, `tools`, `args`, `paths`, `outcome`, `agents`, `models`, `providers`, with `@list`
//! filled in.

use std::sync::Arc;

use globset::Error;
use toml::de::DeTable;

use super::draft::{PatternText, Place};
use super::fault::Fault;
use super::header::Header;
use super::keys::Text;
use super::{Span, Walk};
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::nearest;
use crate::rule::{Channel, Rule, ToolOutcome};
use crate::view::json::{KEYS as OBJECT_KEYS, RAW};
use crate::view::path::{ArgScope, PathScope, ToolScope, split_exclusion};

/// Longest glob, in bytes. It bounds the number of its alternates, too.
const GLOB_BYTES: usize = 4096;

/// Deepest nesting of `{…}` in a glob.
const GLOB_DEPTH: usize = 16;

/// Most entries of one scope key after lists are filled in.
pub(in crate::pack) const ENTRIES: usize = 1024;

/// Most entries of all scopes of one file after lists are filled in: lists multiply.
const ENTRIES_PER_FILE: usize = 1 << 20;

/// Work of an entry, in steps of [`Limits::load_steps`](crate::Limits::load_steps): its glob is compiled.
const ENTRY_STEPS: usize = 1024;

/// Work of an entry of a list of texts, in the same steps, besides its bytes: it is copied.
pub(super) const LISTED_STEPS: usize = 16;

/// Whether `glob` can be a whole scope of that kind, as streams build it.
type Build = fn(&[String]) -> Result<(), Error>;

fn tools(globs: &[String]) -> Result<(), Error> {
    ToolScope::new(globs).map(drop)
}

fn paths(globs: &[String]) -> Result<(), Error> {
    PathScope::new(globs).map(drop)
}

impl Walk<'_> {
    /// Fills in the scope of `rule`.
    pub(super) fn scopes(&mut self, table: &DeTable<'_>, header: &Header<'_>, rule: &mut Rule) {
        if let Some(on) = self.on(table) {
            rule.on = on;
        }
        let names = ToolOutcome::ALL.map(ToolOutcome::name);
        rule.outcome = self.one_of(table, "outcome", &names, ToolOutcome::from_name);
        for key in KEYS {
            if let Some(written) = self.scope(table, key, header) {
                *entries(rule, key) = written;
            }
        }
    }

    /// The entries at `key`, checked, lists filled in.
    pub(super) fn scope(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        header: &Header<'_>,
    ) -> Option<Vec<String>> {
        let texts = self.strings(table, key)?;
        if texts.items.is_empty() {
            let help = format!("leave `{key}` out to put no limit there");
            let fault = Fault::new(&code::EMPTY_VALUE, format!("`{key}` is empty")).with_help(help);
            self.fault(fault, texts.span.clone());
        }
        let mut entries = Vec::new();
        for text in &texts.items {
            if !text.value.starts_with('@') {
                self.note_entry(text);
            }
            let listed = self.entries_of(text, header);
            let room = ENTRIES.min(ENTRIES_PER_FILE.saturating_sub(self.entries));
            if entries.len() + listed.len() > room {
                self.fault(too_many(key, self.entries), texts.span);
                break;
            }
            for entry in listed {
                self.spend(ENTRY_STEPS);
                if let Some(fault) = fault(key, entry.value) {
                    self.fault_in(fault, &entry);
                }
                entries.push(entry.value.to_owned());
            }
        }
        self.entries += entries.len();
        Some(entries)
    }

    /// Remembers where an entry of the rule that is being read is written.
    pub(super) fn note_entry(&mut self, text: &Text<'_>) {
        self.written.push(PatternText {
            text: text.value.to_owned(),
            at: Place {
                file: self.file,
                span: text.span.clone(),
            },
            first: text.inner(self.text),
        });
    }

    /// The strings at `key` with lists filled in: at least one, none of them blank.
    pub(super) fn listed<'v>(
        &mut self,
        table: &'v DeTable<'_>,
        key: &str,
        header: &'v Header<'_>,
    ) -> Option<Vec<(String, Span)>> {
        let texts = self.filled_strings(table, key)?;
        self.blanks(&texts, key);
        let mut entries = Vec::new();
        for text in &texts.items {
            for entry in self.entries_of(text, header) {
                self.spend(entry.value.len() + LISTED_STEPS);
                entries.push((entry.value.to_owned(), entry.span));
            }
        }
        Some(entries)
    }

    /// Reports the texts that name a list where lists are not filled in. A text such as `@Override` that is no
    /// list's name is a text like any other.
    pub(super) fn no_lists<'v>(
        &mut self,
        texts: impl IntoIterator<Item = &'v Text<'v>>,
        key: &str,
        header: &Header<'_>,
    ) {
        for text in texts {
            let list = text.value.strip_prefix('@').filter(|name| {
                header.lists.contains_key(name) || header.imported.contains_key(*name)
            });
            if list.is_some() {
                let message = format!(
                    "{} names a list, and lists are not filled in in `{key}`",
                    quote(text.value)
                );
                let fault = Fault::new(&code::BAD_VALUE, message).with_help(
                    "write out the entries; if the text is meant, give the list another name",
                );
                self.fault(fault, text.span.clone());
            }
        }
    }

    /// The list that `text` names, as all who name it share it.
    pub(super) fn shared_list(
        &self,
        text: &Text<'_>,
        header: &Header<'_>,
    ) -> Option<Arc<[String]>> {
        let name = text.value.strip_prefix('@')?;
        let own = self.facts.lists.get(name);
        own.or_else(|| header.imported.get(name)).map(Arc::clone)
    }

    /// `text` itself, or the entries of the list it names.
    pub(super) fn entries_of<'e>(
        &mut self,
        text: &'e Text<'e>,
        header: &'e Header<'_>,
    ) -> Vec<Text<'e>> {
        let Some(name) = text.value.strip_prefix('@') else {
            return vec![text.clone()];
        };
        if let Some(list) = header.lists.get(name) {
            return list.items.clone();
        }
        if let Some(list) = header.imported.get(name) {
            let at = |value: &'e String| Text {
                value,
                span: text.span.clone(),
            };
            return list.iter().map(at).collect();
        }
        let own = header.lists.keys().copied();
        let names: Vec<&str> = own
            .chain(header.imported.keys().map(String::as_str))
            .collect();
        let fault = Fault::new(
            &code::UNKNOWN_LIST,
            format!("there is no list {}", quote(name)),
        )
        .with_help(format!(
            "lists are defined in `[lists]`: {}",
            nearest::help(name, &names)
        ));
        self.fault(fault, text.span.clone());
        Vec::new()
    }
}

pub(in crate::pack) fn too_many(key: &str, entries: usize) -> Fault {
    let message = if entries + ENTRIES > ENTRIES_PER_FILE {
        format!("the scopes of this file have more than {ENTRIES_PER_FILE} entries")
    } else {
        format!("`{key}` has more than {ENTRIES} entries")
    };
    Fault::new(&code::SCOPE_TOO_LONG, message).with_help("use globs instead of single names")
}

/// The keys of a scope besides `on`.
pub(super) const KEYS: [&str; 6] = ["tools", "args", "paths", "agents", "models", "providers"];

/// The entries of `rule` at one of [`KEYS`].
pub(super) fn entries<'r>(rule: &'r mut Rule, key: &str) -> &'r mut Vec<String> {
    match key {
        "tools" => &mut rule.tools,
        "args" => &mut rule.args,
        "paths" => &mut rule.paths,
        "agents" => &mut rule.agents,
        "models" => &mut rule.models,
        "providers" => &mut rule.providers,
        _ => unreachable!("{key} is no scope"),
    }
}

/// Whether a rule that reads `on` can have a scope `key`: only tool calls have arguments and files, only
/// they and what they give back have tools.
pub(in crate::pack) fn is_reachable(key: &str, on: &[Channel]) -> bool {
    match key {
        "tools" => on.contains(&Channel::ToolInput) || on.contains(&Channel::ToolOutput),
        "args" | "paths" => on.contains(&Channel::ToolInput),
        "outcome" => on.contains(&Channel::ToolOutput),
        _ => true,
    }
}

/// The fault of a scope on tool calls in a rule that reads none.
pub(super) fn unreachable(key: &str) -> Fault {
    let channel = match key {
        "outcome" => Channel::ToolOutput,
        _ => Channel::ToolInput,
    };
    let channel = channel.name();
    let message = format!("`{key}` has no effect: `on` does not name `{channel}`");
    Fault::new(&code::UNREACHABLE_SCOPE, message)
        .with_help(format!("add \"{channel}\" to `on`, or remove `{key}`"))
}

/// What is wrong with one entry of the scope `key`, if something is.
pub(super) fn fault(key: &str, entry: &str) -> Option<Fault> {
    let build = match key {
        "args" | "arg" => return arg_fault(entry),
        "paths" => paths,
        _ => tools,
    };
    let (excludes, glob) = split_exclusion(entry);
    glob_fault(glob, build).map(|fault| shifted(fault, usize::from(excludes)))
}

fn shifted(fault: Fault, by: usize) -> Fault {
    let within = fault
        .within
        .clone()
        .map(|within| within.start + by..within.end + by);
    fault.within(within)
}

fn glob_fault(glob: &str, build: Build) -> Option<Fault> {
    let refused = |reason: &str| Fault::new(&code::GLOB, format!("glob {}: {reason}", quote(glob)));
    if glob.is_empty() {
        return Some(Fault::new(&code::GLOB, "this glob is empty"));
    }
    if glob.len() > GLOB_BYTES {
        let reason = format!("{} bytes, limit is {GLOB_BYTES}", glob.len());
        return Some(refused(&reason).with_help("split it into several entries"));
    }
    if depth(glob) > GLOB_DEPTH {
        return Some(refused(&format!(
            "more than {GLOB_DEPTH} `{{` inside each other"
        )));
    }
    if let Some(at) = half_recursive(glob) {
        return Some(
            refused("`**` must stand alone between slashes")
                .with_help("write `*` for part of a name, `/**/` for any number of folders")
                .within(Some(at..at + 2)),
        );
    }
    let error = build(&[glob.to_owned()]).err()?;
    Some(refused(&escape::all(&error.kind().to_string())))
}

fn depth(glob: &str) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in glob.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Where a `**` touches something else than a slash, a brace, a comma or an end.
fn half_recursive(glob: &str) -> Option<usize> {
    let bytes = glob.as_bytes();
    let mut at = 0;
    while let Some(found) = glob[at..].find("**").map(|found| at + found) {
        let is_edge =
            |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'/' | b'{' | b'}' | b','));
        let before = found.checked_sub(1).and_then(|before| bytes.get(before));
        if !is_edge(before) || !is_edge(bytes.get(found + 2)) {
            return Some(found);
        }
        at = found + 2;
    }
    None
}

fn arg_fault(entry: &str) -> Option<Fault> {
    let is_valid = [RAW, OBJECT_KEYS].contains(&entry)
        || entry.split('.').all(|segment| {
            !segment.is_empty()
                && !segment.starts_with('$')
                && !segment.chars().any(char::is_control)
        });
    let reason = if entry.len() > GLOB_BYTES {
        format!("is {} bytes, limit is {GLOB_BYTES}", entry.len())
    } else if is_valid && ArgScope::new(&[entry.to_owned()]).is_ok() {
        return None;
    } else {
        "is of the wrong form".to_owned()
    };
    Some(
        Fault::new(&code::ARG_PATH, format!("argument path {} {reason}", quote(entry))).with_help(
            "names joined by dots, `*` for any part of one: `edits.*.new_text`; `$raw` is input that is not JSON, `$keys` are the keys of objects",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(key: &str, entry: &str) -> Option<&'static str> {
        fault(key, entry).map(|fault| fault.code.name)
    }

    #[test]
    fn d59_globs_that_cannot_be_read_are_refused() {
        let many = format!("{{{}}}", vec!["a"; 10_000].join(","));
        let deep = format!("{}a{}", "{".repeat(2000), "}".repeat(2000));
        for glob in [
            "", "[", "a**b", "**a", "a/**b/c", "***", "{a,{b", "a}", "[z-a]", "a\\", &many, &deep,
        ] {
            assert_eq!(code_of("paths", glob), Some("glob"), "{glob}");
            assert_eq!(
                code_of("paths", &format!("!{glob}")),
                Some("glob"),
                "!{glob}"
            );
            for key in ["tools", "agents", "models", "providers"] {
                assert_eq!(code_of(key, glob), Some("glob"), "{key} {glob}");
                assert_eq!(
                    code_of(key, &format!("!{glob}")),
                    Some("glob"),
                    "{key} !{glob}"
                );
            }
        }
    }

    #[test]
    fn good_globs_pass_and_compile() {
        for glob in [
            "*.rs",
            "**/*.rs",
            "**",
            "a/**",
            "a/**/b",
            "{a,b/**}/c",
            "[!a-c]?",
            "ä*",
            "a\\*b",
        ] {
            assert_eq!(code_of("paths", glob), None, "{glob}");
        }
        assert_eq!(code_of("paths", "!**/tests/**"), None);
        assert_eq!(code_of("paths", &"?".repeat(GLOB_BYTES)), None);
        assert_eq!(code_of("tools", "str_replace*"), None);
        assert_eq!(code_of("tools", "!mcp__*"), None);
    }

    #[test]
    fn argument_paths_have_no_empty_segment() {
        for path in [
            "command",
            "edits.*.new_text",
            "*",
            "new_*",
            "$raw",
            "$keys",
            "a b",
            "{content,edits.*.new_string}",
        ] {
            assert_eq!(code_of("args", path), None, "{path}");
        }
        for path in [
            "", ".", "a..b", ".a", "a.", "$row", "a.$raw", "a.$keys", "a\n", "{a", "[", "{a.b",
        ] {
            assert_eq!(code_of("args", path), Some("arg-path"), "{path}");
        }
        assert_eq!(
            code_of("args", &"a".repeat(GLOB_BYTES + 1)),
            Some("arg-path")
        );
    }
}
