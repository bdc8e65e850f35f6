//! The answer to one request.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT_ENCODING, ALLOW, CONTENT_LENGTH, HeaderMap, HeaderValue, RANGE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri};
use serde::de::IgnoredAny;
use tokio::time::timeout;
use ttsr::conversation::Note;
use ttsr::{Mode, Pack};

use crate::account::RequestAccount;
use crate::body::{
    BodyError, JudgedBody, RequestBody, ResponseBody, ServerBody, arriving_body, whole_body,
};

use crate::buffer_budget::{BufferBudget, BufferFull, BufferedBytes};
use crate::config::{ProxyConfig, UpstreamUrl};
use crate::continued_reply::load_reply;
use crate::conversations::{ReplySession, RequestRules, beside, judge_alone, judge_in_session};
use crate::error::ProxyError;
use crate::error_answer::{ErrorAnswer, text_response};
use crate::headers::{
    add_warnings, detached, has_other_method, is_websocket, may_be_json, names_accepted_host,
    prepare_request, remove_digests, set_headers,
};
use crate::judge::{
    Block, BodyFrames, JudgeSettings, ReplyJudge, ReplyReport, WholeBodyVerdict, id_of_whole,
};
use crate::metrics::{self, ProxyMetrics};
use crate::pack_slot::PackSlot;
use crate::repeat::{RepeatedCall, is_encoded, stream_framing};
use crate::request::{
    JudgedRequest, ModelRequest, SessionMemory, client_hash, is_model_request, session_key,
};
use crate::request_count::{RequestCount, RequestPermit};
use crate::routes::{ModelApi, model_of_path, route};
use crate::totals::ProxyTotals;
use crate::upstream::{BODY_TOO_LONG, UpstreamCall, UpstreamClients};
use crate::url_path::has_dot_segment;

/// A request whose server is known, and which counts as in progress.
struct AdmittedRequest {
    to: UpstreamUrl,
    uri: Uri,
    /// `None` if the reply is not judged.
    judged_api: Option<ModelApi>,
    /// True if the body of the request has a prompt of that API.
    has_prompt: bool,
    /// True if the body must not have the form of a request to a model.
    is_guarded: bool,
    permit: RequestPermit,
}

/// A reply that is to be judged, and its request.
struct ReplyContext<'w> {
    api: ModelApi,
    pack: Pack,
    /// `None` if the request was not judged.
    judged: Option<(JudgedRequest, ReplySession)>,
    call: UpstreamCall,
    /// The warnings that are sent to the client.
    warnings: &'w mut Vec<Note>,
}

/// Everything that the connections of a proxy share.
pub(crate) struct ProxyService {
    pub(crate) config: ProxyConfig,
    pub(crate) totals: Arc<ProxyTotals>,
    pub(crate) pack: Arc<PackSlot>,
    metrics: Arc<ProxyMetrics>,
    upstream: Arc<UpstreamClients>,
    pub(crate) requests: Arc<RequestCount>,
    budget: Arc<BufferBudget>,
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
        let requests = Arc::new(RequestCount::new(config.limits.requests));
        let budget = BufferBudget::new(config.limits.buffered_bytes);
        Ok(ProxyService {
            upstream: Arc::new(UpstreamClients::new(&config)?),
            metrics: Arc::new(ProxyMetrics::new(&totals, &requests, &budget)),
            requests,
            budget,
            pack: Arc::new(PackSlot::new(pack, config.mode)?),
            config,
            totals,
        })
    }

    /// Answers a request. If the client goes away, hyper drops the future or the body of the response, and with it the
    /// request to the server.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let names_proxy = names_accepted_host(&request, &self.config.hosts);
        let path = request.uri().path();
        if names_proxy && path == "/healthz" {
            return Ok(own_page(request.method(), "text/plain", "ok\n"));
        }
        let token = self.config.token.as_ref();
        let has_token = token.is_none_or(|token| token.is_in(request.headers()));
        if names_proxy && has_token && path == "/metrics" {
            let text = self.metrics.text().unwrap_or_default();
            return Ok(own_page(request.method(), metrics::CONTENT_TYPE, &text));
        }
        let account = self.begin_account();
        if !names_proxy {
            let message = "the Host header names another host than this proxy";
            return Ok(
                refuse(&account, StatusCode::MISDIRECTED_REQUEST, message).into_response(None)
            );
        }
        if !has_token {
            let message = "the header x-ttsr-token does not have the token of this proxy";
            return Ok(refuse(&account, StatusCode::FORBIDDEN, message).into_response(None));
        }
        Ok(self.forward(request, &account).await)
    }

    /// Counts a request, and returns its account.
    fn begin_account(&self) -> RequestAccount {
        RequestAccount {
            totals: Arc::clone(&self.totals),
            metrics: Arc::clone(&self.metrics),
            log: self.config.log.clone(),
            number: self.totals.requests.fetch_add(1, Ordering::Relaxed) + 1,
            began: Instant::now(),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        account: &RequestAccount,
    ) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let (api, exchanged) = match self.admit(&head, &body) {
            Ok(admitted) => {
                let api = admitted.judged_api;
                (api, self.exchange(head, body, admitted, account).await)
            }
            Err((status, message)) => (None, Err(refuse(account, status, message))),
        };
        exchanged.unwrap_or_else(|error| error.into_response(api))
    }

    /// Sends a request to its server, and returns the response for the client.
    ///
    /// # Errors
    /// If the request or its response is refused: the answer that is sent instead.
    async fn exchange(
        &self,
        head: Parts,
        body: Incoming,
        admitted: AdmittedRequest,
        account: &RequestAccount,
    ) -> Result<Response<ResponseBody>, ErrorAnswer> {
        let judged_api = admitted.judged_api;
        let key_fields = head.headers.clone();
        let mut call = self.upstream_call(head, admitted.to, admitted.uri, judged_api.is_some());
        let rules = self.pack.current();
        let cap = usize::try_from(self.config.limits.request_bytes).unwrap_or(usize::MAX);
        let has_prompt = admitted.has_prompt;
        let judged_request = judged_api.filter(|api| has_prompt && ModelRequest::knows(*api));
        let is_buffered = judged_request.is_some() || admitted.is_guarded;
        let most = if is_buffered { self.budget.most() } else { cap };
        let body = Limited::new(body, cap.min(most));
        // Each step is boxed, so that the memory for one is free again in the next.
        let (body, judged) = match judged_request {
            Some(api) => {
                let path = (api, &call.uri);
                Box::pin(self.judge_request(path, &key_fields, body, &rules, account)).await?
            }
            None if admitted.is_guarded => {
                let guarded = Box::pin(self.guard(&key_fields, body, account)).await?;
                (guarded, None)
            }
            None => (arriving_body(body), None),
        };
        let mut warnings = Vec::new();
        if let Some((judged, _)) = &judged {
            // The length is that of the body that is sent.
            call.headers.remove(CONTENT_LENGTH);
            remove_digests(&mut call.headers);
            set_headers(&mut call.headers, &judged.actions.headers);
            warnings.extend_from_slice(&judged.actions.warnings);
        }
        let response = Box::pin(call.send(body)).await;
        let response = response.map_err(|problem| match &*problem {
            BODY_TOO_LONG => refuse(account, StatusCode::PAYLOAD_TOO_LARGE, BODY_TOO_LONG),
            problem => fail(account, problem),
        })?;
        let status = response.status();
        let (head, body) = response.into_parts();
        // The client's connection keeps the map for its next request, and this one may have room for many fields.
        let mut headers = detached(&head.headers);
        drop(head);
        let is_empty = body.is_end_stream();
        let body = ServerBody::new(body, self.config.limits.idle_time, Some(admitted.permit));
        // An error has a message of the server and no content of a model, and an empty body has no content at all.
        let has_content = status.is_success() && !is_empty;
        let body = match judged_api.filter(|_| has_content) {
            Some(api) => {
                let reply = ReplyContext {
                    api,
                    pack: rules.pack,
                    judged,
                    call,
                    warnings: &mut warnings,
                };
                Box::pin(self.judge(reply, &mut headers, body, account)).await?
            }
            None => {
                account.passed(status.as_u16());
                ResponseBody::Through(body)
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        add_warnings(response.headers_mut(), &warnings);
        Ok(response)
    }

    /// Finds the server of a request, and counts the request as in progress.
    ///
    /// # Errors
    /// If the request is refused: the status and the message of the answer.
    fn admit(
        &self,
        head: &Parts,
        body: &Incoming,
    ) -> Result<AdmittedRequest, (StatusCode, &'static str)> {
        if has_dot_segment(head.uri.path()) {
            let message = "the path has the segment `.` or `..`";
            return Err((StatusCode::BAD_REQUEST, message));
        }
        let is_anthropic = head.headers.contains_key("anthropic-version");
        let is_other = head.method != Method::POST && has_other_method(&head.headers);
        let method = match is_other {
            true => &OTHER_METHOD,
            false => &head.method,
        };
        let route = route(&self.config, method, &head.uri, is_anthropic);
        let unknown = "no server is configured for this path";
        let route = route.ok_or((StatusCode::NOT_FOUND, unknown))?;
        if head.method == Method::CONNECT {
            let message = "CONNECT is not supported";
            return Err((StatusCode::METHOD_NOT_ALLOWED, message));
        }
        if is_websocket(&head.headers) {
            let message = "rules cannot judge the messages of a WebSocket";
            return Err((StatusCode::UPGRADE_REQUIRED, message));
        }
        if body.size_hint().lower() > self.config.limits.request_bytes {
            let message = BODY_TOO_LONG;
            return Err((StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let full = "too many requests at the same time";
        let permit = self.requests.begin();
        let permit = permit.ok_or((StatusCode::SERVICE_UNAVAILABLE, full))?;
        let uri = route.upstream.join(route.rest);
        let not_joined = "the path cannot be joined to the server's";
        let uri = uri.map_err(|_| (StatusCode::BAD_REQUEST, not_joined))?;
        if route.api == Some(ModelApi::Unjudged) && !self.passes_unread() {
            let message = "rules cannot judge the replies of this API; --fail-open passes them";
            return Err((StatusCode::BAD_REQUEST, message));
        }
        let is_read = route.has_prompt && route.api.is_some();
        let is_guarded = !is_read && !route.is_other_api && !self.passes_unread();
        Ok(AdmittedRequest {
            to: route.upstream.clone(),
            uri,
            judged_api: route.api.filter(|api| *api != ModelApi::Unjudged),
            has_prompt: route.has_prompt,
            is_guarded: is_guarded && !body.is_end_stream() && may_be_json(&head.headers),
            permit,
        })
    }

    /// Returns true if what cannot be judged passes.
    fn passes_unread(&self) -> bool {
        self.config.fail_open || self.config.mode == Mode::Shadow
    }

    /// Returns the request to the server, without its body.
    fn upstream_call(
        &self,
        mut head: Parts,
        to: UpstreamUrl,
        uri: Uri,
        is_judged: bool,
    ) -> UpstreamCall {
        prepare_request(&mut head.headers, head.version);
        if is_judged {
            let plain = HeaderValue::from_static("identity");
            head.headers.insert(ACCEPT_ENCODING, plain);
            // A part of a reply cannot be judged.
            head.headers.remove(RANGE);
        }
        UpstreamCall {
            clients: Arc::clone(&self.upstream),
            to,
            method: head.method,
            uri,
            headers: head.headers,
            idle_time: self.config.limits.idle_time,
        }
    }

    /// Reads the body of a request whose API is not known, and returns it.
    ///
    /// # Errors
    /// If it has the form of a request to a model: no rule would read it, and neither its reply.
    async fn guard(
        &self,
        headers: &HeaderMap,
        body: Limited<Incoming>,
        account: &RequestAccount,
    ) -> Result<RequestBody, ErrorAnswer> {
        if is_encoded(headers) {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(refuse(account, status, COMPRESSED));
        }
        let body = self.collect(body, account).await?;
        let whole = body.clone();
        let looks_like = beside(body.len(), move || is_model_request(&whole)).await;
        if looks_like.unwrap_or(true) {
            let message = "the body looks like a request to a model, and the API of this path is not known, so that rules \
                           cannot judge it; --fail-open passes it";
            return Err(refuse(account, StatusCode::BAD_REQUEST, message));
        }
        Ok(whole_body(body))
    }

    /// Reads the body of a request.
    async fn collect(
        &self,
        body: Limited<Incoming>,
        account: &RequestAccount,
    ) -> Result<Bytes, ErrorAnswer> {
        let read = read_whole(body, self.budget.begin());
        let collected = timeout(self.config.limits.idle_time, read).await;
        let (status, message) = match collected {
            Ok(Ok(body)) => return Ok(body),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                (StatusCode::PAYLOAD_TOO_LARGE, BODY_TOO_LONG)
            }
            Ok(Err(error)) if error.is::<BufferFull>() => {
                account.unbuffered();
                return Err(refuse(
                    account,
                    StatusCode::SERVICE_UNAVAILABLE,
                    &error.to_string(),
                ));
            }
            Ok(Err(_)) => {
                let message = "the body of the request is incomplete";
                (StatusCode::BAD_REQUEST, message)
            }
            Err(_) => {
                let message = "the body of the request did not arrive in time";
                (StatusCode::REQUEST_TIMEOUT, message)
            }
        };
        Err(refuse(account, status, message))
    }

    /// Reads the body of a request and applies rules to it. Returns the body to send, and the judgement unless the body
    /// cannot be read and passes.
    async fn judge_request(
        &self,
        (api, uri): (ModelApi, &Uri),
        headers: &HeaderMap,
        body: Limited<Incoming>,
        rules: &RequestRules,
        account: &RequestAccount,
    ) -> Result<(RequestBody, Option<(JudgedRequest, ReplySession)>), ErrorAnswer> {
        let is_passed = self.passes_unread();
        if is_encoded(headers) && !is_passed {
            return Err(refuse(
                account,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                COMPRESSED,
            ));
        }
        let body = self.collect(body, account).await?;
        let whole = body.clone();
        let read = beside(body.len(), move || ModelRequest::read(api, whole)).await;
        let Some(mut request) = read.flatten() else {
            return match is_passed {
                true => Ok((whole_body(body), None)),
                false => {
                    let message = unreadable(&body);
                    Err(refuse(account, StatusCode::BAD_REQUEST, &message))
                }
            };
        };
        if api == ModelApi::Gemini {
            request.model = model_of_path(uri.path()).map(str::to_owned);
        }
        let query = uri.query().unwrap_or_default();
        let (client, store) = (client_hash(headers, query), &self.config.sessions);
        let continued = match &request.previous {
            Some(id) => load_reply(&**store, client, id).await,
            None => Ok(None),
        };
        if let Ok(Some(continued)) = &continued {
            request.set_continued(continued.id.clone());
        }
        let request = Arc::new(request);
        let judged = match continued {
            Ok(continued) => {
                let session = continued.map(|reply| reply.session);
                let key = session_key(headers, query, &request, session.as_deref());
                let judged = judge_in_session(&**store, &key, &request, rules).await;
                judged.map(|judged| (judged, Some(key)))
            }
            Err(error) => Err(error),
        };
        let (judged, key) = match judged {
            Ok(judged) => judged,
            Err(error) => {
                account.session_lost(&error);
                if !is_passed {
                    let message = format!("the session cannot be kept: {error}");
                    return Err(fail(account, &message));
                }
                (judge_alone(&request, rules, SessionMemory::default()), None)
            }
        };
        match judged {
            Ok(mut judged) => {
                drop(request);
                judged.body.forget_texts();
                account.request(&judged.actions);
                let session = ReplySession::new(store, client, key, &judged);
                let body = whole_body(judged.body.write(None));
                Ok((body, Some((judged, session))))
            }
            Err(refused) => {
                account.request(&refused.actions);
                account.request_stopped(&refused.actions);
                Err(ErrorAnswer::new(StatusCode::BAD_REQUEST, refused.reason))
            }
        }
    }

    /// Applies rules to a reply.
    async fn judge(
        &self,
        reply: ReplyContext<'_>,
        headers: &mut HeaderMap,
        body: ServerBody,
        account: &RequestAccount,
    ) -> Result<ResponseBody, ErrorAnswer> {
        let mut settings = JudgeSettings::new(&self.config);
        if is_encoded(headers) {
            let is_passed = self.passes_unread();
            let report = ReplyReport {
                is_unreadable: true,
                is_blocked: !is_passed,
                ..ReplyReport::default()
            };
            account.replied(reply.api, false, &report);
            return match is_passed {
                true => Ok(ResponseBody::Through(body)),
                false => Err(fail(
                    account,
                    "the server compressed a reply that must be read",
                )),
            };
        }
        let framing = stream_framing(headers, &reply.call.uri);
        // A checksum of the server does not hold for a reply that rules change.
        remove_digests(headers);
        headers.remove(CONTENT_LENGTH);
        settings.can_retry = reply.judged.is_some();
        let frames = framing.map_or_else(BodyFrames::events, BodyFrames::new);
        let (judge, session) = match reply.judged {
            Some((judged, session)) => {
                let conversation = judged.conversation;
                let mut judge =
                    ReplyJudge::in_conversation(reply.api, frames, conversation, settings);
                if let Some(judge) = judge.as_mut().filter(|_| judged.body.wants_usage()) {
                    judge.expect_usage();
                }
                let again = RepeatedCall {
                    call: reply.call.detached(),
                    body: judged.body,
                    framing,
                };
                (judge, Some((session, again)))
            }
            None => (
                ReplyJudge::new(reply.api, frames, &reply.pack, settings),
                None,
            ),
        };
        let judge = judge.ok_or_else(|| fail(account, "the API cannot be judged"))?;
        if framing.is_some() {
            let limits = &self.config.limits;
            let mut judged = JudgedBody::new(
                body,
                judge,
                reply.api,
                account.clone(),
                limits,
                &self.budget,
            );
            if let Some((session, again)) = session {
                judged = judged.in_session(session, again.into_resend_request());
            }
            return Ok(ResponseBody::Judged(Box::new(judged)));
        }
        // Boxed, because replies that stream need no memory for it.
        let whole = self.judge_whole(judge, session, body, reply.warnings, reply.api, account);
        let bytes = Box::pin(whole).await?;
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        Ok(ResponseBody::Whole(Some(bytes)))
    }

    /// Applies rules to a reply that is not streamed, and sends the request again while rules retry.
    async fn judge_whole(
        &self,
        mut judge: ReplyJudge,
        mut session: Option<(ReplySession, RepeatedCall)>,
        mut body: ServerBody,
        warnings: &mut Vec<Note>,
        api: ModelApi,
        account: &RequestAccount,
    ) -> Result<Bytes, ErrorAnswer> {
        let cap = self
            .config
            .limits
            .reply_bytes
            .min(self.budget.most() as u64);
        // The last reply that a rule cut, with its bytes.
        let mut last_cut: Option<(Vec<u8>, BufferedBytes, Block)> = None;
        let (bytes, buffered, judged) = loop {
            let mut buffered = self.budget.begin();
            let bytes = match body.collect(cap, &mut buffered).await {
                Ok(bytes) => bytes,
                // There may be room for another attempt if the client sends the request again.
                Err(error) => match last_cut.take().filter(|_| !error.is::<BufferFull>()) {
                    Some((bytes, buffered, cut)) => {
                        let judged = judge.block_whole(&bytes, &cut);
                        break (bytes, buffered, judged);
                    }
                    None => return Err(unread_reply(account, &error)),
                },
            };
            let verdict = judge.judge_whole(&bytes);
            let is_unread =
                matches!(verdict, WholeBodyVerdict::Refused(_)) && judge.report().is_unreadable;
            if let (true, Some((bytes, buffered, cut))) = (is_unread, last_cut.take()) {
                let judged = judge.block_unread(&bytes, &cut);
                break (bytes, buffered, judged);
            }
            let (next, (session, again)) = match (verdict, &mut session) {
                (WholeBodyVerdict::Retry(next), Some(known)) => (next, known),
                (judged, _) => break (bytes, buffered, judged),
            };
            session.carried(&next.notes);
            again.carry(&next);
            let cut = next.block.clone();
            match again.clone().send(next, body.close()).await {
                Ok(response) => {
                    body = response;
                    last_cut = Some((bytes, buffered, cut));
                }
                Err(_) => {
                    let judged = judge.block_whole(&bytes, &cut);
                    break (bytes, buffered, judged);
                }
            }
        };
        account.judged(api, false, &judge);
        warnings.extend(judge.warnings());
        let answer = match judged {
            WholeBodyVerdict::Passes(changed) => Ok(changed.unwrap_or(bytes)),
            // A client repeats a request after an error of the gateway, and a reply that cannot be read may be damaged.
            WholeBodyVerdict::Refused(block) if judge.report().is_unreadable => {
                Err(fail(account, &block.message))
            }
            WholeBodyVerdict::Refused(block) => {
                Err(ErrorAnswer::new(StatusCode::BAD_REQUEST, block.reason()))
            }
            WholeBodyVerdict::Retry(next) => Err(fail(account, &next.block.reason())),
        };
        if let (Some((session, _)), Some(mut ended)) = (&mut session, judge.ended_reply()) {
            let sent = answer.as_ref().ok();
            ended.id = sent.and_then(|body| id_of_whole(api, body));
            account.saved(&session.save(ended).await);
        }
        Ok(buffered.into_body(answer?))
    }
}

/// A method that a server may take for POST.
static OTHER_METHOD: Method = Method::PUT;

const COMPRESSED: &str = "the body is compressed, and rules must read it";

/// Returns the reason why a body is no request that can be read, without text of the body.
fn unreadable(body: &[u8]) -> String {
    let message = "the body is not a request of this API that rules can read";
    match serde_json::from_slice::<IgnoredAny>(body) {
        Ok(_) => format!(
            "{message}: a member is missing, is there twice, or has another form than the API gives it"
        ),
        Err(error) => format!("{message}: {error}"),
    }
}

/// Returns the bytes of a body in an allocation of their own. Those of a short body are in the buffer from which its
/// connection was read, and would keep all of it until the reply has ended.
async fn read_whole(
    mut body: Limited<Incoming>,
    mut buffered: BufferedBytes,
) -> Result<Bytes, BodyError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            buffered.grow(data.len())?;
            bytes.extend_from_slice(&data);
        }
    }
    Ok(buffered.into_body(bytes))
}

/// Answers a request whose reply cannot be read whole.
fn unread_reply(account: &RequestAccount, error: &BodyError) -> ErrorAnswer {
    let answer = fail(account, &error.to_string());
    if !error.is::<BufferFull>() {
        return answer;
    }
    account.unbuffered();
    answer.with_status(StatusCode::SERVICE_UNAVAILABLE)
}

/// Answers a request that is not sent.
fn refuse(account: &RequestAccount, status: StatusCode, message: &str) -> ErrorAnswer {
    account.refused(message);
    ErrorAnswer::new(status, format!("ttsr proxy: {message}"))
}

/// Answers a request whose response is missing or not usable.
fn fail(account: &RequestAccount, message: &str) -> ErrorAnswer {
    account.failed(message);
    ErrorAnswer::new(StatusCode::BAD_GATEWAY, format!("ttsr proxy: {message}"))
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
