//! Typed reads from parsed TOML: each method returns a value, or records why there is none.
//!
//! The reader knows no key of the rule language. The rows of `schema` call it with the value of their key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::DeferredFault;
use super::draft::{Layer, PatternText, Place, WrittenKey};
use super::fault::Fault;
use super::fragment::{
    self, Expansion, FragmentUses, FragmentsByPack, PIECE_STEPS, PackFragments, SourceMap,
};
use super::problems::{Problems, Span};
use crate::pack::diagnostic::code;
use crate::pack::did_you_mean;
use crate::pack::escape::{self, quote};
use crate::pack::load_context::LoadContext;

/// The number of characters of a value that a help text repeats.
const SHOWN: usize = 40;

/// The cost of one entry of a list, in steps of [`Limits::load_steps`], besides its bytes: it is copied.
pub(in crate::pack) const LISTED_STEPS: usize = 16;

/// A string and the span of its TOML form, quotes included.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Text<'v> {
    pub(in crate::pack) value: &'v str,
    pub(in crate::pack) span: Span,
}

impl Text<'_> {
    /// Returns the span of the bytes `within` of the value. If the string has escapes, this is the span of the
    /// whole string.
    fn location(&self, source: &str, within: Option<&Range<usize>>) -> Span {
        within
            .zip(self.inner(source))
            .map(|(within, start)| start + within.start..start + within.end)
            .unwrap_or_else(|| self.span.clone())
    }

    /// Returns the offset of the value's first byte in `source`, if the value occurs there byte for byte.
    pub(in crate::pack) fn inner(&self, source: &str) -> Option<usize> {
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

/// An array of strings and its span.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Texts<'v> {
    pub(in crate::pack) items: Vec<Text<'v>>,
    pub(in crate::pack) span: Span,
}

/// The lists that `@name` can refer to in one file.
#[derive(Debug, Default)]
pub(in crate::pack) struct Lists {
    /// The lists of the file's own `[lists]`.
    pub(super) own: BTreeMap<String, NamedList>,
    /// The lists of packs that this one extends.
    pub(super) imported: BTreeMap<String, Arc<[String]>>,
}

/// A list of `[lists]`: its entries, and the span of each.
#[derive(Clone, Debug)]
pub(super) struct NamedList {
    pub(super) entries: Arc<[String]>,
    pub(super) spans: Vec<Span>,
}

impl Lists {
    fn contains(&self, name: &str) -> bool {
        self.own.contains_key(name) || self.imported.contains_key(name)
    }

    /// Returns the list that `text` refers to. All rules that refer to a list share it.
    pub(in crate::pack) fn shared(&self, text: &str) -> Option<Arc<[String]>> {
        let name = text.strip_prefix('@')?;
        let own = self.own.get(name).map(|list| &list.entries);
        own.or_else(|| self.imported.get(name)).map(Arc::clone)
    }
}

/// The places at which the keys and the patterns of a table are written.
#[derive(Debug, Default)]
pub(in crate::pack) struct KeyPlaces {
    pub(in crate::pack) given: Vec<WrittenKey>,
    pub(in crate::pack) patterns: Vec<PatternText>,
    /// Entries of scopes and arguments of patterns, except those that lists fill in.
    pub(in crate::pack) entries: Vec<PatternText>,
    pub(in crate::pack) cases: Vec<Place>,
    /// The paths of the keys with an error in their values.
    pub(in crate::pack) faulty: Vec<&'static str>,
}

/// Reads the values of one text and collects its problems.
#[derive(Debug)]
pub(in crate::pack) struct RuleReader<'t> {
    pub(in crate::pack) text: &'t str,
    /// The number of the file.
    pub(in crate::pack) file: usize,
    pub(in crate::pack) context: &'t LoadContext<'t>,
    pub(super) problems: Problems,
    /// The full id of the rule that is being read, for messages.
    pub(super) rule: Option<String>,
    pub(super) lists: Arc<Lists>,
    /// The fragments of all packs.
    pub(super) all_fragments: Arc<FragmentsByPack>,
    /// The fragments of the file's pack, once its name is known.
    fragments: Arc<PackFragments>,
    pub(super) fragment_uses: FragmentUses,
    /// Faults at places in other files.
    pub(super) in_other_files: Vec<DeferredFault>,
    /// The places recorded since [`take_origins`](Self::take_origins).
    origins: KeyPlaces,
    /// Work of the load so far, as [`Limits::load_steps`] counts it.
    pub(super) steps: u64,
    /// The number of entries of all scopes of the file, with lists filled in.
    pub(in crate::pack) scope_entries: usize,
}

impl<'t> RuleReader<'t> {
    pub(super) fn new(
        text: &'t str,
        file: usize,
        context: &'t LoadContext<'t>,
        steps: u64,
    ) -> RuleReader<'t> {
        RuleReader {
            text,
            file,
            context,
            problems: Problems::default(),
            rule: None,
            lists: Arc::default(),
            all_fragments: Arc::default(),
            fragments: Arc::default(),
            fragment_uses: FragmentUses::new(),
            in_other_files: Vec::new(),
            origins: KeyPlaces::default(),
            steps,
            scope_entries: 0,
        }
    }

    /// Records `fault` at `span`.
    pub(in crate::pack) fn fault(&mut self, fault: Fault, span: Span) {
        self.problems.push(fault, span, self.rule.clone());
    }

    /// Records `fault` at the bytes of `text` that the fault names, or at the whole text if it names none.
    pub(in crate::pack) fn fault_in(&mut self, fault: Fault, text: &Text<'_>) {
        let span = text.location(self.text, fault.within.as_ref());
        self.fault(fault, span);
    }

    /// Returns the name of a table for messages: `place`, and the rule that is being read.
    pub(super) fn describe(&self, place: &str) -> String {
        match &self.rule {
            Some(id) if place.is_empty() => format!("rule {}", quote(id)),
            Some(id) => format!("{place} of rule {}", quote(id)),
            None => place.to_owned(),
        }
    }

    pub(in crate::pack) fn locate(&self, span: Span) -> Place {
        Place {
            file: self.file,
            span,
        }
    }

    /// Adds `steps` to the work of the load.
    pub(in crate::pack) fn spend(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps as u64);
    }

    /// Returns true if the load has used up its work.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps > self.context.limits.load_steps
    }

    /// Records that the key at `path` is written at `span`.
    pub(in crate::pack) fn record_key(&mut self, path: &'static str, span: Span) {
        let (at, layer) = (self.locate(span), Layer::Rule);
        self.origins.given.push(WrittenKey { path, at, layer });
    }

    /// Records `fault` of an expanded pattern where the text that it is about is written, which may be in another file of
    /// the pack.
    pub(in crate::pack) fn fault_in_expansion(&mut self, fault: Fault, map: &SourceMap) {
        let place = map.locate(fault.within.as_ref());
        let fault = match map.is_in_fragment(&place) {
            true => fault.used_by(self.rule.as_deref()),
            false => fault,
        };
        if place.file == self.file {
            self.fault(fault, place.span);
        } else {
            self.problems.errors += 1;
            self.in_other_files.push(DeferredFault {
                place,
                rule: self.rule.clone(),
                fault,
            });
        }
    }

    /// Makes the fragments of `pack`, the pack of this file, available to its patterns.
    pub(super) fn use_fragments_of(&mut self, pack: &str) {
        let fragments = self.all_fragments.get(&fragment::scope(pack, self.file));
        self.fragments = fragments.map(Arc::clone).unwrap_or_default();
    }

    /// Returns the regular expression `text` with its fragments filled in, or `None` if it uses none. An error has been
    /// recorded.
    pub(in crate::pack) fn fill_fragments(
        &mut self,
        text: &Text<'_>,
    ) -> Option<Result<Expansion, ()>> {
        // Few bytes can become many, so the work is counted before each pattern.
        if self.is_exhausted() {
            return Some(Err(()));
        }
        let fragments = Arc::clone(&self.fragments);
        let (at, first) = (self.locate(text.span.clone()), text.inner(self.text));
        let (rule, uses) = (self.rule.as_ref(), &mut self.fragment_uses);
        let expanded = fragments.expand(text, at, first, self.context, |name| {
            fragments.record_use(name, rule, uses);
        })?;
        Some(match expanded {
            Ok(expansion) => {
                self.spend(expansion.map.len() * PIECE_STEPS);
                Ok(expansion)
            }
            Err(fault) => {
                self.spend(self.context.limits.pattern_bytes);
                // A fragment with a fault makes the rule unusable as well.
                self.problems.errors += usize::from(fault.is_none());
                if let Some(fault) = fault {
                    self.fault_in(fault, text);
                }
                Err(())
            }
        })
    }

    /// Records where the text of a pattern is written.
    pub(in crate::pack) fn record_pattern(&mut self, text: &Text<'_>, filled: Option<Expansion>) {
        let at = self.locate(text.span.clone());
        self.origins.patterns.push(match filled {
            Some(Expansion { text, map }) => PatternText {
                text,
                at,
                first: None,
                map: Some(Box::new(map)),
            },
            None => PatternText {
                text: text.value.to_owned(),
                at,
                first: text.inner(self.text),
                map: None,
            },
        });
    }

    /// Records where an entry of a scope, or an argument of a pattern, is written.
    pub(in crate::pack) fn record_entry(&mut self, text: &Text<'_>) {
        self.origins.entries.push(PatternText {
            text: text.value.to_owned(),
            at: self.locate(text.span.clone()),
            first: text.inner(self.text),
            map: None,
        });
    }

    /// Records that the value of the key at `path` has an error.
    pub(in crate::pack) fn record_faulty(&mut self, path: &'static str) {
        self.origins.faulty.push(path);
    }

    /// Records that a case is written at `span`.
    pub(in crate::pack) fn record_case(&mut self, span: Span) {
        let at = self.locate(span);
        self.origins.cases.push(at);
    }

    /// Returns the lists that `@name` can refer to.
    pub(in crate::pack) fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists)
    }

    /// Returns the number of errors so far.
    pub(in crate::pack) fn errors(&self) -> usize {
        self.problems.errors
    }

    /// Returns the places recorded since the last call.
    pub(in crate::pack) fn take_origins(&mut self) -> KeyPlaces {
        take(&mut self.origins)
    }

    /// Replaces the recorded places.
    pub(in crate::pack) fn set_origins(&mut self, origins: KeyPlaces) {
        self.origins = origins;
    }

    /// Records that `key` is not one of `names` in the table `place`.
    pub(in crate::pack) fn unknown_key(
        &mut self,
        key: &Spanned<Cow<'_, str>>,
        place: &str,
        names: &[&str],
    ) {
        let (name, table) = (quote(key.get_ref()), self.describe(place));
        let message = format!("unknown key {name} in {table}");
        let fault = Fault::new(&code::UNKNOWN_KEY, message);
        let help = did_you_mean::help(key.get_ref(), names);
        self.fault(fault.with_help(help), key.span());
    }

    /// Records that `key` is missing in the table `place`, which is at `span`.
    pub(in crate::pack) fn missing(&mut self, key: &str, place: &str, help: &str, span: Span) {
        let message = format!("missing key `{key}` in {}", self.describe(place));
        let fault = Fault::new(&code::MISSING_KEY, message);
        self.fault(fault.with_help(help), span);
    }

    /// Records that `key` has no entries.
    pub(in crate::pack) fn empty(&mut self, key: &str, span: Span) {
        let fault = Fault::new(&code::EMPTY_VALUE, format!("`{key}` is empty"));
        self.fault(fault.with_help("leave it out"), span);
    }

    /// Records that the value called `name` must be `expected`. `form` is the spelling of its key, if that is known.
    pub(in crate::pack) fn wrong_type(
        &mut self,
        name: &str,
        expected: &str,
        form: &str,
        found: &Spanned<DeValue<'_>>,
    ) {
        let found_type = type_name(found.get_ref());
        let message = format!("{name} must be {expected}, this is {found_type}");
        let mut fault = Fault::new(&code::WRONG_TYPE, message);
        // One text for a list is certain, so the help is the correction of this value.
        let is_one_text = expected == "an array of strings" && found.get_ref().is_str();
        fault.help = match form {
            "" => correction(expected, found.get_ref()),
            _ if is_one_text => correction(expected, found.get_ref()),
            form => Some(form.to_owned()),
        };
        self.fault(fault, found.span());
    }

    /// Returns `value` as a string. `name` is what messages call it.
    pub(in crate::pack) fn string<'v>(
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
                self.wrong_type(name, "a string", "", value);
                None
            }
        }
    }

    /// Returns `value` as a string that is not blank.
    pub(in crate::pack) fn filled_string<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        name: &str,
    ) -> Option<Text<'v>> {
        let text = self.string(value, name)?;
        if text.value.trim().is_empty() {
            let message = format!("{name} is empty");
            self.fault(Fault::new(&code::EMPTY_VALUE, message), text.span);
            return None;
        }
        Some(text)
    }

    /// Returns `value` as an array of strings, without the entries of another type.
    pub(in crate::pack) fn strings<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        name: &str,
        form: &str,
    ) -> Option<Texts<'v>> {
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type(name, "an array of strings", form, value);
            return None;
        };
        let item = format!("an entry of {name}");
        let items = array
            .iter()
            .filter_map(|value| self.string(value, &item))
            .collect();
        Some(Texts {
            items,
            span: value.span(),
        })
    }

    /// Returns `value` as an array of at least one string.
    pub(in crate::pack) fn filled_strings<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        key: &str,
        form: &str,
    ) -> Option<Texts<'v>> {
        let texts = self.strings(value, &quote(key), form)?;
        if texts.items.is_empty() {
            self.empty(key, texts.span);
            return None;
        }
        Some(texts)
    }

    /// Returns `value` as a list of strings: a string is a list of one.
    pub(in crate::pack) fn one_or_more<'v>(
        &mut self,
        value: &'v Spanned<DeValue<'_>>,
        key: &str,
        form: &str,
    ) -> Option<Texts<'v>> {
        let DeValue::String(text) = value.get_ref() else {
            return self.filled_strings(value, key, form);
        };
        let (value, span) = (text.as_ref(), value.span());
        let text = Text {
            value,
            span: span.clone(),
        };
        Some(Texts {
            items: vec![text],
            span,
        })
    }

    /// Returns `value` as a table.
    pub(in crate::pack) fn table<'v, 'i>(
        &mut self,
        value: &'v Spanned<DeValue<'i>>,
        name: &str,
        form: &str,
    ) -> Option<&'v DeTable<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.wrong_type(name, "a table", form, value);
                None
            }
        }
    }

    /// Returns the entries of `value`, which must be an array of tables.
    pub(in crate::pack) fn array<'v, 'i>(
        &mut self,
        value: &'v Spanned<DeValue<'i>>,
        name: &str,
        form: &str,
    ) -> Option<&'v [Spanned<DeValue<'i>>]> {
        match value.get_ref() {
            DeValue::Array(array) => Some(array),
            _ => {
                self.wrong_type(name, "an array of tables", form, value);
                None
            }
        }
    }

    /// Returns `value` as a whole number from `least` to `most`.
    pub(in crate::pack) fn whole(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        (least, most): (i64, i64),
    ) -> Option<i64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(&quote(key), "an integer", "", value);
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let help = format!("from {least} to {most}");
            self.out_of_range(key, integer.as_str(), help, value.span());
        }
        number
    }

    fn out_of_range(&mut self, key: &str, written: &str, help: String, span: Span) {
        let message = format!("`{key}` is {}, which is out of range", quote(written));
        self.fault(Fault::new(&code::BAD_VALUE, message).with_help(help), span);
    }

    /// Returns `value` in thousandths, if it is from `least` to `most` thousandths.
    pub(in crate::pack) fn thousandths(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        (least, most): (u32, u32),
    ) -> Option<u32> {
        let (written, number) = match value.get_ref() {
            DeValue::Integer(integer) => (
                integer.as_str(),
                i64::from_str_radix(integer.as_str(), integer.radix())
                    .map_or(f64::NAN, |n| n as f64),
            ),
            DeValue::Float(float) => (float.as_str(), float.as_str().parse().unwrap_or(f64::NAN)),
            _ => {
                self.wrong_type(&quote(key), "a number", "", value);
                return None;
            }
        };
        let thousandths = (number * 1000.0).round();
        if (f64::from(least)..=f64::from(most)).contains(&thousandths) {
            return Some(thousandths as u32);
        }
        let (least, most) = (f64::from(least) / 1000.0, f64::from(most) / 1000.0);
        let help = format!("from {least} to {most}");
        self.out_of_range(key, written, help, value.span());
        None
    }

    /// Returns `value` as a boolean.
    pub(in crate::pack) fn flag(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
    ) -> Option<bool> {
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(&quote(key), "a boolean", "", value);
        }
        flag
    }

    /// Returns the value that `text` names, where `names` are all names that `key` takes.
    pub(in crate::pack) fn value_of_name<V>(
        &mut self,
        text: &Text<'_>,
        key: &str,
        names: &[String],
        from_name: impl Fn(&str) -> Option<V>,
    ) -> Option<V> {
        let found = from_name(text.value);
        if found.is_none() {
            let message = format!("{} is not a value of `{key}`", quote(text.value));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let help = did_you_mean::help(text.value, &names);
            let fault = Fault::new(&code::BAD_VALUE, message);
            self.fault(fault.with_help(help), text.span.clone());
        }
        found
    }

    /// Returns the values that `texts` name, each at most once; `None` if one of them names nothing.
    pub(in crate::pack) fn all_named<V: PartialEq>(
        &mut self,
        texts: &Texts<'_>,
        key: &str,
        names: &[String],
        from_name: impl Fn(&str) -> Option<V>,
    ) -> Option<Vec<V>> {
        let mut values = Vec::new();
        let mut is_complete = true;
        for text in &texts.items {
            let Some(value) = self.value_of_name(text, key, names, &from_name) else {
                is_complete = false;
                continue;
            };
            if values.contains(&value) {
                let message = format!("`{key}` names {} twice", quote(text.value));
                self.fault(Fault::new(&code::BAD_VALUE, message), text.span.clone());
            }
            values.push(value);
        }
        is_complete.then_some(values)
    }

    /// Records the entries of `texts` that are blank.
    pub(in crate::pack) fn reject_blanks(&mut self, texts: &Texts<'_>, key: &str) {
        let is_blank = |text: &&Text<'_>| text.value.trim().is_empty();
        for text in texts.items.iter().filter(is_blank) {
            let fault = Fault::new(&code::EMPTY_VALUE, format!("an entry of `{key}` is empty"));
            self.fault(fault, text.span.clone());
        }
    }

    /// Records the texts that name a list, for keys in which lists are not filled in. A text such as `@Override`
    /// that is not the name of a list is an ordinary text.
    pub(in crate::pack) fn reject_list_names(&mut self, texts: &Texts<'_>, key: &str) {
        for text in &texts.items {
            let name = text.value.strip_prefix('@');
            if name.is_some_and(|name| self.lists.contains(name)) {
                let name = quote(text.value);
                let message = format!("{name} names a list, and `{key}` does not expand lists");
                let fault = Fault::new(&code::BAD_VALUE, message);
                let help =
                    "write out the entries; if the text is meant, give the list another name";
                self.fault(fault.with_help(help), text.span.clone());
            }
        }
    }

    /// Returns `text` itself, or the entries of the list in `lists` that it names.
    pub(in crate::pack) fn expand<'e>(
        &mut self,
        text: &Text<'e>,
        lists: &'e Lists,
    ) -> Vec<Text<'e>> {
        let Some(name) = text.value.strip_prefix('@') else {
            return vec![text.clone()];
        };
        if let Some(list) = lists.own.get(name) {
            let entries = list.entries.iter().zip(&list.spans);
            let entries = entries.map(|(value, span)| (value, span.clone()));
            return entries.map(|(value, span)| Text { value, span }).collect();
        }
        if let Some(list) = lists.imported.get(name) {
            let at = |value: &'e String| Text {
                value,
                span: text.span.clone(),
            };
            return list.iter().map(at).collect();
        }
        let own = lists.own.keys().chain(lists.imported.keys());
        let names: Vec<&str> = own.map(String::as_str).collect();
        let message = format!("there is no list {}", quote(name));
        let near = did_you_mean::help(name, &names);
        let help = format!("lists are defined in `[lists]`: {near}");
        let fault = Fault::new(&code::UNKNOWN_LIST, message).with_help(help);
        self.fault(fault, text.span.clone());
        Vec::new()
    }

    /// Returns the strings of `value` with lists filled in: at least one, none of them blank.
    pub(in crate::pack) fn expanded_strings(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        form: &str,
    ) -> Option<Vec<(String, Span)>> {
        let texts = self.filled_strings(value, key, form)?;
        self.reject_blanks(&texts, key);
        let lists = Arc::clone(&self.lists);
        let mut entries = Vec::new();
        for text in &texts.items {
            for entry in self.expand(text, &lists) {
                self.spend(entry.value.len() + LISTED_STEPS);
                entries.push((entry.value.to_owned(), entry.span));
            }
        }
        Some(entries)
    }
}

/// Returns the name of a value's type, for a message.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
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

/// Returns how a value of the expected type is written, if the value that was found shows what was meant.
fn correction(expected: &str, found: &DeValue<'_>) -> Option<String> {
    let help = match (expected, found) {
        ("an array of strings", DeValue::String(text)) => {
            let text = escape::capped(text, SHOWN);
            return Some(format!("put it in brackets: `[\"{text}\"]`"));
        }
        (expected, DeValue::Table(_)) if expected.starts_with("an array") => {
            "put it in brackets: `[{ … }]`"
        }
        ("an integer" | "a number" | "a boolean", DeValue::String(_)) => "write it without quotes",
        (
            "a string",
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_),
        ) => "put it in quotes",
        ("a string", DeValue::Array(_)) => "the value is one text, without brackets",
        _ => return None,
    };
    Some(help.to_owned())
}
