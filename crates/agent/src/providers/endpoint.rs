//! An API at a base URL, with the settings of its requests.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::api::ProviderApi;
use super::base_url::BaseUrl;
use super::call::PendingReply;
use super::key::ApiKey;
use super::retry::Retries;
use super::signed_reasoning::SignedReasoning;
use super::transport::TrustedRoots;
use ttsr::harness::Request;
use ttsr::harness::{EventStream, Failure, Provider, unfold};

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The limit for a connection, TLS included. Default 10 s.
    pub connect: Duration,
    /// The limit for the head of a response, which some providers send only after thinking. Default 2 min.
    pub head: Duration,
    /// The limit for the next bytes after the head. Default 2 min.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            head: Duration::from_secs(120),
            idle: Duration::from_secs(120),
        }
    }
}

/// A retry or a fallback before a reply began.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderNotice {
    /// The request failed and is retried.
    Retrying {
        /// The failure.
        failure: Failure,
        /// The wait before the retry.
        wait: Duration,
        /// The number of retries, this one included.
        times: u32,
    },
    /// The request failed and is not retried, because the provider asks for a longer wait than the longest.
    NotRetried {
        /// The failure.
        failure: Failure,
        /// The wait that the provider asks for.
        asked: Duration,
        /// The longest wait: [`Retries::longest`].
        longest: Duration,
    },
    /// A [`Chain`](super::Chain) advances to the next model.
    FallingBack {
        /// The failure.
        failure: Failure,
        /// The model that failed.
        from: String,
        /// The model that is asked instead.
        to: String,
    },
}

pub(super) type NoticeCallback = Arc<dyn Fn(&ProviderNotice) + Send + Sync>;

/// A [`Provider`] that sends requests to an API over HTTP/1.1.
///
/// It opens one connection per request and closes it when the reply is over or its stream is dropped, so a verdict that
/// cuts stops the generation. The key appears in requests only: `Debug`, messages and events do not contain it, even if
/// the server repeats it. Over plain HTTP a key is sent to this machine only. Redirects are not followed and
/// compression is not requested. Requires a tokio runtime with I/O and time.
///
/// # Example: a local endpoint
/// ```
/// use ttsr_agent::providers::{ProviderApi, Endpoint};
/// let endpoint = Endpoint::at(ProviderApi::OpenAiChat, "http://127.0.0.1:8080/v1")?.key("k-12345678")?;
/// assert!(!format!("{endpoint:?}").contains("k-1234"));
/// assert!(Endpoint::at(ProviderApi::OpenAiChat, "http://models.example/v1")?.key("k-12345678").is_err());
/// # Ok::<(), ttsr_agent::providers::EndpointError>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    pub(super) api: ProviderApi,
    pub(super) address: BaseUrl,
    pub(super) key: Option<ApiKey>,
    pub(super) trust: Option<TrustedRoots>,
    pub(super) more: Map<String, Value>,
    pub(super) retries: Retries,
    pub(super) timeouts: Timeouts,
    pub(super) watch: Option<NoticeCallback>,
    pub(super) signed_reasoning: SignedReasoning,
}

impl Endpoint {
    /// Returns an endpoint at the base URL of the API's vendor.
    ///
    /// # Errors
    /// If the system has no certificate authority that TLS could trust.
    ///
    /// # Example: the vendor's endpoint
    /// ```no_run
    /// use ttsr_agent::providers::{ProviderApi, Endpoint};
    /// let api = ProviderApi::AnthropicMessages;
    /// let endpoint = Endpoint::new(api)?.key_from_env(api.key_variable())?;
    /// assert_eq!(endpoint.api(), api);
    /// # Ok::<(), ttsr_agent::providers::EndpointError>(())
    /// ```
    pub fn new(api: ProviderApi) -> Result<Endpoint, EndpointError> {
        Endpoint::at(api, api.base())
    }

    /// Returns an endpoint at a base URL: the part before `/chat/completions`, `/responses` or `/messages`, which
    /// usually ends in `/v1`.
    ///
    /// # Errors
    /// If it is not a URL of that form, or the system has no certificate authority that TLS could trust.
    pub fn at(api: ProviderApi, base: &str) -> Result<Endpoint, EndpointError> {
        let address = BaseUrl::parse(base).map_err(|problem| {
            EndpointError::new(
                EndpointErrorKind::Address,
                format!("base address `{base}`: {problem}"),
            )
        })?;
        let endpoint = Endpoint {
            api,
            address,
            key: None,
            trust: None,
            more: Map::new(),
            retries: Retries::default(),
            timeouts: Timeouts::default(),
            watch: None,
            signed_reasoning: SignedReasoning::default(),
        };
        match endpoint.address.is_https {
            true => endpoint.trust(&[]),
            false => Ok(endpoint),
        }
    }

    /// Sets the API key.
    ///
    /// # Errors
    /// If it is not a valid header value, or would be sent unencrypted to another machine.
    pub fn key(mut self, key: &str) -> Result<Endpoint, EndpointError> {
        let kind = EndpointErrorKind::Key;
        let key = ApiKey::new(key).filter(|key| !key.is_empty());
        let key = key
            .ok_or_else(|| EndpointError::new(kind, "the key is empty or no text for a header"))?;
        if self.address.is_unencrypted() {
            let host = &self.address.host;
            let message = format!("the key would be sent to {host} in the clear: use https");
            return Err(EndpointError::new(kind, message));
        }
        self.key = Some(key);
        Ok(self)
    }

    /// Sets the API key from an environment variable; see [`ProviderApi::key_variable`].
    ///
    /// # Errors
    /// If the variable is not set, and as [`key`](Self::key).
    ///
    /// # Example: a variable that is not set
    /// ```
    /// use ttsr_agent::providers::{ProviderApi, Endpoint, EndpointErrorKind};
    /// let endpoint = Endpoint::at(ProviderApi::OpenAiChat, "http://127.0.0.1:8080/v1")?;
    /// let error = endpoint.key_from_env("NO_SUCH_VARIABLE_HERE").unwrap_err();
    /// assert_eq!(error.kind(), EndpointErrorKind::Key);
    /// # Ok::<(), ttsr_agent::providers::EndpointError>(())
    /// ```
    pub fn key_from_env(self, variable: &str) -> Result<Endpoint, EndpointError> {
        let key = std::env::var(variable).map_err(|_| {
            let message = format!("the environment variable {variable} holds no key");
            EndpointError::new(EndpointErrorKind::Key, message)
        })?;
        self.key(&key)
    }

    /// Trusts these certificates (PEM) in addition to the system's authorities, for gateways with private certificates.
    /// No effect over plain HTTP.
    ///
    /// # Errors
    /// If a certificate cannot be parsed, or no authority is trusted at all.
    ///
    /// # Example: an invalid certificate
    /// ```
    /// use ttsr_agent::providers::{ProviderApi, Endpoint, EndpointErrorKind};
    /// let endpoint = Endpoint::at(ProviderApi::OpenAiChat, "http://127.0.0.1:8080/v1")?;
    /// let pem = b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n".to_vec();
    /// assert_eq!(endpoint.trust(&[pem]).unwrap_err().kind(), EndpointErrorKind::TrustedRoots);
    /// # Ok::<(), ttsr_agent::providers::EndpointError>(())
    /// ```
    pub fn trust(mut self, pems: &[Vec<u8>]) -> Result<Endpoint, EndpointError> {
        let trust = TrustedRoots::new(pems);
        let trust = trust.map_err(|problem| {
            EndpointError::new(
                EndpointErrorKind::TrustedRoots,
                format!("certificates: {problem}"),
            )
        })?;
        self.trust = Some(trust).filter(|_| self.address.is_https);
        Ok(self)
    }

    /// Adds or replaces a member of every request body, for options that the loop does not know, such as `thinking` or
    /// `reasoning_effort`.
    ///
    /// # Example: a server that does not run
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::{ProviderApi, Endpoint, Timeouts, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let timeouts = Timeouts { connect: Duration::from_secs(5), ..Timeouts::default() };
    /// let mut endpoint = Endpoint::at(ProviderApi::OpenAiChat, &format!("http://{free}/v1"))?
    ///     .member("reasoning_effort", "low".into())
    ///     .timeouts(timeouts)
    ///     .retries(Retries::none());
    /// let mut events = endpoint.send(&Request::new("a-model", Vec::new()));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let first = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx)));
    /// assert!(matches!(first, Some(Err(failure)) if failure.kind() == "connect"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn member(mut self, name: impl Into<String>, value: Value) -> Endpoint {
        self.more.insert(name.into(), value);
        self
    }

    /// Sets the number of retries and their waits.
    ///
    /// # Example: a server that is busy once
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr::Event;
    /// use ttsr_agent::providers::{ProviderApi, Endpoint, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// # use std::io::{BufRead, BufReader, Read, Write};
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let base = format!("http://{}/v1", listener.local_addr()?);
    /// # std::thread::spawn(move || {
    /// #     let reply = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    /// #     for (status, body) in [("503 Service Unavailable", ""), ("200 OK", reply)] {
    /// #         let (stream, _) = listener.accept().unwrap();
    /// #         let mut request = BufReader::new(&stream);
    /// #         let (mut line, mut length) = (String::new(), 0);
    /// #         while request.read_line(&mut line).unwrap() > 2 {
    /// #             if let Some(bytes) = line.strip_prefix("content-length: ") {
    /// #                 length = bytes.trim().parse().unwrap();
    /// #             }
    /// #             line.clear();
    /// #         }
    /// #         request.read_exact(&mut vec![0; length]).unwrap();
    /// #         let kind = "content-type: text/event-stream\r\nconnection: close";
    /// #         write!(&stream, "HTTP/1.1 {status}\r\n{kind}\r\n\r\n{body}").unwrap();
    /// #     }
    /// # });
    /// // The server at `base` responds with 503, and answers the next request.
    /// let retries = Retries { first: Duration::from_millis(1), ..Retries::default() };
    /// let mut endpoint = Endpoint::at(ProviderApi::OpenAiChat, &base)?.retries(retries);
    /// let mut events = endpoint.send(&Request::new("a-model", Vec::new()));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let mut text = Vec::new();
    /// while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
    ///     if let Event::Delta { bytes, .. } = event? {
    ///         text.extend(bytes);
    ///     }
    /// }
    /// assert_eq!(text, b"Hi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn retries(self, retries: Retries) -> Endpoint {
        Endpoint { retries, ..self }
    }

    /// Sets the time limits.
    ///
    /// # Example: a server that does not respond
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::{ProviderApi, Endpoint, Timeouts, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let timeouts = Timeouts { head: Duration::from_millis(20), ..Timeouts::default() };
    /// let mut endpoint = Endpoint::at(ProviderApi::OpenAiChat, &format!("http://{}/v1", silent.local_addr()?))?
    ///     .timeouts(timeouts)
    ///     .retries(Retries::none());
    /// let mut events = endpoint.send(&Request::new("a-model", Vec::new()));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let first = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx)));
    /// assert!(matches!(first, Some(Err(failure)) if failure.kind() == "timeout"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> Endpoint {
        Endpoint { timeouts, ..self }
    }

    /// Calls `watch` when a request is retried.
    ///
    /// # Example: the number of retries
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::{ProviderApi, Endpoint, ProviderNotice, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let tried = Arc::new(AtomicU32::new(0));
    /// let seen = Arc::clone(&tried);
    /// let retries = Retries { most: 2, first: Duration::from_millis(1), ..Retries::default() };
    /// let mut endpoint = Endpoint::at(ProviderApi::OpenAiChat, &format!("http://{free}/v1"))?
    ///     .retries(retries)
    ///     .watch(move |notice| {
    ///         if let ProviderNotice::Retrying { times, .. } = notice {
    ///             seen.store(*times, Ordering::Relaxed);
    ///         }
    ///     });
    /// let mut events = endpoint.send(&Request::new("a-model", Vec::new()));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let first = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx)));
    /// assert!(matches!(first, Some(Err(_))));
    /// assert_eq!(tried.load(Ordering::Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(&ProviderNotice) + Send + Sync + 'static) -> Endpoint {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Returns the API.
    #[must_use]
    pub fn api(&self) -> ProviderApi {
        self.api
    }
}

impl Provider for Endpoint {
    fn send(&mut self, request: &Request) -> EventStream {
        unfold(PendingReply::new(self, request), PendingReply::next)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("api", &self.api)
            .field("address", &self.address)
            .field("key", &self.key)
            .field("retries", &self.retries)
            .field("patience", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// The reason why an endpoint cannot be built.
///
/// # Example: invalid endpoints
/// ```
/// use ttsr_agent::providers::{ProviderApi, Endpoint, EndpointErrorKind};
/// let error = Endpoint::at(ProviderApi::OpenAiChat, "models.example/v1").unwrap_err();
/// assert_eq!(error.kind(), EndpointErrorKind::Address);
/// assert!(error.to_string().starts_with("base address `models.example/v1`: "), "{error}");
/// let local = Endpoint::at(ProviderApi::OpenAiChat, "http://127.0.0.1:8080/v1")?;
/// assert_eq!(local.key("two\nlines").unwrap_err().kind(), EndpointErrorKind::Key);
/// # Ok::<(), ttsr_agent::providers::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError {
    kind: EndpointErrorKind,
    message: String,
}

/// The invalid setting of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndpointErrorKind {
    /// The base URL.
    Address,
    /// The key.
    Key,
    /// The certificates.
    TrustedRoots,
}

impl EndpointError {
    fn new(kind: EndpointErrorKind, message: impl Into<String>) -> EndpointError {
        EndpointError {
            kind,
            message: message.into(),
        }
    }

    /// Returns the invalid setting.
    #[must_use]
    pub fn kind(&self) -> EndpointErrorKind {
        self.kind
    }
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for EndpointError {}
