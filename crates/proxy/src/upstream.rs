//! Connections to servers, over TCP or TLS, in HTTP/1.1 or HTTP/2.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::LengthLimitError;
use hyper::header::HeaderMap;
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioTimer;
use rustls_native_certs::load_native_certs;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

use crate::body::{BodyError, RequestBody};
use crate::config::{ProxyConfig, UpstreamUrl};
use crate::driver::{DriverExecutor, DriverLink, LinkingConnector, UpstreamBody};
use crate::error::ProxyError;
use crate::headers::{detached, remove_hop_by_hop};
use crate::network_proxy::NetworkProxy;
use crate::tunnel::{TunnelConnector, TunnelError};

type PooledClient<C> = Client<C, RequestBody>;
type TlsConnector = TimedConnector<HttpsConnector<TunnelConnector>>;

/// The clients of all servers. Connections are kept open and used again.
pub(crate) struct UpstreamClients {
    /// Speaks HTTP/2 where TLS negotiates it.
    negotiating: PooledClient<LinkingConnector<TlsConnector>>,
    /// Speaks only HTTP/2.
    http2: PooledClient<TlsConnector>,
    /// Speaks HTTP/1.1 without TLS: its connections have no room for the state of TLS.
    plain: PooledClient<LinkingConnector<TimedConnector<HttpConnector>>>,
    network_proxy: Option<Arc<NetworkProxy>>,
}

/// A connector that fails if the connection is not complete in a time. The connect timeout of hyper is that of TCP alone,
/// without the look-up of the name, the answer of the network's proxy and the handshake of TLS.
#[derive(Clone)]
struct TimedConnector<C> {
    connector: C,
    time: Duration,
}

impl<C> Service<Uri> for TimedConnector<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: Into<BodyError>,
{
    type Response = C::Response;
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BodyError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = timeout(self.time, self.connector.call(to));
        Box::pin(async move { connecting.await?.map_err(Into::into) })
    }
}

impl UpstreamClients {
    /// Returns clients that trust the certificate authorities of this system.
    pub(crate) fn new(config: &ProxyConfig) -> Result<UpstreamClients, ProxyError> {
        let limits = &config.limits;
        let mut roots = RootCertStore::empty();
        // An invalid certificate of the system does not affect the others. Without any, only `http` can be reached.
        roots.add_parsable_certificates(load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ProxyError::new(format!("TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limits.connect_time));
        // A connection that is kept open may be dead without a word, such as after this machine slept. A time for the
        // acknowledgement of data would also end connections to servers that are too busy to read a long body.
        tcp.set_keepalive(Some(limits.head_time));
        let network_proxy = config.network_proxy.clone().map(Arc::new);
        let outward = HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp.clone());
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(TunnelConnector {
                tcp: tcp.clone(),
                outward,
                network_proxy: network_proxy.clone(),
                head_bytes: limits.head_bytes.max(8192),
            });
        let time = limits.connect_time;
        let (tcp, https) = (
            TimedConnector {
                connector: tcp,
                time,
            },
            TimedConnector {
                connector: https,
                time,
            },
        );
        let mut builder = Client::builder(DriverExecutor);
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(limits.head_bytes.max(8192))
            .http2_keep_alive_interval(limits.head_time)
            .http2_keep_alive_timeout(limits.head_time)
            // Otherwise hyper may take a request for none, if another thread sends it, and send no PING.
            .http2_keep_alive_while_idle(true)
            .http2_max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
        Ok(UpstreamClients {
            plain: builder.build(LinkingConnector(tcp)),
            negotiating: builder.build(LinkingConnector(https.clone())),
            http2: builder.http2_only(true).build(https),
            network_proxy,
        })
    }

    /// Sends the request and returns the head of the response. If the future is dropped, the request is cancelled.
    pub(crate) async fn send(
        &self,
        to: &UpstreamUrl,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, Error> {
        let requested = match (to.is_http2, to.scheme == Scheme::HTTP) {
            (true, _) => self.http2.request(request),
            (false, true) => self.plain.request(request),
            (false, false) => self.negotiating.request(request),
        };
        let mut response = requested.await?;
        let link = response.extensions_mut().remove::<DriverLink>();
        Ok(response.map(|incoming| UpstreamBody::new(incoming, link)))
    }
}

/// The reason why a request whose body exceeds the limit is refused.
pub(crate) const BODY_TOO_LONG: &str = "the body of the request is too long";

/// Returns the first cause of an error that has that type.
fn cause<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    causes.find_map(|cause| cause.downcast_ref())
}

/// A request to a server, which can be sent more than once, with different bodies.
#[derive(Clone)]
pub(crate) struct UpstreamCall {
    pub(crate) clients: Arc<UpstreamClients>,
    pub(crate) to: UpstreamUrl,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// The longest time until the head of the response.
    pub(crate) idle_time: Duration,
}

impl UpstreamCall {
    /// Returns the call without a reference to the buffers of the client's connection.
    pub(crate) fn detached(mut self) -> UpstreamCall {
        self.headers = detached(&self.headers);
        self
    }

    /// Sends the request and returns the response, without the fields that concern one connection.
    ///
    /// # Errors
    /// If there is no response, or one that is not passed on: the reason.
    pub(crate) async fn send(
        &self,
        body: RequestBody,
    ) -> Result<Response<UpstreamBody>, Cow<'static, str>> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        *request.uri_mut() = self.uri.clone();
        let answered = timeout(self.idle_time, self.clients.send(&self.to, request)).await;
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => return Err(self.connect_problem(&error)),
            Ok(Err(error)) if cause::<LengthLimitError>(&error).is_some() => {
                return Err(BODY_TOO_LONG.into());
            }
            Ok(Err(_)) => return Err("the server did not answer".into()),
            Err(_) => return Err("the server did not answer in time".into()),
        };
        let status = response.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return Err("the server redirects, which is not followed".into());
        }
        remove_hop_by_hop(response.headers_mut());
        Ok(response)
    }

    /// Returns the reason why there is no connection to the server.
    fn connect_problem(&self, error: &Error) -> Cow<'static, str> {
        let network_proxy = self.clients.network_proxy.as_ref();
        match cause::<TunnelError>(error) {
            Some(error) => error.to_string().into(),
            // The time is over, or TLS with the server has failed.
            None if network_proxy.is_some_and(|it| it.carries(&self.uri)) => {
                "cannot connect to the server through the network's proxy".into()
            }
            None => "cannot connect to the server".into(),
        }
    }
}
