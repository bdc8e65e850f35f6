//! The answer to one request.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use http_body_util::Limited;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use ttsr::Pack;

use crate::body::{ResponseBody, ServerBody};
use crate::config::ProxyConfig;
use crate::error::ProxyError;
use crate::headers::{names_accepted_host, prepare_request, remove_hop_by_hop};
use crate::routes::route;
use crate::totals::ProxyTotals;
use crate::upstream::UpstreamClients;

/// Everything that the connections of a proxy share.
pub(crate) struct ProxyService {
    pub(crate) config: ProxyConfig,
    pub(crate) totals: Arc<ProxyTotals>,
    #[expect(dead_code, reason = "judged replies follow")]
    pack: Pack,
    upstream: UpstreamClients,
    in_progress: Arc<Semaphore>,
}

impl fmt::Debug for ProxyService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyService")
            .field("config", &self.config)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

impl ProxyService {
    pub(crate) fn new(config: ProxyConfig, pack: Pack) -> Result<ProxyService, ProxyError> {
        Ok(ProxyService {
            upstream: UpstreamClients::new(&config.limits)?,
            in_progress: Arc::new(Semaphore::new(
                config.limits.requests.min(Semaphore::MAX_PERMITS),
            )),
            config,
            totals: Arc::default(),
            pack,
        })
    }

    /// Answers a request. If the client goes away, hyper drops the future or the body of the response, and with it the
    /// request to the server.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        if !names_accepted_host(&request, &self.config.hosts) {
            let message = "the Host header names another host than this proxy";
            return Ok(self.refuse(StatusCode::MISDIRECTED_REQUEST, message));
        }
        if request.uri().path() == "/healthz" {
            return Ok(health(request.method()));
        }
        ProxyTotals::add(&self.totals.requests, 1);
        Ok(self.forward(request).await)
    }

    async fn forward(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let limits = &self.config.limits;
        let (mut head, body) = request.into_parts();
        let is_anthropic = head.headers.contains_key("anthropic-version");
        let Some(route) = route(&self.config, &head.method, &head.uri, is_anthropic) else {
            return self.refuse(
                StatusCode::NOT_FOUND,
                "no server is configured for this path",
            );
        };
        if head.method == Method::CONNECT {
            return self.refuse(StatusCode::METHOD_NOT_ALLOWED, "CONNECT is not supported");
        }
        if body.size_hint().lower() > limits.request_bytes {
            return self.refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body of the request is too long",
            );
        }
        let Ok(permit) = Arc::clone(&self.in_progress).try_acquire_owned() else {
            return self.refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests at the same time",
            );
        };
        let Ok(uri) = route.upstream.join(route.rest) else {
            return self.refuse(
                StatusCode::BAD_REQUEST,
                "the path cannot be joined to the server's",
            );
        };
        let upstream = route.upstream.clone();
        prepare_request(&mut head.headers, head.version);
        let cap = usize::try_from(limits.request_bytes).unwrap_or(usize::MAX);
        let mut request = Request::new(Limited::new(body, cap));
        *request.method_mut() = head.method;
        *request.headers_mut() = head.headers;
        *request.uri_mut() = uri;
        let answered = timeout(limits.idle_time, self.upstream.send(&upstream, request)).await;
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return self.fail("cannot connect to the server");
            }
            Ok(Err(_)) => return self.fail("the server did not answer"),
            Err(_) => return self.fail("the server did not answer in time"),
        };
        let status = response.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return self.fail("the server redirects, which is not followed");
        }
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        ProxyTotals::add(&self.totals.passed, 1);
        let body = ServerBody::new(body, limits.idle_time, permit);
        let mut response = Response::new(ResponseBody::Through(body));
        *response.status_mut() = status;
        *response.headers_mut() = head.headers;
        response
    }

    /// Answers a request that is not sent.
    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        ProxyTotals::add(&self.totals.refused, 1);
        error_response(status, "invalid_request_error", message)
    }

    /// Answers a request whose response is missing or not usable.
    fn fail(&self, message: &str) -> Response<ResponseBody> {
        ProxyTotals::add(&self.totals.failed, 1);
        error_response(StatusCode::BAD_GATEWAY, "api_error", message)
    }
}

fn health(method: &Method) -> Response<ResponseBody> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    text_response(StatusCode::OK, "text/plain", "ok\n")
}

/// Returns an error in the form that the clients of Anthropic's and of OpenAI's APIs both read.
fn error_response(status: StatusCode, kind: &str, message: &str) -> Response<ResponseBody> {
    let message = format!("ttsr proxy: {message}");
    let body = serde_json::json!({
        "type": "error",
        "error": {"type": kind, "message": message, "param": null, "code": null},
    });
    text_response(status, "application/json", &body.to_string())
}

fn text_response(status: StatusCode, kind: &'static str, text: &str) -> Response<ResponseBody> {
    let body = Bytes::copy_from_slice(text.as_bytes());
    let mut response = Response::new(ResponseBody::Whole(Some(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    let no_sniff = HeaderName::from_static("x-content-type-options");
    headers.insert(no_sniff, HeaderValue::from_static("nosniff"));
    response
}
