//! A lenient JSON parser for one document in memory.
//!
//! It accepts more than RFC 8259, because content that is not parsed is not scanned: numbers such as `NaN`, unknown
//! escapes, raw control characters and duplicate keys. Strings are bytes: invalid UTF-8 is kept, and a lone surrogate
//! keeps its three-byte form, so that [`ReplyEmitter`](super::reply::ReplyEmitter) can join pairs that a provider cut in two. Every
//! value keeps its source text. This module knows no providers.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;

/// The deepest nesting that is parsed; a deeper document is malformed.
const DEPTH: usize = 128;

/// The keys of known metadata in every format. Keys that end with `_id` are metadata too.
const METADATA: [&str; 7] = [
    "id",
    "type",
    "object",
    "model",
    "role",
    "status",
    "sequence_number",
];

/// A JSON value with its source text, as [`Reader::push_records`](crate::Reader::push_records) passes it on.
///
/// # Example: members of an object
/// ```
/// use ttsr_wire::JsonValue;
/// let (value, rest) = JsonValue::parse(br#"{"id":"a\u0062","n":2,"list":[true],"none":null} tail"#).unwrap();
/// assert_eq!(value.text("id").as_deref(), Some("ab"));
/// assert_eq!((value.number("n"), value.list("list").len()), (Some(2), 1));
/// assert!(value.get("none").is_none() && value.is_object());
/// assert_eq!(value.list("list")[0].raw(), b"true");
/// assert_eq!(rest, b" tail");
/// ```
#[derive(Debug)]
pub struct JsonValue<'a> {
    raw: &'a [u8],
    node: JsonNode<'a>,
}

#[derive(Debug)]
enum JsonNode<'a> {
    Scalar,
    String(Cow<'a, [u8]>),
    Array(Vec<JsonValue<'a>>),
    Object(Vec<(Cow<'a, [u8]>, JsonValue<'a>)>),
}

impl<'a> JsonValue<'a> {
    /// Parses the first value of `text`; returns it with the rest, or `None` if the value is missing or malformed.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<(JsonValue<'a>, &'a [u8])> {
        let (value, rest, _) = JsonValue::parse_noting_duplicates(text)?;
        Some((value, rest))
    }

    /// Parses as [`parse`](Self::parse). The last element is true if an object in the value has a name twice.
    pub(super) fn parse_noting_duplicates(
        text: &'a [u8],
    ) -> Option<(JsonValue<'a>, &'a [u8], bool)> {
        let mut parser = JsonParser::new(text);
        let value = parser.value(0)?;
        Some((value, &text[parser.at..], parser.has_duplicates))
    }

    /// Returns the member of that name, the last one of duplicates; `None` also if it is `null`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&JsonValue<'a>> {
        let (_, value) = self
            .members()
            .iter()
            .rev()
            .find(|(name, _)| **name == *key.as_bytes())?;
        (value.raw != b"null").then_some(value)
    }

    /// Returns the string member of that name.
    #[must_use]
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.get(key)?.string()
    }

    /// Returns the string member of that name as text, or `None` if it is empty.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.bytes(key)
            .filter(|bytes| !bytes.is_empty())
            .map(String::from_utf8_lossy)
    }

    /// Returns the member of that name if it is a non-negative integer below 2^64.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        // A scalar has at least one byte.
        let digits = self.get(key)?.raw.iter();
        digits
            .map(|byte| byte.wrapping_sub(b'0'))
            .try_fold(0u64, |number, digit| {
                let number = number.checked_mul(10)?.checked_add(digit.into())?;
                (digit < 10).then_some(number)
            })
    }

    /// Returns the value of a string.
    #[must_use]
    pub fn string(&self) -> Option<&[u8]> {
        match &self.node {
            JsonNode::String(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns true if the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self.node, JsonNode::Object(_))
    }

    /// Returns true if the value is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self.node, JsonNode::Array(_))
    }

    fn is_scalar(&self) -> bool {
        matches!(self.node, JsonNode::Scalar)
    }

    /// Returns the elements of an array; the empty slice for any other value.
    #[must_use]
    pub fn items(&self) -> &[JsonValue<'a>] {
        match &self.node {
            JsonNode::Array(items) => items,
            _ => &[],
        }
    }

    /// Returns the elements of the array member of that name.
    #[must_use]
    pub fn list(&self, key: &str) -> &[JsonValue<'a>] {
        self.get(key).map_or(&[], JsonValue::items)
    }

    /// Returns the members of an object in document order; the empty slice for any other value.
    #[must_use]
    pub fn members(&self) -> &[(Cow<'a, [u8]>, JsonValue<'a>)] {
        match &self.node {
            JsonNode::Object(members) => members,
            _ => &[],
        }
    }

    /// Returns the source text of the value.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Returns the length in bytes of all strings in the value except metadata.
    pub(super) fn content(&self) -> u64 {
        self.unread(&[])
    }

    /// Returns the length in bytes of the strings that [`Self::visit_unread`] visits.
    pub(super) fn unread(&self, read: &[&str]) -> u64 {
        let mut bytes = 0;
        self.visit_unread(read, &JsonPath::Root(""), &mut |_, string| {
            bytes += string.len() as u64;
        });
        bytes
    }

    /// Visits all strings of the value that are not empty, except metadata and the members of this object with a key in
    /// `read`, each with its path below `path`. Of duplicate keys only the last is read, so the others are visited.
    pub(super) fn visit_unread(
        &self,
        read: &[&str],
        path: &JsonPath<'_>,
        on: &mut dyn FnMut(&JsonPath<'_>, &[u8]),
    ) {
        match &self.node {
            JsonNode::Scalar => {}
            JsonNode::String(bytes) if bytes.is_empty() => {}
            JsonNode::String(bytes) => on(path, bytes),
            JsonNode::Array(items) => {
                let path = JsonPath::Item(path);
                items
                    .iter()
                    .for_each(|item| item.visit_unread(&[], &path, on));
            }
            JsonNode::Object(members) => {
                for (at, (name, value)) in members.iter().enumerate() {
                    if value.is_scalar() || is_metadata(name) {
                        continue;
                    }
                    // The search is linear for each of the few names in `read`, because it ends at the next duplicate.
                    let is_read = read.iter().any(|key| **name == *key.as_bytes())
                        && !members[at + 1..].iter().any(|(other, _)| other == name);
                    if !is_read {
                        value.visit_unread(&[], &JsonPath::Member(path, name), on);
                    }
                }
            }
        }
    }
}

/// The path of a value, such as `choices[].delta.content`: members after dots, items of arrays without their number.
#[derive(Clone, Copy, Debug)]
pub(super) enum JsonPath<'a> {
    Root(&'a str),
    Member(&'a JsonPath<'a>, &'a [u8]),
    Item(&'a JsonPath<'a>),
}

impl JsonPath<'_> {
    /// Returns true if the path leads through a member with one of these names.
    pub(super) fn has_member(&self, names: &[&str]) -> bool {
        match self {
            JsonPath::Root(_) => false,
            JsonPath::Item(parent) => parent.has_member(names),
            JsonPath::Member(parent, name) => {
                names.iter().any(|known| *known.as_bytes() == **name) || parent.has_member(names)
            }
        }
    }
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonPath::Root(name) => f.write_str(name),
            JsonPath::Member(JsonPath::Root(""), name) => {
                f.write_str(&String::from_utf8_lossy(name))
            }
            JsonPath::Member(parent, name) => {
                write!(f, "{parent}.{}", String::from_utf8_lossy(name))
            }
            JsonPath::Item(parent) => write!(f, "{parent}[]"),
        }
    }
}

fn is_metadata(key: &[u8]) -> bool {
    key.ends_with(b"_id") || METADATA.iter().any(|name| *key == *name.as_bytes())
}

/// The most members of an object whose names are compared in pairs.
const FEW: usize = 16;

/// Returns true if two members have the same name.
fn have_duplicates(members: &[(Cow<'_, [u8]>, JsonValue<'_>)]) -> bool {
    if members.len() <= FEW {
        let mut numbered = members.iter().enumerate();
        return numbered.any(|(at, (name, _))| members[..at].iter().any(|(it, _)| it == name));
    }
    let mut names: Vec<&[u8]> = members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// The bytes of numbers and names.
const IS_WORD: [bool; 256] = {
    let mut is_word = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let it = byte as u8;
        is_word[byte] = it.is_ascii_alphanumeric() || matches!(it, b'+' | b'-' | b'.');
        byte += 1;
    }
    is_word
};

/// Returns the index of the first quotation mark or backslash.
fn string_stop(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    // The lowest bit that is set is the high bit of the first such byte. Higher ones may be set without one.
    let marks_of = |word: u64, byte: u8| {
        let word = word ^ (ONES * u64::from(byte));
        word.wrapping_sub(ONES) & !word & (ONES * 0x80)
    };
    // PERF: most strings are shorter than what the start of a vector search costs.
    for start in [0, 8, 16] {
        let Some(word) = text.get(start..).and_then(<[u8]>::first_chunk) else {
            break;
        };
        let word = u64::from_le_bytes(*word);
        let marks = marks_of(word, b'"') | marks_of(word, b'\\');
        if marks != 0 {
            return Some(start + marks.trailing_zeros() as usize / 8);
        }
    }
    memchr2(b'"', b'\\', text)
}

/// Decodes the string that begins after the quotation mark before `text`. Returns it with its length in `text` in bytes.
pub(super) fn unquoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let mut parser = JsonParser::new(text);
    let string = parser.rest_of_string()?;
    Some((string, parser.at - 1))
}

struct JsonParser<'a> {
    text: &'a [u8],
    at: usize,
    /// The number of objects so far.
    objects: usize,
    /// True after an object with a name that is in it twice.
    has_duplicates: bool,
}

impl<'a> JsonParser<'a> {
    fn new(text: &'a [u8]) -> JsonParser<'a> {
        JsonParser {
            text,
            at: 0,
            objects: 0,
            has_duplicates: false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<JsonValue<'a>> {
        self.skip_whitespace();
        let start = self.at;
        let node = match self.peek()? {
            _ if depth > DEPTH => return None,
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => JsonNode::String(self.string()?),
            _ => self.scalar()?,
        };
        Some(JsonValue {
            raw: &self.text[start..self.at],
            node,
        })
    }

    fn object(&mut self, depth: usize) -> Option<JsonNode<'a>> {
        self.at += 1;
        self.skip_whitespace();
        if self.eat(b'}') {
            return Some(JsonNode::Object(Vec::new()));
        }
        // PERF: most objects of an event have up to eight members. A document of very many small ones would take a hundred
        // times its size.
        self.objects += 1;
        let is_event = depth < 4 && self.objects <= 64;
        let mut members = Vec::with_capacity(if is_event { 8 } else { 1 });
        loop {
            self.skip_whitespace();
            let key = self.string()?;
            self.skip_whitespace();
            if !self.eat(b':') {
                return None;
            }
            members.push((key, self.value(depth + 1)?));
            self.skip_whitespace();
            if self.eat(b'}') {
                self.has_duplicates |= have_duplicates(&members);
                return Some(JsonNode::Object(members));
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<JsonNode<'a>> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_whitespace();
        if self.eat(b']') {
            return Some(JsonNode::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_whitespace();
            if self.eat(b']') {
                return Some(JsonNode::Array(items));
            }
            if !self.eat(b',') {
                return None;
            }
        }
    }

    /// Parses a number, `true`, `false`, `null`, or an extension such as `NaN` and `-Infinity`.
    fn scalar(&mut self) -> Option<JsonNode<'a>> {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|byte| !IS_WORD[usize::from(*byte)]);
        let len = end.unwrap_or(rest.len());
        self.at += len;
        (len > 0).then_some(JsonNode::Scalar)
    }

    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        match self.eat(b'"') {
            true => self.rest_of_string(),
            false => None,
        }
    }

    /// Decodes a string after its first quotation mark.
    fn rest_of_string(&mut self) -> Option<Cow<'a, [u8]>> {
        let mut owned = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let stop = string_stop(rest)?;
            self.at += stop + 1;
            if rest[stop] == b'"' && owned.is_empty() {
                return Some(Cow::Borrowed(&rest[..stop]));
            }
            owned.extend_from_slice(&rest[..stop]);
            if rest[stop] == b'"' {
                return Some(Cow::Owned(owned));
            }
            self.escape(&mut owned)?;
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => self.unicode(out),
            // `\"`, `\\`, `\/`; an unknown escape is its character.
            other => out.push(other),
        }
        Some(())
    }

    /// Decodes the digits after `\u`. A surrogate pair is its character, a lone surrogate its three-byte form.
    fn unicode(&mut self, out: &mut Vec<u8>) {
        let Some(unit) = self.hex(self.at) else {
            out.push(b'u');
            return;
        };
        self.at += 4;
        let mut code = unit;
        if (0xD800..0xDC00).contains(&unit)
            && self.text[self.at..].starts_with(b"\\u")
            && let Some(low @ 0xDC00..0xE000) = self.hex(self.at + 2)
        {
            self.at += 6;
            code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        }
        match char::from_u32(code) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.extend_from_slice(&[
                0xED,
                (code >> 6 & 0x3F) as u8 | 0x80,
                (code & 0x3F) as u8 | 0x80,
            ]),
        }
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |code, &digit| {
            Some(code << 4 | char::from(digit).to_digit(16)?)
        })
    }

    #[inline]
    fn skip_whitespace(&mut self) {
        while let Some(byte) = self.peek() {
            // PERF: the first comparison decides for nearly every byte.
            if byte > b' ' || !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return;
            }
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(text: &str) -> Vec<u8> {
        JsonValue::parse(text.as_bytes())
            .unwrap()
            .0
            .string()
            .unwrap()
            .to_vec()
    }

    #[test]
    fn strings_are_decoded() {
        for (name, text, expected) in [
            ("plain", r#""abc""#, "abc".as_bytes()),
            (
                "short escapes",
                r#""\"\\\/\b\f\n\r\t""#,
                b"\"\\/\x08\x0c\n\r\t",
            ),
            ("unicode escape", r#""\u00e9\u4E2D""#, "é中".as_bytes()),
            ("surrogate pair", r#""a\ud83d\ude00b""#, "a😀b".as_bytes()),
            ("high surrogate alone", r#""a\ud83d""#, b"a\xED\xA0\xBD"),
            ("low surrogate alone", r#""\ude00b""#, b"\xED\xB8\x80b"),
            (
                "two high surrogates",
                r#""\ud83d\ud83d\ude00""#,
                b"\xED\xA0\xBD\xF0\x9F\x98\x80",
            ),
            ("escape first", r#""\nabc""#, b"\nabc"),
            ("empty escape digits", r#""\u12""#, b"u12"),
        ] {
            assert_eq!(string(text), expected, "{name}");
        }
    }

    #[test]
    fn a_string_stops_at_the_first_mark() {
        // The neighbours of both marks, and those with the high bit.
        let others = [
            b'!', b'#', b'[', b']', b'a', 0, 0xA2, 0xA3, 0xDC, 0xDD, 0xFF,
        ];
        for len in 0..40 {
            for (place, other) in others.into_iter().cycle().take(len).enumerate() {
                for mark in [b'"', b'\\'] {
                    let mut text: Vec<u8> = others.into_iter().cycle().take(len).collect();
                    assert_eq!(string_stop(&text), None);
                    text[place] = mark;
                    text[place + 1..].fill(other);
                    assert_eq!(string_stop(&text), Some(place), "{text:?}");
                    text.push(mark);
                    assert_eq!(string_stop(&text), Some(place), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn broken_documents_are_none() {
        for text in [
            "", " ", "{", "[1", "\"a", "{\"a\"}", "{a:1}", "[1 2]", "\"\\", "{\"a\":}", "}",
        ] {
            assert!(JsonValue::parse(text.as_bytes()).is_none(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(JsonValue::parse(deep.as_bytes()).is_none());
    }

    #[test]
    fn invalid_utf8_is_kept() {
        let (value, _) = JsonValue::parse(b"{\"a\":\"x\xFFy\"}").unwrap();
        assert_eq!(value.bytes("a"), Some(&b"x\xFFy"[..]));
    }

    /// Returns true if both have the same strings and numbers at the same places.
    fn same(own: &JsonValue<'_>, oracle: &serde_json::Value) -> bool {
        use serde_json::Value;
        match oracle {
            Value::String(text) => own.string() == Some(text.as_bytes()),
            Value::Array(items) => {
                own.items().len() == items.len()
                    && own
                        .items()
                        .iter()
                        .zip(items)
                        .all(|(own, item)| same(own, item))
            }
            Value::Object(members) => members.iter().all(|(key, value)| match own.get(key) {
                Some(member) => same(member, value),
                None => value.is_null(),
            }),
            scalar => serde_json::from_slice::<Value>(own.raw()).ok().as_ref() == Some(scalar),
        }
    }

    fn documents() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,3}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_that_serde_json_writes_is_read_the_same(document in documents(), pretty: bool) {
            let compact = document.to_string();
            let text = if pretty { format!("{document:#}\n") } else { compact };
            let (own, rest) = JsonValue::parse(text.as_bytes()).unwrap();
            prop_assert!(rest.trim_ascii().is_empty() && same(&own, &document));
        }

        #[test]
        fn json_that_serde_json_reads_is_read(text in "[\\[\\]{}\",:0a\\\\ntu ]{0,12}") {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                prop_assert!(JsonValue::parse(text.as_bytes()).is_some());
            }
        }
    }

    #[test]
    fn unread_counts_what_no_key_names() {
        let text = br#"{"id":"i","x":"12","y":["345",{"z":"6","item_id":"no"}],"x":"789","n":1}"#;
        let (value, rest) = JsonValue::parse(text).unwrap();
        assert!(rest.is_empty());
        assert_eq!(value.content(), 9);
        assert_eq!(
            value.unread(&["x"]),
            6,
            "the first of the duplicate keys is not read"
        );
        assert_eq!(value.unread(&["y", "x"]), 2);
        let mut places = Vec::new();
        value.visit_unread(&["x"], &JsonPath::Root("r"), &mut |path, bytes| {
            places.push(format!("{path} {}", bytes.len()));
        });
        assert_eq!(places, ["r.x 2", "r.y[] 3", "r.y[].z 1"]);
        assert_eq!(value.number("n"), Some(1));
    }
}
