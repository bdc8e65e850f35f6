//! The client: what a server can be asked for.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::address::{Address, open};
use crate::http::Connection;
use ttsr::harness::Failure;
use ttsr_wire::opencode::{Feed, Notice};

/// Which of the server's interfaces is used. A session is driven through one of them, and only that one
/// tells of it in full.
///
/// # Example: which interface a session is driven through
/// ```
/// use ttsr_agent::opencode::{Api, Server};
/// let server = Server::new("http://127.0.0.1:4096", Api::default())?;
/// assert_eq!(server.api().name(), "classic");
/// assert_eq!(Api::Next.name(), "next");
/// # Ok::<(), ttsr::harness::Failure>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// `/event` and `/session/…`: what OpenCode's own programs use. The input of a tool is told when the
    /// tool already runs.
    #[default]
    Classic,
    /// `/api/…`: the input of a tool is told as it is written, so it can be stopped in time.
    Next,
}

impl Api {
    /// `classic` or `next`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Api::Classic => "classic",
            Api::Next => "next",
        }
    }
}

/// Something to say to a session in the user's name.
///
/// # Example: a question, and a word aside
/// ```
/// use ttsr_agent::opencode::Prompt;
/// let question = Prompt::new("What is left to do?");
/// let aside = Prompt { is_aside: true, ..Prompt::new("No lists, please.") };
/// assert!(aside.is_aside && !question.is_aside);
/// assert_eq!(question.agent, None, "the session's own");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// What is said.
    pub text: String,
    /// The agent that is asked; none: the session's own. Classic interface only.
    pub agent: Option<String>,
    /// The provider and the model that are asked; none: the session's own. Classic interface only.
    pub model: Option<(String, String)>,
    /// Only put it into the conversation: a reply under way goes on, and the next one will know of it.
    pub is_aside: bool,
}

impl Prompt {
    /// A prompt that wants an answer.
    pub fn new(text: impl Into<String>) -> Prompt {
        Prompt {
            text: text.into(),
            ..Prompt::default()
        }
    }
}

/// A running OpenCode server.
///
/// Every request is a connection of its own and is given up when the server says nothing for
/// [`PATIENCE`](Server::PATIENCE). Redirects are not followed. An answer may have 16 MiB. Ids of sessions,
/// messages and questions are letters, digits, `_` and `-`; with anything else nothing is sent, and the
/// [kind](Failure::kind) of the failure is `request`. Where the server says no, the kind is the status, such as
/// `404`. Needs a tokio runtime with I/O and time.
///
/// # Example: ask, and stop
/// ```
/// use ttsr_agent::opencode::{Api, Prompt, Server};
/// # use ttsr_testing::listener;
/// # let (url, heard) = listener::answering([r#"{"id":"ses_1"}"#, "true", "true"])?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// // At `url` there is a server; `heard` is what it was asked.
/// let server = Server::new(&url, Api::Classic)?;
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
    address: Address,
    api: Api,
    /// The value of the header.
    authorization: Option<String>,
}

/// Most bytes of an answer that is not a stream.
const ANSWER: usize = 16 << 20;

/// Most characters shown of an answer that says no.
const EXCERPT: usize = 200;

impl Server {
    /// How long a server may take for the head of an answer, and for each piece of its body.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// How long an event stream may be silent. Servers send a heartbeat every ten seconds.
    pub const SILENCE: Duration = Duration::from_secs(35);

    /// The server at that address, such as `http://127.0.0.1:4096`. Nothing is connected yet.
    ///
    /// # Errors
    /// If it is no such address: with `https`, a user, or a query. TLS is not spoken.
    pub fn new(url: &str, api: Api) -> Result<Server, Failure> {
        Ok(Server {
            address: Address::parse(url)?,
            api,
            authorization: None,
        })
    }

    /// The same server, which wants to know who is there: user and password go with every request, in the
    /// clear as all else (`Basic`). `Debug` does not show them.
    ///
    /// # Example: who is there
    /// ```
    /// use ttsr_agent::opencode::{Api, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // At `url` there is a server; `heard` is what it was asked.
    /// let server = Server::new(&url, Api::Classic)?.with_password("opencode", "secret");
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

    /// The interface that is used.
    #[must_use]
    pub fn api(&self) -> Api {
        self.api
    }

    /// Subscribes to the events of all sessions. The classic interface reports the sessions of every
    /// directory (`/global/event`); a server without that stream (404) reports those of its own directory
    /// (`/event`).
    ///
    /// # Errors
    /// If the server cannot be reached or says no.
    pub async fn events(&self) -> Result<Events, Failure> {
        let path = match self.api {
            Api::Classic => "/global/event",
            Api::Next => "/api/event",
        };
        let answered = match self.send(Method::GET, path, None).await {
            Err(failure) if failure.kind() == "404" && self.api == Api::Classic => {
                self.send(Method::GET, "/event", None).await
            }
            answered => answered,
        };
        let (connection, response) = answered?;
        Ok(Events {
            connection,
            body: response.into_body(),
            feed: Feed::default(),
            ready: VecDeque::new(),
            is_over: false,
            broken: None,
        })
    }

    /// Makes a session; its id.
    ///
    /// # Errors
    /// If the server cannot be reached, says no or names no id.
    pub async fn create_session(&self) -> Result<String, Failure> {
        let path = match self.api {
            Api::Classic => "/session",
            Api::Next => "/api/session",
        };
        let made = self.call(Method::POST, path, Some(json!({}))).await?;
        let id = made.pointer("/data/id").or(made.get("id"));
        let id = id.and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| Failure::new("protocol", "the server named no session"))
    }

    /// Says something to a session, and does not wait for the reply.
    ///
    /// # Errors
    /// If the server cannot be reached or says no.
    pub async fn prompt(&self, session: &str, prompt: &Prompt) -> Result<(), Failure> {
        let session = segment(session)?;
        let (path, body) = match self.api {
            Api::Classic => {
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
            Api::Next => {
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

    /// Stops what a session does.
    ///
    /// # Errors
    /// If the server cannot be reached or says no.
    pub async fn abort(&self, session: &str) -> Result<(), Failure> {
        let session = segment(session)?;
        let path = match self.api {
            Api::Classic => format!("/session/{session}/abort"),
            Api::Next => format!("/api/session/{session}/interrupt"),
        };
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// Fails unless the server has a session of that id.
    ///
    /// # Errors
    /// Of the kind `404` if there is no such session; otherwise if the server cannot be reached or says no.
    pub async fn check_session(&self, session: &str) -> Result<(), Failure> {
        let session = segment(session)?;
        let path = match self.api {
            Api::Classic => format!("/session/{session}"),
            Api::Next => format!("/api/session/{session}"),
        };
        self.call(Method::GET, &path, None).await.map(drop)
    }

    /// Rejects a permission request, so that no dialog stays open for a call that was stopped. Classic interface
    /// only.
    pub(super) async fn reject_permission(&self, request: &str) -> Result<(), Failure> {
        let path = format!("/permission/{}/reply", segment(request)?);
        let body = json!({ "reply": "reject" });
        self.call(Method::POST, &path, Some(body)).await.map(drop)
    }

    /// Deletes a message, so that the model does not see it again. Classic interface only: the other one has
    /// no such request.
    ///
    /// # Errors
    /// If the server cannot be reached or says no; of the kind `unsupported` for the other interface.
    ///
    /// # Example: it was never said
    /// ```
    /// use ttsr_agent::opencode::{Api, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // At `url` there is a server; `heard` is what it was asked.
    /// let server = Server::new(&url, Api::Classic)?;
    /// runtime.block_on(server.delete_message("ses_1", "msg_1"))?;
    /// assert!(heard.join().unwrap()[0].starts_with("DELETE /session/ses_1/message/msg_1 "));
    ///
    /// let server = Server::new(&url, Api::Next)?;
    /// let failure = runtime.block_on(server.delete_message("ses_1", "msg_1")).unwrap_err();
    /// assert_eq!(failure.kind(), "unsupported");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn delete_message(&self, session: &str, message: &str) -> Result<(), Failure> {
        if self.api != Api::Classic {
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

    /// Answers what the model asked, by the id of the request: for each of its questions the answers chosen.
    ///
    /// # Errors
    /// If the server cannot be reached or says no.
    ///
    /// # Example: two answers to one question
    /// ```
    /// use ttsr_agent::opencode::{Api, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // At `url` there is a server; `heard` is what it was asked.
    /// let server = Server::new(&url, Api::Classic)?;
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

    /// Tells the model that what it asked, by the id of the request, is not answered.
    ///
    /// # Errors
    /// If the server cannot be reached or says no.
    ///
    /// # Example: nobody answers
    /// ```
    /// use ttsr_agent::opencode::{Api, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // At `url` there is a server; `heard` is what it was asked.
    /// let server = Server::new(&url, Api::Classic)?;
    /// runtime.block_on(server.reject("que_1"))?;
    /// assert!(heard.join().unwrap()[0].starts_with("POST /question/que_1/reject "));
    /// let failure = runtime.block_on(server.reject("../session")).unwrap_err();
    /// assert_eq!(failure.kind(), "request", "that is no id, and nothing was sent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn reject(&self, question: &str) -> Result<(), Failure> {
        let path = format!("/question/{}/reject", segment(question)?);
        self.call(Method::POST, &path, None).await.map(drop)
    }

    /// A request and its whole answer.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let (mut connection, response) = self.send(method, path, body).await?;
        let mut body = response.into_body();
        let mut answer = Vec::new();
        while let Some(bytes) = patiently(connection.read(&mut body)).await? {
            answer.extend_from_slice(&bytes);
            if answer.len() > ANSWER {
                return Err(Failure::new("protocol", "the answer is too long"));
            }
        }
        // Many answers say nothing but that they are one.
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// A request and the head of its answer, which says yes.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        let what = format!("{method} {path}");
        let Address {
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
        let mut connection = patiently(open(&self.address)).await?;
        let response = patiently(connection.ask(request)).await?;
        match response.status() {
            status if status.is_success() => Ok((connection, response)),
            status => Err(refused(&what, status, connection, response).await),
        }
    }
}

/// The password stays where it is.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

async fn refused(
    what: &str,
    status: StatusCode,
    mut connection: Connection,
    response: Response<Incoming>,
) -> Failure {
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Ok(Some(bytes)) = patiently(connection.read(&mut body)).await {
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

async fn patiently<T>(doing: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let done = timeout(Server::PATIENCE, doing).await;
    done.unwrap_or_else(|_| Err(Failure::new("timeout", "the server does not answer")))
}

/// An id as part of a path: nothing that would make it another path.
pub(super) fn segment(id: &str) -> Result<&str, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !id.is_empty() && id.chars().all(is_plain) {
        true => Ok(id),
        false => Err(Failure::new("request", format!("`{id}` is no id"))),
    }
}

/// The event stream of a server. Dropping it closes the connection.
///
/// # Example: what a server tells, until it goes
/// ```
/// use ttsr_agent::opencode::{Api, Server};
/// use ttsr_wire::opencode::Notice;
/// # use ttsr_testing::listener;
/// # let (url, heard) = listener::answering(["data: {\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"ses_1\"}}\n\n"])?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// // At `url` a server tells one thing, and closes the stream.
/// let server = Server::new(&url, Api::Classic)?;
/// runtime.block_on(async {
///     let mut events = server.events().await?; // before a prompt, so that nothing is missed
///     assert_eq!(events.next().await?, Some(("ses_1".to_owned(), Notice::Idle)));
///     assert_eq!(events.next().await?, None);
///     Ok::<(), ttsr::harness::Failure>(())
/// })?;
/// assert!(heard.join().unwrap()[0].starts_with("GET /global/event "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Events {
    connection: Connection,
    body: Incoming,
    feed: Feed,
    ready: VecDeque<(String, Notice)>,
    is_over: bool,
    /// Why it broke off, if that was not told yet.
    broken: Option<Failure>,
}

impl Events {
    /// What happened next, and in which session; none once the server closed the stream.
    ///
    /// Dropping the future before it is ready loses nothing.
    ///
    /// # Errors
    /// If the connection breaks or is silent for longer than [`Server::SILENCE`]. What was read before comes
    /// first, and replies that were under way have broken off.
    pub async fn next(&mut self) -> Result<Option<(String, Notice)>, Failure> {
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
