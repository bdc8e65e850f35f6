//! Sends a prompt and waits for the whole reply.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::server::{Events, Prompt, Server};
use ttsr::harness::{Cancel, Failure, is_truncation};
use ttsr::{Channel, Event, PartId};
use ttsr_wire::opencode::ServerNotice;

/// The options of [`ask`].
#[derive(Clone, Debug)]
pub struct AskOptions {
    /// The time limit until the reply is complete, in milliseconds. Default 300,000.
    pub timeout_ms: u64,
    /// Cancels the prompt.
    pub cancel: Cancel,
}

impl Default for AskOptions {
    fn default() -> AskOptions {
        AskOptions {
            timeout_ms: 300_000,
            cancel: Cancel::default(),
        }
    }
}

/// The reason why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The time limit passed.
    Timeout,
    /// The reply was stopped, by the user or by somebody else.
    Aborted,
    /// The server or its model failed.
    Failed(Failure),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Timeout => f.write_str("timeout"),
            AskError::Aborted => f.write_str("aborted"),
            AskError::Failed(failure) => failure.fmt(f),
        }
    }
}

impl Error for AskError {}

impl From<Failure> for AskError {
    fn from(failure: Failure) -> AskError {
        AskError::Failed(failure)
    }
}

/// A whole reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeReply {
    /// All of its text, in the order of its parts, without reasoning; `(empty response)` if there is none.
    pub text: String,
    /// True if a limit of length ended it ([`is_truncation`]): the text is the beginning of an answer.
    pub is_truncated: bool,
}

/// The result for a reply without text.
const EMPTY: &str = "(empty response)";

/// Sends a prompt to a session and waits until the session is idle. Returns the whole
/// reply. The event stream is opened before the prompt is sent and closed in every case; events
/// of other sessions are ignored.
///
/// If the connection ends before the session is idle, the reply is what has arrived. A reply without text is `(empty
/// response)`. On a timeout and when `asking` is cancelled, the session is stopped, unless somebody else stopped it:
/// then it may already do something else.
///
/// # Errors
/// See [`AskError`].
///
/// # Panics
/// If it is polled outside of a tokio runtime with I/O and time enabled.
///
/// # Example: a server that does not run
/// ```
/// use ttsr_agent::opencode::{ServerApi, AskError, AskOptions, Prompt, Server, ask};
/// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let server = Server::new(&format!("http://{free}"), ServerApi::Classic)?;
/// let prompt = Prompt::new("Write code please");
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let asked = runtime.block_on(ask(&server, "ses_1", &prompt, AskOptions::default()));
/// assert!(matches!(asked, Err(AskError::Failed(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn ask(
    server: &Server,
    session: &str,
    prompt: &Prompt,
    asking: AskOptions,
) -> Result<WholeReply, AskError> {
    let deadline = Instant::now() + Duration::from_millis(asking.timeout_ms);
    let mut heard = ReplyCollector::default();
    let ended = tokio::select! {
        biased;
        () = asking.cancel.cancelled() => WaitEnd::GivenUp(AskError::Aborted),
        ended = collect_reply(server, session, prompt, &mut heard) => WaitEnd::Itself(ended),
        () = sleep_until(deadline) => WaitEnd::GivenUp(AskError::Timeout),
    };
    match ended {
        WaitEnd::Itself(ended) => ended.map(|()| heard.reply()),
        WaitEnd::GivenUp(error) => {
            // The caller no longer waits for the reply. A failed stop is ignored: the first error is the result.
            server.abort(session).await.ok();
            Err(error)
        }
    }
}

/// The end of the wait for a reply.
enum WaitEnd {
    /// The session is done, was stopped by somebody else, or failed.
    Itself(Result<(), AskError>),
    /// The session continues, but the caller no longer waits for it.
    GivenUp(AskError),
}

async fn collect_reply(
    server: &Server,
    session: &str,
    prompt: &Prompt,
    heard: &mut ReplyCollector,
) -> Result<(), AskError> {
    let mut events: Events = server.events().await?;
    server.prompt(session, prompt).await?;
    // An error here is the end of the connection: the reply is what has arrived.
    while let Ok(Some((of, notice))) = events.next().await {
        if of == session && heard.on_notice(notice)? {
            break;
        }
    }
    Ok(())
}

/// Collects the text of a reply.
#[derive(Debug, Default)]
struct ReplyCollector {
    /// The text parts of every message of the reply, in order.
    texts: Vec<Vec<u8>>,
    /// The parts of the message in progress, each with the index of its text.
    parts: Vec<(PartId, usize)>,
    error: Option<Failure>,
    /// The message that ended last did so by a limit of length.
    is_truncated: bool,
}

impl ReplyCollector {
    /// Handles a notice; returns true at the end of the reply.
    fn on_notice(&mut self, notice: ServerNotice) -> Result<bool, AskError> {
        match notice {
            ServerNotice::Message(_) => self.parts.clear(),
            ServerNotice::Event(event) => return self.event(event),
            ServerNotice::Idle => {
                let error = self.error.take();
                return error.map_or(Ok(true), |error| Err(error.into()));
            }
            _ => {}
        }
        Ok(false)
    }

    fn event(&mut self, event: Event) -> Result<bool, AskError> {
        match event {
            Event::PartStart {
                part,
                channel: Channel::Text,
                ..
            } => {
                self.parts.push((part, self.texts.len()));
                self.texts.push(Vec::new());
            }
            Event::Delta { part, bytes } => {
                let known = self.parts.iter().find(|(known, _)| *known == part);
                if let Some((_, text)) = known {
                    self.texts[*text].extend_from_slice(&bytes);
                }
            }
            // The server may have changed the text.
            Event::Snapshot { part, bytes } => {
                let known = self.parts.iter().find(|(known, _)| *known == part);
                if let Some((_, text)) = known {
                    self.texts[*text] = bytes;
                }
            }
            Event::Error { kind, message } => self.error = Some(Failure::new(kind, message)),
            Event::Finish { reason } if reason == "aborted" => return Err(AskError::Aborted),
            Event::Finish { reason } if reason == "retry" => {
                // The server writes the message again from the start.
                let first = self.parts.iter().map(|(_, text)| *text).min();
                self.texts.truncate(first.unwrap_or(self.texts.len()));
                self.parts.clear();
            }
            Event::Finish { reason } => self.is_truncated = is_truncation(&reason),
            _ => {}
        }
        Ok(false)
    }

    fn reply(&self) -> WholeReply {
        WholeReply {
            text: self.text(),
            is_truncated: self.is_truncated,
        }
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.texts.concat()).into_owned();
        match text.trim().is_empty() {
            true => EMPTY.to_owned(),
            false => text,
        }
    }
}
