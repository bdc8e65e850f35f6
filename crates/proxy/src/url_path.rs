//! The path of a URL as servers read it.

/// Returns true if a segment of the path is `.` or `..`, also in escapes. Servers resolve such segments, so the path that
/// they answer is another one than that by which the API is known.
pub(crate) fn has_dot_segment(path: &str) -> bool {
    let plain = unescaped(path);
    segments(&plain).any(|segment| matches!(bare(segment), "." | ".."))
}

/// Returns a segment without its parameters, and without blanks around it: some servers remove them before they read it.
pub(crate) fn bare(segment: &str) -> &str {
    let is_blank = |char: char| char.is_whitespace() || char.is_control();
    let name = segment.split([';', '?', '#']).next().unwrap_or_default();
    name.trim_matches(is_blank)
}

/// Returns the segments that are not empty. Some servers read a backslash as a slash.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\']).filter(|it| !it.is_empty())
}

/// Decodes escapes of the form `%XX`; all other bytes stay.
pub(crate) fn unescaped(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_found_however_they_are_written() {
        for (path, want) in [
            ("/v1/messages/.", true),
            ("/v1/x/../messages", true),
            ("/..", true),
            ("/v1/x/%2e./messages", true),
            ("/v1/%2E/messages", true),
            ("/v1/x%2f..%2Fmessages", true),
            ("/v1/x\\..\\messages", true),
            ("/v1/messages/files/..;", true),
            ("/v1/messages/files/..;a=b/", true),
            ("/v1/messages/files/..%3Ba/", true),
            ("/v1/messages/files/..%20", true),
            ("/v1/messages/files/.%00./", false),
            ("/v1/models/..m", false),
            ("/v1/models/m.", false),
            ("/v1/.../messages", false),
            ("/", false),
        ] {
            assert_eq!(has_dot_segment(path), want, "{path}");
        }
    }
}
