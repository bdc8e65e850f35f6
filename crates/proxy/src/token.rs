//! The token that requests must have, if one is configured.

use std::fmt;

use hyper::header::{HeaderMap, HeaderName, PROXY_AUTHORIZATION};
use subtle::ConstantTimeEq as _;

use crate::error::ProxyError;

/// The header with the token. It is not sent to a server.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-ttsr-token");

/// The fewest bytes of a token.
const SHORTEST: usize = 16;

/// The token that every request must have, in the header `x-ttsr-token` or as `Proxy-Authorization: Bearer TOKEN`.
///
/// Neither header is sent to a server, and the token is not part of any output, also not of that of [`Debug`](fmt::Debug).
///
/// # Example: a token is not printed
/// ```
/// use ttsr_proxy::ProxyToken;
/// let token = ProxyToken::new("0123456789abcdef")?;
/// assert!(!format!("{token:?}").contains("0123"));
/// assert!(ProxyToken::new("short").is_err());
/// # Ok::<(), ttsr_proxy::ProxyError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyToken(String);

impl ProxyToken {
    /// Returns the token with that text.
    ///
    /// # Errors
    /// If it has fewer than 16 bytes, or bytes that a header cannot have.
    pub fn new(text: impl Into<String>) -> Result<ProxyToken, ProxyError> {
        let text = text.into();
        if text.len() < SHORTEST {
            let message = format!("a token has at least {SHORTEST} bytes");
            return Err(ProxyError::new(message));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = "a token has only visible ASCII characters";
            return Err(ProxyError::new(message));
        }
        Ok(ProxyToken(text))
    }

    /// Returns true if one of the headers has the token. The time of the comparison does not depend on the place of the
    /// first byte that differs.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let direct = headers.get_all(TOKEN).iter().map(|value| value.as_bytes());
        let bearer = headers.get_all(PROXY_AUTHORIZATION).iter();
        let bearer = bearer.filter_map(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
        });
        let own = self.0.as_bytes();
        direct.chain(bearer).any(|given| own.ct_eq(given).into())
    }
}

impl fmt::Debug for ProxyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers_are_read_and_only_the_whole_token_is_accepted() {
        let token = ProxyToken::new("0123456789abcdef").unwrap();
        for (name, value, is_accepted) in [
            ("x-ttsr-token", "0123456789abcdef", true),
            ("x-ttsr-token", "0123456789abcde", false),
            ("x-ttsr-token", "0123456789abcdefg", false),
            ("x-ttsr-token", "", false),
            ("proxy-authorization", "Bearer 0123456789abcdef", true),
            ("proxy-authorization", "bearer 0123456789abcdef", true),
            ("proxy-authorization", "Basic 0123456789abcdef", false),
            ("authorization", "Bearer 0123456789abcdef", false),
        ] {
            let mut headers = HeaderMap::new();
            let name: HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(token.is_in(&headers), is_accepted, "{value}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        for text in [
            "",
            "0123456789abcde",
            "0123456789abcde f",
            "0123456789abcdeé",
        ] {
            ProxyToken::new(text).unwrap_err();
        }
    }
}
