//! A prompt and its whole reply.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::server::{Events, Prompt, Server};
use ttsr::harness::{Cancel, Failure};
use ttsr::{Channel, Event, PartId};
use ttsr_wire::opencode::Notice;

/// How a prompt is asked.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Longest time until the reply is complete, in milliseconds. Default 300,000.
    pub timeout_ms: u64,
    /// The user's way to end it.
    pub cancel: Cancel,
}

impl Default for Asking {
    fn default() -> Asking {
        Asking {
            timeout_ms: 300_000,
            cancel: Cancel::default(),
        }
    }
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// It took too long.
    Timeout,
    /// The user, or someone else, stopped it.
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

/// What is said for a reply without text.
const EMPTY: &str = "(empty response)";

/// Puts a prompt to a session and waits until the session is idle: all text of the reply as one, in the
/// order of its parts, without reasoning. Events are heard from before the prompt is sent; those of other
/// sessions are ignored; the event stream is closed in every case.
///
/// Where the connection ends before the session is idle, the reply is what had come. A reply without text is
/// `(empty response)`. On a timeout and when `asking` is cancelled, the session is stopped; where somebody else
/// stopped it, it is left alone, for it may have something else to do by then.
///
/// # Errors
/// See [`AskError`].
///
/// # Example: a server that is not there
/// ```
/// use ttsr_agent::opencode::{Api, AskError, Asking, Prompt, Server, ask};
/// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let server = Server::new(&format!("http://{free}"), Api::Classic)?;
/// let prompt = Prompt::new("Write code please");
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let asked = runtime.block_on(ask(&server, "ses_1", &prompt, Asking::default()));
/// assert!(matches!(asked, Err(AskError::Failed(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn ask(
    server: &Server,
    session: &str,
    prompt: &Prompt,
    asking: Asking,
) -> Result<String, AskError> {
    let deadline = Instant::now() + Duration::from_millis(asking.timeout_ms);
    let mut heard = Heard::default();
    let ended = tokio::select! {
        biased;
        () = asking.cancel.cancelled() => Ended::GivenUp(AskError::Aborted),
        ended = converse(server, session, prompt, &mut heard) => Ended::Itself(ended),
        () = sleep_until(deadline) => Ended::GivenUp(AskError::Timeout),
    };
    match ended {
        Ended::Itself(ended) => ended.map(|()| heard.text()),
        Ended::GivenUp(error) => {
            // Nobody waits for it any more. If that fails, so be it: the error at hand is the news.
            server.abort(session).await.ok();
            Err(error)
        }
    }
}

/// How the wait for a reply ended.
enum Ended {
    /// The session is done, was stopped by somebody else, or failed.
    Itself(Result<(), AskError>),
    /// It goes on, and nobody waits for it.
    GivenUp(AskError),
}

async fn converse(
    server: &Server,
    session: &str,
    prompt: &Prompt,
    heard: &mut Heard,
) -> Result<(), AskError> {
    let mut events: Events = server.events().await?;
    server.prompt(session, prompt).await?;
    // An error here is the end of the connection, and what there is is the reply.
    while let Ok(Some((of, notice))) = events.next().await {
        if of == session && heard.take(notice)? {
            break;
        }
    }
    Ok(())
}

/// What was heard of a reply.
#[derive(Debug, Default)]
struct Heard {
    /// Text of every message of the reply, a part each, in order.
    texts: Vec<Vec<u8>>,
    /// The parts of the message that is being written: which text each is.
    parts: Vec<(PartId, usize)>,
    error: Option<Failure>,
}

impl Heard {
    /// Whether that was the end.
    fn take(&mut self, notice: Notice) -> Result<bool, AskError> {
        match notice {
            Notice::Message(_) => self.parts.clear(),
            Notice::Event(event) => return self.event(event),
            Notice::Idle => {
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
            // The server has it otherwise by now.
            Event::Snapshot { part, bytes } => {
                let known = self.parts.iter().find(|(known, _)| *known == part);
                if let Some((_, text)) = known {
                    self.texts[*text] = bytes;
                }
            }
            Event::Error { kind, message } => self.error = Some(Failure::new(kind, message)),
            Event::Finish { reason } if reason == "aborted" => return Err(AskError::Aborted),
            Event::Finish { reason } if reason == "retry" => {
                // What had come is written again.
                let first = self.parts.iter().map(|(_, text)| *text).min();
                self.texts.truncate(first.unwrap_or(self.texts.len()));
                self.parts.clear();
            }
            _ => {}
        }
        Ok(false)
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.texts.concat()).into_owned();
        match text.trim().is_empty() {
            true => EMPTY.to_owned(),
            false => text,
        }
    }
}
