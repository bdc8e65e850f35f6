//! The metacharacters of each context.

/// Contexts with their own metacharacters: outside quotes, `'…'`, `$'…'`, and any other quote or expansion.
pub(super) const BARE: u8 = 1;
pub(super) const SINGLE: u8 = 2;
pub(super) const ANSI: u8 = 4;
pub(super) const INSIDE: u8 = 8;

static SPECIAL: [u8; 256] = {
    let mut special = [0; 256];
    let classes: [(&[u8], u8); 4] = [
        (b" \t\n;|&()<>'\"`$\\#", BARE),
        (b"'`", SINGLE),
        (b"'`\\", ANSI),
        (b"\"'`$\\}()", INSIDE),
    ];
    let mut class = 0;
    while class < classes.len() {
        let (bytes, mut at) = (classes[class].0, 0);
        while at < bytes.len() {
            special[bytes[at] as usize] |= classes[class].1;
            at += 1;
        }
        class += 1;
    }
    special
};

pub(super) fn is_plain(byte: u8) -> bool {
    SPECIAL[usize::from(byte)] & BARE == 0
}

/// Returns the number of leading bytes that are not metacharacters in the context `class`.
#[inline]
pub(super) fn plain(bytes: &[u8], class: u8) -> usize {
    let special = |&byte: &u8| SPECIAL[usize::from(byte)] & class != 0;
    bytes.iter().position(special).unwrap_or(bytes.len())
}

/// Returns true if a single blank between two plain arguments is at `at`. Digits after it may be a file descriptor, and
/// an incomplete character before it ends at a replacement.
#[inline]
pub(super) fn is_single_blank(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at..], [b' ', next, ..] if is_plain(next) && !next.is_ascii_digit())
        && at > 0
        && bytes[at - 1].is_ascii()
}
