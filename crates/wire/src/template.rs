//! Events that differ from the event before them in one text, and in members that are not read.
//!
//! The deltas of a part mostly have the same bytes around their text. Such an event is compared with the last one, and
//! only its text is decoded: no JSON is parsed.
//! PERF: a delta takes 18,900 instead of 27,100 instructions of the proxy with the built-in packs
//! (`cargo bench -p ttsr-proxy --bench proxy -- --instructions`).

use std::borrow::Cow;

use memchr::memchr2;

use super::JsonValue;
use super::json;
use super::place::TextSource;
use ttsr::PartId;

/// A value of a record that another record may have instead, as a range of bytes of its JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VariableValue {
    start: usize,
    end: usize,
    kind: VariableKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VariableKind {
    /// The text of the delta, between its quotation marks.
    Text,
    /// A string that is not read, between its quotation marks.
    String,
    /// A number that is not read: decimal digits.
    Number,
}

/// A record that is one delta and no other event.
#[derive(Debug)]
pub(super) struct PlainDelta {
    part: PartId,
    /// The length of the JSON document in bytes.
    document_len: usize,
    /// In their order in the document; one of them is the text.
    values: Vec<VariableValue>,
}

impl PlainDelta {
    /// Returns a delta of `part` with the text at `source`. `unread` are the names of members of `record` that are not read.
    ///
    /// Returns `None` if the text is no string of the document, or has escapes.
    pub(super) fn new(
        part: PartId,
        source: TextSource,
        record: &JsonValue<'_>,
        unread: &[&str],
        document: &[u8],
    ) -> Option<PlainDelta> {
        let (start, end) = source.range_in(document)?;
        let is_quote = |at: usize| document.get(at) == Some(&b'"');
        if start == 0 || !is_quote(start - 1) || !is_quote(end) {
            return None;
        }
        let kind = VariableKind::Text;
        let mut values = vec![VariableValue { start, end, kind }];
        for value in unread.iter().filter_map(|name| record.get(name)) {
            let (start, end) = TextSource::of(value.raw()).range_in(document)?;
            if value.raw().iter().all(u8::is_ascii_digit) {
                let kind = VariableKind::Number;
                values.push(VariableValue { start, end, kind });
            } else if value.string().is_some() {
                let (start, end, kind) = (start + 1, end - 1, VariableKind::String);
                values.push(VariableValue { start, end, kind });
            }
        }
        values.sort_unstable();
        Some(PlainDelta {
            part,
            document_len: document.len(),
            values,
        })
    }
}

/// A server-sent event with a plain delta, without its values that may differ in the next one.
#[derive(Debug)]
pub(super) struct EventTemplate {
    pub(super) part: PartId,
    /// The bytes of the event that do not differ.
    fixed: Vec<u8>,
    /// The places of the other values in `fixed`, in their order.
    values: Vec<(usize, VariableKind)>,
}

impl EventTemplate {
    /// Returns the template of `event`, which is one server-sent event with its blank line and has no record but `delta`.
    /// `None` if the record was not read from the last line of the event.
    pub(super) fn new(event: &[u8], delta: &PlainDelta) -> Option<EventTemplate> {
        let lines = event.trim_ascii_end();
        let document_at = lines.len().checked_sub(delta.document_len)?;
        let (head, document) = lines.split_at(document_at);
        let field = head.strip_suffix(b" ").unwrap_or(head);
        let before = field.strip_suffix(b"data:")?;
        // A comment, which is not read, may end with the same bytes as a line of data.
        let begins_line = before
            .last()
            .is_none_or(|byte| matches!(byte, b'\r' | b'\n'));
        if !begins_line || has_line_end(document) {
            return None;
        }
        let (mut fixed, mut values, mut copied) = (Vec::with_capacity(event.len()), Vec::new(), 0);
        for value in &delta.values {
            fixed.extend_from_slice(&event[copied..document_at + value.start]);
            values.push((fixed.len(), value.kind));
            copied = document_at + value.end;
        }
        fixed.extend_from_slice(&event[copied..]);
        fixed.shrink_to_fit();
        Some(EventTemplate {
            part: delta.part,
            fixed,
            values,
        })
    }

    /// Returns the text of an event that differs from the template in nothing else that is read, or `None` for any other
    /// event.
    pub(super) fn text<'e>(&self, event: &'e [u8]) -> Option<Cow<'e, [u8]>> {
        let (mut rest, mut compared) = (event, 0);
        let mut text = Cow::Borrowed(&[][..]);
        for &(at, kind) in &self.values {
            let value = rest.strip_prefix(&self.fixed[compared..at])?;
            compared = at;
            let len = match kind {
                VariableKind::Number => value
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count(),
                // A quotation mark follows in the template, so a string with an escape does not match.
                VariableKind::String => memchr2(b'"', b'\\', value)?,
                VariableKind::Text => {
                    let (decoded, len) = json::unquoted(value)?;
                    text = decoded;
                    len
                }
            };
            if len == 0 || has_line_end(&value[..len]) {
                return None;
            }
            rest = &value[len..];
        }
        (*rest == self.fixed[compared..]).then_some(text)
    }
}

fn has_line_end(bytes: &[u8]) -> bool {
    memchr2(b'\r', b'\n', bytes).is_some()
}
