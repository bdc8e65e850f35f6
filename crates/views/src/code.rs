//! Comments and strings of code.
//!
//! This module has a small lexer for each family of languages. It knows no grammar beyond comments and literals, and it
//! does not know where the code comes from: another view tags it with its language.
//!
//! # Regions
//!
//! Each byte of code in a known language gets one of these regions in addition to those it has (`Family::from_language`
//! lists the languages):
//!
//! - `comment`: a comment with its delimiters, without the line ending after a line comment.
//! - `string`: a string, character or regular expression literal with its quotes, or the lines of a heredoc with the
//!   delimiter line. Prefixes (`r`, `b`, `f`, `r##`) and the flags of a regular expression are code; the `#`s that
//!   close a raw string are string. The content of `${…}` in a template or of `$(…)` in a shell string is code; those
//!   delimiters are string.
//! - `code-only`: everything else.
//!
//! Each comment and each string is a haystack of its own. In any other language this view adds no region, so rules for
//! these regions never match there.
//!
//! # Limitations
//!
//! A string that ends at the end of the line in its language ends there even if it is unclosed. Not recognized are raw
//! strings of C++, JSX text (an apostrophe in it starts a string), code in `f"{…}"`, quotes in `"${x:-"…"}"` of a
//! shell, scripts and styles in HTML, and block scalars of YAML. The code before a `/` decides if it starts a regular
//! expression: after `)` and `}` it is a division. Templates and substitutions nest up to [`DEPTH`]; raw strings have
//! up to [`HASHES`] `#`s.
//!
//! # Buffering
//!
//! 1. The lexer buffers only bytes that can start a comment or a literal: `/`, `-` or `<` and the bytes after it, and a
//!    `'` of Rust with the character after it, at most six bytes.
//! 2. The byte that resolves them is not consumed with them: `LexStep::Resolved` classifies the buffered bytes, and
//!    the byte is stepped again.
//! 3. A change of the tag and the end of the code resolve the buffered bytes as code.

mod family;
mod lexer;

use super::chunk::{Chunk, ChunkBuffer, ChunkSink, RegionSet, Tag};
use family::Family;
use lexer::{LexStep, Lexer};

/// The most nested templates and substitutions.
pub const DEPTH: usize = 32;

/// The most `#`s of a raw string.
pub const HASHES: usize = 12;

/// The class of a byte of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Class {
    #[default]
    Code,
    Comment,
    String,
}

impl Class {
    #[inline]
    fn region(self) -> RegionSet {
        match self {
            Class::Code => RegionSet::CODE_ONLY,
            Class::Comment => RegionSet::COMMENT,
            Class::String => RegionSet::STRING,
        }
    }
}

/// The view of code that other views have tagged.
#[derive(Clone, Debug, Default)]
pub struct CodeView {
    /// The lexer; `None` if the language is not known.
    lexer: Option<Lexer>,
    tag: Tag,
    /// The class of the last byte, and true if the next chunk starts a new comment or string.
    class: Class,
    begins: bool,
    /// The tag last passed to the sink.
    told: Option<Tag>,
    /// The bytes that wait for the next one.
    held: ChunkBuffer,
}

impl CodeView {
    /// Sets the tag of the chunks that follow. Open comments and strings continue unless the language changes.
    pub fn set_tag(&mut self, tag: Tag, at: u64, decided: u64, sink: &mut impl ChunkSink) {
        self.release(Class::Code, false, decided, sink);
        let family = tag
            .language
            .and_then(|language| Family::from_language(language.name()));
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

    /// Consumes the next chunk.
    ///
    /// # Complexity
    /// Linear. At most six bytes are buffered.
    pub fn push(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        let Some(mut lexer) = self.lexer.take() else {
            return sink.push(chunk);
        };
        let (mut from, mut at) = (0, 0);
        while at < chunk.bytes.len() {
            let same = lexer.skip(&chunk.bytes[at..]);
            if same > 0 && self.class != Class::Code && lexer.is_in_code() {
                // Code continues after a comment or a string.
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

    /// Ends the code at `end`.
    pub fn cut(&mut self, end: u64, decided: u64, sink: &mut impl ChunkSink) {
        self.release(Class::Code, false, decided, sink);
        let family = self.lexer.as_ref().map(Lexer::family);
        self.restart(family);
        sink.cut(end, decided);
    }

    #[inline]
    fn restart(&mut self, family: Option<Family>) {
        self.lexer = family.map(Lexer::new);
        (self.class, self.begins) = (Class::Code, false);
    }

    /// Emits the buffered bytes.
    fn release(&mut self, class: Class, begins: bool, decided: u64, sink: &mut impl ChunkSink) {
        if self.held.is_empty() {
            return;
        }
        (self.class, self.begins) = (class, begins);
        let held = std::mem::take(&mut self.held);
        for chunk in held.chunks(0..held.bytes().len()) {
            self.emit(chunk.decided_no_earlier(decided), sink);
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
            // Ends the preceding comment or string. A cut would also end the haystacks around both.
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

    #[inline]
    fn tagged(&self, class: Class) -> Tag {
        Tag {
            regions: self.tag.regions | class.region(),
            ..self.tag
        }
    }
}

#[cfg(test)]
mod tests;
