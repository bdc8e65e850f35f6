//! Scopes of a tool call: the files, tools and arguments that a rule applies to.
//!
//! This module defines the meaning of globs and the normal form of a path. Everything is lexical: no file is accessed,
//! so links are not followed, and matching is case-sensitive except for tool names and drive letters. It does not know
//! where a path comes from or what happens if there is none.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::glob::{Glob, GlobError, GlobOptions, GlobScratch, GlobSet};
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

/// Returns true if this last segment of an argument's path means that its value is a file path.
pub fn is_path_key(segment: &str) -> bool {
    PATH_KEYS.contains(&segment)
}

/// Returns the normal form of a path.
///
/// Backslashes become slashes. `.`, `//`, a trailing `/` and, lexically, `..` are removed. With a `root`, a path inside
/// it is relative to it, however it was written (`/project/a`, `../project/a`), and a path outside is absolute. Without
/// one, or with a relative one, relative paths stay relative and keep the `..` that lead out. No path leads above `/`.
/// The root itself is `.`.
///
/// A drive makes a path absolute and its letter upper case: `c:\a` and `\\?\c:\a` are `C:/a`. On a drive the root is
/// matched ignoring ASCII case. A name inside the root that looks like a drive keeps a `./` before it.
///
/// Every character that is not a separator is kept: `%2e`, `~`, NUL, spaces.
pub fn normalise(path: &str, root: Option<&str>) -> String {
    let root = root.map(slashes);
    let root = root
        .as_deref()
        .map(LexicalPath::new)
        .filter(LexicalPath::is_absolute);
    let path = slashes(path);
    let path = LexicalPath::new(&path);
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
    let verbatim = path
        .strip_prefix("//?/")
        .or_else(|| path.strip_prefix("//./"));
    if verbatim.is_some_and(|rest| drive(rest).is_some()) {
        path.drain(..4);
    }
    path
}

/// A path split into names, without `.`, empty names and resolvable `..`.
#[derive(Clone, Debug)]
struct LexicalPath<'a> {
    /// `/` or `C:/`; `None` for a relative path.
    anchor: Option<Cow<'a, str>>,
    names: Vec<&'a str>,
}

impl<'a> LexicalPath<'a> {
    fn new(path: &'a str) -> LexicalPath<'a> {
        let (anchor, rest) = anchor(path);
        let mut lexical = LexicalPath {
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

    fn join(&self, relative: &LexicalPath<'a>) -> LexicalPath<'a> {
        let mut joined = self.clone();
        joined.extend(relative.names.iter().copied());
        joined
    }

    /// Returns the path relative to `root`, if it is inside it.
    fn inside(&self, root: &LexicalPath<'_>) -> Option<LexicalPath<'a>> {
        let on_drive = self.anchor != Some(Cow::Borrowed("/"));
        let same = |(a, b): (&&str, &&str)| a == b || on_drive && a.eq_ignore_ascii_case(b);
        let (head, names) = self.names.split_at_checked(root.names.len())?;
        (self.anchor == root.anchor && head.iter().zip(&root.names).all(same)).then(|| {
            LexicalPath {
                anchor: None,
                names: names.to_vec(),
            }
        })
    }
}

impl fmt::Display for LexicalPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = match (&self.anchor, self.names.first()) {
            (Some(anchor), _) => anchor,
            (None, None) => ".",
            (None, Some(name)) if name.len() == 2 && drive(name).is_some() => "./",
            (None, Some(_)) => "",
        };
        write!(out, "{start}{}", self.names.join("/"))
    }
}

/// Splits an absolute path into its root and the rest.
fn anchor(path: &str) -> (Option<Cow<'_, str>>, &str) {
    if let Some(rest) = path.strip_prefix('/') {
        return (Some("/".into()), rest);
    }
    match drive(path) {
        Some(letter) => (Some(format!("{letter}:/").into()), &path[2..]),
        None => (None, path),
    }
}

/// Returns the uppercase drive letter of `c:` or `c:/…`. `c:a` is a name.
fn drive(path: &str) -> Option<char> {
    match path.as_bytes() {
        [letter, b':'] | [letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => {
            Some(letter.to_ascii_uppercase().into())
        }
        _ => None,
    }
}

/// The files that a rule applies to: globs on [normalized](normalise) paths, like those of a `.gitignore`.
///
/// - `*` and `?` do not match `/`; `**` matches any number of folders; `[a-z]`, `{a,b}` and `\` as usual.
/// - A glob without `/` matches the file name in any folder: `*.rs`. A glob with `/` matches the whole path:
///   `src/*.rs`. A trailing `/` matches everything below: `target/`, `src/gen/`.
/// - A leading `/` anchors to the root, and to `/` for files outside it: `/etc/**`.
/// - `!` excludes. The last matching glob decides: `["*.rs", "!tests/"]` excludes tests and `["!tests/", "*.rs"]` does
///   not. A file that no glob matches is in scope if no glob includes.
#[derive(Clone, Debug)]
pub struct PathScope {
    globs: GlobList,
}

impl PathScope {
    /// Compiles the globs of a scope.
    ///
    /// # Errors
    /// Returns the error of the first invalid glob.
    pub fn new(globs: &[String]) -> Result<PathScope, GlobError> {
        let options = GlobOptions {
            literal_separator: true,
            ..GlobOptions::default()
        };
        let globs = globs.iter().flat_map(|entry| {
            let (exclude, glob) = split_exclusion(entry);
            whole_path(glob)
                .into_iter()
                .map(move |whole| (exclude, whole))
        });
        let globs = GlobList::new(globs, options)?;
        Ok(PathScope { globs })
    }

    /// Returns true if the file is in scope, or `None` if the path is unknown and the scope includes only some paths.
    /// A scope that includes nothing applies to a call without a path.
    pub fn applies(&self, path: Option<&str>) -> Option<bool> {
        self.globs.applies(path, &mut GlobScratch::default())
    }

    /// Returns true if the file is in scope. Allocates only if the scratch has not been used for globs and a path of this
    /// size.
    pub fn contains_with(&self, path: &str, scratch: &mut GlobScratch) -> bool {
        self.globs.applies(Some(path), scratch) == Some(true)
    }
}

/// Splits the `!` off an entry of a scope. Returns true if the entry excludes.
pub fn split_exclusion(entry: &str) -> (bool, &str) {
    match entry.strip_prefix('!') {
        Some(glob) => (true, glob),
        None => (false, entry),
    }
}

/// Globs that include or exclude. The last one that matches a name decides; a name that none matches is
/// included if and only if no glob includes.
#[derive(Clone, Debug)]
struct GlobList {
    set: GlobSet,
    /// True for each glob of `set` that excludes.
    excludes: Vec<bool>,
    includes_any: bool,
    excludes_any: bool,
}

impl GlobList {
    /// Compiles globs, of which those with `true` exclude.
    fn new(
        globs: impl Iterator<Item = (bool, String)>,
        options: GlobOptions,
    ) -> Result<GlobList, GlobError> {
        let (mut compiled, mut excludes) = (Vec::new(), Vec::new());
        for (exclude, glob) in globs {
            compiled.push(Glob::new(&glob, options)?);
            excludes.push(exclude);
        }
        Ok(GlobList {
            set: GlobSet::new(compiled)?,
            includes_any: excludes.contains(&false),
            excludes_any: excludes.contains(&true),
            excludes,
        })
    }

    fn applies(&self, name: Option<&str>, scratch: &mut GlobScratch) -> Option<bool> {
        match name {
            None if self.includes_any => None,
            None => Some(true),
            Some(_) if self.excludes.is_empty() => Some(true),
            Some(name) if !self.excludes_any => Some(self.set.is_match_with(name, scratch)),
            Some(name) => {
                let last = self.set.last_match_with(name, scratch);
                Some(last.map_or(!self.includes_any, |glob| !self.excludes[glob]))
            }
        }
    }
}

/// Returns the globs on whole paths that are equivalent to one glob.
fn whole_path(glob: &str) -> Vec<String> {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let (rooted, glob) = match glob.strip_prefix('/') {
        Some(glob) => (true, glob),
        None => (false, glob),
    };
    let (below, glob) = match glob.strip_suffix('/') {
        Some(glob) => ("/**", glob),
        None => ("", glob),
    };
    if rooted && glob.is_empty() {
        return vec!["**".to_owned()];
    }
    if rooted {
        return vec![format!("{glob}{below}"), format!("/{glob}{below}")];
    }
    let any_folder = if glob.contains('/') || glob == "**" {
        ""
    } else {
        "**/"
    };
    vec![format!("{any_folder}{glob}{below}")]
}

/// The tools, agents, models or providers that a rule applies to: globs on the whole name, ignoring ASCII case. `*`
/// matches any text, so `mcp__github__*` matches the tools of one server. `!` excludes, as in [`PathScope`]: the last
/// matching glob decides. No glob matches every name.
#[derive(Clone, Debug)]
pub struct ToolScope {
    globs: GlobList,
}

impl ToolScope {
    /// Compiles the globs of a scope.
    ///
    /// # Errors
    /// Returns the error of the first invalid glob.
    pub fn new(globs: &[String]) -> Result<ToolScope, GlobError> {
        let options = GlobOptions {
            case_insensitive: true,
            ..GlobOptions::default()
        };
        let globs = globs.iter().map(|entry| {
            let (exclude, glob) = split_exclusion(entry);
            (exclude, glob.to_owned())
        });
        let globs = GlobList::new(globs, options)?;
        Ok(ToolScope { globs })
    }

    /// Returns true if the name is in scope, or `None` if the name is unknown and the scope includes only some names.
    /// A scope that includes nothing applies if there is no name.
    pub fn applies(&self, name: Option<&str>) -> Option<bool> {
        self.globs.applies(name, &mut GlobScratch::default())
    }
}

/// The arguments that a rule applies to: globs on whole [paths](ArgPath), one for each segment, separated by dots.
/// Without globs, every argument.
///
/// `*` matches one segment or a part of one (`edits.*.new_*`); `**` matches any number of segments, including none:
/// `command.**` is `command` as a string and as a list of strings. Matching is case-sensitive. A dot in a key is
/// written `\.`. The raw haystack has the one segment `$raw`, and an object key the one segment `$keys`, whatever
/// object it is a key of.
#[derive(Clone, Debug)]
pub struct ArgScope {
    globs: Vec<Vec<SegmentGlob>>,
}

#[derive(Clone, Debug)]
enum SegmentGlob {
    /// `**`
    AnyDepth,
    Exact(String),
    Glob(Glob),
}

impl ArgScope {
    /// Compiles the globs of a scope.
    ///
    /// # Errors
    /// Returns the error of the first invalid glob.
    pub fn new(globs: &[String]) -> Result<ArgScope, GlobError> {
        let segments = |glob: String| {
            split_dots(&glob)
                .into_iter()
                .map(SegmentGlob::new)
                .collect()
        };
        let globs = globs.iter().flat_map(|glob| expand_alternates(glob));
        Ok(ArgScope {
            globs: globs.map(segments).collect::<Result<_, GlobError>>()?,
        })
    }

    /// Returns true if the argument is in scope. An argument with a truncated path is, because it cannot be excluded;
    /// the decoder counts it.
    pub fn applies(&self, path: &ArgPath) -> bool {
        self.globs.is_empty()
            || path.is_truncated()
            || self.globs.iter().any(|glob| matches_whole(glob, path))
    }
}

impl SegmentGlob {
    fn new(glob: &str) -> Result<SegmentGlob, GlobError> {
        if glob == "**" {
            return Ok(SegmentGlob::AnyDepth);
        }
        if !glob.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return Ok(SegmentGlob::Exact(glob.to_owned()));
        }
        let options = GlobOptions {
            empty_alternates: true,
            ..GlobOptions::default()
        };
        Ok(SegmentGlob::Glob(Glob::new(glob, options)?))
    }

    fn matches(&self, segment: &str) -> bool {
        match self {
            SegmentGlob::AnyDepth => true,
            SegmentGlob::Exact(exact) => exact == segment,
            SegmentGlob::Glob(glob) => glob.is_match(segment),
        }
    }
}

/// The most globs that one glob is expanded to.
const MAX_EXPANDED: usize = 64;

/// Expands alternates that contain a dot, which segments cannot: `{a,b.c}` becomes `a` and `b.c`. Returns the glob
/// unchanged if that would give more than [`MAX_EXPANDED`]; a segment of it is then not a valid glob.
fn expand_alternates(glob: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![glob.to_owned()];
    while let Some(next) = open.pop() {
        match dotted_alternates(&next) {
            Some((place, alternates)) => {
                open.extend(alternates.iter().map(|alternate| {
                    [&next[..place.start], alternate, &next[place.end..]].concat()
                }))
            }
            None => done.push(next),
        }
        if done.len() + open.len() > MAX_EXPANDED {
            return vec![glob.to_owned()];
        }
    }
    done
}

/// Returns the range of the first alternates that contain a dot, braces included, and the alternates.
fn dotted_alternates(glob: &str) -> Option<(Range<usize>, Vec<&str>)> {
    let (mut depth, mut has_dot, mut is_escaped, mut is_class) = (0usize, false, false, false);
    let (mut start, mut cuts) = (0, Vec::new());
    for (at, byte) in glob.bytes().enumerate() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match byte {
            b'\\' => is_escaped = true,
            _ if is_class => is_class = byte != b']',
            b'[' => is_class = true,
            b'{' => {
                depth += 1;
                if depth == 1 {
                    (start, has_dot) = (at, false);
                    cuts = vec![at];
                }
            }
            b'.' => has_dot |= depth > 0,
            b',' if depth == 1 => cuts.push(at),
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && has_dot {
                    cuts.push(at);
                    let alternates = cuts.windows(2).map(|pair| &glob[pair[0] + 1..pair[1]]);
                    return Some((start..at + 1, alternates.collect()));
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits at the dots that are not escaped.
fn split_dots(glob: &str) -> Vec<&str> {
    let (mut segments, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in glob.bytes().enumerate() {
        if byte == b'.' && !escaped {
            segments.push(&glob[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    segments.push(&glob[start..]);
    segments
}

fn matches_whole(glob: &[SegmentGlob], path: &ArgPath) -> bool {
    let (mut at, mut index) = (0, 0);
    // The position after the last `**`, and the first segment that it does not match. Backtracking to the last one is
    // enough: it can match whatever an earlier one would.
    let mut deep = None;
    while let Some(segment) = path.segment(index) {
        match (glob.get(at), deep) {
            (Some(SegmentGlob::AnyDepth), _) => {
                at += 1;
                deep = Some((at, index));
            }
            (Some(one), _) if one.matches(segment) => {
                at += 1;
                index += 1;
            }
            (_, Some((after, taken))) => {
                deep = Some((after, taken + 1));
                (at, index) = (after, taken + 1);
            }
            (_, None) => return false,
        }
    }
    glob[at..]
        .iter()
        .all(|one| matches!(one, SegmentGlob::AnyDepth))
}

#[cfg(test)]
mod tests;
