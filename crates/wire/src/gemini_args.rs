//! Arguments of a function call that come value by value, each with its path (`$.files[0].name`), made into
//! the JSON that other providers stream.
//!
//! Values come in the order in which they would be written; one that does not is written again under its
//! name. It knows nothing of parts and replies.

use super::json::Json;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Vec<u8>),
    Index(u64),
}

impl Step {
    fn brackets(&self) -> [u8; 2] {
        match self {
            Step::Key(_) => *b"{}",
            Step::Index(_) => *b"[]",
        }
    }
}

/// The JSON written so far: where it is, and whether a string is open there.
#[derive(Clone, Debug, Default)]
pub(super) struct PartialArgs {
    path: Vec<Step>,
    in_string: bool,
}

impl PartialArgs {
    /// The JSON that follows what was given so far.
    pub(super) fn json_of(&mut self, piece: &Json<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let path = steps(piece.bytes("jsonPath").unwrap_or_default());
        let text = piece.bytes("stringValue");
        if !(self.in_string && text.is_some() && path == self.path) {
            self.go_to(path, &mut out);
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

    /// What closes all that is open.
    pub(super) fn end(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.close(0, &mut out);
        self.path.clear();
        out
    }

    /// Leaves what is open, but for what the new path has in common with the old one, and enters the rest.
    fn go_to(&mut self, path: Vec<Step>, out: &mut Vec<u8>) {
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
            if let Step::Key(key) = step {
                out.push(b'"');
                escape(key, out);
                out.extend_from_slice(b"\":");
            }
        }
        self.path = path;
    }

    /// Ends the open string and every container from that depth on.
    fn close(&mut self, depth: usize, out: &mut Vec<u8>) {
        out.extend(std::mem::take(&mut self.in_string).then_some(b'"'));
        let inner = self.path.iter().skip(depth).rev();
        out.extend(inner.map(|step| step.brackets()[1]));
    }
}

/// A value that is no string, as it was written.
fn scalar<'a>(piece: &Json<'a>) -> &'a [u8] {
    let value = piece.get("numberValue").or(piece.get("boolValue"));
    value.map_or(b"null", Json::raw)
}

/// Reads `$.a.b[0]['c']`; a path that names nothing is one step with the empty name.
fn steps(path: &[u8]) -> Vec<Step> {
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
                steps.push(Step::Key(name.to_vec()));
                rest = tail;
            }
            _ => {
                steps.push(Step::Key(rest.to_vec()));
                rest = &[];
            }
        }
    }
    if steps.is_empty() {
        steps.push(Step::Key(Vec::new()));
    }
    steps
}

fn bracketed(inside: &[u8]) -> Step {
    let number = std::str::from_utf8(inside)
        .ok()
        .and_then(|text| text.parse().ok());
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
    let name = inside.split(quotes).nth(1).unwrap_or(inside);
    number.map_or_else(|| Step::Key(name.to_vec()), Step::Index)
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
            let (piece, _) = Json::parse(piece.as_bytes()).unwrap();
            json.extend(args.json_of(&piece));
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
