//! Connections to servers, over TCP or TLS, in HTTP/1.1 or HTTP/2.

use std::sync::Arc;

use hyper::{Request, Response, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls_native_certs::load_native_certs;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::body::RequestBody;
use crate::config::{ProxyLimits, UpstreamUrl};
use crate::error::ProxyError;

type PooledClient = Client<HttpsConnector<HttpConnector>, RequestBody>;

/// The clients of all servers. Connections are kept open and used again.
pub(crate) struct UpstreamClients {
    /// Speaks HTTP/2 where TLS negotiates it.
    negotiating: PooledClient,
    /// Speaks only HTTP/2.
    http2: PooledClient,
}

impl UpstreamClients {
    /// Returns clients that trust the certificate authorities of this system.
    pub(crate) fn new(limits: &ProxyLimits) -> Result<UpstreamClients, ProxyError> {
        let mut roots = RootCertStore::empty();
        // An invalid certificate of the system does not affect the others. Without any, only `http` can be reached.
        roots.add_parsable_certificates(load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ProxyError::new(format!("TLS: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = |only_http2: bool| {
            let mut tcp = HttpConnector::new();
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_connect_timeout(Some(limits.connect_time));
            let connector = HttpsConnectorBuilder::new()
                .with_tls_config(tls.clone())
                .https_or_http()
                .enable_all_versions()
                .wrap_connector(tcp);
            Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .http1_max_buf_size(limits.head_bytes.max(8192))
                .http2_max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
                .http2_only(only_http2)
                .build(connector)
        };
        Ok(UpstreamClients {
            negotiating: client(false),
            http2: client(true),
        })
    }

    /// Sends the request and returns the head of the response. If the future is dropped, the request is cancelled.
    pub(crate) async fn send(
        &self,
        to: &UpstreamUrl,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Error> {
        let client = if to.is_http2 {
            &self.http2
        } else {
            &self.negotiating
        };
        client.request(request).await
    }
}
