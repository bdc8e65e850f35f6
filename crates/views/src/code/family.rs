//! Families of languages that share a lexer, and their differences.

/// The syntax of comments and strings that a group of languages shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Rust,
    Go,
    /// JavaScript and TypeScript.
    Script,
    C,
    /// Like C, with text blocks in `"""` (Java, Kotlin, Swift, Scala).
    Java,
    Css,
    Json,
    Python,
    Shell,
    Toml,
    Yaml,
    Sql,
    /// HTML and XML.
    Markup,
}

/// The names of languages in info strings, and file extensions.
const NAMES: [(Family, &[&str]); 13] = [
    (Family::Rust, &["rust", "rs"]),
    (Family::Go, &["go", "golang"]),
    (
        Family::Script,
        &[
            "javascript",
            "js",
            "mjs",
            "cjs",
            "jsx",
            "typescript",
            "ts",
            "mts",
            "cts",
            "tsx",
            "node",
        ],
    ),
    (
        Family::C,
        &[
            "c",
            "h",
            "cpp",
            "c++",
            "cc",
            "cxx",
            "hpp",
            "hh",
            "hxx",
            "objective-c",
            "objc",
            "m",
            "mm",
            "cs",
            "csharp",
            "c#",
            "dart",
            "zig",
            "proto",
            "protobuf",
            "glsl",
            "hlsl",
            "cuda",
            "cu",
        ],
    ),
    (
        Family::Java,
        &[
            "java", "kotlin", "kt", "kts", "swift", "scala", "sc", "groovy", "gradle",
        ],
    ),
    (Family::Css, &["css", "scss", "less"]),
    (Family::Json, &["json", "jsonc", "json5", "jsonl", "ndjson"]),
    (
        Family::Python,
        &[
            "python", "py", "pyi", "pyw", "python3", "py3", "starlark", "bzl", "ipynb",
        ],
    ),
    (
        Family::Shell,
        &["shell", "sh", "bash", "zsh", "ksh", "dash", "shellscript"],
    ),
    (Family::Toml, &["toml"]),
    (Family::Yaml, &["yaml", "yml"]),
    (
        Family::Sql,
        &["sql", "mysql", "postgresql", "postgres", "sqlite", "plsql"],
    ),
    (
        Family::Markup,
        &["html", "htm", "xhtml", "xml", "svg", "vue", "svelte"],
    ),
];

impl Family {
    /// Returns the family of the language with this lowercase name, or `None` if it is not known.
    pub(super) fn from_language(name: &str) -> Option<Family> {
        let mut rows = NAMES.iter();
        rows.find(|(_, names)| names.contains(&name))
            .map(|&(family, _)| family)
    }

    /// Returns the bytes that can start a comment or a literal. Every other byte is code, whatever precedes it.
    pub(super) fn marks(self) -> &'static MarkerBytes {
        const RUST: MarkerBytes = marks(b"\"'/");
        const GO: MarkerBytes = marks(b"\"'`/");
        const SCRIPT: MarkerBytes = marks(b"\"'`/{}#");
        const PYTHON: MarkerBytes = marks(b"\"'#");
        const SHELL: MarkerBytes = marks(b"\"'#\\<()\n");
        const JSON: MarkerBytes = marks(b"\"/");
        const SQL: MarkerBytes = marks(b"\"'/-");
        const MARKUP: MarkerBytes = marks(b"\"'<>");
        match self {
            Family::Rust | Family::C | Family::Java | Family::Css => &RUST,
            Family::Go => &GO,
            Family::Script => &SCRIPT,
            Family::Python | Family::Toml | Family::Yaml => &PYTHON,
            Family::Shell => &SHELL,
            Family::Json => &JSON,
            Family::Sql => &SQL,
            Family::Markup => &MARKUP,
        }
    }

    /// Returns true if block comments nest.
    pub(super) fn nests(self) -> bool {
        matches!(self, Family::Rust)
    }

    /// Returns true if `//` starts a comment.
    pub(super) fn has_line_comments(self) -> bool {
        !matches!(self, Family::Css | Family::Sql)
    }

    /// Returns true if three quotes open a multi-line string.
    pub(super) fn has_triple_quotes(self, mark: u8) -> bool {
        match self {
            Family::Python | Family::Toml => true,
            Family::Java => mark == b'"',
            _ => false,
        }
    }

    /// Returns true if a backslash escapes the next character of the string.
    pub(super) fn escapes(self, mark: u8) -> bool {
        match self {
            Family::Sql | Family::Markup => false,
            Family::Toml | Family::Yaml | Family::Shell => mark == b'"',
            _ => mark != b'`' || self == Family::Script,
        }
    }

    /// Returns true if a string can span lines.
    pub(super) fn spans_lines(self, mark: u8) -> bool {
        match self {
            Family::Rust => mark == b'"',
            Family::Go => mark == b'`',
            Family::Shell | Family::Sql | Family::Markup => true,
            _ => false,
        }
    }
}

/// A set of bytes.
pub(super) type MarkerBytes = [bool; 256];

const fn marks(bytes: &[u8]) -> MarkerBytes {
    let mut marks = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        marks[bytes[at] as usize] = true;
        at += 1;
    }
    marks
}
