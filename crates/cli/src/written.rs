//! Where rules, their examples and their cases are written.
//!
//! Reads the files once more, as plain TOML: a loaded pack knows no places.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use ttsr::Limits;

use crate::input::{self, Problems};
use crate::report::Place;

/// Something that is written in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    Rule,
    /// Examples and cases, by their number from 1.
    Match(u64),
    NoMatch(u64),
    Case(u64),
}

/// The places of the rules of some files, by full id.
#[derive(Debug, Default)]
pub(crate) struct Written(HashMap<(String, Item), Place>);

impl Written {
    /// Of files and of folders of them. What cannot be read has no places.
    pub(crate) fn read(paths: &[String]) -> Written {
        let mut written = Written::default();
        for (name, text) in texts(paths) {
            written.add(&name, &text);
        }
        written
    }

    /// Where it is, else where its rule is.
    pub(crate) fn find(&self, rule: &str, item: Item) -> Option<&Place> {
        let of = |item| self.0.get(&(rule.to_owned(), item));
        of(item).or_else(|| of(Item::Rule))
    }

    /// Where it is, if it is in one of the files itself.
    pub(crate) fn exactly(&self, rule: &str, item: Item) -> Option<&Place> {
        self.0.get(&(rule.to_owned(), item))
    }

    fn add(&mut self, file: &str, text: &str) {
        let Ok(table) = DeTable::parse(text) else {
            return;
        };
        let lines = Lines::new(text);
        for (id, item, start) in items(table.get_ref()) {
            let (line, column) = lines.place(text, start);
            let file = file.to_owned();
            let place = Place { file, line, column };
            self.0.entry((id, item)).or_insert(place);
        }
    }
}

/// The rule files that `paths` name, each with its text.
pub(crate) fn texts(paths: &[String]) -> Vec<(String, String)> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let named = paths.into_iter().filter(|path| path.exists());
    // Whatever cannot be read was told when the pack was loaded.
    let inputs = input::inputs(&named.collect::<Vec<_>>(), &mut Problems::default());
    let most = Limits::default().file_bytes;
    let texts = inputs.into_iter().filter_map(|input| {
        let fits = fs::metadata(&input.name).is_ok_and(|file| file.len() <= most);
        let is_rules = input.is_named || input.name.ends_with(".toml");
        let text = (fits && is_rules).then(|| fs::read_to_string(&input.name).ok());
        Some((input.name, text??))
    });
    texts.collect()
}

/// Everything in a file that has a place, and where it begins.
fn items(table: &DeTable<'_>) -> Vec<(String, Item, usize)> {
    let name = get(table, &["pack", "name"]).and_then(|name| name.get_ref().as_str());
    let rules = get(table, &["rule"]).and_then(|rules| rules.get_ref().as_table());
    let (Some(name), Some(rules)) = (name, rules) else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for (key, value) in rules {
        let id = format!("{name}/{}", key.get_ref());
        items.push((id.clone(), Item::Rule, key.span().start));
        let Some(rule) = value.get_ref().as_table() else {
            continue;
        };
        type Kind = (&'static [&'static str], fn(u64) -> Item);
        let kinds: [Kind; 3] = [
            (&["examples", "match"], Item::Match),
            (&["examples", "no-match"], Item::NoMatch),
            (&["case"], Item::Case),
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

/// Where the lines of a text begin.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(text: &str) -> Lines {
        let ends = text.match_indices('\n').map(|(end, _)| end + 1);
        Lines([0].into_iter().chain(ends).collect())
    }

    /// Line and column of a byte.
    pub(crate) fn place(&self, text: &str, at: usize) -> (u32, u32) {
        let line = self.0.partition_point(|&start| start <= at);
        let start = self.0[line - 1];
        let column = text.get(start..at).map_or(0, |text| text.chars().count()) + 1;
        let small = |number| u32::try_from(number).unwrap_or(u32::MAX);
        (small(line), small(column))
    }

    /// The byte at a line and a column.
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
        let mut written = Written::default();
        written.add("f", text);
        let place = |item| {
            let place = written.find("a/b", item).unwrap();
            (place.line, place.column)
        };
        assert_eq!(place(Item::Rule), (2, 7));
        assert_eq!(place(Item::Match(2)), (3, 24));
        assert_eq!(place(Item::Case(1)), (4, 1));
        assert_eq!(place(Item::NoMatch(1)), (2, 7), "its rule");
        assert_eq!(written.find("a/c", Item::Rule), None);
    }

    #[test]
    fn places_and_offsets_are_each_others_inverse() {
        let text = "aé\n\nüx";
        let lines = Lines::new(text);
        for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            let (line, column) = lines.place(text, at);
            assert_eq!(lines.offset(text, line, column), Some(at), "{at}");
        }
    }
}
