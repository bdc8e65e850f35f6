//! The answer to one request.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use http_body_util::Limited;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, RANGE,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use ttsr::{Mode, Pack};

use crate::body::{JudgedBody, ResponseBody, ServerBody};
use crate::config::ProxyConfig;
use crate::error::ProxyError;
use crate::headers::{names_accepted_host, prepare_request, remove_hop_by_hop};
use crate::judge::{JudgeSettings, ReplyJudge, ReplyReport};
use crate::routes::{ModelApi, route};
use crate::totals::ProxyTotals;
use crate::upstream::UpstreamClients;

/// Everything that the connections of a proxy share.
pub(crate) struct ProxyService {
    pub(crate) config: ProxyConfig,
    pub(crate) totals: Arc<ProxyTotals>,
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
        let (upstream, api) = (route.upstream.clone(), route.api);
        if api == Some(ModelApi::Unjudged) && !self.config.is_fail_open {
            let message = "rules cannot judge the replies of this API; --fail-open passes them";
            return self.refuse(StatusCode::BAD_REQUEST, message);
        }
        let judged_api = api.filter(|api| *api != ModelApi::Unjudged);
        prepare_request(&mut head.headers, head.version);
        if judged_api.is_some() {
            let plain = HeaderValue::from_static("identity");
            head.headers.insert(ACCEPT_ENCODING, plain);
            // A part of a reply cannot be judged.
            head.headers.remove(RANGE);
        }
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
        let body = ServerBody::new(body, limits.idle_time, permit);
        // An error has a message of the server and no content of a model.
        let judged = match judged_api.filter(|_| status.is_success()) {
            Some(api) => self.judge(api, &mut head.headers, body).await,
            None => {
                ProxyTotals::add(&self.totals.passed, 1);
                Ok(ResponseBody::Through(body))
            }
        };
        let body = match judged {
            Ok(body) => body,
            Err(response) => return response,
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = head.headers;
        response
    }

    /// Puts a reply under rules.
    async fn judge(
        &self,
        api: ModelApi,
        headers: &mut HeaderMap,
        body: ServerBody,
    ) -> Result<ResponseBody, Response<ResponseBody>> {
        let settings = JudgeSettings::new(&self.config);
        let is_encoded = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if is_encoded {
            let is_passed = self.config.is_fail_open || self.config.mode == Mode::Shadow;
            self.totals.add_reply(&ReplyReport {
                is_unreadable: true,
                is_blocked: !is_passed,
                ..ReplyReport::default()
            });
            return match is_passed {
                true => Ok(ResponseBody::Through(body)),
                false => Err(self.fail("the server compressed a reply that must be read")),
            };
        }
        let is_stream = headers.get(CONTENT_TYPE).is_some_and(|kind| {
            let kind = kind.as_bytes().to_ascii_lowercase();
            kind.starts_with(b"text/event-stream")
        });
        // A checksum of the server does not hold for a reply that rules change.
        for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
            headers.remove(name);
        }
        headers.remove(CONTENT_LENGTH);
        if is_stream {
            let judge = ReplyJudge::new(api, &self.pack, settings);
            let judge = judge.ok_or_else(|| self.fail("the API cannot be judged"))?;
            let judged =
                JudgedBody::new(body, judge, Arc::clone(&self.totals), &self.config.limits);
            return Ok(ResponseBody::Judged(Box::new(judged)));
        }
        let bytes = body.collect(self.config.limits.reply_bytes).await;
        let bytes = bytes.map_err(|error| self.fail(&error.to_string()))?;
        let judge = ReplyJudge::new(api, &self.pack, settings);
        let mut judge = judge.ok_or_else(|| self.fail("the API cannot be judged"))?;
        let judged = judge.judge_whole(bytes);
        self.totals.add_reply(&judge.report());
        match judged {
            Ok(bytes) => {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
                Ok(ResponseBody::Whole(Some(bytes.into())))
            }
            // A client repeats a request after an error of the gateway, and a reply that cannot be read may be damaged.
            Err(block) if judge.report().is_unreadable => Err(self.fail(&block.message)),
            Err(block) => {
                let status = StatusCode::BAD_REQUEST;
                Err(error_response(
                    status,
                    "invalid_request_error",
                    &block.reason(),
                ))
            }
        }
    }

    /// Answers a request that is not sent.
    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        ProxyTotals::add(&self.totals.refused, 1);
        error_response(
            status,
            "invalid_request_error",
            &format!("ttsr proxy: {message}"),
        )
    }

    /// Answers a request whose response is missing or not usable.
    fn fail(&self, message: &str) -> Response<ResponseBody> {
        ProxyTotals::add(&self.totals.failed, 1);
        let message = format!("ttsr proxy: {message}");
        error_response(StatusCode::BAD_GATEWAY, "api_error", &message)
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
