//! An incremental UTF-8 decoder that yields the symbols of the automaton.
//!
//! A symbol is a whole character, or one byte that belongs to none. `regex` decides a Unicode word boundary by
//! decoding backwards over at most four bytes, and skips stray continuation bytes to the character before them. A
//! stray byte within that window is therefore a symbol of its own ([`Symbol::Trailing`]), which keeps the look-behind.
//!
//! # Invariants
//!
//! 1. The symbols do not depend on how bytes are split over calls of `push`.
//! 2. Every byte belongs to exactly one symbol, and symbols come in the order of their bytes.
//! 3. A symbol is emitted at the first byte at which it is certain: a character at its last byte, a raw byte when the
//!    next byte cannot complete it or the run of bytes ends.

/// One symbol of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A character.
    Char(char),
    /// A byte that is not part of valid UTF-8.
    Raw(u8),
    /// A continuation byte after a complete character, within the window of four bytes.
    Trailing(u8),
}

/// The bytes of an incomplete character (at most three), and the rest of the look-behind window.
///
/// Packed: bits 0..24 hold the pending bytes, 24..26 their number, 26..28 the rest of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Four bytes, because every cursor has one: a cursor with a single state fits into a cache line.
pub struct Utf8Decoder(u32);

/// Decodes the character at the start of `bytes`, if it is complete and not ASCII. Returns its code point and its
/// number of bytes.
#[inline(always)]
// The fast path for text that is not ASCII: most characters arrive whole, and `push` would classify each of their
// bytes.
pub fn decode_multibyte(bytes: &[u8]) -> Option<(char, usize)> {
    let (code, len) = match *bytes {
        [first @ 0xC2..=0xDF, second, ..] if is_continuation(second) => {
            (bits(first, 5) << 6 | bits(second, 6), 2)
        }
        [first @ 0xE0..=0xEF, second, third, ..]
            if is_continuation(second) && is_continuation(third) =>
        {
            let code = bits(first, 4) << 12 | bits(second, 6) << 6 | bits(third, 6);
            // Overlong forms are rejected here; surrogates and code points beyond Unicode are rejected by `from_u32`
            // below.
            (if code < 0x800 { u32::MAX } else { code }, 3)
        }
        [first @ 0xF0..=0xF4, second, third, fourth, ..]
            if is_continuation(second) && is_continuation(third) && is_continuation(fourth) =>
        {
            // The largest first byte, 0xF4, admits code points beyond Unicode, which `from_u32` rejects.
            let upper = bits(first, 3) << 18 | bits(second, 6) << 12;
            let code = upper | bits(third, 6) << 6 | bits(fourth, 6);
            (if code < 0x10000 { u32::MAX } else { code }, 4)
        }
        _ => return None,
    };
    Some((char::from_u32(code)?, len))
}

/// Returns the number of bytes of the last character of a text of whole characters; 1 if the text is empty.
pub(crate) fn last_char_len(text: &[u8]) -> usize {
    let continuations = text.iter().rev().take_while(|byte| is_continuation(**byte));
    // At most four, so that text of stray bytes gives a length, too.
    1 + continuations.take(3).count()
}

/// Returns the low `count` bits of a byte.
fn bits(byte: u8, count: u32) -> u32 {
    u32::from(byte) & ((1 << count) - 1)
}

impl Utf8Decoder {
    /// Returns true if a character is incomplete.
    pub fn is_pending(self) -> bool {
        self.pending() != 0
    }

    /// Returns the number of bytes of the incomplete character, 0 to 3.
    pub fn pending(self) -> usize {
        (self.0 >> 24 & 3) as usize
    }

    /// Records an ASCII character that was stepped outside the decoder. No character may be incomplete.
    ///
    /// # Panics
    /// With debug assertions, if a character is incomplete.
    #[inline(always)]
    pub fn advance_ascii(&mut self) {
        debug_assert!(!self.is_pending());
        // After one byte of a character, three more fit into the window of four.
        self.0 = 3 << 26;
    }

    /// Records a character of `len` bytes, 1 to 4, that was stepped outside the decoder. No character may be
    /// incomplete.
    ///
    /// # Panics
    /// With debug assertions, if a character is incomplete or `len` is greater than 4.
    #[inline(always)]
    pub fn advance(&mut self, len: usize) {
        debug_assert!(!self.is_pending());
        self.0 = (4 - len as u32) << 26;
    }

    /// Pushes one byte. Calls `on` for each symbol that is now certain, with the number of bytes between its end and
    /// the end of this byte.
    ///
    /// # Example: a character in two pieces, and a byte of none
    /// ```
    /// use ttsr_automata::utf8::{Symbol, Utf8Decoder};
    ///
    /// let mut decoder = Utf8Decoder::default();
    /// let mut symbols = Vec::new();
    /// for delta in [&b"a\xC3"[..], b"\xA9\xFF"] {
    ///     for &byte in delta {
    ///         decoder.push(byte, |symbol, _| symbols.push(symbol));
    ///     }
    /// }
    /// assert_eq!(symbols, [Symbol::Char('a'), Symbol::Char('é'), Symbol::Raw(0xFF)]);
    /// ```
    pub fn push(&mut self, byte: u8, mut on: impl FnMut(Symbol, usize)) {
        // At most three bytes are pending, so with this one there are at most four, the longest character.
        let count = self.pending();
        let mut bytes = [self.0 as u8, (self.0 >> 8) as u8, (self.0 >> 16) as u8, 0];
        bytes[count] = byte;
        match classify(&bytes[..=count]) {
            Sequence::Complete(char) => {
                self.0 = (3 - count as u32) << 26;
                on(Symbol::Char(char), 0);
            }
            Sequence::Incomplete => {
                let packed = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
                // The window is set by the byte that completes the character or breaks it.
                self.0 = packed | (count as u32 + 1) << 24;
            }
            Sequence::Invalid if count == 0 => on(self.stray(byte), 0),
            Sequence::Invalid => {
                // The bytes before this one belong to no character. This byte may still start one.
                for (index, &raw) in bytes[..count].iter().enumerate() {
                    on(Symbol::Raw(raw), count - index);
                }
                self.0 = 0;
                self.push(byte, on);
            }
        }
    }

    /// Ends a run of bytes: the bytes of an incomplete character are raw.
    pub fn flush(&mut self, mut on: impl FnMut(Symbol, usize)) {
        let count = self.pending();
        if count == 0 {
            return;
        }
        let bytes = self.0.to_le_bytes();
        self.0 = 0;
        for (index, &raw) in bytes[..count].iter().enumerate() {
            on(Symbol::Raw(raw), count - 1 - index);
        }
    }

    fn stray(&mut self, byte: u8) -> Symbol {
        // Only within the window: `regex` does not look further back.
        let room = self.0 >> 26 & 3;
        if is_continuation(byte) && room > 0 {
            self.0 = (room - 1) << 26;
            Symbol::Trailing(byte)
        } else {
            self.0 = 0;
            Symbol::Raw(byte)
        }
    }
}

enum Sequence {
    Complete(char),
    Incomplete,
    Invalid,
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn classify(bytes: &[u8]) -> Sequence {
    // The standard library tells an incomplete sequence from an invalid one, which is the only hard part.
    match std::str::from_utf8(bytes) {
        Ok(text) => match text.chars().next() {
            Some(char) => Sequence::Complete(char),
            None => Sequence::Invalid,
        },
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => {
            Sequence::Incomplete
        }
        Err(_) => Sequence::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(bytes: &[u8]) -> Vec<(Symbol, usize)> {
        let mut decoder = Utf8Decoder::default();
        let mut out = Vec::new();
        for (at, &byte) in bytes.iter().enumerate() {
            decoder.push(byte, |symbol, back| out.push((symbol, at + 1 - back)));
        }
        decoder.flush(|symbol, back| out.push((symbol, bytes.len() - back)));
        out
    }

    #[test]
    fn characters_end_at_their_last_byte() {
        assert_eq!(
            symbols("aé€😀".as_bytes()),
            [
                (Symbol::Char('a'), 1),
                (Symbol::Char('é'), 3),
                (Symbol::Char('€'), 6),
                (Symbol::Char('😀'), 10)
            ]
        );
    }

    #[test]
    fn whole_characters_are_what_their_bytes_are_one_by_one() {
        for text in ["é", "€", "😀", "é\u{a9}", "ж\u{10FFFF}"] {
            let mut fast = Utf8Decoder::default();
            let mut slow = Utf8Decoder::default();
            let (char, len) = decode_multibyte(text.as_bytes()).unwrap();
            assert_eq!(len, char.len_utf8());
            fast.advance(len);
            let mut symbols = Vec::new();
            for byte in char.to_string().bytes() {
                slow.push(byte, |symbol, _| symbols.push(symbol));
            }
            assert_eq!((symbols, slow), (vec![Symbol::Char(char)], fast), "{text}");
        }
        for bytes in [
            &b"\xE2\x82"[..],
            b"\xC0\xAF",
            b"\xED\xA0\x80",
            b"\xF5\x80\x80\x80",
            b"a",
            b"\xA9",
            b"",
        ] {
            assert_eq!(decode_multibyte(bytes), None, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn wide_characters_are_those_of_std() {
        for char in (128..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let mut text = [0; 5];
            let len = char.encode_utf8(&mut text).len();
            assert_eq!(decode_multibyte(&text), Some((char, len)));
            assert_eq!(decode_multibyte(&text[..len - 1]), None);
        }
        // All prefixes of four bytes; the last two matter least.
        for start in 0..=u16::MAX {
            for end in [[0x80, 0x80], [0xBF, 0xBF], [0x80, 0x7F], [0xC0, 0x80]] {
                let [first, second] = start.to_be_bytes();
                let text = [first, second, end[0], end[1]];
                let known = (2..=4).find_map(|len| std::str::from_utf8(&text[..len]).ok());
                let char = known.and_then(|known| known.chars().next());
                let char = char.filter(|char| !char.is_ascii());
                assert_eq!(
                    decode_multibyte(&text).map(|known| known.0),
                    char,
                    "{text:x?}"
                );
            }
        }
    }

    #[test]
    fn bytes_of_no_character_are_raw_each_at_its_place() {
        assert_eq!(
            symbols(b"\xE2\x82A\xFF\xF0\x9F"),
            [
                (Symbol::Raw(0xE2), 1),
                (Symbol::Raw(0x82), 2),
                (Symbol::Char('A'), 3),
                (Symbol::Raw(0xFF), 4),
                (Symbol::Raw(0xF0), 5),
                (Symbol::Raw(0x9F), 6),
            ]
        );
    }

    #[test]
    fn stray_continuation_bytes_trail_within_four_bytes() {
        use Symbol::{Char, Raw, Trailing};
        let kinds = |bytes: &[u8]| symbols(bytes).into_iter().map(|s| s.0).collect::<Vec<_>>();
        assert_eq!(
            kinds(b"a\xA9\xA9\xA9\xA9"),
            [
                Char('a'),
                Trailing(0xA9),
                Trailing(0xA9),
                Trailing(0xA9),
                Raw(0xA9)
            ]
        );
        assert_eq!(
            kinds(
                "€"
                    .as_bytes()
                    .iter()
                    .chain(b"\xA9\xA9")
                    .copied()
                    .collect::<Vec<_>>()
                    .as_slice()
            ),
            [Char('€'), Trailing(0xA9), Raw(0xA9)]
        );
        assert_eq!(kinds(b"\xC0\xAF"), [Raw(0xC0), Raw(0xAF)]);
    }
}
