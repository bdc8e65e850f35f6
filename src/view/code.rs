//! Comments and strings of code, told apart as it arrives.
//!
//! It owns a small lexer for each family of languages. It knows no grammar beyond comments and literals, and
//! nothing of where the code comes from: another view tags it with its language.
//!
//! # The regions
//!
//! Each byte of code in a language that [`Family::of`] knows is one of these, besides what it was before:
//!
//! - `comment`: a comment with what begins and ends it, without the line ending behind a line comment.
//! - `string`: a string, character or regular expression literal with its quotes; a heredoc's lines with the
//!   one that ends it. Prefixes (`r`, `b`, `f`, `r##`) and flags behind a regular expression are code, the `#`s
//!   that close a raw string are not. What `${…}` of a template or `$(…)` of a shell string holds is code;
//!   those delimiters are string.
//! - `code-only`: everything else.
//!
//! Each comment and each string is a haystack of its own. In any other language this view adds nothing, so
//! rules for these regions do not fire there.
//!
//! # What it does not see
//!
//! A string that its language ends at the line's end ends there even if it is not closed. Raw strings of C++,
//! JSX text (an apostrophe in it is a quote), code in `f"{…}"`, quotes in `"${x:-"…"}"` of a shell, scripts and
//! styles in HTML, and block scalars of YAML are read as if they were not there. Whether `/` begins a regular
//! expression is judged by what stands before it: behind `)` and `}` it divides. Templates and substitutions
//! nest up to [`DEPTH`]; raw strings have up to [`HASHES`] `#`s.
//!
//! # What waits
//!
//! A `/`, `-` or `<` that may begin a comment, and a Rust `'` with the character behind it.

// The paths are spelled out so that fuzz targets and the oracle can take this file by itself.
#[path = "code/family.rs"]
mod family;
#[path = "code/lexer.rs"]
mod lexer;

use super::chunk::{Chunk, ChunkBuffer, ChunkSink, RegionSet, Tag};
use family::Family;
use lexer::{LexStep, Lexer};

/// Most templates and substitutions that are open at once.
pub(crate) const DEPTH: usize = 32;

/// Most `#`s of a raw string that are told apart.
pub(crate) const HASHES: usize = 12;

/// What a byte of code is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Class {
    #[default]
    Code,
    Comment,
    String,
}

impl Class {
    fn region(self) -> RegionSet {
        match self {
            Class::Code => RegionSet::CODE_ONLY,
            Class::Comment => RegionSet::COMMENT,
            Class::String => RegionSet::STRING,
        }
    }
}

/// Code that is read in pieces, behind other views.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeView {
    /// None where the language is not known.
    lexer: Option<Lexer>,
    tag: Tag,
    /// What the last byte was, and whether a comment or string begins with the next piece.
    class: Class,
    begins: bool,
    /// What the sink was told last.
    told: Option<Tag>,
    /// Bytes that wait for the next one.
    held: ChunkBuffer,
}

impl CodeView {
    /// The pieces from here on have that tag. Comments and strings go on, unless the language changes.
    pub(crate) fn set_tag(&mut self, tag: Tag, at: u64, decided: u64, sink: &mut impl ChunkSink) {
        self.release(Class::Code, false, decided, sink);
        let family = tag
            .language
            .and_then(|language| Family::of(language.name()));
        if let Some(lexer) = &mut self.lexer {
            lexer.drop_pending();
        }
        if family != self.lexer.as_ref().map(Lexer::family) {
            self.restart(family);
        }
        self.tag = tag;
        self.told = None;
        if self.lexer.is_none() {
            sink.set_tag(tag, at, decided);
        }
    }

    /// Takes the next piece.
    ///
    /// # Complexity
    /// Linear; at most six bytes wait.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        let Some(mut lexer) = self.lexer.take() else {
            return sink.push(chunk);
        };
        let (mut from, mut at) = (0, 0);
        while at < chunk.bytes.len() {
            let same = lexer.skip(&chunk.bytes[at..]);
            if same > 0 && self.class != Class::Code && lexer.is_in_code() {
                // Code goes on where a comment or a string has ended.
                self.emit(chunk.slice(from..at), sink);
                (from, self.class) = (at, Class::Code);
            }
            at += same;
            let Some(&byte) = chunk.bytes.get(at) else {
                break;
            };
            let step = lexer.step(byte);
            if step != LexStep::Is(self.class) {
                self.emit(chunk.slice(from..at), sink);
                from = at;
            }
            match step {
                LexStep::Is(class) => self.class = class,
                LexStep::Begins(class) => (self.class, self.begins) = (class, true),
                LexStep::Pending => {
                    self.held.push(chunk.slice(at..at + 1));
                    from = at + 1;
                }
                LexStep::Resolved(class) => {
                    self.release(class, class != Class::Code, chunk.decided(at), sink);
                    continue;
                }
            }
            at += 1;
        }
        self.emit(chunk.slice(from..at), sink);
        self.lexer = Some(lexer);
    }

    /// The code ends, at `end`.
    pub(crate) fn cut(&mut self, end: u64, decided: u64, sink: &mut impl ChunkSink) {
        self.release(Class::Code, false, decided, sink);
        let family = self.lexer.as_ref().map(Lexer::family);
        self.restart(family);
        sink.cut(end, decided);
    }

    fn restart(&mut self, family: Option<Family>) {
        self.lexer = family.map(Lexer::new);
        (self.class, self.begins) = (Class::Code, false);
    }

    /// Hands on what waited.
    fn release(&mut self, class: Class, begins: bool, decided: u64, sink: &mut impl ChunkSink) {
        if self.held.is_empty() {
            return;
        }
        (self.class, self.begins) = (class, begins);
        let held = std::mem::take(&mut self.held);
        for chunk in held.chunks(0..held.bytes().len()) {
            self.emit(chunk.not_before(decided), sink);
        }
        self.held = held;
        self.held.clear();
    }

    fn emit(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        let tag = self.tagged(self.class);
        let (at, decided) = (chunk.start(0), chunk.decided(0));
        if self.begins && self.told == Some(tag) {
            // The one before ends here. A cut would end what is around both as well.
            sink.set_tag(self.tagged(Class::Code), at, decided);
            self.told = None;
        }
        self.begins = false;
        if self.told != Some(tag) {
            sink.set_tag(tag, at, decided);
            self.told = Some(tag);
        }
        sink.push(chunk);
    }

    fn tagged(&self, class: Class) -> Tag {
        Tag {
            regions: self.tag.regions | class.region(),
            ..self.tag
        }
    }
}

#[cfg(test)]
#[path = "code/tests.rs"]
mod tests;
