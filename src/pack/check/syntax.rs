//! The TOML itself: its errors, and what can still be said about a text that has some.

use toml::de::{DeTable, Error};

use super::fault::Fault;
use super::{Problem, Walk};
use crate::pack::diagnostic::{Cursor, code};
use crate::pack::escape::{self, quote};

/// Texts longer than this get only their first TOML error: recovery keeps every one of them in memory.
const RECOVERED_BYTES: usize = 1 << 20;

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
    let (root, errors) = DeTable::parse_recoverable(walk.text);
    walk.root(root.get_ref());
    walk.rules.clear();
    walk.ids.clear();
    let mut broken: Vec<u32> = Vec::new();
    let mut cursor = Cursor::new(walk.text);
    let mut starts: Vec<usize> = errors.iter().map(start).collect();
    starts.sort_unstable();
    broken.extend(starts.iter().map(|start| cursor.place(*start).0));
    broken.dedup();
    drop_consequences(walk, &broken);
    for error in &errors {
        report(walk, error);
    }
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
    walk.rule = None;
    let end = walk.text.len();
    let span = error.span().unwrap_or(end..end);
    if error.message() != "duplicate key" {
        let message = format!("this is not TOML: {}", escape::all(error.message()));
        return walk.fault(Fault::new(&code::SYNTAX, message), span);
    }
    let key = walk.text.get(span.clone()).unwrap_or_default();
    let fault = Fault::new(
        &code::DUPLICATE_KEY,
        format!("{} is written twice", quote(key)),
    );
    let fault = match first_line(walk.text, span.start, key) {
        Some(line) => fault.with_help(format!("first written on line {line}; keep one of the two")),
        None => fault,
    };
    walk.fault(fault, span);
}

/// The line before `at` that writes the same table header, or the same key in the same table.
fn first_line(text: &str, at: usize, key: &str) -> Option<usize> {
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next()?.trim();
    let header = line
        .starts_with('[')
        .then(|| line.split_inclusive(']').next())
        .flatten();
    let mut found = None;
    for (index, earlier) in text[..line_start].lines().enumerate() {
        let earlier = earlier.trim();
        match header {
            Some(header) if earlier.starts_with(header) => return Some(index + 1),
            Some(_) => {}
            None if earlier.starts_with('[') => found = None,
            None if assigns(earlier, key) => found = found.or(Some(index + 1)),
            None => {}
        }
    }
    found
}

fn assigns(line: &str, key: &str) -> bool {
    line.strip_prefix(key)
        .is_some_and(|rest| rest.trim_start().starts_with('='))
}
