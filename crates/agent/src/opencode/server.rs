//! The HTTP client of an OpenCode server.
//!
//! Source of the requests: the OpenAPI document that a server serves at `/doc`, and OpenCode 1.18.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::address::{ServerAddress, open};
use crate::http::Connection;
use ttsr::harness::Failure;
use ttsr_wire::opencode::{OpenCodeReader, ServerNotice};

/// An interface of the server. A session is driven through one of them, and only that one reports it in full.
///
/// # Example: the names of the interfaces
/// ```
/// use ttsr_agent::opencode::{ServerApi, Server};
/// let server = Server::new("http://127.0.0.1:4096", ServerApi::default())?;
/// assert_eq!(server.api().name(), "classic");
/// assert_eq!(ServerApi::Next.name(), "next");
/// # Ok::<(), ttsr::harness::Failure>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerApi {
    /// `/event` and `/session/…`, which OpenCode's own programs use. It reports the input of a tool when the tool
    /// already runs.
    #[default]
    Classic,
    /// `/api/…`, which streams the input of a tool, so that the call can be stopped in time.
    Next,
}

impl ServerApi {
    /// Returns `classic` or `next`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ServerApi::Classic => "classic",
            ServerApi::Next => "next",
        }
    }
}

/// A message to a session in the user's name.
///
/// # Example: a prompt, and a message without a reply
/// ```
/// use ttsr_agent::opencode::Prompt;
/// let question = Prompt::new("What is left to do?");
/// let aside = Prompt { is_aside: true, ..Prompt::new("No lists, please.") };
/// assert!(aside.is_aside && !question.is_aside);
/// assert_eq!(question.agent, None, "the session's own");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// The agent that answers; `None` for the session's own. Classic interface only.
    pub agent: Option<String>,
    /// The provider and the model that answer; `None` for the session's own. Classic interface only.
    pub model: Option<(String, String)>,
    /// True to only add the message to the conversation: a reply in progress continues, and the next request contains
    /// it.
    pub is_aside: bool,
}

impl Prompt {
    /// Returns a prompt that requests a reply.
    pub fn new(text: impl Into<String>) -> Prompt {
        Prompt {
            text: text.into(),
            ..Prompt::default()
        }
    }
}

/// A running OpenCode server.
///
/// Every request opens a connection and fails if the server sends nothing for [`PATIENCE`](Server::PATIENCE). Redirects
/// are not followed. A response body may have 16 MiB. Ids of sessions, messages and questions consist of ASCII letters,
/// digits, `_` and `-`; with any other id nothing is sent, and the [kind](Failure::kind) of the failure is `request`.
/// If the server responds with an error, the kind is the status, such as `404`. Requires a tokio runtime with I/O and
/// time.
///
/// # Example: prompt, then stop
/// ```
/// use ttsr_agent::opencode::{ServerApi, Prompt, Server};
/// # use ttsr_testing::listener;
/// # let (url, heard) = listener::answering([r#"{"id":"ses_1"}"#, "true", "true"])?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// // A server listens at `url`; `heard` holds its requests.
/// let server = Server::new(&url, ServerApi::Classic)?;
/// runtime.block_on(async {
///     let session = server.create_session().await?;
///     server.prompt(&session, &Prompt::new("Write code, please.")).await?;
///     server.abort(&session).await
/// })?;
/// let heard = heard.join().unwrap();
/// assert!(heard[1].starts_with("POST /session/ses_1/prompt_async "));
/// assert!(heard[1].ends_with(r#"{"parts":[{"text":"Write code, please.","type":"text"}]}"#));
/// assert!(heard[2].starts_with("POST /session/ses_1/abort "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    address: ServerAddress,
    api: ServerApi,
    /// The value of the header `authorization`.
    authorization: Option<String>,
}

/// The most bytes of a response body that is not a stream.
const ANSWER: usize = 16 << 20;

/// The most characters of an error response that are shown.
const EXCERPT: usize = 200;

impl Server {
    /// The time limit for the head of a response, and for each chunk of its body.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// The time limit for a silent event stream. Servers send a heartbeat every ten seconds.
    pub const SILENCE: Duration = Duration::from_secs(35);

    /// Returns a client for the server at that address, such as `http://127.0.0.1:4096`, without connecting.
    ///
    /// # Errors
    /// If the address is not a URL with the scheme `http`, or has a user or a query. TLS is not supported.
    pub fn new(url: &str, api: ServerApi) -> Result<Server, Failure> {
        Ok(Server {
            address: ServerAddress::parse(url)?,
            api,
            authorization: None,
        })
    }

    /// Adds a user and a password to every request (`Basic`). They are sent in the clear; `Debug` does not show them.
    ///
    /// # Example: a server with a password
    /// ```
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// let server = Server::new(&url, ServerApi::Classic)?.with_password("opencode", "secret");
    /// assert!(!format!("{server:?}").contains("b3BlbmNvZGU6c2VjcmV0"));
    /// runtime.block_on(server.abort("ses_1"))?;
    /// assert!(heard.join().unwrap()[0].contains("authorization: Basic b3BlbmNvZGU6c2VjcmV0\r\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_password(self, user: &str, password: &str) -> Server {
        let authorization = STANDARD.encode(format!("{user}:{password}"));
        Server {
            authorization: Some(format!("Basic {authorization}")),
            ..self
        }
    }

    /// Returns the interface that is used.
    #[must_use]
    pub fn api(&self) -> ServerApi {
        self.api
    }

    /// Subscribes to the events of all sessions. The classic interface reports the sessions of every directory
    /// (`/global/event`); a server without that stream (404) reports those of its working directory (`/event`).
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    pub async fn events(&self) -> Result<Events, Failure> {
        let path = match self.api {
            ServerApi::Classic => "/global/event",
            ServerApi::Next => "/api/event",
        };
        let answered = match self.send(Method::GET, path, None).await {
            Err(failure) if failure.kind() == "404" && self.api == ServerApi::Classic => {
                self.send(Method::GET, "/event", None).await
            }
            answered => answered,
        };
        let (connection, response) = answered?;
        Ok(Events {
            connection,
            body: response.into_body(),
            feed: OpenCodeReader::default(),
            ready: VecDeque::new(),
            is_over: false,
            broken: None,
        })
    }

    /// Creates a session and returns its id.
    ///
    /// # Errors
    /// If the server cannot be reached, responds with an error or returns no id.
    pub async fn create_session(&self) -> Result<String, Failure> {
        let path = match self.api {
            ServerApi::Classic => "/session",
            ServerApi::Next => "/api/session",
        };
        let made = self.call(Method::POST, path, Some(json!({}))).await?;
        let id = made.pointer("/data/id").or(made.get("id"));
        let id = id.and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| Failure::new("protocol", "the server named no session"))
    }

    /// Sends a prompt to a session without waiting for the reply.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    pub async fn prompt(&self, session: &str, prompt: &Prompt) -> Result<(), Failure> {
        let session = segment(session)?;
        let (path, body) = match self.api {
            ServerApi::Classic => {
                let mut body = json!({ "parts": [{ "type": "text", "text": prompt.text }] });
                if let Some((provider, model)) = &prompt.model {
                    body["model"] = json!({ "providerID": provider, "modelID": model });
                }
                if let Some(agent) = &prompt.agent {
                    body["agent"] = json!(agent);
                }
                if prompt.is_aside {
                    body["noReply"] = json!(true);
                }
                (format!("/session/{session}/prompt_async"), body)
            }
            ServerApi::Next => {
                let mut body = json!({ "prompt": { "text": prompt.text } });
                if prompt.is_aside {
                    body["delivery"] = json!("steer");
                    body["resume"] = json!(false);
                }
                (format!("/api/session/{session}/prompt"), body)
            }
        };
        self.call(Method::POST, &path, Some(body)).await.map(drop)
    }

    /// Stops the reply and the tool calls of a session.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    pub async fn abort(&self, session: &str) -> Result<(), Failure> {
        let session = segment(session)?;
        let path = match self.api {
            ServerApi::Classic => format!("/session/{session}/abort"),
            ServerApi::Next => format!("/api/session/{session}/interrupt"),
        };
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// Checks that the server has a session of that id.
    ///
    /// # Errors
    /// Of the kind `404` if there is no such session; otherwise if the server cannot be reached or responds with an
    /// error.
    pub async fn check_session(&self, session: &str) -> Result<(), Failure> {
        let session = segment(session)?;
        let path = match self.api {
            ServerApi::Classic => format!("/session/{session}"),
            ServerApi::Next => format!("/api/session/{session}"),
        };
        self.call(Method::GET, &path, None).await.map(drop)
    }

    /// Rejects a permission request, so that no dialog stays open for a stopped call. Classic interface only.
    pub(super) async fn reject_permission(&self, request: &str) -> Result<(), Failure> {
        let path = format!("/permission/{}/reply", segment(request)?);
        let body = json!({ "reply": "reject" });
        self.call(Method::POST, &path, Some(body)).await.map(drop)
    }

    /// Deletes a message, so that the model does not see it again. Classic interface only: the second one has no such
    /// request.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error; of the kind `unsupported` for the second interface.
    ///
    /// # Example: a deleted message
    /// ```
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// let server = Server::new(&url, ServerApi::Classic)?;
    /// runtime.block_on(server.delete_message("ses_1", "msg_1"))?;
    /// assert!(heard.join().unwrap()[0].starts_with("DELETE /session/ses_1/message/msg_1 "));
    ///
    /// let server = Server::new(&url, ServerApi::Next)?;
    /// let failure = runtime.block_on(server.delete_message("ses_1", "msg_1")).unwrap_err();
    /// assert_eq!(failure.kind(), "unsupported");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn delete_message(&self, session: &str, message: &str) -> Result<(), Failure> {
        if self.api != ServerApi::Classic {
            let why = "this interface cannot delete a message";
            return Err(Failure::new("unsupported", why));
        }
        let path = format!(
            "/session/{}/message/{}",
            segment(session)?,
            segment(message)?
        );
        self.call(Method::DELETE, &path, None).await.map(drop)
    }

    /// Answers a question request of the model by its id: for each of its questions, the chosen answers.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    ///
    /// # Example: two answers to one question
    /// ```
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// let server = Server::new(&url, ServerApi::Classic)?;
    /// runtime.block_on(server.answer("que_1", &[vec!["red".into(), "blue".into()]]))?;
    /// let heard = heard.join().unwrap();
    /// assert!(heard[0].starts_with("POST /question/que_1/reply "));
    /// assert!(heard[0].ends_with(r#"{"answers":[["red","blue"]]}"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn answer(&self, question: &str, answers: &[Vec<String>]) -> Result<(), Failure> {
        let path = format!("/question/{}/reply", segment(question)?);
        let body = json!({ "answers": answers });
        self.call(Method::POST, &path, Some(body)).await.map(drop)
    }

    /// Rejects a question request of the model by its id.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    ///
    /// # Example: a rejected question
    /// ```
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// let server = Server::new(&url, ServerApi::Classic)?;
    /// runtime.block_on(server.reject("que_1"))?;
    /// assert!(heard.join().unwrap()[0].starts_with("POST /question/que_1/reject "));
    /// let failure = runtime.block_on(server.reject("../session")).unwrap_err();
    /// assert_eq!(failure.kind(), "request", "that is not an id, and nothing was sent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn reject(&self, question: &str) -> Result<(), Failure> {
        let path = format!("/question/{}/reject", segment(question)?);
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// Sends a request and returns its whole response body.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let (mut connection, response) = self.send(method, path, body).await?;
        let mut body = response.into_body();
        let mut answer = Vec::new();
        while let Some(bytes) = within_patience(connection.read(&mut body)).await? {
            answer.extend_from_slice(&bytes);
            if answer.len() > ANSWER {
                return Err(Failure::new("protocol", "the answer is too long"));
            }
        }
        // Many responses have no body, or one that is not JSON.
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// Sends a request and returns the head of a successful response.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        let what = format!("{method} {path}");
        let ServerAddress {
            authority,
            path: base,
            ..
        } = &self.address;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{base}{path}"))
            .header("host", authority)
            .header("accept-encoding", "identity");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let body = body.map_or_else(String::new, |body| body.to_string());
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let request = request.map_err(|error| Failure::new("request", error.to_string()))?;
        let mut connection = within_patience(open(&self.address)).await?;
        let response = within_patience(connection.send(request)).await?;
        match response.status() {
            status if status.is_success() => Ok((connection, response)),
            status => Err(refusal(&what, status, connection, response).await),
        }
    }
}

/// Does not show the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

async fn refusal(
    what: &str,
    status: StatusCode,
    mut connection: Connection,
    response: Response<Incoming>,
) -> Failure {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Ok(Some(bytes)) = within_patience(connection.read(&mut body)).await {
        text.extend_from_slice(&bytes);
        if text.len() > EXCERPT * 4 {
            break;
        }
    }
    let text: String = String::from_utf8_lossy(&text)
        .chars()
        .take(EXCERPT)
        .collect();
    Failure::new(status.as_str(), format!("{what}: {}", text.trim()))
}

async fn within_patience<T>(doing: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let done = timeout(Server::PATIENCE, doing).await;
    done.unwrap_or_else(|_| Err(Failure::new("timeout", "the server does not answer")))
}

/// Returns an id as a path segment, or fails if it has characters that would change the path.
pub(super) fn segment(id: &str) -> Result<&str, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !id.is_empty() && id.chars().all(is_plain) {
        true => Ok(id),
        false => Err(Failure::new("request", format!("`{id}` is no id"))),
    }
}

/// The event stream of a server. Dropping it closes the connection.
///
/// # Example: the events of a server
/// ```
/// use ttsr_agent::opencode::{ServerApi, Server};
/// use ttsr_wire::opencode::ServerNotice;
/// # use ttsr_testing::listener;
/// # let (url, heard) = listener::answering(["data: {\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"ses_1\"}}\n\n"])?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// // The server at `url` sends one event and closes the stream.
/// let server = Server::new(&url, ServerApi::Classic)?;
/// runtime.block_on(async {
///     let mut events = server.events().await?; // before a prompt, so that no event is missed
///     assert_eq!(events.next().await?, Some(("ses_1".to_owned(), ServerNotice::Idle)));
///     assert_eq!(events.next().await?, None);
///     Ok::<(), ttsr::harness::Failure>(())
/// })?;
/// assert!(heard.join().unwrap()[0].starts_with("GET /global/event "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Events {
    connection: Connection,
    body: Incoming,
    feed: OpenCodeReader,
    ready: VecDeque<(String, ServerNotice)>,
    is_over: bool,
    /// The error that ended the stream, if it was not returned yet.
    broken: Option<Failure>,
}

impl Events {
    /// Returns the next notice with the id of its session, or `None` once the server closed the stream.
    ///
    /// Dropping the future before it is ready loses nothing.
    ///
    /// # Errors
    /// If the connection breaks or is silent for longer than [`Server::SILENCE`]. Notices read before the failure are
    /// returned first; replies in progress end as `truncated`.
    pub async fn next(&mut self) -> Result<Option<(String, ServerNotice)>, Failure> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Ok(Some(next));
            }
            if self.is_over {
                return self.broken.take().map_or(Ok(None), Err);
            }
            let read = timeout(Server::SILENCE, self.connection.read(&mut self.body)).await;
            let ready = &mut self.ready;
            let on = &mut |session: &str, notice| ready.push_back((session.to_owned(), notice));
            let silent = || Failure::new("timeout", "the event stream is silent");
            match read.unwrap_or_else(|_| Err(silent())) {
                Ok(Some(bytes)) => self.feed.push(&bytes, on),
                end => {
                    self.feed.finish(on);
                    self.is_over = true;
                    self.broken = end.err();
                }
            }
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}
