//! An API key that is sent but never shown.

use std::fmt;

use hyper::header::HeaderValue;

/// The replacement for a key.
const REDACTED: &str = "[key]";

/// The shortest key that is searched for, in bytes: a shorter one would match parts of words.
const MIN_SEARCHED: usize = 8;

/// The API key of a provider. It appears in requests only, never in `Debug` or in messages.
#[derive(Clone)]
pub(super) struct ApiKey {
    text: String,
    plain: HeaderValue,
    bearer: HeaderValue,
}

impl ApiKey {
    /// Returns `None` if `text` is not a valid header value.
    pub(super) fn new(text: &str) -> Option<ApiKey> {
        let text = text.trim();
        let mut plain = HeaderValue::from_str(text).ok()?;
        let mut bearer = HeaderValue::from_str(&format!("Bearer {text}")).ok()?;
        plain.set_sensitive(true);
        bearer.set_sensitive(true);
        Some(ApiKey {
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

    /// Returns `text` without the key: some servers repeat the key that they refuse.
    pub(super) fn redact(&self, text: &str) -> String {
        match self.is_searchable() {
            true => text.replace(&self.text, REDACTED),
            false => text.to_owned(),
        }
    }

    /// Returns true if the key is long enough to be searched for.
    pub(super) fn is_searchable(&self) -> bool {
        self.text.len() >= MIN_SEARCHED
    }

    /// Returns `text` without the key.
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

    /// Returns the length of the longest suffix of `text` that is a proper prefix of the key.
    pub(super) fn longest_prefix_at_end(&self, text: &[u8]) -> usize {
        let key = self.text.as_bytes();
        let longest = text.len().min(key.len().saturating_sub(1));
        let mut lengths = (1..=longest).rev();
        let begun = lengths.find(|length| text.ends_with(&key[..*length]));
        begun.unwrap_or(0)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
