//! Where a server is.

use hyper::Uri;

use crate::http::{Connection, reach};
use ttsr::harness::Failure;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
    pub(super) authority: String,
    /// What its paths begin with, without a slash at the end.
    pub(super) path: String,
}

impl Address {
    /// Reads `http://host:port`, with a path if the server is behind one.
    pub(super) fn parse(url: &str) -> Result<Address, Failure> {
        let bad = |why: &str| Failure::new("url", format!("`{url}`: {why}"));
        let uri: Uri = url.trim().parse().map_err(|_| bad("not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(bad("no TLS here: forward a port, or put a proxy before it"));
            }
            _ => return Err(bad("it must begin with `http://`")),
        }
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(bad("nothing but host, port and path belongs there"));
        }
        Ok(Address {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// An open connection to that server.
pub(super) async fn open(address: &Address) -> Result<Connection, Failure> {
    let stream = reach(&address.host, address.port, &address.authority).await?;
    Connection::over(Box::new(stream)).await
}
