//! An API at an address, with whatever a request needs besides the conversation.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::address::Address;
use super::api::Api;
use super::call::Pending;
use super::key::Key;
use super::retry::Retries;
use super::sealed::Sealed;
use super::transport::Trust;
use ttsr::harness::Request;
use ttsr::harness::{EventStream, Failure, Provider, unfold};

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, TLS included. Default 10 s.
    pub connect: Duration,
    /// For the head of an answer: some providers think before they write one. Default 2 min.
    pub head: Duration,
    /// For more bytes, once there was a head. Default 2 min.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connect: Duration::from_secs(10),
            head: Duration::from_secs(120),
            idle: Duration::from_secs(120),
        }
    }
}

/// Something that happened before a reply began, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The request failed and is sent again.
    Retrying {
        /// Why.
        failure: Failure,
        /// How long is waited first.
        wait: Duration,
        /// How often it was sent again, this time included.
        times: u32,
    },
    /// The request failed and is not sent again, because the provider asks to be left alone for too long.
    NotRetried {
        /// Why the request failed.
        failure: Failure,
        /// How long the provider asks to be left alone.
        asked: Duration,
        /// The longest wait: [`Retries::longest`].
        longest: Duration,
    },
    /// A [`Chain`](super::Chain) goes on to the next model.
    FallingBack {
        /// Why.
        failure: Failure,
        /// The model that could not answer.
        from: String,
        /// The model that is asked instead.
        to: String,
    },
}

pub(super) type Watch = Arc<dyn Fn(&Notice) + Send + Sync>;

/// A [`Provider`] that speaks an API over HTTP/1.1.
///
/// It makes one connection a request and closes it when the reply is over or its stream is dropped, so a
/// verdict that cuts ends the generation. The key is in requests only: neither `Debug`, nor any message or event
/// has it, also where a server repeats it. Over plain HTTP a key is sent to this machine only. Redirects
/// are not followed and compression is not asked for. It needs a tokio runtime with I/O and time.
///
/// # Example: an endpoint of one's own
/// ```
/// use ttsr_agent::providers::{Api, Endpoint};
/// let endpoint = Endpoint::at(Api::OpenAiChat, "http://127.0.0.1:8080/v1")?.key("k-12345678")?;
/// assert!(!format!("{endpoint:?}").contains("k-1234"));
/// assert!(Endpoint::at(Api::OpenAiChat, "http://models.example/v1")?.key("k-12345678").is_err());
/// # Ok::<(), ttsr_agent::providers::EndpointError>(())
/// ```
#[derive(Clone)]
pub struct Endpoint {
    pub(super) api: Api,
    pub(super) address: Address,
    pub(super) key: Option<Key>,
    pub(super) trust: Option<Trust>,
    pub(super) more: Map<String, Value>,
    pub(super) retries: Retries,
    pub(super) patience: Patience,
    pub(super) watch: Option<Watch>,
    pub(super) sealed: Sealed,
}

impl Endpoint {
    /// The API where the company behind it offers it.
    ///
    /// # Errors
    /// If no authority is found that TLS could trust.
    ///
    /// # Example: where a company offers it
    /// ```no_run
    /// use ttsr_agent::providers::{Api, Endpoint};
    /// let api = Api::AnthropicMessages;
    /// let endpoint = Endpoint::new(api)?.key_from_env(api.key_variable())?;
    /// assert_eq!(endpoint.api(), api);
    /// # Ok::<(), ttsr_agent::providers::EndpointError>(())
    /// ```
    pub fn new(api: Api) -> Result<Endpoint, EndpointError> {
        Endpoint::at(api, api.base())
    }

    /// The API at that base address: what stands before `/chat/completions`, `/responses` or
    /// `/messages`, mostly ending in `/v1`.
    ///
    /// # Errors
    /// If it is no address of that form, or no authority is found that TLS could trust.
    pub fn at(api: Api, base: &str) -> Result<Endpoint, EndpointError> {
        let address = Address::parse(base).map_err(|problem| {
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
            patience: Patience::default(),
            watch: None,
            sealed: Sealed::default(),
        };
        match endpoint.address.is_https {
            true => endpoint.trust(&[]),
            false => Ok(endpoint),
        }
    }

    /// The key to send.
    ///
    /// # Errors
    /// If it cannot stand in a header, or would be sent in the clear to another machine.
    pub fn key(mut self, key: &str) -> Result<Endpoint, EndpointError> {
        let kind = EndpointErrorKind::Key;
        let key = Key::new(key).filter(|key| !key.is_empty());
        let key = key
            .ok_or_else(|| EndpointError::new(kind, "the key is empty or no text for a header"))?;
        if self.address.is_overheard() {
            let host = &self.address.host;
            let message = format!("the key would be sent to {host} in the clear: use https");
            return Err(EndpointError::new(kind, message));
        }
        self.key = Some(key);
        Ok(self)
    }

    /// The key from that variable of the environment; see [`Api::key_variable`].
    ///
    /// # Errors
    /// If it is not set, and as [`key`](Self::key).
    ///
    /// # Example: a variable that is not set
    /// ```
    /// use ttsr_agent::providers::{Api, Endpoint, EndpointErrorKind};
    /// let endpoint = Endpoint::at(Api::OpenAiChat, "http://127.0.0.1:8080/v1")?;
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

    /// Trusts these certificates (PEM) besides the authorities of this system, for gateways with
    /// certificates of their own. Without effect over plain HTTP.
    ///
    /// # Errors
    /// If they cannot be read, or there is nobody to trust at all.
    ///
    /// # Example: what is no certificate
    /// ```
    /// use ttsr_agent::providers::{Api, Endpoint, EndpointErrorKind};
    /// let endpoint = Endpoint::at(Api::OpenAiChat, "http://127.0.0.1:8080/v1")?;
    /// let pem = b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n".to_vec();
    /// assert_eq!(endpoint.trust(&[pem]).unwrap_err().kind(), EndpointErrorKind::Trust);
    /// # Ok::<(), ttsr_agent::providers::EndpointError>(())
    /// ```
    pub fn trust(mut self, pems: &[Vec<u8>]) -> Result<Endpoint, EndpointError> {
        let trust = Trust::new(pems);
        let trust = trust.map_err(|problem| {
            EndpointError::new(EndpointErrorKind::Trust, format!("certificates: {problem}"))
        })?;
        self.trust = Some(trust).filter(|_| self.address.is_https);
        Ok(self)
    }

    /// Adds a member to the body of every request, or replaces it: what an API has and the loop does not
    /// know, such as `thinking` or `reasoning_effort`.
    ///
    /// # Example: a server that is not there
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::{Api, Endpoint, Patience, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let patience = Patience { connect: Duration::from_secs(5), ..Patience::default() };
    /// let mut endpoint = Endpoint::at(Api::OpenAiChat, &format!("http://{free}/v1"))?
    ///     .member("reasoning_effort", "low".into())
    ///     .patience(patience)
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

    /// How often and how patiently a request is sent again.
    ///
    /// # Example: a server that is busy once
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr::Event;
    /// use ttsr_agent::providers::{Api, Endpoint, Retries};
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
    /// // At `base` a server says 503, and answers the next request.
    /// let retries = Retries { first: Duration::from_millis(1), ..Retries::default() };
    /// let mut endpoint = Endpoint::at(Api::OpenAiChat, &base)?.retries(retries);
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

    /// How long to wait for what.
    ///
    /// # Example: a server that says nothing
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::{Api, Endpoint, Patience, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let patience = Patience { head: Duration::from_millis(20), ..Patience::default() };
    /// let mut endpoint = Endpoint::at(Api::OpenAiChat, &format!("http://{}/v1", silent.local_addr()?))?
    ///     .patience(patience)
    ///     .retries(Retries::none());
    /// let mut events = endpoint.send(&Request::new("a-model", Vec::new()));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let first = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx)));
    /// assert!(matches!(first, Some(Err(failure)) if failure.kind() == "timeout"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn patience(self, patience: Patience) -> Endpoint {
        Endpoint { patience, ..self }
    }

    /// Tells `watch` when a request is sent again.
    ///
    /// # Example: how often it was tried
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::{Api, Endpoint, Notice, Retries};
    /// use ttsr::harness::{Provider, Request};
    /// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let tried = Arc::new(AtomicU32::new(0));
    /// let seen = Arc::clone(&tried);
    /// let retries = Retries { most: 2, first: Duration::from_millis(1), ..Retries::default() };
    /// let mut endpoint = Endpoint::at(Api::OpenAiChat, &format!("http://{free}/v1"))?
    ///     .retries(retries)
    ///     .watch(move |notice| {
    ///         if let Notice::Retrying { times, .. } = notice {
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
    pub fn watch(mut self, watch: impl Fn(&Notice) + Send + Sync + 'static) -> Endpoint {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// The API it speaks.
    #[must_use]
    pub fn api(&self) -> Api {
        self.api
    }
}

impl Provider for Endpoint {
    fn send(&mut self, request: &Request) -> EventStream {
        unfold(Pending::new(self, request), Pending::next)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("api", &self.api)
            .field("address", &self.address)
            .field("key", &self.key)
            .field("retries", &self.retries)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Why an endpoint cannot be made.
///
/// # Example: what cannot be an endpoint
/// ```
/// use ttsr_agent::providers::{Api, Endpoint, EndpointErrorKind};
/// let error = Endpoint::at(Api::OpenAiChat, "models.example/v1").unwrap_err();
/// assert_eq!(error.kind(), EndpointErrorKind::Address);
/// assert!(error.to_string().starts_with("base address `models.example/v1`: "), "{error}");
/// let local = Endpoint::at(Api::OpenAiChat, "http://127.0.0.1:8080/v1")?;
/// assert_eq!(local.key("two\nlines").unwrap_err().kind(), EndpointErrorKind::Key);
/// # Ok::<(), ttsr_agent::providers::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError {
    kind: EndpointErrorKind,
    message: String,
}

/// What is wrong with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndpointErrorKind {
    /// The base address.
    Address,
    /// The key.
    Key,
    /// The certificates.
    Trust,
}

impl EndpointError {
    fn new(kind: EndpointErrorKind, message: impl Into<String>) -> EndpointError {
        EndpointError {
            kind,
            message: message.into(),
        }
    }

    /// What is wrong.
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
