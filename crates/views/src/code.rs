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
//! - Code: everything else.
//!
//! Each comment and each string is a haystack of its own. Two regions are code with some of the rest:
//!
//! - `code-only`: code, the first and the last byte of each string, and the first byte of each comment. `f("a", b) // c`
//!   reads `f("", b) /`.
//! - `uncommented`: code and strings. Quotes in the content of a string are left out, so that every quote is the first
//!   or the last byte of a string: `f("a 'b'") // c` reads `f("a b") `.
//!
//! Comments and strings interrupt the haystacks of these two regions and do not end them. In any other language this
//! view adds no region, so rules for these regions never match there.
//!
//! # Limitations
//!
//! A string that ends at the end of the line in its language ends there even if it is unclosed. Not recognized are raw
//! strings of C++, JSX text (an apostrophe in it starts a string), code in `f"{…}"`, quotes in `"${x:-"…"}"` of a
//! shell, scripts and styles in HTML, and block scalars of YAML. The code before a `/` decides if it starts a regular
//! expression: after `)` and `}` it is a division. Templates and substitutions nest up to [`DEPTH`]; raw strings have
//! up to [`HASHES`] `#`s. The last byte of a string is not recognized if the next byte decides that it is the last: in
//! empty strings of languages with triple quotes, in SQL and in YAML. A heredoc has no first and no last byte.
//!
//! # Buffering
//!
//! 1. The lexer buffers only bytes that can start a comment or a literal: `/`, `-` or `<` and the bytes after it, and a
//!    `'` of Rust with the character after it, at most six bytes.
//! 2. The byte that resolves them is not consumed with them: `LexStep::Resolved` classifies the buffered bytes, and
//!    the byte is stepped again.
//! 3. A change of the tag and the end of the code resolve the buffered bytes as code.

mod family;
mod late;
mod lexer;

use memchr::memchr3;

use super::chunk::{Chunk, ChunkBuffer, ChunkSink, DecidedOffset, RegionSet, Tag};
use family::Family;
pub use late::LateCode;
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

/// The part that a byte has in a comment or a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenPart {
    /// The first byte, or the last byte of a string.
    Delimiter,
    Content,
}

/// The regions that comments and strings interrupt.
const INTERRUPTED: RegionSet = RegionSet(RegionSet::CODE_ONLY.0 | RegionSet::UNCOMMENTED.0);

impl Class {
    #[inline]
    fn regions(self, part: TokenPart) -> RegionSet {
        match (self, part) {
            (Class::Code, _) => INTERRUPTED,
            (Class::Comment, TokenPart::Delimiter) => RegionSet::COMMENT | RegionSet::CODE_ONLY,
            (Class::Comment, TokenPart::Content) => RegionSet::COMMENT,
            (Class::String, TokenPart::Delimiter) => RegionSet::STRING | INTERRUPTED,
            (Class::String, TokenPart::Content) => RegionSet::STRING | RegionSet::UNCOMMENTED,
        }
    }
}

/// The view of code that other views have tagged.
#[derive(Clone, Debug, Default)]
pub struct CodeView {
    /// The lexer; `None` if the language is not known.
    lexer: Option<Lexer>,
    tag: Tag,
    /// The class of the last byte.
    class: Class,
    /// The tag last passed to the sink.
    told: Option<Tag>,
    /// The bytes that wait for the next one.
    held: ChunkBuffer,
}

impl CodeView {
    /// Sets the tag of the chunks that follow. Open comments and strings continue unless the language changes.
    pub fn set_tag(&mut self, tag: Tag, at: DecidedOffset, sink: &mut impl ChunkSink) {
        self.release(Class::Code, at.decided, sink);
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
            sink.set_tag(tag, at);
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
                LexStep::Begins(class) => {
                    self.begin(class, chunk.slice(at..at + 1), sink);
                    from = at + 1;
                }
                LexStep::EndsString => {
                    self.class = Class::String;
                    self.emit_as(TokenPart::Delimiter, chunk.slice(at..at + 1), sink);
                    from = at + 1;
                }
                LexStep::Pending => {
                    self.held.push(chunk.slice(at..at + 1));
                    from = at + 1;
                }
                LexStep::Resolved(class) => {
                    self.release(class, chunk.decided(at), sink);
                    continue;
                }
            }
            at += 1;
        }
        self.emit(chunk.slice(from..at), sink);
        self.lexer = Some(lexer);
    }

    /// Ends the code at `end`.
    pub fn cut(&mut self, end: DecidedOffset, sink: &mut impl ChunkSink) {
        self.release(Class::Code, end.decided, sink);
        let family = self.lexer.as_ref().map(Lexer::family);
        self.restart(family);
        sink.cut(end);
    }

    #[inline]
    fn restart(&mut self, family: Option<Family>) {
        self.lexer = family.map(Lexer::new);
        self.class = Class::Code;
    }

    /// Emits the buffered bytes. A comment or a string starts with the first of them.
    fn release(&mut self, class: Class, decided: u64, sink: &mut impl ChunkSink) {
        let len = self.held.bytes().len();
        let held = std::mem::take(&mut self.held);
        let first = usize::from(class != Class::Code).min(len);
        for chunk in held.chunks(0..first) {
            self.begin(class, chunk.decided_no_earlier(decided), sink);
        }
        self.class = if len == 0 { self.class } else { class };
        for chunk in held.chunks(first..len) {
            self.emit(chunk.decided_no_earlier(decided), sink);
        }
        self.held = held;
        self.held.clear();
    }

    /// Starts a comment or a string with its first byte.
    fn begin(&mut self, class: Class, first: Chunk<'_>, sink: &mut impl ChunkSink) {
        self.class = class;
        let kind = match class {
            Class::Comment => RegionSet::COMMENT,
            _ => RegionSet::STRING,
        };
        if self.told.is_some_and(|told| told.regions.contains(kind)) {
            // Ends the preceding comment or string. A cut would also end the haystacks around both.
            let code = self.tagged(Class::Code.regions(TokenPart::Content));
            sink.set_tag(code, first.decided_start(0));
            self.told = None;
        }
        self.emit_as(TokenPart::Delimiter, first, sink);
    }

    /// Emits code, or the content of a comment or a string.
    fn emit(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if self.class != Class::String {
            return self.emit_as(TokenPart::Content, chunk, sink);
        }
        let mut rest = chunk;
        while let Some(at) = memchr3(b'"', b'\'', b'`', rest.bytes) {
            self.emit_as(TokenPart::Content, rest.slice(0..at), sink);
            let quote = self.tagged(RegionSet::STRING);
            self.emit_tagged(quote, rest.slice(at..at + 1), sink);
            rest = rest.slice(at + 1..rest.bytes.len());
        }
        self.emit_as(TokenPart::Content, rest, sink);
    }

    #[inline]
    fn emit_as(&mut self, part: TokenPart, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        let tag = self.tagged(self.class.regions(part));
        self.emit_tagged(tag, chunk, sink);
    }

    fn emit_tagged(&mut self, tag: Tag, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        if self.told != Some(tag) {
            sink.set_tag(tag, chunk.decided_start(0));
            self.told = Some(tag);
        }
        sink.push(chunk);
    }

    #[inline]
    fn tagged(&self, regions: RegionSet) -> Tag {
        Tag {
            regions: self.tag.regions | regions,
            interrupted: RegionSet(INTERRUPTED.0 & !regions.0),
            ..self.tag
        }
    }
}

#[cfg(test)]
mod tests;
