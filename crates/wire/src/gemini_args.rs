//! Builds the JSON of a function call from arguments that come value by value.
//!
//! Source: `PartialArg` in the `FunctionCall` schema of Vertex AI (`v1`), which gives each value with its JSON path,
//! such as `$.files[0].name` (RFC 9535). Values come in document order; one that does not is written again under its
//! name. This module knows no parts and replies.

use super::json::JsonValue;

/// A segment of a JSON path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Key(Vec<u8>),
    Index(u64),
}

impl PathStep {
    fn brackets(&self) -> [u8; 2] {
        match self {
            PathStep::Key(_) => *b"{}",
            PathStep::Index(_) => *b"[]",
        }
    }
}

/// The state of the JSON written so far: the current path, and whether a string is open there.
#[derive(Clone, Debug, Default)]
pub(super) struct PartialArgs {
    path: Vec<PathStep>,
    in_string: bool,
}

impl PartialArgs {
    /// Returns the JSON that continues the output so far.
    pub(super) fn continue_with(&mut self, piece: &JsonValue<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let path = parse_path(piece.bytes("jsonPath").unwrap_or_default());
        let text = piece.bytes("stringValue");
        if !(self.in_string && text.is_some() && path == self.path) {
            self.move_to(path, &mut out);
            out.extend(text.map(|_| b'"'));
        }
        match text {
            Some(text) => {
                escape(text, &mut out);
                let more = piece.get("willContinue");
                self.in_string = more.is_some_and(|more| more.raw() == b"true");
                out.extend((!self.in_string).then_some(b'"'));
            }
            None => out.extend_from_slice(scalar(piece)),
        }
        out
    }

    /// Returns the text that closes the open string and all open containers.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.close(0, &mut out);
        self.path.clear();
        out
    }

    /// Closes the containers that the new path does not share with the old one, and opens the rest of the new path.
    fn move_to(&mut self, path: Vec<PathStep>, out: &mut Vec<u8>) {
        let common = self
            .path
            .iter()
            .zip(&path)
            .take_while(|(old, new)| old == new);
        let common = common.count().min(self.path.len().saturating_sub(1));
        let common = common.min(path.len().saturating_sub(1));
        let fresh = self.path.is_empty();
        self.close(common + 1, out);
        for (at, step) in path.iter().enumerate().skip(common) {
            match at == common && !fresh {
                true => out.push(b','),
                false => out.push(step.brackets()[0]),
            }
            if let PathStep::Key(key) = step {
                out.push(b'"');
                escape(key, out);
                out.extend_from_slice(b"\":");
            }
        }
        self.path = path;
    }

    /// Closes the open string and every container from that depth on.
    fn close(&mut self, depth: usize, out: &mut Vec<u8>) {
        out.extend(std::mem::take(&mut self.in_string).then_some(b'"'));
        let inner = self.path.iter().skip(depth).rev();
        out.extend(inner.map(|step| step.brackets()[1]));
    }
}

/// Returns the source text of a value that is not a string.
fn scalar<'a>(piece: &JsonValue<'a>) -> &'a [u8] {
    let value = piece.get("numberValue").or(piece.get("boolValue"));
    value.map_or(b"null", JsonValue::raw)
}

/// Parses a path such as `$.a.b[0]['c']`; a path without segments is one segment with the empty name.
fn parse_path(path: &[u8]) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix(b"$").unwrap_or(path);
    while let [first, after @ ..] = rest {
        let until = |ends: &[u8]| {
            let end = after.iter().position(|byte| ends.contains(byte));
            after.split_at(end.unwrap_or(after.len()))
        };
        match first {
            b'[' => {
                let (inside, tail) = until(b"]");
                steps.push(bracketed(inside));
                rest = tail.get(1..).unwrap_or_default();
            }
            b'.' => {
                let (name, tail) = until(b".[");
                steps.push(PathStep::Key(name.to_vec()));
                rest = tail;
            }
            _ => {
                steps.push(PathStep::Key(rest.to_vec()));
                rest = &[];
            }
        }
    }
    if steps.is_empty() {
        steps.push(PathStep::Key(Vec::new()));
    }
    steps
}

fn bracketed(inside: &[u8]) -> PathStep {
    let number = std::str::from_utf8(inside)
        .ok()
        .and_then(|text| text.parse().ok());
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
    let name = inside.split(quotes).nth(1).unwrap_or(inside);
    number.map_or_else(|| PathStep::Key(name.to_vec()), PathStep::Index)
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &str) {
        let mut args = PartialArgs::default();
        let mut json = Vec::new();
        for piece in pieces {
            let (piece, _) = JsonValue::parse(piece.as_bytes()).unwrap();
            json.extend(args.continue_with(&piece));
        }
        json.extend(args.end());
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }

    #[test]
    fn values_become_one_document() {
        let a = r#"{"jsonPath":"$.list[0].name","stringValue":"a \"b","willContinue":true}"#;
        let b = r#"{"jsonPath":"$.list[0].name","stringValue":"\n"}"#;
        let c = r#"{"jsonPath":"$.list[0].price","numberValue":0.5}"#;
        let d = r#"{"jsonPath":"$.list[1].sold","boolValue":false}"#;
        let e = r#"{"jsonPath":"$['a.b'][0]","nullValue":"NULL_VALUE"}"#;
        check(
            &[a, b, c, d, e],
            r#"{"list":[{"name":"a \"b\n","price":0.5},{"sold":false}],"a.b":[null]}"#,
        );
        check(&[a], r#"{"list":[{"name":"a \"b"}]}"#);
        check(&[], "");
    }

    #[test]
    fn odd_paths_lose_no_value() {
        let piece =
            |path: &str, value: &str| format!(r#"{{"jsonPath":"{path}","stringValue":"{value}"}}"#);
        check(
            &[&piece("$.a", "1"), &piece("$.a", "2")],
            r#"{"a":"1","a":"2"}"#,
        );
        check(
            &[&piece("$.a.b", "1"), &piece("$.a", "2")],
            r#"{"a":{"b":"1"},"a":"2"}"#,
        );
        check(&[&piece("$", "1"), &piece("", "2")], r#"{"":"1","":"2"}"#);
        check(
            &[&piece("x", "1"), &piece("$.y[", "2")],
            r#"{"x":"1","y":{"":"2"}}"#,
        );
    }
}
