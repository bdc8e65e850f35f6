//! The TOML itself: its errors, and what can still be said about a text that has some.

use std::collections::HashMap;

use toml::de::{DeTable, Error};

use super::fault::Fault;
use super::{Problem, Walk};
use crate::pack::diagnostic::{Cursor, code};
use crate::pack::escape::{self, quote};

/// Texts longer than this get only their first TOML error: recovery keeps every one of them in memory.
const RECOVERED_BYTES: usize = 1 << 20;

/// What the parser calls a key or table that is there already.
const DUPLICATE: &str = "duplicate key";

/// What the parser says at the end of a text in which a bracket is open.
const UNCLOSED: [&str; 2] = ["unclosed array", "unclosed inline table"];

/// Parses and checks the text of `walk`.
pub(super) fn walk(walk: &mut Walk<'_>) {
    let text = walk.text;
    match DeTable::parse(text) {
        Ok(root) => walk.root(root.get_ref()),
        Err(first) if text.len() > RECOVERED_BYTES => report(walk, &first),
        Err(_) => recovered(walk),
    }
}

/// All TOML errors, and those problems of what could be read that cannot be a consequence of one.
fn recovered(walk: &mut Walk<'_>) {
    let (root, mut errors) = DeTable::parse_recoverable(walk.text);
    walk.root(root.get_ref());
    walk.drafts.clear();
    walk.overrides.clear();
    walk.allows.clear();
    walk.ids.clear();
    walk.rule = None;
    errors.sort_by_key(start);
    let is_open = |error: &Error| {
        UNCLOSED
            .iter()
            .any(|what| error.message().starts_with(what))
    };
    let is_cut = errors.len() > 1 && errors.iter().any(is_open);
    if is_cut {
        // All that follows was read as part of a value.
        errors.truncate(1);
        let from = errors.first().map_or(0, start);
        let list = &mut walk.problems.list;
        list.retain(|problem| problem.span.start < from);
    }
    let mut cursor = Cursor::new(walk.text);
    let mut broken: Vec<u32> = errors
        .iter()
        .map(|error| cursor.place(start(error)).0)
        .collect();
    broken.dedup();
    drop_consequences(walk, &broken);
    let mut lines = Lines::new(walk.text);
    for error in &errors {
        if error.message() == DUPLICATE {
            duplicate(walk, start(error), &mut lines);
        } else if is_cut {
            cut(walk, error);
        } else {
            report(walk, error);
        }
    }
}

/// The first error of a text in which something was not closed: what is wrong stands before it.
fn cut(walk: &mut Walk<'_>, error: &Error) {
    let end = walk.text.len();
    let message = format!("this is not TOML: {}", escape::all(error.message()));
    let help = "a `[` or `{` on a line above is not closed, or not where it should be; what follows was not read";
    let fault = Fault::new(&code::SYNTAX, message).with_help(help);
    walk.fault(fault, error.span().unwrap_or(end..end));
}

fn start(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// A line with a TOML error says nothing reliable, and a key that seems to be missing or unknown may
/// only have slipped into another table.
fn drop_consequences(walk: &mut Walk<'_>, broken: &[u32]) {
    let mut list = std::mem::take(&mut walk.problems.list);
    list.sort_by_key(|problem| problem.span.start);
    let mut cursor = Cursor::new(walk.text);
    let structural = [
        &code::MISSING_KEY,
        &code::UNKNOWN_KEY,
        &code::NO_EXAMPLE,
        &code::NO_RULES,
        &code::PATTERN_FORM,
        &code::EMPTY_VALUE,
        &code::UNKNOWN_LIST,
        &code::UNREACHABLE_SCOPE,
    ];
    list.retain(|problem: &Problem| {
        let line = cursor.place(problem.span.start).0;
        !structural.contains(&problem.code) && broken.binary_search(&line).is_err()
    });
    walk.problems.list = list;
}

fn report(walk: &mut Walk<'_>, error: &Error) {
    let end = walk.text.len();
    let message = format!("this is not TOML: {}", escape::all(error.message()));
    let mut fault = Fault::new(&code::SYNTAX, message);
    fault.help = hint(error.message()).map(str::to_owned);
    walk.fault(fault, error.span().unwrap_or(end..end));
}

/// What is behind the usual errors of people who seldom write TOML.
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

/// Reports what is written twice, the second time at `at`. The keys of a table that is itself written
/// twice are not worth a word each.
fn duplicate<'t>(walk: &mut Walk<'t>, at: usize, lines: &mut Lines<'t>) {
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
    walk.fault(fault, subject.start..subject.start + subject.text.len());
}

/// Remembers the lines on which tables and keys are first written, reading the text once. It looks at
/// lines, not at TOML: the text is broken, and what is found only goes into a help.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
    headers: HashMap<&'t str, usize>,
    /// The keys of the table that is being read.
    keys: HashMap<&'t str, usize>,
    /// Whether that table is itself written for the second time.
    repeats: bool,
}

/// A table header or a key.
struct Subject<'t> {
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

    /// What the line of `at` writes, and the earlier line that wrote it first.
    fn read_to(&mut self, at: usize) -> (Subject<'t>, Option<usize>) {
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
        let Subject {
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

    /// What the line at `offset` writes.
    fn subject(&self) -> Subject<'t> {
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
        Subject {
            text,
            start,
            is_header,
        }
    }
}
