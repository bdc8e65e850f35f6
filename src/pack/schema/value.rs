//! The value of a key, as a rule file writes it.

use serde::{Serialize, Serializer};

/// The value of a key, as a rule file writes it. It serialises as such a value: a table as a map, and
/// [`Absent`](Self::Absent) as none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum KeyValue {
    /// The key is not set and has no default.
    Absent,
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A decimal number.
    Decimal(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<KeyValue>),
    /// The keys of a table, in the order of the key table.
    Table(Vec<(&'static str, KeyValue)>),
}

impl KeyValue {
    /// Returns the name of the kind, such as `flag`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            KeyValue::Absent => "absent",
            KeyValue::Flag(_) => "flag",
            KeyValue::Whole(_) => "whole",
            KeyValue::Decimal(_) => "decimal",
            KeyValue::Text(_) => "text",
            KeyValue::List(_) => "list",
            KeyValue::Table(_) => "table",
        }
    }

    /// Returns true if the value says something: it is not absent, not `false` and not an empty list.
    pub(in crate::pack) fn is_some(&self) -> bool {
        match self {
            KeyValue::Absent | KeyValue::Flag(false) => false,
            KeyValue::List(entries) => !entries.is_empty(),
            _ => true,
        }
    }

    /// Returns the texts as an array.
    pub(in crate::pack) fn texts<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> KeyValue {
        let texts = texts.into_iter().map(|text| KeyValue::Text(text.into()));
        KeyValue::List(texts.collect())
    }
}

impl Serialize for KeyValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            KeyValue::Absent => serializer.serialize_none(),
            KeyValue::Flag(flag) => serializer.serialize_bool(*flag),
            KeyValue::Whole(number) => serializer.serialize_i64(*number),
            KeyValue::Decimal(number) => serializer.serialize_f64(*number),
            KeyValue::Text(text) => serializer.serialize_str(text),
            KeyValue::List(entries) => serializer.collect_seq(entries),
            KeyValue::Table(keys) => {
                serializer.collect_map(keys.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_value_has_a_name_and_some_values_say_nothing() {
        for (value, name, is_some) in [
            (KeyValue::Absent, "absent", false),
            (KeyValue::Flag(false), "flag", false),
            (KeyValue::Flag(true), "flag", true),
            (KeyValue::Whole(0), "whole", true),
            (KeyValue::Decimal(0.0), "decimal", true),
            (KeyValue::Text(String::new()), "text", true),
            (KeyValue::List(Vec::new()), "list", false),
            (KeyValue::texts(["a"]), "list", true),
            (KeyValue::Table(Vec::new()), "table", true),
        ] {
            let found = (value.name(), value.is_some());
            assert_eq!(found, (name, is_some), "{value:?}");
        }
    }
}
