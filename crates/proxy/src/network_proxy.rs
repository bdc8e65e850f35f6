//! The proxy through which a network reaches the internet, and the servers that are reached without it.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::{Authority, Scheme};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::error::ProxyError;

/// The proxy through which the network of this machine lets connections out: the network's proxy.
///
/// Connections to `https` servers are tunnelled through it, with CONNECT of HTTP or with SOCKS version 5, and TLS is between
/// this process and the server. Not tunnelled are connections to loopback addresses and to `localhost`, and those to `http`
/// servers. The credentials of its URL are sent to it and to nobody else, and are not part of any output, also not of that
/// of [`Debug`](fmt::Debug).
///
/// # Example: a proxy with credentials
/// ```
/// use ttsr_proxy::NetworkProxy;
/// let proxy = NetworkProxy::parse("http://user:password@proxy.example:3128")?.except("models.example");
/// assert_eq!(format!("{proxy:?}"), "http://proxy.example:3128");
/// assert!(NetworkProxy::parse("ftp://proxy.example").is_err());
/// # Ok::<(), ttsr_proxy::ProxyError>(())
/// ```
#[derive(Clone)]
pub struct NetworkProxy {
    /// The scheme, the host and the port.
    address: Uri,
    protocol: TunnelProtocol,
    /// The URL with its credentials, decoded.
    url: Intercept,
    direct: Vec<DirectHosts>,
}

/// The protocol in which the network's proxy is asked for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunnelProtocol {
    /// CONNECT of HTTP.
    Http,
    /// SOCKS version 5. The proxy looks up the name of the server.
    Socks,
}

/// Hosts that are reached without the network's proxy.
#[derive(Clone)]
struct DirectHosts {
    /// `None` for every port.
    port: Option<u16>,
    host: String,
}

impl NetworkProxy {
    /// Parses the URL of the network's proxy: `http://`, `https://` or `socks5://`, credentials if it wants them, a host and a
    /// port. Without a scheme it is `http://`. The usual ports are 80, 443 and 1080. `https` protects the connection to the
    /// network's proxy itself with TLS. `socks5h://` is the same as `socks5://`: the proxy looks up the names of servers.
    ///
    /// # Errors
    /// If it is not a URL, has another scheme, or has a path, a query or a fragment. The error does not repeat credentials.
    pub fn parse(url: &str) -> Result<NetworkProxy, ProxyError> {
        let invalid =
            |reason: &str| ProxyError::new(format!("the URL of the network's proxy {reason}"));
        let (scheme, rest) = match url.trim().split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("http".to_owned(), url.trim()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // The last `@`: a password may have others.
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (format!("{}@", credentials.replace('@', "%40")), place),
            None => (String::new(), rest),
        };
        if rest.contains(['/', '?', '#']) {
            return Err(invalid("has a path, a query or a fragment"));
        }
        let authority: Result<Authority, _> = place.parse();
        let authority = authority.map_err(|_| invalid("cannot be parsed"))?;
        let (host, port) = (authority.host(), authority.port_u16());
        if host.is_empty() {
            return Err(invalid("has no host"));
        }
        if port.is_none() && place.len() > host.len() {
            return Err(invalid("has no valid port"));
        }
        let (protocol, usual_port) = match &*scheme {
            "http" => (TunnelProtocol::Http, 80),
            "https" => (TunnelProtocol::Http, 443),
            "socks5" | "socks5h" => (TunnelProtocol::Socks, 1080),
            _ => {
                let schemes = "must begin with http://, https:// or socks5://";
                return Err(invalid(&format!("{schemes}: `{scheme}://{place}`")));
            }
        };
        let address = Uri::builder()
            .scheme(&*scheme)
            .authority(format!("{host}:{}", port.unwrap_or(usual_port)))
            .path_and_query("/")
            .build()
            .map_err(|_| invalid("cannot be parsed"))?;
        // It decodes the credentials.
        let matcher = Matcher::builder().https(format!("{scheme}://{credentials}{place}"));
        let url = matcher.build().intercept(&Uri::from_static(ANY_SERVER));
        let url = url.ok_or_else(|| invalid("cannot be parsed"))?;
        let is_long = |text: &str| text.len() > MOST_CREDENTIAL_BYTES;
        if let Some((user, password)) = url.raw_auth()
            && (is_long(user) || is_long(password))
        {
            return Err(invalid("has credentials that are too long for SOCKS"));
        }
        Ok(NetworkProxy {
            address,
            protocol,
            url,
            direct: Vec::new(),
        })
    }

    /// Reaches these servers without the network's proxy, in addition to those of earlier calls. The list has the form of
    /// `NO_PROXY`: names, each with the names below it, addresses, ranges of addresses such as `10.0.0.0/8`, and `*` for every
    /// server, between commas or spaces. An entry with a port, such as `models.example:8443`, applies to that port only.
    #[must_use]
    pub fn except(mut self, hosts: &str) -> NetworkProxy {
        let entries = hosts.split(|it: char| it == ',' || it.is_whitespace());
        let entries = entries.filter(|entry| !entry.is_empty());
        self.direct.extend(entries.map(DirectHosts::parse));
        self
    }

    /// Returns true if connections to that server go through the network's proxy.
    ///
    /// Not so those of `http`: such servers are those of this machine and of the local network as a rule, such as Ollama. The
    /// network's proxy would read the keys of requests without TLS, and it would want each request in another form.
    pub(crate) fn carries(&self, to: &Uri) -> bool {
        to.scheme() == Some(&Scheme::HTTPS)
            && !is_loopback(to.host().unwrap_or_default())
            && !self.direct.iter().any(|hosts| hosts.have(to))
    }

    /// Returns the URL of the network's proxy, without credentials.
    pub(crate) fn address(&self) -> &Uri {
        &self.address
    }

    pub(crate) fn protocol(&self) -> TunnelProtocol {
        self.protocol
    }

    /// Returns the value of `Proxy-Authorization`.
    pub(crate) fn basic_credentials(&self) -> Option<&HeaderValue> {
        self.url.basic_auth()
    }

    /// Returns the user and the password for SOCKS.
    pub(crate) fn socks_credentials(&self) -> Option<(&str, &str)> {
        self.url.raw_auth()
    }
}

/// The most bytes of a user or a password in SOCKS (RFC 1929).
const MOST_CREDENTIAL_BYTES: usize = 255;

/// A server that no list of hosts has.
const ANY_SERVER: &str = "https://server.invalid";

impl DirectHosts {
    fn parse(entry: &str) -> DirectHosts {
        let split = entry.rsplit_once(':');
        // Of an IPv6 address without brackets, the text after the last colon is no port.
        let split = split.filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let with_port = split.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = match with_port {
            Some((host, port)) => (host, Some(port)),
            None => (entry, None),
        };
        let host = host.strip_prefix("*.").unwrap_or(host);
        DirectHosts {
            port,
            host: host.trim_matches(['[', ']']).to_owned(),
        }
    }

    fn have(&self, to: &Uri) -> bool {
        let port = to.port_u16().unwrap_or(443);
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        // The matcher compares `*` with names only. Its proxy stands for any: it says whether one applies.
        let matcher = Matcher::builder().https(ANY_SERVER).no(&self.host).build();
        self.host == "*" || matcher.intercept(to).is_none()
    }
}

impl fmt::Display for NetworkProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.address.to_string().trim_end_matches('/'))
    }
}

impl fmt::Debug for NetworkProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    // The dot at the end of a name says that it is complete.
    let name = host.strip_suffix('.').unwrap_or(host);
    let address: Option<IpAddr> = host.parse().ok();
    name.eq_ignore_ascii_case("localhost")
        || address.is_some_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_refused_without_its_password() {
        for (url, reason) in [
            ("", "cannot be parsed"),
            ("http://", "cannot be parsed"),
            ("http://:3128", "has no host"),
            ("http://owl:tawny@", "cannot be parsed"),
            ("http://owl:tawny", "has no valid port"),
            (
                "http://owl:12/tawny@proxy:3128",
                "has a path, a query or a fragment",
            ),
            (
                "http://owl:12#tawny@proxy:3128",
                "has a path, a query or a fragment",
            ),
            (
                "http://proxy:3128/?tawny",
                "has a path, a query or a fragment",
            ),
            ("http://proxy:99999", "has no valid port"),
            ("http://owl:tawny@proxy:80:80", "cannot be parsed"),
            ("owl:taw ny@proxy", "cannot be parsed"),
            ("owl:tawny@pro xy", "cannot be parsed"),
            ("ftp://owl:tawny@proxy:1", "or socks5://: `ftp://proxy:1`"),
            ("socks4://owl:tawny@proxy", "or socks5://: `socks4://proxy`"),
        ] {
            let error = NetworkProxy::parse(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("taw") && !error.contains("owl"), "{error}");
        }
        let long = format!("socks5://owl:{}@proxy", "t".repeat(256));
        let error = NetworkProxy::parse(&long).unwrap_err().to_string();
        assert!(error.ends_with("too long for SOCKS"), "{error}");
    }

    #[test]
    fn a_url_has_a_port_and_is_shown_without_credentials() {
        for (url, shown, basic, socks) in [
            ("proxy", "http://proxy:80", None, None),
            ("127.0.0.1:3128/", "http://127.0.0.1:3128", None, None),
            ("http://[::1]:3128", "http://[::1]:3128", None, None),
            ("socks5://proxy", "socks5://proxy:1080", None, None),
            (
                "socks5h://owl:ta%40wny@proxy:1",
                "socks5h://proxy:1",
                None,
                Some(("owl", "ta@wny")),
            ),
            // `owl:ta@wny` in Base64.
            (
                "owl:ta%40wny@proxy",
                "http://proxy:80",
                Some("Basic b3dsOnRhQHdueQ=="),
                None,
            ),
            (
                "HTTPS://owl:ta@wny@proxy ",
                "https://proxy:443",
                Some("Basic b3dsOnRhQHdueQ=="),
                None,
            ),
            (
                "http://owl@proxy:8080",
                "http://proxy:8080",
                Some("Basic b3dsOg=="),
                None,
            ),
        ] {
            let proxy = NetworkProxy::parse(url).unwrap();
            assert_eq!(proxy.to_string(), shown);
            assert_eq!(format!("{proxy:?}"), shown);
            let found = proxy.basic_credentials().map(|it| it.to_str().unwrap());
            assert_eq!(found, basic, "{url}");
            assert_eq!(proxy.socks_credentials(), socks, "{url}");
        }
    }

    #[test]
    fn servers_of_this_machine_and_of_the_list_are_reached_directly() {
        let proxy = NetworkProxy::parse("http://proxy:3128").unwrap();
        let listed = proxy.clone().except(
            "a.example, *.b.example .c.example\t10.0.0.0/8,192.0.2.1,2001:db8::1,[2001:db8::2],d.example:8443,[2001:db8::3]:444",
        );
        let every = proxy.clone().except("*");
        for (url, without, with) in [
            ("https://api.example", true, true),
            ("https://a.example", true, false),
            ("https://A.Example:8443/v1", true, false),
            ("https://x.a.example", true, false),
            ("https://xa.example", true, true),
            ("https://x.b.example", true, false),
            ("https://x.c.example", true, false),
            ("https://d.example", true, true),
            ("https://d.example:8443", true, false),
            ("https://10.1.2.3", true, false),
            ("https://192.0.2.1", true, false),
            ("https://192.0.2.2", true, true),
            ("https://[2001:db8::1]", true, false),
            ("https://[2001:db8::2]", true, false),
            ("https://[2001:db8::3]", true, true),
            ("https://[2001:db8::3]:444", true, false),
            ("https://localhost:8443", false, false),
            ("https://LOCALHOST.", false, false),
            ("https://127.1.2.3", false, false),
            ("https://[::1]", false, false),
            ("https://[::ffff:127.0.0.1]", false, false),
            ("http://api.example", false, false),
        ] {
            let to: Uri = url.parse().unwrap();
            assert_eq!(proxy.carries(&to), without, "{url}");
            assert_eq!(listed.carries(&to), with, "{url}");
            assert!(!every.carries(&to), "{url}");
        }
    }
}
