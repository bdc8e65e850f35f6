//! The base URL of an endpoint.

use std::net::IpAddr;

use hyper::Uri;

/// The parsed base URL: scheme, host, port and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseUrl {
    pub(super) is_https: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as in the `Host` header.
    pub(super) authority: String,
    /// Without a trailing slash.
    path: String,
}

impl BaseUrl {
    /// Parses `base`, or returns a description of the problem.
    pub(super) fn parse(base: &str) -> Result<BaseUrl, &'static str> {
        let uri: Uri = base.trim().parse().map_err(|_| "it is not an address")?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("it does not begin with `https://` or `http://`"),
        };
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.as_str().contains('@') {
            return Err("it holds a user; keys belong in the environment");
        }
        if uri.query().is_some() {
            return Err("it holds a query");
        }
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err("it names no host");
        }
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        Ok(BaseUrl {
            is_https,
            host: host.to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Returns the path of a request.
    pub(super) fn path(&self, end: &str) -> String {
        format!("{}{end}", self.path)
    }

    /// Returns true if requests leave this machine unencrypted.
    pub(super) fn is_unencrypted(&self) -> bool {
        let is_loopback = match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        };
        !self.is_https && !is_loopback
    }
}

#[cfg(test)]
mod tests {
    use super::BaseUrl;

    #[test]
    fn a_base_is_taken_apart() {
        let address = BaseUrl::parse("https://gateway.example:8443/openai/v1/").unwrap();
        assert_eq!(
            (address.host.as_str(), address.port),
            ("gateway.example", 8443)
        );
        assert_eq!(address.path("/responses"), "/openai/v1/responses");
        let address = BaseUrl::parse("http://[::1]:11434").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("::1", 11434));
        assert_eq!(address.authority, "[::1]:11434");
        assert_eq!(address.path("/x"), "/x");
    }

    #[test]
    fn an_invalid_base_url_is_refused() {
        for base in [
            "",
            "api.openai.com/v1",
            "ftp://a/b",
            "file:///etc/passwd",
            "https://key@host/v1",
            "https://host/v1?key=1",
            "https://",
            "https:///v1",
            "https://a b/",
        ] {
            assert!(BaseUrl::parse(base).is_err(), "{base}");
        }
    }

    #[test]
    fn only_loopback_may_be_spoken_to_in_the_clear() {
        for (base, is_unencrypted) in [
            ("https://example.com", false),
            ("http://localhost:1", false),
            ("http://127.0.0.1:1", false),
            ("http://127.8.8.8", false),
            ("http://[::1]", false),
            ("http://127.0.0.1.evil.example", true),
            ("http://localhost.evil.example", true),
            ("http://example.com", true),
            ("http://10.0.0.1", true),
        ] {
            let address = BaseUrl::parse(base).unwrap();
            assert_eq!(address.is_unencrypted(), is_unencrypted, "{base}");
        }
    }
}
