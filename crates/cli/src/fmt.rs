//! `ttsr fmt`: the formatter of rule files.
//!
//! Keys are sorted into the order of the documentation, and white space is made uniform. Values, comments and the order of
//! rules are kept. The file is written only if it parses to the same values as before.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Key, Table, Value};
use ttsr::pack::language::key_order;

use crate::args::FormatArg;
use crate::input::{InputProblems, inputs};
use crate::output::{Escaped, OutputRecord, RecordWriter, print_message};
use crate::replace::replace;
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus};

/// Format rule files: the order of keys, spaces and empty lines; comments are kept
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Write nothing; exit with 1 if a file would change
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    format: FormatArg,
    /// Rule files, folders of them, or `-`: from the standard input to the standard output
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// A file that was not formatted.
#[derive(Serialize)]
#[serde(tag = "event", rename = "formatted")]
struct UnformattedFile<'a> {
    file: &'a str,
    /// True if the formatted file was written.
    written: bool,
}

impl OutputRecord for UnformattedFile<'_> {
    fn show(&self, _: &mut dyn Write) -> io::Result<()> {
        print_message(&Escaped(self.file));
        Ok(())
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let mut problems = InputProblems::default();
    let mut changed = 0;
    let mut out = RecordWriter::new(options.format.format);
    for input in inputs(&options.paths, &mut problems) {
        let is_rules = Path::new(&input.name)
            .extension()
            .is_some_and(|end| end == "toml");
        if !input.is_named && !is_rules {
            continue;
        }
        match format_file(&input.name, options.check) {
            Ok(false) => {}
            Ok(true) => {
                changed += 1;
                // The formatted standard input goes to the standard output, so nothing else may be printed there.
                if input.name != "-" || options.check {
                    out.write(&UnformattedFile {
                        file: &input.name,
                        written: !options.check,
                    })?;
                }
            }
            Err(FormatFailure::Output(error)) => return Err(error.into()),
            Err(FormatFailure::File(error)) => problems.report(&input.name, &error),
        }
    }
    out.flush()?;
    let verb = if options.check {
        "would change"
    } else {
        "changed"
    };
    print_message(&format_args!("{} {verb}", Quantity(changed, "file")));
    Ok(match options.check && changed > 0 {
        _ if problems.any => ExitStatus::Incomplete,
        true => ExitStatus::Findings,
        false => ExitStatus::Clean,
    })
}

enum FormatFailure {
    File(String),
    Output(io::Error),
}

/// Formats one file, and returns true if that changes it.
fn format_file(name: &str, check: bool) -> Result<bool, FormatFailure> {
    let file = |error: io::Error| FormatFailure::File(error.to_string());
    let mut before = String::new();
    match name {
        "-" => io::stdin().read_to_string(&mut before),
        _ => fs::File::open(name).and_then(|mut from| from.read_to_string(&mut before)),
    }
    .map_err(file)?;
    let after = formatted(&before).map_err(FormatFailure::File)?;
    let is_changed = before != after;
    if name == "-" && !check {
        io::stdout()
            .write_all(after.as_bytes())
            .map_err(FormatFailure::Output)?;
    } else if is_changed && !check {
        replace(Path::new(name), after.as_bytes()).map_err(file)?;
    }
    Ok(is_changed)
}

/// Returns the formatted text.
fn formatted(text: &str) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.to_string())?;
    table(document.as_table_mut(), &mut Vec::new());
    let mut out = lines(&document.to_string());
    // The first pass may have moved comments, so the lines are formatted once more.
    if let Ok(again) = out.parse::<DocumentMut>() {
        out = lines(&again.to_string());
    }
    match meaning(&out) == meaning(text) {
        true => Ok(out),
        false => Err("formatting would change a value, so the file is not changed".to_owned()),
    }
}

fn meaning(text: &str) -> Option<toml::Table> {
    toml::from_str(text).ok()
}

/// Sorts and spaces the table at `path`, and the tables in it. The parser bounds how deep tables are nested.
///
/// Keys are put in the order of the rule language. Unknown keys follow in the order in which they are written.
fn table(table_: &mut Table, path: &mut Vec<String>) {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let order = key_order(&names);
    let rank = |key: &Key| {
        let known = order.iter().position(|known| *known == key.get());
        known.unwrap_or(order.len())
    };
    // Only values are sorted: tables with a header keep their place, and so do the tables at the top level.
    if !path.is_empty() {
        table_.sort_values_by(|a, _, b, _| rank(a).cmp(&rank(b)));
    }
    for (mut key, item) in table_.iter_mut() {
        path.push(key.get().to_owned());
        match item {
            Item::Value(value) => {
                key.leaf_decor_mut().set_suffix(" ");
                space(key.leaf_decor_mut());
                normalize_spacing(value);
            }
            Item::Table(below) => table(below, path),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(|below| table(below, path)),
            Item::None => {}
        }
        path.pop();
    }
}

/// Keeps the comments before a key and removes its indentation.
fn space(decor: &mut toml_edit::Decor) {
    let prefix = decor
        .prefix()
        .and_then(|prefix| prefix.as_str())
        .unwrap_or_default();
    let kept: String = prefix
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    decor.set_prefix(kept);
}

fn normalize_spacing(value: &mut Value) {
    let suffix = value
        .decor()
        .suffix()
        .and_then(|suffix| suffix.as_str())
        .unwrap_or_default()
        .trim()
        .to_owned();
    let suffix = if suffix.is_empty() {
        suffix
    } else {
        format!(" {suffix}")
    };
    format_value(value);
    *value.decor_mut() = toml_edit::Decor::new(" ", suffix);
}

fn format_value(value: &mut Value) {
    match value {
        Value::Array(items) => array(items),
        Value::InlineTable(items) => inline(items),
        _ => {}
    }
}

/// Formats an array: on one line if it was on one line, or else with one line per item and its comments.
fn array(items: &mut Array) {
    let mut bare = items.clone();
    bare.decor_mut().clear();
    let is_spread = bare.to_string().contains('\n') && !items.is_empty();
    let last = items.len().saturating_sub(1);
    let mut after_last = String::new();
    for (number, item) in items.iter_mut().enumerate() {
        let decor = item.decor();
        let before = decor
            .prefix()
            .and_then(|text| text.as_str())
            .unwrap_or_default()
            .to_owned();
        let after = decor
            .suffix()
            .and_then(|text| text.as_str())
            .unwrap_or_default()
            .to_owned();
        format_value(item);
        let prefix = match (is_spread, number) {
            (true, _) => leading_trivia(&before),
            (false, 0) => String::new(),
            (false, _) => " ".to_owned(),
        };
        let after = comments(&after);
        let suffix = match number == last {
            // The comma goes before a comment that follows the last item.
            true => {
                after_last = after.trim().to_owned();
                String::new()
            }
            false if after.is_empty() => after,
            false => format!(" {}\n  ", after.trim()),
        };
        *item.decor_mut() = toml_edit::Decor::new(prefix, suffix);
    }
    items.set_trailing_comma(is_spread);
    let trailing = format!(
        "{after_last}{}",
        items.trailing().as_str().unwrap_or_default()
    );
    items.set_trailing(match is_spread {
        true => format!("{}\n", kept_comments(&trailing)),
        false => String::new(),
    });
}

/// Returns the white space and comments before an item on its own line. A comment that follows the previous item stays
/// on the line of that item.
fn leading_trivia(before: &str) -> String {
    format!("{}\n  ", kept_comments(before))
}

/// Returns the comments of `before`: the first one on the same line if it was there, the others on lines of their own.
fn kept_comments(before: &str) -> String {
    let mut lines = before.split('\n');
    let first = lines.next().unwrap_or_default().trim();
    let mut kept = if first.is_empty() {
        String::new()
    } else {
        format!(" {first}")
    };
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        kept.push_str("\n  ");
        kept.push_str(line);
    }
    kept
}

/// Returns the lines of a text that are comments.
fn comments(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| format!("  {line}\n")).collect()
}

/// Formats an inline table as `{ a = 1, b = 2 }` on one line, the only form in TOML 1.0.
fn inline(items: &mut InlineTable) {
    let last = items.len().saturating_sub(1);
    let mut bare = items.clone();
    bare.decor_mut().clear();
    let bare = bare.to_string();
    if bare.contains('#') && bare.contains('\n') {
        // A comment inside is TOML 1.1 and has no place on one line, so this table is not formatted.
        return;
    }
    for (number, (mut key, item)) in items.iter_mut().enumerate() {
        *key.leaf_decor_mut() = toml_edit::Decor::new(" ", " ");
        format_value(item);
        let end = if number == last { " " } else { "" };
        *item.decor_mut() = toml_edit::Decor::new(" ", end);
    }
    items.set_trailing("");
    items.set_trailing_comma(false);
}

/// Trims the ends of lines, puts one empty line before each header, joins several empty lines into one, and ends the text
/// with one line break. Lines inside multi-line strings are not changed.
fn lines(text: &str) -> String {
    let mut out = String::new();
    let mut inside: Option<&str> = None;
    let mut blank = 0;
    for line in text.lines() {
        let was_inside = inside.is_some();
        inside = ends_inside(line, inside);
        if was_inside {
            out.push_str(line);
        } else if line.trim().is_empty() {
            blank += 1;
            continue;
        } else {
            // Comments above a header belong to it.
            let is_header = line.starts_with('[') && !last_is_comment(&out);
            if (blank > 0 || is_header) && !out.is_empty() {
                out.push('\n');
            }
            out.push_str(if inside.is_some() {
                line
            } else {
                line.trim_end()
            });
        }
        blank = 0;
        out.push('\n');
    }
    out
}

fn last_is_comment(text: &str) -> bool {
    text.lines()
        .next_back()
        .is_some_and(|line| line.starts_with('#'))
}

/// Returns the quotes of the multi-line string that is open at the end of `line`.
fn ends_inside<'a>(line: &str, mut open: Option<&'a str>) -> Option<&'a str> {
    let mut rest = line;
    loop {
        if let Some(quotes) = open {
            let end = if quotes == "\"\"\"" {
                unescaped(rest, quotes)
            } else {
                rest.find(quotes)
            };
            match end {
                Some(at) => {
                    rest = &rest[at + 3..];
                    // Up to two more quotes are part of the string.
                    rest = rest.trim_start_matches(&quotes[..1]);
                    open = None;
                }
                None => return open,
            }
        }
        let at = rest.find(['"', '\'', '#'])?;
        rest = &rest[at..];
        if rest.starts_with('#') {
            return None;
        }
        for quotes in ["\"\"\"", "'''"] {
            if rest.starts_with(quotes) {
                open = Some(quotes);
            }
        }
        match open {
            Some(_) => rest = &rest[3..],
            None => {
                let quote = &rest[..1];
                let end = if quote == "\"" {
                    unescaped(&rest[1..], quote)
                } else {
                    rest[1..].find(quote)
                };
                rest = &rest[1 + end? + 1..];
            }
        }
    }
}

/// Returns the offset of the first `quotes` without a backslash before it.
fn unescaped(text: &str, quotes: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            _ if bytes[at..].starts_with(quotes.as_bytes()) => return Some(at),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_again_changes_nothing_and_the_meaning_stays() {
        for text in [
            "schema=1\n[pack]\nversion='1.0.0'\nname   = \"a/b\"  # named\n\n\n# above\n[rule.x]\nmatch.any=[{regex='a'}, {  literal=\"b\"},\n # third\n{word='c'} # c\n]\ndescription='d'\n",
            "a=[]\nb=[1,2, 3,]\nc=[ # first\n1\n# end\n]\nd={}\n",
            "t=\"\"\"\n  two   \n\n\n#x\n\"\"\"\nu='''\n[no]\n'''\n[[a.b]]\nx=1 # y\n[[a.b]]\n",
            "x = \"a # \\\" '''\"\ny = 'b \"\"\"'\n",
            "",
            "# only a comment\n",
        ] {
            let once = formatted(text).unwrap();
            assert_eq!(formatted(&once).unwrap(), once, "{text}");
            assert_eq!(
                once.matches('#').count(),
                text.matches('#').count(),
                "{once}"
            );
        }
    }

    #[test]
    fn keys_are_put_in_order() {
        let text =
            "[rule.x]\nexamples.match = ['a']\nmatch.any = [{word='a'}]\ndescription = 'd'\n";
        assert_eq!(
            formatted(text).unwrap(),
            "[rule.x]\ndescription = 'd'\nmatch.any = [{ word = 'a' }]\nexamples.match = ['a']\n"
        );
    }
}
