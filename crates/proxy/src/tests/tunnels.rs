//! Connections to servers through the network's proxy, an imitation of which runs in each test.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::schedules::path_of;
use super::tls::{Authority, acceptor, secure_server, with_trusted_authority};
use super::{
    BODY, Http, RunningProxy, ScriptedBody, client, collected, config, get, no_rules, server,
    start, within,
};
use crate::judge::tests::replies::{Piece, events, seen};
use crate::judge::tests::{StreamedApi, aborting, every_stream};
use crate::{EventLog, Mount, NetworkProxy, Proxy, ProxyConfig, UpstreamUrl};

/// The user and the password in the URL of the network's proxy, and the value of the header that they become.
const CREDENTIALS: &str = "owl:ta%40wny";
const BASIC: &str = "Basic b3dsOnRhQHdueQ==";

const ESTABLISHED: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

/// A network's proxy of HTTP on loopback, and the heads of the requests that it received.
struct ConnectProxy {
    address: SocketAddr,
    heads: mpsc::UnboundedReceiver<String>,
}

/// Starts a network's proxy that answers each CONNECT with these bytes. With a port, the connection becomes a tunnel to that
/// port of loopback, whatever the name in CONNECT is. Without one, it stays open until the client closes it.
async fn connect_proxy(answer: impl Into<String>, tunnel_to: Option<u16>) -> ConnectProxy {
    connect_proxy_with(None, answer.into(), tunnel_to).await
}

async fn connect_proxy_with(
    tls: Option<TlsAcceptor>,
    answer: String,
    tunnel_to: Option<u16>,
) -> ConnectProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (told, heads) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (answer, told, tls) = (answer.clone(), told.clone(), tls.clone());
            tokio::spawn(async move {
                let Some(tls) = tls else {
                    return serve_connect(socket, &answer, tunnel_to, told).await;
                };
                // A client that does not trust the certificate ends the handshake.
                if let Ok(socket) = tls.accept(socket).await {
                    serve_connect(socket, &answer, tunnel_to, told).await;
                }
            });
        }
    });
    ConnectProxy { address, heads }
}

async fn serve_connect<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    answer: &str,
    tunnel_to: Option<u16>,
    told: mpsc::UnboundedSender<String>,
) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(char::from(byte)),
            Err(_) => return,
        }
    }
    told.send(head).unwrap();
    // A client may not read the whole answer.
    socket.write_all(answer.as_bytes()).await.ok();
    socket.flush().await.ok();
    match tunnel_to {
        Some(port) => {
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            copy_bidirectional(&mut socket, &mut server).await.ok();
        }
        None => drop(socket.read_to_end(&mut Vec::new()).await),
    }
}

impl ConnectProxy {
    /// Returns the heads that have arrived.
    fn heads(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.heads.try_recv().ok()).collect()
    }
}

/// Starts a network's proxy of SOCKS 5, which wants the user and the password if `is_guarded`, and answers requests with that
/// status. Yields the names and ports that it was asked for.
async fn socks_proxy(
    is_guarded: bool,
    status: u8,
    tunnel_to: u16,
) -> (SocketAddr, mpsc::UnboundedReceiver<(String, u16)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (told, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let method = if is_guarded { 2 } else { 0 };
                assert_eq!(bytes(&mut socket, 3).await, [5, 1, method]);
                socket.write_all(&[5, method]).await.unwrap();
                if is_guarded {
                    let sent = bytes(&mut socket, 12).await;
                    assert_eq!(sent, b"\x01\x03owl\x06ta@wny");
                    socket.write_all(&[1, 0]).await.unwrap();
                }
                assert_eq!(bytes(&mut socket, 4).await, [5, 1, 0, 3], "a name");
                let len = socket.read_u8().await.unwrap();
                let name = bytes(&mut socket, len.into()).await;
                let port = socket.read_u16().await.unwrap();
                told.send((String::from_utf8(name).unwrap(), port)).unwrap();
                let answer = [5, status, 0, 1, 0, 0, 0, 0, 0, 0];
                socket.write_all(&answer).await.unwrap();
                let mut server = TcpStream::connect(("127.0.0.1", tunnel_to)).await.unwrap();
                copy_bidirectional(&mut socket, &mut server).await.ok();
            });
        }
    });
    (address, heard)
}

async fn bytes(socket: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut read = vec![0; len];
    socket.read_exact(&mut read).await.unwrap();
    read
}

fn tunnelled(to: &str, network_proxy: &str) -> ProxyConfig {
    ProxyConfig {
        mounts: vec![Mount::new("/local", UpstreamUrl::parse(to).unwrap())],
        network_proxy: Some(NetworkProxy::parse(network_proxy).unwrap()),
        ..ProxyConfig::default()
    }
}

/// Asks for the reply of the API of that number in the list of all, through the proxy.
async fn ask(proxy: &RunningProxy, front: Http, number: usize, api: StreamedApi) -> Bytes {
    let request = Request::post(proxy.url(path_of(api)))
        .header("x-api", number)
        .header("proxy-authorization", "Bearer of-the-client")
        .body(Full::from(BODY))
        .unwrap();
    let response = within(client(front).request(request)).await.unwrap();
    let status = response.status();
    let body = collected(response).await;
    assert_eq!(status, StatusCode::OK, "{body:?}");
    body
}

fn reply_of(api: StreamedApi) -> String {
    events(api, &[Piece::Text(&["Well, ", "é", "."])]).concat()
}

#[test]
fn replies_of_servers_behind_the_networks_proxy_are_judged_and_exact() {
    let name = "tests::tunnels::replies_of_servers_behind_the_networks_proxy_are_judged_and_exact";
    with_trusted_authority(name, |authority| async move {
        for (protocols, version) in [
            (&["h2", "http/1.1"][..], Version::HTTP_2),
            (&["http/1.1"], Version::HTTP_11),
        ] {
            let (port, mut heard) = secure_server(&authority, protocols).await;
            let mut network = connect_proxy(ESTABLISHED, Some(port)).await;
            let url = format!("http://{CREDENTIALS}@{}", network.address);
            let proxy = start(tunnelled("https://models.test", &url), no_rules()).await;
            for (number, api) in every_stream().enumerate() {
                for front in [Http::One, Http::Two] {
                    let got = ask(&proxy, front, number, api).await;
                    assert_eq!(got, reply_of(api), "{api:?} {protocols:?}");
                    assert_eq!(within(heard.recv()).await.unwrap(), version);
                }
            }
            let replies = 2 * every_stream().count();
            assert_eq!(proxy.totals.snapshot().judged, replies as u64);
            let heads = network.heads();
            // Connections are used again.
            assert!((1..replies).contains(&heads.len()), "{}", heads.len());
            for head in heads {
                assert_eq!(
                    head,
                    format!(
                        "CONNECT models.test:443 HTTP/1.1\r\nHost: models.test:443\r\n\
                         Proxy-Authorization: {BASIC}\r\n\r\n"
                    )
                );
            }
            let config = tunnelled("https://models.test", &url);
            let proxy = start(config, aborting("Well")).await;
            for (number, api) in every_stream().enumerate() {
                let got = ask(&proxy, Http::One, number, api).await;
                let got = String::from_utf8(got.to_vec()).unwrap();
                assert!(!seen(&got).text.contains("Well"), "{got}");
                assert!(got.contains("reply stopped by rule"), "{got}");
            }
        }
    });
}

#[test]
fn every_success_makes_a_tunnel_and_servers_that_are_excepted_have_none() {
    let name =
        "tests::tunnels::every_success_makes_a_tunnel_and_servers_that_are_excepted_have_none";
    with_trusted_authority(name, |authority| async move {
        let (number, api) = every_stream().enumerate().next().unwrap();
        let (port, _heard) = secure_server(&authority, &["h2", "http/1.1"]).await;
        for answer in [
            "HTTP/1.0 200 OK\r\nProxy-Agent: tawny\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ] {
            let mut network = connect_proxy(answer, Some(port)).await;
            let url = network.address.to_string();
            let to = UpstreamUrl::parse("https://models.test:8443").unwrap();
            let mut config = tunnelled("https://unused.test", &url);
            config.mounts = vec![Mount::new("/local", to.http2_only())];
            let proxy = start(config, no_rules()).await;
            assert_eq!(ask(&proxy, Http::One, number, api).await, reply_of(api));
            let want = "CONNECT models.test:8443 HTTP/1.1\r\nHost: models.test:8443\r\n\r\n";
            assert_eq!(network.heads(), [want]);
        }
        let mut network = connect_proxy(ESTABLISHED, Some(port)).await;
        let url = network.address.to_string();
        // On Linux 0.0.0.0 is this machine, and no loopback address.
        for (host, except, is_tunnelled) in [
            ("0.0.0.0", "", true),
            ("0.0.0.0", "a.example, 0.0.0.0", false),
            ("0.0.0.0", "*", false),
            ("localhost", "", false),
            ("127.0.0.1", "", false),
        ] {
            if cfg!(not(target_os = "linux")) && host == "0.0.0.0" && !is_tunnelled {
                continue;
            }
            let mut config = tunnelled(&format!("https://{host}:{port}"), &url);
            config.network_proxy = config.network_proxy.map(|it| it.except(except));
            let proxy = start(config, no_rules()).await;
            assert_eq!(ask(&proxy, Http::One, number, api).await, reply_of(api));
            assert_eq!(
                network.heads().len(),
                usize::from(is_tunnelled),
                "{host} {except}"
            );
        }
        // A server whose certificate is not trusted is not, through a tunnel either.
        let (port, mut heard) = secure_server(&Authority::new("others"), &["http/1.1"]).await;
        let network = connect_proxy(ESTABLISHED, Some(port)).await;
        let url = network.address.to_string();
        let refused = refusal(tunnelled("https://models.test", &url)).await;
        assert_eq!(
            refused,
            "cannot connect to the server through the network's proxy"
        );
        assert!(heard.try_recv().is_err());
    });
}

#[test]
fn the_networks_proxy_may_have_tls_itself() {
    let name = "tests::tunnels::the_networks_proxy_may_have_tls_itself";
    with_trusted_authority(name, |authority| async move {
        for protocols in [&["h2", "http/1.1"][..], &["http/1.1"]] {
            let (port, mut heard) = secure_server(&authority, protocols).await;
            // It would choose HTTP/2 if it could.
            let tls = acceptor(&authority, &["h2", "http/1.1"]);
            let mut network =
                connect_proxy_with(Some(tls), ESTABLISHED.to_owned(), Some(port)).await;
            let url = format!("https://{CREDENTIALS}@{}", network.address);
            let proxy = start(tunnelled("https://models.test", &url), no_rules()).await;
            for (number, api) in every_stream().enumerate() {
                let got = ask(&proxy, Http::One, number, api).await;
                assert_eq!(got, reply_of(api), "{api:?}");
                let version = within(heard.recv()).await.unwrap();
                assert_eq!(version == Version::HTTP_2, protocols.len() == 2);
            }
            assert!(network.heads()[0].contains(BASIC));
        }
        // Nothing is sent to one that is not trusted.
        let tls = acceptor(&Authority::new("others"), &[]);
        let mut network = connect_proxy_with(Some(tls), ESTABLISHED.to_owned(), None).await;
        let url = format!("https://{CREDENTIALS}@{}", network.address);
        let refused = refusal(tunnelled("https://models.test", &url)).await;
        assert_eq!(refused, "cannot connect to the network's proxy");
        assert_eq!(network.heads(), [""; 0]);
    });
}

#[test]
fn servers_are_reached_through_socks() {
    let name = "tests::tunnels::servers_are_reached_through_socks";
    with_trusted_authority(name, |authority| async move {
        let (number, api) = every_stream().enumerate().next().unwrap();
        let (port, _heard) = secure_server(&authority, &["h2", "http/1.1"]).await;
        for (is_guarded, credentials, scheme) in
            [(false, "", "socks5"), (true, "owl:ta%40wny@", "socks5h")]
        {
            let (address, mut heard) = socks_proxy(is_guarded, 0, port).await;
            let url = format!("{scheme}://{credentials}{address}");
            let proxy = start(tunnelled("https://models.test", &url), no_rules()).await;
            assert_eq!(ask(&proxy, Http::One, number, api).await, reply_of(api));
            let asked = heard.try_recv().unwrap();
            assert_eq!(asked, ("models.test".to_owned(), 443));
            assert!(heard.try_recv().is_err());
        }
        let (address, _heard) = socks_proxy(false, 2, port).await;
        let url = format!("socks5://{address}");
        let refused = refusal(tunnelled("https://models.test", &url)).await;
        let want = "the network's proxy made no connection: SOCKS error: connection not allowed";
        assert_eq!(refused, want);
    });
}

/// Asks a proxy of that configuration for a reply, and returns the reason why there is none, without the words before it.
/// Nothing that the proxy tells has the password.
async fn refusal(mut config: ProxyConfig) -> String {
    let folder = ttsr_testing::Folder::new();
    let log = folder.0.join("log");
    config.log = Some(EventLog::append_to(&log).unwrap());
    let bound = Proxy::bind(config.clone(), no_rules(), "127.0.0.1:0");
    let mut told = format!("{config:?} {:?}", bound.await.unwrap());
    let proxy = start(config, no_rules()).await;
    let request = client(Http::One).request(get(&proxy.url("/local/v1/models")));
    let response = within(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    told += &format!("{:?}", response.headers());
    let body = collected(response).await;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    told += &body.to_string();
    assert_eq!(proxy.totals.snapshot().failed, 1);
    told += &std::fs::read_to_string(&log).unwrap();
    for secret in ["owl", "wny", "b3ds"] {
        assert!(!told.contains(secret), "{told}");
    }
    let reason = body["error"]["message"].as_str().unwrap();
    reason.strip_prefix("ttsr proxy: ").unwrap().to_owned()
}

#[tokio::test]
async fn a_networks_proxy_that_refuses_is_told_with_its_status() {
    let long = "x".repeat(1 << 20);
    for (answer, want) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\
             Content-Length: 3\r\n\r\nno!",
            "refused the connection with status 407 Proxy Authentication Required",
        ),
        // The body has no end.
        (
            "HTTP/1.1 403 No\r\n\r\n<html>",
            "refused the connection with status 403 Forbidden",
        ),
        (
            "HTTP/1.0 502 No\r\n\r\n",
            "refused the connection with status 502 Bad Gateway",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://login.test\r\n\r\n",
            "refused the connection with status 302 Found",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "refused the connection with status 101 Switching Protocols",
        ),
        (
            "SSH-2.0-tawny\r\n\r\n",
            "did not answer CONNECT with a response of HTTP",
        ),
        (
            &format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n"),
            "did not answer CONNECT with a response of HTTP",
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\nHello!",
            "sent bytes after its answer to CONNECT",
        ),
    ] {
        let mut network = connect_proxy(answer, None).await;
        let url = format!("http://{CREDENTIALS}@{}", network.address);
        let refused = refusal(tunnelled("https://models.test", &url)).await;
        assert_eq!(
            refused,
            format!("the network's proxy {want}"),
            "{}",
            &answer[..20]
        );
        assert!(network.heads()[0].contains(BASIC));
    }
}

#[tokio::test]
async fn a_networks_proxy_that_is_silent_or_away_fails_a_request_in_time() {
    // Half an answer, and none.
    for answer in ["HTTP/1.1 200 OK\r\n", ""] {
        let network = connect_proxy(answer, None).await;
        let url = format!("http://{CREDENTIALS}@{}", network.address);
        let mut config = tunnelled("https://models.test", &url);
        config.limits.connect_time = Duration::from_millis(200);
        let began = Instant::now();
        let refused = refusal(config).await;
        assert_eq!(
            refused,
            "cannot connect to the server through the network's proxy"
        );
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    // A tunnel to a server that is silent before the handshake of TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let network = connect_proxy(ESTABLISHED, Some(port)).await;
    let mut config = tunnelled("https://models.test", &network.address.to_string());
    config.limits.connect_time = Duration::from_millis(200);
    let refused = refusal(config).await;
    assert_eq!(
        refused,
        "cannot connect to the server through the network's proxy"
    );
    // A port that nobody listens to.
    drop(listener);
    let closed = SocketAddr::from(([127, 0, 0, 1], port));
    let url = format!("http://{CREDENTIALS}@{closed}");
    let refused = refusal(tunnelled("https://models.test", &url)).await;
    assert_eq!(refused, "cannot connect to the network's proxy");
}

#[tokio::test]
async fn servers_without_tls_are_reached_directly() {
    let upstream = server(|_| async { Response::new(ScriptedBody::of(vec!["{}".into()])) }).await;
    let mut network = connect_proxy("HTTP/1.1 403 No\r\n\r\n", None).await;
    let network_proxy = NetworkProxy::parse(&network.address.to_string()).unwrap();
    let mut hosts = vec![upstream.address];
    if cfg!(target_os = "linux") {
        hosts.push(SocketAddr::from(([0, 0, 0, 0], upstream.address.port())));
    }
    for to in hosts {
        for http in [Http::One, Http::Two] {
            let mut config = config(to, http);
            config.network_proxy = Some(network_proxy.clone());
            let proxy = start(config, no_rules()).await;
            let request = client(Http::One).request(get(&proxy.url("/local/v1/models")));
            let response = within(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
    }
    assert_eq!(network.heads(), [""; 0]);
}
