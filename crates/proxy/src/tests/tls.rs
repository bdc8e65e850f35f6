//! TLS of the listening socket, with certificates of clients, and of servers.

use std::future::Future;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::schedules::{path_of, type_of};
use super::{BODY, Http, ScriptedBody, collected, config, get, no_rules, start, within};
use crate::judge::tests::every_stream;
use crate::judge::tests::replies::{Piece, events};
use crate::{ListenerTls, Mount, Proxy, ProxyConfig, UpstreamUrl};

/// An authority that signs certificates.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        Authority::with_key(name, KeyPair::generate().unwrap())
    }

    fn with_key(name: &str, key: KeyPair) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for loopback addresses and for names of servers behind a network's proxy, and its key.
    pub(super) fn sign(&self) -> (Certificate, KeyPair) {
        let names = ["localhost", "127.0.0.1", "models.test", "0.0.0.0"].map(str::to_owned);
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
        ..config(unused, Http::One)
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
    let plain = super::client(Http::One).request(get(&proxy.url("/healthz")));
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
        ..config("127.0.0.1:9".parse().unwrap(), Http::One)
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

/// Returns TLS of a server with a certificate of that authority, and with these protocols.
pub(super) fn acceptor(signed_by: &Authority, protocols: &[&str]) -> TlsAcceptor {
    let (certificate, key) = signed_by.sign();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_no_client_auth();
    let chain = vec![certificate.der().clone()];
    let mut tls = builder.with_single_cert(chain, key).unwrap();
    tls.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(tls))
}

/// A server with TLS that offers these protocols. Each request has the number of an API in `x-api`, whose reply is streamed.
/// Returns the port, and the versions in which requests arrive.
pub(super) async fn secure_server(
    signed_by: &Authority,
    protocols: &[&str],
) -> (u16, mpsc::UnboundedReceiver<Version>) {
    let acceptor = acceptor(signed_by, protocols);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, told) = (acceptor.clone(), told.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate ends the handshake.
                let Ok(socket) = acceptor.accept(socket).await else {
                    return;
                };
                let service = service_fn(move |request: Request<Incoming>| {
                    told.send(request.version()).unwrap();
                    async move {
                        let number: usize = request.headers()["x-api"]
                            .to_str()
                            .unwrap()
                            .parse()
                            .unwrap();
                        request.into_body().collect().await?;
                        let api = every_stream().nth(number).unwrap();
                        let frames = events(api, &[Piece::Text(&["Well, ", "é", "."])]);
                        let frames = frames.into_iter().map(Bytes::from).collect();
                        let mut response = Response::new(ScriptedBody::of(frames));
                        let kind = type_of(api).parse().unwrap();
                        response.headers_mut().insert("content-type", kind);
                        Ok::<_, hyper::Error>(response)
                    }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                let served = builder.serve_connection(TokioIo::new(socket), service);
                served.await.ok();
            });
        }
    });
    (port, heard)
}

/// The variable that tells the second process of a test that it is one.
const INNER: &str = "TTSR_TEST_AUTHORITY_KEY";

/// Runs the test of that name with an authority that the proxy trusts. The proxy trusts the authorities of the system, which
/// a variable of its process names. So the test runs in a second process, with the authority in `SSL_CERT_FILE` and its key in
/// another variable.
pub(super) fn with_trusted_authority<F: Future<Output = ()>>(
    name: &str,
    test: impl FnOnce(Authority) -> F,
) {
    match std::env::var(INNER) {
        Ok(key) => {
            let authority = Authority::with_key("servers", KeyPair::from_pem(&key).unwrap());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(test(authority));
        }
        Err(_) => run_again_with_authority(name),
    }
}

fn run_again_with_authority(name: &str) {
    let key = KeyPair::generate().unwrap();
    let authority =
        Authority::with_key("servers", KeyPair::from_pem(&key.serialize_pem()).unwrap());
    let folder = ttsr_testing::Folder::new();
    let file = folder.write("authority.pem", authority.pem());
    let mut inner = std::process::Command::new(std::env::current_exe().unwrap());
    inner.args(["--exact", name, "--nocapture"]);
    inner
        .env("SSL_CERT_FILE", &file)
        .env(INNER, key.serialize_pem());
    let output = inner.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && shown.contains("1 passed"),
        "{output:?}"
    );
}

#[test]
fn servers_with_tls_choose_the_version_of_http_and_need_a_trusted_certificate() {
    let name =
        "tests::tls::servers_with_tls_choose_the_version_of_http_and_need_a_trusted_certificate";
    with_trusted_authority(
        name,
        |authority| async move { through_tls(&authority).await },
    );
}

async fn through_tls(authority: &Authority) {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (port, mut heard) = secure_server(authority, protocols).await;
        let url = UpstreamUrl::parse(&format!("https://localhost:{port}")).unwrap();
        let config = ProxyConfig {
            mounts: vec![Mount::new("/local", url)],
            ..ProxyConfig::default()
        };
        let proxy = start(config, no_rules()).await;
        for (number, api) in every_stream().enumerate() {
            for front in [Http::One, Http::Two] {
                let request = Request::post(proxy.url(path_of(api))).header("x-api", number);
                let request = request.body(Full::from(BODY)).unwrap();
                let response = within(super::client(front).request(request)).await.unwrap();
                assert_eq!(response.status(), StatusCode::OK, "{protocols:?}");
                let want = events(api, &[Piece::Text(&["Well, ", "é", "."])]).concat();
                assert_eq!(collected(response).await, want, "{api:?} {protocols:?}");
                assert_eq!(
                    within(heard.recv()).await.unwrap(),
                    version,
                    "{protocols:?}"
                );
            }
        }
    }
    let (port, mut heard) = secure_server(&Authority::new("others"), &["http/1.1"]).await;
    let url = UpstreamUrl::parse(&format!("https://localhost:{port}")).unwrap();
    let config = ProxyConfig {
        mounts: vec![Mount::new("/local", url)],
        ..ProxyConfig::default()
    };
    let proxy = start(config, no_rules()).await;
    let response = within(super::client(Http::One).request(get(&proxy.url("/local/v1/models"))));
    assert_eq!(response.await.unwrap().status(), StatusCode::BAD_GATEWAY);
    assert!(
        heard.try_recv().is_err(),
        "no request leaves before the certificate is checked"
    );
}
