//! Scopes of a tool call: which file, which tool, which argument a rule is about.
//!
//! It owns what globs mean and what a path is called. Everything is lexical: no file is looked at,
//! so links are not followed, and case counts (but for tool names and drive letters). It does not
//! know where a path comes from or what happens where there is none.

use std::borrow::Cow;

use globset::{Candidate, Error, GlobBuilder, GlobMatcher, GlobSet};

use super::json::ArgPath;

/// Arguments that hold the path of the file a tool call is about.
pub(crate) const PATH_KEYS: [&str; 6] = [
    "path",
    "file_path",
    "filePath",
    "filename",
    "notebook_path",
    "target_file",
];

/// Whether the last segment of an argument's path says that its value is a file path.
pub(crate) fn is_path_key(segment: &str) -> bool {
    PATH_KEYS.contains(&segment)
}

/// The one name of a file, however its path is written.
///
/// Backslashes become slashes; `.`, `//`, a trailing `/` and, lexically, `..` go. With a `root`, what
/// is inside it is relative to it, however it was written (`/root/a`, `../root/a`), and what is
/// outside is absolute. Without one, or with one that is not absolute, relative paths stay relative
/// and keep the `..` that lead out; nothing leads above `/`. A drive letter makes a path absolute
/// and is upper case: `c:\a` is `C:/a`; the prefixes `\\?\` and `\\.\` go. The root itself is `.`.
///
/// What is not a separator is a character like any other: `%2e`, NUL, spaces.
pub(crate) fn normalise(path: &str, root: Option<&str>) -> String {
    let root = root.map(slashes);
    let root = root
        .as_deref()
        .map(Lexical::new)
        .filter(Lexical::is_absolute);
    let path = slashes(path);
    let path = Lexical::new(&path);
    let Some(root) = root else {
        return path.to_string();
    };
    let whole = if path.is_absolute() {
        path
    } else {
        root.join(&path)
    };
    match whole.inside(&root) {
        Some(relative) => relative.to_string(),
        None => whole.to_string(),
    }
}

fn slashes(path: &str) -> String {
    let mut path = path.replace('\\', "/");
    if path.starts_with("//?/") || path.starts_with("//./") {
        path.drain(..4);
    }
    path
}

/// A path taken apart: `.`, empty names and resolvable `..` are gone.
#[derive(Clone, Debug)]
struct Lexical<'a> {
    /// `/` or `C:/`; none for a relative path.
    anchor: Option<Cow<'a, str>>,
    names: Vec<&'a str>,
}

impl<'a> Lexical<'a> {
    fn new(path: &'a str) -> Lexical<'a> {
        let (anchor, rest) = anchor(path);
        let mut lexical = Lexical {
            anchor,
            names: Vec::new(),
        };
        lexical.extend(rest.split('/'));
        lexical
    }

    fn is_absolute(&self) -> bool {
        self.anchor.is_some()
    }

    fn extend(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            match (name, self.names.last()) {
                ("" | ".", _) => {}
                ("..", Some(&last)) if last != ".." => drop(self.names.pop()),
                ("..", None) if self.is_absolute() => {}
                _ => self.names.push(name),
            }
        }
    }

    fn join(&self, relative: &Lexical<'a>) -> Lexical<'a> {
        let mut joined = self.clone();
        joined.extend(relative.names.iter().copied());
        joined
    }

    /// The path relative to `root`, if it is in there.
    fn inside(&self, root: &Lexical<'a>) -> Option<Lexical<'a>> {
        let names = self.names.strip_prefix(root.names.as_slice())?;
        (self.anchor == root.anchor).then(|| Lexical {
            anchor: None,
            names: names.to_vec(),
        })
    }
}

impl std::fmt::Display for Lexical<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.anchor {
            None if self.names.is_empty() => out.write_str("."),
            anchor => write!(
                out,
                "{}{}",
                anchor.as_deref().unwrap_or(""),
                self.names.join("/")
            ),
        }
    }
}

/// What makes a path absolute, and the rest of it.
fn anchor(path: &str) -> (Option<Cow<'_, str>>, &str) {
    if let Some(rest) = path.strip_prefix('/') {
        return (Some("/".into()), rest);
    }
    match path.as_bytes() {
        [letter, b':'] | [letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => (
            Some(format!("{}:/", letter.to_ascii_uppercase() as char).into()),
            &path[2..],
        ),
        _ => (None, path),
    }
}

#[derive(Debug)]
pub(crate) struct ToolScope(Vec<String>);
impl ToolScope {
    pub(crate) fn new(g: &[String]) -> Result<Self, Error> {
        Ok(Self(g.to_vec()))
    }
    pub(crate) fn applies(&self, t: &str) -> bool {
        self.0.iter().any(|g| g.eq_ignore_ascii_case(t))
    }
}
#[derive(Debug)]
pub(crate) struct ArgScope(Vec<String>);
impl ArgScope {
    pub(crate) fn new(g: &[String]) -> Result<Self, Error> {
        Ok(Self(g.to_vec()))
    }
    pub(crate) fn matches(&self, t: &ArgPath) -> bool {
        self.0.iter().any(|g| g == t.dotted())
    }
}
#[derive(Debug)]
pub(crate) struct PathScope(Vec<String>);
impl PathScope {
    pub(crate) fn new(g: &[String]) -> Result<Self, Error> {
        Ok(Self(g.to_vec()))
    }
    pub(crate) fn applies(&self, t: Option<&str>) -> bool {
        t.is_some_and(|t| {
            self.0
                .iter()
                .any(|g| t.ends_with(g.trim_start_matches('*')))
        })
    }
}
