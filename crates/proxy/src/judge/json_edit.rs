//! Replaces texts in a JSON document and keeps all other bytes unchanged.
//!
//! A text is found by its content, not by its place: providers repeat the same text in several members, and a redaction
//! must reach every copy.

/// The deepest nesting of a document.
const DEPTH: usize = 128;

/// Members that name or describe content and have none. Their values stay, even if a text of the reply equals one.
const METADATA: [&[u8]; 25] = [
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
    b"type",
];

/// A text of a document and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextReplacement {
    /// The text as it is decoded from a JSON string, or the source text of an object or array.
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

/// Returns the document with every text that an edit names replaced, equal texts in the order of their edits, and with `logprobs`, which repeat the text in pieces,
/// replaced by `null`. Returns `None` if the document is not valid or does not have the text of each edit.
pub(crate) fn rewrite(document: &[u8], edits: &[TextReplacement]) -> Option<Vec<u8>> {
    let mut rewriter = Rewriter {
        text: document,
        at: 0,
        copied: 0,
        out: Vec::with_capacity(document.len()),
        edits,
        used: vec![false; edits.len()],
    };
    rewriter.skip_whitespace();
    rewriter.value(b"", DEPTH)?;
    rewriter.skip_whitespace();
    let is_complete = rewriter.at == document.len() && rewriter.has_every_text();
    rewriter.out.extend_from_slice(&document[rewriter.copied..]);
    is_complete.then_some(rewriter.out)
}

struct Rewriter<'a> {
    text: &'a [u8],
    at: usize,
    /// Number of bytes of `text` that were copied or replaced.
    copied: usize,
    out: Vec<u8>,
    edits: &'a [TextReplacement],
    used: Vec<bool>,
}

impl Rewriter<'_> {
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
                if !METADATA.contains(&key)
                    && let Some(to) = self.edit_of(&decoded)
                {
                    let to = String::from_utf8_lossy(&to).into_owned();
                    self.replace(start, serde_json::to_string(&to).ok()?.as_bytes());
                }
            }
            open @ (b'{' | b'[') => {
                if self
                    .edits
                    .iter()
                    .any(|edit| edit.from.first() == Some(&open))
                {
                    self.skip_value(depth)?;
                    let source = &self.text[start..self.at];
                    if let Some(to) = self.edit_of(source) {
                        self.replace(start, &to);
                        return Some(());
                    }
                    self.at = start;
                }
                self.members(depth.checked_sub(1)?, Rewriter::value)?;
            }
            _ => self.scalar()?,
        }
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

    /// Returns the replacement of a text. Equal texts take their edits in order, and copies after them the last one.
    fn edit_of(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let is_of_text = |index: &usize| self.edits[*index].from == text;
        let mut of_text = (0..self.edits.len()).filter(is_of_text);
        let unused = of_text.clone().find(|index| !self.used[*index]);
        let found = unused.or_else(|| of_text.next_back())?;
        self.used[found] = true;
        Some(self.edits[found].to.clone())
    }

    /// Returns true if the document has the text of each edit. Equal texts with equal replacements may be in it once.
    fn has_every_text(&self) -> bool {
        let edits = self.edits.iter().zip(&self.used);
        let mut unused = edits.clone().filter(|(_, used)| !**used);
        unused.all(|(edit, _)| edits.clone().any(|(other, used)| *used && other == edit))
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

    fn edited(document: &str, edits: &[(&str, &str)]) -> Option<String> {
        let edits: Vec<TextReplacement> = edits
            .iter()
            .map(|(from, to)| TextReplacement {
                from: from.as_bytes().to_vec(),
                to: to.as_bytes().to_vec(),
            })
            .collect();
        rewrite(document.as_bytes(), &edits).map(|out| String::from_utf8(out).unwrap())
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
            let edit = TextReplacement {
                from: text.to_vec(),
                to: b"ok".to_vec(),
            };
            let out = rewrite(source.as_bytes(), &[edit]);
            assert_eq!(out.as_deref(), Some(&b"\"ok\""[..]), "{source}");
        }
    }
}
