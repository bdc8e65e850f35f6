//! Compares comments and strings with the grammars of tree-sitter on real files.
//!
//! `cargo run --release --manifest-path tools/oracle/Cargo.toml [-- [--show N] FOLDER…]`
//!
//! Without folders it reads the sources in cargo's registry. Files in which tree-sitter finds a syntax error are
//! skipped. Exits with status 1 if more than one file and more than [`ALLOWED`] per thousand of a language differ.
//! `--show N` prints the first difference in each of N files per language.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tree_sitter::{Node, Parser};
use ttsr_views::chunk::{Chunk, ChunkSink, DecidedOffset, Language, RegionSet, Tag};
use ttsr_views::code::CodeView;

/// Maximum number of differing files per thousand. The module documentation of the view lists the known differences.
const ALLOWED: usize = 20;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let show = take_show(&mut arguments);
    let roots: Vec<PathBuf> = match arguments.is_empty() {
        true => registry().into_iter().collect(),
        false => arguments.into_iter().map(PathBuf::from).collect(),
    };
    if roots.is_empty() {
        println!("skipped: no sources of cargo's registry");
    }
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for root in roots {
        for file in files(&root) {
            let Some(name) = language(&file) else {
                continue;
            };
            let Ok(text) = std::fs::read(&file) else {
                continue;
            };
            tallies
                .entry(name)
                .or_default()
                .compare(name, &file, &text, show);
        }
    }
    let mut right = true;
    for (name, tally) in &tallies {
        println!("{name}: {tally:?}");
        right &= tally.is_right();
    }
    if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn take_show(arguments: &mut Vec<String>) -> usize {
    let Some(at) = arguments.iter().position(|one| one == "--show") else {
        return 0;
    };
    arguments.remove(at);
    arguments.remove(at).parse().expect("--show takes a number")
}

fn registry() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| {
            let home = std::env::var_os("HOME")?;
            Some(Path::new(&home).join(".cargo"))
        })?;
    let sources = cargo.join("registry/src");
    sources.is_dir().then_some(sources)
}

fn files(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

fn language(file: &Path) -> Option<&'static str> {
    Some(match file.extension()?.to_str()? {
        "rs" => "rust",
        "py" => "python",
        "js" | "mjs" | "cjs" | "jsx" => "javascript",
        "ts" => "typescript",
        "tsx" => "tsx",
        "go" => "go",
        "sh" | "bash" => "bash",
        _ => return None,
    })
}

fn grammar(name: &str) -> tree_sitter::Language {
    match name {
        "rust" => tree_sitter_rust::LANGUAGE.into(),
        "python" => tree_sitter_python::LANGUAGE.into(),
        "javascript" => tree_sitter_javascript::LANGUAGE.into(),
        "typescript" => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        "tsx" => tree_sitter_typescript::LANGUAGE_TSX.into(),
        "go" => tree_sitter_go::LANGUAGE.into(),
        _ => tree_sitter_bash::LANGUAGE.into(),
    }
}

/// The results for the files of a language.
#[derive(Debug, Default)]
struct Tally {
    files: usize,
    bytes: usize,
    not_parsed: usize,
    differing: usize,
    differing_bytes: usize,
}

impl Tally {
    /// Returns true if few enough files differ. With few files, one file or one byte in a hundred may differ, because the
    /// selection of files depends on what was built on this machine.
    fn is_right(&self) -> bool {
        let is_small = self.files < 100 && self.differing_bytes * 100 <= self.bytes;
        is_small || self.differing <= 1 + self.files * ALLOWED / 1000
    }

    fn compare(&mut self, name: &str, file: &Path, text: &[u8], show: usize) {
        let mut parser = Parser::new();
        parser
            .set_language(&grammar(name))
            .expect("the versions fit");
        let tree = parser.parse(text, None).expect("there is a language");
        if tree.root_node().has_error() {
            self.not_parsed += 1;
            return;
        }
        let (ours, theirs) = (ours(name, text), theirs(tree.root_node(), text));
        self.files += 1;
        self.bytes += text.len();
        // The grammar of shells may start the text of a heredoc after its first blanks.
        let is_told = |at: usize| name != "bash" || !text[at].is_ascii_whitespace();
        let differs = |at: &usize| ours[*at] != theirs[*at] && is_told(*at);
        let differing = (0..text.len()).filter(differs).count();
        self.differing_bytes += differing;
        if differing == 0 {
            return;
        }
        self.differing += 1;
        if self.differing <= show {
            let at = (0..text.len()).find(differs).expect("one differs");
            let around = at.saturating_sub(60)..(at + 40).min(text.len());
            let line = text[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            println!("{}:{line}", file.display());
            println!("  text   {}", printable(&text[around.clone()]));
            println!(
                "  ours   {}",
                String::from_utf8_lossy(&ours[around.clone()])
            );
            println!("  theirs {}", String::from_utf8_lossy(&theirs[around]));
        }
    }
}

fn printable(text: &[u8]) -> String {
    let shown = |&byte: &u8| {
        if (b' '..=b'~').contains(&byte) {
            byte as char
        } else {
            '.'
        }
    };
    text.iter().map(shown).collect()
}

/// One letter per byte.
struct Letters(Vec<u8>, u8);

impl ChunkSink for Letters {
    fn set_tag(&mut self, tag: Tag, _: DecidedOffset) {
        self.1 = match tag.regions {
            regions if regions.contains(RegionSet::COMMENT) => b'c',
            regions if regions.contains(RegionSet::STRING) => b's',
            _ => b'-',
        };
    }

    fn push(&mut self, piece: Chunk<'_>) {
        self.0.extend(piece.bytes.iter().map(|_| self.1));
    }

    fn cut(&mut self, _: DecidedOffset) {}
}

fn ours(name: &str, text: &[u8]) -> Vec<u8> {
    let (mut code, mut letters) = (CodeView::default(), Letters(Vec::new(), b'-'));
    let tag = Tag {
        language: Language::new(name),
        ..Tag::default()
    };
    code.set_tag(tag, DecidedOffset::at_once(0), &mut letters);
    if !text.is_empty() {
        code.push(Chunk::verbatim(text, 0), &mut letters);
    }
    code.cut(DecidedOffset::at_once(text.len() as u64), &mut letters);
    letters.0
}

fn theirs(root: Node<'_>, text: &[u8]) -> Vec<u8> {
    let mut letters = vec![b'-'; text.len()];
    let mut cursor = root.walk();
    // Outer nodes are visited before inner ones, so inner letters overwrite outer ones.
    loop {
        mark(cursor.node(), text, &mut letters);
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return letters;
            }
        }
    }
}

fn mark(node: Node<'_>, text: &[u8], letters: &mut [u8]) {
    let (start, mut end) = (node.start_byte(), node.end_byte());
    if !node.is_named() || start == end {
        return;
    }
    match node.kind() {
        "comment" | "line_comment" | "block_comment" | "hash_bang_line" => {
            // Some grammars include the line ending after a line comment.
            end -= usize::from(text[end - 1] == b'\n' && node.kind() != "block_comment");
            letters[start..end].fill(b'c');
        }
        "string"
        | "string_literal"
        | "raw_string_literal"
        | "char_literal"
        | "template_string"
        | "template_literal_type"
        | "interpreted_string_literal"
        | "rune_literal"
        | "raw_string"
        | "ansi_c_string" => {
            let quotes = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`');
            let prefix = text[start..end].iter().position(quotes).unwrap_or(0);
            letters[start + prefix..end].fill(b's');
        }
        "heredoc_body" | "heredoc_end" => letters[start..end].fill(b's'),
        // The shell grammar uses this name for patterns that are not literals.
        "regex" if text[start] == b'/' && end - start > 1 => {
            let flags = text[start..end]
                .iter()
                .rev()
                .take_while(|&&byte| byte != b'/')
                .count();
            letters[start..end - flags].fill(b's');
        }
        // The delimiters belong to the string, the code between them does not.
        "template_substitution" | "template_type" => letters[start + 2..end - 1].fill(b'-'),
        "command_substitution" if letters[start] == b's' => {
            // The grammar includes the blanks before it.
            let dollar = start
                + text[start..end]
                    .iter()
                    .take_while(|b| b.is_ascii_whitespace())
                    .count();
            if text[dollar] == b'$' {
                letters[dollar + 2..end - 1].fill(b'-');
            }
        }
        _ => {}
    }
}
