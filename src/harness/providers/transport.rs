//! One connection: made for one request, closed when it is dropped.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls_native_certs::load_native_certs;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::super::provider::Failure;
use super::address::Address;

/// Whom TLS trusts.
#[derive(Clone, Debug)]
pub(super) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// The authorities of this system and the certificates of `pems` besides.
    pub(super) fn new(pems: &[Vec<u8>]) -> Result<Trust, String> {
        let mut roots = RootCertStore::empty();
        let found = load_native_certs();
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        // One odd certificate among those of the system is no reason to trust none of them.
        roots.add_parsable_certificates(found.certs);
        for pem in pems {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| error.to_string())?;
                roots.add(certificate).map_err(|error| error.to_string())?;
            }
        }
        if roots.is_empty() {
            return Err(format!(
                "no certificate of an authority was found here {}",
                errors.join("; ")
            ));
        }
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust(Arc::new(config)))
    }
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

type Wire = http1::Connection<TokioIo<Box<dyn Socket>>, String>;

/// An open connection. It moves bytes only while it is asked for some.
pub(super) struct Connection {
    sender: http1::SendRequest<String>,
    wire: Pin<Box<Wire>>,
    is_over: bool,
}

impl Connection {
    /// Connects; `trust` is there for `https`.
    pub(super) async fn open(
        address: &Address,
        trust: Option<&Trust>,
    ) -> Result<Connection, Failure> {
        let host = address.host.as_str();
        let stream = TcpStream::connect((host, address.port)).await;
        let stream = stream.map_err(|error| {
            Failure::new(
                "connect",
                format!("cannot reach {}: {error}", address.authority),
            )
        })?;
        // Requests are written whole; replies are read as they come.
        stream.set_nodelay(true).ok();
        let socket: Box<dyn Socket> = match trust {
            Some(trust) => Box::new(secure(stream, host, trust).await?),
            None => Box::new(stream),
        };
        let opened = http1::handshake(TokioIo::new(socket)).await;
        let (sender, wire) = opened.map_err(|error| failure(&error))?;
        Ok(Connection {
            sender,
            wire: Box::pin(wire),
            is_over: false,
        })
    }

    /// Sends the request and waits for the head of its answer.
    pub(super) async fn ask(
        &mut self,
        request: Request<String>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut answering = Box::pin(self.sender.send_request(request));
        let (wire, is_over) = (&mut self.wire, &mut self.is_over);
        let answered = poll_fn(|cx| {
            drive(wire, is_over, cx);
            answering.as_mut().poll(cx)
        });
        answered.await.map_err(|error| failure(&error))
    }

    /// The next bytes of the body; none at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
        poll_fn(|cx| {
            loop {
                drive(&mut self.wire, &mut self.is_over, cx);
                return match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(None) => Poll::Ready(Ok(None)),
                    Poll::Ready(Some(Err(error))) => {
                        Poll::Ready(Err(Failure::new("cut-off", reason(&error))))
                    }
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(bytes) if !bytes.is_empty() => Poll::Ready(Ok(Some(bytes))),
                        // Trailers say nothing of the reply.
                        _ => continue,
                    },
                };
            }
        })
        .await
    }
}

/// Moves what can be moved. An error of the connection comes out where its answer or body is read.
fn drive(wire: &mut Pin<Box<Wire>>, is_over: &mut bool, cx: &mut Context<'_>) {
    if !*is_over {
        *is_over = wire.as_mut().poll(cx).is_ready();
    }
}

async fn secure(
    stream: TcpStream,
    host: &str,
    trust: &Trust,
) -> Result<impl Socket + use<>, Failure> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| Failure::new("tls", format!("{host}: {error}")))?;
    let connector = TlsConnector::from(Arc::clone(&trust.0));
    let secured = connector.connect(name, stream).await;
    secured.map_err(|error| Failure::new("tls", format!("{host}: {error}")))
}

fn failure(error: &hyper::Error) -> Failure {
    let kind = if error.is_parse() {
        "protocol"
    } else {
        "closed"
    };
    Failure::new(kind, reason(error))
}

/// The error and what is behind it.
fn reason(error: &hyper::Error) -> String {
    let behind = std::error::Error::source(error);
    match behind.and_then(|behind| behind.downcast_ref::<io::Error>()) {
        Some(behind) => format!("{error}: {behind}"),
        None => error.to_string(),
    }
}
