//! The configuration of a proxy, checked before the socket opens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};

use ttsr::Mode;

use crate::error::ProxyError;
use crate::event_log::EventLog;
use crate::listener_tls::ListenerTls;
use crate::network_proxy::NetworkProxy;
use crate::sessions::{MemoryStore, SessionStore};
use crate::token::ProxyToken;
use crate::url_path::has_dot_segment;

/// The configuration of a proxy. The default sends `/anthropic` to `https://api.anthropic.com`, `/openai` to
/// `https://api.openai.com`, `/gemini` to `https://generativelanguage.googleapis.com`, `/code-assist` to
/// `https://cloudcode-pa.googleapis.com` and `/ollama` to `http://127.0.0.1:11434`.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// The servers by prefix of the path. The longest prefix that matches a path applies.
    pub mounts: Vec<Mount>,
    /// The server for paths that no mount matches. Without one, the paths of the known APIs go to the mounts
    /// `/anthropic`, `/openai`, `/gemini`, `/code-assist` and `/ollama`, and other paths are answered with status 404.
    pub fallback: Option<UpstreamUrl>,
    /// Values of the `Host` header that are accepted in addition to `localhost` and the loopback addresses, without a port.
    pub hosts: Vec<String>,
    /// The end of a reply that a rule stops.
    pub ending: BlockEnding,
    /// [`Mode::Shadow`] judges replies and changes none. Live rules act in [`Mode::Live`], the default.
    pub mode: Mode,
    /// Passes requests and replies that cannot be read, requests to APIs whose replies cannot be judged, such as Anthropic's
    /// `complete`, requests to other paths that have the form of a request to a model, and requests whose session cannot
    /// be loaded or written, which are judged without it. By default all are refused.
    pub fail_open: bool,
    /// The token that each request must have, except those to `/healthz`. Without one, other addresses than loopback are
    /// listened on only if `tls` demands certificates of clients.
    pub token: Option<ProxyToken>,
    /// TLS of the listening socket. Without it, connections are not encrypted.
    pub tls: Option<ListenerTls>,
    /// The proxy through which the network lets connections to servers out. By default there is none: variables of the
    /// environment, such as `HTTPS_PROXY`, are not read here.
    pub network_proxy: Option<NetworkProxy>,
    /// The log of events.
    pub log: Option<EventLog>,
    /// The store of sessions. By default, the 4,096 sessions that were used last are kept in memory, each for a day after
    /// its last use.
    pub sessions: Arc<dyn SessionStore>,
    /// The times at which the worker threads of the runtime look for events without sleeping: by default, none.
    pub busy_poll: BusyPoll,
    /// The bounds.
    pub limits: ProxyLimits,
}

/// The end of a reply that a rule stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockEnding {
    /// The reason as text of the reply, and a normal end: the user sees the reason, and no client retries.
    #[default]
    Soft,
    /// The reason as text, and an end that clients report as a failure, for runs without a user.
    Hard,
}

/// The times at which worker threads look for events without sleeping. Each takes a core meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// Never: a thread is woken for each event.
    #[default]
    Never,
    /// While 2,500 frames of responses a second or more arrive for each thread, such as those of 50 streams: the thread
    /// would sleep for a time that is not much longer than that of waking it. A thread whose core other programs need sleeps
    /// between events.
    UnderLoad,
    /// While requests are in progress.
    Always,
}

impl Default for ProxyConfig {
    fn default() -> ProxyConfig {
        let at = |scheme: Scheme, host: &'static str| UpstreamUrl {
            scheme,
            authority: Authority::from_static(host),
            path: String::new(),
            is_http2: false,
        };
        ProxyConfig {
            mounts: vec![
                Mount::new("/anthropic", at(Scheme::HTTPS, "api.anthropic.com")),
                Mount::new("/openai", at(Scheme::HTTPS, "api.openai.com")),
                Mount::new(
                    "/gemini",
                    at(Scheme::HTTPS, "generativelanguage.googleapis.com"),
                ),
                Mount::new(
                    "/code-assist",
                    at(Scheme::HTTPS, "cloudcode-pa.googleapis.com"),
                ),
                Mount::new("/ollama", at(Scheme::HTTP, "127.0.0.1:11434")),
            ],
            fallback: None,
            hosts: Vec::new(),
            ending: BlockEnding::default(),
            mode: Mode::Live,
            fail_open: false,
            token: None,
            tls: None,
            network_proxy: None,
            log: None,
            sessions: Arc::new(MemoryStore::new(4096, Duration::from_secs(24 * 60 * 60))),
            busy_poll: BusyPoll::default(),
            limits: ProxyLimits::default(),
        }
    }
}

/// A server that answers all paths below a prefix. The prefix is removed before a request is sent to it.
#[derive(Clone, Debug)]
pub struct Mount {
    pub(crate) prefix: String,
    pub(crate) upstream: UpstreamUrl,
}

impl Mount {
    /// Returns the mount of `upstream` at `prefix`, such as `/anthropic`. Slashes at the end of the prefix are ignored.
    #[must_use]
    pub fn new(prefix: &str, upstream: UpstreamUrl) -> Mount {
        let name = prefix.trim_matches('/');
        Mount {
            prefix: format!("/{name}"),
            upstream,
        }
    }

    /// Returns the prefix, with a slash at its start and none at its end.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// The address of a server: a URL with the scheme `http` or `https`, without a query and without credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// The prefix of the path of each request, without a slash at its end.
    path: String,
    /// True if HTTP/2 is spoken without being negotiated.
    pub(crate) is_http2: bool,
}

impl UpstreamUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// If it is not a URL, has another scheme, or has credentials, a query, or `.` or `..` as a segment of its path.
    ///
    /// # Example: a base path
    /// ```
    /// use ttsr_proxy::UpstreamUrl;
    /// let url = UpstreamUrl::parse("https://openrouter.ai/api/")?;
    /// assert_eq!(url.to_string(), "https://openrouter.ai/api");
    /// assert!(UpstreamUrl::parse("https://user:password@localhost").is_err());
    /// assert!(UpstreamUrl::parse("ftp://localhost").is_err());
    /// # Ok::<(), ttsr_proxy::ProxyError>(())
    /// ```
    pub fn parse(url: &str) -> Result<UpstreamUrl, ProxyError> {
        // The URL itself is not repeated: it may have a password.
        let invalid = |reason: &str| ProxyError::new(format!("the URL of an upstream {reason}"));
        let parsed: Uri = url.parse().map_err(|_| invalid("cannot be parsed"))?;
        let parts = parsed.into_parts();
        let scheme = parts
            .scheme
            .filter(|it| *it == Scheme::HTTP || *it == Scheme::HTTPS);
        let scheme = scheme.ok_or_else(|| invalid("must begin with http:// or https://"))?;
        let authority = parts.authority.ok_or_else(|| invalid("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("has credentials: keys are sent by the client"));
        }
        let path = parts
            .path_and_query
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        if path.query().is_some() {
            return Err(invalid("has a query"));
        }
        if has_dot_segment(path.path()) {
            return Err(invalid("has the segment `.` or `..`"));
        }
        Ok(UpstreamUrl {
            scheme,
            authority,
            path: path.path().trim_end_matches('/').to_owned(),
            is_http2: false,
        })
    }

    /// Speaks HTTP/2 to the server without negotiation. By default HTTP/2 is used if a server with TLS offers it, and
    /// HTTP/1.1 otherwise.
    #[must_use]
    pub fn http2_only(mut self) -> UpstreamUrl {
        self.is_http2 = true;
        self
    }

    /// Returns the URL of `rest`, the path of a request below the mount, with its query.
    pub(crate) fn join(&self, rest: &str) -> Result<Uri, hyper::http::Error> {
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(self.joined(rest))
            .build()
    }

    /// Returns the path of that URL.
    pub(crate) fn joined(&self, rest: &str) -> String {
        format!("{}{rest}", self.path)
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

impl fmt::Debug for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The bounds of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// The longest head of a request or response, in bytes. At least 8192.
    pub head_bytes: usize,
    /// The longest body of a request, in bytes. A longer one is answered with status 413, or, if its length was not
    /// announced, cut off.
    pub request_bytes: u64,
    /// The longest body of a reply that is judged and not streamed, in bytes.
    pub reply_bytes: u64,
    /// The most bytes of a streamed reply that are held back, and the most bytes of the items of Responses that were sent,
    /// which its end repeats. A reply for which this is not enough is stopped.
    pub held_bytes: usize,
    /// The most bytes of bodies that are in memory at the same time: of requests that rules read, until their reply has
    /// ended, of judged replies that are not streamed, and of what each judged stream keeps, rounded down to a multiple of
    /// 16 KiB. A request or a reply for which there is no room is answered with status 503, and a stream is stopped. A
    /// body with more bytes than this alone is too long. The work on a body takes further memory, several times its size.
    pub buffered_bytes: usize,
    /// The most requests that are answered at the same time. Further ones are answered with status 503.
    pub requests: usize,
    /// The longest time in which a client sends the head of a request. After such a time of silence, a connection in HTTP/2
    /// of a client, or one to a server with a request in progress, is sent a PING, which must be answered in this time, too.
    pub head_time: Duration,
    /// The longest time to connect to a server.
    pub connect_time: Duration,
    /// The longest time in which a server sends no byte, before its response or in the middle of it.
    pub idle_time: Duration,
    /// The time after which a client whose reply is held back is sent a keep-alive event, which it ignores.
    pub keep_alive_time: Duration,
    /// The time after which a reply is stopped if its events are held back and none is sent. It is below the 300
    /// seconds after which clients give up.
    pub hold_time: Duration,
    /// The longest time in which requests are completed after the end of `stop` in [`Proxy::serve`](crate::Proxy::serve).
    pub drain_time: Duration,
}

impl Default for ProxyLimits {
    fn default() -> ProxyLimits {
        ProxyLimits {
            head_bytes: 64 << 10,
            request_bytes: 64 << 20,
            reply_bytes: 64 << 20,
            held_bytes: 16 << 20,
            buffered_bytes: 1 << 30,
            requests: 4096,
            head_time: Duration::from_secs(30),
            connect_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(600),
            keep_alive_time: Duration::from_secs(15),
            hold_time: Duration::from_secs(240),
            drain_time: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_server_address_is_refused_without_repeating_it() {
        for (url, reason) in [
            ("http://owl:tawny@localhost", "has credentials"),
            ("http://localhost/?key=tawny", "has a query"),
            ("http://localhost/tawny/../x", "has the segment `.` or `..`"),
            ("gopher://tawny", "must begin with http"),
            ("http://tawny:port:1", "cannot be parsed"),
            ("/tawny", "must begin with http"),
        ] {
            let error = UpstreamUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("tawny"), "{error}");
        }
    }

    #[test]
    fn a_mount_has_one_slash_at_its_start() {
        let url = UpstreamUrl::parse("https://localhost/base/").unwrap();
        for prefix in ["local", "/local", "/local/"] {
            let mount = Mount::new(prefix, url.clone());
            assert_eq!(mount.prefix(), "/local");
            let shown = format!("{mount:?}");
            assert!(
                shown.contains("upstream: https://localhost/base"),
                "{shown}"
            );
        }
    }
}
