//! A framer for JSON documents one after another: bytes in, records out.
//!
//! A record is a line, or a document that spans several lines (such as a pretty-printed error body). A line that ends
//! inside a string is a record of its own, and so is an unfinished object if the next line starts a new one: one bad
//! line does not cost the next. The framer does not parse the records.

use memchr::memchr;

/// A framed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonRecord<'a> {
    /// The text of one document, which may be invalid.
    Text(&'a [u8]),
    /// A record over the cap, which was dropped whole.
    Dropped { bytes: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct JsonLines {
    cap: usize,
    /// The record so far; `line` is the offset of its last line.
    text: Vec<u8>,
    line: usize,
    /// The number of open braces and brackets at `line`.
    depth: usize,
    over: u64,
}

impl JsonLines {
    pub(super) fn with_cap(cap: usize) -> JsonLines {
        JsonLines {
            cap,
            text: Vec::new(),
            line: 0,
            depth: 0,
            over: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(JsonRecord<'_>)) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            self.extend(&rest[..end]);
            self.end_line(on);
            rest = &rest[end + 1..];
        }
        self.extend(rest);
    }

    pub(super) fn finish(&mut self, on: &mut dyn FnMut(JsonRecord<'_>)) {
        self.end_line(on);
        self.release(self.text.len(), on);
        *self = JsonLines::with_cap(self.cap);
    }

    /// Returns true if bytes wait for the rest of their document.
    pub(super) fn has_partial(&self) -> bool {
        self.over > 0 || !self.text.trim_ascii().is_empty()
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.over > 0 {
            self.over += bytes.len() as u64;
        } else if bytes.len() > self.cap.saturating_sub(self.text.len()) {
            self.over = (self.text.len() + bytes.len()) as u64;
            self.text = Vec::new();
            (self.line, self.depth) = (0, 0);
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, on: &mut dyn FnMut(JsonRecord<'_>)) {
        if self.over > 0 {
            on(JsonRecord::Dropped {
                bytes: std::mem::take(&mut self.over),
            });
            return;
        }
        let broken = self.depth > 0
            && self.text.first() == Some(&b'{')
            && self.text.get(self.line) == Some(&b'{');
        if broken {
            self.release(self.line, on);
        }
        match depth_after(self.depth, &self.text[self.line..]) {
            Some(depth) if depth > 0 => {
                self.depth = depth;
                self.text.push(b'\n');
                self.line = self.text.len();
            }
            _ => self.release(self.text.len(), on),
        }
    }

    /// Emits the first `len` bytes; the rest starts the next record.
    fn release(&mut self, len: usize, on: &mut dyn FnMut(JsonRecord<'_>)) {
        let record = &self.text[..len];
        if !record.trim_ascii().is_empty() {
            on(JsonRecord::Text(record));
        }
        self.text.drain(..len);
        (self.line, self.depth) = (0, 0);
    }
}

/// Returns the number of braces and brackets open after `line`, or `None` if it ends inside a string, which JSON
/// forbids.
fn depth_after(mut depth: usize, line: &[u8]) -> Option<usize> {
    let mut string = false;
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => string = !string,
            b'\\' if string => {
                bytes.next();
            }
            b'{' | b'[' if !string => depth += 1,
            b'}' | b']' if !string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (!string).then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(cap: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut seen = Vec::new();
        let mut on = |record: JsonRecord<'_>| {
            seen.push(match record {
                JsonRecord::Text(text) => {
                    String::from_utf8_lossy(text.trim_ascii()).replace('\n', "/")
                }
                JsonRecord::Dropped { bytes } => format!("-{bytes}"),
            });
        };
        let mut lines = JsonLines::with_cap(cap);
        for piece in pieces {
            lines.push(piece, &mut on);
        }
        lines.finish(&mut on);
        seen
    }

    #[test]
    fn records_do_not_depend_on_cuts() {
        let cases: &[(&str, &str, &[&str])] = &[
            (
                "one a line",
                "{\"a\":1}\r\n\n{\"b\":2}",
                &["{\"a\":1}", "{\"b\":2}"],
            ),
            (
                "pretty-printed",
                "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n{}",
                &["{/  \"a\": {/    \"b\": 1/  }/}", "{}"],
            ),
            (
                "array over lines",
                "[\n{\"a\":1},\n{\"b\":2}\n]\n",
                &["[/{\"a\":1},/{\"b\":2}/]"],
            ),
            (
                "cut inside a string costs one line",
                "{\"a\":\"x\n{\"b\":2}\n",
                &["{\"a\":\"x", "{\"b\":2}"],
            ),
            (
                "cut inside an object costs one line",
                "{\"a\":\n{\"b\":2}\n",
                &["{\"a\":", "{\"b\":2}"],
            ),
            (
                "brackets in strings",
                "{\"a\":\"[{\\\"\"}\n[DONE]\n",
                &["{\"a\":\"[{\\\"\"}", "[DONE]"],
            ),
            ("never closed", "{\"a\":[\n1,\n", &["{\"a\":[/1,"]),
            (
                "over the cap",
                "{\"a\":\"0123456789012345678901234567890\"}\n{}\n",
                &["-39", "{}"],
            ),
        ];
        for (name, text, expected) in cases {
            let text = text.as_bytes();
            let single: Vec<_> = text.chunks(1).collect();
            assert_eq!(records(32, &single), *expected, "{name}: byte by byte");
            for cut in 0..=text.len() {
                assert_eq!(
                    records(32, &[&text[..cut], &text[cut..]]),
                    *expected,
                    "{name}: cut at {cut}"
                );
            }
        }
    }
}
