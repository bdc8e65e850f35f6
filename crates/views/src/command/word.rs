//! The word that is being read, and the words that are complete.

use std::ops::Range;

use super::super::chunk::OffsetMap;
use super::event::{CommandId, CommandWord, WordRole, WordTraits};
use super::text::MappedText;

/// The most substitutions of a word whose commands are remembered.
const SUBSTITUTIONS: usize = 4;

/// The most unquoted braces and commas of a word that are remembered. Beyond it the word is not expanded.
const BRACE_MARKS: usize = 128;

/// A byte of the input with its offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputByte {
    pub(super) byte: u8,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl InputByte {
    #[inline]
    pub(super) fn offsets(self) -> OffsetMap {
        if self.end == self.start + 1 {
            return OffsetMap::Verbatim(self.start);
        }
        OffsetMap::Replacement {
            start: self.start,
            end: self.end,
        }
    }
}

/// A word that is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct WordBuffer {
    pub(super) text: MappedText,
    /// True if a byte or a quote of the word has been read.
    pub(super) begun: bool,
    pub(super) span: Range<u64>,
    pub(super) traits: WordTraits,
    /// The length of the text before the first quote or expansion.
    pub(super) literal: Option<usize>,
    /// The positions of unquoted braces and commas.
    pub(super) braces: Vec<usize>,
    /// The commands whose output the word contains.
    pub(super) substitutions: Vec<CommandId>,
    /// The text that the process substitution of the word writes, as far as it is known.
    pub(super) written: Option<Box<MappedText>>,
    /// The ranges of the elements of an array in the text.
    pub(super) elements: Vec<Range<usize>>,
    /// True if the word is an array whose elements are constant.
    pub(super) is_constant_array: bool,
}

impl WordBuffer {
    /// Empties the word and keeps its buffers.
    pub(super) fn clear(&mut self) {
        let WordBuffer {
            text,
            braces,
            substitutions,
            elements,
            ..
        } = self;
        elements.clear();
        text.clear();
        braces.clear();
        substitutions.clear();
        *self = WordBuffer {
            text: std::mem::take(text),
            braces: std::mem::take(braces),
            substitutions: std::mem::take(substitutions),
            elements: std::mem::take(elements),
            ..WordBuffer::default()
        };
    }

    #[inline]
    pub(super) fn begin(&mut self, source: Range<u64>) {
        if !self.begun {
            self.begun = true;
            self.span.start = source.start;
        }
        self.span.end = source.end;
    }

    /// Appends a run of bytes at consecutive offsets. Returns false if the word has just become too long.
    pub(super) fn push(&mut self, bytes: &[u8], offsets: OffsetMap, most: usize) -> bool {
        let room = most - self.text.len().min(most);
        self.text.push(&bytes[..bytes.len().min(room)], offsets);
        if bytes.len() <= room || self.traits.truncated() {
            return true;
        }
        self.traits.insert(WordTraits::TRUNCATED);
        false
    }

    /// Marks the rest of the word as not literal.
    #[inline]
    pub(super) fn end_literal(&mut self) {
        self.literal.get_or_insert(self.text.len());
    }

    pub(super) fn mark_quoted(&mut self) {
        self.end_literal();
        self.traits.insert(WordTraits::QUOTED);
    }

    pub(super) fn mark_expanded(&mut self) {
        self.end_literal();
        self.traits.insert(WordTraits::EXPANDED);
    }

    #[inline]
    pub(super) fn mark_brace(&mut self) {
        if self.braces.len() <= BRACE_MARKS {
            self.braces.push(self.text.len());
        }
    }

    /// Returns true if the braces of the word were all remembered.
    pub(super) fn knows_braces(&self) -> bool {
        self.braces.len() <= BRACE_MARKS
    }

    pub(super) fn add_substitutions(&mut self, commands: &[CommandId]) {
        let room = SUBSTITUTIONS - self.substitutions.len().min(SUBSTITUTIONS);
        self.substitutions.extend(commands.iter().take(room));
    }

    /// Returns the text before the first quote or expansion.
    pub(super) fn literal(&self) -> &[u8] {
        let end = self.literal.unwrap_or(self.text.len());
        &self.text.bytes()[..end.min(self.text.len())]
    }

    /// Returns true if no part of the word is quoted or expanded.
    pub(super) fn is_literal(&self) -> bool {
        self.literal.is_none()
    }

    /// Removes the text from `len` on, as its value replaces it.
    pub(super) fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
        while self.braces.last().is_some_and(|&at| at >= len) {
            self.braces.pop();
        }
    }
}

/// A complete word.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadWord<'a> {
    pub(super) text: &'a MappedText,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) traits: WordTraits,
    pub(super) substitutions: &'a [CommandId],
    /// The text that the process substitution of the word writes, as far as it is known.
    pub(super) written: Option<&'a MappedText>,
}

impl<'a> ReadWord<'a> {
    #[inline]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.text.bytes()
    }

    pub(super) fn in_role<'r>(
        &self,
        command: CommandId,
        role: WordRole<'r>,
        index: u32,
    ) -> CommandWord<'r>
    where
        'a: 'r,
    {
        CommandWord {
            command,
            role,
            text: self.bytes(),
            span: self.start..self.end,
            index,
            traits: self.traits,
        }
    }
}

/// Returns the length of the name if the bytes begin with `NAME=` or `NAME+=`, and the start of the value.
pub(super) fn assignment(word: &[u8]) -> Option<(usize, usize)> {
    let equals = word.iter().position(|&byte| byte == b'=')?;
    let name = word[..equals].strip_suffix(b"+").unwrap_or(&word[..equals]);
    let name = match name.iter().position(|&byte| byte == b'[') {
        Some(bracket) if name.ends_with(b"]") => &name[..bracket],
        _ => name,
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let valid = name.first().is_some_and(|byte| !byte.is_ascii_digit()) && name.iter().all(is_name);
    valid.then_some((name.len(), equals + 1))
}
