//! Replaces texts in a JSON document and keeps all other bytes unchanged.
//!
//! A text that was judged is found by its place if that is known, and its copies by their content: providers repeat the
//! same text in several members, and a redaction must reach every copy.

use std::collections::HashMap;

/// The deepest nesting of a document.
const DEPTH: usize = 128;

/// Members that name or describe content and have none. Their values stay, even if a text of the reply equals one.
const METADATA: [&[u8]; 26] = [
    b"call_id",
    b"container",
    b"created_at",
    b"done_reason",
    b"encrypted_content",
    b"finishReason",
    b"finish_reason",
    b"id",
    b"item_id",
    b"model",
    b"modelVersion",
    b"name",
    b"object",
    b"responseId",
    b"role",
    b"service_tier",
    b"signature",
    b"status",
    b"stop_reason",
    b"system_fingerprint",
    b"thoughtSignature",
    b"tool_use_id",
    b"tool_name",
    b"toolUseId",
    b"traceId",
    b"type",
];

/// A text of a document that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentText {
    /// The text as it is decoded from a JSON string, or the source text of an object or array.
    pub(crate) from: Vec<u8>,
    /// The text that replaces it, if a rule redacted it.
    pub(crate) to: Option<Vec<u8>>,
    /// The offset at which its value begins in the document without whitespace around it, if that is known.
    pub(crate) place: Option<usize>,
}

/// Returns the document with every text replaced that has a replacement, and every other string that equals one of them:
/// providers repeat texts in members that no reader reads. Texts with a place are replaced there alone, and stay if they
/// have no replacement, also where an equal text is replaced. `logprobs`, which repeat texts in pieces, become `null`.
///
/// Returns `None` if the document is not valid or does not have each of the texts that are replaced.
pub(crate) fn rewrite(document: &[u8], texts: &[DocumentText]) -> Option<Vec<u8>> {
    Rewriter::new(document, texts, true)
        .rewritten()
        // A text that is not where it should be is replaced wherever it is.
        .or_else(|| Rewriter::new(document, texts, false).rewritten())
}

struct Rewriter<'a> {
    text: &'a [u8],
    at: usize,
    /// Number of bytes of `text` that were copied or replaced.
    copied: usize,
    out: Vec<u8>,
    texts: &'a [DocumentText],
    used: Vec<bool>,
    /// The texts by the offset in `text` at which they begin.
    by_place: HashMap<usize, usize>,
    /// The texts that are replaced, by their content.
    replaced: HashMap<&'a [u8], Vec<usize>>,
    /// True if one of them is the source of an object or array.
    has_source: bool,
    /// True within a value that was judged as one text and stays: only texts at their places are replaced in it.
    is_kept: bool,
}

impl<'a> Rewriter<'a> {
    /// Returns the rewriter of a document. If `by_place` is false, the places are not used.
    fn new(document: &'a [u8], texts: &'a [DocumentText], by_place: bool) -> Rewriter<'a> {
        let start = document.len() - document.trim_ascii_start().len();
        let placed = (0..).zip(texts).filter(|_| by_place);
        let placed = placed.filter_map(|(index, text)| Some((text.place? + start, index)));
        let mut replaced = HashMap::<_, Vec<usize>>::new();
        for (index, text) in texts.iter().enumerate() {
            if text.to.is_some() {
                replaced.entry(&*text.from).or_default().push(index);
            }
        }
        Rewriter {
            text: document,
            at: 0,
            copied: 0,
            out: Vec::with_capacity(document.len()),
            texts,
            used: vec![false; texts.len()],
            by_place: placed.collect(),
            has_source: replaced
                .keys()
                .any(|from| matches!(from.first(), Some(b'{' | b'['))),
            replaced,
            is_kept: false,
        }
    }

    fn rewritten(mut self) -> Option<Vec<u8>> {
        self.skip_whitespace();
        self.value(b"", DEPTH)?;
        self.skip_whitespace();
        let is_complete = self.at == self.text.len() && self.has_every_text();
        self.out.extend_from_slice(&self.text[self.copied..]);
        is_complete.then_some(self.out)
    }

    fn value(&mut self, key: &[u8], depth: usize) -> Option<()> {
        let start = self.at;
        if key == b"logprobs" {
            self.skip_value(depth)?;
            self.replace(start, b"null");
            return Some(());
        }
        match self.peek()? {
            b'"' => {
                let decoded = self.string()?;
                let to = match self.placed(start, &decoded) {
                    Some(index) => self.edit(index),
                    None if METADATA.contains(&key) => None,
                    None => self.edit_of_copy(&decoded),
                };
                if let Some(to) = to {
                    let to = String::from_utf8_lossy(&to).into_owned();
                    self.replace(start, serde_json::to_string(&to).ok()?.as_bytes());
                }
            }
            b'{' | b'[' => self.nested(start, depth)?,
            _ => self.scalar()?,
        }
        Some(())
    }

    /// Reads an object or an array, which may be a text as a whole.
    fn nested(&mut self, start: usize, depth: usize) -> Option<()> {
        let was_kept = self.is_kept;
        if self.has_source || self.by_place.contains_key(&start) {
            self.skip_value(depth)?;
            let source = &self.text[start..self.at];
            let placed = self.placed(start, source);
            let to = match placed {
                Some(index) => self.edit(index),
                None => self.edit_of_copy(source),
            };
            if let Some(to) = to {
                self.replace(start, &to);
                return Some(());
            }
            self.is_kept |= placed.is_some();
            self.at = start;
        }
        self.members(depth.checked_sub(1)?, Rewriter::value)?;
        self.is_kept = was_kept;
        Some(())
    }

    /// Reads an object or an array and passes each value to `on` with its key, which is empty in an array.
    fn members(
        &mut self,
        depth: usize,
        on: fn(&mut Self, &[u8], usize) -> Option<()>,
    ) -> Option<()> {
        let is_object = self.peek()? == b'{';
        let close = if is_object { b'}' } else { b']' };
        self.at += 1;
        self.skip_whitespace();
        if self.eat(close) {
            return Some(());
        }
        loop {
            let mut key = Vec::new();
            if is_object {
                key = self.string()?;
                self.skip_whitespace();
                self.eat(b':').then_some(())?;
                self.skip_whitespace();
            }
            on(self, &key, depth)?;
            self.skip_whitespace();
            if self.eat(close) {
                return Some(());
            }
            self.eat(b',').then_some(())?;
            self.skip_whitespace();
        }
    }

    fn skip_value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => {
                let depth = depth.checked_sub(1)?;
                self.members(depth, |rewriter, _, depth| rewriter.skip_value(depth))
            }
            _ => self.scalar(),
        }
    }

    fn scalar(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
        let len = rest.iter().position(is_end).unwrap_or(rest.len());
        self.at += len;
        (len > 0).then_some(())
    }

    /// Reads a string and returns its content. Half of a surrogate pair is encoded by itself, in three bytes.
    fn string(&mut self) -> Option<Vec<u8>> {
        self.eat(b'"').then_some(())?;
        let mut out = Vec::new();
        loop {
            let rest = self.text.get(self.at..)?;
            let len = memchr::memchr2(b'"', b'\\', rest)?;
            out.extend_from_slice(&rest[..len]);
            self.at += len + 1;
            if rest[len] == b'"' {
                return Some(out);
            }
            self.at += 1;
            match rest.get(len + 1)? {
                b'b' => out.push(8),
                b'f' => out.push(12),
                b'n' => out.push(b'\n'),
                b'r' => out.push(b'\r'),
                b't' => out.push(b'\t'),
                b'u' => self.unicode_escape(&mut out)?,
                other => out.push(*other),
            }
        }
    }

    /// Reads the digits of `\uXXXX`, and the other half of a surrogate pair.
    fn unicode_escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let first = self.hex(self.at)?;
        self.at += 4;
        let second = match self.text.get(self.at..self.at + 2) {
            Some(b"\\u") if (0xD800..0xDC00).contains(&first) => self.hex(self.at + 2),
            _ => None,
        };
        let mut code = first;
        if let Some(second @ 0xDC00..0xE000) = second {
            self.at += 6;
            code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        }
        match char::from_u32(code) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.extend_from_slice(&[
                0xE0 | (code >> 12) as u8,
                0x80 | (code >> 6 & 0x3F) as u8,
                0x80 | (code & 0x3F) as u8,
            ]),
        }
        Some(())
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
        digits
            .into_iter()
            .try_fold(0, |value, digit| Some(value * 16 + digit?))
    }

    /// Returns the text whose place it is, if it has that content.
    fn placed(&self, start: usize, content: &[u8]) -> Option<usize> {
        let index = *self.by_place.get(&start)?;
        (self.texts[index].from == content).then_some(index)
    }

    fn edit(&mut self, index: usize) -> Option<Vec<u8>> {
        self.used[index] = true;
        self.texts[index].to.clone()
    }

    /// Returns the replacement of a value at which no text is placed. Equal texts without a place take their replacements
    /// in order, and copies the last one.
    fn edit_of_copy(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        if self.is_kept {
            return None;
        }
        let of_text = self.replaced.get(content)?;
        let is_free = |index: &usize| !self.used[*index] && !self.is_placed(*index);
        let free = of_text.iter().copied().find(is_free);
        match free {
            Some(index) => self.edit(index),
            None => self.texts[*of_text.last()?].to.clone(),
        }
    }

    fn is_placed(&self, index: usize) -> bool {
        !self.by_place.is_empty() && self.texts[index].place.is_some()
    }

    /// Returns true if the document has each text that is replaced. Equal texts without a place and with equal
    /// replacements may be in it once.
    fn has_every_text(&self) -> bool {
        let is_same = |index: usize, other: usize| {
            self.used[other] && self.texts[other].to == self.texts[index].to
        };
        self.replaced.values().all(|equal| {
            let mut unused = equal.iter().filter(|index| !self.used[**index]);
            unused.all(|index| {
                !self.is_placed(*index) && equal.iter().any(|other| is_same(*index, *other))
            })
        })
    }

    /// Replaces the bytes from `start` to the current position by `new`.
    fn replace(&mut self, start: usize, new: &[u8]) {
        self.out.extend_from_slice(&self.text[self.copied..start]);
        self.out.extend_from_slice(new);
        self.copied = self.at;
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(from: &str, to: Option<&str>, place: Option<usize>) -> DocumentText {
        DocumentText {
            from: from.as_bytes().to_vec(),
            to: to.map(|to| to.as_bytes().to_vec()),
            place,
        }
    }

    fn rewritten(document: &str, texts: &[DocumentText]) -> Option<String> {
        rewrite(document.as_bytes(), texts).map(|out| String::from_utf8(out).unwrap())
    }

    fn edited(document: &str, edits: &[(&str, &str)]) -> Option<String> {
        let edits = edits.iter().map(|(from, to)| text(from, Some(to), None));
        rewritten(document, &edits.collect::<Vec<_>>())
    }

    #[test]
    fn every_copy_is_replaced_and_other_bytes_stay() {
        let document = r#" {"id" : "a\n", "x":1.50,"c":[{"text":"a\u000A" , "more":"a\n"}],"logprobs":{"t":["a"]} }"#;
        let want =
            r#" {"id" : "a\n", "x":1.50,"c":[{"text":"b\"" , "more":"b\""}],"logprobs":null }"#;
        assert_eq!(edited(document, &[("a\n", "b\"")]).as_deref(), Some(want));
    }

    #[test]
    fn equal_texts_are_replaced_in_their_order() {
        let two = [("a", "b"), ("a", "c")];
        for (document, edits, want) in [
            (r#"["a","a"]"#, &two[..], Some(r#"["b","c"]"#)),
            (r#"["a","a","a"]"#, &two[..], Some(r#"["b","c","c"]"#)),
            // Nothing tells which of the two it is.
            (r#"["a"]"#, &two[..], None),
            (r#"["a"]"#, &[("a", "b"), ("a", "b")], Some(r#"["b"]"#)),
        ] {
            assert_eq!(edited(document, edits).as_deref(), want, "{document}");
        }
    }

    #[test]
    fn a_text_that_is_not_edited_stays_at_its_place() {
        let document = r#" {"x":"a","y":["\u0061","a"],"z":"a"} "#;
        // Offsets do not count the whitespace before the document.
        let (x, first, second) = (5, 14, 23);
        assert_eq!(&document[1 + first..][..8], r#""\u0061""#);
        let kept = |place| text("a", None, Some(place));
        let edit = |to, place| text("a", Some(to), Some(place));
        for (texts, want) in [
            // `z` is a copy that no reader reads.
            (
                vec![kept(x), edit("b", first), kept(second)],
                r#" {"x":"a","y":["b","a"],"z":"b"} "#,
            ),
            // The order of the texts is not that of the document.
            (
                vec![edit("b", second), edit("c", x), kept(first)],
                r#" {"x":"c","y":["\u0061","b"],"z":"c"} "#,
            ),
            // A place that does not have the text is not used.
            (
                vec![kept(x), edit("b", 1)],
                r#" {"x":"b","y":["b","b"],"z":"b"} "#,
            ),
        ] {
            assert_eq!(rewritten(document, &texts).as_deref(), Some(want));
        }
    }

    #[test]
    fn a_value_that_was_judged_as_one_text_is_kept_whole() {
        let document = r#"{"input":{"a":"key"},"content":"key","name":"key"}"#;
        let input = text(r#"{"a":"key"}"#, None, Some(9));
        let content = text("key", Some("x"), Some(31));
        let want = r#"{"input":{"a":"key"},"content":"x","name":"key"}"#;
        let out = rewritten(document, &[input, content.clone()]);
        assert_eq!(out.as_deref(), Some(want));
        // Without it, it may be a copy.
        let want = r#"{"input":{"a":"x"},"content":"x","name":"key"}"#;
        assert_eq!(rewritten(document, &[content]).as_deref(), Some(want));
    }

    #[test]
    fn an_object_is_replaced_by_its_source() {
        let document = r#"{"input":{"a": "key"},"content":"key"}"#;
        let want = r#"{"input":{"a": "x"},"content":"key"}"#;
        assert_eq!(
            edited(document, &[(r#"{"a": "key"}"#, r#"{"a": "x"}"#)]).as_deref(),
            Some(want)
        );
    }

    #[test]
    fn a_text_that_is_missing_and_a_broken_document_are_none() {
        assert_eq!(edited(r#"{"a":"b"}"#, &[("c", "d")]), None);
        assert_eq!(edited(r#"{"type":"b"}"#, &[("b", "d")]), None);
        for broken in [
            "{\"a\":\"b\"",
            "{\"a\" \"b\"}",
            "[\"b\",]",
            "",
            "\"b",
            "[\"b\"] x",
            "\"b\\",
        ] {
            assert_eq!(edited(broken, &[("b", "d")]), None, "{broken}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(edited(&deep, &[]), None);
    }

    #[test]
    fn strings_are_decoded_as_the_readers_do() {
        for (source, text) in [
            (r#""\ud83d\ude00""#, "😀".as_bytes()),
            (r#""\ud83d""#, &[0xED, 0xA0, 0xBD]),
            (r#""\/\b\f\r\t\\""#, b"/\x08\x0C\r\t\\"),
        ] {
            let edit = DocumentText {
                from: text.to_vec(),
                to: Some(b"ok".to_vec()),
                place: None,
            };
            let out = rewrite(source.as_bytes(), &[edit]);
            assert_eq!(out.as_deref(), Some(&b"\"ok\""[..]), "{source}");
        }
    }
}
