//! TLS of the listening socket, with certificates of clients.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{StatusCode, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{config, get, no_rules, start, within};
use crate::{ListenerTls, Proxy, ProxyConfig};

/// An authority that signs certificates.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for loopback addresses, and its key.
    pub(super) fn sign(&self) -> (Certificate, KeyPair) {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names.to_vec()).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    fn listener(&self, clients: Option<&Authority>) -> ListenerTls {
        let (certificate, key) = self.sign();
        let clients = clients.map(Authority::pem);
        let clients = clients.as_ref().map(String::as_bytes);
        let (certificate, key) = (certificate.pem(), key.serialize_pem());
        ListenerTls::new(certificate.as_bytes(), key.as_bytes(), clients).unwrap()
    }
}

type TlsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client that trusts one authority, and has a certificate of the other.
fn client(trusted: &Authority, signed_by: Option<&Authority>) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.0.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let tls = match signed_by {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let (certificate, key) = authority.sign();
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            let chain = vec![certificate.der().clone()];
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
    let connector = connector.https_only().enable_all_versions().build();
    Client::builder(TokioExecutor::new()).build(connector)
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_authority_are_answered() {
    let [servers, clients, others] = ["servers", "clients", "others"].map(Authority::new);
    let unused = "127.0.0.1:9".parse().unwrap();
    let config = ProxyConfig {
        tls: Some(servers.listener(Some(&clients))),
        ..config(unused, super::Http::One)
    };
    let proxy = start(config, no_rules()).await;
    let url = proxy.url("/healthz").replacen("http:", "https:", 1);
    for (trusted, signed_by, is_answered) in [
        (&servers, Some(&clients), true),
        (&servers, Some(&others), false),
        (&servers, None, false),
        (&others, Some(&clients), false),
    ] {
        let answered = within(client(trusted, signed_by).request(get(&url))).await;
        assert_eq!(answered.is_ok(), is_answered);
        if let Ok(response) = answered {
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(response.version(), Version::HTTP_2, "it was negotiated");
        }
    }
    // Bytes without TLS are not answered.
    let plain = super::client(super::Http::One).request(get(&proxy.url("/healthz")));
    assert!(within(plain).await.is_err());
    assert!(!proxy.ended.is_finished());
}

#[tokio::test]
async fn certificates_of_clients_stand_in_for_a_token_and_one_of_the_proxy_does_not() {
    let [servers, clients] = ["servers", "clients"].map(Authority::new);
    for (authority, is_enough) in [(Some(&clients), true), (None, false)] {
        let config = ProxyConfig {
            tls: Some(servers.listener(authority)),
            ..ProxyConfig::default()
        };
        let bound = Proxy::bind(config, no_rules(), "0.0.0.0:0").await;
        assert_eq!(bound.is_ok(), is_enough);
        if let Err(error) = bound {
            let error = error.to_string();
            assert!(
                error.contains("certificates of clients are needed"),
                "{error}"
            );
        }
    }
    let tls = servers.listener(None);
    let config = ProxyConfig {
        tls: Some(tls.clone()),
        ..config("127.0.0.1:9".parse().unwrap(), super::Http::One)
    };
    assert!(!tls.needs_client_certificate());
    let proxy = start(config, no_rules()).await;
    let url = proxy.url("/healthz").replacen("http:", "https:", 1);
    let answered = within(client(&servers, None).request(get(&url))).await;
    assert_eq!(answered.unwrap().status(), StatusCode::OK);
}

#[test]
fn damaged_certificates_and_foreign_keys_are_errors_without_the_key() {
    let authority = Authority::new("servers");
    let ((one, key), (_, other)) = (authority.sign(), authority.sign());
    let (one, key, other) = (one.pem(), key.serialize_pem(), other.serialize_pem());
    let damaged = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    for (certificate, key, clients, reason) in [
        ("", &key, None, "there is no certificate"),
        (damaged, &key, None, "the PEM cannot be read"),
        (&*one, &one, None, "there is no private key"),
        (&*one, &other, None, "the certificate of the proxy"),
        (&*one, &key, Some(""), "the authorities of clients"),
    ] {
        let clients = clients.map(str::as_bytes);
        let made = ListenerTls::new(certificate.as_bytes(), key.as_bytes(), clients);
        let error = made.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("BEGIN"), "{error}");
    }
    let shown = format!("{:?}", authority.listener(Some(&authority)));
    assert_eq!(shown, "ListenerTls { needs_client_certificate: true, .. }");
}
