//! Reading keys of a TOML table: each getter returns the value or reports why there is none.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Fault;
use super::{Span, Walk};
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::nearest;

/// A string and where it is written, quotes included.
#[derive(Clone, Debug)]
pub(super) struct Text<'v> {
    pub(super) value: &'v str,
    pub(super) span: Span,
}

impl Text<'_> {
    /// Where the bytes `within` of the value are written. Exact where the string holds no escapes, else
    /// the whole string.
    pub(super) fn place_of(&self, source: &str, within: Option<&Range<usize>>) -> Span {
        within
            .zip(self.inner(source))
            .map(|(within, start)| start + within.start..start + within.end)
            .unwrap_or_else(|| self.span.clone())
    }

    /// Where the value begins in the source, if it stands there byte for byte.
    fn inner(&self, source: &str) -> Option<usize> {
        let raw = source.get(self.span.clone())?;
        let quotes = ["'''", "\"\"\"", "'", "\""]
            .into_iter()
            .find(|quotes| raw.starts_with(quotes))?;
        let body = raw.strip_prefix(quotes)?.strip_suffix(quotes)?;
        let first_line = if quotes.len() == 3 {
            body.strip_prefix("\r\n")
                .or_else(|| body.strip_prefix('\n'))
                .unwrap_or(body)
        } else {
            body
        };
        let start = quotes.len() + (body.len() - first_line.len());
        (first_line == self.value).then_some(self.span.start + start)
    }
}

/// An array of strings and where it is written.
#[derive(Clone, Debug)]
pub(super) struct Texts<'v> {
    pub(super) items: Vec<Text<'v>>,
    pub(super) span: Span,
}

/// What a value is, for a message.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

impl Walk<'_> {
    /// Reports every key of `table` that is not one of `known`.
    pub(super) fn known(&mut self, table: &DeTable<'_>, place: &str, known: &[&str]) {
        for key in table
            .keys()
            .filter(|key| !known.contains(&key.get_ref().as_ref()))
        {
            let message = format!("unknown key {} in {}", quote(key.get_ref()), self.at(place));
            let fault = Fault::new(&code::UNKNOWN_KEY, message)
                .with_help(nearest::help(key.get_ref(), known));
            self.fault(fault, key.span());
        }
    }

    /// Reports that `key` is missing at `span`.
    pub(super) fn missing(&mut self, key: &str, place: &str, help: &str, span: Span) {
        let message = format!("missing key `{key}` in {}", self.at(place));
        self.fault(
            Fault::new(&code::MISSING_KEY, message).with_help(help),
            span,
        );
    }

    fn wrong_type(&mut self, name: &str, expected: &str, found: &Spanned<DeValue<'_>>) {
        let message = format!(
            "{name} must be {expected}, this is {}",
            kind(found.get_ref())
        );
        self.fault(Fault::new(&code::WRONG_TYPE, message), found.span());
    }

    /// The string at `key`, if there is one.
    pub(super) fn string<'v>(&mut self, table: &'v DeTable<'_>, key: &str) -> Option<Text<'v>> {
        let value = table.get(key)?;
        self.text(value, &quote(key))
    }

    /// `value` as a string called `name` in messages.
    pub(super) fn text<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        name: &str,
    ) -> Option<Text<'v>> {
        match value.get_ref() {
            DeValue::String(text) => Some(Text {
                value: text.as_ref(),
                span: value.span(),
            }),
            _ => {
                self.wrong_type(name, "a string", value);
                None
            }
        }
    }

    /// The string at `key`, which must not be blank.
    pub(super) fn filled_string<'v>(
        &mut self,
        table: &'v DeTable<'_>,
        key: &str,
    ) -> Option<Text<'v>> {
        let text = self.string(table, key)?;
        if text.value.trim().is_empty() {
            let message = format!("`{key}` is empty");
            self.fault(Fault::new(&code::EMPTY_VALUE, message), text.span);
            return None;
        }
        Some(text)
    }

    /// The strings at `key`; those of the wrong type are reported and left out.
    pub(super) fn strings<'v>(&mut self, table: &'v DeTable<'_>, key: &str) -> Option<Texts<'v>> {
        let value = table.get(key)?;
        self.texts(value, &quote(key))
    }

    /// `value` as an array of strings called `name` in messages.
    pub(super) fn texts<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        name: &str,
    ) -> Option<Texts<'v>> {
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type(name, "an array of strings", value);
            return None;
        };
        let item = format!("an entry of {name}");
        let items = array
            .iter()
            .filter_map(|value| self.text(value, &item))
            .collect();
        Some(Texts {
            items,
            span: value.span(),
        })
    }

    /// The table at `key`, if there is one.
    pub(super) fn table<'v, 'i>(
        &mut self,
        table: &'v DeTable<'i>,
        key: &str,
    ) -> Option<&'v DeTable<'i>> {
        let value = table.get(key)?;
        self.as_table(value, &quote(key))
    }

    /// `value` as a table called `name` in messages.
    pub(super) fn as_table<'v, 'i>(
        &mut self,
        value: &'v Spanned<DeValue<'i>>,
        name: &str,
    ) -> Option<&'v DeTable<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.wrong_type(name, "a table", value);
                None
            }
        }
    }

    /// The entries of the array at `key`, if there is one.
    pub(super) fn array<'v, 'i>(
        &mut self,
        table: &'v DeTable<'i>,
        key: &str,
    ) -> Option<&'v [Spanned<DeValue<'i>>]> {
        let value = table.get(key)?;
        match value.get_ref() {
            DeValue::Array(array) => Some(array),
            _ => {
                self.wrong_type(&quote(key), "an array of tables", value);
                None
            }
        }
    }

    /// The integer at `key`, if there is one that fits.
    pub(super) fn integer(&mut self, table: &DeTable<'_>, key: &str) -> Option<i32> {
        let value = table.get(key)?;
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(&quote(key), "an integer", value);
            return None;
        };
        let number = i32::from_str_radix(integer.as_str(), integer.radix()).ok();
        if number.is_none() {
            let message = format!(
                "`{key}` is {}, which is out of range",
                quote(integer.as_str())
            );
            let help = format!("from {} to {}", i32::MIN, i32::MAX);
            self.fault(
                Fault::new(&code::BAD_VALUE, message).with_help(help),
                value.span(),
            );
        }
        number
    }

    /// The value at `key` that is written as one of `names`.
    pub(super) fn one_of<T>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        names: &[&str],
        from_name: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.string(table, key)?;
        self.named(&text, key, names, from_name)
    }

    /// What `text` names, or a report that it is none of `names`.
    pub(super) fn named<T>(
        &mut self,
        text: &Text<'_>,
        what: &str,
        names: &[&str],
        from_name: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let found = from_name(text.value);
        if found.is_none() {
            let message = format!("{} is not a value of `{what}`", quote(text.value));
            let fault =
                Fault::new(&code::BAD_VALUE, message).with_help(nearest::help(text.value, names));
            self.fault(fault, text.span.clone());
        }
        found
    }
}
