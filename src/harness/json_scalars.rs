//! The positions of scalars in JSON that arrives in pieces.

use std::collections::VecDeque;

use memchr::memchr2;

/// The positions of the scalars of a tool input: strings (object keys too), numbers, `true`, `false` and `null`.
///
/// Reads the bytes of a part in order, however they are split. This is a tokenizer, not a parser: in input that is not
/// JSON, each run of bytes between structural characters counts as a scalar. Input that does not begin with an object
/// has no scalars.
///
/// Memory: 24 bytes for each scalar that was not [forgotten](Self::forget).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonScalars {
    state: LexerState,
    /// The number of bytes read.
    offset: u64,
    /// The start of the scalar that is being read.
    open: u64,
    /// The complete scalars that are not empty, in order.
    complete: VecDeque<ScalarSpan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScalarSpan {
    /// The offset of its first byte; for a string, of the byte after the opening quote.
    pub(super) start: u64,
    /// The offset after its last byte; for a string, of the closing quote.
    pub(super) end: u64,
    /// True if the scalar is not a string.
    pub(super) is_bare: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LexerState {
    /// Only white space was read.
    #[default]
    Start,
    /// The input is not a JSON object.
    NotJson,
    /// Between two scalars.
    Structure,
    String,
    /// In a string, after a backslash.
    Escape,
    Bare,
}

impl JsonScalars {
    /// Returns the scalars of a whole input.
    pub(super) fn of_input(input: &[u8]) -> JsonScalars {
        let mut scalars = JsonScalars::default();
        scalars.push(input);
        scalars.finish();
        scalars
    }

    /// Reads the next bytes of the part.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let used = match self.state {
                LexerState::NotJson => rest.len(),
                LexerState::String => memchr2(b'"', b'\\', rest).map_or(rest.len(), |at| at + 1),
                _ => 1,
            };
            let last = self.offset + used as u64 - 1;
            self.state = match (self.state, rest[used - 1]) {
                (LexerState::NotJson, _) => LexerState::NotJson,
                (LexerState::String, b'"') => {
                    self.complete(last, false);
                    LexerState::Structure
                }
                (LexerState::String, b'\\') => LexerState::Escape,
                (LexerState::String | LexerState::Escape, _) => LexerState::String,
                (LexerState::Start, b'{') => LexerState::Structure,
                (LexerState::Start, b' ' | b'\t' | b'\n' | b'\r') => LexerState::Start,
                (LexerState::Start, _) => LexerState::NotJson,
                (LexerState::Structure | LexerState::Bare, _) => self.between(byte),
            };
            self.offset += used as u64;
            rest = &rest[used..];
        }
    }

    /// Reads a byte outside strings and returns the state after it.
    fn between(&mut self, byte: u8) -> LexerState {
        let is_structure = matches!(
            byte,
            b' ' | b'\t' | b'\n' | b'\r' | b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"'
        );
        let was_bare = self.state == LexerState::Bare;
        if is_structure && was_bare {
            self.complete(self.offset, true);
        }
        if byte == b'"' {
            self.open = self.offset + 1;
            LexerState::String
        } else if is_structure {
            LexerState::Structure
        } else {
            self.open = if was_bare { self.open } else { self.offset };
            LexerState::Bare
        }
    }

    /// Ends the part, and with it an open scalar.
    pub(super) fn finish(&mut self) {
        match self.state {
            LexerState::Bare => self.complete(self.offset, true),
            LexerState::String | LexerState::Escape => self.complete(self.offset, false),
            LexerState::Start | LexerState::NotJson | LexerState::Structure => return,
        }
        self.state = LexerState::Structure;
    }

    fn complete(&mut self, end: u64, is_bare: bool) {
        let start = self.open;
        if start < end {
            self.complete.push_back(ScalarSpan {
                start,
                end,
                is_bare,
            });
        }
    }

    /// Returns the string that is being read.
    fn open_string(&self) -> Option<ScalarSpan> {
        let is_open = matches!(self.state, LexerState::String | LexerState::Escape);
        is_open.then_some(ScalarSpan {
            start: self.open,
            end: u64::MAX,
            is_bare: false,
        })
    }

    /// Returns the first scalar that ends after `at`: the scalar that contains `at`, or the next one.
    pub(super) fn ending_after(&self, at: u64) -> Option<ScalarSpan> {
        let index = self.complete.partition_point(|known| known.end <= at);
        self.complete.get(index).copied().or(self.open_string())
    }

    /// Returns the last scalar that starts before `at`.
    pub(super) fn starting_before(&self, at: u64) -> Option<ScalarSpan> {
        let open = self.open_string().filter(|open| open.start < at);
        let index = self.complete.partition_point(|known| known.start < at);
        let complete = index
            .checked_sub(1)
            .and_then(|index| self.complete.get(index));
        open.or(complete.copied())
    }

    /// Returns the largest offset up to `at` that is not inside an unquoted scalar.
    pub(super) fn floor(&self, at: u64) -> u64 {
        if self.state == LexerState::Bare && at > self.open {
            return self.open;
        }
        let around = self
            .ending_after(at)
            .filter(|known| known.is_bare && known.start < at);
        around.map_or(at, |known| known.start)
    }

    /// Drops the scalars that end at or before `at`.
    pub(super) fn forget(&mut self, at: u64) {
        while self.complete.front().is_some_and(|known| known.end <= at) {
            self.complete.pop_front();
        }
    }
}
