//! The formats of values: how each kind of value is read from TOML, checked and written.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{
    Format, Key, KeyInfo, Shape, TableKind, alternatives, check, read_table, shapes, values,
};
use super::{CASE, KeyValue, PATTERN, RELATED};
use crate::pack::check::actions::case_fault;
use crate::pack::check::draft::Place;
use crate::pack::check::fault::Fault;
use crate::pack::check::pattern::{self, FORM};
use crate::pack::check::problems::Span;
use crate::pack::check::reader::{LISTED_STEPS, RuleReader, Text, Texts};
use crate::pack::check::scope::{self, GlobKind};
use crate::pack::check::{ast, command, names};
use crate::pack::compose::{Date, id_glob};
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::load_context::LoadContext;
use crate::pack::message;
use crate::rule::{
    Action, Ast, Case, Channel, Checksum, Fold, KnownList, Mode, Named, Partial, Pattern,
    PatternKind, Per, Region, Severity, Status, ToolOutcome,
};

/// A text.
pub(super) struct WordsFormat {
    /// True if the text may be empty or blank.
    pub(super) may_be_blank: bool,
    pub(super) check: fn(&str) -> Vec<Fault>,
    /// True if the place of the text is recorded, for warnings about it.
    pub(super) is_recorded: bool,
    /// The value that the field gets.
    pub(super) convert: fn(&str) -> String,
}

impl WordsFormat {
    pub(super) const PLAIN: WordsFormat = WordsFormat {
        may_be_blank: true,
        check: |_| Vec::new(),
        is_recorded: false,
        convert: str::to_owned,
    };

    pub(super) const FILLED: WordsFormat = WordsFormat {
        may_be_blank: false,
        ..WordsFormat::PLAIN
    };

    /// The template of a message or a prompt.
    pub(super) const TEMPLATE: WordsFormat = WordsFormat {
        check: message::faults,
        ..WordsFormat::FILLED
    };

    /// Returns a text with a check.
    pub(super) const fn checked(check: fn(&str) -> Vec<Fault>) -> WordsFormat {
        WordsFormat {
            check,
            ..WordsFormat::PLAIN
        }
    }
}

/// A field that holds a text.
pub(super) trait TextField {
    fn from_text(text: String) -> Self;
    fn as_text(&self) -> Option<&str>;
}

impl TextField for String {
    fn from_text(text: String) -> String {
        text
    }

    fn as_text(&self) -> Option<&str> {
        Some(self)
    }
}

impl TextField for Option<String> {
    fn from_text(text: String) -> Option<String> {
        Some(text)
    }

    fn as_text(&self) -> Option<&str> {
        self.as_deref()
    }
}

impl<V: TextField> Format<V> for WordsFormat {
    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<V> {
        let name = quote(head.name());
        let text = match self.may_be_blank {
            true => reader.string(value, &name)?,
            false => reader.filled_string(value, &name)?,
        };
        for fault in (self.check)(text.value) {
            reader.fault_in(fault, &text);
        }
        if self.is_recorded {
            reader.record_entry(&text);
        }
        Some(V::from_text((self.convert)(text.value)))
    }

    fn write(&self, value: &V) -> KeyValue {
        let text = value.as_text();
        text.map_or(KeyValue::Absent, |text| KeyValue::Text(text.to_owned()))
    }

    fn check(&self, _: &KeyInfo, value: &V, _: &LoadContext<'_>, found: &mut Vec<Fault>) {
        // A text that is empty is not set.
        let text = value.as_text().filter(|text| !text.is_empty());
        found.extend(text.into_iter().flat_map(self.check));
    }
}

/// A group of a pattern: a number or a name.
pub(super) struct GroupReference;

impl Format<Option<String>> for GroupReference {
    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<String>> {
        if let DeValue::Integer(number) = value.get_ref() {
            return Some(Some(number.as_str().to_owned()));
        }
        WordsFormat::FILLED.read(head, value, reader)
    }

    fn write(&self, value: &Option<String>) -> KeyValue {
        let Some(name) = value else {
            return KeyValue::Absent;
        };
        let number = name.parse::<u32>();
        number.map_or_else(
            |_| KeyValue::Text(name.clone()),
            |number| KeyValue::Whole(number.into()),
        )
    }
}

/// A boolean.
pub(super) struct Flag;

impl Format<bool> for Flag {
    fn shape(&self) -> Shape {
        Shape::Flag
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<bool> {
        reader.flag(value, head.name())
    }

    fn write(&self, value: &bool) -> KeyValue {
        KeyValue::Flag(*value)
    }
}

/// A whole number between two bounds, both included.
pub(super) struct Integer(pub(super) i64, pub(super) i64);

/// A field that holds a whole number.
pub(super) trait NumberField: Sized {
    /// Returns the field with that number, if the field has room for it.
    fn from_number(number: i64) -> Option<Self>;
    fn number(&self) -> Option<i128>;
}

macro_rules! number_field {
    ($($number:ty),*) => {$(
        impl NumberField for $number {
            fn from_number(number: i64) -> Option<$number> {
                number.try_into().ok()
            }

            fn number(&self) -> Option<i128> {
                Some((*self).into())
            }
        }
    )*};
}
number_field!(i32, u32, u64);

impl<N: NumberField> NumberField for Option<N> {
    fn from_number(number: i64) -> Option<Option<N>> {
        N::from_number(number).map(Some)
    }

    fn number(&self) -> Option<i128> {
        self.as_ref().and_then(N::number)
    }
}

impl<V: NumberField> Format<V> for Integer {
    fn shape(&self) -> Shape {
        Shape::Whole(self.0, self.1)
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<V> {
        let number = reader.whole(value, head.name(), (self.0, self.1))?;
        V::from_number(number)
    }

    fn write(&self, value: &V) -> KeyValue {
        let number = value.number();
        number.map_or(KeyValue::Absent, |number| {
            KeyValue::Whole(number.try_into().unwrap_or(i64::MAX))
        })
    }

    fn check(&self, head: &KeyInfo, value: &V, _: &LoadContext<'_>, found: &mut Vec<Fault>) {
        found.extend(too_large(head, value.number(), self.1.into()));
    }
}

/// Returns the fault of a number that is larger than a file can set. Numbers that are too small are contradictions in
/// a file as well, and are found by `semantics`.
fn too_large(head: &KeyInfo, number: Option<i128>, most: i128) -> Option<Fault> {
    let number = number.filter(|number| *number > most)?;
    let message = format!("`{}` is {number}, limit is {most}", head.path);
    let fault = Fault::new(&code::BAD_VALUE, message);
    Some(fault.with_help("the same limit applies to rules in files"))
}

/// A number between two bounds in thousandths, both included.
pub(super) struct Thousandths(pub(super) u32, pub(super) u32);

/// A field that holds a number in thousandths.
pub(super) trait ThousandthsField: NumberField {
    fn write(number: i128) -> KeyValue;
}

impl ThousandthsField for Option<u32> {
    fn write(number: i128) -> KeyValue {
        KeyValue::Decimal(number as f64 / 1000.0)
    }
}

/// Returns seconds from milliseconds, as a whole number where they are whole.
fn seconds(millis: i128) -> KeyValue {
    match millis % 1000 {
        0 => KeyValue::Whole((millis / 1000).try_into().unwrap_or(i64::MAX)),
        _ => KeyValue::Decimal(millis as f64 / 1000.0),
    }
}

impl ThousandthsField for u64 {
    fn write(number: i128) -> KeyValue {
        seconds(number)
    }
}

impl ThousandthsField for Option<u64> {
    fn write(number: i128) -> KeyValue {
        seconds(number)
    }
}

impl<V: ThousandthsField> Format<V> for Thousandths {
    fn shape(&self) -> Shape {
        Shape::Thousandths(self.0, self.1)
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<V> {
        let number = reader.thousandths(value, head.name(), (self.0, self.1))?;
        V::from_number(number.into())
    }

    fn write(&self, value: &V) -> KeyValue {
        value.number().map_or(KeyValue::Absent, V::write)
    }

    fn check(&self, head: &KeyInfo, value: &V, _: &LoadContext<'_>, found: &mut Vec<Fault>) {
        found.extend(too_large(head, value.number(), self.1.into()));
    }
}

/// A smallest and a largest value, both whole numbers from 1 to a bound.
pub(super) struct IntegerRange(pub(super) i64);

impl Format<(u32, u32)> for IntegerRange {
    fn shape(&self) -> Shape {
        Shape::Pair(self.0)
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<(u32, u32)> {
        let entries = value.get_ref().as_array().filter(|array| array.len() == 2);
        let Some(entries) = entries else {
            let name = quote(head.name());
            reader.wrong_type(&name, "an array of two integers", head.form, value);
            return None;
        };
        let first = reader.whole(&entries[0], head.name(), (1, self.0))?;
        let second = reader.whole(&entries[1], head.name(), (first, self.0))?;
        Some((u32::try_from(first).ok()?, u32::try_from(second).ok()?))
    }

    fn write(&self, value: &(u32, u32)) -> KeyValue {
        let numbers = [value.0, value.1].map(|number| KeyValue::Whole(number.into()));
        KeyValue::List(numbers.to_vec())
    }

    fn check(
        &self,
        head: &KeyInfo,
        value: &(u32, u32),
        _: &LoadContext<'_>,
        found: &mut Vec<Fault>,
    ) {
        for number in [value.0, value.1] {
            found.extend(too_large(head, Some(number.into()), self.0.into()));
        }
    }
}

/// A value that rule files write as a name.
pub(super) trait Keyword: Clone + PartialEq + 'static {
    /// A regular expression for names besides those of [`all`](Self::all), and its form for authors.
    const OPEN: Option<(&'static str, &'static str)> = None;
    fn all() -> Vec<Self>;
    fn keyword(&self) -> String;
    fn from_keyword(name: &str) -> Option<Self>;
}

macro_rules! keyword {
    ($($name:ty),*) => {$(
        impl Keyword for $name {
            fn all() -> Vec<$name> {
                <$name>::ALL.to_vec()
            }

            fn keyword(&self) -> String {
                self.name().to_owned()
            }

            fn from_keyword(name: &str) -> Option<$name> {
                <$name>::from_name(name)
            }
        }
    )*};
}
keyword!(
    Action,
    Channel,
    Checksum,
    Fold,
    Mode,
    Named,
    Partial,
    Per,
    Severity,
    Status,
    ToolOutcome
);

impl Keyword for Region {
    const OPEN: Option<(&'static str, &'static str)> = Some(("^code:.+", "code:<language>"));

    fn all() -> Vec<Region> {
        Region::PLAIN.to_vec()
    }

    fn keyword(&self) -> String {
        self.name()
    }

    fn from_keyword(name: &str) -> Option<Region> {
        Region::from_name(name)
    }
}

fn keywords<E: Keyword>() -> Vec<String> {
    E::all().iter().map(E::keyword).collect()
}

/// One value that is written as a name.
pub(super) struct OneOf;

impl<E: Keyword> Format<E> for OneOf {
    fn shape(&self) -> Shape {
        Shape::OneOf(keywords::<E>())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<E> {
        let text = reader.string(value, &quote(head.name()))?;
        reader.value_of_name(&text, head.name(), &keywords::<E>(), E::from_keyword)
    }

    fn write(&self, value: &E) -> KeyValue {
        KeyValue::Text(value.keyword())
    }
}

/// One value that is written as a name, in a field that may be unset.
pub(super) struct OptionalOneOf;

impl<E: Keyword> Format<Option<E>> for OptionalOneOf {
    fn shape(&self) -> Shape {
        Shape::OneOf(keywords::<E>())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<E>> {
        OneOf.read(head, value, reader).map(Some)
    }

    fn write(&self, value: &Option<E>) -> KeyValue {
        let value = value.as_ref();
        value.map_or(KeyValue::Absent, |value| OneOf.write(value))
    }
}

/// One of the actions that may follow when the retries of a rule are used up.
pub(super) struct RetryThen;

impl RetryThen {
    pub(in crate::pack) const ALL: [Action; 5] = [
        Action::Observe,
        Action::Warn,
        Action::Inject,
        Action::Handoff,
        Action::Abort,
    ];

    fn names() -> Vec<String> {
        RetryThen::ALL
            .map(|action| action.name().to_owned())
            .to_vec()
    }
}

impl Format<Option<Action>> for RetryThen {
    fn shape(&self) -> Shape {
        Shape::OneOf(RetryThen::names())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<Action>> {
        let text = reader.string(value, &quote(head.name()))?;
        let from_name = |name: &str| RetryThen::ALL.into_iter().find(|then| then.name() == name);
        let then = reader.value_of_name(&text, head.name(), &RetryThen::names(), from_name);
        then.map(Some)
    }

    fn write(&self, value: &Option<Action>) -> KeyValue {
        value.map_or(KeyValue::Absent, |action| OneOf.write(&action))
    }
}

/// The action that a case expects; `None` is written as `nothing`.
pub(super) struct ExpectedAction;

impl ExpectedAction {
    fn names() -> Vec<String> {
        let mut names = keywords::<Action>();
        names.push("nothing".to_owned());
        names
    }
}

impl Format<Option<Action>> for ExpectedAction {
    fn shape(&self) -> Shape {
        Shape::OneOf(ExpectedAction::names())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<Action>> {
        let text = reader.string(value, &quote(head.name()))?;
        let from_name = |name: &str| match name {
            "nothing" => Some(None),
            name => Action::from_name(name).map(Some),
        };
        reader.value_of_name(&text, head.name(), &ExpectedAction::names(), from_name)
    }

    fn write(&self, value: &Option<Action>) -> KeyValue {
        KeyValue::Text(value.map_or("nothing", Action::name).to_owned())
    }
}

/// A list of values that are written as names.
pub(super) struct ListOf;

impl<E: Keyword> Format<Vec<E>> for ListOf {
    fn shape(&self) -> Shape {
        Shape::ListOf(keywords::<E>())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<E>> {
        let texts = reader.filled_strings(value, head.name(), head.form)?;
        let listed = reader.all_named(&texts, head.name(), &keywords::<E>(), E::from_keyword)?;
        Some(in_order(listed))
    }

    fn write(&self, value: &Vec<E>) -> KeyValue {
        KeyValue::texts(value.iter().map(E::keyword))
    }

    fn append(&self, to: &mut Vec<E>, from: &mut Vec<E>) {
        to.append(from);
        *to = in_order(std::mem::take(to));
        to.dedup();
    }
}

/// Returns the values in the order of [`Keyword::all`].
fn in_order<E: Keyword>(mut values: Vec<E>) -> Vec<E> {
    let all = E::all();
    values.sort_by_key(|value| all.iter().position(|one| one == value));
    values
}

/// The actions that a pack grants itself, which may be none.
pub(super) struct Grants;

impl Format<Option<Vec<Action>>> for Grants {
    fn shape(&self) -> Shape {
        Shape::ListOf(Grants::names())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<Vec<Action>>> {
        let texts = reader.strings(value, &quote(head.name()), head.form)?;
        let from_name = |name: &str| Action::from_name(name).filter(|action| action.needs_grant());
        let actions = reader.all_named(&texts, head.name(), &Grants::names(), from_name)?;
        Some(Some(actions))
    }

    fn write(&self, value: &Option<Vec<Action>>) -> KeyValue {
        let actions = value.as_ref();
        actions.map_or(KeyValue::Absent, |actions| ListOf.write(actions))
    }
}

impl Grants {
    fn names() -> Vec<String> {
        let granted = Action::ALL
            .into_iter()
            .filter(|action| action.needs_grant());
        granted.map(|action| action.name().to_owned()).collect()
    }
}

/// A list of some of these names.
pub(super) struct NameList(pub(super) &'static [&'static str]);

impl Format<Vec<String>> for NameList {
    fn shape(&self) -> Shape {
        Shape::ListOf(self.names())
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<String>> {
        let texts = reader.filled_strings(value, head.name(), head.form)?;
        let known = |name: &str| self.0.contains(&name).then(|| name.to_owned());
        reader.all_named(&texts, head.name(), &self.names(), known)
    }

    fn write(&self, value: &Vec<String>) -> KeyValue {
        KeyValue::texts(value)
    }
}

impl NameList {
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// A name, or a list of names. The values keep the order in which they are written, unless it has no meaning.
pub(super) struct OneOrMore {
    pub(super) is_ordered: bool,
}

impl<E: Keyword> Format<Vec<E>> for OneOrMore {
    fn shape(&self) -> Shape {
        Shape::OneOrMore(keywords::<E>(), E::OPEN.map(|(pattern, _)| pattern))
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<E>> {
        let texts = reader.one_or_more(value, head.name(), head.form)?;
        let mut names = keywords::<E>();
        names.extend(E::OPEN.map(|(_, form)| form.to_owned()));
        let listed = reader.all_named(&texts, head.name(), &names, E::from_keyword)?;
        Some(match self.is_ordered {
            true => listed,
            false => in_order(listed),
        })
    }

    fn write(&self, value: &Vec<E>) -> KeyValue {
        KeyValue::texts(value.iter().map(E::keyword))
    }
}

/// Globs of a scope, with lists filled in.
pub(super) struct Globs(pub(super) GlobKind);

impl Format<Vec<String>> for Globs {
    fn shape(&self) -> Shape {
        Shape::Texts
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<String>> {
        let texts = reader.strings(value, &quote(head.name()), head.form)?;
        Some(scope::read(&texts, head.name(), self.0, reader))
    }

    fn write(&self, value: &Vec<String>) -> KeyValue {
        KeyValue::texts(value)
    }

    fn append(&self, to: &mut Vec<String>, from: &mut Vec<String>) {
        to.append(from);
    }

    fn check(
        &self,
        head: &KeyInfo,
        value: &Vec<String>,
        _: &LoadContext<'_>,
        found: &mut Vec<Fault>,
    ) {
        let faults = value.iter().filter_map(|entry| scope::fault(self.0, entry));
        found.extend(faults);
        if value.len() > scope::ENTRIES {
            found.push(scope::too_many(head.name(), 0));
        }
    }
}

/// Texts, with lists filled in.
pub(super) struct ExpandedStrings {
    /// Returns the fault of an entry.
    pub(super) check: fn(&str) -> Option<Fault>,
}

impl ExpandedStrings {
    pub(super) const ANY: ExpandedStrings = ExpandedStrings { check: |_| None };
}

impl Format<Vec<String>> for ExpandedStrings {
    fn shape(&self) -> Shape {
        Shape::Texts
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<String>> {
        let texts = reader.expanded_strings(value, head.name(), head.form)?;
        for (text, span) in &texts {
            if let Some(fault) = (self.check)(text) {
                reader.fault(fault, span.clone());
            }
        }
        Some(texts.into_iter().map(|(text, _)| text).collect())
    }

    fn write(&self, value: &Vec<String>) -> KeyValue {
        KeyValue::texts(value)
    }

    fn append(&self, to: &mut Vec<String>, from: &mut Vec<String>) {
        to.append(from);
    }

    fn check(&self, _: &KeyInfo, value: &Vec<String>, _: &LoadContext<'_>, found: &mut Vec<Fault>) {
        found.extend(value.iter().filter_map(|text| (self.check)(text)));
    }
}

/// Texts in which no lists are filled in.
pub(super) struct LiteralStrings {
    /// True if the list may have no entries.
    pub(super) may_be_empty: bool,
}

impl Format<Vec<String>> for LiteralStrings {
    fn shape(&self) -> Shape {
        Shape::Texts
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<String>> {
        let texts = match self.may_be_empty {
            true => reader.strings(value, &quote(head.name()), head.form)?,
            false => reader.filled_strings(value, head.name(), head.form)?,
        };
        reader.reject_list_names(&texts, head.name());
        Some(owned(&texts))
    }

    fn write(&self, value: &Vec<String>) -> KeyValue {
        KeyValue::texts(value)
    }

    fn append(&self, to: &mut Vec<String>, from: &mut Vec<String>) {
        to.append(from);
    }
}

fn owned(texts: &Texts<'_>) -> Vec<String> {
    let texts = texts.items.iter();
    texts.map(|text| text.value.to_owned()).collect()
}

/// Names of packs, none of them twice.
pub(super) struct PackNames;

impl Format<Vec<String>> for PackNames {
    fn shape(&self) -> Shape {
        Shape::Texts
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<String>> {
        let texts = reader.filled_strings(value, head.name(), head.form)?;
        let mut packs: Vec<String> = Vec::new();
        for text in &texts.items {
            if let Some(fault) = names::pack_name_fault(text.value) {
                reader.fault_in(fault, text);
            } else if packs.iter().any(|name| name == text.value) {
                let message = format!("`{}` names {} twice", head.name(), quote(text.value));
                reader.fault(Fault::new(&code::BAD_VALUE, message), text.span.clone());
            } else {
                packs.push(text.value.to_owned());
            }
        }
        Some(packs)
    }

    fn write(&self, value: &Vec<String>) -> KeyValue {
        KeyValue::texts(value)
    }
}

/// Names that are known. Rules that name the same list share it.
pub(super) struct KnownNamesFormat;

impl Format<KnownList> for KnownNamesFormat {
    fn shape(&self) -> Shape {
        Shape::Texts
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<KnownList> {
        let texts = reader.filled_strings(value, head.name(), head.form)?;
        reader.reject_blanks(&texts, head.name());
        let lists = reader.lists();
        let mut known = KnownList::default();
        let mut single = Vec::new();
        for text in &texts.items {
            match lists.shared(text.value) {
                // Its entries were counted where the list is read.
                Some(list) => {
                    reader.spend(LISTED_STEPS);
                    known.add(list);
                }
                None => {
                    let entries = reader.expand(text, &lists);
                    let sizes = entries.iter().map(|it| it.value.len() + LISTED_STEPS);
                    reader.spend(sizes.sum());
                    single.extend(entries.iter().map(|entry| entry.value.to_owned()));
                }
            }
        }
        known.add(single.into());
        Some(known)
    }

    fn write(&self, value: &KnownList) -> KeyValue {
        KeyValue::texts(value.iter())
    }

    // The list may be long, and its rules many.
    fn is_set(&self, value: &KnownList) -> bool {
        value.iter().next().is_some()
    }
}

/// Globs on the full ids of rules, with the place of each.
pub(super) struct RuleGlobs;

impl Format<Vec<(String, Place)>> for RuleGlobs {
    fn shape(&self) -> Shape {
        Shape::Texts
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<(String, Place)>> {
        let globs = reader.expanded_strings(value, head.name(), head.form)?;
        for (glob, span) in &globs {
            if !glob.trim().is_empty() && id_glob(glob).is_none() {
                let message = format!("glob {} is not valid", quote(glob));
                reader.fault(Fault::new(&code::GLOB, message), span.clone());
            }
        }
        let globs = globs.into_iter();
        Some(
            globs
                .map(|(glob, span)| (glob, reader.locate(span)))
                .collect(),
        )
    }

    fn write(&self, value: &Vec<(String, Place)>) -> KeyValue {
        KeyValue::texts(value.iter().map(|(glob, _)| glob))
    }
}

/// A day, as a TOML date or as text.
pub(super) struct Day;

impl Format<Option<Date>> for Day {
    fn shape(&self) -> Shape {
        Shape::Date
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<Date>> {
        let written = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Datetime(date) => date.to_string(),
            _ => {
                reader.wrong_type(&quote(head.name()), "a date", head.form, value);
                return None;
            }
        };
        let date = Date::parse(&written);
        if date.is_none() {
            let message = format!("{} is not a day", quote(&written));
            let fault = Fault::new(&code::BAD_VALUE, message).with_help("such as `2027-01-31`");
            reader.fault(fault, value.span());
        }
        date.map(Some)
    }

    fn write(&self, value: &Option<Date>) -> KeyValue {
        value.map_or(KeyValue::Absent, |date| KeyValue::Text(date.to_string()))
    }
}

/// Reads one entry of an array of tables. Its keys are not recorded as keys of the rule.
fn read_entry<'v, 'i, S>(
    keys: &'static [Key<S>],
    value: &'v Spanned<DeValue<'i>>,
    (name, place, form): (&str, &str, &str),
    reader: &mut RuleReader<'_>,
    to: &mut S,
) -> Option<&'v DeTable<'i>> {
    let table = reader.table(value, name, form)?;
    let mut outer = reader.take_origins();
    let place = (place, value.span());
    read_table(keys, TableKind::Rule, table, place, reader, to);
    let mut inner = reader.take_origins();
    outer.patterns.append(&mut inner.patterns);
    outer.entries.append(&mut inner.entries);
    reader.set_origins(outer);
    Some(table)
}

/// Returns the alternatives of `keys` that `table` has.
fn written_alternatives<S>(keys: &[Key<S>], table: &DeTable<'_>) -> Vec<&'static str> {
    let mut names = alternatives(keys);
    names.retain(|name| table.contains_key(*name));
    names
}

/// A value that is written as one table of an array of tables.
pub(super) trait TableEntry: Sized + 'static {
    /// The keys of the table.
    const KEYS: &'static [Key<Self>];

    /// Reads one entry of the array `list`.
    fn read(value: &Spanned<DeValue<'_>>, list: &str, reader: &mut RuleReader<'_>) -> Option<Self>;

    /// Appends the faults of an entry that was made in code.
    fn check(&self, context: &LoadContext<'_>, found: &mut Vec<Fault>);

    /// Returns the fault of an empty array, if the array must not be empty.
    fn empty_fault(_list: &str) -> Option<Fault> {
        None
    }
}

/// An array of tables: the patterns of `any`, `all`, `sequence` or `none`, and the cases of a rule.
pub(super) struct TableArray;

impl<T: TableEntry> Format<Vec<T>> for TableArray {
    fn shape(&self) -> Shape {
        Shape::Tables(shapes(T::KEYS, TableKind::Rule))
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Vec<T>> {
        let name = head.name();
        let entries = reader.array(value, &quote(name), head.form)?;
        if entries.is_empty()
            && let Some(fault) = T::empty_fault(name)
        {
            reader.fault(fault, value.span());
        }
        let entries = entries.iter();
        let entries = entries.filter_map(|entry| T::read(entry, name, reader));
        Some(entries.collect())
    }

    fn write(&self, value: &Vec<T>) -> KeyValue {
        let table = |entry: &T| KeyValue::Table(values(T::KEYS, entry));
        KeyValue::List(value.iter().map(table).collect())
    }

    fn append(&self, to: &mut Vec<T>, from: &mut Vec<T>) {
        to.append(from);
    }

    fn check(
        &self,
        _: &KeyInfo,
        value: &Vec<T>,
        context: &LoadContext<'_>,
        found: &mut Vec<Fault>,
    ) {
        for entry in value {
            entry.check(context, found);
        }
    }
}

/// Reads a table of `keys` as a pattern.
fn read_pattern(
    keys: &'static [Key<Pattern>],
    value: &Spanned<DeValue<'_>>,
    names: (&str, &str, &str),
    reader: &mut RuleReader<'_>,
) -> Option<Pattern> {
    let mut pattern = Pattern::literal("");
    let table = read_entry(keys, value, names, reader, &mut pattern)?;
    let written = written_alternatives(keys, table);
    let [key] = written[..] else {
        let found = if written.is_empty() {
            "none"
        } else {
            "more than one"
        };
        let all: Vec<String> = alternatives(keys).into_iter().map(quote).collect();
        let (message, help) = match &all[..] {
            [only] => (format!("{} has no {only}", names.1), names.2),
            all => {
                let all = all.join(", ");
                let message = format!("a pattern has exactly one of {all}; this has {found}");
                (message, FORM)
            }
        };
        let fault = Fault::new(&code::PATTERN_FORM, message).with_help(help);
        reader.fault(fault, value.span());
        return None;
    };
    // A value of another type has been reported.
    let text = &table[key];
    text.get_ref().as_str()?;
    let text = reader.string(text, key)?;
    if pattern.kind == PatternKind::Command {
        let (items, span) = (vec![text.clone()], text.span.clone());
        reader.reject_list_names(&Texts { items, span }, key);
    }
    if read_pattern_text(&mut pattern, &text, reader).is_ok() {
        read_pattern_details(&mut pattern, table, value.span(), reader);
    }
    Some(pattern)
}

/// Replaces the fragments in the text of a pattern, and records its faults. `Err` if a fragment has a fault.
fn read_pattern_text(
    pattern: &mut Pattern,
    text: &Text<'_>,
    reader: &mut RuleReader<'_>,
) -> Result<(), ()> {
    let filled = match pattern.kind {
        PatternKind::Regex => reader.fill_fragments(text).transpose()?,
        _ => None,
    };
    if let Some(filled) = &filled {
        pattern.text.clone_from(&filled.text);
    }
    reader.spend(pattern::load_steps(&pattern.text));
    if let Some(fault) = pattern::fault(pattern, reader.context) {
        match &filled {
            Some(filled) => reader.fault_in_expansion(fault, &filled.map),
            None => reader.fault_in(fault, text),
        }
    }
    reader.record_pattern(text, filled);
    Ok(())
}

/// Reads the exception and the requirements on a command of a pattern, and records their faults. `span` is that of the
/// pattern, for faults of keys that are not written.
fn read_pattern_details(
    pattern: &mut Pattern,
    table: &DeTable<'_>,
    span: Span,
    reader: &mut RuleReader<'_>,
) {
    if let Some(value) = table.get("unless") {
        read_exception(pattern, value, reader);
    }
    if let Some(command) = pattern.command.as_deref_mut() {
        for (key, operand) in [
            ("operand", &mut command.operand),
            ("operands-all", &mut command.operands_all),
            ("last-operand", &mut command.last_operand),
            ("directory", &mut command.directory),
            ("code", &mut command.code),
            ("raw", &mut command.raw),
        ] {
            if let (Some(operand), Some(value)) = (operand.as_mut(), table.get(key)) {
                read_operand(operand, value, key, reader);
            }
        }
    }
    for (key, fault) in command::faults(pattern, reader.context) {
        // The faults in these values have been reported where they are written.
        let reported = [
            "operand",
            "operands-all",
            "last-operand",
            "directory",
            "code",
            "pipe-to",
            "pipe-from",
            "runs",
            "raw",
        ];
        let is_reported = reported.contains(&key);
        if !is_reported {
            let span = table.get(key).map_or(span.clone(), Spanned::span);
            reader.fault(fault, span);
        }
    }
}

/// Fills in the fragments of the exception of a pattern, and reports its fault.
fn read_exception(
    pattern: &mut Pattern,
    value: &Spanned<DeValue<'_>>,
    reader: &mut RuleReader<'_>,
) {
    // An empty text and a value of another type have been reported.
    if pattern.unless.is_none() {
        return;
    }
    let Some(text) = reader.string(value, "unless") else {
        return;
    };
    let Ok(filled) = reader.fill_fragments(&text).transpose() else {
        return;
    };
    if let Some(filled) = &filled {
        pattern.unless = Some(filled.text.clone());
    }
    let written = pattern.unless.as_deref().unwrap_or_default();
    reader.spend(pattern::load_steps(written));
    if let Some(fault) = pattern::exception_fault(pattern, reader.context) {
        match &filled {
            Some(filled) => reader.fault_in_expansion(fault, &filled.map),
            None => reader.fault_in(fault, &text),
        }
    }
    reader.record_pattern(&text, filled);
}

/// Fills in the fragments of a regular expression on operands, and reports its fault.
fn read_operand(
    operand: &mut String,
    value: &Spanned<DeValue<'_>>,
    key: &str,
    reader: &mut RuleReader<'_>,
) {
    let Some(text) = reader.string(value, key) else {
        return;
    };
    let Ok(filled) = reader.fill_fragments(&text).transpose() else {
        return;
    };
    if let Some(filled) = &filled {
        operand.clone_from(&filled.text);
    }
    reader.spend(pattern::load_steps(operand));
    if let Some(fault) = command::operand_fault(operand, reader.context) {
        match &filled {
            Some(filled) => reader.fault_in_expansion(fault, &filled.map),
            None => reader.fault_in(fault, &text),
        }
    }
}

/// A pattern of a command before or after another one in a pipeline, or of one that another one runs.
pub(super) struct RelatedCommand;

impl Format<Option<Box<Pattern>>> for RelatedCommand {
    fn shape(&self) -> Shape {
        Shape::Table(shapes(RELATED, TableKind::Rule))
    }

    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<Option<Box<Pattern>>> {
        let name = quote(head.name());
        let related = read_pattern(RELATED, value, (&name, &name, head.form), reader)?;
        Some(Some(Box::new(related)))
    }

    fn write(&self, value: &Option<Box<Pattern>>) -> KeyValue {
        let table = value.as_ref().map(|related| values(RELATED, &**related));
        table.map_or(KeyValue::Absent, KeyValue::Table)
    }
}

impl TableEntry for Pattern {
    const KEYS: &'static [Key<Pattern>] = PATTERN;

    fn read(
        value: &Spanned<DeValue<'_>>,
        list: &str,
        reader: &mut RuleReader<'_>,
    ) -> Option<Pattern> {
        let name = format!("an entry of `{list}`");
        let form = match value.get_ref() {
            DeValue::String(text) => {
                let text = escape::capped(text, 40);
                format!(
                    "write `{{ literal = '{text}' }}` to match exactly this text, or `word` or `regex` instead of `literal`"
                )
            }
            _ => String::new(),
        };
        let names = (name.as_str(), "a pattern", form.as_str());
        read_pattern(PATTERN, value, names, reader)
    }

    fn check(&self, context: &LoadContext<'_>, found: &mut Vec<Fault>) {
        found.extend(pattern::fault(self, context));
        found.extend(pattern::exception_fault(self, context));
        found.extend(
            command::faults(self, context)
                .into_iter()
                .map(|(_, fault)| fault),
        );
        check(PATTERN, self, context, found);
    }

    fn empty_fault(list: &str) -> Option<Fault> {
        let message = format!("`{list}` is empty: nothing could break the rule");
        Some(Fault::new(&code::EMPTY_VALUE, message).with_help(FORM))
    }
}

impl TableEntry for Case {
    const KEYS: &'static [Key<Case>] = CASE;

    fn read(value: &Spanned<DeValue<'_>>, list: &str, reader: &mut RuleReader<'_>) -> Option<Case> {
        let mut case = Case {
            channel: Channel::Text,
            text: String::new(),
            tool: None,
            path: None,
            expect: None,
            by_byte: None,
        };
        let name = format!("an entry of `{list}`");
        let names = (name.as_str(), "a case", "");
        let errors = reader.errors();
        let table = read_entry(CASE, value, names, reader, &mut case)?;
        let is_complete = reader.errors() == errors;
        if written_alternatives(CASE, table).len() != 1 {
            let message = "a case has exactly one of `text`, `reasoning`, `input`";
            reader.fault(Fault::new(&code::BAD_VALUE, message), value.span());
            return None;
        }
        if let Some(fault) = case_fault(&case).filter(|_| is_complete) {
            reader.fault(fault, value.span());
        }
        reader.record_case(value.span());
        Some(case)
    }

    fn check(&self, _: &LoadContext<'_>, found: &mut Vec<Fault>) {
        found.extend(case_fault(self));
    }
}

/// Reports the patterns of `match.ast` that are not code of its languages.
pub(super) fn check_ast(ast: &Ast, table: &DeTable<'_>, reader: &mut RuleReader<'_>) {
    for key in ["any", "inside", "not"] {
        let patterns = table.get(key).and_then(|value| value.get_ref().as_array());
        for value in patterns.into_iter().flatten() {
            if value.get_ref().as_str().is_some()
                && let Some(text) = reader.string(value, key)
                && let Some(fault) = ast::pattern_fault(&ast.languages, text.value)
            {
                reader.fault_in(fault, &text);
            }
        }
    }
}

/// Returns the fault of a text that is not the full id of a rule.
pub(super) fn rule_id(text: &str) -> Vec<Fault> {
    names::full_id_fault(text).into_iter().collect()
}
