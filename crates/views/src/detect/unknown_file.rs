//! Mentions of unknown files: code spans of a text that look like a file path and are not in the lists of the rule and
//! the host.
//!
//! Memory: one code span of at most [`SPAN`] bytes.

use std::sync::Arc;

use super::unknown_name::KnownNames;
use super::{Detection, Detector};
use crate::chunk::{Chunk, ChunkBuffer};

/// The longest code span that is read as a path, in bytes.
pub const SPAN: usize = 255;

/// The extensions that a name without a folder must have, because many other words contain a dot.
const ENDINGS: [&str; 44] = [
    "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "env", "go", "gradle", "h", "hpp", "html",
    "ini", "java", "js", "json", "jsonl", "jsx", "kt", "lock", "lua", "md", "mjs", "mts", "php",
    "proto", "py", "rb", "rs", "scss", "sh", "sql", "svelte", "svg", "swift", "toml", "ts", "tsx",
    "txt", "vue", "xml", "yaml",
];

/// Reads one code span.
#[derive(Clone, Debug)]
pub struct UnknownFileDetector {
    known: Arc<KnownNames>,
    /// Further known names.
    also_known: Option<Arc<KnownNames>>,
    span: ChunkBuffer,
    is_long: bool,
}

impl UnknownFileDetector {
    /// Creates a detector for one code span. `also_known` names are known as well.
    pub fn new(known: Arc<KnownNames>, also_known: Option<Arc<KnownNames>>) -> UnknownFileDetector {
        UnknownFileDetector {
            known,
            also_known,
            span: ChunkBuffer::default(),
            is_long: false,
        }
    }

    /// Returns the start of the code span, from which text can still become a detection.
    pub fn pending_from(&self) -> Option<u64> {
        let first = self.span.chunk_at(0).filter(|_| !self.is_long);
        first.map(|chunk| chunk.start(0))
    }

    fn is_unknown(&self, path: &str) -> bool {
        let also_known = self.also_known.as_ref();
        !self.known.holds_file(path) && !also_known.is_some_and(|known| known.holds_file(path))
    }
}

impl Detector for UnknownFileDetector {
    fn push(&mut self, chunk: Chunk<'_>, _found: &mut dyn FnMut(Detection)) {
        self.is_long |= self.span.bytes().len() + chunk.bytes.len() > SPAN;
        if !self.is_long {
            self.span.push(chunk);
        }
    }

    fn finish(&mut self, decided: u64, found: &mut dyn FnMut(Detection)) {
        let text = std::str::from_utf8(self.span.bytes()).unwrap_or_default();
        if !self.is_long
            && let Some(path) = path(text)
            && self.is_unknown(path)
        {
            let at = path.as_ptr() as usize - text.as_ptr() as usize;
            let chunks = || self.span.chunks(at..at + path.len());
            if let (Some(first), Some(last)) = (chunks().next(), chunks().last()) {
                let end = last.end(last.bytes.len() - 1);
                found(Detection {
                    start: first.start(0),
                    end,
                    decided: decided.max(end),
                });
            }
        }
        self.span.clear();
        self.is_long = false;
    }
}

/// Returns the path in the span, if it looks like one: no blanks, an extension, and a folder or a common extension. A
/// line number after it (`a.rs:12`, `a.rs#L12`) is left out.
fn path(span: &str) -> Option<&str> {
    let span = span.trim();
    let span = span.split_once("#L").map_or(span, |(path, _)| path);
    let span = span.split_once(':').map_or(span, |(path, line)| {
        let is_line = line
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b":-".contains(&byte));
        if is_line && !line.is_empty() {
            path
        } else {
            span
        }
    });
    let path = span.strip_prefix("./").unwrap_or(span);
    let is_name =
        |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_-./+".contains(&byte);
    if !path.bytes().all(is_name) || path.contains("..") || path.starts_with('/') {
        return None;
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, ending) = name.rsplit_once('.')?;
    let is_ending = (1..=8).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
    // `example.org/a.html` is not a local file.
    let host = folder.split('/').next().unwrap_or_default();
    let is_host = host.contains('.') && !host.starts_with('.');
    let is_usual = !folder.is_empty() || ENDINGS.contains(&ending.to_ascii_lowercase().as_str());
    (!stem.is_empty() && is_ending && !is_host && is_usual).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn code_spans_that_read_like_files() {
        for (span, expected) in [
            ("src/main.rs", Some("src/main.rs")),
            ("./src/main.rs", Some("src/main.rs")),
            (" Cargo.toml ", Some("Cargo.toml")),
            ("src/a.rs:12", Some("src/a.rs")),
            ("src/a.rs:12:5", Some("src/a.rs")),
            ("docs/a.md#L3", Some("docs/a.md")),
            (".github/workflows/ci.yml", Some(".github/workflows/ci.yml")),
            ("pages/größe.tsx", Some("pages/größe.tsx")),
            ("items.len", None),
            ("items.len()", None),
            ("std::fs", None),
            ("a.rs:b", None),
            ("cargo test", None),
            ("1.2", None),
            ("v1.2/3.4", None),
            ("src/", None),
            ("*.rs", None),
            ("../up.rs", None),
            ("/etc/app.conf", None),
            ("https://a.org/b.html", None),
            ("a.org/b.html", None),
            (".env", None),
            ("", None),
        ] {
            assert_eq!(path(span), expected, "{span}");
        }
    }
}
