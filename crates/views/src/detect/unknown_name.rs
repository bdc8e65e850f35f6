//! Imports of unknown packages: packages that are neither part of the language, nor listed by the host, nor declared as
//! modules by the code itself.
//!
//! Code is read line by line; a line that starts like an import is parsed when it ends. An import that spans lines is
//! recognized in its common forms: blocks of Go, `} from 'x'` of JavaScript.
//!
//! Memory: one line of at most [`LINE`] bytes, and at most [`OWN`] modules that the code declares.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::std_names::{GO, NODE, PYTHON, RUST};
use super::{Detection, Detector};
use crate::chunk::{Chunk, ChunkBuffer, Language};

/// The number of bytes of a line that are read; the rest of a longer line is skipped.
pub const LINE: usize = 1024;
/// The most modules declared by the code itself that are kept.
pub const OWN: usize = 256;

/// The names that the host knows: dependencies, workspace members, modules of the project. They are spelled as in
/// imports or in manifests: `-` equals `_`, and case is ignored.
#[derive(Clone, Debug, Default)]
pub struct KnownNames {
    sets: Vec<Arc<NameSet>>,
}

/// One list of known names.
pub type NameSet = HashSet<String>;

/// Returns the normalized names of a list.
pub fn name_set<'n>(names: impl IntoIterator<Item = &'n str>) -> NameSet {
    names.into_iter().map(folded).collect()
}

impl KnownNames {
    /// Returns the names of one list.
    ///
    /// # Example: names are compared as in a manifest
    /// ```
    /// use ttsr_views::detect::unknown_name::KnownNames;
    /// let known = KnownNames::new(["serde-json"]);
    /// assert!(known.holds("Serde_JSON") && !known.holds("serde"));
    /// ```
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> KnownNames {
        KnownNames::shared(vec![Arc::new(name_set(names))])
    }

    /// Returns the names of several lists, which are shared.
    pub fn shared(sets: Vec<Arc<NameSet>>) -> KnownNames {
        KnownNames { sets }
    }

    /// Adds names.
    pub fn extend<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        if self.sets.is_empty() {
            self.sets.push(Arc::default());
        }
        let own = Arc::make_mut(&mut self.sets[0]);
        own.extend(names.into_iter().map(folded));
    }

    /// Returns true if the name is known.
    pub fn holds(&self, name: &str) -> bool {
        let name = folded(name);
        self.sets.iter().any(|set| set.contains(&name))
    }

    /// Returns true if the path, or a path that ends in it after a folder, is known.
    pub(crate) fn holds_file(&self, path: &str) -> bool {
        let path = folded(path);
        let ends_so = |known: &String| {
            let rest = known.strip_suffix(&path);
            rest.is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
        };
        let holds = |set: &Arc<NameSet>| set.contains(&path) || set.iter().any(ends_so);
        self.sets.iter().any(holds)
    }
}

fn folded(name: &str) -> String {
    name.replace('-', "_").to_lowercase()
}

/// The import syntax of a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportSyntax {
    Rust,
    Cargo,
    EcmaScript,
    Python,
    Go,
}

impl ImportSyntax {
    fn for_language(language: Language) -> Option<ImportSyntax> {
        Some(match language.name() {
            "rust" | "rs" => ImportSyntax::Rust,
            "toml" => ImportSyntax::Cargo,
            "javascript" | "js" | "jsx" | "mjs" | "cjs" | "typescript" | "ts" | "tsx" | "mts" => {
                ImportSyntax::EcmaScript
            }
            "python" | "py" | "python3" | "pyi" => ImportSyntax::Python,
            "go" | "golang" => ImportSyntax::Go,
            _ => return None,
        })
    }
}

/// Detects imports of unknown names in one run of code.
#[derive(Clone, Debug)]
pub struct UnknownNameDetector {
    known: Arc<KnownNames>,
    /// Further known names.
    also_known: Option<Arc<KnownNames>>,
    kind: Option<ImportSyntax>,
    line: ChunkBuffer,
    /// True if the first [`LINE`] bytes of the line have been read.
    is_long: bool,
    /// True inside `import (` of Go, or in a section of dependencies of a manifest.
    in_block: bool,
    /// Modules declared by the code, and names already reported.
    own: BTreeSet<String>,
}

impl UnknownNameDetector {
    /// Creates a detector for code of a language. Without a known import syntax it reports nothing.
    pub fn new(known: Arc<KnownNames>, language: Option<Language>) -> UnknownNameDetector {
        UnknownNameDetector {
            known,
            also_known: None,
            kind: language.and_then(ImportSyntax::for_language),
            line: ChunkBuffer::default(),
            is_long: false,
            in_block: false,
            own: BTreeSet::new(),
        }
    }

    fn holds(&self, name: &str) -> bool {
        let also_known = self.also_known.as_ref();
        self.known.holds(name) || also_known.is_some_and(|known| known.holds(name))
    }

    /// Returns the detector with further known names.
    pub fn with_known(self, also_known: Option<Arc<KnownNames>>) -> UnknownNameDetector {
        UnknownNameDetector { also_known, ..self }
    }

    /// Returns the start of the current line, from which text can still become a detection.
    pub fn pending_from(&self) -> Option<u64> {
        self.line.chunk_at(0).map(|chunk| chunk.start(0))
    }

    fn end_line(&mut self, decided: u64, found: &mut dyn FnMut(Detection)) {
        let mut held = std::mem::take(&mut self.line);
        if let (Some(kind), Ok(line)) = (self.kind, std::str::from_utf8(held.bytes())) {
            for name in self.names(kind, line) {
                let text = &line[name.clone()];
                if self.is_unknown(kind, text) {
                    self.record(text);
                    let start = held.chunks(name.clone()).next().map(|chunk| chunk.start(0));
                    let last = held.chunks(name).last();
                    let end = last.map(|chunk| chunk.end(chunk.bytes.len() - 1));
                    if let (Some(start), Some(end)) = (start, end) {
                        found(Detection {
                            start,
                            end,
                            decided: decided.max(end),
                        });
                    }
                }
            }
        }
        held.clear();
        self.line = held;
    }

    /// Returns the ranges of package names in the line, and records declarations.
    fn names(&mut self, kind: ImportSyntax, line: &str) -> Vec<Range<usize>> {
        let code = line.trim();
        let names: Vec<&str> = match kind {
            ImportSyntax::Rust => self.rust(code),
            ImportSyntax::Cargo => self.cargo(code),
            ImportSyntax::EcmaScript => script(code),
            ImportSyntax::Python => python_imports(code),
            ImportSyntax::Go => self.go(code),
        };
        let at = |name: &str| name.as_ptr() as usize - line.as_ptr() as usize;
        names
            .into_iter()
            .map(|name| at(name)..at(name) + name.len())
            .collect()
    }

    fn rust<'l>(&mut self, code: &'l str) -> Vec<&'l str> {
        let code = code.strip_prefix("pub(crate) ").unwrap_or(code);
        let code = code.strip_prefix("pub ").unwrap_or(code);
        if let Some(module) = code.strip_prefix("mod ") {
            self.record(word(module));
            return Vec::new();
        }
        if let Some(name) = code.strip_prefix("extern crate ") {
            return vec![word(name)];
        }
        let Some(path) = code.strip_prefix("use ") else {
            return Vec::new();
        };
        let path = path.trim_start();
        let paths = match path.strip_prefix('{') {
            Some(group) => top_level(group),
            None => vec![path],
        };
        let is_crate = |name: &&str| name.starts_with(|first: char| first.is_ascii_lowercase());
        let heads = paths
            .into_iter()
            .map(|path| path.trim().trim_start_matches("::"));
        // `use name;` and `use name as other;` can also name a crate, but seldom do; a path contains `::`.
        heads
            .filter(|path| path[word(path).len()..].starts_with("::"))
            .map(word)
            .filter(is_crate)
            .collect()
    }

    fn cargo<'l>(&mut self, code: &'l str) -> Vec<&'l str> {
        if let Some(section) = code.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            self.in_block = section.ends_with("dependencies");
            let single = section.rsplit_once("dependencies.").map(|(_, name)| name);
            return single.filter(|name| !name.is_empty()).into_iter().collect();
        }
        let name = word_with(code, |char| char.is_alphanumeric() || "_-".contains(char));
        let rest = code[name.len()..].trim_start();
        let is_entry = self.in_block && !name.is_empty() && rest.starts_with(['=', '.']);
        if is_entry && !rest.contains("package") {
            vec![name]
        } else {
            Vec::new()
        }
    }

    fn go<'l>(&mut self, code: &'l str) -> Vec<&'l str> {
        if self.in_block {
            self.in_block = !code.starts_with(')');
            return quoted(code).into_iter().collect();
        }
        let Some(rest) = code.strip_prefix("import") else {
            return Vec::new();
        };
        let rest = rest.trim_start();
        self.in_block = rest.starts_with('(') && !rest.contains(')');
        let is_import = rest.starts_with(['(', '"', '.', '_']) || code.starts_with("import ");
        quoted(rest).filter(|_| is_import).into_iter().collect()
    }

    fn is_unknown(&self, kind: ImportSyntax, name: &str) -> bool {
        let package = package(kind, name);
        let is_standard = match kind {
            ImportSyntax::Rust => RUST.binary_search(&package).is_ok(),
            ImportSyntax::Cargo => false,
            ImportSyntax::EcmaScript => NODE.binary_search(&package).is_ok(),
            ImportSyntax::Python => PYTHON.binary_search(&package).is_ok(),
            ImportSyntax::Go => GO.binary_search(&package).is_ok(),
        };
        let is_known = || self.holds(package) || self.holds(name) || self.knows_parent(name);
        !name.is_empty() && !is_standard && !self.own.contains(name) && !is_known()
    }

    /// Returns true if a parent path of the name is known, as for the modules of Go.
    fn knows_parent(&self, name: &str) -> bool {
        name.match_indices('/')
            .any(|(at, _)| self.holds(&name[..at]))
    }

    fn record(&mut self, name: &str) {
        if self.own.len() < OWN {
            self.own.insert(name.to_owned());
        }
    }
}

impl Detector for UnknownNameDetector {
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        if self.kind.is_none() {
            return;
        }
        let mut from = 0;
        while from < chunk.bytes.len() {
            let newline = memchr::memchr(b'\n', &chunk.bytes[from..]).map(|at| from + at);
            let to = newline.unwrap_or(chunk.bytes.len());
            self.keep(chunk.slice(from..to), found);
            let Some(at) = newline else { return };
            if !std::mem::take(&mut self.is_long) {
                self.end_line(chunk.decided(at), found);
            }
            from = at + 1;
        }
    }

    fn finish(&mut self, decided: u64, found: &mut dyn FnMut(Detection)) {
        if !std::mem::take(&mut self.is_long) {
            self.end_line(decided, found);
        }
    }
}

impl UnknownNameDetector {
    fn keep(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        if self.is_long {
            return;
        }
        let room = LINE - self.line.bytes().len();
        if chunk.bytes.len() < room {
            return self.line.push(chunk);
        }
        // The rest is not read, so the line can be parsed now.
        self.line.push(chunk.slice(0..room));
        self.is_long = true;
        self.end_line(chunk.decided(room - 1), found);
    }
}

/// Returns the package of an imported name, as standard libraries and manifests list it.
fn package(kind: ImportSyntax, name: &str) -> &str {
    match kind {
        ImportSyntax::Rust | ImportSyntax::Cargo => name,
        ImportSyntax::Python => name.split('.').next().unwrap_or(name),
        ImportSyntax::Go => name.split('/').next().unwrap_or(name),
        ImportSyntax::EcmaScript => {
            let name = name.strip_prefix("node:").unwrap_or(name);
            let slashes = if name.starts_with('@') { 2 } else { 1 };
            match name.match_indices('/').nth(slashes - 1) {
                Some((at, _)) => &name[..at],
                None => name,
            }
        }
    }
}

/// Parses `import x from 'y'`, `import 'y'`, `} from 'y'`, `export … from 'y'`, `require('y')` and `import('y')`.
fn script(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let is_module = ["import ", "export ", "}", "import{"]
        .iter()
        .any(|start| code.starts_with(start));
    let from = code
        .rfind(" from ")
        .or_else(|| code.rfind("}from "))
        .map(|at| at + 6);
    let bare = code.strip_prefix("import ").map(|_| 7);
    if is_module && let Some(at) = from.or(bare) {
        let rest = code[at..].trim_start();
        names.extend(quoted(rest).filter(|_| rest.starts_with(['\'', '"'])));
    }
    for call in ["require(", "import("] {
        for (at, _) in code.match_indices(call) {
            let is_word = code[..at]
                .ends_with(|char: char| char.is_alphanumeric() || "_.$'\"`/".contains(char));
            let rest = &code[at + call.len()..];
            if !is_word && rest.starts_with(['\'', '"']) {
                names.extend(quoted(rest));
            }
        }
    }
    let is_package = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '@')
            && !name.starts_with("@/")
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"@/._-:".contains(&byte))
            && (!name.contains(':') || name.starts_with("node:"))
    };
    names.retain(is_package);
    names
}

/// Parses `import a, b.c as d` and `from a.b import c`. Relative imports name no package.
fn python_imports(code: &str) -> Vec<&str> {
    let is_name = |char: char| char.is_alphanumeric() || "_.".contains(char);
    if let Some(rest) = code.strip_prefix("from ") {
        let name = word_with(rest.trim_start(), is_name);
        let after = rest.trim_start()[name.len()..].trim_start();
        let is_import = after.starts_with("import ") || after.starts_with("import(");
        return if is_import && !name.starts_with('.') {
            vec![name]
        } else {
            Vec::new()
        };
    }
    let Some(rest) = code.strip_prefix("import ") else {
        return Vec::new();
    };
    let rest = rest.split('#').next().unwrap_or(rest).trim_end_matches(';');
    let names: Vec<&str> = rest
        .split(',')
        .map(|part| word_with(part.trim_start(), is_name))
        .collect();
    let is_whole = |part: &str| {
        let part = part.trim();
        let after = part[word_with(part, is_name).len()..].trim_start();
        after.is_empty() || after.starts_with("as ") || after.starts_with(';')
    };
    if rest.split(',').all(is_whole) {
        names
    } else {
        Vec::new()
    }
}

/// Returns the first quoted text.
fn quoted(code: &str) -> Option<&str> {
    let from = code.find(['"', '\''])?;
    let quote = code[from..].chars().next()?;
    let text = &code[from + 1..];
    Some(&text[..text.find(quote)?])
}

/// Splits a group at the commas of its own level.
fn top_level(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&group[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[from..]);
    parts
}

fn word(text: &str) -> &str {
    word_with(text.trim_start(), |char| {
        char.is_alphanumeric() || char == '_'
    })
}

/// Returns the longest prefix of characters that `is_in` accepts.
fn word_with(text: &str, is_in: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|char| !is_in(char)).unwrap_or(text.len())]
}
