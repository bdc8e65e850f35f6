//! The fixes of `ttsr check --fix`: misspelled words and duplicate examples.
//!
//! An edit is tried only where the help names exactly one word. It is kept only if the file then has fewer problems
//! and no new error. The rest of the file stays unchanged, byte for byte.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use ttsr::{Diagnostic, Level, Pack};

use crate::CommandError;
use crate::output::{Escaped, print_message};
use crate::replace::replace;
use crate::source_index::{LineStarts, texts};

/// Maximum number of edits tried in one file. Each needs a check of the whole file.
const EDITS: usize = 100;

/// Fixes the files and reports each edit. Returns the number of edits.
pub(crate) fn fix(paths: &[String]) -> Result<u64, CommandError> {
    let mut made = 0;
    for (name, text) in texts(paths) {
        let (fixed, descriptions) = fixed_text(&name, &text);
        if descriptions.is_empty() {
            continue;
        }
        replace(Path::new(&name), fixed.as_bytes()).map_err(|error| {
            CommandError::Message(format!("{}: cannot be written: {error}", Escaped(&name)))
        })?;
        for edit in &descriptions {
            print_message(&format_args!("fixed: {}:{edit}", Escaped(&name)));
        }
        made += descriptions.len() as u64;
    }
    Ok(made)
}

/// Returns the text with all edits applied, and a description of each edit.
fn fixed_text(name: &str, text: &str) -> (String, Vec<String>) {
    let mut text = text.to_owned();
    let mut descriptions = Vec::new();
    let mut problems = check(name, &text);
    // Problems are visited in file order; those that cannot be fixed are skipped.
    let mut passed = 0;
    for _ in 0..EDITS {
        let mut edits = problems.iter().filter_map(|problem| edit(problem, &text));
        let Some(edit) = edits.nth(passed) else {
            break;
        };
        let mut edited = text.clone();
        edited.replace_range(edit.span, &edit.new);
        let now = check(name, &edited);
        if is_better(&problems, &now) {
            descriptions.push(edit.description);
            (text, problems) = (edited, now);
        } else {
            passed += 1;
        }
    }
    (text, descriptions)
}

fn check(name: &str, text: &str) -> Vec<Diagnostic> {
    // Locations do not count a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match Pack::builder().lints().toml(name, text).build() {
        Ok(pack) => pack.warnings().to_vec(),
        Err(error) => error.diagnostics().to_vec(),
    }
}

/// Returns true if the edit improves the file. A corrected key may expose a wrong value, which is fine; a duplicate
/// key or a file that is no valid TOML is worse than the original problem.
fn is_better(before: &[Diagnostic], after: &[Diagnostic]) -> bool {
    let weight = |problem: &Diagnostic| match problem.code() {
        _ if problem.level() != Level::Error => 0,
        "duplicate-key" | "syntax" => 3,
        "bad-value" => 1,
        _ => 2,
    };
    let is_twice = |problem: &&Diagnostic| problem.code() == "duplicate-example";
    let key = |problems: &[Diagnostic]| {
        let wrong: u32 = problems.iter().map(weight).sum();
        (wrong, problems.iter().filter(is_twice).count())
    };
    key(after) < key(before)
}

/// A replacement of a range of a text.
#[derive(Debug, PartialEq, Eq)]
struct TextEdit {
    span: Range<usize>,
    new: String,
    description: String,
}

fn edit(problem: &Diagnostic, text: &str) -> Option<TextEdit> {
    if text.starts_with('\u{feff}') {
        return None;
    }
    let place = (problem.line(), problem.column());
    let at = LineStarts::new(text).offset(text, place.0, place.1)?;
    let (new, span, what) = match problem.code() {
        "unknown-key" | "bad-value" | "unknown-list" | "unknown-rule" | "unknown-pack"
        | "unknown-variable" => word_replacement(problem, text, at)?,
        "wrong-type" => form_replacement(problem, text, at)?,
        "missing-key" if problem.message().contains("`schema`") => {
            let shown = "added `schema = 1`".to_owned();
            ("schema = 1\n".to_owned(), 0..0, shown)
        }
        "duplicate-example" => {
            let span = spans_by_start(text)?.remove(&at)?;
            let shown = "removed a duplicate example".to_owned();
            (String::new(), with_comma(text, span), shown)
        }
        _ => return None,
    };
    let description = format!("{}:{}: {what}", place.0, place.1);
    Some(TextEdit {
        span,
        new,
        description,
    })
}

/// Returns the suggested replacement for the word at `at`. The word may be preceded by quotes and the `@` of a list.
fn word_replacement(
    problem: &Diagnostic,
    text: &str,
    at: usize,
) -> Option<(String, Range<usize>, String)> {
    let old = problem.message().split('`').nth(1)?;
    let new = problem.help()?.split_once("did you mean `")?.1;
    let new = new.split('`').next()?;
    let rest = text.get(at..)?;
    let start = at + rest.len() - rest.trim_start_matches(['"', '\'', '@']).len();
    let span = start..start + old.len();
    let shown = format!("replaced `{old}` with `{new}`");
    (text.get(span.clone())? == old).then(|| (new.to_owned(), span, shown))
}

/// Returns a replacement for a value of the right type in the wrong form: a string for a list, a quoted number.
fn form_replacement(
    problem: &Diagnostic,
    text: &str,
    at: usize,
) -> Option<(String, Range<usize>, String)> {
    let span = spans_by_start(text)?.remove(&at)?;
    let old = text.get(span.clone())?;
    let new = match problem.help()? {
        help if help.starts_with("put it in brackets: `[\"") => format!("[{old}]"),
        "write it without quotes" => old.trim_matches(['"', '\'']).to_owned(),
        _ => return None,
    };
    let shown = format!("replaced {old} with {new}");
    Some((new, span, shown))
}

/// Returns the range of a list entry together with the comma that separates it from the entry before.
fn with_comma(text: &str, span: Range<usize>) -> Range<usize> {
    let before = text[..span.start].trim_end();
    match before.strip_suffix(',') {
        // The entry before may belong to another list; then the comma after this entry is removed.
        Some(before) => before.len()..span.end,
        None => {
            let behind = &text[span.end..];
            let rest = behind.trim_start();
            match rest.strip_prefix(',') {
                Some(rest) => span.start..text.len() - rest.trim_start().len(),
                None => span,
            }
        }
    }
}

/// Returns the range of every key and every string value, by its start.
fn spans_by_start(text: &str) -> Option<BTreeMap<usize, Range<usize>>> {
    let table = DeTable::parse(text).ok()?;
    let mut spans = BTreeMap::new();
    let mut tables = vec![table.get_ref()];
    let mut values = Vec::new();
    while let Some(table) = tables.pop() {
        for (key, value) in table {
            spans.insert(key.span().start, key.span());
            values.push(value);
        }
        while let Some(value) = values.pop() {
            match value.get_ref() {
                DeValue::Table(table) => tables.push(table),
                DeValue::Array(entries) => values.extend(entries.iter()),
                DeValue::String(_) => {
                    spans.insert(value.span().start, value.span());
                }
                _ => {}
            }
        }
    }
    Some(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(body: &str) -> String {
        format!("schema = 1\npack.name = 'a'\n[rule.b]\n# kept\ndescription = 'x'\n{body}\n")
    }

    const SAME: &str = "match.any = [{ literal = 'x' }]\nexamples.match = ['x']";

    #[test]
    fn a_certain_fix_is_applied_and_nothing_else_changes() {
        for (wrong, right) in [
            (
                format!("serverity = 'error'\n{SAME}"),
                format!("severity = 'error'\n{SAME}"),
            ),
            (
                format!("severity = \"eror\"\n{SAME}"),
                format!("severity = \"error\"\n{SAME}"),
            ),
            (
                format!("serverity = 'eror'\n{SAME}"),
                format!("severity = 'error'\n{SAME}"),
            ),
            (
                format!("on = ['text', 'tool_input']\n{SAME}"),
                format!("on = ['text', 'tool-input']\n{SAME}"),
            ),
            (
                format!("on = 'text'\npriority = \"3\"\n{SAME}"),
                format!("on = ['text']\npriority = 3\n{SAME}"),
            ),
            (
                format!("message = \"{{{{ rule.idd }}}}\"\n{SAME}"),
                format!("message = \"{{{{ rule.id }}}}\"\n{SAME}"),
            ),
            (
                format!("{SAME}\n[override.\"a/bb\"]\nseverity = 'info'"),
                format!("{SAME}\n[override.\"a/b\"]\nseverity = 'info'"),
            ),
            (
                format!("tools = ['@shels']\n{SAME}\n[lists]\nshells = ['bash']"),
                format!("tools = ['@shells']\n{SAME}\n[lists]\nshells = ['bash']"),
            ),
            (
                "match.any = [{ literal = 'x' }]\nexamples.match = ['x', 'xx', 'x',]".to_owned(),
                "match.any = [{ literal = 'x' }]\nexamples.match = ['x', 'xx',]".to_owned(),
            ),
        ] {
            let (fixed, descriptions) = fixed_text("f", &rule(&wrong));
            assert_eq!(fixed, rule(&right));
            assert!(!descriptions.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn a_quoted_schema_is_fixed_and_hides_no_other_problem() {
        let right = rule(&format!("severity = 'error'\n{SAME}"));
        let wrong = rule(&format!("severity = 'eror'\n{SAME}"));
        let wrong = wrong.replace("schema = 1", "schema = \"1\"");
        let (fixed, descriptions) = fixed_text("f", &wrong);
        assert_eq!((fixed, descriptions.len()), (right, 2));
    }

    #[test]
    fn missing_brackets_are_added_to_requirements_on_a_command() {
        let command = |flags: &str, env: &str| {
            rule(&format!(
                "on = ['tool-input']\nmatch.any = [{{ command = 'x', flags = {flags}, env = {env} }}]\nexamples.match = ['A=1 x -f']"
            ))
        };
        let (fixed, descriptions) = fixed_text("f", &command("\"-f\"", "'A=1'"));
        let right = command("[\"-f\"]", "['A=1']");
        assert_eq!((fixed, descriptions.len()), (right, 2));
    }

    #[test]
    fn a_file_without_a_schema_gets_one() {
        let whole = rule(SAME);
        let (fixed, descriptions) = fixed_text("f", whole.trim_start_matches("schema = 1\n"));
        assert_eq!((fixed, descriptions.len()), (whole, 1));
    }

    #[test]
    fn an_uncertain_fix_is_not_applied() {
        for body in [
            format!("frequency = 3\n{SAME}"),
            // The correct key is present already.
            format!("severity = 'error'\nserverity = 'info'\n{SAME}"),
            format!("severity = 'tremendous'\n{SAME}"),
            "match.any = [{ regex = '(' }]".to_owned(),
            "not toml at all".to_owned(),
        ] {
            let text = rule(&body);
            assert_eq!(fixed_text("f", &text), (text.clone(), Vec::new()));
        }
    }
}
