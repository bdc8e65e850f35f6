//! Claude Code: the calls that the permissions of a settings file deny.

use serde_json::{Map, Value};

use super::ForeignText;
use super::draft::{ImportedFile, RuleDraft, quoted, text};

/// Text that may precede a command: the start of the text, the end of another command, `sudo`, variables.
const BEFORE: &str =
    r"(?:^|[;&|(){}\x60\n]|\b(?:sudo|xargs|exec|then|do|else|time|env)\s)\s*(?:\w+=\S*\s+)*";

pub(super) fn read(from: &ForeignText<'_>, sheet: &mut ImportedFile) -> Result<(), String> {
    let settings: Value = serde_json::from_str(from.text).map_err(|error| error.to_string())?;
    let settings = settings.as_object().ok_or("not an object")?;
    let is_bare = ["deny", "ask", "allow"]
        .iter()
        .any(|key| settings.contains_key(*key));
    let permissions = match settings.get("permissions") {
        Some(permissions) => permissions
            .as_object()
            .ok_or("`permissions` is not an object")?,
        None if is_bare => settings,
        None => {
            sheet.report_unconverted(from.name, "no `permissions`".to_owned());
            &Map::new()
        }
    };
    if !is_bare || settings.contains_key("permissions") {
        // `$schema` only concerns editors.
        let others = settings
            .keys()
            .filter(|key| !["permissions", "$schema"].contains(&key.as_str()));
        for key in others {
            sheet.report_unconverted(from.name, format!("`{key}`: {}", unsupported_reason(key)));
        }
    }
    for (key, value) in permissions {
        let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
        for odd in entries.iter().filter(|entry| !entry.is_string()) {
            let what = format!("{} in `{key}`: not a string", quoted(&odd.to_string()));
            sheet.report_unconverted(from.name, what);
        }
        let entries = entries.iter().filter_map(Value::as_str);
        match key.as_str() {
            "deny" | "ask" if !value.is_array() => {
                sheet.report_unconverted(from.name, format!("`{key}`: not a list"));
            }
            "deny" => entries.for_each(|entry| deny(from.name, entry, sheet)),
            "allow" => sheet.report_unconverted(
                from.name,
                "`allow`: a rule forbids calls and cannot permit them".to_owned(),
            ),
            "ask" => entries.for_each(|entry| {
                let what = format!("ask {}: there is no user to ask", quoted(entry));
                sheet.report_unconverted(from.name, what);
            }),
            "$schema" => {}
            _ => sheet.report_unconverted(from.name, format!("`{key}`: no equivalent")),
        }
    }
    Ok(())
}

/// Returns the reason why a key of the settings has no equivalent.
fn unsupported_reason(key: &str) -> &'static str {
    match key {
        "hooks" => "a command that runs at an event is not a rule",
        "sandbox" => "the restrictions of a sandbox are not text to match",
        _ => "no equivalent",
    }
}

fn deny(file: &str, entry: &str, sheet: &mut ImportedFile) {
    let (tool, what) = match entry
        .strip_suffix(')')
        .and_then(|entry| entry.split_once('('))
    {
        Some((tool, what)) => (tool, Some(what)),
        None => (entry, None),
    };
    let mut draft = RuleDraft::new(
        format!("{file}: {entry}"),
        &format!("no-{entry}"),
        &format!("{entry} is denied"),
    );
    // A denied call must never run, so the rule does not give up after some retries.
    draft.set("severity", text("critical"));
    draft.set("action", text("retry"));
    draft.set("on", "[\"tool-input\"]".to_owned());
    draft.set_texts("tools", &tools(tool));
    let done = match what.filter(|what| !matches!(*what, "" | "*")) {
        None => {
            draft.notes.push(
                "It acts at the first byte of an argument: a call without arguments is not matched."
                    .to_owned(),
            );
            draft.set_regexes("match.any", &["(?s:.)".to_owned()]);
            true
        }
        Some(what) => restrict_to_calls(tool, what, &mut draft),
    };
    match done {
        true => sheet.add(draft),
        false => sheet.report_unconverted(
            &draft.place,
            format!(
                "the meaning of {} for this tool is unknown",
                quoted(what.unwrap_or(entry))
            ),
        ),
    }
}

/// Returns the globs for a tool, or for all tools of an MCP server.
fn tools(tool: &str) -> Vec<String> {
    let is_server = tool.starts_with("mcp__") && tool.matches("__").count() == 1;
    match tool {
        "Edit" => ["edit", "write", "multiedit", "notebookedit"]
            .map(str::to_owned)
            .to_vec(),
        "Read" => ["read", "grep", "glob"].map(str::to_owned).to_vec(),
        _ if is_server => vec![format!("{tool}__*")],
        _ => vec![tool.to_lowercase()],
    }
}

/// Restricts the rule to the denied calls of the tool. Returns false if the syntax for this tool is unknown.
fn restrict_to_calls(tool: &str, what: &str, draft: &mut RuleDraft) -> bool {
    match tool {
        "Bash" => {
            draft.set("args", "[\"command\"]".to_owned());
            draft.set_regexes("match.any", &[command_regex(what)]);
        }
        "Read" | "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | "Grep" | "Glob" => {
            draft.set_texts("paths", &file_globs(what));
            draft.set_regexes("match.any", &["(?s:.)".to_owned()]);
        }
        "WebFetch" => match what.strip_prefix("domain:") {
            Some(domain) => {
                let domain = escaped(domain).replace(r"\*", "[^/?#]*");
                draft.set("args", "[\"url\"]".to_owned());
                draft.set_regexes(
                    "match.any",
                    &[format!(r"(?i)^https?://(?:[^/?#]*@)?{domain}(?:[:/?#]|$)")],
                );
            }
            None => return false,
        },
        _ => return false,
    }
    true
}

/// Returns a regex for a command in which `*` matches any text, and a final `:*` any arguments.
fn command_regex(what: &str) -> String {
    let (what, end) = match what.strip_suffix(":*").or_else(|| what.strip_suffix(" *")) {
        Some(what) => (what, r"(?:[\s;&|)}]|$)"),
        None if what.ends_with('*') => (what, ""),
        None => (what, r"\s*(?:[;&|)}\n]|$)"),
    };
    let words: Vec<String> = what.split_whitespace().map(escaped).collect();
    let words = words.join(r"\s+").replace(r"\*", r"[^\n]*?");
    format!("{BEFORE}{words}{end}")
}

fn escaped(text: &str) -> String {
    regex_syntax::escape(text)
}

/// Returns globs on files: `//` starts at the root of the file system, `~/` in any home folder, `/` and `./` in the
/// project.
fn file_globs(what: &str) -> Vec<String> {
    if let Some(rooted) = what.strip_prefix("//") {
        return vec![format!("/{rooted}")];
    }
    if let Some(home) = what.strip_prefix("~/") {
        return ["~", "/home/*", "/Users/*", "/root"]
            .map(|folder| format!("{folder}/{home}"))
            .to_vec();
    }
    match what.strip_prefix("./").or_else(|| what.strip_prefix('/')) {
        Some(below) => vec![format!("/{below}"), format!("**/{below}")],
        None => vec![what.to_owned()],
    }
}
