//! A tokenizer that locates the scalars of a tool input: strings (object keys included), numbers, `true`, `false` and
//! `null`.
//!
//! It knows nothing of rules. `release` asks it where text may be split and what a redaction must replace whole.

use std::collections::VecDeque;

use memchr::memchr2;

/// The scalars of one tool input, read in the order in which its bytes arrive, however they are split.
///
/// It does not validate: in input that is not JSON, every run of bytes between structural characters counts as a
/// scalar. Input whose first token is not `{` has no scalars.
///
/// Memory: 24 bytes for each scalar that has not been [discarded](Self::discard_before).
#[derive(Clone, Debug, Default)]
pub(super) struct ScalarTracker {
    state: TokenState,
    /// Number of bytes read.
    offset: u64,
    /// Offset of the first byte of the scalar that is being read.
    open_start: u64,
    /// Complete, non-empty scalars in order.
    complete: VecDeque<Scalar>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scalar {
    /// Offset of the first byte; of a string, of the byte after the opening quote.
    pub(super) start: u64,
    /// Offset after the last byte; of a string, of the closing quote.
    pub(super) end: u64,
    /// True if the scalar has no quotes.
    pub(super) is_bare: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TokenState {
    /// Only white space was read.
    #[default]
    Start,
    /// The input is not a JSON object.
    NotJson,
    /// Between two tokens.
    Structure,
    String,
    /// In a string, after a backslash.
    Escape,
    Bare,
}

impl ScalarTracker {
    /// Returns the scalars of a complete input.
    pub(super) fn of_complete(input: &[u8]) -> ScalarTracker {
        let mut scalars = ScalarTracker::default();
        scalars.push(input);
        scalars.finish();
        scalars
    }

    /// Reads the next bytes of the input.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let used = match self.state {
                TokenState::NotJson => rest.len(),
                // Most of a tool input is in strings, so they are skipped to the next byte that can end one.
                TokenState::String => memchr2(b'"', b'\\', rest).map_or(rest.len(), |at| at + 1),
                _ => 1,
            };
            let last = self.offset + used as u64 - 1;
            self.state = match (self.state, rest[used - 1]) {
                (TokenState::NotJson, _) => TokenState::NotJson,
                (TokenState::String, b'"') => {
                    self.complete_scalar(last);
                    TokenState::Structure
                }
                (TokenState::String, b'\\') => TokenState::Escape,
                (TokenState::String | TokenState::Escape, _) => TokenState::String,
                // Text without a `{` at its start is matched undecoded, and redacted as plain text.
                (TokenState::Start, b'{') => TokenState::Structure,
                (TokenState::Start, b' ' | b'\t' | b'\n' | b'\r') => TokenState::Start,
                (TokenState::Start, _) => TokenState::NotJson,
                (TokenState::Structure | TokenState::Bare, _) => self.step_outside_string(byte),
            };
            self.offset += used as u64;
            rest = &rest[used..];
        }
    }

    fn step_outside_string(&mut self, byte: u8) -> TokenState {
        let is_structure = matches!(
            byte,
            b' ' | b'\t' | b'\n' | b'\r' | b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"'
        );
        let was_bare = self.state == TokenState::Bare;
        if is_structure && was_bare {
            self.complete_scalar(self.offset);
        }
        if byte == b'"' {
            self.open_start = self.offset + 1;
            TokenState::String
        } else if is_structure {
            TokenState::Structure
        } else {
            self.open_start = if was_bare {
                self.open_start
            } else {
                self.offset
            };
            TokenState::Bare
        }
    }

    /// Ends the input, and with it the scalar that is being read.
    pub(super) fn finish(&mut self) {
        match self.state {
            TokenState::Bare | TokenState::String | TokenState::Escape => {
                self.complete_scalar(self.offset);
            }
            TokenState::Start | TokenState::NotJson | TokenState::Structure => return,
        }
        self.state = TokenState::Structure;
    }

    /// Adds the scalar that is being read, which ends at `end`.
    fn complete_scalar(&mut self, end: u64) {
        let is_bare = self.state == TokenState::Bare;
        // An empty string has no byte that a range could touch.
        let start = self.open_start;
        if start < end {
            self.complete.push_back(Scalar {
                start,
                end,
                is_bare,
            });
        }
    }

    fn open_string(&self) -> Option<Scalar> {
        let is_open = matches!(self.state, TokenState::String | TokenState::Escape);
        is_open.then_some(Scalar {
            start: self.open_start,
            end: u64::MAX,
            is_bare: false,
        })
    }

    /// Returns the first scalar that ends after `at`: the one that contains the byte at `at`, or the next one.
    pub(super) fn first_ending_after(&self, at: u64) -> Option<Scalar> {
        let index = self.complete.partition_point(|known| known.end <= at);
        self.complete.get(index).copied().or(self.open_string())
    }

    /// Returns the last scalar that begins before `at`.
    pub(super) fn last_starting_before(&self, at: u64) -> Option<Scalar> {
        let open = self.open_string().filter(|open| open.start < at);
        let index = self.complete.partition_point(|known| known.start < at);
        let complete = index
            .checked_sub(1)
            .and_then(|index| self.complete.get(index));
        open.or(complete.copied())
    }

    /// Returns the largest offset up to `at` that is not inside a scalar without quotes.
    pub(super) fn floor(&self, at: u64) -> u64 {
        if self.state == TokenState::Bare && at > self.open_start {
            return self.open_start;
        }
        let around = self
            .first_ending_after(at)
            .filter(|known| known.is_bare && known.start < at);
        around.map_or(at, |known| known.start)
    }

    /// Forgets the scalars that end at or before `at`.
    pub(super) fn discard_before(&mut self, at: u64) {
        while self.complete.front().is_some_and(|known| known.end <= at) {
            self.complete.pop_front();
        }
    }
}
