//! A key that can be sent and cannot be seen.

use std::fmt;

use hyper::header::HeaderValue;

/// What stands where a key was.
const REDACTED: &str = "[key]";

/// Shorter ones are not looked for in messages: they would be found in words.
const LOOKED_FOR: usize = 8;

/// A key of a provider: in requests only, never in `Debug` or in messages.
#[derive(Clone)]
pub(super) struct Key {
    text: String,
    plain: HeaderValue,
    bearer: HeaderValue,
}

impl Key {
    /// None for text that cannot stand in a header.
    pub(super) fn new(text: &str) -> Option<Key> {
        let text = text.trim();
        let mut plain = HeaderValue::from_str(text).ok()?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {text}")).ok()?;
        plain.set_sensitive(true);
        bearer.set_sensitive(true);
        Some(Key {
            text: text.to_owned(),
            plain,
            bearer,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn plain(&self) -> HeaderValue {
        self.plain.clone()
    }

    pub(super) fn bearer(&self) -> HeaderValue {
        self.bearer.clone()
    }

    /// `text` without the key: some servers repeat what they refuse.
    pub(super) fn redact(&self, text: &str) -> String {
        match self.is_looked_for() {
            true => text.replace(&self.text, REDACTED),
            false => text.to_owned(),
        }
    }

    /// True if the key is long enough to be looked for.
    pub(super) fn is_looked_for(&self) -> bool {
        self.text.len() >= LOOKED_FOR
    }

    /// `text` without the key.
    pub(super) fn redact_bytes(&self, text: &[u8]) -> Vec<u8> {
        let key = self.text.as_bytes();
        let mut redacted = Vec::with_capacity(text.len());
        let mut from = 0;
        for at in memchr::memmem::find_iter(text, key) {
            redacted.extend_from_slice(&text[from..at]);
            redacted.extend_from_slice(REDACTED.as_bytes());
            from = at + key.len();
        }
        redacted.extend_from_slice(&text[from..]);
        redacted
    }

    /// The length of the longest end of `text` that the key begins with and that is not all of the key.
    pub(super) fn begun_at_end_of(&self, text: &[u8]) -> usize {
        let key = self.text.as_bytes();
        let longest = text.len().min(key.len().saturating_sub(1));
        let mut lengths = (1..=longest).rev();
        let begun = lengths.find(|length| text.ends_with(&key[..*length]));
        begun.unwrap_or(0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
