//! The address of a server.

use hyper::Uri;

use crate::http::{Connection, connect};
use ttsr::harness::Failure;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    host: String,
    port: u16,
    pub(super) authority: String,
    /// The prefix of all paths, without a trailing slash.
    pub(super) path: String,
}

impl ServerAddress {
    /// Parses `http://host:port`, with an optional path prefix.
    pub(super) fn parse(url: &str) -> Result<ServerAddress, Failure> {
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
        Ok(ServerAddress {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// Opens a connection to that server.
pub(super) async fn open(address: &ServerAddress) -> Result<Connection, Failure> {
    let stream = connect(&address.host, address.port, &address.authority).await?;
    Connection::handshake(Box::new(stream)).await
}
