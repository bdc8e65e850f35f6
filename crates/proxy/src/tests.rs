//! Tests of the proxy over loopback: a scripted server, the proxy and a client in one runtime.

mod client_socket;
mod driver;
mod failures;
mod journal;
mod judged;
mod operations;
mod pass_through;
mod requests;
mod retries;
mod room;
mod schedules;
#[cfg(all(unix, feature = "redis"))]
mod sessions;
mod tls;
mod tunnels;
mod wire_requests;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use ttsr::Pack;

use crate::{Mount, PackSlot, Proxy, ProxyConfig, ProxyTotals, UpstreamUrl};

/// A bound on waiting, which only a failing test reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The body of a request that each API accepts.
pub(crate) const BODY: &str = r#"{"messages":[{"role":"user","content":"Hi."}],"input":"Hi.","prompt":"Hi.","contents":[{"parts":[{"text":"Hi."}]}],"request":{"contents":[{"parts":[{"text":"Hi."}]}]},"stream":true}"#;

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("in time")
}

/// A body whose frames a test sends.
pub(crate) struct ScriptedBody(mpsc::Receiver<io::Result<Bytes>>);

pub(crate) type ScriptedFrames = mpsc::Sender<io::Result<Bytes>>;

impl ScriptedBody {
    pub(crate) fn new() -> (ScriptedFrames, ScriptedBody) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, ScriptedBody(receiver))
    }

    /// A body of these frames.
    pub(crate) fn of(frames: Vec<Bytes>) -> ScriptedBody {
        let (sender, body) = ScriptedBody::new();
        tokio::spawn(async move {
            for frame in frames {
                if sender.send(Ok(frame)).await.is_err() {
                    return;
                }
            }
        });
        body
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0
            .poll_recv(cx)
            .map(|next| next.map(|next| next.map(Frame::data)))
    }
}

/// A server on loopback in HTTP/1.1 and HTTP/2, and the requests that it received.
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    pub(crate) requests: mpsc::UnboundedReceiver<Request<Bytes>>,
}

/// Starts a server that answers each request with the result of `answer`. A request is recorded once its body is complete.
pub(crate) async fn server<F, A>(answer: F) -> ScriptedServer
where
    F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<ScriptedBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::unbounded_channel();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            // Otherwise each small piece waits for the acknowledgement of the one before, which takes 40 ms.
            socket.set_nodelay(true).unwrap();
            let (answer, sender) = (Arc::clone(&answer), sender.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let (answer, sender) = (Arc::clone(&answer), sender.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let request = Request::from_parts(head, body);
                    sender.send(request.clone()).ok();
                    Ok::<_, hyper::Error>(answer(request).await)
                }
            });
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                builder
                    .serve_connection(TokioIo::new(socket), service)
                    .await
                    .ok();
            });
        }
    });
    ScriptedServer { address, requests }
}

/// Starts a server whose responses have that content type. The frames of each are sent by the test.
pub(crate) async fn open_server(
    content_type: &'static str,
) -> (ScriptedServer, mpsc::UnboundedReceiver<ScriptedFrames>) {
    let (told, heard) = mpsc::unbounded_channel();
    let server = server(move |_| {
        let (sender, body) = ScriptedBody::new();
        told.send(sender).unwrap();
        async move {
            let mut response = Response::new(body);
            let kind = HeaderValue::from_static(content_type);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
    });
    (server.await, heard)
}

/// A proxy in a separate task.
pub(crate) struct RunningProxy {
    pub(crate) address: SocketAddr,
    pub(crate) totals: Arc<ProxyTotals>,
    pub(crate) pack: Arc<PackSlot>,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) ended: JoinHandle<()>,
}

impl RunningProxy {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// The version of HTTP that is spoken on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    Two,
}

/// Every pair of versions: towards the client and towards the server.
pub(crate) const VERSIONS: [(Http, Http); 4] = [
    (Http::One, Http::One),
    (Http::One, Http::Two),
    (Http::Two, Http::One),
    (Http::Two, Http::Two),
];

pub(crate) fn config(to: SocketAddr, http: Http) -> ProxyConfig {
    let url = UpstreamUrl::parse(&format!("http://{to}")).unwrap();
    let url = if http == Http::Two {
        url.http2_only()
    } else {
        url
    };
    ProxyConfig {
        mounts: vec![Mount::new("/local", url)],
        ..ProxyConfig::default()
    }
}

pub(crate) async fn start(config: ProxyConfig, pack: Pack) -> RunningProxy {
    let proxy = Proxy::bind(config, pack, "127.0.0.1:0").await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    RunningProxy {
        address: proxy.address(),
        totals: proxy.totals(),
        pack: proxy.pack(),
        stop,
        ended: tokio::spawn(proxy.serve(async {
            stopped.await.ok();
        })),
    }
}

pub(crate) fn no_rules() -> Pack {
    Pack::builder().build().unwrap()
}

pub(crate) type TestClient = Client<HttpConnector, Full<Bytes>>;

pub(crate) fn client(http: Http) -> TestClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .http2_only(http == Http::Two)
        .build(connector)
}

pub(crate) fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

pub(crate) async fn collected<B: Body<Data = Bytes>>(response: Response<B>) -> Bytes
where
    B::Error: std::fmt::Debug,
{
    within(response.into_body().collect())
        .await
        .unwrap()
        .to_bytes()
}
