//! A text that is compared with others without being kept.

use std::fmt;

use ring::digest::{Context, Digest, SHA256, digest};

/// The SHA-256 of a text that arrives in pieces: whoever writes the text must not find another one with the same digest.
pub(super) enum TextDigest {
    /// Bytes may follow. `None` for the empty text, which takes no memory.
    Open(Option<Box<Context>>),
    /// No bytes follow.
    Closed([u8; SHA256_LEN]),
}

impl fmt::Debug for TextDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextDigest").finish_non_exhaustive()
    }
}

const SHA256_LEN: usize = ring::digest::SHA256_OUTPUT_LEN;

impl TextDigest {
    /// Returns the digest of the empty text.
    pub(super) fn new() -> TextDigest {
        TextDigest::Open(None)
    }

    /// Appends bytes. After [`close`](Self::close) this does nothing.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if let TextDigest::Open(context) = self {
            let context = context.get_or_insert_with(|| Box::new(Context::new(&SHA256)));
            context.update(bytes);
        }
    }

    /// Ends the text, which then takes less memory.
    pub(super) fn close(&mut self) {
        *self = TextDigest::Closed(self.value());
    }

    /// Returns true if the text is `other`.
    pub(super) fn is_of(&self, other: &[u8]) -> bool {
        self.value() == array(digest(&SHA256, other))
    }

    fn value(&self) -> [u8; SHA256_LEN] {
        match self {
            TextDigest::Open(None) => array(digest(&SHA256, b"")),
            TextDigest::Open(Some(context)) => array((**context).clone().finish()),
            TextDigest::Closed(value) => *value,
        }
    }
}

fn array(digest: Digest) -> [u8; SHA256_LEN] {
    let mut value = [0; SHA256_LEN];
    value.copy_from_slice(digest.as_ref());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_compared_however_it_was_cut() {
        let text = "The bytes of é and of nothing else. ".repeat(9);
        for size in [1, 3, 64, text.len()] {
            let mut known = TextDigest::new();
            assert!(known.is_of(b"") && !known.is_of(b"a"));
            for piece in text.as_bytes().chunks(size) {
                known.push(piece);
            }
            for _ in 0..2 {
                assert!(known.is_of(text.as_bytes()));
                assert!(!known.is_of(&text.as_bytes()[1..]) && !known.is_of(b""));
                known.close();
            }
            known.push(b"more");
            assert!(known.is_of(text.as_bytes()));
        }
    }
}
