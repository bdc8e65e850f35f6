//! A provider for tests, which plays recorded replies and remembers its requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Sleep, sleep};

use super::message::Request;
use super::provider::{EventStream, Failure, Provider};
use crate::{Channel, Event, PartId};

/// A recorded reply: its events, their pace and its end.
///
/// # Example: a connection that breaks after a text
/// ```
/// use ttsr::harness::{Failure, ScriptedReply};
/// let script = ScriptedReply::default()
///     .text("to be continued")
///     .cut(4)
///     .fail(Failure::new("reset", "connection reset by peer"));
/// assert_eq!(script.events().len(), 6);
/// ```
///
/// # Example: every kind of part
/// ```
/// use std::time::Duration;
/// use ttsr::Event;
/// use ttsr::harness::ScriptedReply;
/// let script = ScriptedReply::default()
///     .reasoning("Hm.")
///     .tool("read", "call_1", r#"{"path": "a.txt"}"#)
///     .event(Event::Usage { input: 20, output: 10 })
///     .finish("tool_use")
///     .every(Duration::from_millis(20));
/// assert_eq!(script.events().last(), Some(&Event::Finish { reason: "tool_use".into() }));
/// let silent = ScriptedReply::default().text("And then").yielding().hang();
/// assert_eq!(silent.events().len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ScriptedReply {
    events: Vec<Event>,
    parts: u32,
    end: ScriptEnd,
    pace: Pace,
}

#[derive(Clone, Debug, Default)]
enum ScriptEnd {
    #[default]
    Close,
    Fail(Failure),
    Hang,
}

/// The pace of events.
#[derive(Clone, Copy, Debug, Default)]
enum Pace {
    /// All events at once.
    #[default]
    AtOnce,
    /// One event per poll.
    Yielding,
    /// A pause before each event.
    Every(Duration),
}

impl From<Vec<Event>> for ScriptedReply {
    fn from(events: Vec<Event>) -> ScriptedReply {
        let parts = events.iter().filter_map(|event| match event {
            Event::PartStart { part, .. } => Some(part.0 + 1),
            _ => None,
        });
        ScriptedReply {
            parts: parts.max().unwrap_or(0),
            events,
            ..ScriptedReply::default()
        }
    }
}

impl ScriptedReply {
    /// Adds a text part.
    pub fn text(self, text: impl AsRef<[u8]>) -> ScriptedReply {
        self.part(Channel::Text, None, text.as_ref())
    }

    /// Adds a reasoning part.
    pub fn reasoning(self, text: impl AsRef<[u8]>) -> ScriptedReply {
        self.part(Channel::Reasoning, None, text.as_ref())
    }

    /// Adds a tool call.
    pub fn tool(self, tool: &str, call: &str, input: impl AsRef<[u8]>) -> ScriptedReply {
        self.part(Channel::ToolInput, Some((tool, call)), input.as_ref())
    }

    /// Adds an event.
    pub fn event(mut self, event: Event) -> ScriptedReply {
        self.events.push(event);
        self
    }

    /// Adds the end of the reply, with the provider's reason to stop.
    pub fn finish(self, reason: &str) -> ScriptedReply {
        self.event(Event::Finish {
            reason: reason.to_owned(),
        })
    }

    /// Splits every delta into pieces of `bytes` bytes (at least 1), also inside characters.
    pub fn cut(mut self, bytes: usize) -> ScriptedReply {
        let events = self.events.into_iter();
        self.events = events
            .flat_map(|event| pieces(event, bytes.max(1)))
            .collect();
        self
    }

    /// Ends the stream with a failure after the last event.
    pub fn fail(mut self, failure: Failure) -> ScriptedReply {
        self.end = ScriptEnd::Fail(failure);
        self
    }

    /// Keeps the stream open and silent after the last event.
    pub fn hang(mut self) -> ScriptedReply {
        self.end = ScriptEnd::Hang;
        self
    }

    /// Yields one event per poll.
    pub fn yielding(mut self) -> ScriptedReply {
        self.pace = Pace::Yielding;
        self
    }

    /// Waits for `pause` before each event.
    pub fn every(mut self, pause: Duration) -> ScriptedReply {
        self.pace = Pace::Every(pause);
        self
    }

    /// Returns the events.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    fn part(mut self, channel: Channel, tool: Option<(&str, &str)>, bytes: &[u8]) -> ScriptedReply {
        let part = PartId(self.parts);
        self.parts += 1;
        self.events.push(Event::PartStart {
            part,
            name: part.0.to_string(),
            channel,
            tool: tool.map(|(tool, _)| tool.to_owned()),
            call: tool.map(|(_, call)| call.to_owned()),
        });
        if !bytes.is_empty() {
            let bytes = bytes.to_vec();
            self.events.push(Event::Delta { part, bytes });
        }
        self.event(Event::PartEnd { part })
    }
}

fn pieces(event: Event, size: usize) -> Vec<Event> {
    let Event::Delta { part, bytes } = event else {
        return vec![event];
    };
    let pieces = bytes.chunks(size).map(|piece| Event::Delta {
        part,
        bytes: piece.to_vec(),
    });
    pieces.collect()
}

/// A [`Provider`] that plays one script per request, and the last script for every further request.
///
/// Clones share their scripts and requests, so that a test can keep one and pass another on.
///
/// # Example: requests and cancels are remembered
/// ```
/// use std::future::poll_fn;
/// use ttsr::harness::{Provider, Request, Scripted, ScriptedReply};
/// let mut provider = Scripted::new([ScriptedReply::default().text("one"), ScriptedReply::default().text("two")]);
/// let mut first = provider.send(&Request::new("a-model", Vec::new()));
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// while let Some(event) = runtime.block_on(poll_fn(|cx| first.as_mut().poll_next(cx))) {
///     event?;
/// }
/// drop(provider.send(&Request::new("another", Vec::new())));
/// assert_eq!(provider.requests()[1].model, "another");
/// assert_eq!(provider.cancelled(), [false, true], "nobody read the second reply");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scripted {
    played: Arc<Mutex<ScriptedState>>,
}

#[derive(Debug)]
struct ScriptedState {
    scripts: VecDeque<ScriptedReply>,
    requests: Vec<Request>,
    /// For each request, true if its stream was dropped before its end.
    cancelled: Vec<bool>,
}

impl Scripted {
    /// Returns a provider that plays these scripts. Without a script, every reply ends at once.
    pub fn new(scripts: impl IntoIterator<Item = ScriptedReply>) -> Scripted {
        Scripted {
            played: Arc::new(Mutex::new(ScriptedState {
                scripts: scripts.into_iter().collect(),
                requests: Vec::new(),
                cancelled: Vec::new(),
            })),
        }
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// Returns, for each request, true if its stream was dropped before its end.
    #[must_use]
    pub fn cancelled(&self) -> Vec<bool> {
        self.lock().cancelled.clone()
    }

    fn lock(&self) -> MutexGuard<'_, ScriptedState> {
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for Scripted {
    fn send(&mut self, request: &Request) -> EventStream {
        let mut played = self.lock();
        played.requests.push(request.clone());
        played.cancelled.push(false);
        let script = match played.scripts.len() {
            0 => ScriptedReply::default(),
            1 => played.scripts[0].clone(),
            _ => played.scripts.pop_front().unwrap_or_default(),
        };
        Box::pin(Playing {
            number: played.requests.len() - 1,
            events: script.events.into(),
            end: Some(script.end),
            pace: script.pace,
            is_due: false,
            pause: None,
            played: Arc::clone(&self.played),
        })
    }
}

struct Playing {
    number: usize,
    events: VecDeque<Event>,
    /// `None` after the end of the stream.
    end: Option<ScriptEnd>,
    pace: Pace,
    /// True if the task was woken for the next event.
    is_due: bool,
    pause: Option<Pin<Box<Sleep>>>,
    played: Arc<Mutex<ScriptedState>>,
}

impl Stream for Playing {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.poll_due(cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(event) = self.events.pop_front() {
            self.is_due = false;
            return Poll::Ready(Some(Ok(event)));
        }
        match self.end.take() {
            None | Some(ScriptEnd::Close) => Poll::Ready(None),
            Some(ScriptEnd::Fail(failure)) => Poll::Ready(Some(Err(failure))),
            Some(ScriptEnd::Hang) => {
                self.end = Some(ScriptEnd::Hang);
                Poll::Pending
            }
        }
    }
}

impl Playing {
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.pace {
            Pace::AtOnce => {}
            Pace::Yielding if !self.is_due => {
                self.is_due = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Pace::Yielding => {}
            Pace::Every(pause) if !self.is_due => {
                let sleeping = self.pause.get_or_insert_with(|| Box::pin(sleep(pause)));
                if sleeping.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
                self.is_due = true;
            }
            Pace::Every(_) => {}
        }
        Poll::Ready(())
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if self.end.is_some() {
            let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
            played.cancelled[self.number] = true;
        }
    }
}
