//! Reading keys of a TOML table: each getter returns the value or reports why there is none.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{Given, Layer, Place};
use super::fault::Fault;
use super::{Span, Walk};
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::nearest;
use crate::pack::schema::{self, Key, Keys, Shape};

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
    pub(super) fn inner(&self, source: &str) -> Option<usize> {
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
    /// Reports every key of `table`, and of the tables in it, that is not one of `keys`.
    pub(super) fn known(&mut self, table: &DeTable<'_>, place: &str, keys: Keys) {
        self.given(table, place, keys, &mut Vec::new());
    }

    /// The same, and notes in `given` where each key is written that is known.
    pub(super) fn given(
        &mut self,
        table: &DeTable<'_>,
        place: &str,
        keys: Keys,
        given: &mut Vec<Given>,
    ) {
        for (key, value) in table.iter() {
            let Some(known) = keys.iter().find(|known| known.name() == key.get_ref()) else {
                self.unknown(key, place, keys);
                continue;
            };
            if let Shape::Table(inner) = known.shape {
                let is_detector = known.path.starts_with("match.");
                let is_read_apart = ["append", "defaults"].contains(&known.path);
                let DeValue::Table(table) = value.get_ref() else {
                    continue;
                };
                if !is_read_apart {
                    let place = match known.path {
                        "pack" => "`[pack]`".to_owned(),
                        _ => format!("`{}`", known.name()),
                    };
                    self.given(table, &place, inner, given);
                }
                if table.is_empty() && !is_detector {
                    self.empty_table(known.path, value.span());
                }
                // A detector may be written without any of its keys.
                if !table.is_empty() || !is_detector {
                    continue;
                }
            }
            let at = Place {
                file: self.file,
                span: key.span(),
            };
            let layer = Layer::Rule;
            given.push(Given {
                path: known.path,
                at,
                layer,
            });
        }
    }

    fn unknown(&mut self, key: &Spanned<Cow<'_, str>>, place: &str, keys: Keys) {
        let names: Vec<&str> = keys.iter().map(Key::name).collect();
        let message = format!("unknown key {} in {}", quote(key.get_ref()), self.at(place));
        let fault =
            Fault::new(&code::UNKNOWN_KEY, message).with_help(nearest::help(key.get_ref(), &names));
        self.fault(fault, key.span());
    }

    /// A table without keys, where it could as well be left out.
    fn empty_table(&mut self, path: &str, span: Span) {
        if !["pack", "defaults", "lists", "match", "examples"].contains(&path) {
            let fault = Fault::new(&code::EMPTY_VALUE, format!("`{path}` is empty"));
            self.fault(fault.with_help("leave it out"), span);
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

    pub(super) fn wrong_type(&mut self, name: &str, expected: &str, found: &Spanned<DeValue<'_>>) {
        let message = format!(
            "{name} must be {expected}, this is {}",
            kind(found.get_ref())
        );
        let mut fault = Fault::new(&code::WRONG_TYPE, message);
        fault.help = shape(name, expected, found.get_ref());
        self.fault(fault, found.span());
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

    /// The whole number at the key with that path, if there is one between its bounds.
    pub(super) fn whole(&mut self, table: &DeTable<'_>, path: &'static str) -> Option<i64> {
        let value = table.get(schema::name(path))?;
        let Shape::Whole(least, most) = schema::shape(path) else {
            unreachable!("{path} is not a whole number");
        };
        self.integer(value, path, least, most)
    }

    /// The same as an unsigned number: its bounds leave no other.
    pub(super) fn count(&mut self, table: &DeTable<'_>, path: &'static str) -> Option<u32> {
        let number = self.whole(table, path)?;
        Some(u32::try_from(number).expect("the bounds of counts are those of a u32"))
    }

    /// The two whole numbers at the key with that path.
    pub(super) fn pair(&mut self, table: &DeTable<'_>, path: &'static str) -> Option<(u32, u32)> {
        let value = table.get(schema::name(path))?;
        let Shape::Pair(most) = schema::shape(path) else {
            unreachable!("{path} is not a pair");
        };
        let entries = value.get_ref().as_array().filter(|array| array.len() == 2);
        let Some(entries) = entries else {
            let name = quote(schema::name(path));
            self.wrong_type(&name, "an array of two integers", value);
            return None;
        };
        let first = self.integer(&entries[0], path, 1, most)?;
        let second = self.integer(&entries[1], path, first, most)?;
        Some((u32::try_from(first).ok()?, u32::try_from(second).ok()?))
    }

    fn integer(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        path: &'static str,
        least: i64,
        most: i64,
    ) -> Option<i64> {
        let name = schema::name(path);
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(&quote(name), "an integer", value);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let help = format!("from {least} to {most}");
            self.out_of_range(name, integer.as_str(), help, value.span());
        }
        number
    }

    fn out_of_range(&mut self, name: &str, written: &str, help: String, span: Span) {
        let message = format!("`{name}` is {}, which is out of range", quote(written));
        self.fault(Fault::new(&code::BAD_VALUE, message).with_help(help), span);
    }

    /// The number at the key with that path in thousandths, if there is one between its bounds.
    pub(super) fn decimal(&mut self, table: &DeTable<'_>, path: &'static str) -> Option<u32> {
        let name = schema::name(path);
        let value = table.get(name)?;
        let Shape::Decimal(least, most) = schema::shape(path) else {
            unreachable!("{path} is not a decimal number");
        };
        let (written, number) = match value.get_ref() {
            DeValue::Integer(integer) => (
                integer.as_str(),
                i64::from_str_radix(integer.as_str(), integer.radix())
                    .map_or(f64::NAN, |n| n as f64),
            ),
            DeValue::Float(float) => (float.as_str(), float.as_str().parse().unwrap_or(f64::NAN)),
            _ => {
                self.wrong_type(&quote(name), "a number", value);
                return None;
            }
        };
        let thousandths = (number * 1000.0).round();
        if (f64::from(least)..=f64::from(most)).contains(&thousandths) {
            return Some(thousandths as u32);
        }
        let (least, most) = (f64::from(least) / 1000.0, f64::from(most) / 1000.0);
        self.out_of_range(
            name,
            written,
            format!("from {least} to {most}"),
            value.span(),
        );
        None
    }

    /// The boolean at `key`, if there is one.
    pub(super) fn flag(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(&quote(key), "a boolean", value);
        }
        flag
    }

    /// The names at `key`, none of them twice; `from_name` knows them.
    pub(super) fn list_of<T: PartialEq>(
        &mut self,
        texts: Texts<'_>,
        key: &str,
        names: &[String],
        from_name: fn(&str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut values = Vec::new();
        let mut is_whole = true;
        for text in &texts.items {
            let Some(value) = self.named(text, key, &names, from_name) else {
                is_whole = false;
                continue;
            };
            if values.contains(&value) {
                let message = format!("`{key}` names {} twice", quote(text.value));
                self.fault(Fault::new(&code::BAD_VALUE, message), text.span.clone());
            }
            values.push(value);
        }
        is_whole.then_some(values)
    }

    /// The string at `key` as a list of one, or the strings of the array there; never empty.
    pub(super) fn one_or_more<'v>(
        &mut self,
        table: &'v DeTable<'_>,
        key: &str,
    ) -> Option<Texts<'v>> {
        let value = table.get(key)?;
        if let DeValue::String(text) = value.get_ref() {
            let (value, span) = (text.as_ref(), value.span());
            let items = vec![Text {
                value,
                span: span.clone(),
            }];
            return Some(Texts { items, span });
        }
        self.filled_strings(table, key)
    }

    /// The strings at `key`, of which there must be one.
    pub(super) fn filled_strings<'v>(
        &mut self,
        table: &'v DeTable<'_>,
        key: &str,
    ) -> Option<Texts<'v>> {
        let texts = self.strings(table, key)?;
        if texts.items.is_empty() {
            let fault = Fault::new(&code::EMPTY_VALUE, format!("`{key}` is empty"));
            self.fault(fault.with_help("leave it out"), texts.span);
            return None;
        }
        Some(texts)
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

/// How a value of the right type is written.
fn shape(name: &str, expected: &str, found: &DeValue<'_>) -> Option<String> {
    shape_of_key(name.trim_matches('`'), expected, found).or_else(|| shape_of_type(expected, found))
}

fn shape_of_key(name: &str, expected: &str, found: &DeValue<'_>) -> Option<String> {
    let shape = match (name, found) {
        // `examples.match` has the same name.
        ("match", _) if expected == "a table" => super::pattern::FORM,
        ("within", _) => {
            "write `within = { lines = 3 }`, or `chars`, `part` or `message` instead of `lines`"
        }
        ("retry", _) => "write `retry = { max = 2 }`",
        ("repeat", _) => "write `repeat = { per-session = 1 }`, or `per-turn` or `cooldown-turns`",
        ("allowance", _) => "write `allowance = { per-turn = 2 }`, or `per-session`",
        ("examples", _) => "write `examples.match = [\"…\"]` and `examples.no-match = [\"…\"]`",
        ("fold", DeValue::Boolean(_)) => "name what is not told apart: `fold = [\"case\"]`",
        ("rule", DeValue::Array(_)) => {
            "a rule begins with its id: `[rule.its-id]`, with one bracket"
        }
        ("case", DeValue::Table(_)) => {
            "there may be several: `[[rule.its-id.case]]`, with two brackets"
        }
        ("allow", DeValue::Table(_)) => "there may be several: `[[allow]]`, with two brackets",
        (name, DeValue::String(text))
            if name.starts_with("an entry of `") && expected == "a table" =>
        {
            let text = escape::capped(text, SHOWN);
            return Some(format!(
                "write `{{ literal = '{text}' }}` for the text as it stands, or `word` or `regex` instead of `literal`"
            ));
        }
        _ => return None,
    };
    Some(shape.to_owned())
}

fn shape_of_type(expected: &str, found: &DeValue<'_>) -> Option<String> {
    let shape = match (expected, found) {
        ("an array of strings", DeValue::String(text)) => {
            return Some(format!(
                "put it in brackets: `[\"{}\"]`",
                escape::capped(text, SHOWN)
            ));
        }
        (expected, DeValue::Table(_)) if expected.starts_with("an array") => {
            "put it in brackets: `[{ … }]`"
        }
        ("an integer" | "a number" | "a boolean", DeValue::String(_)) => "write it without quotes",
        (
            "a string",
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_),
        ) => "put it in quotes",
        ("a string", DeValue::Array(_)) => "it takes one text, without brackets",
        _ => return None,
    };
    Some(shape.to_owned())
}

/// Most characters of a text that a help repeats.
const SHOWN: usize = 40;
