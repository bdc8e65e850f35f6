//! The locations of rules, examples and cases in rule files.
//!
//! Parses the files again as TOML, because a loaded pack has no locations.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use ttsr::Limits;

use crate::input::{self, InputProblems};
use crate::report::SourceLocation;

/// An element of a rule file that has a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SourceItem {
    Rule,
    /// Examples and cases, numbered from 1.
    Match(u64),
    NoMatch(u64),
    Case(u64),
}

/// The locations of the rules of some files, by full id.
#[derive(Debug, Default)]
pub(crate) struct SourceIndex(HashMap<(String, SourceItem), SourceLocation>);

impl SourceIndex {
    /// Indexes files and folders of files. Files that cannot be read are left out.
    pub(crate) fn read(paths: &[String]) -> SourceIndex {
        let mut written = SourceIndex::default();
        for (name, text) in texts(paths) {
            written.add(&name, &text);
        }
        written
    }

    /// Returns the location of the item, or else the location of its rule.
    pub(crate) fn find(&self, rule: &str, item: SourceItem) -> Option<&SourceLocation> {
        let of = |item| self.0.get(&(rule.to_owned(), item));
        of(item).or_else(|| of(SourceItem::Rule))
    }

    /// Returns the location of the item if one of the files contains it.
    pub(crate) fn find_exact(&self, rule: &str, item: SourceItem) -> Option<&SourceLocation> {
        self.0.get(&(rule.to_owned(), item))
    }

    fn add(&mut self, file: &str, text: &str) {
        let Ok(table) = DeTable::parse(text) else {
            return;
        };
        let lines = LineStarts::new(text);
        for (id, item, start) in items(table.get_ref()) {
            let (line, column) = lines.locate(text, start);
            let file = file.to_owned();
            let place = SourceLocation { file, line, column };
            self.0.entry((id, item)).or_insert(place);
        }
    }
}

/// Returns the rule files that `paths` name, each with its text.
pub(crate) fn texts(paths: &[String]) -> Vec<(String, String)> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let named = paths.into_iter().filter(|path| path.exists());
    // Files that cannot be read were reported when the pack was loaded.
    let inputs = input::inputs(&named.collect::<Vec<_>>(), &mut InputProblems::default());
    let most = Limits::default().file_bytes;
    let texts = inputs.into_iter().filter_map(|input| {
        let fits = fs::metadata(&input.name).is_ok_and(|file| file.len() <= most);
        let is_rules = input.is_named || input.name.ends_with(".toml");
        let text = (fits && is_rules).then(|| fs::read_to_string(&input.name).ok());
        Some((input.name, text??))
    });
    texts.collect()
}

/// Returns every item of a file with its byte offset.
fn items(table: &DeTable<'_>) -> Vec<(String, SourceItem, usize)> {
    let name = get(table, &["pack", "name"]).and_then(|name| name.get_ref().as_str());
    let rules = get(table, &["rule"]).and_then(|rules| rules.get_ref().as_table());
    let (Some(name), Some(rules)) = (name, rules) else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for (key, value) in rules {
        let id = format!("{name}/{}", key.get_ref());
        items.push((id.clone(), SourceItem::Rule, key.span().start));
        let Some(rule) = value.get_ref().as_table() else {
            continue;
        };
        type DefinitionKind = (&'static [&'static str], fn(u64) -> SourceItem);
        let kinds: [DefinitionKind; 3] = [
            (&["examples", "match"], SourceItem::Match),
            (&["examples", "no-match"], SourceItem::NoMatch),
            (&["case"], SourceItem::Case),
        ];
        for (path, item) in kinds {
            let list = get(rule, path).and_then(|list| list.get_ref().as_array());
            let list = list.into_iter().flat_map(|list| list.iter());
            items.extend((1..).zip(list).map(|(number, entry)| {
                let start = entry.span().start;
                (id.clone(), item(number), start)
            }));
        }
    }
    items
}

fn get<'t, 'i>(table: &'t DeTable<'i>, path: &[&str]) -> Option<&'t Spanned<DeValue<'i>>> {
    let (last, tables) = path.split_last()?;
    let table = tables.iter().try_fold(table, |table, key| {
        table.get(*key).and_then(|value| value.get_ref().as_table())
    });
    table?.get(*last)
}

/// The offsets at which the lines of a text begin.
pub(crate) struct LineStarts(Vec<usize>);

impl LineStarts {
    pub(crate) fn new(text: &str) -> LineStarts {
        let ends = text.match_indices('\n').map(|(end, _)| end + 1);
        LineStarts([0].into_iter().chain(ends).collect())
    }

    /// Returns the line and column of a byte offset.
    pub(crate) fn locate(&self, text: &str, at: usize) -> (u32, u32) {
        let line = self.0.partition_point(|&start| start <= at);
        let start = self.0[line - 1];
        let column = text.get(start..at).map_or(0, |text| text.chars().count()) + 1;
        let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
        (small(line), small(column))
    }

    /// Returns the byte offset of a line and column.
    pub(crate) fn offset(&self, text: &str, line: u32, column: u32) -> Option<usize> {
        let start = *self.0.get((line as usize).checked_sub(1)?)?;
        let mut chars = text.get(start..)?.char_indices();
        let before = chars.nth((column as usize).checked_sub(1)?);
        Some(start + before.map_or(text.len() - start, |(at, _)| at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place() {
        let text =
            "pack.name = 'a'\n[rule.b]\nexamples.match = ['ü', 'x']\n[[rule.b.case]]\ntext = 'x'\n";
        let mut written = SourceIndex::default();
        written.add("f", text);
        let place = |item| {
            let place = written.find("a/b", item).unwrap();
            (place.line, place.column)
        };
        assert_eq!(place(SourceItem::Rule), (2, 7));
        assert_eq!(place(SourceItem::Match(2)), (3, 24));
        assert_eq!(place(SourceItem::Case(1)), (4, 1));
        assert_eq!(place(SourceItem::NoMatch(1)), (2, 7), "its rule");
        assert_eq!(written.find("a/c", SourceItem::Rule), None);
    }

    #[test]
    fn places_and_offsets_are_each_others_inverse() {
        let text = "aé\n\nüx";
        let lines = LineStarts::new(text);
        for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            let (line, column) = lines.locate(text, at);
            assert_eq!(lines.offset(text, line, column), Some(at), "{at}");
        }
    }
}
