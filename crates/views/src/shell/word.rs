//! The escapes of `$'…'`, byte by byte.

/// An escape after its backslash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AnsiEscape {
    /// Only the backslash.
    #[default]
    Begins,
    /// `\c`
    Control,
    /// The digits of a number.
    Number {
        base: u32,
        /// The most digits that can follow.
        left: u8,
        value: u32,
        any: bool,
        /// True if the number is a code point and not a byte.
        scalar: bool,
    },
}

/// The effect of a byte on an escape. Text is a buffer with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EscapeStep {
    More(AnsiEscape),
    /// The escape ends with this byte.
    Done([u8; 4], usize),
    /// The escape ended before this byte.
    Before([u8; 4], usize),
    /// The bytes are not an escape.
    Nothing,
}

impl AnsiEscape {
    pub(crate) fn next(self, byte: u8) -> EscapeStep {
        match self {
            AnsiEscape::Begins => begin(byte),
            AnsiEscape::Control => EscapeStep::Done([byte & 0x1F, 0, 0, 0], 1),
            AnsiEscape::Number {
                base,
                left,
                value,
                scalar,
                ..
            } => match (byte as char).to_digit(base) {
                None => self.end().map_or(EscapeStep::Nothing, |(utf8, len)| {
                    EscapeStep::Before(utf8, len)
                }),
                Some(digit) => {
                    let value = value * base + digit;
                    let longer = AnsiEscape::Number {
                        base,
                        left: left - 1,
                        value,
                        any: true,
                        scalar,
                    };
                    match longer.end() {
                        Some((utf8, len)) if left == 1 => EscapeStep::Done(utf8, len),
                        _ => EscapeStep::More(longer),
                    }
                }
            },
        }
    }

    /// Returns the text of the escape if it can end here.
    pub(crate) fn end(self) -> Option<([u8; 4], usize)> {
        match self {
            AnsiEscape::Number {
                value,
                any: true,
                scalar,
                ..
            } => Some(text(value, scalar)),
            _ => None,
        }
    }
}

fn begin(byte: u8) -> EscapeStep {
    let number = |base, left, value, any, scalar| {
        EscapeStep::More(AnsiEscape::Number {
            base,
            left,
            value,
            any,
            scalar,
        })
    };
    let one = |byte| EscapeStep::Done([byte, 0, 0, 0], 1);
    match byte {
        b'n' => one(b'\n'),
        b't' => one(b'\t'),
        b'r' => one(b'\r'),
        b'a' => one(0x07),
        b'b' => one(0x08),
        b'e' | b'E' => one(0x1B),
        b'f' => one(0x0C),
        b'v' => one(0x0B),
        b'\\' | b'\'' | b'"' | b'?' => one(byte),
        b'x' => number(16, 2, 0, false, false),
        b'u' => number(16, 4, 0, false, true),
        b'U' => number(16, 8, 0, false, true),
        b'0'..=b'7' => number(8, 2, u32::from(byte - b'0'), true, false),
        b'c' => EscapeStep::More(AnsiEscape::Control),
        _ => EscapeStep::Nothing,
    }
}

fn text(value: u32, scalar: bool) -> ([u8; 4], usize) {
    let mut utf8 = [value as u8, 0, 0, 0];
    if !scalar {
        return (utf8, 1);
    }
    let char = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
    let len = char.encode_utf8(&mut utf8).len();
    (utf8, len)
}
