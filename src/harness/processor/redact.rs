//! Replaces stretches of a text while it leaves in pieces.
//!
//! Tool input stays JSON. A stretch inside a string is replaced inside the string. A number, `true`, `false` or
//! `null` of which a stretch takes any byte is replaced whole, by a string: part of a number is no value, and text
//! without quotes is none either. So such a value leaves whole, and no character leaves in part.

use std::collections::VecDeque;

use memchr::memchr2;

use super::part::Stretch;
use crate::harness::reply::Replaced;

/// Where the scalars of a tool input stand: strings, object keys among them, numbers, `true`, `false`, `null`.
///
/// It reads the bytes of a part in the order in which they arrive, whatever their cut. It is a tokenizer: in input
/// that is not JSON, any run of bytes between structural characters counts as a scalar. Input that does not begin
/// with an object has none.
///
/// Memory: 24 bytes for each scalar that has not [left](Self::forget).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scalars {
    state: Token,
    /// Number of bytes read.
    offset: u64,
    /// Where the scalar begins that is being read.
    open: u64,
    /// Scalars that are complete and not empty, in order.
    complete: VecDeque<Scalar>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scalar {
    /// Its first byte; of a string, the byte after the quote.
    start: u64,
    /// The byte after its last one; of a string, the quote.
    end: u64,
    /// Whether it has no quotes.
    is_bare: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Token {
    /// Nothing but blanks so far.
    #[default]
    Start,
    /// The input is not a JSON object.
    NotJson,
    /// Between tokens.
    Structure,
    String,
    /// In a string, after a backslash.
    Escape,
    Bare,
}

impl Scalars {
    /// Those of a whole input.
    pub(super) fn of(input: &[u8]) -> Scalars {
        let mut scalars = Scalars::default();
        scalars.push(input);
        scalars.finish();
        scalars
    }

    /// Reads the next bytes of the part.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let used = match self.state {
                Token::NotJson => rest.len(),
                Token::String => memchr2(b'"', b'\\', rest).map_or(rest.len(), |at| at + 1),
                _ => 1,
            };
            let last = self.offset + used as u64 - 1;
            self.state = match (self.state, rest[used - 1]) {
                (Token::NotJson, _) => Token::NotJson,
                (Token::String, b'"') => {
                    self.complete(last, false);
                    Token::Structure
                }
                (Token::String, b'\\') => Token::Escape,
                (Token::String | Token::Escape, _) => Token::String,
                (Token::Start, b'{') => Token::Structure,
                (Token::Start, b' ' | b'\t' | b'\n' | b'\r') => Token::Start,
                (Token::Start, _) => Token::NotJson,
                (Token::Structure | Token::Bare, _) => self.between(byte),
            };
            self.offset += used as u64;
            rest = &rest[used..];
        }
    }

    /// The state after a byte that is in no string.
    fn between(&mut self, byte: u8) -> Token {
        let is_structure = matches!(
            byte,
            b' ' | b'\t' | b'\n' | b'\r' | b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"'
        );
        let was_bare = self.state == Token::Bare;
        if is_structure && was_bare {
            self.complete(self.offset, true);
        }
        if byte == b'"' {
            self.open = self.offset + 1;
            Token::String
        } else if is_structure {
            Token::Structure
        } else {
            self.open = if was_bare { self.open } else { self.offset };
            Token::Bare
        }
    }

    /// The part ends, and with it the scalar that is open.
    pub(super) fn finish(&mut self) {
        match self.state {
            Token::Bare => self.complete(self.offset, true),
            Token::String | Token::Escape => self.complete(self.offset, false),
            Token::Start | Token::NotJson | Token::Structure => return,
        }
        self.state = Token::Structure;
    }

    fn complete(&mut self, end: u64, is_bare: bool) {
        let start = self.open;
        if start < end {
            self.complete.push_back(Scalar {
                start,
                end,
                is_bare,
            });
        }
    }

    /// The string that is being read, as far as it came.
    fn open_string(&self) -> Option<Scalar> {
        let is_open = matches!(self.state, Token::String | Token::Escape);
        is_open.then_some(Scalar {
            start: self.open,
            end: u64::MAX,
            is_bare: false,
        })
    }

    /// The first scalar that ends behind `at`: the one that the byte at `at` belongs to, or the next one.
    fn from(&self, at: u64) -> Option<Scalar> {
        let index = self.complete.partition_point(|known| known.end <= at);
        self.complete.get(index).copied().or(self.open_string())
    }

    /// The last scalar that begins before `at`.
    fn before(&self, at: u64) -> Option<Scalar> {
        let open = self.open_string().filter(|open| open.start < at);
        let index = self.complete.partition_point(|known| known.start < at);
        let complete = index
            .checked_sub(1)
            .and_then(|index| self.complete.get(index));
        open.or(complete.copied())
    }

    /// The last place up to `at` that is not inside a scalar without quotes.
    pub(super) fn floor(&self, at: u64) -> u64 {
        if self.state == Token::Bare && at > self.open {
            return self.open;
        }
        let around = self
            .from(at)
            .filter(|known| known.is_bare && known.start < at);
        around.map_or(at, |known| known.start)
    }

    /// Bytes before `at` have left.
    pub(super) fn forget(&mut self, at: u64) {
        while self.complete.front().is_some_and(|known| known.end <= at) {
            self.complete.pop_front();
        }
    }
}

/// The last place up to `at` that is not inside a character of UTF-8. Bytes of no character are left as they are.
pub(super) fn floor_char(bytes: &[u8], at: usize) -> usize {
    match char_around(bytes, at) {
        Some((start, _)) => start,
        None => at,
    }
}

/// The character that `at` is inside of: where it begins, and where it ends if it is complete.
fn char_around(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    for back in 1..=at.min(3) {
        let len = match bytes.get(at - back)? {
            0x80..=0xBF => continue,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return None,
        };
        return (len > back).then_some((at - back, at - back + len));
    }
    None
}

/// What is replaced in a piece of a text that leaves.
pub(super) struct Replacing<'a> {
    /// Offset of the first byte of the piece in the text as delivered.
    pub(super) from: u64,
    /// Those of the text, where it is tool input. The piece has no scalar without quotes in part.
    pub(super) scalars: Option<&'a Scalars>,
    /// Where the stretch ends that was replaced last: what lies before it is left out.
    pub(super) skip: &'a mut u64,
    /// Takes what is replaced.
    pub(super) replaced: &'a mut Vec<Replaced>,
    /// Where the result is put, in bytes of the text as it leaves.
    pub(super) at: usize,
}

impl Replacing<'_> {
    /// The bytes with the stretches replaced, which come in the order of their beginnings. Stretches that overlap
    /// are one, replaced by the text of the first.
    pub(super) fn apply(
        mut self,
        bytes: &[u8],
        stretches: impl Iterator<Item = Stretch>,
    ) -> Vec<u8> {
        let from = self.from;
        let end = from + bytes.len() as u64;
        let slice = |start: u64, stop: u64| {
            let (start, stop) = (start.clamp(from, end), stop.clamp(from, end));
            (start - from) as usize..(stop.max(start) - from) as usize
        };
        let mut left = Vec::with_capacity(bytes.len());
        let mut next = self.from;
        // Whether the stretch that ends at `skip` began and its end has not been reached.
        let mut is_open = *self.skip > self.from;
        for stretch in stretches.filter(|stretch| stretch.from < end) {
            let (start, is_bare) = self.start(bytes, stretch.from);
            if start >= stretch.to {
                continue;
            }
            if is_open && start >= *self.skip {
                next = self.end(bytes, &mut left);
                is_open = false;
            }
            if is_open {
                *self.skip = stretch.to.max(*self.skip);
                continue;
            }
            if start < next {
                continue;
            }
            left.extend_from_slice(&bytes[slice(next, start)]);
            self.replaced.push(Replaced {
                from: start,
                to: stretch.to,
                at: self.at + left.len(),
                len: stretch.with.len() + usize::from(is_bare),
            });
            left.extend(is_bare.then_some(b'"'));
            left.extend_from_slice(&stretch.with);
            *self.skip = stretch.to;
            is_open = true;
        }
        if is_open && *self.skip <= end {
            next = self.end(bytes, &mut left);
        } else if is_open {
            next = end;
        }
        if let Some(last) = self.replaced.last_mut() {
            last.to = *self.skip;
        }
        left.extend_from_slice(&bytes[slice(next, end)]);
        left
    }

    /// Where what is replaced begins: with a whole character or a whole scalar without quotes. Says whether with the
    /// latter. Characters between scalars are not replaced.
    fn start(&self, bytes: &[u8], from: u64) -> (u64, bool) {
        let Some(scalars) = self.scalars else {
            return (from, false);
        };
        match scalars.from(from) {
            Some(known) if known.is_bare || known.start > from => (known.start, known.is_bare),
            _ => {
                let inside = usize::try_from(from.saturating_sub(self.from)).unwrap_or(usize::MAX);
                let start = self.from + floor_char(bytes, inside.min(bytes.len())) as u64;
                (from.min(start), false)
            }
        }
    }

    /// Ends what is replaced, behind a whole character or scalar; says where the text goes on.
    fn end(&mut self, bytes: &[u8], left: &mut Vec<u8>) -> u64 {
        let (end, is_bare) = self.ends_at(bytes);
        left.extend(is_bare.then_some(b'"'));
        if let Some(last) = self.replaced.last_mut() {
            (last.to, last.len) = (end, last.len + usize::from(is_bare));
        }
        *self.skip = end;
        end
    }

    /// Where what is replaced ends, and whether with a scalar without quotes.
    fn ends_at(&self, bytes: &[u8]) -> (u64, bool) {
        let skip = *self.skip;
        let Some(scalars) = self.scalars else {
            return (skip, false);
        };
        match scalars.before(skip) {
            Some(known) if known.is_bare || known.end < skip => (known.end, known.is_bare),
            _ => {
                let inside = usize::try_from(skip.saturating_sub(self.from)).unwrap_or(usize::MAX);
                let around = char_around(bytes, inside);
                let end = around.map_or(inside, |(_, end)| end.min(bytes.len()));
                let rest = bytes.get(inside..end).unwrap_or_default().iter();
                let rest = rest.take_while(|byte| **byte & 0xC0 == 0x80);
                (skip + rest.count() as u64, false)
            }
        }
    }
}
