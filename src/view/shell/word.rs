//! The escapes of `$'…'`, byte by byte.

/// An escape whose backslash was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AnsiEscape {
    /// Nothing behind the backslash yet.
    #[default]
    Begins,
    /// `\c`
    Control,
    /// Digits of a number.
    Number {
        base: u32,
        /// Most digits that may follow.
        left: u8,
        value: u32,
        any: bool,
        /// It names a character, not a byte.
        scalar: bool,
    },
}

/// What a byte does to an escape. Text is given with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EscapeStep {
    More(AnsiEscape),
    /// It ends with this byte.
    Done([u8; 4], usize),
    /// It ended before this byte.
    Before([u8; 4], usize),
    /// It is none.
    Nothing,
}

impl AnsiEscape {
    pub(super) fn next(self, byte: u8) -> EscapeStep {
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

    /// The text, if it may end here.
    pub(super) fn end(self) -> Option<([u8; 4], usize)> {
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
