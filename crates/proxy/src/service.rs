//! The answer to one request.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

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

use crate::account::RequestAccount;
use crate::body::{JudgedBody, ResponseBody, ServerBody};
use crate::config::ProxyConfig;
use crate::error::ProxyError;
use crate::headers::{names_accepted_host, prepare_request, remove_hop_by_hop};
use crate::judge::{BodyFrames, JudgeSettings, ReplyJudge, ReplyReport};
use crate::metrics::{self, ProxyMetrics};
use crate::pack_slot::PackSlot;
use crate::routes::{ModelApi, route};
use crate::totals::ProxyTotals;
use crate::upstream::UpstreamClients;

/// Everything that the connections of a proxy share.
pub(crate) struct ProxyService {
    pub(crate) config: ProxyConfig,
    pub(crate) totals: Arc<ProxyTotals>,
    pub(crate) pack: Arc<PackSlot>,
    metrics: Arc<ProxyMetrics>,
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
        let totals = Arc::<ProxyTotals>::default();
        let permits = config.limits.requests.min(Semaphore::MAX_PERMITS);
        let in_progress = Arc::new(Semaphore::new(permits));
        Ok(ProxyService {
            upstream: UpstreamClients::new(&config.limits)?,
            metrics: Arc::new(ProxyMetrics::new(&totals, &in_progress, permits)),
            in_progress,
            config,
            totals,
            pack: Arc::new(PackSlot::new(pack)),
        })
    }

    /// Answers a request. If the client goes away, hyper drops the future or the body of the response, and with it the
    /// request to the server.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let account = self.account();
        if !names_accepted_host(&request, &self.config.hosts) {
            let message = "the Host header names another host than this proxy";
            return Ok(refuse(&account, StatusCode::MISDIRECTED_REQUEST, message));
        }
        if request.uri().path() == "/healthz" {
            return Ok(own_page(request.method(), "text/plain", "ok\n"));
        }
        let token = self.config.token.as_ref();
        if token.is_some_and(|token| !token.is_in(request.headers())) {
            let message = "the header x-ttsr-token does not have the token of this proxy";
            return Ok(refuse(&account, StatusCode::FORBIDDEN, message));
        }
        if request.uri().path() == "/metrics" {
            let text = self.metrics.text().unwrap_or_default();
            return Ok(own_page(request.method(), metrics::CONTENT_TYPE, &text));
        }
        let number = self.totals.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let account = RequestAccount { number, ..account };
        Ok(self.forward(request, &account).await)
    }

    /// Returns the account of a request that begins, without its number.
    fn account(&self) -> RequestAccount {
        RequestAccount {
            totals: Arc::clone(&self.totals),
            metrics: Arc::clone(&self.metrics),
            log: self.config.log.clone(),
            number: 0,
            began: Instant::now(),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        account: &RequestAccount,
    ) -> Response<ResponseBody> {
        let limits = &self.config.limits;
        let (mut head, body) = request.into_parts();
        let is_anthropic = head.headers.contains_key("anthropic-version");
        let Some(route) = route(&self.config, &head.method, &head.uri, is_anthropic) else {
            return refuse(
                account,
                StatusCode::NOT_FOUND,
                "no server is configured for this path",
            );
        };
        if head.method == Method::CONNECT {
            return refuse(
                account,
                StatusCode::METHOD_NOT_ALLOWED,
                "CONNECT is not supported",
            );
        }
        if body.size_hint().lower() > limits.request_bytes {
            return refuse(
                account,
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body of the request is too long",
            );
        }
        let Ok(permit) = Arc::clone(&self.in_progress).try_acquire_owned() else {
            return refuse(
                account,
                StatusCode::SERVICE_UNAVAILABLE,
                "too many requests at the same time",
            );
        };
        let Ok(uri) = route.upstream.join(route.rest) else {
            return refuse(
                account,
                StatusCode::BAD_REQUEST,
                "the path cannot be joined to the server's",
            );
        };
        let (upstream, api) = (route.upstream.clone(), route.api);
        if api == Some(ModelApi::Unjudged) && !self.config.is_fail_open {
            let message = "rules cannot judge the replies of this API; --fail-open passes them";
            return refuse(account, StatusCode::BAD_REQUEST, message);
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
                return fail(account, "cannot connect to the server");
            }
            Ok(Err(_)) => return fail(account, "the server did not answer"),
            Err(_) => return fail(account, "the server did not answer in time"),
        };
        let status = response.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            return fail(account, "the server redirects, which is not followed");
        }
        let (mut head, body) = response.into_parts();
        remove_hop_by_hop(&mut head.headers);
        let body = ServerBody::new(body, limits.idle_time, permit);
        // An error has a message of the server and no content of a model.
        let judged = match judged_api.filter(|_| status.is_success()) {
            Some(api) => self.judge(api, &mut head.headers, body, account).await,
            None => {
                account.passed(status.as_u16());
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
        account: &RequestAccount,
    ) -> Result<ResponseBody, Response<ResponseBody>> {
        let settings = JudgeSettings::new(&self.config);
        let is_encoded = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if is_encoded {
            let is_passed = self.config.is_fail_open || self.config.mode == Mode::Shadow;
            let report = ReplyReport {
                is_unreadable: true,
                is_blocked: !is_passed,
                ..ReplyReport::default()
            };
            account.replied(api, false, &report);
            return match is_passed {
                true => Ok(ResponseBody::Through(body)),
                false => Err(fail(
                    account,
                    "the server compressed a reply that must be read",
                )),
            };
        }
        let frames = headers.get(CONTENT_TYPE).and_then(streamed_frames);
        // A checksum of the server does not hold for a reply that rules change.
        for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
            headers.remove(name);
        }
        headers.remove(CONTENT_LENGTH);
        if let Some(frames) = frames {
            let judge = ReplyJudge::new(api, frames, &self.pack.current(), settings);
            let judge = judge.ok_or_else(|| fail(account, "the API cannot be judged"))?;
            let judged = JudgedBody::new(body, judge, api, account.clone(), &self.config.limits);
            return Ok(ResponseBody::Judged(Box::new(judged)));
        }
        let bytes = body.collect(self.config.limits.reply_bytes).await;
        let bytes = bytes.map_err(|error| fail(account, &error.to_string()))?;
        let judge = ReplyJudge::new(api, BodyFrames::events(), &self.pack.current(), settings);
        let mut judge = judge.ok_or_else(|| fail(account, "the API cannot be judged"))?;
        let judged = judge.judge_whole(bytes);
        account.judged(api, false, &judge);
        match judged {
            Ok(bytes) => {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
                Ok(ResponseBody::Whole(Some(bytes.into())))
            }
            // A client repeats a request after an error of the gateway, and a reply that cannot be read may be damaged.
            Err(block) if judge.report().is_unreadable => Err(fail(account, &block.message)),
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
}

/// Answers a request that is not sent.
fn refuse(account: &RequestAccount, status: StatusCode, message: &str) -> Response<ResponseBody> {
    account.refused(message);
    let message = format!("ttsr proxy: {message}");
    error_response(status, "invalid_request_error", &message)
}

/// Answers a request whose response is missing or not usable.
fn fail(account: &RequestAccount, message: &str) -> Response<ResponseBody> {
    account.failed(message);
    let message = format!("ttsr proxy: {message}");
    error_response(StatusCode::BAD_GATEWAY, "api_error", &message)
}

/// Returns the framing of a body of that type, or `None` if it is judged whole.
fn streamed_frames(content_type: &HeaderValue) -> Option<BodyFrames> {
    let kind = content_type.as_bytes().to_ascii_lowercase();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    match kind.trim_ascii() {
        b"text/event-stream" => Some(BodyFrames::events()),
        b"application/x-ndjson" | b"application/ndjson" | b"application/jsonl" => {
            Some(BodyFrames::lines())
        }
        _ => None,
    }
}

/// Answers a request for a page of the proxy itself.
fn own_page(method: &Method, kind: &'static str, text: &str) -> Response<ResponseBody> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = text_response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    text_response(StatusCode::OK, kind, text)
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
