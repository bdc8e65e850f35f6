//! The machinery of the key tables: a row describes a key and gives typed access to the field that holds its value.
//!
//! A table of rows has the type whose fields its keys set: `&[Key<Retry>]` for `retry`. Everything that walks the
//! keys of a rule is generic over that type and written here once: reading, writing, overriding, checking.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::KeyValue;
use crate::pack::check::draft::{Draft, Place, WrittenKey};
use crate::pack::check::fault::Fault;
use crate::pack::check::problems::Span;
use crate::pack::check::reader::RuleReader;
use crate::pack::escape::quote;
use crate::pack::load_context::LoadContext;
use crate::rule::{Action, Channel};

/// One key of a table: its description, and the field of `T` that holds its value.
pub(in crate::pack) struct Key<T: 'static> {
    pub(in crate::pack) head: KeyInfo,
    pub(super) field: &'static dyn Field<T>,
}

/// The description of a key.
#[derive(Clone, Copy, Debug)]
pub(in crate::pack) struct KeyInfo {
    /// The path of the key below the rule or the table that the rows belong to, such as `retry.max`.
    pub(in crate::pack) path: &'static str,
    /// One sentence for authors.
    pub(in crate::pack) about: &'static str,
    /// The value that holds where the key is not written, in TOML; empty if there is none.
    pub(in crate::pack) default: &'static str,
    /// Help for a value of the wrong type: how the key is written. Empty if the type says it.
    pub(in crate::pack) form: &'static str,
    /// Help where the key is missing; empty if the key is optional.
    pub(in crate::pack) required: &'static str,
    /// True if `[defaults]` may have the key.
    inherits: bool,
    /// True if `append` of an override may have the key.
    appends: bool,
    /// True if only an override may have the key.
    is_of_overrides: bool,
    pub(in crate::pack) role: KeyRole,
    /// The only action that uses the key; `None` if all do.
    pub(in crate::pack) action: Option<Action>,
    /// The channels on which the key has an effect; empty for all of them.
    pub(in crate::pack) channels: &'static [Channel],
}

/// The part that a key plays in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pack) enum KeyRole {
    Plain,
    /// One of the keys of `match` that decide a hit; a rule has exactly one of them.
    Trigger,
    /// A table has exactly one of its keys with this role.
    Alternative,
    /// The key is shown only where it is set.
    Requirement,
    /// The value is copied into other keys when the rule is complete, and is not part of the finished rule.
    Staged,
}

/// The kind of a table of rule keys. It decides which rows the table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pack) enum TableKind {
    Defaults,
    Rule,
    Override,
    Append,
}

impl TableKind {
    /// Returns the kind of the tables inside a table of this kind.
    fn inner(self) -> TableKind {
        match self {
            TableKind::Append => TableKind::Append,
            _ => TableKind::Rule,
        }
    }
}

impl<T> Key<T> {
    /// Returns a row for an optional key of a rule.
    pub(super) const fn new(
        path: &'static str,
        field: &'static dyn Field<T>,
        about: &'static str,
    ) -> Key<T> {
        let head = KeyInfo {
            path,
            about,
            default: "",
            form: "",
            required: "",
            inherits: false,
            appends: false,
            is_of_overrides: false,
            role: KeyRole::Plain,
            action: None,
            channels: &[],
        };
        Key { head, field }
    }

    /// Sets the value that holds where the key is not written, in TOML.
    pub(super) const fn or(mut self, default: &'static str) -> Key<T> {
        self.head.default = default;
        self
    }

    /// Sets the help for a value of the wrong type.
    pub(super) const fn form(mut self, form: &'static str) -> Key<T> {
        self.head.form = form;
        self
    }

    /// Makes the key required in a rule; `help` says what to write.
    pub(super) const fn required(mut self, help: &'static str) -> Key<T> {
        self.head.required = help;
        self
    }

    /// Admits the key in `[defaults]`.
    pub(super) const fn inherits(mut self) -> Key<T> {
        self.head.inherits = true;
        self
    }

    /// Admits the key in `append` of an override, where its entries are added.
    pub(super) const fn appends(mut self) -> Key<T> {
        self.head.appends = true;
        self
    }

    /// Admits the key in overrides only.
    pub(super) const fn overrides_only(mut self) -> Key<T> {
        self.head.is_of_overrides = true;
        self
    }

    pub(super) const fn role(mut self, role: KeyRole) -> Key<T> {
        self.head.role = role;
        self
    }

    /// Ties the key to an action: with another action it has no effect.
    pub(super) const fn for_action(mut self, action: Action) -> Key<T> {
        self.head.action = Some(action);
        self
    }

    /// Ties the key to channels: on others it has no effect.
    pub(super) const fn for_channels(mut self, channels: &'static [Channel]) -> Key<T> {
        self.head.channels = channels;
        self
    }

    /// Returns true if the value is set and is not what an unset key holds.
    pub(in crate::pack) fn is_set(&self, values: &T) -> bool {
        self.field.is_set(values)
    }

    /// Returns the value.
    pub(in crate::pack) fn value(&self, values: &T) -> KeyValue {
        self.field.write(values)
    }

    /// Exchanges the value with that of `other`.
    pub(in crate::pack) fn swap(&self, values: &mut T, other: &mut T) {
        self.field.swap(values, other);
    }
}

impl KeyInfo {
    /// Returns the last segment of the path, which is what an author writes.
    pub(in crate::pack) fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Returns true if the key has an effect on one of the channels.
    pub(in crate::pack) fn reads_any(&self, on: &[Channel]) -> bool {
        self.channels.is_empty() || self.channels.iter().any(|channel| on.contains(channel))
    }

    fn is_admitted(&self, kind: TableKind) -> bool {
        match kind {
            TableKind::Defaults => self.inherits,
            TableKind::Rule => !self.is_of_overrides,
            TableKind::Override => true,
            TableKind::Append => self.appends,
        }
    }
}

/// Returns true if `path` is `key` or a key below it.
pub(in crate::pack) fn is_at_or_below(path: &str, key: &str) -> bool {
    let rest = path.strip_prefix(key);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The access to a key's value in a `T`.
///
/// Implemented by [`FieldSlot`] for a value in a field, by [`KeyTable`] for a table of keys in a field, and by a few types of
/// their own where a key and a field do not correspond.
pub(in crate::pack) trait Field<T>: Sync {
    /// Returns the description of the values that the key takes in a table of that kind.
    fn shape(&self, kind: TableKind) -> Shape;

    /// Reads the value of a key into its field. The reader records what is wrong with it.
    fn read(
        &self,
        site: &KeySite<'_>,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
        to: &mut T,
    );

    /// Returns the value of the field as it is written. The default of this method and of those that follow is for a key
    /// whose value no field holds.
    fn write(&self, _from: &T) -> KeyValue {
        KeyValue::Absent
    }

    /// Returns true if the value of [`write`](Self::write) says something.
    fn is_set(&self, from: &T) -> bool {
        self.write(from).is_some()
    }

    /// Exchanges the whole value with that of `other`.
    fn swap(&self, _values: &mut T, _other: &mut T) {}

    /// Moves the values of the keys in `given` from `from` to `to`.
    fn replace(&self, _to: &mut T, _from: &mut T, _given: &[WrittenKey]) {}

    /// Adds the entries of the keys in `given` from `from` to `to`.
    fn append(&self, _to: &mut T, _from: &mut T, _given: &[WrittenKey]) {}

    /// Appends to `found` everything that is wrong with the value of a rule made in code.
    fn check(
        &self,
        _head: &KeyInfo,
        _values: &T,
        _context: &LoadContext<'_>,
        _found: &mut Vec<Fault>,
    ) {
    }
}

/// A place at which a key is written.
#[derive(Debug)]
pub(in crate::pack) struct KeySite<'s> {
    pub(super) head: &'s KeyInfo,
    pub(super) kind: TableKind,
    /// The span of the key.
    pub(super) span: Span,
}

/// The values that a key takes, without the type of the field that holds them.
#[derive(Clone, Debug)]
pub(in crate::pack) enum Shape {
    /// The number of the schema.
    Schema,
    Text,
    /// One of these names.
    OneOf(Vec<String>),
    Flag,
    /// A whole number between two bounds, both included.
    Whole(i64, i64),
    /// A number between two bounds in thousandths, both included.
    Thousandths(u32, u32),
    /// A smallest and a largest value, both whole numbers of at most this bound.
    Pair(i64),
    /// A date, as a TOML date or as text.
    Date,
    Texts,
    /// A list of some of these names.
    ListOf(Vec<String>),
    /// One of these names or a list of them; other names must match the pattern.
    OneOrMore(Vec<String>, Option<&'static str>),
    Table(Vec<KeyShape>),
    Tables(Vec<KeyShape>),
    /// A table of tables with names chosen by the author.
    NamedTables(Vec<KeyShape>),
    /// A table of texts with names chosen by the author.
    NamedText,
    /// A table of lists of texts with names chosen by the author.
    NamedTexts,
}

/// A key without the type of its field.
#[derive(Clone, Debug)]
pub(in crate::pack) struct KeyShape {
    pub(in crate::pack) head: KeyInfo,
    pub(in crate::pack) shape: Shape,
}

/// Returns the keys that a table of that kind may have.
pub(in crate::pack) fn shapes<T>(keys: &[Key<T>], kind: TableKind) -> Vec<KeyShape> {
    let admitted = keys.iter().filter(|key| key.head.is_admitted(kind));
    let shape = |key: &Key<T>| KeyShape {
        head: key.head,
        shape: key.field.shape(kind.inner()),
    };
    admitted.map(shape).collect()
}

/// Reads the keys of `table` into `to`. `place` is the name of the table in messages, and `span` the place at which
/// missing keys are reported.
pub(in crate::pack) fn read_table<T>(
    keys: &'static [Key<T>],
    kind: TableKind,
    table: &DeTable<'_>,
    (place, span): (&str, Span),
    reader: &mut RuleReader<'_>,
    to: &mut T,
) {
    let admitted = || keys.iter().filter(|key| key.head.is_admitted(kind));
    for (name, value) in table.iter() {
        let Some(key) = admitted().find(|key| key.head.name() == name.get_ref()) else {
            let names: Vec<&str> = admitted().map(|key| key.head.name()).collect();
            reader.unknown_key(name, place, &names);
            continue;
        };
        let site = KeySite {
            head: &key.head,
            kind: kind.inner(),
            span: name.span(),
        };
        let errors = reader.errors();
        key.field.read(&site, value, reader, to);
        if reader.errors() != errors {
            reader.record_faulty(key.head.path);
        }
    }
    let is_whole = kind == TableKind::Rule;
    let required = keys.iter().filter(|key| !key.head.required.is_empty());
    for Key { head, .. } in required.filter(|_| is_whole) {
        if !table.contains_key(head.name()) {
            reader.missing(head.name(), place, head.required, span.clone());
        }
    }
}

/// Returns the values of all keys of a finished rule, in the order of the table.
pub(in crate::pack) fn values<T>(keys: &[Key<T>], from: &T) -> Vec<(&'static str, KeyValue)> {
    let mut values = Vec::new();
    for Key { head, field } in keys {
        let value = field.write(from);
        let is_hidden = matches!(head.role, KeyRole::Alternative | KeyRole::Requirement);
        let is_other = is_hidden && !value.is_some();
        if head.role != KeyRole::Staged && !head.is_of_overrides && !is_other {
            values.push((head.name(), value));
        }
    }
    values
}

/// Moves the values of the keys in `given` from `from` to `to`.
pub(in crate::pack) fn replace<T>(keys: &[Key<T>], to: &mut T, from: &mut T, given: &[WrittenKey]) {
    for key in keys {
        if is_given(key, given) {
            key.field.replace(to, from, given);
        }
    }
}

/// Adds the entries of the keys in `given` from `from` to `to`.
pub(in crate::pack) fn append<T>(keys: &[Key<T>], to: &mut T, from: &mut T, given: &[WrittenKey]) {
    for key in keys {
        if is_given(key, given) {
            key.field.append(to, from, given);
        }
    }
}

fn is_given<T>(key: &Key<T>, given: &[WrittenKey]) -> bool {
    let mut given = given.iter();
    given.any(|given| is_at_or_below(given.path, key.head.path))
}

/// Appends to `found` everything that is wrong with single values of a rule made in code.
pub(in crate::pack) fn check<T>(
    keys: &[Key<T>],
    values: &T,
    context: &LoadContext<'_>,
    found: &mut Vec<Fault>,
) {
    for Key { head, field } in keys {
        field.check(head, values, context, found);
    }
}

/// Returns the names of the keys of which a table has exactly one.
pub(in crate::pack) fn alternatives<T>(keys: &[Key<T>]) -> Vec<&'static str> {
    let is_one = |key: &&Key<T>| key.head.role == KeyRole::Alternative;
    keys.iter()
        .filter(is_one)
        .map(|key| key.head.name())
        .collect()
}

/// Returns true if a rule has the key `path`.
#[cfg(debug_assertions)]
pub(in crate::pack) fn is_key(path: &str) -> bool {
    use std::collections::BTreeSet;
    use std::sync::LazyLock;

    fn add_paths(keys: &[KeyShape], paths: &mut BTreeSet<&'static str>) {
        for KeyShape { head, shape } in keys {
            paths.insert(head.path);
            if let Shape::Table(inner) = shape {
                add_paths(inner, paths);
            }
        }
    }
    static PATHS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let mut paths = BTreeSet::new();
        add_paths(&shapes(super::RULE, TableKind::Override), &mut paths);
        paths
    });
    PATHS.contains(path)
}

/// The reading, checking and writing of values of type `V`.
pub(in crate::pack) trait Format<V>: Sync {
    fn shape(&self) -> Shape;

    /// Returns the value that is written, or `None` if it has a fault, which is recorded.
    fn read(
        &self,
        head: &KeyInfo,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
    ) -> Option<V>;

    fn write(&self, value: &V) -> KeyValue;

    /// Returns true if the value of [`write`](Self::write) says something.
    fn is_set(&self, value: &V) -> bool {
        self.write(value).is_some()
    }

    /// Adds `from` to `to`. A value that is not a list is replaced.
    fn append(&self, to: &mut V, from: &mut V) {
        std::mem::swap(to, from);
    }

    /// Appends to `found` everything that is wrong with a value that no file was read for.
    fn check(&self, _: &KeyInfo, _: &V, _: &LoadContext<'_>, _: &mut Vec<Fault>) {}
}

/// A value in a field of a `T`.
pub(super) struct FieldSlot<T, V, F> {
    /// Returns the value; `None` where the struct or the alternative that holds it is absent.
    pub(super) get: fn(&T) -> Option<&V>,
    /// Returns the value, and creates what holds it.
    pub(super) get_mut: fn(&mut T) -> &mut V,
    pub(super) format: F,
}

impl<T, V, F: Format<V>> Field<T> for FieldSlot<T, V, F> {
    fn shape(&self, _: TableKind) -> Shape {
        self.format.shape()
    }

    fn read(
        &self,
        site: &KeySite<'_>,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
        to: &mut T,
    ) {
        reader.record_key(site.head.path, site.span.clone());
        if let Some(value) = self.format.read(site.head, value, reader) {
            *(self.get_mut)(to) = value;
        }
    }

    fn write(&self, from: &T) -> KeyValue {
        let value = (self.get)(from);
        value.map_or(KeyValue::Absent, |value| self.format.write(value))
    }

    fn is_set(&self, from: &T) -> bool {
        (self.get)(from).is_some_and(|value| self.format.is_set(value))
    }

    fn swap(&self, values: &mut T, other: &mut T) {
        std::mem::swap((self.get_mut)(values), (self.get_mut)(other));
    }

    fn replace(&self, to: &mut T, from: &mut T, _: &[WrittenKey]) {
        self.swap(to, from);
    }

    fn append(&self, to: &mut T, from: &mut T, _: &[WrittenKey]) {
        self.format.append((self.get_mut)(to), (self.get_mut)(from));
    }

    fn check(&self, head: &KeyInfo, values: &T, context: &LoadContext<'_>, found: &mut Vec<Fault>) {
        if let Some(value) = (self.get)(values) {
            self.format.check(head, value, context, found);
        }
    }
}

/// A table of keys in a field of a `T`.
pub(super) struct KeyTable<T, S: 'static> {
    /// Returns the table's struct; `None` if it is absent.
    pub(super) get: fn(&T) -> Option<&S>,
    /// Returns the table's struct, and creates it.
    pub(super) get_mut: fn(&mut T) -> &mut S,
    /// Exchanges the whole field.
    pub(super) swap: fn(&mut T, &mut T),
    pub(super) keys: &'static [Key<S>],
    pub(super) merge: Merge,
    pub(super) empty: EmptyTable,
    /// Checks that concern several keys of the table.
    pub(super) finish: fn(&S, &DeTable<'_>, &mut RuleReader<'_>),
}

/// The way in which an override combines with the table that it overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// Each key that is written replaces one key.
    ByKey,
    /// The table replaces the whole table.
    Whole,
}

/// The meaning of a table without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyTable {
    /// The table could as well be left out, which is an error.
    Refused,
    /// The table says nothing.
    Ignored,
    /// The table is set, with the defaults of its keys.
    Set,
}

impl<T, S> Field<T> for KeyTable<T, S> {
    fn shape(&self, kind: TableKind) -> Shape {
        Shape::Table(shapes(self.keys, kind))
    }

    fn read(
        &self,
        site: &KeySite<'_>,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
        to: &mut T,
    ) {
        let name = quote(site.head.name());
        let Some(table) = reader.table(value, &name, site.head.form) else {
            return;
        };
        if table.is_empty() {
            match self.empty {
                EmptyTable::Refused => reader.empty(site.head.path, value.span()),
                EmptyTable::Ignored => {}
                EmptyTable::Set => reader.record_key(site.head.path, site.span.clone()),
            }
        }
        let inner = (self.get_mut)(to);
        let place = (name.as_str(), value.span());
        read_table(self.keys, site.kind, table, place, reader, inner);
        (self.finish)(inner, table, reader);
    }

    fn write(&self, from: &T) -> KeyValue {
        let inner = (self.get)(from);
        inner.map_or(KeyValue::Absent, |inner| {
            KeyValue::Table(values(self.keys, inner))
        })
    }

    fn is_set(&self, from: &T) -> bool {
        (self.get)(from).is_some()
    }

    fn swap(&self, values: &mut T, other: &mut T) {
        (self.swap)(values, other);
    }

    fn replace(&self, to: &mut T, from: &mut T, given: &[WrittenKey]) {
        match self.merge {
            Merge::Whole => (self.swap)(to, from),
            Merge::ByKey => replace(self.keys, (self.get_mut)(to), (self.get_mut)(from), given),
        }
    }

    fn append(&self, to: &mut T, from: &mut T, given: &[WrittenKey]) {
        append(self.keys, (self.get_mut)(to), (self.get_mut)(from), given);
    }

    fn check(&self, _: &KeyInfo, values: &T, context: &LoadContext<'_>, found: &mut Vec<Fault>) {
        if let Some(inner) = (self.get)(values) {
            check(self.keys, inner, context, found);
        }
    }
}

/// A value that is checked and not kept.
pub(super) struct ValidatedOnly<F>(pub(super) F);

impl<T, F: Format<Option<String>>> Field<T> for ValidatedOnly<F> {
    fn shape(&self, _: TableKind) -> Shape {
        self.0.shape()
    }

    fn read(
        &self,
        site: &KeySite<'_>,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
        _: &mut T,
    ) {
        let _kept_nowhere = self.0.read(site.head, value, reader);
    }
}

/// `append` of an override: rows of a rule, kept apart so that their entries are added.
pub(super) struct AppendTable(pub(super) fn() -> &'static [Key<Draft>]);

impl Field<Draft> for AppendTable {
    fn shape(&self, _: TableKind) -> Shape {
        Shape::Table(shapes((self.0)(), TableKind::Append))
    }

    fn read(
        &self,
        site: &KeySite<'_>,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
        to: &mut Draft,
    ) {
        let name = quote(site.head.name());
        let Some(table) = reader.table(value, &name, site.head.form) else {
            return;
        };
        if table.is_empty() {
            reader.empty(site.head.path, value.span());
        }
        let place = Place {
            file: reader.file,
            span: value.span(),
        };
        let mut added = Draft::new(String::new(), place);
        let outer = reader.take_origins();
        let (kind, place) = (TableKind::Append, (name.as_str(), value.span()));
        read_table((self.0)(), kind, table, place, reader, &mut added);
        added.set_origins(reader.take_origins());
        reader.set_origins(outer);
        to.append = Some(Box::new(added));
    }
}

/// A [`FieldSlot`] for a field of the struct, or for the value that the closures return.
macro_rules! slot {
    ($owner:ty : $($field:ident).+ , $format:expr) => {
        &FieldSlot::<$owner, _, _> {
            get: |it| Some(&it.$($field).+),
            get_mut: |it| &mut it.$($field).+,
            format: $format,
        }
    };
}

/// A [`KeyTable`] in a field of the struct: one that is always there, or an `Option` with its initial value.
macro_rules! table {
    ($owner:ty : $($field:ident).+ , $keys:expr, $merge:expr, $empty:expr $(, $finish:expr)?) => {
        &KeyTable::<$owner, _> {
            get: |it| Some(&it.$($field).+),
            get_mut: |it| &mut it.$($field).+,
            swap: |one, other| std::mem::swap(&mut one.$($field).+, &mut other.$($field).+),
            keys: $keys,
            merge: $merge,
            empty: $empty,
            finish: table!(@finish $($finish)?),
        }
    };
    ($owner:ty : $($field:ident).+ or $initial:expr, $keys:expr, $merge:expr, $empty:expr $(, $finish:expr)?) => {
        &KeyTable::<$owner, _> {
            get: |it| it.$($field).+.as_ref(),
            get_mut: |it| it.$($field).+.get_or_insert_with($initial),
            swap: |one, other| std::mem::swap(&mut one.$($field).+, &mut other.$($field).+),
            keys: $keys,
            merge: $merge,
            empty: $empty,
            finish: table!(@finish $($finish)?),
        }
    };
    (@finish) => { |_, _, _| {} };
    (@finish $finish:expr) => { $finish };
}

pub(super) use {slot, table};
