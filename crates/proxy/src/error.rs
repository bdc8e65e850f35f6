//! The errors of the start of a proxy.

use std::fmt;

/// The reason why a proxy cannot be configured or started.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyError(String);

impl ProxyError {
    pub(crate) fn new(message: impl Into<String>) -> ProxyError {
        ProxyError(message.into())
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ProxyError {}
