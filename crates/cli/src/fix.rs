//! What `ttsr check --fix` mends: words that are nearly right, and examples that stand twice.
//!
//! An edit is made only where the help names one word, and kept only if the file has fewer problems with it
//! and no new error. Everything else in the file stays as it is, byte by byte.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use ttsr::{Diagnostic, Level, Pack};

use crate::Stop;
use crate::output::{Escaped, tell};
use crate::written::{Lines, texts};

/// Most edits tried in one file; each is a check of the file.
const EDITS: usize = 100;

/// Mends the files, and tells each edit. Gives their number.
pub(crate) fn fix(paths: &[String]) -> Result<u64, Stop> {
    let mut made = 0;
    for (name, text) in texts(paths) {
        let (mended, told) = mend(&name, &text);
        if told.is_empty() {
            continue;
        }
        fs::write(&name, mended).map_err(|error| {
            Stop::Because(format!("{}: cannot be written: {error}", Escaped(&name)))
        })?;
        for edit in &told {
            tell(&format_args!("fixed: {}:{edit}", Escaped(&name)));
        }
        made += told.len() as u64;
    }
    Ok(made)
}

/// The text with all edits made, and what they were.
fn mend(name: &str, text: &str) -> (String, Vec<String>) {
    let mut text = text.to_owned();
    let mut told = Vec::new();
    let mut problems = check(name, &text);
    // Problems are met in the order of the file; one that cannot be mended is passed over.
    let mut passed = 0;
    for _ in 0..EDITS {
        let mut edits = problems.iter().filter_map(|problem| edit(problem, &text));
        let Some(edit) = edits.nth(passed) else {
            break;
        };
        let mut mended = text.clone();
        mended.replace_range(edit.span, &edit.new);
        let now = check(name, &mended);
        if is_better(&problems, &now) {
            told.push(edit.told);
            (text, problems) = (mended, now);
        } else {
            passed += 1;
        }
    }
    (text, told)
}

fn check(name: &str, text: &str) -> Vec<Diagnostic> {
    // A byte order mark is no part of what places count.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match Pack::builder().lints().toml(name, text).build() {
        Ok(pack) => pack.warnings().to_vec(),
        Err(error) => error.diagnostics().to_vec(),
    }
}

/// Whether less is wrong. A key that is mended may show that its value is wrong too; a key that then stands
/// twice, or a file that is no TOML any more, is worse than what was there.
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

/// A change to a text.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    span: Range<usize>,
    new: String,
    told: String,
}

fn edit(problem: &Diagnostic, text: &str) -> Option<Edit> {
    if text.starts_with('\u{feff}') {
        return None;
    }
    let place = (problem.line(), problem.column());
    let at = Lines::new(text).offset(text, place.0, place.1)?;
    let (new, span, what) = match problem.code() {
        "unknown-key" | "bad-value" | "unknown-list" | "unknown-rule" | "unknown-pack"
        | "unknown-variable" => word(problem, text, at)?,
        "wrong-type" => form(problem, text, at)?,
        "missing-key" if problem.message().contains("`schema`") => {
            let shown = "`schema = 1` begins the file".to_owned();
            ("schema = 1\n".to_owned(), 0..0, shown)
        }
        "duplicate-example" => {
            let span = spans(text)?.remove(&at)?;
            let shown = "an example that stood twice is gone".to_owned();
            (String::new(), with_comma(text, span), shown)
        }
        _ => return None,
    };
    let told = format!("{}:{}: {what}", place.0, place.1);
    Some(Edit { span, new, told })
}

/// The word that was meant instead of the one at `at`, or right behind quotes and the `@` of a list there.
fn word(problem: &Diagnostic, text: &str, at: usize) -> Option<(String, Range<usize>, String)> {
    let old = problem.message().split('`').nth(1)?;
    let new = problem.help()?.split_once("did you mean `")?.1;
    let new = new.split('`').next()?;
    let rest = text.get(at..)?;
    let start = at + rest.len() - rest.trim_start_matches(['"', '\'', '@']).len();
    let span = start..start + old.len();
    let shown = format!("`{old}` is now `{new}`");
    (text.get(span.clone())? == old).then(|| (new.to_owned(), span, shown))
}

/// A value of the right type in the wrong form: one text where a list is wanted, a number in quotes.
fn form(problem: &Diagnostic, text: &str, at: usize) -> Option<(String, Range<usize>, String)> {
    let span = spans(text)?.remove(&at)?;
    let old = text.get(span.clone())?;
    let new = match problem.help()? {
        help if help.starts_with("put it in brackets: `[\"") => format!("[{old}]"),
        "write it without quotes" => old.trim_matches(['"', '\'']).to_owned(),
        _ => return None,
    };
    let shown = format!("{old} is now {new}");
    Some((new, span, shown))
}

/// An entry of a list with the comma that parts it from the one before.
fn with_comma(text: &str, span: Range<usize>) -> Range<usize> {
    let before = text[..span.start].trim_end();
    match before.strip_suffix(',') {
        // The first of two may be in another list: then it is the comma behind that goes.
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

/// Every key and every value that is a text, by where it begins.
fn spans(text: &str) -> Option<BTreeMap<usize, Range<usize>>> {
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
    fn what_is_certain_is_mended_and_nothing_else_changes() {
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
            let (mended, told) = mend("f", &rule(&wrong));
            assert_eq!(mended, rule(&right));
            assert!(!told.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn a_file_without_a_schema_gets_one() {
        let whole = rule(SAME);
        let (mended, told) = mend("f", whole.trim_start_matches("schema = 1\n"));
        assert_eq!((mended, told.len()), (whole, 1));
    }

    #[test]
    fn what_is_not_certain_stays() {
        for body in [
            format!("frequency = 3\n{SAME}"),
            // The right word is there already.
            format!("severity = 'error'\nserverity = 'info'\n{SAME}"),
            format!("severity = 'tremendous'\n{SAME}"),
            "match.any = [{ regex = '(' }]".to_owned(),
            "not toml at all".to_owned(),
        ] {
            let text = rule(&body);
            assert_eq!(mend("f", &text), (text.clone(), Vec::new()));
        }
    }
}
