//! Claude Code: what the permissions of a settings file deny.

use serde_json::{Map, Value};

use super::Foreign;
use super::draft::{Draft, Sheet, quoted, text};

/// What may stand before a command: the beginning, the end of another, `sudo`, variables.
const BEFORE: &str =
    r"(?:^|[;&|(){}\x60\n]|\b(?:sudo|xargs|exec|then|do|else|time|env)\s)\s*(?:\w+=\S*\s+)*";

pub(super) fn read(from: &Foreign<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let settings: Value = serde_json::from_str(from.text).map_err(|error| error.to_string())?;
    let settings = settings.as_object().ok_or("it is no object")?;
    let is_bare = ["deny", "ask", "allow"]
        .iter()
        .any(|key| settings.contains_key(*key));
    let permissions = match settings.get("permissions") {
        Some(permissions) => permissions
            .as_object()
            .ok_or("`permissions` is no object")?,
        None if is_bare => settings,
        None => {
            sheet.leave_out(from.name, "there are no `permissions`".to_owned());
            &Map::new()
        }
    };
    if !is_bare || settings.contains_key("permissions") {
        // `$schema` is for editors.
        let others = settings
            .keys()
            .filter(|key| !["permissions", "$schema"].contains(&key.as_str()));
        for key in others {
            sheet.leave_out(from.name, format!("`{key}`: {}", why(key)));
        }
    }
    for (key, value) in permissions {
        let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
        for odd in entries.iter().filter(|entry| !entry.is_string()) {
            let what = format!("{} in `{key}`: it is no text", quoted(&odd.to_string()));
            sheet.leave_out(from.name, what);
        }
        let entries = entries.iter().filter_map(Value::as_str);
        match key.as_str() {
            "deny" | "ask" if !value.is_array() => {
                sheet.leave_out(from.name, format!("`{key}`: it is no list"));
            }
            "deny" => entries.for_each(|entry| deny(from.name, entry, sheet)),
            "allow" => sheet.leave_out(
                from.name,
                "`allow`: a rule says what is broken, not what is permitted".to_owned(),
            ),
            "ask" => entries.for_each(|entry| {
                let what = format!("ask {}: nobody can be asked here", quoted(entry));
                sheet.leave_out(from.name, what);
            }),
            "$schema" => {}
            _ => sheet.leave_out(from.name, format!("`{key}`: there is nothing like it here")),
        }
    }
    Ok(())
}

/// Why a key of the settings is not carried over.
fn why(key: &str) -> &'static str {
    match key {
        "hooks" => "a command that runs at an event is no rule",
        "sandbox" => "what a sandbox keeps out is no text that could be matched",
        _ => "there is nothing like it here",
    }
}

fn deny(file: &str, entry: &str, sheet: &mut Sheet) {
    let (tool, what) = match entry
        .strip_suffix(')')
        .and_then(|entry| entry.split_once('('))
    {
        Some((tool, what)) => (tool, Some(what)),
        None => (entry, None),
    };
    let mut draft = Draft::new(
        format!("{file}: {entry}"),
        &format!("no-{entry}"),
        &format!("{entry} is denied"),
    );
    // A denied call never runs: the rule does not give in after some retries.
    draft.set("severity", text("critical"));
    draft.set("action", text("retry"));
    draft.set("on", "[\"tool-input\"]".to_owned());
    draft.set_texts("tools", &tools(tool));
    let done = match what.filter(|what| !matches!(*what, "" | "*")) {
        None => {
            draft.notes.push(
                "It acts at the first byte of an argument: a call without any is not seen."
                    .to_owned(),
            );
            draft.set_regexes("match.any", &["(?s:.)".to_owned()]);
            true
        }
        Some(what) => narrow(tool, what, &mut draft),
    };
    match done {
        true => sheet.add(draft),
        false => sheet.leave_out(
            &draft.place,
            format!(
                "what {} means for this tool is not known",
                quoted(what.unwrap_or(entry))
            ),
        ),
    }
}

/// The tool, and for an MCP server all of its tools.
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

/// Says which calls of the tool are denied, if that is known.
fn narrow(tool: &str, what: &str, draft: &mut Draft) -> bool {
    match tool {
        "Bash" => {
            draft.set("args", "[\"command\"]".to_owned());
            draft.set_regexes("match.any", &[command(what)]);
        }
        "Read" | "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | "Grep" | "Glob" => {
            draft.set_texts("paths", &files(what));
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

/// A command with `*` for anything, or `:*` at its end for any arguments.
fn command(what: &str) -> String {
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

/// Globs on files: `//` begins at the root of the machine, `~/` in any home, `/` and `./` at the project.
fn files(what: &str) -> Vec<String> {
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
