//! `ttsr test --update`: writes measured results into the cases of rule files.
//!
//! Changes only `expect` and `by-byte`, and only where they differ. Comments and white space are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use toml_edit::{DocumentMut, Item, TableLike, Value};
use ttsr::Action;

use crate::CommandError;
use crate::output::{Escaped, print_message};
use crate::replace::replace;

/// The updates to write, by file.
#[derive(Debug, Default)]
pub(super) struct Updates(BTreeMap<String, Vec<Update>>);

/// The new values of a case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Update {
    /// The rule's id within its pack.
    pub(super) rule: String,
    /// The number of the case, from 1.
    pub(super) case: u64,
    /// `None` is written as `expect = "nothing"`.
    pub(super) expect: Option<Action>,
    pub(super) by_byte: Option<u64>,
}

impl Updates {
    pub(super) fn add(&mut self, file: &str, update: Update) {
        self.0.entry(file.to_owned()).or_default().push(update);
    }

    /// Writes the files and returns the number of changed cases.
    pub(super) fn write(&self) -> Result<u64, CommandError> {
        let mut changed = 0;
        for (file, updates) in &self.0 {
            let failed = |what: &dyn std::fmt::Display| {
                CommandError::Message(format!("{}: cannot be updated: {what}", Escaped(file)))
            };
            let before = fs::read_to_string(file).map_err(|error| failed(&error))?;
            let (after, changes) = updated(&before, updates).map_err(|error| failed(&error))?;
            if !changes.is_empty() {
                replace(Path::new(file), after.as_bytes()).map_err(|error| failed(&error))?;
            }
            for line in &changes {
                print_message(&format_args!(
                    "updated: {}: {}",
                    Escaped(file),
                    Escaped(line)
                ));
            }
            changed += changes.len() as u64;
        }
        Ok(changed)
    }
}

/// Returns the updated text and a description of each change.
fn updated(text: &str, updates: &[Update]) -> Result<(String, Vec<String>), String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| error.to_string())?;
    let mut changes = Vec::new();
    for update in updates {
        let case = case_of(&mut document, &update.rule, update.case).ok_or_else(|| {
            format!(
                "case {} of rule {} is not in the file",
                update.case, update.rule
            )
        })?;
        let expect = update.expect.map_or("nothing", Action::name);
        let words = [
            set(case, "expect", Some(expect.into())),
            set(
                case,
                "by-byte",
                update.by_byte.map(|byte| byte.cast_signed().into()),
            ),
        ];
        for words in words.into_iter().flatten() {
            changes.push(format!("{} case {}: {words}", update.rule, update.case));
        }
    }
    Ok((as_in(text, document.to_string()), changes))
}

/// Gives a rewritten text the byte order mark and the line ends of the old one, which the TOML library leaves out. Line ends
/// of both kinds become LF.
fn as_in(old: &str, new: String) -> String {
    let new = match old.contains('\n') && old.matches("\r\n").count() == old.matches('\n').count() {
        true => new.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => new,
    };
    match old.starts_with('\u{FEFF}') && !new.starts_with('\u{FEFF}') {
        true => format!("\u{FEFF}{new}"),
        false => new,
    }
}

fn case_of<'d>(
    document: &'d mut DocumentMut,
    rule: &str,
    number: u64,
) -> Option<&'d mut dyn TableLike> {
    let rules = document
        .as_table_mut()
        .get_mut("rule")?
        .as_table_like_mut()?;
    let cases = rules.get_mut(rule)?.as_table_like_mut()?.get_mut("case")?;
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    match cases {
        Item::ArrayOfTables(tables) => tables
            .get_mut(index)
            .map(|table| table as &mut dyn TableLike),
        Item::Value(Value::Array(tables)) => {
            let table = tables.get_mut(index)?.as_inline_table_mut()?;
            Some(table as &mut dyn TableLike)
        }
        _ => None,
    }
}

/// Sets or removes a key and keeps the white space and comments around its value. Returns a description of the change.
fn set(table: &mut dyn TableLike, key: &str, new: Option<Value>) -> Option<String> {
    let shown = |value: &Value| value.clone().decorated("", "").to_string();
    let old = table.get(key).and_then(Item::as_value).map(shown);
    let wanted = new.as_ref().map(shown);
    if meaning(old.as_deref()) == meaning(wanted.as_deref()) {
        return None;
    }
    match (new, table.get_mut(key).and_then(Item::as_value_mut)) {
        (Some(new), Some(value)) => {
            let decor = value.decor().clone();
            *value = new;
            *value.decor_mut() = decor;
        }
        (Some(new), None) => {
            let space = take_space(table);
            table.insert(key, Item::Value(new.decorated(" ", space)));
        }
        (None, _) => {
            table.remove(key);
        }
    }
    let before = old.unwrap_or_else(|| "not given".to_owned());
    let after = wanted.unwrap_or_else(|| "gone".to_owned());
    Some(format!("`{key}`: {before} → {after}"))
}

/// Removes and returns the space after the last value, to be put after the added one: `{ a = 1 }` has it before the
/// brace.
fn take_space(table: &mut dyn TableLike) -> String {
    let last = table.iter_mut().last();
    let Some(value) = last.and_then(|(_, item)| item.as_value_mut()) else {
        return String::new();
    };
    let suffix = value.decor().suffix().and_then(|suffix| suffix.as_str());
    let space = suffix.filter(|suffix| suffix.chars().all(|char| char == ' '));
    let space = space.unwrap_or_default().to_owned();
    if !space.is_empty() {
        value.decor_mut().set_suffix("");
    }
    space
}

/// Returns the value without regard to its quotes.
fn meaning(value: Option<&str>) -> Option<String> {
    Some(value?.trim_matches(['"', '\'']).replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_the_byte_order_mark_stay() {
        let text = "[rule.a]\n# c\n[[rule.a.case]]\nexpect = \"warn\"\ntext = \"\"\"\na\nb\"\"\"\n";
        for (mark, line_end) in [("", "\n"), ("", "\r\n"), ("\u{FEFF}", "\r\n")] {
            let with_ends = |text: &str| format!("{mark}{}", text.replace('\n', line_end));
            let updates = [update("a", 1, Some(Action::Retry), None)];
            let (found, changes) = updated(&with_ends(text), &updates).unwrap();
            assert_eq!(found, with_ends(&text.replace("warn", "retry")));
            assert_eq!(changes.len(), 1);
        }
    }

    const TEXT: &str = "# a pack\n[rule.b]  # the rule\n\n# the first\n[[rule.b.case]]\ntext = 'x' # as it is\nexpect = 'retry'  # not yet\nby-byte = 1_0\n\n[[rule.b.case]]\ntext = \"y\"\nexpect = \"nothing\"\n\n[rule.c]\ncase = [ { text = 'z', expect = 'warn' } ] # inline\n";

    fn update(rule: &str, case: u64, expect: Option<Action>, by_byte: Option<u64>) -> Update {
        Update {
            rule: rule.to_owned(),
            case,
            expect,
            by_byte,
        }
    }

    #[test]
    fn measured_values_are_written_and_comments_stay() {
        let updates = [
            update("b", 1, Some(Action::Retry), Some(12)),
            update("b", 2, Some(Action::Retry), Some(3)),
            update("c", 1, Some(Action::Warn), Some(7)),
        ];
        let (after, changes) = updated(TEXT, &updates).unwrap();
        let expected = TEXT
            .replace("by-byte = 1_0", "by-byte = 12")
            .replace(
                "expect = \"nothing\"\n",
                "expect = \"retry\"\nby-byte = 3\n",
            )
            .replace("expect = 'warn' }", "expect = 'warn', by-byte = 7 }");
        assert_eq!(after, expected);
        assert_eq!(changes.len(), 4, "{changes:?}");
        assert_eq!(changes[0], "b case 1: `by-byte`: 1_0 → 12");
        assert_eq!(
            updated(&after, &updates).unwrap(),
            (after, Vec::new()),
            "again changes nothing"
        );
    }

    #[test]
    fn a_case_that_does_not_hit_expects_nothing_by_no_byte() {
        let (after, _) = updated(TEXT, &[update("b", 1, None, None)]).unwrap();
        let expected = TEXT.replace(
            "expect = 'retry'  # not yet\nby-byte = 1_0\n",
            "expect = \"nothing\"  # not yet\n",
        );
        assert_eq!(after, expected);
    }

    #[test]
    fn a_case_that_is_not_in_the_file_is_an_error() {
        assert!(updated(TEXT, &[update("b", 3, None, None)]).is_err());
        assert!(updated("not toml", &[]).is_err());
    }
}
