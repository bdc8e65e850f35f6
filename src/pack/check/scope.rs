//! The entries of scopes: globs on names and paths, argument paths, with `@list` filled in.

use super::fault::Fault;
use super::reader::{RuleReader, Texts};
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use ttsr_views::glob::GlobError;
use ttsr_views::json::{KEYS as OBJECT_KEYS, RAW};
use ttsr_views::path::{ArgScope, PathScope, ToolScope, split_exclusion};

/// The longest glob, in bytes. This also bounds the number of its alternatives.
const GLOB_BYTES: usize = 4096;

/// The largest number of entries of one scope, with lists filled in.
pub(in crate::pack) const ENTRIES: usize = 1024;

/// The largest number of entries of all scopes of one file, with lists filled in: a list counts each time it is
/// named.
const ENTRIES_PER_FILE: usize = 1 << 20;

/// The cost of an entry, in steps of [`Limits::load_steps`](crate::Limits::load_steps): its glob is compiled.
const ENTRY_STEPS: usize = 1024;

/// The kind of name that a glob matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pack) enum GlobKind {
    /// A name of a tool, an agent, a model or a provider.
    Name,
    /// A path of a file.
    Path,
    /// A dotted path of an argument.
    Argument,
}

/// Returns the entries of `texts`, which are the value of `key`, with lists filled in.
pub(in crate::pack) fn read(
    texts: &Texts<'_>,
    key: &str,
    kind: GlobKind,
    reader: &mut RuleReader<'_>,
) -> Vec<String> {
    if texts.items.is_empty() {
        let help = format!("remove `{key}` to set no limit");
        let fault = Fault::new(&code::EMPTY_VALUE, format!("`{key}` is empty"));
        reader.fault(fault.with_help(help), texts.span.clone());
    }
    let lists = reader.lists();
    let mut entries = Vec::new();
    for text in &texts.items {
        if !text.value.starts_with('@') {
            reader.record_entry(text);
        }
        let expanded = reader.expand(text, &lists);
        let left = ENTRIES_PER_FILE.saturating_sub(reader.scope_entries);
        if entries.len() + expanded.len() > ENTRIES.min(left) {
            let fault = too_many(key, reader.scope_entries);
            reader.fault(fault, texts.span.clone());
            break;
        }
        for entry in expanded {
            reader.spend(ENTRY_STEPS);
            if let Some(fault) = fault(kind, entry.value) {
                reader.fault_in(fault, &entry);
            }
            entries.push(entry.value.to_owned());
        }
    }
    reader.scope_entries += entries.len();
    entries
}

/// Returns the fault of a scope with too many entries, where the scopes of the file have `entries`.
pub(in crate::pack) fn too_many(key: &str, entries: usize) -> Fault {
    let message = if entries + ENTRIES > ENTRIES_PER_FILE {
        format!("the scopes of this file have more than {ENTRIES_PER_FILE} entries")
    } else {
        format!("`{key}` has more than {ENTRIES} entries")
    };
    Fault::new(&code::SCOPE_TOO_LONG, message).with_help("use globs instead of single names")
}

/// Returns the fault of a scope on tool calls in a rule that reads none.
pub(super) fn unreachable(key: &str) -> Fault {
    let channel = match key {
        "outcome" => "tool-output",
        _ => "tool-input",
    };
    let message = format!("`{key}` has no effect: `on` does not name `{channel}`");
    Fault::new(&code::UNREACHABLE_SCOPE, message)
        .with_help(format!("add \"{channel}\" to `on`, or remove `{key}`"))
}

/// Returns the fault of one entry of a scope.
pub(in crate::pack) fn fault(kind: GlobKind, entry: &str) -> Option<Fault> {
    let build: Build = match kind {
        GlobKind::Argument => return arg_fault(entry),
        GlobKind::Path => |globs| PathScope::new(globs).map(drop),
        GlobKind::Name => |globs| ToolScope::new(globs).map(drop),
    };
    let (excludes, glob) = split_exclusion(entry);
    glob_fault(glob, build).map(|fault| shifted(fault, usize::from(excludes)))
}

/// Compiles globs as streams do.
type Build = fn(&[String]) -> Result<(), GlobError>;

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
    if let Some(at) = half_recursive(glob) {
        return Some(
            refused("`**` must stand alone between slashes")
                .with_help("write `*` for part of a name, `/**/` for any number of folders")
                .within(Some(at..at + 2)),
        );
    }
    let error = build(&[glob.to_owned()]).err()?;
    Some(refused(&escape::all(&error.to_string())))
}

/// Returns the offset of a `**` beside anything but a slash, a brace, a comma or an end.
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
        "is malformed".to_owned()
    };
    Some(
        Fault::new(&code::ARG_PATH, format!("argument path {} {reason}", quote(entry))).with_help(
            "names separated by dots, in which `*` matches any part of a name: `edits.*.new_text`; `$raw` is input that is not JSON, `$keys` are the keys of objects",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(key: GlobKind, entry: &str) -> Option<&'static str> {
        fault(key, entry).map(|fault| fault.code.name)
    }

    #[test]
    fn globs_that_cannot_be_read_are_refused() {
        let many = format!("{{{}}}", vec!["a"; 10_000].join(","));
        let deep = format!("{}a{}", "{".repeat(2000), "}".repeat(2000));
        for glob in [
            "", "[", "a**b", "**a", "a/**b/c", "***", "{a,{b", "a}", "[z-a]", "a\\", &many, &deep,
        ] {
            assert_eq!(code_of(GlobKind::Path, glob), Some("glob"), "{glob}");
            assert_eq!(
                code_of(GlobKind::Path, &format!("!{glob}")),
                Some("glob"),
                "!{glob}"
            );
            {
                let key = GlobKind::Name;
                assert_eq!(code_of(key, glob), Some("glob"), "{glob}");
                assert_eq!(code_of(key, &format!("!{glob}")), Some("glob"), "!{glob}");
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
            assert_eq!(code_of(GlobKind::Path, glob), None, "{glob}");
        }
        assert_eq!(code_of(GlobKind::Path, "!**/tests/**"), None);
        assert_eq!(code_of(GlobKind::Path, &"?".repeat(GLOB_BYTES)), None);
        assert_eq!(code_of(GlobKind::Name, "str_replace*"), None);
        assert_eq!(code_of(GlobKind::Name, "!mcp__*"), None);
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
            assert_eq!(code_of(GlobKind::Argument, path), None, "{path}");
        }
        for path in [
            "", ".", "a..b", ".a", "a.", "$row", "a.$raw", "a.$keys", "a\n", "{a", "[", "{a.b",
        ] {
            assert_eq!(
                code_of(GlobKind::Argument, path),
                Some("arg-path"),
                "{path}"
            );
        }
        assert_eq!(
            code_of(GlobKind::Argument, &"a".repeat(GLOB_BYTES + 1)),
            Some("arg-path")
        );
    }
}
