//! Which bytes stand for more than themselves, and where.

/// Where a byte stands for more than itself: between words, in single quotes, in `$'`, in all else.
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

/// How many bytes stand for nothing but themselves in text of that class.
#[inline]
pub(super) fn plain(bytes: &[u8], class: u8) -> usize {
    let special = |&byte: &u8| SPECIAL[usize::from(byte)] & class != 0;
    bytes.iter().position(special).unwrap_or(bytes.len())
}

/// Whether one blank stands there between two arguments as they are. Digits may be the number of a redirection, and
/// what is no whole character is over where something stands in.
#[inline]
pub(super) fn is_single_blank(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at..], [b' ', next, ..] if is_plain(next) && !next.is_ascii_digit())
        && at > 0
        && bytes[at - 1].is_ascii()
}
