//! TLS of the listening socket: the certificate of the proxy, and the authorities of its clients.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::error::ProxyError;

/// TLS of the listening socket, in which clients choose HTTP/2 or HTTP/1.1.
#[derive(Clone)]
pub struct ListenerTls {
    config: Arc<ServerConfig>,
    needs_client_certificate: bool,
}

impl ListenerTls {
    /// Returns TLS with a chain of certificates, that of the proxy first, and the private key of the first one, in PEM.
    /// With `client_authorities`, certificates in PEM, each client must have a certificate that one of them has signed;
    /// otherwise clients have none.
    ///
    /// # Errors
    /// If one of the texts has no certificate or no key, or if the key is not that of the certificate. The error does not
    /// repeat the key.
    ///
    /// # Example: text that is no key
    /// ```
    /// use ttsr_proxy::ListenerTls;
    /// let error = ListenerTls::new(b"", b"secret", None).unwrap_err().to_string();
    /// assert_eq!(error, "the certificate of the proxy: there is no certificate in PEM");
    /// ```
    pub fn new(
        certificates: &[u8],
        key: &[u8],
        client_authorities: Option<&[u8]>,
    ) -> Result<ListenerTls, ProxyError> {
        let of =
            |what: &str, reason: &dyn fmt::Display| ProxyError::new(format!("{what}: {reason}"));
        let chain = certificates_of(certificates)
            .map_err(|reason| of("the certificate of the proxy", &reason))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| of("the key of the proxy", &"there is no private key in PEM"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| of("TLS", &error))?;
        let builder = match client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let what = "the authorities of clients";
                let mut roots = RootCertStore::empty();
                let found = certificates_of(authorities).map_err(|reason| of(what, &reason))?;
                for authority in found {
                    roots.add(authority).map_err(|error| of(what, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| of(what, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| of("the certificate of the proxy", &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(ListenerTls {
            config: Arc::new(config),
            needs_client_certificate: client_authorities.is_some(),
        })
    }

    /// Returns true if each client must have a certificate.
    #[must_use]
    pub fn needs_client_certificate(&self) -> bool {
        self.needs_client_certificate
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

/// Returns the certificates of a text in PEM, of which there is at least one.
fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("there is no certificate in PEM"),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err("the PEM cannot be read"),
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration is left out: it contains the private key.
        f.debug_struct("ListenerTls")
            .field("needs_client_certificate", &self.needs_client_certificate)
            .finish_non_exhaustive()
    }
}
