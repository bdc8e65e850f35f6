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
        if self.text.len() < LOOKED_FOR {
            return text.to_owned();
        }
        text.replace(&self.text, REDACTED)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}
