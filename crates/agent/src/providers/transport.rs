//! Connections to providers, over TCP or TLS.

use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::super::http::{Connection, Socket, connect};
use super::base_url::BaseUrl;
use ttsr::harness::Failure;

/// The certificate authorities that TLS trusts.
#[derive(Clone, Debug)]
pub(super) struct TrustedRoots(Arc<ClientConfig>);

impl TrustedRoots {
    /// Returns the authorities of this system and the certificates of `pems`.
    pub(super) fn new(pems: &[Vec<u8>]) -> Result<TrustedRoots, String> {
        let mut roots = RootCertStore::empty();
        let found = load_native_certs();
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        // An invalid certificate of the system does not affect the others.
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
        Ok(TrustedRoots(Arc::new(config)))
    }
}

/// Opens a connection; `trust` is set for `https`.
pub(super) async fn open(
    address: &BaseUrl,
    trust: Option<&TrustedRoots>,
) -> Result<Connection, Failure> {
    let host = address.host.as_str();
    let stream = connect(host, address.port, &address.authority).await?;
    let socket: Box<dyn Socket> = match trust {
        Some(trust) => Box::new(secure(stream, host, trust).await?),
        None => Box::new(stream),
    };
    Connection::handshake(socket).await
}

async fn secure(
    stream: TcpStream,
    host: &str,
    trust: &TrustedRoots,
) -> Result<impl Socket + use<>, Failure> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| Failure::new("tls", format!("{host}: {error}")))?;
    let connector = TlsConnector::from(Arc::clone(&trust.0));
    let secured = connector.connect(name, stream).await;
    secured.map_err(|error| Failure::new("tls", format!("{host}: {error}")))
}
