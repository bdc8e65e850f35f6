//! Reads the bodies of recorded responses from YAML cassettes. Only the part of YAML that those files use is supported.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the bodies of all responses in the order of the file.
pub fn bodies(yaml: &str) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = yaml.lines().collect();
    let mut bodies = Vec::new();
    let mut in_response = false;
    for (at, line) in lines.iter().enumerate() {
        match line.trim_start().trim_start_matches("- ") {
            "request:" => in_response = false,
            "response:" => in_response = true,
            text if in_response => {
                let value = text.strip_prefix("string:").or(text.strip_prefix("body:"));
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    let indent = line.len() - line.trim_start().len();
                    bodies.push(scalar(value.trim_start(), indent, &lines[at + 1..]));
                    in_response = false;
                }
            }
            _ => {}
        }
    }
    bodies
}

fn scalar(first: &str, indent: usize, following: &[&str]) -> Vec<u8> {
    let inside =
        |line: &&&str| line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
    let rest: Vec<&str> = following.iter().take_while(inside).copied().collect();
    if let Some(style) = first.strip_prefix("!!binary") {
        assert!(
            style.trim().starts_with('|'),
            "binary bodies are literal blocks"
        );
        let digits: String = rest.concat().split_whitespace().collect();
        return STANDARD.decode(digits).expect("binary bodies are base64");
    }
    if first.starts_with('|') {
        let margin = rest
            .iter()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.len() - line.trim_start().len());
        let margin = margin.min().unwrap_or(0);
        return rest
            .iter()
            .map(|line| format!("{}\n", line.get(margin..).unwrap_or_default()))
            .collect::<String>()
            .into();
    }
    let quoted: Vec<&str> = std::iter::once(first).chain(rest).collect();
    match first.chars().next() {
        Some('"') => double_quoted(&quoted.join("\n")[1..]),
        Some('\'') => single_quoted(&quoted.join("\n")[1..]),
        _ => first.into(),
    }
    .into_bytes()
}

/// Folds a line break with the blanks around it to a space, and each further blank line to a line break. Returns the
/// number of bytes read.
fn fold(text: &str, out: &mut String) -> usize {
    let space = text.len() - text.trim_start_matches([' ', '\t', '\n']).len();
    let breaks = text[..space].matches('\n').count();
    match breaks {
        0 => out.push_str(&text[..space]),
        1 => out.push(' '),
        more => out.extend(std::iter::repeat_n('\n', more - 1)),
    }
    space
}

fn single_quoted(text: &str) -> String {
    let (mut out, mut at) = (String::new(), 0);
    loop {
        let rest = &text[at..];
        let char = rest.chars().next().expect("a quoted scalar is closed");
        at += char.len_utf8();
        match char {
            '\'' if rest[1..].starts_with('\'') => {
                out.push('\'');
                at += 1;
            }
            '\'' => return out,
            ' ' | '\t' | '\n' => at += fold(rest, &mut out) - 1,
            char => out.push(char),
        }
    }
}

fn double_quoted(text: &str) -> String {
    let (mut out, mut at) = (String::new(), 0);
    loop {
        let rest = &text[at..];
        let char = rest.chars().next().expect("a quoted scalar is closed");
        at += char.len_utf8();
        match char {
            '"' => return out,
            '\\' => at += escape(&rest[1..], &mut out),
            ' ' | '\t' | '\n' => at += fold(rest, &mut out) - 1,
            char => out.push(char),
        }
    }
}

/// Decodes the escape after a backslash. Returns the number of bytes read.
fn escape(text: &str, out: &mut String) -> usize {
    let hex = |digits: usize| {
        let code = u32::from_str_radix(&text[1..=digits], 16).expect("escapes have hex digits");
        char::from_u32(code).expect("escapes are characters")
    };
    let (char, len) = match text.as_bytes()[0] {
        b'n' => ('\n', 1),
        b't' => ('\t', 1),
        b'r' => ('\r', 1),
        b'0' => ('\0', 1),
        b'b' => ('\x08', 1),
        b'e' => ('\x1b', 1),
        b'N' => ('\u{85}', 1),
        b'_' => ('\u{a0}', 1),
        b'L' => ('\u{2028}', 1),
        b'P' => ('\u{2029}', 1),
        b'x' => (hex(2), 3),
        b'u' => (hex(4), 5),
        b'U' => (hex(8), 9),
        // An escaped line break joins the lines without a space.
        b'\n' => return text.len() - text[1..].trim_start_matches([' ', '\t']).len(),
        other => (char::from(other), 1),
    };
    out.push(char);
    len
}

#[test]
fn quoting_styles() {
    let yaml = "- request:\n    body: 'no'\n  response:\n    body:\n      string: \"a\\n\n        \\  b\\\n        \\tc d\n        e\"\n\
                - request:\n    body: no\n  response:\n    body:\n      string: 'it''s\n\n\n        two\n        words'\n\
                - response:\n    body: |+\n      data: x\n\n      data: y\n    headers: {}\n\
                - response:\n    body:\n      string: !!binary |\n        aGkg\n        aG8=\n";
    let bodies: Vec<String> = bodies(yaml)
        .into_iter()
        .map(|body| String::from_utf8(body).unwrap())
        .collect();
    assert_eq!(
        bodies,
        [
            "a\n   b\tc d e",
            "it's\n\ntwo words",
            "data: x\n\ndata: y\n",
            "hi ho"
        ]
    );
}

/// Returns the body of the response in a transcript of one exchange. The second line of the transcript has the lengths
/// of request and response.
pub fn transcript_body(transcript: &[u8]) -> Vec<u8> {
    let mut lines = transcript.splitn(3, |byte| *byte == b'\n');
    let (_, lengths) = (lines.next(), lines.next().expect("lengths come second"));
    let exchange = lines.next().expect("the exchange comes third");
    let lengths = std::str::from_utf8(lengths).expect("lengths are digits");
    let (request, _) = lengths.split_once(' ').expect("there are two lengths");
    let response = &exchange[request.parse().expect("lengths are numbers")..];
    let head = response
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("a response has a head");
    let chunked = response[..head]
        .windows(7)
        .any(|window| window == b"chunked");
    let body = &response[head + 4..];
    if chunked {
        unchunked(body)
    } else {
        body.to_vec()
    }
}

fn unchunked(body: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), body);
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let length = std::str::from_utf8(&rest[..end]).expect("lengths are digits");
        let length = usize::from_str_radix(length, 16).expect("lengths are hexadecimal");
        if length == 0 {
            break;
        }
        out.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 2 + length + 2..];
    }
    out
}
