//! TOML syntax errors, and the problems that can still be reported about a text that has some.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, Error};

use super::fault::Fault;
use super::file::{RuleFile, read_root};
use super::problems::Problem;
use super::reader::RuleReader;
use crate::pack::diagnostic::{TextCursor, code};
use crate::pack::escape::{self, quote};

/// The longest text, in bytes, of which every TOML error is reported: recovery keeps all of them in memory.
pub(super) const RECOVERED_BYTES: usize = 1 << 20;

/// The parser's message for a key or table that exists already.
const DUPLICATE: &str = "duplicate key";

/// The parser's messages at the end of a text in which a bracket is open.
const UNCLOSED: [&str; 2] = ["unclosed array", "unclosed inline table"];

/// The result of parsing the text of a file: its tables, or its first TOML error.
pub(super) type ParsedText<'t> = Result<Spanned<DeTable<'t>>, Error>;

/// Reads the text of `reader`, which was parsed to `parsed`. `imported` are the lists of the packs that the file extends.
pub(super) fn read(
    reader: &mut RuleReader<'_>,
    parsed: &ParsedText<'_>,
    imported: BTreeMap<String, Arc<[String]>>,
) -> RuleFile {
    match parsed {
        Ok(root) => read_root(root.get_ref(), imported, reader),
        Err(first) if reader.text.len() > RECOVERED_BYTES => {
            report_error(reader, first);
            RuleFile::default()
        }
        Err(_) => recover(reader, imported),
    }
}

/// Reports all TOML errors, and the problems of the rest that cannot be consequences of one.
fn recover(reader: &mut RuleReader<'_>, imported: BTreeMap<String, Arc<[String]>>) -> RuleFile {
    let (root, mut errors) = DeTable::parse_recoverable(reader.text);
    let read = read_root(root.get_ref(), imported, reader);
    reader.rule = None;
    errors.sort_by_key(start);
    let is_open = |error: &Error| {
        UNCLOSED
            .iter()
            .any(|what| error.message().starts_with(what))
    };
    let is_cut = errors.len() > 1 && errors.iter().any(is_open);
    if is_cut {
        // Everything after this error was read as part of a value.
        errors.truncate(1);
        let from = errors.first().map_or(0, start);
        let list = &mut reader.problems.list;
        list.retain(|problem| problem.span.start < from);
    }
    let mut cursor = TextCursor::new(reader.text);
    let mut broken: Vec<u32> = errors
        .iter()
        .map(|error| cursor.line_column(start(error)).0)
        .collect();
    broken.dedup();
    drop_consequences(reader, &broken);
    let mut lines = Lines::new(reader.text);
    for error in &errors {
        if error.message() == DUPLICATE {
            report_duplicate(reader, start(error), &mut lines);
        } else if is_cut {
            report_unclosed(reader, error);
        } else {
            report_error(reader, error);
        }
    }
    // Rules of a broken file are not used, but other files refer to its pack.
    RuleFile {
        header: read.header,
        ..RuleFile::default()
    }
}

/// Reports the first error of a text with an unclosed bracket. The bracket is before the error.
fn report_unclosed(reader: &mut RuleReader<'_>, error: &Error) {
    let end = reader.text.len();
    let message = format!("this is not TOML: {}", escape::all(error.message()));
    let help = "a `[` or `{` on an earlier line is not closed, or is in the wrong place; the text after it was not read";
    let fault = Fault::new(&code::SYNTAX, message).with_help(help);
    reader.fault(fault, error.span().unwrap_or(end..end));
}

fn start(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// Drops the problems that may be consequences of TOML errors: those on the `broken` lines, and missing or unknown
/// keys, which may only have moved to another table.
fn drop_consequences(reader: &mut RuleReader<'_>, broken: &[u32]) {
    let mut list = std::mem::take(&mut reader.problems.list);
    list.sort_by_key(|problem| problem.span.start);
    let mut cursor = TextCursor::new(reader.text);
    let structural = [
        &code::MISSING_KEY,
        &code::UNKNOWN_KEY,
        &code::NO_EXAMPLE,
        &code::NO_RULES,
        &code::PATTERN_FORM,
        &code::EMPTY_VALUE,
        &code::UNKNOWN_LIST,
        &code::UNKNOWN_FRAGMENT,
        &code::UNREACHABLE_SCOPE,
    ];
    list.retain(|problem: &Problem| {
        let line = cursor.line_column(problem.span.start).0;
        !structural.contains(&problem.code) && broken.binary_search(&line).is_err()
    });
    reader.problems.list = list;
}

fn report_error(reader: &mut RuleReader<'_>, error: &Error) {
    let end = reader.text.len();
    let message = format!("this is not TOML: {}", escape::all(error.message()));
    let mut fault = Fault::new(&code::SYNTAX, message);
    fault.help = hint(error.message()).map(str::to_owned);
    reader.fault(fault, error.span().unwrap_or(end..end));
}

/// Returns the cause of an error that authors new to TOML make often.
fn hint(message: &str) -> Option<&'static str> {
    let hints = [
        (
            "missing escaped value",
            "between double quotes `\\` begins an escape: write patterns between single quotes, `regex = '\\d+'`",
        ),
        (
            "unexpected key or value",
            "a text between single quotes ends at the next one: write it between double quotes",
        ),
        ("string values must be quoted", "put the text in quotes"),
        ("key with no value", "write `key = value`"),
    ];
    let mut hints = hints.into_iter();
    let (_, hint) = hints.find(|(start, _)| message.starts_with(start))?;
    Some(hint)
}

/// Reports a key or a table that is written a second time at `at`. The keys of a repeated table are not reported.
fn report_duplicate<'t>(reader: &mut RuleReader<'t>, at: usize, lines: &mut Lines<'t>) {
    let (subject, first) = lines.read_to(at);
    if subject.is_header {
        lines.repeats = true;
    } else if lines.repeats {
        return;
    }
    let fault = Fault::new(
        &code::DUPLICATE_KEY,
        format!("{} is written twice", quote(subject.text)),
    );
    let fault = match first {
        Some(line) => fault.with_help(format!("first written on line {line}; keep one of the two")),
        None => fault,
    };
    reader.fault(fault, subject.start..subject.start + subject.text.len());
}

/// The lines on which tables and keys are first written, read line by line and not as TOML: the text is broken, and
/// the result is only used in help texts.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
    headers: HashMap<&'t str, usize>,
    /// The keys of the table that is being read.
    keys: HashMap<&'t str, usize>,
    /// True if that table is itself repeated.
    repeats: bool,
}

/// A table header or a key.
struct SyntaxItem<'t> {
    text: &'t str,
    start: usize,
    is_header: bool,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Lines<'t> {
        let (headers, keys) = (HashMap::new(), HashMap::new());
        Lines {
            text,
            offset: 0,
            line: 1,
            headers,
            keys,
            repeats: false,
        }
    }

    /// Returns the key or header on the line of `at`, and the number of the earlier line that has it first.
    fn read_to(&mut self, at: usize) -> (SyntaxItem<'t>, Option<usize>) {
        while let Some(length) = self.text[self.offset..].find('\n')
            && self.offset + length < at
        {
            self.remember();
            self.offset += length + 1;
            self.line += 1;
        }
        let subject = self.subject();
        let seen = if subject.is_header {
            &self.headers
        } else {
            &self.keys
        };
        let first = seen
            .get(subject.text)
            .copied()
            .filter(|line| *line < self.line);
        (subject, first)
    }

    fn remember(&mut self) {
        let SyntaxItem {
            text, is_header, ..
        } = self.subject();
        if is_header {
            self.headers.entry(text).or_insert(self.line);
            self.keys.clear();
            self.repeats = false;
        } else {
            self.keys.entry(text).or_insert(self.line);
        }
    }

    /// Returns the key or header on the line at `offset`.
    fn subject(&self) -> SyntaxItem<'t> {
        let rest = &self.text[self.offset..];
        let line = rest.split('\n').next().unwrap_or(rest);
        let trimmed = line.trim_start();
        let start = self.offset + (line.len() - trimmed.len());
        let is_header = trimmed.starts_with('[');
        let text = if is_header {
            trimmed.split_inclusive(']').next().unwrap_or(trimmed)
        } else {
            trimmed.split('=').next().unwrap_or(trimmed).trim_end()
        };
        SyntaxItem {
            text,
            start,
            is_header,
        }
    }
}
