//! JSON as it is written: values by their place in a document, and edits that keep all other bytes unchanged.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most members or elements of a value. Each takes more memory than the shortest ones have bytes.
const MOST: usize = 1 << 20;

/// Returns the document as one value, or `None` if it is not valid JSON in UTF-8.
pub(crate) fn parse(document: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(document).ok()
}

/// Returns the members of an object in their order, or `None` if the value is not an object, has a member twice, because
/// readers disagree about which one counts, or has more than 2^20.
pub(crate) fn members(value: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    let mut source = serde_json::Deserializer::from_str(value.get());
    let members = source.deserialize_map(Members).ok()?;
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let is_unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    is_unique.then_some(members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            if members.len() >= MOST {
                return Err(A::Error::custom("too many members"));
            }
            members.push(member);
        }
        Ok(members)
    }
}

/// Returns the value of a member.
pub(crate) fn member<'v>(members: &[(String, &'v RawValue)], name: &str) -> Option<&'v RawValue> {
    let found = members.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| *value)
}

/// Returns the elements of an array, or `None` if the value is not an array or has more than 2^20.
pub(crate) fn elements(value: &RawValue) -> Option<Vec<&RawValue>> {
    let mut source = serde_json::Deserializer::from_str(value.get());
    source.deserialize_seq(Elements).ok()
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            if elements.len() >= MOST {
                return Err(A::Error::custom("too many elements"));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

/// Returns the content of a string, or `None` if the value is not a string. Half of a surrogate pair, which no UTF-8 can
/// have, is replaced.
pub(crate) fn string(value: &RawValue) -> Option<String> {
    let mut source = serde_json::Deserializer::from_str(value.get());
    source.deserialize_bytes(StringBytes).ok()
}

struct StringBytes;

impl Visitor<'_> for StringBytes {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Returns the string as it is written in JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the place of a value that was parsed from the document.
pub(crate) fn span(document: &[u8], value: &RawValue) -> Range<usize> {
    let start = (value.get().as_ptr() as usize).saturating_sub(document.as_ptr() as usize);
    start..start + value.get().len()
}

/// Edits of a document. Ranges must not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonEdits {
    edits: Vec<(Range<usize>, String)>,
}

impl JsonEdits {
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Replaces a range by `with`; at an empty range it is inserted, after earlier insertions there.
    pub(crate) fn replace(&mut self, range: Range<usize>, with: impl Into<String>) {
        self.edits.push((range, with.into()));
    }

    /// Inserts a value at the end of the array whose range that is. `is_empty` is true if it has no element.
    pub(crate) fn append_element(&mut self, array: &Range<usize>, is_empty: bool, value: &str) {
        let end = array.end - 1;
        let comma = if is_empty { "" } else { "," };
        self.replace(end..end, format!("{comma}{value}"));
    }

    /// Returns the document with all edits, or `None` if they do not fit it.
    pub(crate) fn apply(&self, document: &[u8]) -> Option<Vec<u8>> {
        let mut edits: Vec<_> = self.edits.iter().collect();
        edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = Vec::with_capacity(document.len());
        let mut copied = 0;
        for (range, with) in edits {
            out.extend_from_slice(document.get(copied..range.start)?);
            out.extend_from_slice(with.as_bytes());
            copied = range.end;
        }
        out.extend_from_slice(document.get(copied..)?);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_only_their_ranges() {
        let document = br#" {"a" : "x\n", "b":[ 1.50 ,{}], "c":[]} "#;
        let value = parse(document).unwrap();
        let members = members(value).unwrap();
        let names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let a = member(&members, "a").unwrap();
        assert_eq!(string(a).as_deref(), Some("x\n"));
        let mut edits = JsonEdits::default();
        edits.replace(span(document, a), quoted("é\""));
        let list = member(&members, "b").unwrap();
        assert_eq!(elements(list).unwrap().len(), 2);
        edits.append_element(&span(document, list), false, "true");
        let empty = member(&members, "c").unwrap();
        edits.append_element(&span(document, empty), true, "1");
        let out = String::from_utf8(edits.apply(document).unwrap()).unwrap();
        assert_eq!(out, r#" {"a" : "é\"", "b":[ 1.50 ,{},true], "c":[1]} "#);
    }

    #[test]
    fn values_of_another_kind_and_members_that_repeat_are_none() {
        let of = |text: &'static str| parse(text.as_bytes()).unwrap();
        assert!(members(of(r#"{"a":1,"a":2}"#)).is_none());
        assert!(members(of(r#"{"a":1,"\u0061":2}"#)).is_none());
        assert!(members(of("[1]")).is_none());
        assert!(elements(of("{}")).is_none());
        assert_eq!(string(of("1")), None);
        assert_eq!(
            string(of(r#""\ud83d!""#)).unwrap(),
            "\u{FFFD}\u{FFFD}\u{FFFD}!"
        );
        assert!(parse(b"{\"a\":\"\xFF\"}").is_none());
        assert!(parse(b"{} {}").is_none());
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        let (most, more) = (list(MOST), list(MOST + 1));
        let of = |text: &str| elements(parse(text.as_bytes()).unwrap()).map(|list| list.len());
        assert_eq!((of(&most), of(&more)), (Some(MOST), None));
    }
}
